//! What a model is sent, and what people are shown, of threads whose old turns went to memory.

use proptest::prelude::*;
use protocol::{ArchiveReason, Compaction, CompactionUndone, SummaryId, TurnsArchived, TurnsRestored, Usage};

use super::*;
use crate::view::context::Beginning;

/// Turns of `first ..= last` that left the context.
fn left((first_seq, last_seq): (Seq, Seq), context_from: Option<Seq>, marker_seq: Option<Seq>) -> NewEvent {
    archived(ArchiveReason::Budget, (first_seq, last_seq), (context_from, marker_seq))
}

fn archived(
    reason: ArchiveReason,
    (first_seq, last_seq): (Seq, Seq),
    (context_from, marker_seq): (Option<Seq>, Option<Seq>),
) -> NewEvent {
    let content = TurnsArchived {
        schema_version: 1,
        summary_id: "0192f0c1-2d3e-7a4b-8c5d-6e7f80910e01".parse::<SummaryId>().unwrap(),
        reason,
        first_seq,
        last_seq,
        context_from,
        turn_count: 2,
        turn_range_start: 1,
        turn_range_end: 2,
        summary: "M".to_owned(),
        model: "extractive".to_owned(),
        withheld: 0,
        usage: Usage::default(),
        marker_seq,
    };
    fact(EventType::TurnsArchived, &serde_json::to_value(content).unwrap())
}

fn condensed((first_seq, last_seq): (Seq, Seq), request: Option<Seq>, summary: &str) -> NewEvent {
    let content = json!({
        "schema_version": 1, "trigger": "auto", "first_seq": first_seq, "last_seq": last_seq, "replaced_count": 1,
        "kept_count": 1, "tokens_before": 9, "tokens_after": 1, "model": "extractive", "summary": summary,
        "sections": {"goal": "g"}, "carry_over": {}, "last_request_seq": request, "duration_ms": 1,
    });
    fact(EventType::Compacted, &content)
}

fn undone(marker_seq: Seq) -> NewEvent {
    fact(EventType::CompactionUndone, &json!(CompactionUndone { marker_seq, clip_seqs: Vec::new() }))
}

/// Three turns: 1 and 2, 3 and 4, 5 and 6.
fn turns() -> Vec<NewEvent> {
    vec![human("one"), ai("1"), human("two"), ai("2"), human("three"), ai("3")]
}

fn with(mut events: Vec<NewEvent>, more: Vec<NewEvent>) -> Vec<NewEvent> {
    events.extend(more);
    events
}

#[test]
fn f7_what_memory_has_is_not_sent() {
    check(with(turns(), vec![left((1, 2), Some(3), None)]), &["two", "2", "three", "3"]);
    check(with(turns(), vec![left((3, 4), None, None), human("four")]), &["one", "1", "three", "3", "four"]);
    check(with(turns(), vec![left((1, 2), Some(3), None), left((3, 4), Some(5), None)]), &["three", "3"]);
    // A compaction had condensed them: its summary is sent.
    let flushed = archived(ArchiveReason::Compaction, (1, 4), (None, None));
    let wrapped = "<earlier_conversation_summary>\nS\n</earlier_conversation_summary>";
    let condensed = with(turns(), vec![condensed((1, 4), Some(3), "S"), flushed]);
    check(condensed.clone(), &[wrapped, "two", "three", "3"]);
    assert!(!changes_beginning(&stored(condensed)[7]), "and nothing is read again for it");
}

#[test]
fn f7_what_cannot_be_read_leaves_nothing_out() {
    for content in
        [json!(null), json!({"reason": "budget"}), json!({"reason": "mood", "first_seq": 1, "last_seq": 2})]
    {
        let unread = fact(EventType::TurnsArchived, &content);
        check(with(turns(), vec![unread.clone()]), &["one", "1", "two", "2", "three", "3"]);
        assert_eq!(history(&stored(with(turns(), vec![unread]))).len(), 6);
    }
}

