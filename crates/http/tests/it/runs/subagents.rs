//! Tests of the events of sub-agents. Each event has the namespace of the tool call that started its sub-agent.

use reqwest::Method;
use serde_json::{Value, json};
use test_model::{Script, ScriptedReply};

use crate::fixture::{ServerFixture, TestCaller};
use crate::sse::{ReceivedEvent, SseReader, event_data, event_names};

/// Returns a server whose scripted model starts two sub-agents at the same time: `c1` counts hens and answers at once;
/// `c2` counts geese and calls the tool `ls` first.
async fn start_with_subagents() -> ServerFixture {
    let task = |prompt: &str| json!({"description": "count", "prompt": prompt});
    let tasks = ScriptedReply::call("c1", "task", task("Count the hens.")).with_call(
        "c2",
        "task",
        task("Count the geese."),
    );
    let streamed_text = |text: [&str; 2]| ScriptedReply {
        text: text.map(str::to_owned).to_vec(),
        ..ScriptedReply::default()
    };
    let parent =
        |reply: ScriptedReply, step| reply.when_body_contains("Count all birds.").when_turn_is(1, step);
    let geese =
        |reply: ScriptedReply, step| reply.when_body_contains("Count the geese.").when_turn_is(1, step);
    let script = Script::new([
        parent(tasks, 1),
        parent(ScriptedReply::text("Five birds."), 2),
        geese(ScriptedReply::call("l1", "ls", json!({"path": "."})), 1),
        geese(streamed_text(["Two ", "geese."]), 2),
        streamed_text(["Three ", "hens."]).when_body_contains("Count the hens."),
    ]);
    ServerFixture::with_script(script, |settings| settings).await
}

/// Returns the body of a run request with `subgraphs` as its `stream_subgraphs`.
fn run_body_with_subgraphs(subgraphs: Value) -> Value {
    json!({
        "assistant_id": "agent", "stream_subgraphs": subgraphs, "stream_resumable": true,
        "stream_mode": ["values", "messages-tuple", "updates", "custom", "tasks", "checkpoints"],
        "input": {"messages": [{"role": "user", "content": "Count all birds."}]},
    })
}

/// Starts a run with sub-agents on a new thread; returns the thread and the stream.
async fn stream_subagent_run(server: &ServerFixture, subgraphs: Value) -> (String, SseReader) {
    let thread = server.create_thread(TestCaller::Local).await;
    let path = format!("/threads/{thread}/runs/stream");
    let request =
        server.request(TestCaller::Local, Method::POST, &path).json(&run_body_with_subgraphs(subgraphs));
    (thread, SseReader::open(request).await)
}

