//! Webhooks: what an address is told of a run's end, and addresses that are told nothing.

use serde_json::{Value, json};
use test_model::{Reply, Script};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::world::World;

/// Somebody who wants to be told.
struct Receiver {
    listener: TcpListener,
    url: String,
}

impl Receiver {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        Self { listener, url }
    }

    /// Returns what is told next, and answers with the status.
    async fn told(&self, status: u16) -> Value {
        let (mut stream, _) = self.listener.accept().await.unwrap();
        let mut bytes = Vec::new();
        let body = loop {
            assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "the request breaks off");
            let text = String::from_utf8_lossy(&bytes);
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.to_ascii_lowercase();
            let length = length.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
            if body.len() >= length.unwrap().parse().unwrap() {
                break serde_json::from_str(body).unwrap();
            }
        };
        let answer = format!("HTTP/1.1 {status} -\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
        stream.write_all(answer.as_bytes()).await.unwrap();
        body
    }
}

fn asked(text: &str, webhook: Option<&str>) -> Value {
    let message = json!({"role": "user", "content": text});
    json!({"assistant_id": "agent", "input": {"messages": [message]}, "webhook": webhook, "metadata": {"note": text}})
}

fn contents(told: &Value) -> Vec<&str> {
    told["values"]["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["content"].as_str().unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn s16_an_address_is_told_of_the_state_that_its_run_left_whatever_came_behind_it() {
    let asks = Reply::call("c1", "execute", json!({"command": "touch x"}));
    let script = Script::new([Reply::text("one"), asks, Reply::text("three").repeated()]);
    let (world, receiver) = (World::telling_anybody(script).await, Receiver::start().await);
    let thread = world.thread(crate::world::As::Local).await;
    let path = format!("/threads/{thread}/runs");
    let (status, run) = world.post(&path, &asked("first", Some(&receiver.url))).await;
    assert_eq!(status, 200, "{run}");
    let behind = world.post(&format!("{path}/wait"), &asked("second", None)).await.1;
    assert_eq!(behind["__interrupt__"].as_array().unwrap().len(), 1, "{behind}");
    // It is told in vain, and then again: both times of the same.
    for status in [500, 200] {
        let told = receiver.told(status).await;
        assert_eq!(contents(&told), ["first", "one"]);
        assert_eq!(told["values"].get("__interrupt__"), None, "{told}");
        assert_eq!((&told["run_id"], &told["thread_id"]), (&run["run_id"], &json!(thread)));
        assert_eq!((&told["status"], &told["metadata"]["note"]), (&json!("success"), &json!("first")));
        for at in ["run_started_at", "run_ended_at", "webhook_sent_at"] {
            assert!(told[at].as_str().unwrap().ends_with("+00:00"), "{at}: {}", told[at]);
        }
        assert_eq!(told.get("error"), None);
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s16_an_address_is_told_what_a_run_asks_and_how_it_failed() {
    let asks = Reply::call("c1", "execute", json!({"command": "touch x"}));
    let script = Script::new([asks, Reply::status(400, "{}")]);
    let (world, receiver) = (World::telling_anybody(script).await, Receiver::start().await);
    let thread = world.thread(crate::world::As::Local).await;
    let path = format!("/threads/{thread}/runs");
    world.post(&path, &asked("first", Some(&receiver.url))).await;
    let told = receiver.told(200).await;
    assert_eq!((&told["status"], &told["kwargs"]["webhook"]), (&json!("success"), &json!(receiver.url)));
    assert_eq!(
        told["values"]["__interrupt__"][0]["value"]["action_requests"][0]["name"], "execute",
        "{told}"
    );
    world.post(&path, &asked("second", Some(&receiver.url))).await;
    let told = receiver.told(200).await;
    assert_eq!(told["status"], "error", "{told}");
    assert!(told["error"]["error"].is_string() && told["error"]["message"].is_string(), "{told}");
    assert_eq!(contents(&told)[0], "first");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k6_an_address_of_this_machine_or_its_network_is_refused_before_anything_is_run() {
    let world = World::start().await;
    let thread = world.thread(crate::world::As::Local).await;
    for url in
        ["http://example.com/", "https://127.0.0.1/x", "https://169.254.169.254/", "https://localhost/", "x"]
    {
        let (status, told) = world.post(&format!("/threads/{thread}/runs"), &asked("hi", Some(url))).await;
        assert_eq!(status, 422, "{url}: {told}");
        assert!(told["detail"].as_str().unwrap().starts_with("`webhook`:"), "{told}");
    }
    assert_eq!(world.get(&format!("/threads/{thread}/runs")).await.1, json!([]));
    world.stop().await;
}
