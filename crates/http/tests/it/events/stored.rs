//! Tests of the channel `history`: its live events are the entries that the history endpoint returns.

use serde_json::{Value, json};
use test_model::{GatePosition, ScriptedReply};

use super::{follow_events, start_with_replies};
use crate::fixture::{ServerFixture, TestCaller};
use crate::sse::{ReceivedEvent, SseReader};

/// Number of messages in the thread of [`start_long_thread`].
const MESSAGE_COUNT: usize = 8;

/// Starts a server with a thread that can be compacted: long messages and short answers. `next_reply` is the model's reply
/// after them.
async fn start_long_thread(next_reply: Option<ScriptedReply>) -> (ServerFixture, String) {
    let replies = std::iter::repeat_n(ScriptedReply::text("Yes."), MESSAGE_COUNT);
    let server = start_with_replies(replies.chain(next_reply).collect()).await;
    let thread = server.create_thread(TestCaller::Local).await;
    for number in 0..MESSAGE_COUNT {
        server.send_message(TestCaller::Local, &thread, &format!("{number}: {}", "word ".repeat(400))).await;
    }
    (server, thread)
}

/// Returns the data inside the envelope of an event.
fn event_data(event: &ReceivedEvent) -> &Value {
    &event.data["params"]["data"]
}

/// Reads until an event of that type is reported as stored; returns all events read.
async fn read_until_stored(events: &mut SseReader, event_type: &str) -> Vec<ReceivedEvent> {
    let mut received = Vec::new();
    loop {
        let event = events.next().await.expect("the stream stays open");
        let is_last = event_data(&event)["event_type"] == event_type;
        received.push(event);
        if is_last {
            return received;
        }
    }
}

/// Returns the entries in the events, each once.
fn history_entries(events: &[ReceivedEvent]) -> Vec<Value> {
    let mut entries: Vec<Value> =
        events.iter().map(|event| event_data(event)["entry"].clone()).filter(Value::is_object).collect();
    entries.dedup_by_key(|entry| entry["seq"].clone());
    entries
}

/// Returns the entries of the history without their `feedback` field, which the stream does not have.
async fn read_history(server: &ServerFixture, thread: &str) -> Vec<Value> {
    let (_, page) = server.get(&format!("/api/threads/{thread}/history?limit=1000")).await;
    let mut entries = page["entries"].as_array().unwrap().clone();
    for entry in &mut entries {
        entry.as_object_mut().unwrap().remove("feedback");
    }
    entries
}