/// Returns the text of the chunks, joined.
fn chunk_text(chunks: &[&Value]) -> String {
    chunks.iter().map(|chunk| chunk[0]["content"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn s8_the_events_of_a_subagent_are_sent_in_its_namespace_in_every_requested_mode() {
    let server = start_with_subagents().await;
    let (thread, events) = stream_subagent_run(&server, json!(true)).await;
    let run_id = events.run_id();
    let received = events.read_to_end().await;
    let data_of = |name: &str| event_data(&received, name);
    let chunks = data_of("messages|tools:c1");
    assert_eq!(chunk_text(&chunks), "Three hens.");
    let ids: Vec<&Value> = chunks.iter().map(|chunk| &chunk[0]["id"]).collect();
    assert!(ids.iter().all(|id| *id == ids[0] && id.is_string()), "{ids:?}");
    let chunk_metadata = &chunks[0][1];
    assert!(
        chunk_metadata["langgraph_checkpoint_ns"].as_str().unwrap().starts_with("tools:c1|model:"),
        "{chunk_metadata}"
    );
    assert_eq!((&chunk_metadata["run_id"], &chunk_metadata["thread_id"]), (&json!(run_id), &json!(thread)));

    let values = data_of("values|tools:c2");
    let first = values[0]["messages"].as_array().unwrap();
    assert_eq!(
        (first.len(), &first[0]["type"], &first[0]["content"]),
        (1, &json!("human"), &json!("Count the geese."))
    );
    let last = values.last().unwrap()["messages"].as_array().unwrap();
    let kinds: Vec<&str> = last.iter().map(|message| message["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["human", "ai", "tool", "ai"]);
    assert_eq!(last[3]["content"], "Two geese.");
    let updates = data_of("updates|tools:c2");
    assert_eq!(updates[0]["model"]["messages"][0]["tool_calls"][0]["name"], "ls", "{updates:?}");
    assert!(!data_of("tasks|tools:c2").is_empty() && !data_of("checkpoints|tools:c1").is_empty());

    // The run's own events are the same as in a run without `stream_subgraphs`. Lengths are compared instead of data,
    // because ids and times differ between two runs.
    let root_events = |events: &[ReceivedEvent]| -> Vec<(String, usize)> {
        let without_namespace = events.iter().filter(|event| !event.name.contains('|'));
        without_namespace.map(|event| (event.name.clone(), event.data.to_string().len())).collect()
    };
    let names = event_names(&received);
    assert!(names.iter().all(|name| !name.ends_with('|') && !name.starts_with("error")), "{names:?}");
    assert_eq!(data_of("metadata").len(), 1);
    assert_eq!(
        chunk_text(&data_of("messages")),
        "Three hens.Two geese.Five birds.",
        "the results of both sub-agents, then the answer"
    );
    let second_server = start_with_subagents().await;
    let without = stream_subagent_run(&second_server, json!(false)).await.1.read_to_end().await;
    assert!(event_names(&without).iter().all(|name| !name.contains('|')), "{:?}", event_names(&without));
    assert_eq!(root_events(&received), root_events(&without));
}

#[tokio::test]
async fn i3_a_client_that_reconnects_during_a_subagent_receives_each_event_once() {
    let server = start_with_subagents().await;
    let (thread, events) = stream_subagent_run(&server, json!(true)).await;
    let run_id = events.run_id();
    let received = events.read_to_end().await;
    let path = format!("/threads/{thread}/runs/{run_id}/stream");
    for index in
        received.iter().enumerate().filter(|(_, event)| event.name.contains('|')).map(|(index, _)| index)
    {
        let id = received[index].id.clone().unwrap();
        let remaining = server.request(TestCaller::Local, Method::GET, &path).header("last-event-id", &id);
        let remaining = SseReader::open(remaining).await.read_to_end().await;
        let texts =
            |events: &[ReceivedEvent]| events.iter().map(|event| event.text.clone()).collect::<Vec<_>>();
        assert_eq!(texts(&remaining), texts(&received[index + 1..]), "after {id}");
    }
}

#[tokio::test]
async fn s19_2_the_event_protocol_sends_a_subagents_events_in_the_namespace_of_its_call() {
    let server = start_with_subagents().await;
    let thread = server.create_thread(TestCaller::Local).await;
    let path = format!("/threads/{thread}/stream/events");
    let filter = json!({"channels": ["lifecycle", "messages", "values", "tools", "updates"]});
    let mut events =
        SseReader::open(server.request(TestCaller::Local, Method::POST, &path).json(&filter)).await;
    server.send_message(TestCaller::Local, &thread, "Count all birds.").await;
    let (mut received, mut is_ended) = (Vec::new(), false);
    while !is_ended {
        let event = events.next().await.unwrap();
        let params = &event.data["params"];
        is_ended = params["namespace"] == json!([]) && params["data"]["event"] == "completed";
        received.push(event);
    }
    let events_of_call = |call: &str, method: &str| -> Vec<Value> {
        let namespace = json!([format!("tools:{call}")]);
        let matching = received
            .iter()
            .filter(|event| event.name == method && event.data["params"]["namespace"] == namespace);
        matching.map(|event| event.data["params"]["data"].clone()).collect()
    };
    for call in ["c1", "c2"] {
        let namespace = json!([format!("tools:{call}")]);
        let cause = json!({"type": "toolCall", "tool_call_id": call});
        let [started, ended] = &*events_of_call(call, "lifecycle") else { panic!("{received:?}") };
        let expected = json!({
            "event": "started", "graph_name": "agent", "cause": cause, "namespace": namespace,
            "thread_id": started["thread_id"],
        });
        assert_eq!(*started, expected);
        let subagent_thread = started["thread_id"].as_str().unwrap();
        assert_eq!(
            server.get(&format!("/threads/{subagent_thread}")).await.0,
            200,
            "the sub-agent's thread can be read"
        );
        assert_eq!(*ended, json!({"event": "completed", "graph_name": "agent", "namespace": namespace}));
        assert!(!events_of_call(call, "values").is_empty() && !events_of_call(call, "updates").is_empty());
    }
    let message_events = events_of_call("c1", "messages");
    assert_eq!(
        (&message_events[0]["event"], &message_events[0]["role"]),
        (&json!("message-start"), &json!("ai")),
        "{message_events:?}"
    );
    let deltas = message_events.iter().filter_map(|part| part["delta"]["text"].as_str());
    assert!(deltas.collect::<String>().starts_with("Three hens."), "{message_events:?}");
    let [started, finished] = &*events_of_call("c2", "tools") else { panic!("{received:?}") };
    assert_eq!((&started["event"], &started["tool_name"]), (&json!("tool-started"), &json!("ls")));
    assert_eq!((&finished["event"], &finished["tool_call_id"]), (&json!("tool-finished"), &json!("l1")));
    let sequence_numbers: Vec<u64> =
        received.iter().map(|event| event.data["seq"].as_u64().unwrap()).collect();
    assert!(sequence_numbers.is_sorted_by(|a, b| a < b), "{sequence_numbers:?}");
}
