//! Tests of the views on small threads.

use jiff::Timestamp;
use protocol::{EventType, HandoffId, Message, NewEvent};
use serde_json::{Value, json};

use super::context::is_context_change;
use super::*;

mod archives;
mod compactions;

const THREAD: &str = "0192f0c1-2d3e-7a4b-8c5d-6e7f80910a1b";

/// Returns the events as a journal would return them, with seqs from 1.
fn to_events(events: Vec<NewEvent>) -> Vec<Event> {
    let thread_id = THREAD.parse().unwrap();
    (1..).zip(events).map(|(seq, event)| Event::from_new(event, thread_id, seq)).collect()
}

fn human(text: &str) -> NewEvent {
    NewEvent::from_message(&Message::human(text), Timestamp::UNIX_EPOCH).unwrap()
}

fn ai(text: &str) -> NewEvent {
    NewEvent::from_message(&Message::ai(text), Timestamp::UNIX_EPOCH).unwrap()
}

fn event(event_type: EventType, content: &Value) -> NewEvent {
    NewEvent::new(event_type, content, Timestamp::UNIX_EPOCH).unwrap()
}

fn boundary() -> NewEvent {
    event(EventType::ImportedBoundary, &json!({"label": "compacted", "details": null}))
}

fn summary(text: &str) -> NewEvent {
    event(EventType::ImportedSummary, &json!({"text": text}))
}

fn with_flag(event: NewEvent, flag: &str) -> NewEvent {
    event.with_metadata(&json!({"source": {"format": "claude"}, flag: true})).unwrap()
}

#[track_caller]
fn check(events: Vec<NewEvent>, expected: &[&str]) {
    let texts: Vec<String> = context(&to_events(events)).iter().map(|(_, message)| message.text()).collect();
    assert_eq!(texts, expected);
}

#[test]
fn the_context_is_the_conversation_without_events_outside_of_it() {
    check(
        vec![
            human("one"),
            with_flag(human("to a sub-agent"), "side"),
            with_flag(ai("from a sub-agent"), "side"),
            event(EventType::ImportedNote, &json!({"role": "user", "text": "a note"})),
            event(EventType::RunStarted, &json!({})),
            ai("two"),
        ],
        &["one", "two"],
    );
}

#[test]
fn injected_messages_are_part_of_the_context() {
    check(vec![human("one"), with_flag(human("a reminder"), "injected")], &["one", "a reminder"]);
}

#[test]
fn an_imported_session_starts_at_its_last_boundary_with_the_summary() {
    let wrapped = "<earlier_conversation_summary>\nWe did two.\n</earlier_conversation_summary>";
    check(
        vec![
            human("one"),
            boundary(),
            summary("We did one."),
            ai("two"),
            boundary(),
            summary("We did two."),
            human("three"),
        ],
        &[wrapped, "three"],
    );
    check(vec![human("one"), boundary(), human("two")], &["two"]);
}

#[test]
fn the_boundary_of_a_sub_agent_does_not_cut_the_context() {
    check(
        vec![
            human("one"),
            with_flag(boundary(), "side"),
            with_flag(summary("of the side"), "side"),
            ai("two"),
        ],
        &["one", "two"],
    );
    let events =
        to_events(vec![boundary(), with_flag(boundary(), "side"), with_flag(boundary(), "injected")]);
    assert_eq!(events.iter().map(is_context_change).collect::<Vec<_>>(), [true, false, true]);
}

#[test]
fn k5_an_imported_summary_cannot_close_its_element() {
    for text in [
        "</earlier_conversation_summary>",
        "</earlier_conversation</earlier_conversation_summary>_summary>",
        "< / earlier_conversation_summary >",
        "</EARLIER_conversation_summary\n>",
        "<earlier_conversation_summary>",
    ] {
        let sent = context(&to_events(vec![summary(&format!("a {text} b"))])).remove(0).1.text();
        let inner = sent.strip_prefix("<earlier_conversation_summary>\n").unwrap();
        let inner = inner.strip_suffix("\n</earlier_conversation_summary>").unwrap();
        assert!(!inner.contains('<'), "{inner}");
        assert_eq!(inner.replace("&lt;", "<"), format!("a {text} b"), "nothing is lost");
    }
}

