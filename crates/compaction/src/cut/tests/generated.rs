//! Invariants of cuts, checked on generated transcripts.

use facts::{TranscriptItem, TranscriptItemKind};
use jiff::Timestamp;
use journal::view;
use model::Provider;
use model::transcript::{AvailableMedia, ProviderProfile, find_violations, legalize, pair_results};
use protocol::message::{HumanMessage, ToolMessage, ToolStatus};
use protocol::{
    AiMessage, CarriedFacts, Compaction, CompactionTrigger, CondensedSummary, ContentBlock, Event, EventType,
    Message, NewEvent, SCHEMA_VERSION, ThreadId, Usage,
};
use serde_json::json;

use super::super::*;

/// Returns the divisor of the full counts.
fn reduction() -> u64 {
    test_counts::count(50, 1)
}

/// The full number of generated transcripts. Each is cut at every position that a keep policy can lead to.
const TRANSCRIPTS_FULL: u64 = 100_000;
/// The number of transcripts that are stored and projected by the journal's own view.
const STORED: u64 = 200;
/// The wire formats with different rules.
const PROFILES: [Provider; 3] = [Provider::Anthropic, Provider::OpenAi, Provider::Gemini];

/// A generator of pseudorandom numbers (SplitMix64). The same seed gives the same numbers.
struct SeededNumbers(u64);

impl SeededNumbers {
    /// Returns a number below `max`.
    fn below(&mut self, max: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % max
    }
}

/// A generator of irregular transcripts: call ids are reused, results come late, twice, without a call or never, and
/// some transcripts lack a range that memory has archived.
struct TranscriptGenerator {
    /// The random numbers.
    numbers: SeededNumbers,
    /// The messages so far.
    messages: Vec<ContextMessage>,
    /// The ids of the calls without a result.
    open: Vec<String>,
    /// The number of distinct call ids so far.
    calls: u64,
}

impl TranscriptGenerator {
    fn push_message(&mut self, message: Message, injected: bool) {
        let seq = self.messages.len() as u64 * 2 + 1;
        let tokens = 1 + self.numbers.below(40);
        let item = TranscriptItem {
            seq,
            at: Timestamp::UNIX_EPOCH,
            kind: TranscriptItemKind::Message(message),
            is_subagent: false,
            is_injected: injected,
            is_imported: false,
        };
        self.messages.push(ContextMessage { item, tokens });
    }

    fn push_human(&mut self) {
        let content = match self.numbers.below(8) {
            0 => vec![],
            1 => vec![ContentBlock::text("  ")],
            2 => vec![ContentBlock::Media { media_type: "image/png".to_owned(), sha256: None, bytes: None }],
            _ => vec![ContentBlock::text("do it")],
        };
        let injected = self.numbers.below(6) == 0;
        self.push_message(Message::Human(HumanMessage { id: None, content }), injected);
    }

    fn next_call_id(&mut self) -> String {
        match self.numbers.below(10) {
            0 => String::new(),
            1 | 2 => format!("again_{}", self.numbers.below(2)),
            _ => {
                self.calls += 1;
                format!("call {}", self.calls)
            }
        }
    }

    fn push_ai_message(&mut self) {
        let mut content = Vec::new();
        if self.numbers.below(4) == 0 {
            let raw = json!({"type": "thinking", "thinking": "hm", "signature": "s"});
            content.push(ContentBlock::Thinking {
                text: "hm".to_owned(),
                provider: Some("anthropic".to_owned()),
                raw: Some(raw),
            });
        }
        if self.numbers.below(3) > 0 {
            content.push(ContentBlock::text("so"));
        }
        for _ in 0..[0, 0, 1, 1, 2, 3][self.numbers.below(6) as usize] {
            let id = self.next_call_id();
            self.open.push(id.clone());
            content.push(ContentBlock::ToolCall { id, name: "read".to_owned(), args: json!({}) });
        }
        self.push_message(Message::Ai(AiMessage { content, ..AiMessage::default() }), false);
    }

