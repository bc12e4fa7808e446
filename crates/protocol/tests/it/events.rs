//! Golden files of event bodies: each event type parses every form in which it was ever stored, and writes the
//! current form byte for byte.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::PathBuf;

use protocol::event::body::{
    AiMessage, ClippedResult, Compaction, CompactionFailed, CompactionUndone, DraftRequest, HandoffAccepted,
    HandoffCleaned, HandoffDeclined, HandoffEdited, HandoffExpired, HandoffFailed, HandoffMerged,
    HandoffMirrored, HandoffPreviewed, HandoffProposed, HandoffRefined, HandoffRequested, HandoffReverted,
    HandoffSeeded, HandoffTruncated, HumanMessage, ImportedBoundary, ImportedNote, ImportedSummary,
    MemoryRead, ModelCalled, PinsChanged, RunEnded, RunFailed, RunInterrupted, RunStartKind, RunStarted,
    RunStopRequested, SubagentEnded, ThreadCreated, ThreadRehomed, ThreadRenamed, ThreadRewound,
    ToolCallDecided, ToolCallDecision, ToolMessage, TurnsArchived, TurnsRestored,
};
use protocol::{Event, EventBody, EventType, FailureKind, Message, NewEvent, ThreadId};
use serde::Deserialize;
use serde_json::Value;

/// The golden file of one event type.
#[derive(Deserialize)]
struct GoldenEvent {
    /// Contents that the current version writes.
    now: Vec<Value>,
    /// Contents that only earlier versions wrote.
    past: Vec<Value>,
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/golden/events")
}

fn golden_file(event_type: EventType) -> String {
    format!("{}.json", event_type.as_str().replace(':', "_"))
}

