//! Tests of the context and the history of threads whose old messages memory has archived.

use proptest::prelude::*;
use protocol::{ArchiveReason, Compaction, CompactionUndone, SummaryId, TurnsArchived, TurnsRestored, Usage};

use super::*;
use crate::view::context::ContextOutline;

/// Returns the event that archives the seqs `first_seq ..= last_seq`.
fn archived_turns(
    (first_seq, last_seq): (Seq, Seq),
    context_from: Option<Seq>,
    marker_seq: Option<Seq>,
) -> NewEvent {
    archive_event(ArchiveReason::Budget, (first_seq, last_seq), (context_from, marker_seq))
}

fn archive_event(
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
    event(EventType::TurnsArchived, &serde_json::to_value(content).unwrap())
}

fn compaction_event((first_seq, last_seq): (Seq, Seq), request: Option<Seq>, summary: &str) -> NewEvent {
    let content = json!({
        "schema_version": 1, "trigger": "auto", "first_seq": first_seq, "last_seq": last_seq, "replaced_count": 1,
        "kept_count": 1, "tokens_before": 9, "tokens_after": 1, "model": "extractive", "summary": summary,
        "sections": {"goal": "g"}, "carry_over": {}, "last_request_seq": request, "duration_ms": 1,
    });
    event(EventType::Compacted, &content)
}

fn undo_event(marker_seq: Seq) -> NewEvent {
    event(EventType::CompactionUndone, &json!(CompactionUndone { marker_seq, clip_seqs: Vec::new() }))
}

/// Returns three turns with the seqs 1 and 2, 3 and 4, 5 and 6.
fn three_turns() -> Vec<NewEvent> {
    vec![human("one"), ai("1"), human("two"), ai("2"), human("three"), ai("3")]
}

fn append_events(mut events: Vec<NewEvent>, more: Vec<NewEvent>) -> Vec<NewEvent> {
    events.extend(more);
    events
}

#[test]
fn f7_archived_messages_are_not_sent() {
    check(
        append_events(three_turns(), vec![archived_turns((1, 2), Some(3), None)]),
        &["two", "2", "three", "3"],
    );
    check(
        append_events(three_turns(), vec![archived_turns((3, 4), None, None), human("four")]),
        &["one", "1", "three", "3", "four"],
    );
    check(
        append_events(
            three_turns(),
            vec![archived_turns((1, 2), Some(3), None), archived_turns((3, 4), Some(5), None)],
        ),
        &["three", "3"],
    );
    // A compaction has removed these messages from the context, and its summary is sent.
    let archived = archive_event(ArchiveReason::Compaction, (1, 4), (None, None));
    let wrapped = "<earlier_conversation_summary>\nS\n</earlier_conversation_summary>";
    let compacted = append_events(three_turns(), vec![compaction_event((1, 4), Some(3), "S"), archived]);
    check(compacted.clone(), &[wrapped, "two", "three", "3"]);
    assert!(!is_context_change(&to_events(compacted)[7]), "the context does not change");
}

#[test]
fn f7_an_unreadable_archive_event_has_no_effect() {
    for content in
        [json!(null), json!({"reason": "budget"}), json!({"reason": "mood", "first_seq": 1, "last_seq": 2})]
    {
        let unread = event(EventType::TurnsArchived, &content);
        check(append_events(three_turns(), vec![unread.clone()]), &["one", "1", "two", "2", "three", "3"]);
        assert_eq!(history(&to_events(append_events(three_turns(), vec![unread]))).len(), 6);
    }
}

#[test]
fn m9_an_undone_compaction_restores_its_messages_but_not_archived_ones() {
    let wrapped = "<earlier_conversation_summary>\nS\n</earlier_conversation_summary>";
    let both = append_events(
        three_turns(),
        vec![compaction_event((1, 2), Some(1), "S"), archived_turns((3, 4), Some(5), Some(7))],
    );
    check(both.clone(), &[wrapped, "one", "three", "3"]);
    check(append_events(both.clone(), vec![undo_event(7)]), &["one", "1", "three", "3"]);
    let before = append_events(
        three_turns(),
        vec![archived_turns((1, 2), Some(3), None), compaction_event((3, 4), Some(3), "S")],
    );
    check(before.clone(), &[wrapped, "two", "three", "3"]);
    check(append_events(before, vec![undo_event(8)]), &["two", "2", "three", "3"]);
}

