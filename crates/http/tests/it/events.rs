//! The event-streaming protocol: commands in, numbered events out.

mod stored;

use reqwest::Method;
use serde_json::{Value, json};
use test_model::{Call, Gate, Place, Reply, Script};
use uuid::Uuid;

use crate::sse::{Event, Events};
use crate::world::{As, World};

fn said(text: &str) -> Reply {
    Reply { text: text.split_inclusive(' ').map(str::to_owned).collect(), ..Reply::default() }
}

async fn playing(replies: Vec<Reply>) -> World {
    World::playing(Script { replies, ..Script::default() }, |settings| settings).await
}

async fn follow(world: &World, thread: &str, filter: &Value) -> Events {
    let path = format!("/threads/{thread}/stream/events");
    Events::of(world.request(As::Local, Method::POST, &path).json(filter)).await
}

async fn command(world: &World, thread: &str, (method, params): (&str, Value)) -> Value {
    let envelope = json!({"id": 7, "method": method, "params": params});
    let (status, told) = world.post(&format!("/threads/{thread}/commands"), &envelope).await;
    assert_eq!(status, 200, "{told}");
    assert_eq!(told["id"], 7);
    told
}

async fn start(world: &World, thread: &str, text: &str) -> String {
    let input = json!({"messages": [{"type": "human", "content": text}]});
    let told = command(world, thread, ("run.start", json!({"assistant_id": "agent", "input": input}))).await;
    assert_eq!(told["type"], "success", "{told}");
    told["result"]["run_id"].as_str().unwrap().to_owned()
}

fn is_end(event: &Event) -> bool {
    let params = &event.data["params"];
    event.name == "lifecycle" && params["namespace"] == json!([]) && params["data"]["event"] != "running"
}

async fn one_run(events: &mut Events) -> Vec<Event> {
    let mut seen = Vec::new();
    loop {
        let event = events.next().await.expect("the stream stays open");
        let ended = is_end(&event);
        seen.push(event);
        if ended {
            return seen;
        }
    }
}

const ALL: [&str; 9] =
    ["values", "updates", "messages", "tools", "lifecycle", "input", "checkpoints", "tasks", "custom"];

