//! What must come of every transcript, wherever it is cut.

use facts::{Item, What};
use jiff::Timestamp;
use journal::view;
use model::Provider;
use model::transcript::{Available, Profile, legal, pair, violations};
use protocol::message::{HumanMessage, ToolMessage, ToolStatus};
use protocol::{
    AiMessage, Block, CarryOver, Compaction, CompactionTrigger, CondensedSummary, Event, EventType, Message,
    NewEvent, SCHEMA_VERSION, ThreadId, Usage,
};
use serde_json::json;

use super::super::*;

/// Transcripts of a run; each is cut at every place that `keep` can lead to.
const TRANSCRIPTS: u64 = 100_000;
/// Every so manieth transcript is stored and projected by the journal's own view.
const STORED: u64 = 500;
/// Wire formats whose rules differ.
const PROFILES: [Provider; 3] = [Provider::Anthropic, Provider::OpenAi, Provider::Gemini];

/// A source of numbers that look random, the same for the same seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, max: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % max
    }
}

/// A transcript being made: ids are used again, results come late, twice, without a call or never, and of some of them
/// memory took a stretch.
struct Making {
    numbers: Numbers,
    units: Vec<Unit>,
    open: Vec<String>,
    calls: u64,
}

impl Making {
    fn unit(&mut self, message: Message, injected: bool) {
        let seq = self.units.len() as u64 * 2 + 1;
        let tokens = 1 + self.numbers.below(40);
        let item = Item {
            seq,
            at: Timestamp::UNIX_EPOCH,
            what: What::Message(message),
            side: false,
            injected,
            imported: false,
        };
        self.units.push(Unit { item, tokens });
    }

    fn human(&mut self) {
        let content = match self.numbers.below(8) {
            0 => vec![],
            1 => vec![Block::text("  ")],
            2 => vec![Block::Media { media_type: "image/png".to_owned(), sha256: None, bytes: None }],
            _ => vec![Block::text("do it")],
        };
        let injected = self.numbers.below(6) == 0;
        self.unit(Message::Human(HumanMessage { id: None, content }), injected);
    }

    fn id(&mut self) -> String {
        match self.numbers.below(10) {
            0 => String::new(),
            1 | 2 => format!("again_{}", self.numbers.below(2)),
            _ => {
                self.calls += 1;
                format!("call {}", self.calls)
            }
        }
    }

    fn answer(&mut self) {
        let mut content = Vec::new();
        if self.numbers.below(4) == 0 {
            let raw = json!({"type": "thinking", "thinking": "hm", "signature": "s"});
            content.push(Block::Thinking {
                text: "hm".to_owned(),
                provider: Some("anthropic".to_owned()),
                raw: Some(raw),
            });
        }
        if self.numbers.below(3) > 0 {
            content.push(Block::text("so"));
        }
        for _ in 0..[0, 0, 1, 1, 2, 3][self.numbers.below(6) as usize] {
            let id = self.id();
            self.open.push(id.clone());
            content.push(Block::ToolCall { id, name: "read".to_owned(), args: json!({}) });
        }
        self.unit(Message::Ai(AiMessage { content, ..AiMessage::default() }), false);
    }

    /// Takes out what memory took over: a stretch from what a person said to before what they said later.
    fn archive(&mut self) {
        let is_persons = |unit: &&Unit| matches!(message(unit), Message::Human(_));
        let turns: Vec<u64> = self.units.iter().filter(is_persons).map(|unit| unit.item.seq).collect();
        if turns.len() < 2 {
            return;
        }
        let from = self.numbers.below(turns.len() as u64 - 1) as usize;
        let to = from + 1 + self.numbers.below((turns.len() - 1 - from) as u64) as usize;
        self.units.retain(|unit| !(turns[from]..turns[to]).contains(&unit.item.seq));
    }

    fn result(&mut self) {
        let call_id = match (self.open.len(), self.numbers.below(12)) {
            (0, _) | (_, 0) => self.id(),
            (open, kind) => {
                let at = self.numbers.below(open as u64) as usize;
                if kind == 1 { self.open[at].clone() } else { self.open.remove(at) }
            }
        };
        let content = vec![Block::text("row")];
        let result = ToolMessage { id: None, call_id, name: None, content, status: ToolStatus::Success };
        self.unit(Message::Tool(result), false);
    }
}

fn transcript(seed: u64) -> Vec<Unit> {
    let numbers = Numbers(seed.wrapping_mul(0x5851_f42d_4c95_7f2d));
    let mut making = Making { numbers, units: Vec::new(), open: Vec::new(), calls: 0 };
    let length = 1 + making.numbers.below(13);
    for _ in 0..length {
        match (making.open.is_empty(), making.numbers.below(10)) {
            (true, 0..=4) | (false, 0) => making.human(),
            (true, 5..=8) | (false, 1 | 2) => making.answer(),
            (_, _) => making.result(),
        }
    }
    if seed.is_multiple_of(3) {
        making.archive();
    }
    making.units
}

fn message(unit: &Unit) -> &Message {
    match &unit.item.what {
        What::Message(message) => message,
        _ => unreachable!("only messages are made"),
    }
}

/// Calls `check` with every cut of every transcript.
fn every_cut(mut check: impl FnMut(u64, &[Unit], Cut)) {
    for seed in 0..TRANSCRIPTS {
        let units = transcript(seed);
        let mut last = None;
        for keep in 0..units.len() as u64 {
            let cut = cut(&units, None, Keep::Messages(keep), None);
            if let Some(cut) = cut.filter(|_| cut != last) {
                check(seed, &units, cut);
            }
            last = cut;
        }
        let by_tokens = cut(&units, Some(0), Keep::Tokens(seed % 90), None);
        by_tokens.into_iter().for_each(|cut| check(seed, &units, cut));
    }
}

