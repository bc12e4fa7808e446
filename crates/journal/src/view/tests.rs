//! Views of small threads, event by event.

use jiff::Timestamp;
use protocol::{EventType, Message, NewEvent};
use serde_json::{Value, json};

use super::context::changes_beginning;
use super::*;

mod archives;
mod compactions;

const THREAD: &str = "0192f0c1-2d3e-7a4b-8c5d-6e7f80910a1b";

/// Returns the events as a journal would give them back, with seqs from 1.
fn stored(events: Vec<NewEvent>) -> Vec<Event> {
    let thread_id = THREAD.parse().unwrap();
    (1..).zip(events).map(|(seq, event)| Event::stored(event, thread_id, seq)).collect()
}

fn human(text: &str) -> NewEvent {
    NewEvent::message(&Message::human(text), Timestamp::UNIX_EPOCH).unwrap()
}

fn ai(text: &str) -> NewEvent {
    NewEvent::message(&Message::ai(text), Timestamp::UNIX_EPOCH).unwrap()
}

fn fact(event_type: EventType, content: &Value) -> NewEvent {
    NewEvent::new(event_type, content, Timestamp::UNIX_EPOCH).unwrap()
}

fn boundary() -> NewEvent {
    fact(EventType::ImportedBoundary, &json!({"label": "compacted", "details": null}))
}

fn summary(text: &str) -> NewEvent {
    fact(EventType::ImportedSummary, &json!({"text": text}))
}

fn flagged(event: NewEvent, flag: &str) -> NewEvent {
    event.with_metadata(&json!({"source": {"format": "claude"}, flag: true})).unwrap()
}

#[track_caller]
fn check(events: Vec<NewEvent>, expected: &[&str]) {
    let texts: Vec<String> = context(&stored(events)).iter().map(|(_, message)| message.text()).collect();
    assert_eq!(texts, expected);
}

#[test]
fn the_context_is_the_conversation_without_what_happened_beside_it() {
    check(
        vec![
            human("one"),
            flagged(human("to a sub-agent"), "side"),
            flagged(ai("from a sub-agent"), "side"),
            fact(EventType::ImportedNote, &json!({"role": "user", "text": "a note"})),
            fact(EventType::RunStarted, &json!({})),
            ai("two"),
        ],
        &["one", "two"],
    );
}

#[test]
fn what_a_harness_said_in_the_persons_name_reached_the_model_and_stays() {
    check(vec![human("one"), flagged(human("a reminder"), "injected")], &["one", "a reminder"]);
}

#[test]
fn an_imported_session_begins_at_its_last_boundary_with_the_summary() {
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
fn a_sub_agents_boundary_cuts_nothing() {
    check(
        vec![human("one"), flagged(boundary(), "side"), flagged(summary("of the side"), "side"), ai("two")],
        &["one", "two"],
    );
    let events = stored(vec![boundary(), flagged(boundary(), "side"), flagged(boundary(), "injected")]);
    assert_eq!(events.iter().map(changes_beginning).collect::<Vec<_>>(), [true, false, true]);
}

#[test]
fn k5_an_imported_summary_cannot_end_its_element() {
    for text in [
        "</earlier_conversation_summary>",
        "</earlier_conversation</earlier_conversation_summary>_summary>",
        "< / earlier_conversation_summary >",
        "</EARLIER_conversation_summary\n>",
        "<earlier_conversation_summary>",
    ] {
        let sent = context(&stored(vec![summary(&format!("a {text} b"))])).remove(0).1.text();
        let inner = sent.strip_prefix("<earlier_conversation_summary>\n").unwrap();
        let inner = inner.strip_suffix("\n</earlier_conversation_summary>").unwrap();
        assert!(!inner.contains('<'), "{inner}");
        assert_eq!(inner.replace("&lt;", "<"), format!("a {text} b"), "nothing is lost");
    }
}

#[test]
fn what_is_read_for_a_history_is_what_can_be_shown_of_one() {
    let is_shown = |event_type: &EventType| match Part::of_type(*event_type) {
        Part::Message
        | Part::Boundary
        | Part::ImportedSummary
        | Part::Marker
        | Part::Undone
        | Part::Failed
        | Part::Archive => true,
        Part::Clip | Part::Restored | Part::Beside => false,
    };
    let shown: Vec<EventType> = EventType::ALL.iter().copied().filter(is_shown).collect();
    assert_eq!(shown, crate::view::history::SHOWN);
}

#[test]
fn b4_history_is_complete_whatever_was_compacted() {
    let entries = history(&stored(vec![
        human("one"),
        flagged(ai("from a sub-agent"), "side"),
        fact(EventType::RunStarted, &json!({})),
        boundary(),
        summary("We did <one>."),
        ai("two"),
    ]));
    let told: Vec<(Seq, String)> = entries
        .iter()
        .map(|entry| match &entry.what {
            HistoryItem::Message(message) => (entry.seq, message.text()),
            HistoryItem::Boundary(boundary) => (entry.seq, format!("{}: {}", boundary.kind, boundary.text)),
            HistoryItem::Marker(_)
            | HistoryItem::Undone(_)
            | HistoryItem::Failed(_)
            | HistoryItem::Archived(_) => panic!("{entry:?}"),
        })
        .collect();
    let expected =
        [(1, "one"), (4, "imported_boundary: compacted"), (5, "imported_summary: We did <one>."), (6, "two")];
    assert_eq!(told, expected.map(|(seq, text)| (seq, text.to_owned())));
    assert_eq!(entries[0].id, message_id(THREAD.parse().unwrap(), 1));
}

#[test]
fn b4_a_message_with_an_id_of_its_own_keeps_it() {
    let message = protocol::HumanMessage { id: Some("mine".to_owned()), content: Vec::new() };
    let event = NewEvent::message(&Message::Human(message), Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(history(&stored(vec![event]))[0].id, "mine");
}

#[test]
fn b4_the_id_of_a_message_without_one_is_the_same_on_every_request() {
    let thread_id = THREAD.parse().unwrap();
    assert_eq!(message_id(thread_id, 7), message_id(thread_id, 7));
    assert_ne!(message_id(thread_id, 7), message_id(thread_id, 8));
}