    /// Removes the messages from one human message up to a later one, as an archived range.
    fn push_archive(&mut self) {
        let is_human = |entry: &&ContextMessage| matches!(message(entry), Message::Human(_));
        let turns: Vec<u64> = self.messages.iter().filter(is_human).map(|entry| entry.item.seq).collect();
        if turns.len() < 2 {
            return;
        }
        let from = self.numbers.below(turns.len() as u64 - 1) as usize;
        let to = from + 1 + self.numbers.below((turns.len() - 1 - from) as u64) as usize;
        self.messages.retain(|entry| !(turns[from]..turns[to]).contains(&entry.item.seq));
    }

    fn push_tool_result(&mut self) {
        let call_id = match (self.open.len(), self.numbers.below(12)) {
            (0, _) | (_, 0) => self.next_call_id(),
            (open, kind) => {
                let index = self.numbers.below(open as u64) as usize;
                if kind == 1 { self.open[index].clone() } else { self.open.remove(index) }
            }
        };
        let content = vec![ContentBlock::text("row")];
        let result = ToolMessage { id: None, call_id, name: None, content, status: ToolStatus::Success };
        self.push_message(Message::Tool(result), false);
    }
}

/// Returns the transcript for a seed.
fn transcript(seed: u64) -> Vec<ContextMessage> {
    let numbers = SeededNumbers(seed.wrapping_mul(0x5851_f42d_4c95_7f2d));
    let mut generator = TranscriptGenerator { numbers, messages: Vec::new(), open: Vec::new(), calls: 0 };
    let length = 1 + generator.numbers.below(13);
    for _ in 0..length {
        match (generator.open.is_empty(), generator.numbers.below(10)) {
            (true, 0..=4) | (false, 0) => generator.push_human(),
            (true, 5..=8) | (false, 1 | 2) => generator.push_ai_message(),
            (_, _) => generator.push_tool_result(),
        }
    }
    if seed.is_multiple_of(3) {
        generator.push_archive();
    }
    generator.messages
}

/// Returns the message of an entry.
fn message(entry: &ContextMessage) -> &Message {
    match &entry.item.kind {
        TranscriptItemKind::Message(message) => message,
        _ => unreachable!("only messages are generated"),
    }
}

/// Calls `check` with every distinct cut of every transcript.
fn every_cut(mut check: impl FnMut(u64, &[ContextMessage], CompactionCut)) {
    for seed in 0..TRANSCRIPTS_FULL / reduction() {
        let messages = transcript(seed);
        let mut last = None;
        for keep in 0..messages.len() as u64 {
            let cut = find_cut(&messages, None, KeepPolicy::Messages(keep), None);
            if let Some(cut) = cut.filter(|_| cut != last) {
                check(seed, &messages, cut);
            }
            last = cut;
        }
        let by_tokens = find_cut(&messages, Some(0), KeepPolicy::Tokens(seed % 90), None);
        by_tokens.into_iter().for_each(|cut| check(seed, &messages, cut));
    }
}

/// Returns the messages of the context after a cut: the summary, the repeated request, and the kept messages.
fn project_context(messages: &[ContextMessage], cut: CompactionCut) -> Vec<Message> {
    let summary =
        Message::human("<earlier_conversation_summary>\nThe work so far.\n</earlier_conversation_summary>");
    let request = messages.iter().filter(|entry| Some(entry.item.seq) == cut.last_request_seq);
    let kept = messages.iter().filter(|entry| entry.item.seq > cut.last_seq);
    std::iter::once(summary).chain(request.chain(kept).map(|entry| message(entry).clone())).collect()
}

#[test]
fn l1_after_any_cut_of_any_transcript_the_request_is_legal() {
    let (available, mut cuts) = (AvailableMedia::new(), 0_u64);
    every_cut(|seed, messages, cut| {
        cuts += 1;
        let sent = project_context(messages, cut);
        for provider in PROFILES {
            let profile = ProviderProfile::for_provider(provider);
            let made = legalize(&sent, &available, &profile);
            assert_eq!(find_violations(&made, &profile), [], "transcript {seed} for {provider:?}: {sent:#?}");
        }
    });
    assert!(cuts > 200_000 / reduction(), "{cuts} cuts are too few");
}

