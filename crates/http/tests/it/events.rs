//! Tests of the event-streaming protocol: commands, and numbered events on a thread's stream.

mod stored;

use reqwest::Method;
use serde_json::{Value, json};
use test_model::{Gate, GatePosition, Script, ScriptedCall, ScriptedReply};
use uuid::Uuid;

use crate::fixture::{ServerFixture, TestCaller};
use crate::sse::{ReceivedEvent, SseReader};

/// Returns a reply that is streamed word by word.
fn streamed_reply(text: &str) -> ScriptedReply {
    ScriptedReply { text: text.split_inclusive(' ').map(str::to_owned).collect(), ..ScriptedReply::default() }
}

/// Starts a server whose model gives these replies in order.
async fn start_with_replies(replies: Vec<ScriptedReply>) -> ServerFixture {
    ServerFixture::with_script(Script { replies, ..Script::default() }, |settings| settings).await
}

/// Opens the event stream of a thread with that filter.
async fn follow_events(server: &ServerFixture, thread: &str, filter: &Value) -> SseReader {
    let path = format!("/threads/{thread}/stream/events");
    SseReader::open(server.request(TestCaller::Local, Method::POST, &path).json(filter)).await
}

/// Sends a command of the event-streaming protocol and returns the response, a success or an error.
async fn send_command(server: &ServerFixture, thread: &str, method: &str, params: Value) -> Value {
    let envelope = json!({"id": 7, "method": method, "params": params});
    let (status, response) = server.post(&format!("/threads/{thread}/commands"), &envelope).await;
    assert_eq!(status, 200, "{response}");
    assert_eq!(response["id"], 7);
    response
}

/// Starts a run by `run.start` and returns its id.
async fn start_run(server: &ServerFixture, thread: &str, text: &str) -> String {
    let input = json!({"messages": [{"type": "human", "content": text}]});
    let response =
        send_command(server, thread, "run.start", json!({"assistant_id": "agent", "input": input})).await;
    assert_eq!(response["type"], "success", "{response}");
    response["result"]["run_id"].as_str().unwrap().to_owned()
}

/// Returns whether the event is the end of a run, and not of a sub-agent.
fn is_end(event: &ReceivedEvent) -> bool {
    let params = &event.data["params"];
    event.name == "lifecycle" && params["namespace"] == json!([]) && params["data"]["event"] != "running"
}

/// Reads up to the end of a run; returns all events read.
async fn read_one_run(events: &mut SseReader) -> Vec<ReceivedEvent> {
    let mut received = Vec::new();
    loop {
        let event = events.next().await.expect("the stream stays open");
        let ended = is_end(&event);
        received.push(event);
        if ended {
            return received;
        }
    }
}

/// All channels of the protocol, without Segue's own channel `history`.
const ALL_CHANNELS: [&str; 9] =
    ["values", "updates", "messages", "tools", "lifecycle", "input", "checkpoints", "tasks", "custom"];

