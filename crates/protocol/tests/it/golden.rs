//! Golden files of the stored and sent shapes: each shape parses its file and the form of a later version under
//! `future/`, and is written back unchanged. A failing file means that the format changed.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::{Path, PathBuf};

use protocol::{
    ApiKey, ArchiveReason, Checkpoint, CheckpointEntry, CheckpointSource, ClippedResult, Compaction,
    CompactionFailed, CompactionTrigger, CompactionUndone, ContentBlock, Decision, Decisions, Event,
    EventType, Handoff, HandoffMark, HandoffStatus, HandoffSummary, IncompleteImport, Interrupt,
    InterruptPayload, LoggedMessage, MediumTermSummary, Message, MessageRole, ParentKind, Proposal, Run,
    RunCommand, RunFeedback, RunRequest, RunStatus, StopReason, StoredItem, SummaryItemKind, Thread,
    ThreadStatus, TurnsArchived, TurnsRestored,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/golden")
}

fn read_text(name: &str) -> String {
    let path = folder().join(format!("{name}.json"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn read_shape<T: DeserializeOwned>(name: &str) -> T {
    serde_json::from_str(&read_text(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn files_in(folder: &Path) -> BTreeSet<String> {
    let files = std::fs::read_dir(folder).unwrap();
    files.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Returns the JSON that a shape is serialized to.
fn to_json(shape: &impl Serialize) -> Value {
    serde_json::from_str(&serde_json::to_string(shape).unwrap()).unwrap()
}

/// Asserts that the golden file `name` is written back unchanged, and that its form of a later version parses to the
/// same value.
fn check_round_trip<T: DeserializeOwned + Serialize + PartialEq + Debug>(name: &str) {
    let shape: T = read_shape(name);
    assert_eq!(to_json(&shape), read_shape::<Value>(name), "{name}");
    let later: T = read_shape(&format!("future/{name}"));
    assert_eq!(later, shape, "future/{name}");
}

const MESSAGES: &[&str] = &["message_human", "message_ai", "message_ai_incomplete", "message_tool"];
const EVENTS: &[&str] = &["event", "event_bare"];
const MARKS: &[&str] = &["handoff_mark"];
const IMPORTS: &[&str] = &["incomplete_import", "incomplete_import_continued"];
const THREADS: &[&str] = &["thread_child", "thread_parent", "thread_subagent"];
const RUNS: &[&str] = &["run", "run_ended"];
const CHECKPOINTS: &[&str] = &["checkpoint", "checkpoint_idle", "checkpoint_update", "checkpoint_rewind"];
const POINTS: &[&str] = &["step_point", "step_point_idle", "step_point_admission", "step_point_update"];
const REQUESTS: &[&str] = &["run_request", "run_request_resume", "run_request_rehome"];
const COMMANDS: &[&str] = &["command", "command_goto"];
const KEYS: &[&str] = &["api_key", "api_key_revoked"];
/// Shapes that earlier versions wrote differently. Their old forms are under `past/`.
const PAST: &[&str] = &[
    "checkpoint",
    "checkpoint_idle",
    "step_point",
    "step_point_idle",
    "handoff_summary",
    "proposal",
    "compaction",
];
const SUMMARIES: &[&str] = &["handoff_summary", "handoff_summary_extract"];
const PAYLOADS: &[&str] =
    &["interrupt_payload", "interrupt_payload_refined", "interrupt_payload_asked", "interrupt_payload_calls"];
const INTERRUPTS: &[&str] = &["interrupt", "interrupt_resolved", "interrupt_withdrawn"];
const DECISIONS: &[&str] = &[
    "decisions_accept",
    "decisions_accept_hash",
    "decisions_edit_markdown",
    "decisions_edit_json",
    "decisions_refine",
    "decisions_revert",
    "decisions_redraft",
    "decisions_redraft_model",
    "decisions_redraft_newer",
    "decisions_decline",
    "decisions_decline_silently",
    "decisions_preview",
    "decisions_defer",
];
const HANDOFFS: &[&str] = &["handoff", "handoff_seeded"];
const PROPOSALS: &[&str] = &["proposal", "proposal_refined"];
const COMPACTIONS: &[&str] = &["compaction", "compaction_extract"];
const CLIPS: &[&str] = &["clipped_result"];
const UNDONE: &[&str] = &["compaction_undone"];
const FAILED: &[&str] = &["compaction_failed"];
const FEEDBACK: &[&str] = &["run_feedback", "run_feedback_bare"];
const MEMORIES: &[&str] = &["medium_term_summary"];
const TURNS: &[&str] = &["logged_turn", "logged_turn_archived"];
const ARCHIVED: &[&str] = &["turns_archived", "turns_archived_compaction"];
const RESTORED: &[&str] = &["turns_restored"];
const ITEMS: &[&str] = &["item"];
/// A summary of a later version, with an unknown field in its `carried`.
const UNKNOWN_FACT: &str = "handoff_summary_unknown_fact";

#[test]
fn a23_every_shape_parses_its_current_form_and_the_form_of_a_later_version() {
    MESSAGES.iter().for_each(|name| check_round_trip::<Message>(name));
    check_round_trip::<Event>("event_bare");
    MARKS.iter().for_each(|name| check_round_trip::<HandoffMark>(name));
    IMPORTS.iter().for_each(|name| check_round_trip::<IncompleteImport>(name));
    THREADS.iter().for_each(|name| check_round_trip::<Thread>(name));
    RUNS.iter().for_each(|name| check_round_trip::<Run>(name));
    CHECKPOINTS.iter().for_each(|name| check_round_trip::<Checkpoint>(name));
    POINTS.iter().for_each(|name| check_round_trip::<CheckpointEntry>(name));
    REQUESTS.iter().for_each(|name| check_round_trip::<RunRequest>(name));
    COMMANDS.iter().for_each(|name| check_round_trip::<RunCommand>(name));
    KEYS.iter().for_each(|name| check_round_trip::<ApiKey>(name));
    SUMMARIES.iter().for_each(|name| check_round_trip::<HandoffSummary>(name));
    PAYLOADS.iter().for_each(|name| check_round_trip::<InterruptPayload>(name));
    INTERRUPTS.iter().for_each(|name| check_round_trip::<Interrupt>(name));
    DECISIONS.iter().for_each(|name| check_round_trip::<Decisions>(name));
    HANDOFFS.iter().for_each(|name| check_round_trip::<Handoff>(name));
    PROPOSALS.iter().for_each(|name| check_round_trip::<Proposal>(name));
    COMPACTIONS.iter().for_each(|name| check_round_trip::<Compaction>(name));
    CLIPS.iter().for_each(|name| check_round_trip::<ClippedResult>(name));
    UNDONE.iter().for_each(|name| check_round_trip::<CompactionUndone>(name));
    FAILED.iter().for_each(|name| check_round_trip::<CompactionFailed>(name));
    FEEDBACK.iter().for_each(|name| check_round_trip::<RunFeedback>(name));
    MEMORIES.iter().for_each(|name| check_round_trip::<MediumTermSummary>(name));
    TURNS.iter().for_each(|name| check_round_trip::<LoggedMessage>(name));
    ARCHIVED.iter().for_each(|name| check_round_trip::<TurnsArchived>(name));
    RESTORED.iter().for_each(|name| check_round_trip::<TurnsRestored>(name));
    ITEMS.iter().for_each(|name| check_round_trip::<StoredItem>(name));
}

#[test]
fn a23_forms_of_earlier_versions_parse_as_the_current_form() {
    for name in &PAST[..2] {
        assert_eq!(read_shape::<Checkpoint>(&format!("past/{name}")), read_shape(name), "{name}");
    }
    for name in &PAST[2..4] {
        assert_eq!(read_shape::<CheckpointEntry>(&format!("past/{name}")), read_shape(name), "{name}");
    }
    let [.., summary, proposal, compaction] = PAST else { panic!("the shapes of version 1") };
    let past = |name: &str| format!("past/{name}");
    assert_eq!(read_shape::<HandoffSummary>(&past(summary)), read_shape(summary));
    assert_eq!(read_shape::<Proposal>(&past(proposal)), read_shape(proposal));
    assert_eq!(read_shape::<Compaction>(&past(compaction)), read_shape(compaction));
}

#[test]
fn every_golden_file_is_read_by_a_test() {
    let named = [
        MESSAGES,
        EVENTS,
        MARKS,
        IMPORTS,
        THREADS,
        RUNS,
        CHECKPOINTS,
        POINTS,
        REQUESTS,
        COMMANDS,
        KEYS,
        SUMMARIES,
        PAYLOADS,
        INTERRUPTS,
        DECISIONS,
        HANDOFFS,
        PROPOSALS,
        COMPACTIONS,
        CLIPS,
        UNDONE,
        FAILED,
        FEEDBACK,
        MEMORIES,
        TURNS,
        ARCHIVED,
        RESTORED,
        ITEMS,
    ];
    let later: BTreeSet<String> = named.concat().iter().map(|name| format!("{name}.json")).collect();
    assert_eq!(files_in(&folder().join("future")), later);
    let past: BTreeSet<String> = PAST.iter().map(|name| format!("{name}.json")).collect();
    assert_eq!(files_in(&folder().join("past")), past);
    let mut expected = later;
    expected.insert(format!("{UNKNOWN_FACT}.json"));
    expected.extend(["events", "future", "past"].map(str::to_owned));
    assert_eq!(files_in(&folder()), expected);
}

#[test]
fn a23_an_event_of_an_unknown_type_parses_and_is_preserved_byte_for_byte() {
    let event: Event = read_shape("event");
    assert_eq!(to_json(&event), read_shape::<Value>("event"));
    assert_eq!((event.kind(), event.seq), (Some(EventType::HumanMessage), 12));
    assert_eq!(event.message(), Some(Message::human("Hello.")));
    let later: Event = read_shape("future/event");
    assert_eq!((later.kind(), later.message()), (None, None));
    assert_eq!((later.event_type.as_str(), later.category.as_str()), ("mood_changed", "feelings"));
    assert!(read_text("future/event").contains(later.content.get()), "the content is the file's own bytes");
    let metadata = |event: &Event| event.metadata.as_ref().map(to_json);
    assert_eq!(metadata(&later), metadata(&event));
}

#[test]
fn a23_an_unknown_stop_reason_parses_as_other() {
    for (name, expected) in [
        ("end_turn", StopReason::EndTurn),
        ("tool_calls", StopReason::ToolCalls),
        ("max_tokens", StopReason::MaxTokens),
        ("refusal", StopReason::Refusal),
        ("other", StopReason::Other),
        ("context_compacted", StopReason::Other),
        ("", StopReason::Other),
    ] {
        let json = format!(r#"{{"type":"ai","content":[],"stop":"{name}"}}"#);
        let Message::Ai(message) = serde_json::from_str(&json).unwrap() else { panic!("{json}") };
        assert_eq!(message.stop, Some(expected), "{name}");
    }
}

#[test]
fn a23_unknown_carried_facts_of_a_later_version_are_preserved() {
    let summary: HandoffSummary = read_shape(UNKNOWN_FACT);
    assert_eq!(summary.carried.more["open_questions"][0], "Which fixture?");
    assert_eq!(to_json(&summary), read_shape::<Value>(UNKNOWN_FACT));
}

#[test]
fn fields_that_older_files_lack_have_their_default() {
    let tool: Message = serde_json::from_str(r#"{"type":"tool","call_id":"c","content":[]}"#).unwrap();
    assert_eq!(to_json(&tool)["status"], "success");
    let ai: Message = serde_json::from_str(r#"{"type":"ai","content":[],"usage":{}}"#).unwrap();
    assert_eq!(to_json(&ai)["usage"]["output_tokens"], 0);
    let mut old: Value = read_shape("handoff_summary");
    old["carried"] = serde_json::json!({});
    for item in old["body"].as_array_mut().unwrap() {
        item.as_object_mut().unwrap().retain(|key, _| key == "kind" || key == "text");
    }
    let summary: HandoffSummary = serde_json::from_value(old).unwrap();
    assert!(summary.body.iter().all(|item| item.verified && item.refs.is_empty()));
    assert_eq!(summary.carried, protocol::CarriedFacts::default());
}

#[test]
fn c2_fields_that_an_older_compaction_lacks_have_their_default() {
    let mut old: Value = read_shape("compaction");
    old["sections"] = serde_json::json!({"goal": "g"});
    let later = ["last_request_seq", "previous_seq", "focus", "step", "usage", "prompt_sha256"];
    old.as_object_mut().unwrap().retain(|key, _| !later.contains(&key.as_str()));
    let compaction: Compaction = serde_json::from_value(old).unwrap();
    assert_eq!((compaction.last_request_seq, compaction.previous_seq, compaction.step), (None, None, 0));
    assert_eq!(compaction.sections.next_step, "");
    for (name, trigger) in [
        ("auto", CompactionTrigger::Auto),
        ("manual", CompactionTrigger::Manual),
        ("overflow", CompactionTrigger::Overflow),
    ] {
        assert_eq!(to_json(&trigger), name);
        assert_eq!(trigger.as_str(), name);
    }
}

#[test]
fn f6_the_archive_reason_decides_whether_messages_leave_the_context() {
    for (name, reason, is_removed) in [
        ("budget", ArchiveReason::Budget, true),
        ("request", ArchiveReason::Request, true),
        ("compaction", ArchiveReason::Compaction, false),
    ] {
        assert_eq!((to_json(&reason), reason.is_removed_from_context()), (name.into(), is_removed));
    }
    assert_eq!(
        (to_json(&MessageRole::User), to_json(&MessageRole::Assistant)),
        ("user".into(), "assistant".into())
    );
}

#[test]
fn a_stored_undo_without_clipped_results_parses() {
    let undone: CompactionUndone = serde_json::from_str(r#"{"marker_seq":7}"#).unwrap();
    assert_eq!((undone.marker_seq, undone.clip_seqs), (7, Vec::new()));
}

#[test]
fn the_golden_messages_hold_every_kind_of_block() {
    let blocks = MESSAGES.iter().flat_map(|name| read_shape::<Message>(name).content().to_vec());
    let kinds: BTreeSet<&str> = blocks
        .map(|block| match block {
            ContentBlock::Text { .. } => "text",
            ContentBlock::Thinking { .. } => "thinking",
            ContentBlock::ToolCall { .. } => "tool_call",
            ContentBlock::Media { .. } => "media",
            ContentBlock::Opaque { .. } => "opaque",
        })
        .collect();
    assert_eq!(kinds.len(), 5, "{kinds:?}");
}

#[test]
fn g6_the_golden_summary_holds_every_kind_of_item_in_order() {
    let summary: HandoffSummary = read_shape("handoff_summary");
    assert_eq!(summary.body.iter().map(|item| item.kind).collect::<Vec<_>>(), SummaryItemKind::ALL);
}

#[test]
fn both_threads_of_a_handoff_carry_a_readable_mark() {
    let (child, parent): (Thread, Thread) = (read_shape("thread_child"), read_shape("thread_parent"));
    let (child_mark, parent_mark) = (child.handoff_mark().unwrap(), parent.handoff_mark().unwrap());
    assert_eq!(child_mark, read_shape("handoff_mark"));
    assert_eq!(parent_mark.handoff_id, child_mark.handoff_id);
    assert!(!parent_mark.pending && !parent_mark.cleanup_required && parent_mark.last_cleanup_at.is_some());
    let mut later = child;
    later.metadata.insert(HandoffMark::KEY.to_owned(), read_shape("future/handoff_mark"));
    assert_eq!(later.handoff_mark(), Some(child_mark));
}

#[test]
fn a_thread_has_the_mark_of_an_incomplete_import_in_its_metadata() {
    let mut thread: Thread = read_shape("thread_parent");
    assert_eq!(thread.incomplete_import(), None);
    thread.metadata.insert(IncompleteImport::KEY.to_owned(), read_shape("future/incomplete_import"));
    assert_eq!(thread.incomplete_import(), Some(read_shape("incomplete_import")));
}

#[test]
fn the_payload_has_exactly_the_fields_of_the_contract() {
    let common = [
        "handoff_id",
        "assistant_id",
        "parent_thread_id",
        "summary_json",
        "package_md",
        "summary_md",
        "summary_sha256",
        "preview_only",
        "iteration",
        "uncovered_messages",
        "remaining_refinements",
        "initiated_by",
    ];
    let refined = ["feedback", "feedback_history"];
    let requested_by_agent = [&refined[..], &["goal", "tool_call_id", "problem", "unused_feedback"]].concat();
    for (name, additional) in [
        ("interrupt_payload", &[][..]),
        ("interrupt_payload_refined", &refined),
        ("interrupt_payload_asked", &requested_by_agent),
    ] {
        let payload: InterruptPayload = read_shape(name);
        let args = payload.action_requests[0].args.as_object().unwrap();
        let fields: BTreeSet<&str> = args.keys().map(String::as_str).collect();
        assert_eq!(fields, common.iter().chain(additional).copied().collect(), "{name}");
        let summary: HandoffSummary = serde_json::from_value(args["summary_json"].clone()).unwrap();
        assert_eq!(u64::from(summary.iteration), args["iteration"].as_u64().unwrap(), "{name}");
    }
}

#[test]
fn g3_decisions_parse_as_their_kind() {
    let types: Vec<&str> = DECISIONS
        .iter()
        .map(|name| read_shape::<Decisions>(name).decisions.first().map(Decision::type_name).unwrap())
        .collect();
    assert_eq!(types[..9], ["approve", "approve", "approve", "edit", "edit", "edit", "edit", "edit", "edit"]);
    assert_eq!(types[9..], ["reject", "reject", "preview", "approve"]);
    assert_eq!(read_shape::<Decisions>("decisions_defer").decisions[1].type_name(), "defer");
}

/// Asserts for every status that JSON, the column and parsing use the same name.
#[test]
fn every_status_has_one_name_in_json_and_in_the_database() {
    for status in RunStatus::ALL {
        assert_eq!(to_json(&status), status.as_str());
        assert_eq!(RunStatus::from_name(status.as_str()), Some(status));
    }
    for status in ThreadStatus::ALL {
        assert_eq!(to_json(&status), status.as_str());
        assert_eq!(ThreadStatus::from_name(status.as_str()), Some(status));
    }
    for status in HandoffStatus::ALL {
        assert_eq!(to_json(&status), status.as_str());
        assert_eq!(HandoffStatus::from_name(status.as_str()), Some(status));
    }
    for source in CheckpointSource::ALL {
        assert_eq!(to_json(&source), source.as_str());
        assert_eq!(CheckpointSource::from_name(source.as_str()), Some(source));
    }
    for kind in ParentKind::ALL {
        assert_eq!(to_json(&kind), kind.as_str());
        assert_eq!(ParentKind::from_name(kind.as_str()), Some(kind));
    }
}