#[test]
fn b1_the_history_shows_archive_markers_and_all_messages() {
    let events = append_events(
        three_turns(),
        vec![
            archived_turns((1, 2), Some(3), None),
            archive_event(ArchiveReason::Request, (3, 4), (None, None)),
        ],
    );
    let entries = history(&to_events(events));
    let markers: Vec<(Seq, &str)> =
        entries.iter().map(|entry| (entry.seq, entry.id.as_str())).skip(6).collect();
    assert_eq!(markers, [(7, "archive-marker-7"), (8, "archive-marker-8")]);
    let HistoryItem::Archived(marker) = &entries[7].item else { panic!("{entries:?}") };
    assert_eq!((marker.reason, marker.first_seq), (ArchiveReason::Request, 3));
    assert_eq!(serde_json::to_value(&entries[7]).unwrap()["type"], "turns_archived");
}

/// A model of a thread that computes the context directly from the rules, from all events each time.
#[derive(Clone, Default)]
struct ThreadModel {
    /// The visible events in ascending order.
    events: Vec<Event>,
    /// The last seq.
    last_seq: Seq,
    /// A planned archive event, and the last seq at the time of planning.
    planned_archive: Option<(NewEvent, Seq)>,
}

impl ThreadModel {
    fn append(&mut self, event: NewEvent) {
        self.last_seq += 1;
        self.events.push(Event::from_new(event, THREAD.parse().unwrap(), self.last_seq));
    }

    fn events_of_type<T: serde::de::DeserializeOwned>(&self, event_type: EventType) -> Vec<(Seq, T)> {
        let events = self.events.iter().filter(|event| event.kind() == Some(event_type));
        events.map(|event| (event.seq, serde_json::from_str(event.content.get()).unwrap())).collect()
    }

    /// Returns the newest compaction that has not been undone.
    fn compaction(&self) -> Option<(Seq, Compaction)> {
        let undone = self.events_of_type::<CompactionUndone>(EventType::CompactionUndone);
        let is_in_effect =
            |(seq, _): &(Seq, Compaction)| undone.iter().all(|(_, undone)| undone.marker_seq != *seq);
        self.events_of_type::<Compaction>(EventType::Compacted).into_iter().rev().find(is_in_effect)
    }

    /// Returns the messages that are sent after the opening messages of the context.
    fn sent_messages(&self) -> Vec<&Event> {
        let compacted_until = self.compaction().map_or(0, |(_, compaction)| compaction.last_seq);
        let archived: Vec<TurnsArchived> = self
            .events_of_type::<TurnsArchived>(EventType::TurnsArchived)
            .into_iter()
            .map(|(_, body)| body)
            .filter(|body| body.reason.is_removed_from_context())
            .collect();
        let is_sent = |event: &&Event| {
            let is_gone = archived.iter().any(|body| (body.first_seq..=body.last_seq).contains(&event.seq));
            event.message().is_some() && event.seq > compacted_until && !is_gone
        };
        self.events.iter().filter(is_sent).collect()
    }

    fn expected_context(&self) -> Vec<(Seq, String)> {
        let mut expected = Vec::new();
        if let Some((seq, compaction)) = self.compaction() {
            expected.push((seq, super::super::context::summary_message(&compaction.summary).text()));
            let request = compaction.last_request_seq;
            let request = self.events.iter().find(|event| Some(event.seq) == request);
            expected.extend(request.map(|event| (event.seq, event.message().unwrap().text())));
        }
        expected
            .extend(self.sent_messages().iter().map(|event| (event.seq, event.message().unwrap().text())));
        expected
    }

    /// Returns the seqs of the prompts that are sent, which are the starts of turns.
    fn turn_starts(&self) -> Vec<Seq> {
        let is_prompt = |event: &&Event| event.kind() == Some(EventType::HumanMessage);
        self.sent_messages().into_iter().filter(is_prompt).map(|event| event.seq).collect()
    }

