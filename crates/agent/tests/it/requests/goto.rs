//! Places to go: a node, the beginning, the end.

use agent::HandoffRequestOptions;
use protocol::{HandoffStatus, RunStatus, ThreadStatus};
use serde_json::json;
use test_model::ScriptedReply;

use super::{RequestFixture, assert_fault, done_reply, write_call};
use crate::environment::{DRAFT, DRAFT_PROMPT, assert_paired, unwatched};

#[tokio::test]
async fn the_end_drops_what_waits_and_leaves_every_call_with_a_result() {
    let desk = RequestFixture::new([write_call("c1", "a"), done_reply()]).await;
    desk.say("Write.").await;
    let end = desk.run(json!({"input": {}, "command": {"goto": "__end__"}})).await;
    assert_eq!((end.status, desk.server.call_count()), (RunStatus::Success, 1), "{end:?}");
    assert_eq!(desk.agent.runs().pending_interrupts(desk.thread).await.unwrap(), []);
    assert_eq!((desk.row().await.status, desk.next().await), (ThreadStatus::Idle, None));
    assert!(
        desk.transcript_lines().await[2].starts_with("T: Not done"),
        "{:?}",
        desk.transcript_lines().await
    );
    desk.say("Go on.").await;
    assert_paired(&desk.server.requests()[1].body);
    assert_eq!(desk.world.read_file("a"), "");
}

#[tokio::test]
async fn the_end_of_a_thread_at_rest_changes_nothing() {
    let desk = RequestFixture::new([done_reply()]).await;
    let to_end = json!({"input": null, "command": {"goto": "__end__", "update": null}});
    assert_eq!(desk.run(to_end.clone()).await.status, RunStatus::Success);
    desk.say("Hello.").await;
    let end = desk.run(to_end).await;
    assert_eq!((end.status, desk.server.call_count()), (RunStatus::Success, 1), "{end:?}");
    assert_eq!(desk.transcript_lines().await, ["U: Hello.", "A: Done."]);
}

#[tokio::test]
async fn g6_the_end_declines_a_handoff_that_waits() {
    let desk = RequestFixture::new([
        ScriptedReply::text(DRAFT).when_body_contains(DRAFT_PROMPT).with_repeat(),
        done_reply(),
    ])
    .await;
    desk.say("Find out why the importer drops the last row.").await;
    let (frames, cancel) = unwatched();
    let pending = desk
        .agent
        .handoffs()
        .request(desk.thread, HandoffRequestOptions::default(), &frames, &cancel)
        .await
        .unwrap();
    let end = desk.run(json!({"command": {"goto": "__end__"}})).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    let handoff = desk.agent.handoffs().get(pending.handoff.handoff_id).await.unwrap();
    assert_eq!(handoff.status, HandoffStatus::Declined);
    assert_eq!(desk.agent.runs().pending_interrupts(desk.thread).await.unwrap(), []);
    assert_eq!((desk.row().await.status, desk.next().await), (ThreadStatus::Idle, None));
    assert!(desk.agent.store().thread(handoff.child_thread_id).await.unwrap().is_none());
    assert_eq!(desk.say("Go on.").await.status, RunStatus::Success);
}

#[tokio::test]
async fn g6_the_end_declines_a_handoff_that_the_agent_asked_for() {
    let ask = ScriptedReply::call("c1", "request_handoff", json!({"goal": "go on elsewhere"}));
    let desk = RequestFixture::new([
        ScriptedReply::text(DRAFT).when_body_contains(DRAFT_PROMPT).with_repeat(),
        ask,
        done_reply(),
    ])
    .await;
    let end = desk.say("Find out why the importer drops the last row.").await;
    assert_eq!(end.status, RunStatus::Interrupted, "{end:?}");
    let end = desk.run(json!({"command": {"goto": "__end__"}})).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    let told = desk.transcript_lines().await;
    assert_eq!(told.iter().filter(|line| line.starts_with("T:")).count(), 1, "{told:?}");
    assert_eq!((desk.row().await.status, desk.next().await), (ThreadStatus::Idle, None));
    desk.say("Go on.").await;
    assert_paired(&desk.server.requests().last().unwrap().body);
}

#[tokio::test]
async fn a_run_begins_at_the_node_it_is_sent_to() {
    let desk = RequestFixture::new([
        ScriptedReply::text("One."),
        ScriptedReply::text("Two."),
        ScriptedReply::text("Three."),
    ])
    .await;
    desk.say("First.").await;
    let end = desk.run(json!({"command": {"goto": "model"}})).await;
    assert_eq!((end.status, desk.server.call_count()), (RunStatus::Success, 2), "{end:?}");
    let send = json!([{"node": "model", "input": {"messages": [{"role": "user", "content": "Second."}]}}]);
    let end = desk.run(json!({"command": {"goto": send}})).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(desk.transcript_lines().await, ["U: First.", "A: One.", "A: Two.", "U: Second.", "A: Three."]);
}

#[tokio::test]
async fn k8_nobody_is_sent_past_the_approval_of_a_call() {
    let desk = RequestFixture::new([write_call("c1", "a"), done_reply()]).await;
    desk.say("Write.").await;
    let end = desk.run(json!({"command": {"goto": "tools"}})).await;
    assert_eq!((end.status, end.interrupts.len()), (RunStatus::Interrupted, 1), "{end:?}");
    assert_eq!(desk.world.read_file("a"), "");
}

#[tokio::test]
async fn a_node_that_is_not_of_a_turn_is_no_place_to_go() {
    let desk = RequestFixture::new([done_reply()]).await;
    desk.say("Hello.").await;
    for place in ["nowhere", "handoff_approval", "cleanup_handoff", "compaction"] {
        let end = desk.run(json!({"command": {"goto": place}})).await;
        assert_fault(&end, "InvalidUpdateError");
    }
    let fresh = super::blank_thread(&desk.agent).await;
    let end = super::run(&desk.agent, fresh, json!({"command": {"goto": "model"}})).await;
    assert_fault(&end, "EmptyInputError");
}

#[tokio::test]
async fn the_end_needs_no_model() {
    let desk = RequestFixture::new([write_call("c1", "a")]).await;
    desk.say("Write.").await;
    let offline = desk.world.agent();
    let end = super::run(&offline, desk.thread, json!({"command": {"goto": "__end__"}})).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(desk.agent.runs().pending_interrupts(desk.thread).await.unwrap(), []);
    assert_eq!((desk.row().await.status, desk.next().await), (ThreadStatus::Idle, None));
    assert!(
        desk.transcript_lines().await[2].starts_with("T: Not done"),
        "{:?}",
        desk.transcript_lines().await
    );
}