fn read_golden(event_type: EventType) -> GoldenEvent {
    let path = folder().join(golden_file(event_type));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns a stored event of this type, at seq 9, with this content.
fn stored_event(event_type: EventType, content: &Value) -> Event {
    let mut event = Event::from_new(
        NewEvent::from_body(&RunStopRequested {}, jiff::Timestamp::UNIX_EPOCH).unwrap(),
        ThreadId::generate(),
        9,
    );
    event.event_type = event_type.as_str().to_owned();
    event.content = serde_json::value::to_raw_value(content).unwrap();
    event
}

/// Asserts that every content of the golden file parses as `T`, also with an unknown field, and that each current
/// content is written back byte for byte.
fn check_body<T: EventBody + PartialEq + Debug>(event_type: EventType) {
    assert_eq!(T::TYPE, event_type);
    let GoldenEvent { now, past } = read_golden(event_type);
    assert!(!now.is_empty(), "{event_type:?}");
    for content in &now {
        let body: T =
            stored_event(event_type, content).body().unwrap_or_else(|error| panic!("{content}: {error:?}"));
        let new = NewEvent::from_body(&body, jiff::Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!((new.event_type, new.content.get()), (event_type, content.to_string().as_str()));
    }
    for content in now.iter().chain(&past) {
        let body: T =
            stored_event(event_type, content).body().unwrap_or_else(|error| panic!("{content}: {error:?}"));
        let mut later = content.clone();
        later["field_of_a_later_version"] = serde_json::json!({"a": [1]});
        assert_eq!(stored_event(event_type, &later).body::<T>().unwrap(), body, "{later}");
    }
}

/// Checks the golden file of an event type with the body of that type.
fn check_type(event_type: EventType) {
    match event_type {
        EventType::HumanMessage => check_body::<HumanMessage>(event_type),
        EventType::AiMessage => check_body::<AiMessage>(event_type),
        EventType::ToolMessage => check_body::<ToolMessage>(event_type),
        EventType::ImportedNote => check_body::<ImportedNote>(event_type),
        EventType::ImportedBoundary => check_body::<ImportedBoundary>(event_type),
        EventType::ImportedSummary => check_body::<ImportedSummary>(event_type),
        EventType::ThreadCreated => check_body::<ThreadCreated>(event_type),
        EventType::ThreadRenamed => check_body::<ThreadRenamed>(event_type),
        EventType::ThreadRehomed => check_body::<ThreadRehomed>(event_type),
        EventType::ThreadRewound => check_body::<ThreadRewound>(event_type),
        EventType::RunStarted => check_body::<RunStarted>(event_type),
        EventType::RunStopRequested => check_body::<RunStopRequested>(event_type),
        EventType::RunInterrupted => check_body::<RunInterrupted>(event_type),
        EventType::RunEnded => check_body::<RunEnded>(event_type),
        EventType::RunFailed => check_body::<RunFailed>(event_type),
        EventType::ToolCallDecided => check_body::<ToolCallDecided>(event_type),
        EventType::SubagentEnded => check_body::<SubagentEnded>(event_type),
        EventType::ModelCalled => check_body::<ModelCalled>(event_type),
        EventType::MemoryRead => check_body::<MemoryRead>(event_type),
        EventType::Compacted => check_body::<Compaction>(event_type),
        EventType::CompactionUndone => check_body::<CompactionUndone>(event_type),
        EventType::CompactionFailed => check_body::<CompactionFailed>(event_type),
        EventType::ResultClipped => check_body::<ClippedResult>(event_type),
        EventType::TurnsArchived => check_body::<TurnsArchived>(event_type),
        EventType::TurnsRestored => check_body::<TurnsRestored>(event_type),
        EventType::PinsChanged => check_body::<PinsChanged>(event_type),
        EventType::HandoffRequested => check_body::<HandoffRequested>(event_type),
        EventType::HandoffProposed => check_body::<HandoffProposed>(event_type),
        EventType::HandoffRefined => check_body::<HandoffRefined>(event_type),
        EventType::HandoffEdited => check_body::<HandoffEdited>(event_type),
        EventType::HandoffReverted => check_body::<HandoffReverted>(event_type),
        EventType::HandoffTruncated => check_body::<HandoffTruncated>(event_type),
        EventType::HandoffAccepted => check_body::<HandoffAccepted>(event_type),
        EventType::HandoffMerged => check_body::<HandoffMerged>(event_type),
        EventType::HandoffDeclined => check_body::<HandoffDeclined>(event_type),
        EventType::HandoffPreviewed => check_body::<HandoffPreviewed>(event_type),
        EventType::HandoffFailed => check_body::<HandoffFailed>(event_type),
        EventType::HandoffExpired => check_body::<HandoffExpired>(event_type),
        EventType::HandoffSeeded => check_body::<HandoffSeeded>(event_type),
        EventType::HandoffCleaned => check_body::<HandoffCleaned>(event_type),
        EventType::HandoffMirrored => check_body::<HandoffMirrored>(event_type),
    }
}

#[test]
fn a22_a23_every_event_body_parses_all_stored_forms_and_writes_the_current_form() {
    EventType::ALL.iter().for_each(|event_type| check_type(*event_type));
}

#[test]
fn a22_a23_every_event_type_has_exactly_one_golden_file() {
    let files = std::fs::read_dir(folder()).unwrap();
    let names: BTreeSet<String> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(names, EventType::ALL.iter().map(|event_type| golden_file(*event_type)).collect());
}

#[test]
fn a_message_is_stored_with_its_tag_by_every_constructor() {
    let message = Message::human("Hello.");
    let Message::Human(body) = &message else { panic!("{message:?}") };
    let time = jiff::Timestamp::UNIX_EPOCH;
    let (from_message, from_body) =
        (NewEvent::from_message(&message, time).unwrap(), NewEvent::from_body(body, time).unwrap());
    assert_eq!(from_message.content.get(), serde_json::to_string(&message).unwrap());
    assert_eq!(from_body.content.get(), from_message.content.get());
}

#[test]
fn the_error_of_an_invalid_body_names_thread_seq_and_type() {
    let invalid = stored_event(EventType::ThreadRewound, &serde_json::json!({"keep_seq": "seven"}));
    let error = invalid.body::<ThreadRewound>().unwrap_err();
    let details = (error.thread_id, error.seq, error.event_type.as_str(), error.expected);
    assert_eq!(details, (invalid.thread_id, 9, "thread_rewound", EventType::ThreadRewound));
    assert!(error.source.is_some());
    let wrong_type = invalid.body::<ThreadRenamed>().unwrap_err();
    assert!(
        wrong_type.source.is_none()
            && wrong_type.to_string().contains("`thread_rewound`, as `thread_renamed`"),
        "{wrong_type}"
    );
}

#[test]
fn forms_of_earlier_versions_parse_with_their_meaning() {
    let past = |event_type: EventType, index: usize| {
        let content = &read_golden(event_type).past[index];
        stored_event(event_type, content)
    };
    let called: ModelCalled = past(EventType::ModelCalled, 0).body().unwrap();
    assert_eq!(called.problem.as_deref(), Some("the answer was empty"));
    let failed: RunFailed = past(EventType::RunFailed, 0).body().unwrap();
    assert_eq!((failed.failure.kind, failed.steps), (FailureKind::Store, 0));
    let started: RunStarted = past(EventType::RunStarted, 0).body().unwrap();
    assert_eq!(started.how, RunStartKind::Admitted);
    let created: ThreadCreated = past(EventType::ThreadCreated, 1).body().unwrap();
    assert_eq!(created, ThreadCreated::Other);
    let refined: HandoffRefined = past(EventType::HandoffRefined, 0).body().unwrap();
    assert_eq!(refined.request, DraftRequest::Feedback { feedback: "Shorter.".to_owned() });
    let mirrored: HandoffMirrored = past(EventType::HandoffMirrored, 0).body().unwrap();
    assert_eq!(mirrored.error, None);
    assert_eq!(ToolCallDecision::from("allow").as_str(), "allow");
}