    fn apply(&mut self, action: ThreadAction) {
        let pick = |count: usize, random: u8| usize::from(random) % count.max(1);
        match action {
            ThreadAction::HumanMessage => self.append(human(&format!("q{}", self.last_seq + 1))),
            ThreadAction::AiMessage => self.append(ai(&format!("a{}", self.last_seq + 1))),
            ThreadAction::SideEvent => self.append(event(EventType::RunStarted, &json!({}))),
            ThreadAction::Budget(by) | ThreadAction::Request(by, 0) => {
                let starts = self.turn_starts();
                let Some(last_index) = starts.len().checked_sub(1).filter(|last_index| *last_index > 0)
                else {
                    return;
                };
                let next = starts[1 + pick(last_index, by)];
                let oldest = self.sent_messages()[0].seq;
                let marker_seq = self.compaction().map(|(seq, _)| seq);
                self.planned_archive =
                    Some((archived_turns((oldest, next - 1), Some(next), marker_seq), self.last_seq));
                if by % 2 == 1 {
                    self.append_planned();
                }
            }
            ThreadAction::ApplyPlanned => self.append_planned(),
            ThreadAction::Request(by, length) => {
                let starts = self.turn_starts();
                if starts.len() < 3 {
                    return;
                }
                let first = 1 + pick(starts.len() - 2, by);
                let end = (first + 1 + pick(starts.len() - 2, length)).min(starts.len() - 1);
                let marker_seq = self.compaction().map(|(seq, _)| seq);
                let range = (starts[first], starts[end] - 1);
                self.append(archive_event(ArchiveReason::Request, range, (None, marker_seq)));
            }
            ThreadAction::Compact(by) => {
                let sent: Vec<Seq> = self.sent_messages().iter().map(|event| event.seq).collect();
                if sent.len() < 2 {
                    return;
                }
                let cut = pick(sent.len() - 1, by);
                let request = self.turn_starts().into_iter().rfind(|seq| *seq <= sent[cut]);
                let previous_request =
                    self.compaction().and_then(|(_, compaction)| compaction.last_request_seq);
                let summary = format!("S{}", self.last_seq + 1);
                self.append(compaction_event((sent[0], sent[cut]), request.or(previous_request), &summary));
                if by % 2 == 0 {
                    let range = (sent[0], sent[cut]);
                    self.append(archive_event(ArchiveReason::Compaction, range, (None, Some(self.last_seq))));
                }
            }
            ThreadAction::Undo => {
                if let Some((seq, _)) = self.compaction() {
                    self.append(undo_event(seq));
                }
            }
            ThreadAction::Rewind(by) => {
                let keep = u64::from(by) % (self.last_seq + 1);
                self.events.retain(|event| event.seq <= keep);
                self.append(event(EventType::ThreadRewound, &json!({"keep_seq": keep})));
            }
            ThreadAction::Fork(by) => {
                let until = u64::from(by) % (self.last_seq + 1);
                self.events.retain(|event| event.seq <= until && event.category != "lifecycle");
                (self.last_seq, self.planned_archive) = (until, None);
            }
            ThreadAction::Dissolve(by) => self.remove_summary(by),
        }
    }

    /// Appends the planned archive event if only messages have been appended since it was planned, as a journal
    /// enforces.
    fn append_planned(&mut self) {
        let Some((event, last_seq)) = self.planned_archive.take() else { return };
        let keeps_context = |event: &Event| event.message().is_some() || !is_context_change(event);
        let mut since = self.events.iter().rev().take_while(|event| event.seq > last_seq);
        if since.all(|event| keeps_context(event) && event.kind() != Some(EventType::ThreadRewound)) {
            self.append(event);
        }
    }

    /// Removes a summary: its event is hidden, and so are the events that depend on it.
    fn remove_summary(&mut self, by: u8) {
        let archive_events = self.events_of_type::<TurnsArchived>(EventType::TurnsArchived);
        let Some((first, _)) = archive_events.get(usize::from(by) % archive_events.len().max(1)) else {
            return;
        };
        let leaves = archive_events
            .iter()
            .any(|(seq, archived)| seq == first && archived.reason.is_removed_from_context());
        let depends = |(seq, archived): &(Seq, TurnsArchived)| {
            seq == first || leaves && seq > first && archived.context_from.is_some()
        };
        let hidden: Vec<Seq> = archive_events
            .iter()
            .filter(|archive_events| depends(archive_events))
            .map(|(seq, _)| *seq)
            .collect();
        self.events.retain(|event| !hidden.contains(&event.seq));
        self.append(event(EventType::TurnsRestored, &json!(TurnsRestored { archived_seqs: hidden })));
    }

