//! Tests of runs that start at an earlier checkpoint: edited messages, regenerated answers and other branches.

use agent::ApprovalPolicy;
use protocol::{RunStatus, ThreadStatus};
use serde_json::{Value, json};
use test_model::ScriptedReply;

use super::{RequestFixture, approve, assert_fault, done_reply, user_request, write_call};

/// Adds the id of the checkpoint at which the run starts to a request.
fn with_checkpoint(mut request: Value, point: &str) -> Value {
    request["checkpoint_id"] = point.into();
    request
}

/// Returns the checkpoint from which a client edits or regenerates a message: the parent of the first state with it.
async fn point_before(fixture: &RequestFixture, text: &str) -> String {
    let states = fixture.agent.threads().states(fixture.thread, None, 100).await.unwrap();
    let has =
        |state: &&agent::ThreadSnapshot| state.messages.iter().any(|shown| shown.message.text() == text);
    let first = states.iter().rev().find(has).expect("the message is in some state");
    first.parent_id.map(|id| id.to_string()).expect("the first state with a message has a parent without it")
}

/// Returns whether the input with the message follows the checkpoint, directly or after the checkpoint of the input.
async fn has_parent_point(fixture: &RequestFixture, text: &str, point: &str) -> bool {
    let input = point_before(fixture, text).await;
    let state = fixture.agent.threads().state_at(fixture.thread, input.parse().unwrap()).await.unwrap();
    input == point || state.parent_id.is_some_and(|id| id.to_string() == point)
}

/// Returns a fixture whose model replies with `texts`, one after the other.
async fn fixture_with_replies(texts: &[&str]) -> RequestFixture {
    RequestFixture::new(texts.iter().map(|text| ScriptedReply::text(*text)).collect::<Vec<_>>()).await
}

#[tokio::test]
async fn a_run_from_the_newest_checkpoint_starts_no_branch() {
    let fixture = fixture_with_replies(&["One.", "Two."]).await;
    fixture.say("First.").await;
    let head = fixture.head().await;
    let end = fixture.run(with_checkpoint(user_request("Second."), &head)).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(fixture.transcript_lines().await, ["U: First.", "A: One.", "U: Second.", "A: Two."]);
    let events = fixture.agent.threads().events(fixture.thread).await.unwrap();
    assert!(events.iter().all(|event| event.event_type != "thread_rewound"));
}

#[tokio::test]
async fn b12_an_edited_message_starts_a_branch_and_the_old_branch_stays() {
    let fixture = fixture_with_replies(&["One.", "Two.", "Three."]).await;
    fixture.say("First.").await;
    fixture.say("Second.").await;
    let old_head = fixture.head().await;
    let point = point_before(&fixture, "Second.").await;
    let end = fixture.run(with_checkpoint(user_request("Other."), &point)).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(fixture.transcript_lines().await, ["U: First.", "A: One.", "U: Other.", "A: Three."]);
    assert!(has_parent_point(&fixture, "Other.", &point).await, "both branches have the same parent");
    let old = fixture.agent.threads().state_at(fixture.thread, old_head.parse().unwrap()).await.unwrap();
    assert_eq!(old.messages.last().unwrap().message.text(), "Two.");
    let sent = fixture.server.requests()[2].body.to_string();
    assert!(!sent.contains("Second."), "{sent}");
}

#[tokio::test]
async fn the_first_message_can_be_edited_too() {
    let fixture = fixture_with_replies(&["One.", "Two."]).await;
    fixture.say("First.").await;
    let point = point_before(&fixture, "First.").await;
    let end = fixture.run(with_checkpoint(user_request("Other."), &point)).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(fixture.transcript_lines().await, ["U: Other.", "A: Two."]);
}

#[tokio::test]
async fn an_answer_is_regenerated_without_repeating_the_message() {
    let fixture = fixture_with_replies(&["One.", "Another."]).await;
    fixture.say("First.").await;
    let point = point_before(&fixture, "One.").await;
    let end = fixture.run(with_checkpoint(json!({}), &point)).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(fixture.transcript_lines().await, ["U: First.", "A: Another."]);
    let state = fixture.agent.threads().state(fixture.thread).await.unwrap().unwrap();
    assert_eq!(state.messages.len(), 2);
}

#[tokio::test]
async fn a_run_without_input_at_the_checkpoint_of_an_input_repeats_that_input() {
    let fixture = fixture_with_replies(&["One.", "Another."]).await;
    fixture.say("First.").await;
    let point = point_before(&fixture, "First.").await;
    let end = fixture.run(with_checkpoint(json!({"input": null}), &point)).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(fixture.transcript_lines().await, ["U: First.", "A: Another."]);
}

#[tokio::test]
async fn an_abandoned_branch_can_be_continued() {
    let fixture = fixture_with_replies(&["One.", "Two.", "Three.", "Four."]).await;
    fixture.say("First.").await;
    fixture.say("Second.").await;
    let old_head = fixture.head().await;
    let point = point_before(&fixture, "Second.").await;
    fixture.run(with_checkpoint(user_request("Other."), &point)).await;
    let end = fixture.run(with_checkpoint(user_request("Back."), &old_head)).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    let expected_lines = ["U: First.", "A: One.", "U: Second.", "A: Two.", "U: Back.", "A: Four."];
    assert_eq!(fixture.transcript_lines().await, expected_lines);
    assert!(has_parent_point(&fixture, "Back.", &old_head).await);
}