#[test]
fn m9_a_compaction_that_is_undone_gives_back_what_it_condensed_and_not_what_memory_has() {
    let wrapped = "<earlier_conversation_summary>\nS\n</earlier_conversation_summary>";
    let both = with(turns(), vec![condensed((1, 2), Some(1), "S"), left((3, 4), Some(5), Some(7))]);
    check(both.clone(), &[wrapped, "one", "three", "3"]);
    check(with(both.clone(), vec![undone(7)]), &["one", "1", "three", "3"]);
    let before = with(turns(), vec![left((1, 2), Some(3), None), condensed((3, 4), Some(3), "S")]);
    check(before.clone(), &[wrapped, "two", "three", "3"]);
    check(with(before, vec![undone(8)]), &["two", "2", "three", "3"]);
}

#[test]
fn b1_people_are_shown_where_turns_went_to_memory_and_everything_else() {
    let events = with(
        turns(),
        vec![left((1, 2), Some(3), None), archived(ArchiveReason::Request, (3, 4), (None, None))],
    );
    let entries = history(&stored(events));
    let told: Vec<(Seq, &str)> = entries.iter().map(|entry| (entry.seq, entry.id.as_str())).skip(6).collect();
    assert_eq!(told, [(7, "archive-marker-7"), (8, "archive-marker-8")]);
    let HistoryItem::Archived(marker) = &entries[7].what else { panic!("{entries:?}") };
    assert_eq!((marker.reason, marker.first_seq), (ArchiveReason::Request, 3));
    assert_eq!(serde_json::to_value(&entries[7]).unwrap()["type"], "turns_archived");
}

/// A thread, and what its context is by the plain rules, read from all of it each time.
#[derive(Clone, Default)]
struct Model {
    /// What is visible, in order.
    events: Vec<Event>,
    last_seq: Seq,
    /// What is to leave, and the last seq when that was decided.
    planned: Option<(NewEvent, Seq)>,
}

impl Model {
    fn append(&mut self, event: NewEvent) {
        self.last_seq += 1;
        self.events.push(Event::stored(event, THREAD.parse().unwrap(), self.last_seq));
    }

    fn of<T: serde::de::DeserializeOwned>(&self, event_type: EventType) -> Vec<(Seq, T)> {
        let events = self.events.iter().filter(|event| event.kind() == Some(event_type));
        events.map(|event| (event.seq, serde_json::from_str(event.content.get()).unwrap())).collect()
    }

    /// The newest compaction that was not taken back.
    fn compaction(&self) -> Option<(Seq, Compaction)> {
        let undone = self.of::<CompactionUndone>(EventType::CompactionUndone);
        let stands =
            |(seq, _): &(Seq, Compaction)| undone.iter().all(|(_, undone)| undone.marker_seq != *seq);
        self.of::<Compaction>(EventType::Compacted).into_iter().rev().find(stands)
    }

    /// The messages that are sent after what the context begins with.
    fn sent(&self) -> Vec<&Event> {
        let condensed = self.compaction().map_or(0, |(_, compaction)| compaction.last_seq);
        let gone: Vec<TurnsArchived> = self
            .of::<TurnsArchived>(EventType::TurnsArchived)
            .into_iter()
            .map(|(_, archived)| archived)
            .filter(|archived| archived.reason.leaves_context())
            .collect();
        let is_sent = |event: &&Event| {
            let is_gone = gone.iter().any(|gone| (gone.first_seq..=gone.last_seq).contains(&event.seq));
            event.message().is_some() && event.seq > condensed && !is_gone
        };
        self.events.iter().filter(is_sent).collect()
    }

    fn expected(&self) -> Vec<(Seq, String)> {
        let mut expected = Vec::new();
        if let Some((seq, compaction)) = self.compaction() {
            expected.push((seq, super::super::context::summary_message(&compaction.summary).text()));
            let request = compaction.last_request_seq;
            let request = self.events.iter().find(|event| Some(event.seq) == request);
            expected.extend(request.map(|event| (event.seq, event.message().unwrap().text())));
        }
        expected.extend(self.sent().iter().map(|event| (event.seq, event.message().unwrap().text())));
        expected
    }