    /// Reads the context in pages from the newest to the oldest, as the runtime does.
    fn read_in_pages(&self, rows: usize) -> (Vec<(Seq, String)>, usize) {
        let stored: Vec<Event> = self
            .events
            .iter()
            .filter(|event| event.category == "message" || event.category == "middleware")
            .cloned()
            .collect();
        let find_event = |seq: Seq| stored.iter().find(|event| event.seq == seq);
        let mut outline = ContextOutline::default();
        let mut read: Vec<&[Event]> = Vec::new();
        for page in stored.rchunks(rows) {
            outline.scan_page(page);
            if let Some(seq) = outline.needed_marker_seq() {
                outline.scan_marker(find_event(seq));
            }
            read.push(page);
            if outline.first_seq().is_some_and(|first| page[0].seq <= first) {
                break;
            }
        }
        let mut sent = outline.opening_messages(outline.request_seq().and_then(find_event));
        sent.extend(read.iter().rev().flat_map(|page| outline.project_messages(page)));
        (sent.into_iter().map(|(seq, message)| (seq, message.text())).collect(), read.len())
    }
}

/// A random action on a thread.
#[derive(Debug, Clone, Copy)]
enum ThreadAction {
    HumanMessage,
    AiMessage,
    SideEvent,
    Budget(u8),
    Request(u8, u8),
    Compact(u8),
    ApplyPlanned,
    Undo,
    Rewind(u8),
    Fork(u8),
    Dissolve(u8),
}

fn actions() -> impl Strategy<Value = Vec<ThreadAction>> {
    let step = prop_oneof![
        6 => Just(ThreadAction::HumanMessage),
        6 => Just(ThreadAction::AiMessage),
        1 => Just(ThreadAction::SideEvent),
        3 => any::<u8>().prop_map(ThreadAction::Budget),
        2 => any::<(u8, u8)>().prop_map(|(by, length)| ThreadAction::Request(by, length)),
        2 => any::<u8>().prop_map(ThreadAction::Compact),
        2 => Just(ThreadAction::ApplyPlanned),
        2 => Just(ThreadAction::Undo),
        1 => any::<u8>().prop_map(ThreadAction::Rewind),
        1 => any::<u8>().prop_map(ThreadAction::Fork),
        1 => any::<u8>().prop_map(ThreadAction::Dissolve),
    ];
    proptest::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: test_counts::count(30, 250), ..ProptestConfig::default() })]

    #[test]
    fn f7_b1_a_context_contains_what_no_summary_covers_regardless_of_paging(steps in actions()) {
        let mut model = ThreadModel::default();
        for step in steps {
            model.apply(step);
            let expected = model.expected_context();
            let whole: Vec<(Seq, String)> =
                context(&model.events).into_iter().map(|(seq, message)| (seq, message.text())).collect();
            prop_assert_eq!(&whole, &expected, "after {:?}", step);
            for rows in [1, 2, 3, 7] {
                let (paged, _) = model.read_in_pages(rows);
                prop_assert_eq!(&paged, &expected, "after {:?}, in pages of {}", step, rows);
            }
            let entries = history(&model.events);
            let message_seqs = model.events.iter().filter(|event| event.message().is_some()).map(|event| event.seq);
            let messages = entries.iter().filter(|entry| matches!(entry.item, HistoryItem::Message(_)));
            prop_assert!(messages.map(|entry| entry.seq).eq(message_seqs), "history is complete after {:?}", step);
        }
    }
}

/// Only the part of a thread that is sent is read, however much of it is archived.
#[test]
fn no_event_before_a_context_is_read() {
    let mut model = ThreadModel::default();
    for number in 0..200_u8 {
        model.apply(ThreadAction::HumanMessage);
        model.apply(ThreadAction::AiMessage);
        if number % 10 == 9 {
            model.apply(ThreadAction::Budget(u8::MAX));
        }
        if number == 100 {
            model.apply(ThreadAction::Compact(0));
        }
    }
    let (sent, pages) = model.read_in_pages(10);
    assert_eq!(sent, model.expected_context());
    assert!(pages <= 4, "{pages} pages for {} messages", sent.len());
}