#[tokio::test(flavor = "multi_thread")]
async fn s19_a_stream_of_a_thread_that_does_not_exist_yet_receives_its_first_run() {
    let server = start_with_replies(vec![streamed_reply("Hello 🦀 there."), streamed_reply("More.")]).await;
    let thread = Uuid::now_v7().to_string();
    let mut events = follow_events(&server, &thread, &json!({"channels": ALL_CHANNELS})).await;
    start_run(&server, &thread, "hi").await;
    let first = read_one_run(&mut events).await;
    assert_eq!(first[0].data["params"]["data"], json!({"event": "running", "graph_name": "agent"}));
    assert_eq!(first.last().unwrap().data["params"]["data"]["event"], "completed");
    let message_events: Vec<&Value> = first
        .iter()
        .filter(|event| event.name == "messages")
        .map(|event| &event.data["params"]["data"])
        .collect();
    assert_eq!(
        (&message_events[0]["event"], &message_events[0]["role"]),
        (&json!("message-start"), &json!("ai"))
    );
    let deltas = message_events.iter().filter_map(|event| event["delta"]["text"].as_str());
    assert_eq!(deltas.collect::<String>(), "Hello 🦀 there.");
    assert_eq!(message_events.last().unwrap()["event"], "message-finish");
    assert!(message_events.last().unwrap()["usage"]["total_tokens"].is_u64());
    let values = first.iter().rfind(|event| event.name == "values").unwrap();
    let messages = &values.data["params"]["data"]["messages"];
    assert_eq!(
        messages[1]["id"], message_events[0]["id"],
        "the streamed message has the id of the stored one"
    );
    // The stream continues with the next run, and the sequence numbers increase.
    start_run(&server, &thread, "and?").await;
    let second = read_one_run(&mut events).await;
    let all: Vec<&ReceivedEvent> = first.iter().chain(&second).collect();
    let numbers: Vec<u64> = all.iter().map(|event| event.data["seq"].as_u64().unwrap()).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    assert!(all.iter().all(|event| event.id == Some(event.data["seq"].to_string())));
    // Another connection receives the same events with the same numbers and ids, or those after `since`.
    let mut second_stream = follow_events(&server, &thread, &json!({"channels": ALL_CHANNELS})).await;
    for event in &all {
        assert_eq!(second_stream.next().await.unwrap().text, event.text);
    }
    let since = numbers[first.len() - 1];
    let mut since_stream =
        follow_events(&server, &thread, &json!({"channels": ALL_CHANNELS, "since": since})).await;
    assert_eq!(since_stream.next().await.unwrap().text, second[0].text);
    // A filter omits events and does not renumber the others.
    let mut filtered =
        follow_events(&server, &thread, &json!({"channels": ["lifecycle"], "namespaces": [[]], "depth": 1}))
            .await;
    assert_eq!(filtered.next().await.unwrap().text, first[0].text);
    assert_eq!(filtered.next().await.unwrap().text, first.last().unwrap().text);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s19_a_question_is_sent_and_can_be_answered() {
    let call = ScriptedCall { id: "c1".into(), name: "execute".into(), args: json!({"command": "touch x"}) };
    let server = start_with_replies(vec![
        ScriptedReply { calls: vec![call], ..streamed_reply("I do it.") },
        streamed_reply("Done."),
    ])
    .await;
    let thread = Uuid::now_v7().to_string();
    start_run(&server, &thread, "do it").await;
    let mut events = follow_events(&server, &thread, &json!({"channels": ALL_CHANNELS})).await;
    let events_before_question = read_one_run(&mut events).await;
    assert_eq!(events_before_question.last().unwrap().data["params"]["data"]["event"], "interrupted");
    let input = events_before_question.iter().find(|event| event.name == "input.requested").unwrap();
    let question = &input.data["params"]["data"];
    assert_eq!(question["payload"], question["value"]);
    assert_eq!(question["payload"]["action_requests"][0]["name"], "execute");
    let blocks = events_before_question
        .iter()
        .filter(|event| event.data["params"]["data"]["content"]["type"] == "tool_call");
    let blocks: Vec<&Value> = blocks.map(|event| &event.data["params"]["data"]["content"]).collect();
    assert_eq!(blocks.last().unwrap()["args"], json!({"command": "touch x"}));
    for event in events_before_question.iter().filter(|event| event.name == "values") {
        assert!(event.data["params"]["data"].get("__interrupt__").is_none());
    }
    let id = question["interrupt_id"].as_str().unwrap();
    let decisions = json!({"decisions": [{"type": "reject", "message": "no"}]});
    let unknown = json!({"interrupt_id": "0".repeat(32), "response": decisions, "namespace": []});
    assert_eq!(send_command(&server, &thread, "input.respond", unknown).await["error"], "no_such_interrupt");
    let answer = json!({"interrupt_id": id, "response": decisions, "namespace": []});
    let done = send_command(&server, &thread, "input.respond", answer).await;
    assert_eq!((&done["type"], &done["result"]), (&json!("success"), &json!({})));
    let remaining = read_one_run(&mut events).await;
    assert_eq!(remaining.last().unwrap().data["params"]["data"]["event"], "completed");
    let result = remaining
        .iter()
        .find(|event| event.name == "messages" && event.data["params"]["data"]["role"] == "tool");
    assert!(result.is_some_and(|event| event.data["params"]["namespace"] == json!(["tools:c1"])));
    assert!(remaining.iter().any(|event| event.data["params"]["data"]["event"] == "tool-error"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s19_invalid_commands_and_filters_are_refused() {
    let server = start_with_replies(vec![streamed_reply("one")]).await;
    let thread = Uuid::now_v7().to_string();
    let commands = format!("/threads/{thread}/commands");
    for bad in [json!({}), json!({"id": "x", "method": "run.start"}), json!({"id": 1}), json!([1])] {
        assert_eq!(server.post(&commands, &bad).await.0, 400, "{bad}");
    }
    let code = async |method: &str, params: Value| {
        send_command(&server, &thread, method, params).await["error"].clone()
    };
    assert_eq!(code("nope", json!({})).await, "unknown_command");
    assert_eq!(code("subscription.subscribe", json!({})).await, "not_supported");
    assert_eq!(code("run.start", json!({})).await, "invalid_argument");
    assert_eq!(code("run.start", json!({"assistant_id": "nobody", "input": {}})).await, "invalid_argument");
    assert_eq!(code("input.respond", json!({"responses": []})).await, "invalid_argument");
    let filters = format!("/threads/{thread}/stream/events");
    for bad in [json!({}), json!({"channels": []}), json!({"channels": ["nope"]})] {
        assert_eq!(server.post(&filters, &bad).await.0, 400, "{bad}");
    }
    let tree = send_command(&server, &thread, "agent.getTree", json!({})).await;
    assert_eq!(tree["result"]["tree"]["graph_name"], "agent");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s19_checkpoints_are_sent_as_in_the_state_history() {
    let server = ServerFixture::start_default().await;
    let thread = server.create_thread(TestCaller::Local).await;
    let filter = json!({"channels": ["checkpoints", "lifecycle"]});
    let mut events = follow_events(&server, &thread, &filter).await;
    let mut sent = Vec::new();
    for text in ["one", "two"] {
        server.send_message(TestCaller::Local, &thread, text).await;
        loop {
            let event = events.next().await.unwrap();
            let data = &event.data["params"]["data"];
            match event.name.as_str() {
                "checkpoints" => sent.push(
                    [&data["id"], &data["parent_id"], &data["step"], &data["source"]].map(Value::clone),
                ),
                _ if data["event"] == "completed" => break,
                _ => {}
            }
        }
    }
    let (_, history) = server.post(&format!("/threads/{thread}/history"), &json!({"limit": 100})).await;
    let checkpoints = history.as_array().unwrap().iter().rev().map(|state| {
        [
            &state["checkpoint_id"],
            &state["parent_checkpoint_id"],
            &state["metadata"]["step"],
            &state["metadata"]["source"],
        ]
        .map(Value::clone)
    });
    assert_eq!(sent, checkpoints.collect::<Vec<_>>());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s19_a_cancelled_run_is_not_reported_as_completed() {
    let gate = Some(Gate { name: "never".to_owned(), at: GatePosition::End });
    let server = start_with_replies(vec![ScriptedReply { gate, ..ScriptedReply::text("half") }]).await;
    let thread = server.create_thread(TestCaller::Local).await;
    let mut events = follow_events(&server, &thread, &json!({"channels": ["lifecycle"]})).await;
    let body = json!({"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "hi"}]}});
    let run = server.post(&format!("/threads/{thread}/runs"), &body).await.1;
    server.model.wait_for_calls(1).await;
    let path = format!("/threads/{thread}/runs/{}/cancel?wait=1", run["run_id"].as_str().unwrap());
    assert_eq!(server.post(&path, &json!({})).await.0, 200);
    for expected in ["running", "interrupted"] {
        assert_eq!(events.next().await.unwrap().data["params"]["data"]["event"], expected);
    }
    server.stop().await;
}