    /// Where complete turns that are sent begin, and where the last of them ends.
    fn starts(&self) -> Vec<Seq> {
        let is_prompt = |event: &&Event| event.kind() == Some(EventType::HumanMessage);
        self.sent().into_iter().filter(is_prompt).map(|event| event.seq).collect()
    }

    fn apply(&mut self, step: Step) {
        let pick = |among: usize, by: u8| usize::from(by) % among.max(1);
        match step {
            Step::Ask => self.append(human(&format!("q{}", self.last_seq + 1))),
            Step::Answer => self.append(ai(&format!("a{}", self.last_seq + 1))),
            Step::Beside => self.append(fact(EventType::RunStarted, &json!({}))),
            Step::Budget(by) | Step::Request(by, 0) => {
                let starts = self.starts();
                let Some(at) = starts.len().checked_sub(1).filter(|at| *at > 0) else { return };
                let next = starts[1 + pick(at, by)];
                let oldest = self.sent()[0].seq;
                let marker_seq = self.compaction().map(|(seq, _)| seq);
                self.planned = Some((left((oldest, next - 1), Some(next), marker_seq), self.last_seq));
                if by % 2 == 1 {
                    self.carry_out();
                }
            }
            Step::CarryOut => self.carry_out(),
            Step::Request(by, length) => {
                let starts = self.starts();
                if starts.len() < 3 {
                    return;
                }
                let first = 1 + pick(starts.len() - 2, by);
                let end = (first + 1 + pick(starts.len() - 2, length)).min(starts.len() - 1);
                let marker_seq = self.compaction().map(|(seq, _)| seq);
                let range = (starts[first], starts[end] - 1);
                self.append(archived(ArchiveReason::Request, range, (None, marker_seq)));
            }
            Step::Compact(by) => {
                let sent: Vec<Seq> = self.sent().iter().map(|event| event.seq).collect();
                if sent.len() < 2 {
                    return;
                }
                let cut = pick(sent.len() - 1, by);
                let asked = self.starts().into_iter().rfind(|seq| *seq <= sent[cut]);
                let kept = self.compaction().and_then(|(_, compaction)| compaction.last_request_seq);
                let summary = format!("S{}", self.last_seq + 1);
                self.append(condensed((sent[0], sent[cut]), asked.or(kept), &summary));
                if by % 2 == 0 {
                    let range = (sent[0], sent[cut]);
                    self.append(archived(ArchiveReason::Compaction, range, (None, Some(self.last_seq))));
                }
            }
            Step::Undo => {
                if let Some((seq, _)) = self.compaction() {
                    self.append(undone(seq));
                }
            }
            Step::Rewind(by) => {
                let keep = u64::from(by) % (self.last_seq + 1);
                self.events.retain(|event| event.seq <= keep);
                self.append(fact(EventType::ThreadRewound, &json!({"keep_seq": keep})));
            }
            Step::Fork(by) => {
                let until = u64::from(by) % (self.last_seq + 1);
                self.events.retain(|event| event.seq <= until && event.category != "lifecycle");
                (self.last_seq, self.planned) = (until, None);
            }
            Step::Dissolve(by) => self.dissolve(by),
        }
    }

    /// What was planned is done if nothing but talk came between, as a journal sees to it.
    fn carry_out(&mut self) {
        let Some((event, last_seq)) = self.planned.take() else { return };
        let is_talk = |event: &Event| event.message().is_some() || !changes_beginning(event);
        let mut since = self.events.iter().rev().take_while(|event| event.seq > last_seq);
        if since.all(|event| is_talk(event) && event.kind() != Some(EventType::ThreadRewound)) {
            self.append(event);
        }
    }

