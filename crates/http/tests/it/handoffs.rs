//! Tests that cancelling the run of a handoff's first draft leaves no handoff.

use reqwest::Method;
use serde_json::{Value, json};
use test_model::{Gate, GatePosition, Script, ScriptedReply};

use crate::fixture::{ServerFixture, TestCaller, read_response};

/// The beginning of the drafting prompt, which identifies the requests of drafts.
const DRAFT_PROMPT: &str = "You write the handoff summary";

/// Returns a server whose model never finishes a draft.
async fn start_drafting(replies: impl IntoIterator<Item = ScriptedReply>) -> ServerFixture {
    let gate = Some(Gate { name: "never".to_owned(), at: GatePosition::Start });
    let draft =
        ScriptedReply { gate, ..ScriptedReply::text("{}") }.when_body_contains(DRAFT_PROMPT).with_repeat();
    let script = Script { replies: [draft].into_iter().chain(replies).collect(), ..Script::default() };
    ServerFixture::with_script(script, |settings| settings).await
}

/// Cancels the thread's active run, waits until it has stopped, and returns the status of the response.
async fn stop_run(server: &ServerFixture, thread: &str, action: &str) -> u16 {
    let runs = server.get(&format!("/threads/{thread}/runs?status=running")).await.1;
    let run = runs[0]["run_id"].as_str().unwrap();
    let path = format!("/threads/{thread}/runs/{run}/cancel?wait=true&action={action}");
    server.post(&path, &json!({})).await.0.as_u16()
}

/// Checks that the thread has no handoff, no pending one and no active run.
async fn assert_no_handoff_left(server: &ServerFixture, thread: &str) {
    let listed = server.get(&format!("/api/handoffs?status=all&thread_id={thread}")).await.1;
    assert_eq!(listed["handoffs"], json!([]));
    let row = server.get(&format!("/api/threads/{thread}")).await.1;
    assert_eq!((&row["active_run"], &row["pending_handoff_id"]), (&Value::Null, &Value::Null), "{row}");
}

#[tokio::test(flavor = "multi_thread")]
async fn g5_cancelling_the_run_that_drafts_a_handoff_leaves_no_draft_behind() {
    // A draft cannot be rolled back; it is only stopped.
    for (action, status) in [("interrupt", 200), ("rollback", 409)] {
        let server = start_drafting([ScriptedReply::text("Hello to you.").with_repeat()]).await;
        let thread = server.create_thread_with_message(TestCaller::Local, "Hello.").await;
        let path = format!("/api/threads/{thread}/handoffs");
        let request = server.request(TestCaller::Local, Method::POST, &path).json(&json!({})).send();
        let request = tokio::spawn(async move { read_response(request.await.unwrap()).await });
        server.model.wait_for_calls(2).await;
        assert_eq!(stop_run(&server, &thread, action).await, status, "{action}");
        let response: Value = request.await.unwrap().1;
        assert!(response.get("handoff").is_none(), "{action}: {response}");
        assert_no_handoff_left(&server, &thread).await;
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn g5_cancelling_a_turn_that_drafts_a_handoff_leaves_no_draft_behind() {
    for action in ["interrupt", "rollback"] {
        let tool_call = ScriptedReply::call("h1", "request_handoff", json!({}));
        let server = start_drafting([tool_call, ScriptedReply::text("Hello to you.").with_repeat()]).await;
        let thread = server.create_thread(TestCaller::Local).await;
        let body = json!({"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "Hand it off."}]}});
        let (status, run) = server.post(&format!("/threads/{thread}/runs"), &body).await;
        assert_eq!(status, 200, "{run}");
        server.model.wait_for_calls(2).await;
        assert_eq!(stop_run(&server, &thread, action).await, 200, "{action}");
        assert_no_handoff_left(&server, &thread).await;
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_calls_for_the_parts_of_a_long_conversation_are_estimated_without_a_call() {
    let server = ServerFixture::start_default().await;
    let thread = server.create_thread_with_message(TestCaller::Local, &"A long request. ".repeat(10)).await;
    let calls = server.model.call_count();
    let path = format!("/api/threads/{thread}/handoffs/estimate");
    let (status, estimate) = server.get(&path).await;
    assert_eq!(
        (status.as_u16(), &estimate["calls"], &estimate["notice"]),
        (200, &json!(0), &Value::Null),
        "{estimate}"
    );
    assert!(estimate["model"].is_string(), "{estimate}");
    assert_eq!(server.get(&format!("{path}?messages=0")).await.0.as_u16(), 422);
    assert_eq!(server.model.call_count(), calls);
    server.stop().await;
}
