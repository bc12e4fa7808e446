//! Runs that begin at a point of the thread's past: edits, regenerated answers, other branches.

use agent::ApprovalPolicy;
use protocol::{RunStatus, ThreadStatus};
use serde_json::{Value, json};
use test_model::ScriptedReply;

use super::{RequestFixture, approve, assert_fault, done_reply, user_request, write_call};

fn with_checkpoint(mut request: Value, point: &str) -> Value {
    request["checkpoint_id"] = point.into();
    request
}

/// Returns the point a client edits or regenerates a message from: the parent of the first state that has it.
async fn point_before(desk: &RequestFixture, text: &str) -> String {
    let states = desk.agent.threads().states(desk.thread, None, 100).await.unwrap();
    let has =
        |state: &&agent::ThreadSnapshot| state.messages.iter().any(|shown| shown.message.text() == text);
    let first = states.iter().rev().find(has).expect("the message is in some state");
    first.parent_id.map(|id| id.to_string()).expect("the first state with a message has a parent without it")
}

/// Returns whether what brought the message in goes on from that point: directly, or by the point before its input.
async fn has_parent_point(desk: &RequestFixture, text: &str, point: &str) -> bool {
    let input = point_before(desk, text).await;
    let state = desk.agent.threads().state_at(desk.thread, input.parse().unwrap()).await.unwrap();
    input == point || state.parent_id.is_some_and(|id| id.to_string() == point)
}

async fn answered_desk(texts: &[&str]) -> RequestFixture {
    RequestFixture::new(texts.iter().map(|text| ScriptedReply::text(*text)).collect::<Vec<_>>()).await
}

#[tokio::test]
async fn the_head_is_no_fork() {
    let desk = answered_desk(&["One.", "Two."]).await;
    desk.say("First.").await;
    let head = desk.head().await;
    let end = desk.run(with_checkpoint(user_request("Second."), &head)).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(desk.transcript_lines().await, ["U: First.", "A: One.", "U: Second.", "A: Two."]);
    let rewound = desk.agent.threads().events(desk.thread).await.unwrap();
    assert!(rewound.iter().all(|event| event.event_type != "thread_rewound"));
}

#[tokio::test]
async fn b12_an_edited_message_begins_a_branch_and_the_old_one_stays() {
    let desk = answered_desk(&["One.", "Two.", "Three."]).await;
    desk.say("First.").await;
    desk.say("Second.").await;
    let old_head = desk.head().await;
    let point = point_before(&desk, "Second.").await;
    let end = desk.run(with_checkpoint(user_request("Other."), &point)).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(desk.transcript_lines().await, ["U: First.", "A: One.", "U: Other.", "A: Three."]);
    assert!(has_parent_point(&desk, "Other.", &point).await, "siblings have the same parent");
    let old = desk.agent.threads().state_at(desk.thread, old_head.parse().unwrap()).await.unwrap();
    assert_eq!(old.messages.last().unwrap().message.text(), "Two.");
    let sent = desk.server.requests()[2].body.to_string();
    assert!(!sent.contains("Second."), "{sent}");
}

#[tokio::test]
async fn the_first_message_can_be_edited_too() {
    let desk = answered_desk(&["One.", "Two."]).await;
    desk.say("First.").await;
    let point = point_before(&desk, "First.").await;
    let end = desk.run(with_checkpoint(user_request("Other."), &point)).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(desk.transcript_lines().await, ["U: Other.", "A: Two."]);
}

#[tokio::test]
async fn an_answer_is_regenerated_without_saying_anything_again() {
    let desk = answered_desk(&["One.", "Another."]).await;
    desk.say("First.").await;
    let point = point_before(&desk, "One.").await;
    let end = desk.run(with_checkpoint(json!({}), &point)).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(desk.transcript_lines().await, ["U: First.", "A: Another."]);
    let state = desk.agent.threads().state(desk.thread).await.unwrap().unwrap();
    assert_eq!(state.messages.len(), 2);
}

#[tokio::test]
async fn nothing_put_in_before_an_input_puts_the_same_in_again() {
    let desk = answered_desk(&["One.", "Another."]).await;
    desk.say("First.").await;
    let point = point_before(&desk, "First.").await;
    let end = desk.run(with_checkpoint(json!({"input": null}), &point)).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(desk.transcript_lines().await, ["U: First.", "A: Another."]);
}

#[tokio::test]
async fn a_branch_that_was_left_can_be_gone_on_with() {
    let desk = answered_desk(&["One.", "Two.", "Three.", "Four."]).await;
    desk.say("First.").await;
    desk.say("Second.").await;
    let old_head = desk.head().await;
    let point = point_before(&desk, "Second.").await;
    desk.run(with_checkpoint(user_request("Other."), &point)).await;
    let end = desk.run(with_checkpoint(user_request("Back."), &old_head)).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    let told = ["U: First.", "A: One.", "U: Second.", "A: Two.", "U: Back.", "A: Four."];
    assert_eq!(desk.transcript_lines().await, told);
    assert!(has_parent_point(&desk, "Back.", &old_head).await);
}