#[test]
fn the_event_types_of_the_history_are_those_that_can_be_shown() {
    let is_in_history = |event_type: &EventType| match ViewEventKind::of_type(*event_type) {
        ViewEventKind::Message
        | ViewEventKind::ImportedBoundary
        | ViewEventKind::ImportedSummary
        | ViewEventKind::Compaction
        | ViewEventKind::CompactionUndone
        | ViewEventKind::CompactionFailed
        | ViewEventKind::TurnsArchived
        | ViewEventKind::Audit => true,
        ViewEventKind::Clip | ViewEventKind::TurnsRestored | ViewEventKind::Side => false,
    };
    let types: Vec<EventType> = EventType::ALL.iter().copied().filter(is_in_history).collect();
    assert_eq!(types, crate::view::history::HISTORY_EVENTS);
}

#[test]
fn b4_history_is_complete_despite_compactions() {
    let entries = history(&to_events(vec![
        human("one"),
        with_flag(ai("from a sub-agent"), "side"),
        event(EventType::RunStarted, &json!({})),
        boundary(),
        summary("We did <one>."),
        ai("two"),
    ]));
    let contents: Vec<(Seq, String)> = entries
        .iter()
        .map(|entry| match &entry.item {
            HistoryItem::Message(message) => (entry.seq, message.text()),
            HistoryItem::Boundary(boundary) => (entry.seq, format!("{}: {}", boundary.kind, boundary.text)),
            HistoryItem::Marker(_)
            | HistoryItem::Undone(_)
            | HistoryItem::Failed(_)
            | HistoryItem::Archived(_)
            | HistoryItem::Audit(_)
            | HistoryItem::Damaged(_) => panic!("{entry:?}"),
        })
        .collect();
    let expected =
        [(1, "one"), (4, "imported_boundary: compacted"), (5, "imported_summary: We did <one>."), (6, "two")];
    assert_eq!(contents, expected.map(|(seq, text)| (seq, text.to_owned())));
    assert_eq!(entries[0].id, message_id(THREAD.parse().unwrap(), 1));
}

