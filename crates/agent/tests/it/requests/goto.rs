//! Tests of the `goto` command: to a node, and to the end of the graph.

use agent::HandoffRequestOptions;
use protocol::{HandoffStatus, RunStatus, ThreadStatus};
use serde_json::json;
use test_model::ScriptedReply;

use super::{RequestFixture, assert_fault, done_reply, write_call};
use crate::environment::{DRAFT, DRAFT_PROMPT, assert_paired, unwatched};

#[tokio::test]
async fn goto_end_withdraws_questions_and_gives_every_call_a_result() {
    let fixture = RequestFixture::new([write_call("c1", "a"), done_reply()]).await;
    fixture.say("Write.").await;
    let end = fixture.run(json!({"input": {}, "command": {"goto": "__end__"}})).await;
    assert_eq!((end.status, fixture.server.call_count()), (RunStatus::Success, 1), "{end:?}");
    assert_eq!(fixture.agent.runs().pending_interrupts(fixture.thread).await.unwrap(), []);
    assert_eq!((fixture.row().await.status, fixture.next().await), (ThreadStatus::Idle, None));
    assert!(
        fixture.transcript_lines().await[2].starts_with("T: Not done"),
        "{:?}",
        fixture.transcript_lines().await
    );
    fixture.say("Go on.").await;
    assert_paired(&fixture.server.requests()[1].body);
    assert_eq!(fixture.environment.read_file("a"), "");
}

#[tokio::test]
async fn goto_end_in_an_idle_thread_changes_nothing() {
    let fixture = RequestFixture::new([done_reply()]).await;
    let to_end = json!({"input": null, "command": {"goto": "__end__", "update": null}});
    assert_eq!(fixture.run(to_end.clone()).await.status, RunStatus::Success);
    fixture.say("Hello.").await;
    let end = fixture.run(to_end).await;
    assert_eq!((end.status, fixture.server.call_count()), (RunStatus::Success, 1), "{end:?}");
    assert_eq!(fixture.transcript_lines().await, ["U: Hello.", "A: Done."]);
}

#[tokio::test]
async fn g6_goto_end_declines_a_pending_handoff() {
    let fixture = RequestFixture::new([
        ScriptedReply::text(DRAFT).when_body_contains(DRAFT_PROMPT).with_repeat(),
        done_reply(),
    ])
    .await;
    fixture.say("Find out why the importer drops the last row.").await;
    let (frames, cancel) = unwatched();
    let pending = fixture
        .agent
        .handoffs()
        .request(fixture.thread, HandoffRequestOptions::default(), &frames, &cancel)
        .await
        .unwrap();
    let end = fixture.run(json!({"command": {"goto": "__end__"}})).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    let handoff = fixture.agent.handoffs().get(pending.handoff.handoff_id).await.unwrap();
    assert_eq!(handoff.status, HandoffStatus::Declined);
    assert_eq!(fixture.agent.runs().pending_interrupts(fixture.thread).await.unwrap(), []);
    assert_eq!((fixture.row().await.status, fixture.next().await), (ThreadStatus::Idle, None));
    assert!(fixture.agent.store().thread(handoff.child_thread_id).await.unwrap().is_none());
    assert_eq!(fixture.say("Go on.").await.status, RunStatus::Success);
}

#[tokio::test]
async fn g6_goto_end_declines_a_handoff_that_the_agent_requested() {
    let ask = ScriptedReply::call("c1", "request_handoff", json!({"goal": "go on elsewhere"}));
    let fixture = RequestFixture::new([
        ScriptedReply::text(DRAFT).when_body_contains(DRAFT_PROMPT).with_repeat(),
        ask,
        done_reply(),
    ])
    .await;
    let end = fixture.say("Find out why the importer drops the last row.").await;
    assert_eq!(end.status, RunStatus::Interrupted, "{end:?}");
    let end = fixture.run(json!({"command": {"goto": "__end__"}})).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    let lines = fixture.transcript_lines().await;
    assert_eq!(lines.iter().filter(|line| line.starts_with("T:")).count(), 1, "{lines:?}");
    assert_eq!((fixture.row().await.status, fixture.next().await), (ThreadStatus::Idle, None));
    fixture.say("Go on.").await;
    assert_paired(&fixture.server.requests().last().unwrap().body);
}

#[tokio::test]
async fn a_run_starts_at_the_node_of_its_goto_command() {
    let fixture = RequestFixture::new([
        ScriptedReply::text("One."),
        ScriptedReply::text("Two."),
        ScriptedReply::text("Three."),
    ])
    .await;
    fixture.say("First.").await;
    let end = fixture.run(json!({"command": {"goto": "model"}})).await;
    assert_eq!((end.status, fixture.server.call_count()), (RunStatus::Success, 2), "{end:?}");
    let send = json!([{"node": "model", "input": {"messages": [{"role": "user", "content": "Second."}]}}]);
    let end = fixture.run(json!({"command": {"goto": send}})).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(
        fixture.transcript_lines().await,
        ["U: First.", "A: One.", "A: Two.", "U: Second.", "A: Three."]
    );
}

#[tokio::test]
async fn k8_goto_cannot_skip_the_approval_of_a_call() {
    let fixture = RequestFixture::new([write_call("c1", "a"), done_reply()]).await;
    fixture.say("Write.").await;
    let end = fixture.run(json!({"command": {"goto": "tools"}})).await;
    assert_eq!((end.status, end.interrupts.len()), (RunStatus::Interrupted, 1), "{end:?}");
    assert_eq!(fixture.environment.read_file("a"), "");
}

#[tokio::test]
async fn goto_accepts_only_the_nodes_of_a_turn() {
    let fixture = RequestFixture::new([done_reply()]).await;
    fixture.say("Hello.").await;
    for node in ["nowhere", "handoff_approval", "cleanup_handoff", "compaction"] {
        let end = fixture.run(json!({"command": {"goto": node}})).await;
        assert_fault(&end, "InvalidUpdateError");
    }
    let fresh = super::blank_thread(&fixture.agent).await;
    let end = super::run(&fixture.agent, fresh, json!({"command": {"goto": "model"}})).await;
    assert_fault(&end, "EmptyInputError");
}

#[tokio::test]
async fn goto_end_works_without_a_model() {
    let fixture = RequestFixture::new([write_call("c1", "a")]).await;
    fixture.say("Write.").await;
    let offline = fixture.environment.agent();
    let end = super::run(&offline, fixture.thread, json!({"command": {"goto": "__end__"}})).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(fixture.agent.runs().pending_interrupts(fixture.thread).await.unwrap(), []);
    assert_eq!((fixture.row().await.status, fixture.next().await), (ThreadStatus::Idle, None));
    assert!(
        fixture.transcript_lines().await[2].starts_with("T: Not done"),
        "{:?}",
        fixture.transcript_lines().await
    );
}
