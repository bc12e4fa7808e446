//! Tests of requests to a server that change a thread on which another server executes a run.

use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use test_model::{Gate, GatePosition, Script, ScriptedReply};
use tokio::task::JoinHandle;

use crate::fixture::{RunningServer, ServerFixture, TestCaller, http_client, read_response, start_server};

/// The text of the message whose answer waits at [`GATE`].
const SLOW_MESSAGE: &str = "Take your time.";
/// The gate of that answer.
const GATE: &str = "gate";

/// A second server on the database of a [`ServerFixture`].
struct PeerServer {
    server: RunningServer,
    client: Client,
}

impl PeerServer {
    async fn start(first: &ServerFixture) -> Self {
        let server = start_server(first.folder.path(), |settings| settings).await;
        Self { server, client: http_client() }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let url = format!("{}{path}", self.server.url);
        self.client.request(method, url).header("x-api-key", &self.server.token)
    }

    /// Waits until the request is queued on the only busy thread of the server. Fails if it has its response before.
    async fn wait_until_queued<T>(&self, request: &JoinHandle<T>) {
        let is_queued = |text: &str| {
            text.contains("segue_threads_working 1\n") && text.contains("segue_runs_waiting 1\n")
        };
        loop {
            assert!(!request.is_finished(), "the request did not wait for the run");
            let metrics = read_response(self.request(Method::GET, "/metrics").send().await.unwrap()).await.1;
            if metrics.as_str().is_some_and(is_queued) {
                return;
            }
        }
    }
}

/// Returns a server with a thread of three turns. The answer to [`SLOW_MESSAGE`] waits at [`GATE`].
async fn start_with_long_thread() -> (ServerFixture, String) {
    let gate = Some(Gate { name: GATE.to_owned(), at: GatePosition::Start });
    let slow = ScriptedReply { gate, ..ScriptedReply::text("late") }.when_body_contains(SLOW_MESSAGE);
    let script = Script::new([slow.with_repeat(), ScriptedReply::text("Done.").with_repeat()]);
    let server = ServerFixture::with_script(script, |settings| settings).await;
    let thread = server.create_thread_with_message(TestCaller::Local, &"Hello there. ".repeat(400)).await;
    for _ in 0..2 {
        server.send_message(TestCaller::Local, &thread, &"And on it goes. ".repeat(400)).await;
    }
    (server, thread)
}

/// Sends a change to a second server while the first one executes a run on the thread, lets that run end after the
/// change is queued, and checks that the change succeeds after the run.
async fn check_change_waits(method: Method, path: &str, body: Value) {
    let (server, thread) = start_with_long_thread().await;
    let peer = PeerServer::start(&server).await;
    let run =
        json!({"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": SLOW_MESSAGE}]}});
    let run = server.post(&format!("/threads/{thread}/runs"), &run).await.1;
    server.model.wait_for_calls(4).await;
    let path = path.replace("THREAD", &thread);
    let request = peer.request(method, &path).json(&body).send();
    let request = tokio::spawn(async move { read_response(request.await.unwrap()).await });
    peer.wait_until_queued(&request).await;
    server.model.open_gate(GATE);
    let (status, response) = request.await.unwrap();
    assert_eq!(status, 200, "{path}: {response}");
    assert!(response.get("__error__").is_none(), "{path}: {response}");
    let run = format!("/threads/{thread}/runs/{}", run["run_id"].as_str().unwrap());
    assert_eq!(server.get(&run).await.1["status"], "success", "{path}: the run was not disturbed");
    peer.server.stop().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn j1_a_state_update_waits_for_the_run_of_another_server() {
    check_change_waits(Method::POST, "/threads/THREAD/state", json!({"values": {"title": "A name"}})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn j1_a_compaction_waits_for_the_run_of_another_server() {
    let body = json!({"keep": {"messages": 1}});
    check_change_waits(Method::POST, "/api/threads/THREAD/compact", body).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn j1_a_handoff_waits_for_the_run_of_another_server() {
    check_change_waits(Method::POST, "/api/threads/THREAD/handoffs", json!({})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn j1_a_rewind_waits_for_the_run_of_another_server() {
    check_change_waits(Method::POST, "/api/threads/THREAD/rewind", json!({"keep_seq": 1})).await;
}