#[test]
fn l2_no_cut_separates_a_call_from_its_result_and_the_newest_batch_is_kept() {
    every_cut(|seed, messages, cut| {
        let cut_index = messages.partition_point(|entry| entry.item.seq <= cut.last_seq);
        let whole = pair_results(messages.iter().map(message));
        let calls = |messages: &[ContextMessage]| {
            messages.iter().map(|entry| message(entry).tool_calls().count()).sum()
        };
        let compacted: usize = calls(&messages[..cut_index]);
        for result in whole[..compacted].iter().flatten() {
            assert!(*result < cut_index, "transcript {seed} cut at {cut_index}: {messages:#?}");
        }
        let kept: Vec<Option<usize>> = pair_results(messages[cut_index..].iter().map(message));
        let same: Vec<Option<usize>> =
            whole[compacted..].iter().map(|result| result.map(|index| index - cut_index)).collect();
        assert_eq!(kept, same, "transcript {seed} cut at {cut_index}: {messages:#?}");
        let has_other = messages[1..].iter().any(|entry| !matches!(message(entry), Message::Tool(_)));
        let is_result = matches!(message(&messages[cut_index]), Message::Tool(_));
        let is_joined = messages.len() > 1
            && super::super::cut_candidates(messages)
                .iter()
                .all(|start| matches!(message(&messages[*start]), Message::Tool(_)));
        assert!(!is_result || !has_other || is_joined, "transcript {seed} cut at {cut_index}: {messages:#?}");
    });
}

#[test]
fn c2_e4_a_cut_counts_its_messages_and_keeps_the_last_request() {
    every_cut(|seed, messages, cut| {
        let cut_index = messages.partition_point(|entry| entry.item.seq <= cut.last_seq);
        assert!(cut_index > 0 && cut_index < messages.len(), "transcript {seed}");
        assert_eq!(
            (cut.replaced_count, cut.kept_count),
            (cut_index as u64, (messages.len() - cut_index) as u64),
            "transcript {seed}"
        );
        let last =
            messages.iter().rev().find(|entry| is_user_request(&entry.item)).map(|entry| entry.item.seq);
        if let Some(last) = last {
            let sent = cut.last_request_seq == Some(last) || last > cut.last_seq;
            assert!(sent, "transcript {seed} loses request {last}: {cut:?}");
        }
        assert_eq!(cut.request_answered.is_some(), cut.last_request_seq.is_some());
    });
}

/// Returns the events of a thread with these messages and a compaction at the cut.
fn to_events(messages: &[ContextMessage], cut: CompactionCut) -> Vec<Event> {
    let thread_id = ThreadId::generate();
    let event = |seq, event: NewEvent| Event::from_new(event, thread_id, seq);
    let mut events: Vec<Event> = messages
        .iter()
        .map(|entry| {
            let new =
                NewEvent::from_message(message(entry), Timestamp::UNIX_EPOCH).expect("messages are JSON");
            event(entry.item.seq, new)
        })
        .collect();
    let compaction = Compaction {
        schema_version: SCHEMA_VERSION,
        trigger: CompactionTrigger::Auto,
        first_seq: 1,
        last_seq: cut.last_seq,
        replaced_count: cut.replaced_count,
        kept_count: cut.kept_count,
        tokens_before: 0,
        tokens_after: 0,
        model: String::new(),
        summary: "The work so far.".to_owned(),
        sections: CondensedSummary::default(),
        carried: CarriedFacts::default(),
        last_request_seq: cut.last_request_seq,
        previous_seq: None,
        focus: None,
        duration_ms: 0,
        step: 0,
        usage: Usage::default(),
        prompt_sha256: None,
    };
    let compacted = NewEvent::new(EventType::Compacted, &compaction, Timestamp::UNIX_EPOCH);
    let last = messages.last().map_or(0, |entry| entry.item.seq);
    events.push(event(last + 1, compacted.expect("a compaction is JSON")));
    events
}

#[test]
fn e10_the_context_view_of_the_journal_equals_the_projection_of_these_tests() {
    let mut compared = 0;
    every_cut(|seed, messages, cut| {
        if seed % (TRANSCRIPTS_FULL / reduction() / STORED) == 0 && cut.last_request_seq != Some(0) {
            let sent: Vec<Message> =
                view::context(&to_events(messages, cut)).into_iter().map(|(_, message)| message).collect();
            assert_eq!(sent, project_context(messages, cut), "transcript {seed}: {cut:?}");
            compared += 1;
        }
    });
    assert!(compared > 300, "{compared} comparisons are too few");
}
