//! Tests of threads after a stop or a withdrawn question, and of the responses to requests that waited for the stopped
//! run.

use reqwest::Method;
use serde_json::{Value, json};
use test_model::{Gate, GatePosition, Script, ScriptedReply};

use crate::fixture::{ServerFixture, TestCaller};

/// Returns the body of a run request with one message.
fn run_body(text: &str) -> Value {
    json!({"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": text}]}})
}

/// Returns a server whose model calls a tool that needs approval.
async fn start_asking() -> ServerFixture {
    let tool_call = ScriptedReply::call("c1", "execute", json!({"command": "touch x"}));
    ServerFixture::with_script(Script::new([tool_call]), |settings| settings).await
}

/// Returns a server whose model answers three times; its fourth answer never arrives.
async fn start_stalling() -> ServerFixture {
    let stalled = ScriptedReply {
        gate: Some(Gate { name: "never".into(), at: GatePosition::Start }),
        ..ScriptedReply::text("late")
    };
    ServerFixture::with_script(
        Script::new([
            ScriptedReply::text("One."),
            ScriptedReply::text("Two."),
            ScriptedReply::text("Three."),
            stalled,
        ]),
        |settings| settings,
    )
    .await
}

/// Creates a thread with three turns.
async fn create_long_thread(server: &ServerFixture) -> String {
    let thread = server.create_thread_with_message(TestCaller::Local, &"Hello there. ".repeat(400)).await;
    for _ in 0..2 {
        server.send_message(TestCaller::Local, &thread, &"And on it goes. ".repeat(400)).await;
    }
    thread
}

async fn assert_stopped(server: &ServerFixture, thread: &str) {
    let thread_row = server.get(&format!("/api/threads/{thread}")).await.1;
    assert_eq!(
        (&thread_row["state"], &thread_row["interrupts"]),
        (&json!("stopped"), &json!([])),
        "{thread_row}"
    );
    let needs_input = server.get("/api/threads?state=needs_you").await.1;
    assert_eq!(needs_input["total"], 0, "{needs_input}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_update_that_withdraws_the_question_leaves_the_thread_stopped() {
    for change in [json!({"values": {"todos": []}}), json!({"values": {"todos": []}, "as_node": "model"})] {
        let server = start_asking().await;
        let thread = server.create_thread(TestCaller::Local).await;
        server.post(&format!("/threads/{thread}/runs/wait"), &run_body("do it")).await;
        assert_eq!(server.get(&format!("/api/threads/{thread}")).await.1["state"], "needs_you");
        for _ in 0..2 {
            let (status, changed) = server.post(&format!("/threads/{thread}/state"), &change).await;
            assert_eq!(status, 200, "{changed}");
            assert_stopped(&server, &thread).await;
        }
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_stopped_run_leaves_the_thread_stopped() {
    let server = start_stalling().await;
    let thread = create_long_thread(&server).await;
    let run = server.post(&format!("/threads/{thread}/runs"), &run_body("look around")).await.1;
    let run = format!("/threads/{thread}/runs/{}", run["run_id"].as_str().unwrap());
    server.model.wait_for_calls(4).await;
    assert_eq!(server.post(&format!("{run}/cancel?wait=1"), &json!({})).await.0, 200);
    assert_stopped(&server, &thread).await;
    assert_eq!(server.send(TestCaller::Local, Method::DELETE, &run, &Value::Null).await.0, 204);
    assert_stopped(&server, &thread).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_waits_for_a_stopped_draft_gets_an_error_that_says_so() {
    for (path, body) in [("handoffs", json!({})), ("compact", json!({"keep": {"messages": 1}}))] {
        let server = start_stalling().await;
        let thread = create_long_thread(&server).await;
        let path_of_request = format!("/api/threads/{thread}/{path}");
        let cancel = async {
            server.model.wait_for_calls(4).await;
            let runs = server.get(&format!("/threads/{thread}/runs?limit=1")).await.1;
            let run = format!("/threads/{thread}/runs/{}", runs[0]["run_id"].as_str().unwrap());
            let cancelled = server.post(&format!("{run}/cancel?wait=1"), &json!({})).await;
            assert!(cancelled.0.is_success(), "{cancelled:?}");
            server.send(TestCaller::Local, Method::DELETE, &run, &Value::Null).await;
        };
        let ((status, response), ()) = tokio::join!(server.post(&path_of_request, &body), cancel);
        assert_eq!((status.as_u16(), &response["code"]), (409, &json!("stopped")), "{path}: {response}");
        assert!(response["hint"].is_string(), "{path}: {response}");
        let needs_input = server.get("/api/threads?state=needs_you").await.1;
        assert_eq!(needs_input["total"], 0, "{path}: {needs_input}");
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_asks_after_a_declined_handoff_is_interrupted_and_returns_its_question() {
    let draft = json!({"title": "One", "tldr": "Short.", "body": [
        {"kind": "objective", "text": "Do it.", "refs": [1]}, {"kind": "progress", "text": "Done.", "refs": [1]}, {"kind": "next_step", "text": "Go on.", "refs": [1]}]});
    let draft = ScriptedReply { always: true, ..ScriptedReply::text(draft.to_string()) };
    let script = Script::new([
        draft.when_body_contains("You write the handoff summary"),
        ScriptedReply::call("h1", "request_handoff", json!({"goal": "the rest"})),
        ScriptedReply::call("c1", "execute", json!({"command": "touch x"})),
    ]);
    let server = ServerFixture::with_script(script, |settings| settings).await;
    let thread = server.create_thread(TestCaller::Local).await;
    server.post(&format!("/threads/{thread}/runs/wait"), &run_body("do it")).await;
    let listed = server.get("/api/handoffs").await.1;
    let path = format!("/api/handoffs/{}/decision", listed["handoffs"][0]["handoff_id"].as_str().unwrap());
    let (status, result) = server.post(&path, &json!({"decisions": [{"type": "reject"}]})).await;
    assert_eq!(status, 200, "{result}");
    let thread_row = server.get(&format!("/api/threads/{thread}")).await.1;
    assert_eq!(
        (&thread_row["state"], &thread_row["last_run"]["status"]),
        (&json!("needs_you"), &json!("interrupted"))
    );
    assert_eq!(result["run"]["status"], "interrupted", "{result}");
    assert_eq!(result["run"]["interrupts"], thread_row["interrupts"]);
    assert_eq!(result["run"]["interrupts"].as_array().map(Vec::len), Some(1));
    server.stop().await;
}