#[tokio::test]
async fn a_run_without_input_at_an_idle_checkpoint_runs_nothing() {
    let fixture = fixture_with_replies(&["One.", "Two."]).await;
    fixture.say("First.").await;
    let idle_checkpoint = fixture.head().await;
    fixture.say("Second.").await;
    let end = fixture.run(with_checkpoint(json!({"input": null}), &idle_checkpoint)).await;
    assert_eq!((end.status, fixture.server.call_count()), (RunStatus::Success, 2), "{end:?}");
    assert_eq!(fixture.transcript_lines().await, ["U: First.", "A: One."]);
    assert_eq!(fixture.row().await.status, ThreadStatus::Idle);
}

#[tokio::test]
async fn an_unknown_checkpoint_fails_the_run_and_changes_nothing() {
    let fixture = fixture_with_replies(&["One."]).await;
    fixture.say("First.").await;
    for request in [user_request("x"), json!({"input": null}), json!({"command": {"resume": approve()}})] {
        let end = fixture.run(with_checkpoint(request, "0192f0c1-2d3e-7a4b-8c5d-6e7f80910a1b")).await;
        assert_fault(&end, "UnknownCheckpointError");
    }
    assert_eq!(fixture.transcript_lines().await, ["U: First.", "A: One."]);
}

#[tokio::test]
async fn k8_a_call_needs_a_new_approval_on_another_branch() {
    let fixture = RequestFixture::new([write_call("c1", "a"), done_reply()]).await;
    fixture.say("Write.").await;
    let question_checkpoint = fixture.head().await;
    let refuse = json!({"decisions": [{"type": "reject", "message": "no"}]});
    fixture.run(json!({"command": {"resume": refuse}})).await;
    assert_eq!(fixture.environment.read_file("a"), "");
    // A second answer to a decided question is refused: it does not count as an answer to a new question.
    let end =
        fixture.run(with_checkpoint(json!({"command": {"resume": approve()}}), &question_checkpoint)).await;
    assert_fault(&end, "UnknownInterruptError");
    let end = fixture.run(with_checkpoint(json!({"input": null}), &question_checkpoint)).await;
    assert_eq!((end.status, end.interrupts.len()), (RunStatus::Interrupted, 1), "{end:?}");
    assert_eq!(fixture.environment.read_file("a"), "", "the call is not made before the answer");
    let end = fixture.run(json!({"command": {"resume": approve()}})).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(fixture.environment.read_file("a"), "a");
}

#[tokio::test]
async fn k6_a_branch_runs_in_the_folder_of_its_thread() {
    let fixture = RequestFixture::new([write_call("c1", "a"), done_reply()]).await;
    fixture.say("Write.").await;
    let question_checkpoint = fixture.head().await;
    fixture.run(json!({"command": {"resume": approve()}})).await;
    let other_folder = fixture.environment.folder().join("elsewhere");
    std::fs::create_dir_all(&other_folder).unwrap();
    let settings = agent::AgentSettings {
        workspace: other_folder,
        approval_policy: ApprovalPolicy::Allow,
        ..fixture.environment.settings(crate::environment::TEST_MODEL)
    };
    let other_folder = settings.workspace.clone();
    let other_agent = agent::Agent::with_store(settings, fixture.environment.store()).unwrap();
    std::fs::remove_file(fixture.environment.workspace().join("a")).unwrap();
    let end = super::run(
        &other_agent,
        fixture.thread,
        with_checkpoint(json!({"input": null}), &question_checkpoint),
    )
    .await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(fixture.environment.read_file("a"), "a", "the branch works in the folder of its thread");
    assert!(!other_folder.join("a").exists());
}

/// Returns a fixture whose thread has a pending handoff, and the id of that handoff.
async fn fixture_with_handoff(texts: &[&str]) -> (RequestFixture, protocol::HandoffId) {
    let fixture = fixture_with_replies(texts).await;
    let mut first = user_request("First.");
    first["input"]["messages"][0]["id"] = "first".into();
    fixture.run(first).await;
    let (frames, cancel) = crate::environment::unwatched();
    let request = agent::HandoffRequestOptions::default();
    // An agent without a model drafts it, so that no scripted reply is used up.
    let pending = fixture
        .environment
        .agent()
        .handoffs()
        .request(fixture.thread, request, &frames, &cancel)
        .await
        .unwrap();
    (fixture, pending.handoff.handoff_id)
}

#[tokio::test]
async fn a_branch_from_before_a_pending_handoff_expires_the_handoff() {
    for (input, text, expected_lines) in [
        (user_request("Other."), "First.", ["U: Other.", "A: Two."]),
        (json!({}), "One.", ["U: First.", "A: Two."]),
        (json!({"input": null}), "First.", ["U: First.", "A: Two."]),
    ] {
        let (fixture, handoff_id) = fixture_with_handoff(&["One.", "Two."]).await;
        let point = point_before(&fixture, text).await;
        let end = fixture.run(with_checkpoint(input, &point)).await;
        assert_eq!(end.status, RunStatus::Success, "{end:?}");
        assert_eq!(fixture.transcript_lines().await, expected_lines);
        assert_eq!(fixture.agent.handoffs().get(handoff_id).await.unwrap().status.as_str(), "expired");
        assert_eq!(fixture.row().await.status, ThreadStatus::Idle);
        assert!(fixture.agent.runs().pending_interrupts(fixture.thread).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_changed_message_expires_a_pending_handoff() {
    let (fixture, handoff_id) = fixture_with_handoff(&["One.", "Two."]).await;
    let message = json!({"role": "user", "id": "first", "content": "Changed."});
    let end = fixture.run(json!({"input": {"messages": [message]}})).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(fixture.transcript_lines().await[0], "U: Changed.");
    assert_eq!(fixture.agent.handoffs().get(handoff_id).await.unwrap().status.as_str(), "expired");
    assert_eq!(fixture.row().await.status, ThreadStatus::Idle);
}
