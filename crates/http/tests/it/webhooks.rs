//! Tests of webhooks: their bodies, and URLs that are refused.

use serde_json::{Value, json};
use test_model::{Script, ScriptedReply};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::fixture::ServerFixture;

/// An HTTP server that receives webhooks.
struct WebhookListener {
    listener: TcpListener,
    /// The URL to which webhooks are sent.
    url: String,
}

impl WebhookListener {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        Self { listener, url }
    }

    /// Waits for the next webhook, responds with the status, and returns its body.
    async fn next_payload(&self, status: u16) -> Value {
        let (mut stream, _) = self.listener.accept().await.unwrap();
        let mut bytes = Vec::new();
        let body = loop {
            assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "the request ended early");
            let text = String::from_utf8_lossy(&bytes);
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.to_ascii_lowercase();
            let length = length.split("content-length: ").nth(1).and_then(|value| value.lines().next());
            if body.len() >= length.unwrap().parse().unwrap() {
                break serde_json::from_str(body).unwrap();
            }
        };
        let response = format!("HTTP/1.1 {status} -\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
        stream.write_all(response.as_bytes()).await.unwrap();
        body
    }
}

/// Returns the body of a run request with one message and a webhook.
fn run_body(text: &str, webhook: Option<&str>) -> Value {
    let message = json!({"role": "user", "content": text});
    json!({"assistant_id": "agent", "input": {"messages": [message]}, "webhook": webhook, "metadata": {"note": text}})
}

/// Returns the content of each message in the payload of a webhook.
fn message_contents(payload: &Value) -> Vec<&str> {
    payload["values"]["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["content"].as_str().unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn s16_a_webhook_contains_the_state_at_the_end_of_its_run_even_if_later_runs_follow() {
    let tool_call = ScriptedReply::call("c1", "execute", json!({"command": "touch x"}));
    let script =
        Script::new([ScriptedReply::text("one"), tool_call, ScriptedReply::text("three").with_repeat()]);
    let (server, receiver) =
        (ServerFixture::with_open_webhooks(script).await, WebhookListener::start().await);
    let thread = server.create_thread(crate::fixture::TestCaller::Local).await;
    let path = format!("/threads/{thread}/runs");
    let (status, run) = server.post(&path, &run_body("first", Some(&receiver.url))).await;
    assert_eq!(status, 200, "{run}");
    let next = server.post(&format!("{path}/wait"), &run_body("second", None)).await.1;
    assert_eq!(next["__interrupt__"].as_array().unwrap().len(), 1, "{next}");
    // The first delivery fails and is repeated with the same body.
    for status in [500, 200] {
        let payload = receiver.next_payload(status).await;
        assert_eq!(message_contents(&payload), ["first", "one"]);
        assert_eq!(payload["values"].get("__interrupt__"), None, "{payload}");
        assert_eq!((&payload["run_id"], &payload["thread_id"]), (&run["run_id"], &json!(thread)));
        assert_eq!((&payload["status"], &payload["metadata"]["note"]), (&json!("success"), &json!("first")));
        for field in ["run_started_at", "run_ended_at", "webhook_sent_at"] {
            assert!(payload[field].as_str().unwrap().ends_with("+00:00"), "{field}: {}", payload[field]);
        }
        assert_eq!(payload.get("error"), None);
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s16_a_webhook_contains_the_question_or_the_error_of_its_run() {
    let tool_call = ScriptedReply::call("c1", "execute", json!({"command": "touch x"}));
    let script = Script::new([tool_call, ScriptedReply::status(400, "{}")]);
    let (server, receiver) =
        (ServerFixture::with_open_webhooks(script).await, WebhookListener::start().await);
    let thread = server.create_thread(crate::fixture::TestCaller::Local).await;
    let path = format!("/threads/{thread}/runs");
    server.post(&path, &run_body("first", Some(&receiver.url))).await;
    let payload = receiver.next_payload(200).await;
    assert_eq!(
        (&payload["status"], &payload["kwargs"]["webhook"]),
        (&json!("success"), &json!(receiver.url))
    );
    assert_eq!(
        payload["values"]["__interrupt__"][0]["value"]["action_requests"][0]["name"], "execute",
        "{payload}"
    );
    server.post(&path, &run_body("second", Some(&receiver.url))).await;
    let payload = receiver.next_payload(200).await;
    assert_eq!(payload["status"], "error", "{payload}");
    assert!(payload["error"]["error"].is_string() && payload["error"]["message"].is_string(), "{payload}");
    assert_eq!(message_contents(&payload)[0], "first");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k6_a_webhook_to_this_machine_or_its_network_is_refused_before_the_run_is_created() {
    let server = ServerFixture::start_default().await;
    let thread = server.create_thread(crate::fixture::TestCaller::Local).await;
    for url in
        ["http://example.com/", "https://127.0.0.1/x", "https://169.254.169.254/", "https://localhost/", "x"]
    {
        let (status, payload) =
            server.post(&format!("/threads/{thread}/runs"), &run_body("hi", Some(url))).await;
        assert_eq!(status, 422, "{url}: {payload}");
        assert!(payload["detail"].as_str().unwrap().starts_with("`webhook`:"), "{payload}");
    }
    assert_eq!(server.get(&format!("/threads/{thread}/runs")).await.1, json!([]));
    server.stop().await;
}