#[tokio::test(flavor = "multi_thread")]
async fn c5_b3_live_entries_equal_the_entries_of_the_history() {
    let call = ScriptedReply::call("c1", "ls", json!({"path": "."})).with_thinking(["I look."]);
    let server = start_with_replies(vec![call, ScriptedReply::text("Nothing is there.")]).await;
    let thread = server.create_thread(TestCaller::Local).await;
    let mut events = follow_events(&server, &thread, &json!({"channels": ["history"]})).await;
    server.send_message(TestCaller::Local, &thread, "What is there?").await;
    let received = read_until_stored(&mut events, "run_ended").await;
    let entries = history_entries(&received);
    let types: Vec<&str> = entries.iter().map(|entry| entry["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["human", "ai", "tool", "ai"]);
    let is_timed: Vec<bool> = entries.iter().map(|entry| entry["duration_ms"].is_u64()).collect();
    assert_eq!(is_timed, [false, true, true, true]);
    assert_eq!(entries, read_history(&server, &thread).await);
    let other_types: Vec<&str> = received
        .iter()
        .filter(|event| event_data(event)["entry"].is_null())
        .map(|event| event_data(event)["event_type"].as_str().unwrap())
        .collect();
    assert!(other_types.contains(&"run_started") && other_types.contains(&"run_ended"), "{other_types:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c5_the_start_and_end_of_a_compaction_and_its_undoing_are_sent() {
    let (server, thread) =
        start_long_thread(Some(ScriptedReply { always: true, ..ScriptedReply::text("Yes.") })).await;
    let since = json!({"channels": ["history", "custom:compacting"], "since": u64::MAX >> 12});
    let mut events = follow_events(&server, &thread, &since).await;
    // For an unknown position, the stream reports missed events, and the client has to read the history again.
    assert_eq!(event_data(&events.next().await.unwrap())["event"], "missed");
    let api = format!("/api/threads/{thread}");
    let (_, result) = server.post(&format!("{api}/compact"), &json!({"keep": {"messages": 2}})).await;
    assert_eq!(result["outcome"], "condensed", "{result}");
    let received = read_until_stored(&mut events, "middleware:summarize").await;
    let states: Vec<&Value> = received
        .iter()
        .filter(|event| event.name == "custom")
        .map(|event| &event_data(event)["payload"])
        .collect();
    assert_eq!(states.len(), 2, "{states:?}");
    assert_eq!((&states[0]["state"], &states[0]["trigger"]), (&json!("began"), &json!("manual")));
    assert_eq!(states[0]["replaced_count"], result["marker"]["replaced_count"]);
    assert_eq!(states[1], &json!({"state": "condensed", "trigger": "manual"}));
    assert_eq!(event_data(received.last().unwrap())["entry"], result["marker"]);
    server.post(&format!("{api}/uncompact"), &json!({})).await;
    let undone = read_until_stored(&mut events, "compaction_undone").await;
    assert_eq!(event_data(undone.last().unwrap())["entry"]["marker_seq"], result["marker"]["seq"]);
    assert!(event_data(undone.last().unwrap())["run_id"].is_null());
    let before = read_history(&server, &thread).await;
    let keep = before[3]["seq"].clone();
    server.post(&format!("{api}/rewind"), &json!({"keep_seq": keep})).await;
    let rewound = read_until_stored(&mut events, "thread_rewound").await;
    assert_eq!(event_data(rewound.last().unwrap())["content"]["keep_seq"], keep);
    // A client that reconnects with an earlier position receives the later events again.
    let since = undone.last().unwrap().data["seq"].clone();
    let mut reconnected =
        follow_events(&server, &thread, &json!({"channels": ["history"], "since": since})).await;
    let reconnected = read_until_stored(&mut reconnected, "thread_rewound").await;
    assert_eq!(event_data(reconnected.last().unwrap())["seq"], event_data(rewound.last().unwrap())["seq"]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c5_the_end_of_a_stopped_compaction_is_sent() {
    let never = ScriptedReply::text("{}").with_gate("never", GatePosition::Start);
    let (server, thread) = start_long_thread(Some(never)).await;
    let mut events =
        follow_events(&server, &thread, &json!({"channels": ["custom:compacting", "lifecycle"]})).await;
    let path = format!("/api/threads/{thread}/compact");
    let body = json!({"keep": {"messages": 2}});
    let request = server.request(TestCaller::Local, reqwest::Method::POST, &path).json(&body).send();
    let request = tokio::spawn(request);
    let run_id = loop {
        let event = events.next().await.unwrap();
        if event.name == "custom" {
            let id = event.data["event_id"].as_str().unwrap();
            break id.split(':').next().unwrap().to_owned();
        }
    };
    let path = format!("/threads/{thread}/runs/{run_id}/cancel");
    assert_eq!(server.post(&path, &json!({})).await.0, 202);
    let ended = loop {
        let event = events.next().await.unwrap();
        if event.name == "custom" {
            break event_data(&event)["payload"].clone();
        }
    };
    assert_eq!(ended, json!({"state": "stopped", "trigger": "manual"}));
    assert!(!request.await.unwrap().unwrap().status().is_success());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m8_a_handoff_draft_of_another_client_is_sent() {
    let (server, thread) =
        start_long_thread(Some(ScriptedReply { always: true, ..ScriptedReply::text("Yes.") })).await;
    let mut events = follow_events(&server, &thread, &json!({"channels": ["history", "input"]})).await;
    let (_, draft) = server.post(&format!("/api/threads/{thread}/handoffs"), &json!({})).await;
    let handoff_id = &draft["handoff"]["handoff_id"];
    let received = read_until_stored(&mut events, "handoff_proposed").await;
    for event_type in ["handoff_requested", "handoff_proposed"] {
        let event = received.iter().find(|event| event_data(event)["event_type"] == event_type).unwrap();
        assert_eq!(&event_data(event)["content"]["handoff_id"], handoff_id, "{event_type}");
    }
    read_until_stored(&mut events, "run_interrupted").await;
    let question = events.next().await.unwrap();
    assert_eq!(question.name, "input.requested");
    server.stop().await;
}