#[tokio::test(flavor = "multi_thread")]
async fn s19_a_run_of_a_thread_that_did_not_exist_is_told_to_who_waited_for_it() {
    let world = playing(vec![said("Hello 🦀 there."), said("More.")]).await;
    let thread = Uuid::now_v7().to_string();
    let mut events = follow(&world, &thread, &json!({"channels": ALL})).await;
    start(&world, &thread, "hi").await;
    let first = one_run(&mut events).await;
    assert_eq!(first[0].data["params"]["data"], json!({"event": "running", "graph_name": "agent"}));
    assert_eq!(first.last().unwrap().data["params"]["data"]["event"], "completed");
    let said: Vec<&Value> = first
        .iter()
        .filter(|event| event.name == "messages")
        .map(|event| &event.data["params"]["data"])
        .collect();
    assert_eq!((&said[0]["event"], &said[0]["role"]), (&json!("message-start"), &json!("ai")));
    let deltas = said.iter().filter_map(|told| told["delta"]["text"].as_str());
    assert_eq!(deltas.collect::<String>(), "Hello 🦀 there.");
    assert_eq!(said.last().unwrap()["event"], "message-finish");
    assert!(said.last().unwrap()["usage"]["total_tokens"].is_u64());
    let values = first.iter().rfind(|event| event.name == "values").unwrap();
    let messages = &values.data["params"]["data"]["messages"];
    assert_eq!(messages[1]["id"], said[0]["id"], "the message is the one that is stored");
    // The stream goes on with the next run, and its numbers go up.
    start(&world, &thread, "and?").await;
    let second = one_run(&mut events).await;
    let all: Vec<&Event> = first.iter().chain(&second).collect();
    let numbers: Vec<u64> = all.iter().map(|event| event.data["seq"].as_u64().unwrap()).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    assert!(all.iter().all(|event| event.id == Some(event.data["seq"].to_string())));
    // Another connection is told the same, under the same numbers and ids; or only what it has not had.
    let mut again = follow(&world, &thread, &json!({"channels": ALL})).await;
    for event in &all {
        assert_eq!(again.next().await.unwrap().text, event.text);
    }
    let since = numbers[first.len() - 1];
    let mut rest = follow(&world, &thread, &json!({"channels": ALL, "since": since})).await;
    assert_eq!(rest.next().await.unwrap().text, second[0].text);
    // A filter leaves out events, and does not number the others anew.
    let mut few =
        follow(&world, &thread, &json!({"channels": ["lifecycle"], "namespaces": [[]], "depth": 1})).await;
    assert_eq!(few.next().await.unwrap().text, first[0].text);
    assert_eq!(few.next().await.unwrap().text, first.last().unwrap().text);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s19_a_question_is_asked_and_answered() {
    let call = Call { id: "c1".into(), name: "execute".into(), args: json!({"command": "touch x"}) };
    let world = playing(vec![Reply { calls: vec![call], ..said("I do it.") }, said("Done.")]).await;
    let thread = Uuid::now_v7().to_string();
    start(&world, &thread, "do it").await;
    let mut events = follow(&world, &thread, &json!({"channels": ALL})).await;
    let asked = one_run(&mut events).await;
    assert_eq!(asked.last().unwrap().data["params"]["data"]["event"], "interrupted");
    let input = asked.iter().find(|event| event.name == "input.requested").unwrap();
    let told = &input.data["params"]["data"];
    assert_eq!(told["payload"], told["value"]);
    assert_eq!(told["payload"]["action_requests"][0]["name"], "execute");
    let blocks = asked.iter().filter(|event| event.data["params"]["data"]["content"]["type"] == "tool_call");
    let blocks: Vec<&Value> = blocks.map(|event| &event.data["params"]["data"]["content"]).collect();
    assert_eq!(blocks.last().unwrap()["args"], json!({"command": "touch x"}));
    for event in asked.iter().filter(|event| event.name == "values") {
        assert!(event.data["params"]["data"].get("__interrupt__").is_none());
    }
    let id = told["interrupt_id"].as_str().unwrap();
    let decisions = json!({"decisions": [{"type": "reject", "message": "no"}]});
    let unknown = json!({"interrupt_id": "0".repeat(32), "response": decisions, "namespace": []});
    assert_eq!(command(&world, &thread, ("input.respond", unknown)).await["error"], "no_such_interrupt");
    let answer = json!({"interrupt_id": id, "response": decisions, "namespace": []});
    let done = command(&world, &thread, ("input.respond", answer)).await;
    assert_eq!((&done["type"], &done["result"]), (&json!("success"), &json!({})));
    let rest = one_run(&mut events).await;
    assert_eq!(rest.last().unwrap().data["params"]["data"]["event"], "completed");
    let result =
        rest.iter().find(|event| event.name == "messages" && event.data["params"]["data"]["role"] == "tool");
    assert!(result.is_some_and(|event| event.data["params"]["namespace"] == json!(["tools:c1"])));
    assert!(rest.iter().any(|event| event.data["params"]["data"]["event"] == "tool-error"));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s19_what_is_no_command_or_no_filter_is_refused() {
    let world = playing(vec![said("one")]).await;
    let thread = Uuid::now_v7().to_string();
    let commands = format!("/threads/{thread}/commands");
    for bad in [json!({}), json!({"id": "x", "method": "run.start"}), json!({"id": 1}), json!([1])] {
        assert_eq!(world.post(&commands, &bad).await.0, 400, "{bad}");
    }
    let code =
        async |method: &str, params: Value| command(&world, &thread, (method, params)).await["error"].clone();
    assert_eq!(code("nope", json!({})).await, "unknown_command");
    assert_eq!(code("subscription.subscribe", json!({})).await, "not_supported");
    assert_eq!(code("run.start", json!({})).await, "invalid_argument");
    assert_eq!(code("run.start", json!({"assistant_id": "nobody", "input": {}})).await, "invalid_argument");
    assert_eq!(code("input.respond", json!({"responses": []})).await, "invalid_argument");
    let filters = format!("/threads/{thread}/stream/events");
    for bad in [json!({}), json!({"channels": []}), json!({"channels": ["nope"]})] {
        assert_eq!(world.post(&filters, &bad).await.0, 400, "{bad}");
    }
    let tree = command(&world, &thread, ("agent.getTree", json!({}))).await;
    assert_eq!(tree["result"]["tree"]["graph_name"], "agent");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s19_points_are_told_as_the_history_has_them() {
    let world = World::start().await;
    let thread = world.thread(As::Local).await;
    let filter = json!({"channels": ["checkpoints", "lifecycle"]});
    let mut events = follow(&world, &thread, &filter).await;
    let mut told = Vec::new();
    for text in ["one", "two"] {
        world.say(As::Local, (&thread, text)).await;
        loop {
            let event = events.next().await.unwrap();
            let data = &event.data["params"]["data"];
            match event.name.as_str() {
                "checkpoints" => told.push(
                    [&data["id"], &data["parent_id"], &data["step"], &data["source"]].map(Value::clone),
                ),
                _ if data["event"] == "completed" => break,
                _ => {}
            }
        }
    }
    let (_, history) = world.post(&format!("/threads/{thread}/history"), &json!({"limit": 100})).await;
    let points = history.as_array().unwrap().iter().rev().map(|state| {
        [
            &state["checkpoint_id"],
            &state["parent_checkpoint_id"],
            &state["metadata"]["step"],
            &state["metadata"]["source"],
        ]
        .map(Value::clone)
    });
    assert_eq!(told, points.collect::<Vec<_>>());
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s19_a_run_that_is_stopped_is_not_completed() {
    let gate = Some(Gate { name: "never".to_owned(), at: Place::End });
    let world = playing(vec![Reply { gate, ..Reply::text("half") }]).await;
    let thread = world.thread(As::Local).await;
    let mut events = follow(&world, &thread, &json!({"channels": ["lifecycle"]})).await;
    let asked = json!({"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "hi"}]}});
    let run = world.post(&format!("/threads/{thread}/runs"), &asked).await.1;
    world.model.called(1).await;
    let path = format!("/threads/{thread}/runs/{}/cancel?wait=1", run["run_id"].as_str().unwrap());
    assert_eq!(world.post(&path, &json!({})).await.0, 200);
    for expected in ["running", "interrupted"] {
        assert_eq!(events.next().await.unwrap().data["params"]["data"]["event"], expected);
    }
    world.stop().await;
}