/// Returns what is sent: the summary, the request that is repeated, and what stays.
fn projected(units: &[Unit], cut: Cut) -> Vec<Message> {
    let summary =
        Message::human("<earlier_conversation_summary>\nThe work so far.\n</earlier_conversation_summary>");
    let request = units.iter().filter(|unit| Some(unit.item.seq) == cut.last_request_seq);
    let kept = units.iter().filter(|unit| unit.item.seq > cut.last_seq);
    std::iter::once(summary).chain(request.chain(kept).map(|unit| message(unit).clone())).collect()
}

#[test]
fn l1_after_any_cut_of_any_transcript_the_request_is_legal() {
    let (available, mut cuts) = (Available::new(), 0_u64);
    every_cut(|seed, units, cut| {
        cuts += 1;
        let sent = projected(units, cut);
        for provider in PROFILES {
            let profile = Profile::of(provider);
            let made = legal(&sent, &available, &profile);
            assert_eq!(violations(&made, &profile), [], "transcript {seed} for {provider:?}: {sent:#?}");
        }
    });
    assert!(cuts > 200_000, "{cuts} are too few to say anything");
}

#[test]
fn l2_no_cut_parts_a_call_from_its_result_and_the_newest_batch_stays() {
    every_cut(|seed, units, cut| {
        let at = units.partition_point(|unit| unit.item.seq <= cut.last_seq);
        let whole = pair(units.iter().map(message));
        let calls = |units: &[Unit]| units.iter().map(|unit| message(unit).tool_calls().count()).sum();
        let condensed: usize = calls(&units[..at]);
        for result in whole[..condensed].iter().flatten() {
            assert!(*result < at, "transcript {seed} at {at}: {units:#?}");
        }
        let kept: Vec<Option<usize>> = pair(units[at..].iter().map(message));
        let same: Vec<Option<usize>> = whole[condensed..].iter().map(|at_| at_.map(|r| r - at)).collect();
        assert_eq!(kept, same, "transcript {seed} at {at}: {units:#?}");
        let has_other = units[1..].iter().any(|unit| !matches!(message(unit), Message::Tool(_)));
        let is_result = matches!(message(&units[at]), Message::Tool(_));
        let is_joined = units.len() > 1
            && super::super::starts(units)
                .iter()
                .all(|start| matches!(message(&units[*start]), Message::Tool(_)));
        assert!(!is_result || !has_other || is_joined, "transcript {seed} at {at}: {units:#?}");
    });
}

#[test]
fn c2_e4_a_cut_counts_what_it_condenses_and_keeps_the_last_request() {
    every_cut(|seed, units, cut| {
        let at = units.partition_point(|unit| unit.item.seq <= cut.last_seq);
        assert!(at > 0 && at < units.len(), "transcript {seed}");
        assert_eq!((cut.replaced, cut.kept), (at as u64, (units.len() - at) as u64), "transcript {seed}");
        let last = units.iter().rev().find(|unit| is_request(&unit.item)).map(|unit| unit.item.seq);
        if let Some(last) = last {
            let sent = cut.last_request_seq == Some(last) || last > cut.last_seq;
            assert!(sent, "transcript {seed} loses request {last}: {cut:?}");
        }
        assert_eq!(cut.request_answered.is_some(), cut.last_request_seq.is_some());
    });
}

fn stored(units: &[Unit], cut: Cut) -> Vec<Event> {
    let thread_id = ThreadId::generate();
    let event = |seq, event: NewEvent| Event::stored(event, thread_id, seq);
    let mut events: Vec<Event> = units
        .iter()
        .map(|unit| {
            let new = NewEvent::message(message(unit), Timestamp::UNIX_EPOCH).expect("messages are JSON");
            event(unit.item.seq, new)
        })
        .collect();
    let compaction = Compaction {
        schema_version: SCHEMA_VERSION,
        trigger: CompactionTrigger::Auto,
        first_seq: 1,
        last_seq: cut.last_seq,
        replaced_count: cut.replaced,
        kept_count: cut.kept,
        tokens_before: 0,
        tokens_after: 0,
        model: String::new(),
        summary: "The work so far.".to_owned(),
        sections: CondensedSummary::default(),
        carry_over: CarryOver::default(),
        last_request_seq: cut.last_request_seq,
        previous_seq: None,
        focus: None,
        duration_ms: 0,
        step: 0,
        usage: Usage::default(),
        prompt_sha256: None,
    };
    let marker = NewEvent::new(EventType::Compacted, &compaction, Timestamp::UNIX_EPOCH);
    let last = units.last().map_or(0, |unit| unit.item.seq);
    events.push(event(last + 1, marker.expect("it is JSON")));
    events
}

#[test]
fn e10_the_journals_view_sends_what_these_tests_look_at() {
    let mut looked_at = 0;
    every_cut(|seed, units, cut| {
        if seed % STORED == 0 && cut.last_request_seq != Some(0) {
            let sent: Vec<Message> =
                view::context(&stored(units, cut)).into_iter().map(|(_, message)| message).collect();
            assert_eq!(sent, projected(units, cut), "transcript {seed}: {cut:?}");
            looked_at += 1;
        }
    });
    assert!(looked_at > 300, "{looked_at} are too few to say anything");
}