#[tokio::test]
async fn going_back_to_a_point_at_rest_runs_nothing() {
    let desk = answered_desk(&["One.", "Two."]).await;
    desk.say("First.").await;
    let rest = desk.head().await;
    desk.say("Second.").await;
    let end = desk.run(with_checkpoint(json!({"input": null}), &rest)).await;
    assert_eq!((end.status, desk.server.call_count()), (RunStatus::Success, 2), "{end:?}");
    assert_eq!(desk.transcript_lines().await, ["U: First.", "A: One."]);
    assert_eq!(desk.row().await.status, ThreadStatus::Idle);
}

#[tokio::test]
async fn a_point_that_is_not_there_ends_the_run_and_changes_nothing() {
    let desk = answered_desk(&["One."]).await;
    desk.say("First.").await;
    for request in [user_request("x"), json!({"input": null}), json!({"command": {"resume": approve()}})] {
        let end = desk.run(with_checkpoint(request, "0192f0c1-2d3e-7a4b-8c5d-6e7f80910a1b")).await;
        assert_fault(&end, "UnknownCheckpointError");
    }
    assert_eq!(desk.transcript_lines().await, ["U: First.", "A: One."]);
}

#[tokio::test]
async fn k8_a_call_that_a_person_approved_once_is_asked_about_again_on_another_branch() {
    let desk = RequestFixture::new([write_call("c1", "a"), done_reply()]).await;
    desk.say("Write.").await;
    let asked = desk.head().await;
    let refuse = json!({"decisions": [{"type": "reject", "message": "no"}]});
    desk.run(json!({"command": {"resume": refuse}})).await;
    assert_eq!(desk.world.read_file("a"), "");
    // An answer to what was decided is refused: it never stands for another one.
    let end = desk.run(with_checkpoint(json!({"command": {"resume": approve()}}), &asked)).await;
    assert_fault(&end, "UnknownInterruptError");
    let end = desk.run(with_checkpoint(json!({"input": null}), &asked)).await;
    assert_eq!((end.status, end.interrupts.len()), (RunStatus::Interrupted, 1), "{end:?}");
    assert_eq!(desk.world.read_file("a"), "", "nothing is done before the answer");
    let end = desk.run(json!({"command": {"resume": approve()}})).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(desk.world.read_file("a"), "a");
}

#[tokio::test]
async fn k6_a_fork_does_nothing_in_another_folder() {
    let desk = RequestFixture::new([write_call("c1", "a"), done_reply()]).await;
    desk.say("Write.").await;
    let asked = desk.head().await;
    desk.run(json!({"command": {"resume": approve()}})).await;
    let there = desk.world.folder().join("elsewhere");
    std::fs::create_dir_all(&there).unwrap();
    let settings = agent::AgentSettings {
        workspace: there,
        approval_policy: ApprovalPolicy::Allow,
        ..desk.world.settings(crate::environment::TEST_MODEL)
    };
    let there = settings.workspace.clone();
    let elsewhere = agent::Agent::with_store(settings, desk.world.store()).unwrap();
    std::fs::remove_file(desk.world.workspace().join("a")).unwrap();
    let end = super::run(&elsewhere, desk.thread, with_checkpoint(json!({"input": null}), &asked)).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(desk.world.read_file("a"), "a", "the branch works in the folder of its thread");
    assert!(!there.join("a").exists());
}

/// Returns a desk whose thread asks about a handoff that nobody decides, and that handoff.
async fn desk_with_handoff(texts: &[&str]) -> (RequestFixture, protocol::HandoffId) {
    let desk = answered_desk(texts).await;
    let mut first = user_request("First.");
    first["input"]["messages"][0]["id"] = "first".into();
    desk.run(first).await;
    let (frames, cancel) = crate::environment::unwatched();
    let request = agent::HandoffRequestOptions::default();
    // Drafted offline: the model has other things to say.
    let pending =
        desk.world.agent().handoffs().request(desk.thread, request, &frames, &cancel).await.unwrap();
    (desk, pending.handoff.handoff_id)
}

#[tokio::test]
async fn a_fork_behind_a_handoff_that_waits_gives_it_up_and_begins() {
    for (input, text, told) in [
        (user_request("Other."), "First.", ["U: Other.", "A: Two."]),
        (json!({}), "One.", ["U: First.", "A: Two."]),
        (json!({"input": null}), "First.", ["U: First.", "A: Two."]),
    ] {
        let (desk, handoff_id) = desk_with_handoff(&["One.", "Two."]).await;
        let point = point_before(&desk, text).await;
        let end = desk.run(with_checkpoint(input, &point)).await;
        assert_eq!(end.status, RunStatus::Success, "{end:?}");
        assert_eq!(desk.transcript_lines().await, told);
        assert_eq!(desk.agent.handoffs().get(handoff_id).await.unwrap().status.as_str(), "expired");
        assert_eq!(desk.row().await.status, ThreadStatus::Idle);
        assert!(desk.agent.runs().pending_interrupts(desk.thread).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_message_changed_at_the_head_gives_up_a_handoff_that_waits() {
    let (desk, handoff_id) = desk_with_handoff(&["One.", "Two."]).await;
    let message = json!({"role": "user", "id": "first", "content": "Changed."});
    let end = desk.run(json!({"input": {"messages": [message]}})).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(desk.transcript_lines().await[0], "U: Changed.");
    assert_eq!(desk.agent.handoffs().get(handoff_id).await.unwrap().status.as_str(), "expired");
    assert_eq!(desk.row().await.status, ThreadStatus::Idle);
}