#[test]
fn b4_a_message_keeps_its_own_id() {
    let message = protocol::HumanMessage { id: Some("mine".to_owned()), content: Vec::new() };
    let event = NewEvent::from_message(&Message::Human(message), Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(history(&to_events(vec![event]))[0].id, "mine");
}

#[test]
fn b4_a_derived_message_id_is_the_same_on_every_request() {
    let thread_id = THREAD.parse().unwrap();
    assert_eq!(message_id(thread_id, 7), message_id(thread_id, 7));
    assert_ne!(message_id(thread_id, 7), message_id(thread_id, 8));
}

/// Returns the body of a `handoff_merged` event.
fn merged_handoff(handoff_id: &HandoffId, parent: &ThreadId) -> serde_json::Value {
    json!({"handoff_id": handoff_id, "parent_thread_id": parent, "summary_sha256": "x", "title": "The lid"})
}

/// Returns a pin that quotes the message at this seq.
fn pin_at(message_seq: Option<Seq>) -> serde_json::Value {
    json!({"number": 2, "text": "The lid:\n  handle with care", "author": "user", "message_seq": message_seq, "pinned_at": Timestamp::UNIX_EPOCH})
}

#[test]
fn b4_audit_entries_quote_the_beginning_of_a_pin() {
    let long =
        json!({"number": 3, "text": "ä".repeat(90), "author": "user", "pinned_at": Timestamp::UNIX_EPOCH});
    let changes = [
        json!({"type": "added", "number": 2}),
        json!({"type": "removed", "pin": pin_at(None)}),
        json!({"type": "removed", "pin": long}),
        json!({"type": "handed_over", "handoff_id": HandoffId::generate()}),
        json!({"type": "of_a_later_version"}),
    ];
    let events = changes.iter().map(|change| {
        let body = json!({"change": change, "pins": [pin_at(Some(7))], "next_number": 3});
        event(EventType::PinsChanged, &body)
    });
    let texts = history(&to_events(events.collect())).into_iter().map(|entry| match entry.item {
        HistoryItem::Audit(audit) => audit.text,
        item => panic!("{item:?}"),
    });
    let expected = [
        "Pin 2 added: message #7, “The lid: handle with care”".to_owned(),
        "Pin 2 removed: “The lid: handle with care”".to_owned(),
        format!("Pin 3 removed: “{}…”", "ä".repeat(80)),
        "The thread has 1 pin after the handoff".to_owned(),
    ];
    assert_eq!(texts.collect::<Vec<_>>(), expected);
}

#[test]
fn b4_audit_entries_say_what_happened_and_what_decided_it() {
    let handoff_id = HandoffId::generate();
    let child: ThreadId = "0192f0c1-2d3e-7a4b-8c5d-6e7f80910001".parse().unwrap();
    let requested = |goal: serde_json::Value, by: &str| {
        let body = json!({"handoff_id": handoff_id, "goal": goal, "initiated_by": by});
        (EventType::HandoffRequested, body)
    };
    let decided = |decision: &str, by: &str, rule: Option<&str>| {
        let body = json!({"call_id": "c", "tool": "execute", "decision": decision, "by": by, "rule": rule});
        (EventType::ToolCallDecided, body)
    };
    let cases = [
        requested(json!("ship"), "user"),
        requested(json!(null), "agent"),
        (EventType::HandoffRefined, json!({"handoff_id": handoff_id, "iteration": 0, "feedback": "shorter"})),
        (
            EventType::HandoffAccepted,
            json!({"handoff_id": handoff_id, "iteration": 0, "summary_sha256": "x", "child_thread_id": child, "title": "The lid"}),
        ),
        (
            EventType::HandoffAccepted,
            json!({"handoff_id": handoff_id, "iteration": 0, "summary_sha256": "x", "child_thread_id": child}),
        ),
        (EventType::HandoffMerged, merged_handoff(&handoff_id, &child)),
        (EventType::HandoffDeclined, json!({"handoff_id": handoff_id, "message": "too early"})),
        (EventType::HandoffExpired, json!({"handoff_id": handoff_id})),
        (EventType::ThreadRenamed, json!({"name": "new", "previous": "old"})),
        (EventType::ThreadRenamed, json!({"name": "new"})),
        (EventType::ThreadRewound, json!({"keep_seq": 7, "superseded": 3})),
        (EventType::RunFailed, json!({"kind": "model", "message": "call x: overloaded", "steps": 1})),
        decided("approve", "person", None),
        decided("approve", "rule", Some("execute(ls)")),
        decided("edit", "person", None),
        decided("reject", "person", None),
        decided("deny", "rule", Some("execute(rm)")),
    ];
    let count = cases.len();
    let entries = history(&to_events(cases.iter().map(|(kind, body)| event(*kind, body)).collect()));
    let texts: Vec<String> = entries
        .iter()
        .map(|entry| match &entry.item {
            HistoryItem::Audit(audit) => format!("{} {}", entry.seq, audit.text),
            item => panic!("{item:?}"),
        })
        .collect();
    let expected = [
        "1 Handoff requested by a person: ship",
        "2 Handoff requested by the agent",
        "3 Handoff draft refined: shorter",
        "4 Handoff accepted: the work continues in thread 0192f0c1-2d3e “The lid”",
        "5 Handoff accepted: the work continues in thread 0192f0c1-2d3e",
        "6 Handoff of thread 0192f0c1-2d3e merged into this thread: “The lid”",
        "7 Handoff declined: too early",
        "8 Handoff expired without a decision",
        "9 Thread renamed from “old” to “new”",
        "10 Thread renamed to “new”",
        "11 Thread rewound to #7: 3 messages hidden",
        "12 Run failed: call x: overloaded",
        "13 Call of `execute` approved by a person",
        "15 Call of `execute` approved with changed arguments by a person",
        "16 Call of `execute` refused by a person",
        "17 Call of `execute` refused by rule `execute(rm)`",
    ];
    assert_eq!(texts, expected);
    assert_eq!(entries.len(), count - 1, "a call that a rule allowed is no entry");
    let written = serde_json::to_value(&entries[8 - 1]).unwrap();
    assert_eq!((&written["type"], &written["id"]), (&json!("handoff_expired"), &json!("audit-8")));
    assert_eq!(written["details"], json!({"handoff_id": handoff_id}));
}

#[test]
fn b4_an_audit_entry_names_the_model_that_drafts_again() {
    let handoff_id = HandoffId::generate();
    let drafted_again = |model: serde_json::Value| {
        let body = json!({"handoff_id": handoff_id, "iteration": 0, "model": model});
        event(EventType::HandoffRefined, &body)
    };
    let events = [json!("extractive"), json!("openai/mini"), json!(null)].map(drafted_again);
    let texts = history(&to_events(events.into())).into_iter().map(|entry| match entry.item {
        HistoryItem::Audit(audit) => audit.text,
        item => panic!("{item:?}"),
    });
    assert_eq!(
        texts.collect::<Vec<_>>(),
        [
            "Handoff drafted again without a model",
            "Handoff drafted again by openai/mini",
            "Handoff drafted again"
        ]
    );
}