    /// A summary is dissolved: its event is out of sight, and those that relied on it.
    fn dissolve(&mut self, by: u8) {
        let told = self.of::<TurnsArchived>(EventType::TurnsArchived);
        let Some((first, _)) = told.get(usize::from(by) % told.len().max(1)) else { return };
        let leaves = told.iter().any(|(seq, archived)| seq == first && archived.reason.leaves_context());
        let relies = |(seq, archived): &(Seq, TurnsArchived)| {
            seq == first || leaves && seq > first && archived.context_from.is_some()
        };
        let gone: Vec<Seq> = told.iter().filter(|told| relies(told)).map(|(seq, _)| *seq).collect();
        self.events.retain(|event| !gone.contains(&event.seq));
        self.append(fact(EventType::TurnsRestored, &json!(TurnsRestored { archived_seqs: gone })));
    }

    /// Reads the context in pages from the newest back, as whoever asks a model does.
    fn paged(&self, rows: usize) -> (Vec<(Seq, String)>, usize) {
        let listed: Vec<Event> = self
            .events
            .iter()
            .filter(|event| event.category == "message" || event.category == "middleware")
            .cloned()
            .collect();
        let only = |seq: Seq| listed.iter().find(|event| event.seq == seq);
        let mut beginning = Beginning::default();
        let mut read: Vec<&[Event]> = Vec::new();
        for page in listed.rchunks(rows) {
            beginning.look(page);
            if let Some(seq) = beginning.marker_wanted() {
                beginning.look_at_marker(only(seq));
            }
            read.push(page);
            if beginning.first_seq().is_some_and(|first| page[0].seq <= first) {
                break;
            }
        }
        let mut sent = beginning.opening(beginning.request_seq().and_then(only));
        sent.extend(read.iter().rev().flat_map(|page| beginning.project(page)));
        (sent.into_iter().map(|(seq, message)| (seq, message.text())).collect(), read.len())
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Ask,
    Answer,
    Beside,
    Budget(u8),
    Request(u8, u8),
    Compact(u8),
    CarryOut,
    Undo,
    Rewind(u8),
    Fork(u8),
    Dissolve(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => Just(Step::Ask),
        6 => Just(Step::Answer),
        1 => Just(Step::Beside),
        3 => any::<u8>().prop_map(Step::Budget),
        2 => any::<(u8, u8)>().prop_map(|(by, length)| Step::Request(by, length)),
        2 => any::<u8>().prop_map(Step::Compact),
        2 => Just(Step::CarryOut),
        2 => Just(Step::Undo),
        1 => any::<u8>().prop_map(Step::Rewind),
        1 => any::<u8>().prop_map(Step::Fork),
        1 => any::<u8>().prop_map(Step::Dissolve),
    ];
    proptest::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, ..ProptestConfig::default() })]

    #[test]
    fn f7_b1_a_context_is_what_no_summary_stands_for_however_it_is_read(steps in steps()) {
        let mut model = Model::default();
        for step in steps {
            model.apply(step);
            let expected = model.expected();
            let whole: Vec<(Seq, String)> =
                context(&model.events).into_iter().map(|(seq, message)| (seq, message.text())).collect();
            prop_assert_eq!(&whole, &expected, "after {:?}", step);
            for rows in [1, 2, 3, 7] {
                let (paged, _) = model.paged(rows);
                prop_assert_eq!(&paged, &expected, "after {:?}, in pages of {}", step, rows);
            }
            let shown = history(&model.events);
            let said = model.events.iter().filter(|event| event.message().is_some()).map(|event| event.seq);
            let told = shown.iter().filter(|entry| matches!(entry.what, HistoryItem::Message(_)));
            prop_assert!(told.map(|entry| entry.seq).eq(said), "history is complete after {:?}", step);
        }
    }
}

/// However much memory has of a thread, only what is sent of it is read.
#[test]
fn nothing_before_a_context_is_read() {
    let mut model = Model::default();
    for number in 0..200_u8 {
        model.apply(Step::Ask);
        model.apply(Step::Answer);
        if number % 10 == 9 {
            model.apply(Step::Budget(u8::MAX));
        }
        if number == 100 {
            model.apply(Step::Compact(0));
        }
    }
    let (sent, pages) = model.paged(10);
    assert_eq!(sent, model.expected());
    assert!(pages <= 4, "{pages} pages for {} messages", sent.len());
}
