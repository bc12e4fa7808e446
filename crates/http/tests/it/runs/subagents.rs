//! What sub-agents do, told to those who want to know, each in the namespace of the call that began it.

use reqwest::Method;
use serde_json::{Value, json};
use test_model::{Reply, Script};

use crate::sse::{Event, Events, data, names};
use crate::world::{As, World};

/// A model whose agent has two others count at the same time; one of these looks first.
async fn counting() -> World {
    let task = |prompt: &str| json!({"description": "count", "prompt": prompt});
    let asks =
        Reply::call("c1", "task", task("Count the hens.")).and_call("c2", "task", task("Count the geese."));
    let pieces = |text: [&str; 2]| Reply { text: text.map(str::to_owned).to_vec(), ..Reply::default() };
    let own = |reply: Reply, step| reply.when_body_contains("Count all birds.").when_turn_is(1, step);
    let geese = |reply: Reply, step| reply.when_body_contains("Count the geese.").when_turn_is(1, step);
    let script = Script::new([
        own(asks, 1),
        own(Reply::text("Five birds."), 2),
        geese(Reply::call("l1", "ls", json!({"path": "."})), 1),
        geese(pieces(["Two ", "geese."]), 2),
        pieces(["Three ", "hens."]).when_body_contains("Count the hens."),
    ]);
    World::playing(script, |settings| settings).await
}

fn asking(subgraphs: Value) -> Value {
    json!({
        "assistant_id": "agent", "stream_subgraphs": subgraphs, "stream_resumable": true,
        "stream_mode": ["values", "messages-tuple", "updates", "custom", "tasks", "checkpoints"],
        "input": {"messages": [{"role": "user", "content": "Count all birds."}]},
    })
}

async fn streamed(world: &World, subgraphs: Value) -> (String, Events) {
    let thread = world.thread(As::Local).await;
    let path = format!("/threads/{thread}/runs/stream");
    let asked = world.request(As::Local, Method::POST, &path).json(&asking(subgraphs));
    (thread, Events::of(asked).await)
}

fn text(chunks: &[&Value]) -> String {
    chunks.iter().map(|chunk| chunk[0]["content"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn s8_what_a_subagent_does_is_told_in_its_namespace_in_every_mode_that_was_asked_for() {
    let world = counting().await;
    let (thread, events) = streamed(&world, json!(true)).await;
    let run_id = events.run_id();
    let told = events.rest().await;
    let of = |name: &str| data(&told, name);
    let said = of("messages|tools:c1");
    assert_eq!(text(&said), "Three hens.");
    let ids: Vec<&Value> = said.iter().map(|chunk| &chunk[0]["id"]).collect();
    assert!(ids.iter().all(|id| *id == ids[0] && id.is_string()), "{ids:?}");
    let beside = &said[0][1];
    assert!(beside["langgraph_checkpoint_ns"].as_str().unwrap().starts_with("tools:c1|model:"), "{beside}");
    assert_eq!((&beside["run_id"], &beside["thread_id"]), (&json!(run_id), &json!(thread)));

    let values = of("values|tools:c2");
    let first = values[0]["messages"].as_array().unwrap();
    assert_eq!(
        (first.len(), &first[0]["type"], &first[0]["content"]),
        (1, &json!("human"), &json!("Count the geese."))
    );
    let last = values.last().unwrap()["messages"].as_array().unwrap();
    let kinds: Vec<&str> = last.iter().map(|message| message["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["human", "ai", "tool", "ai"]);
    assert_eq!(last[3]["content"], "Two geese.");
    let updates = of("updates|tools:c2");
    assert_eq!(updates[0]["model"]["messages"][0]["tool_calls"][0]["name"], "ls", "{updates:?}");
    assert!(!of("tasks|tools:c2").is_empty() && !of("checkpoints|tools:c1").is_empty());

    // The root tells what it would without them.
    let root = |told: &[Event]| -> Vec<(String, String)> {
        let root = told.iter().filter(|event| !event.name.contains('|'));
        root.map(|event| (event.name.clone(), event.data.to_string().len().to_string())).collect()
    };
    let names_told = names(&told);
    assert!(
        names_told.iter().all(|name| !name.ends_with('|') && !name.starts_with("error")),
        "{names_told:?}"
    );
    assert_eq!(of("metadata").len(), 1);
    assert_eq!(text(&of("messages")), "Three hens.Two geese.Five birds.", "two results, then the answer");
    let again = counting().await;
    let without = streamed(&again, json!(false)).await.1.rest().await;
    assert!(names(&without).iter().all(|name| !name.contains('|')), "{:?}", names(&without));
    assert_eq!(root(&told), root(&without));
}

#[tokio::test]
async fn i3_a_client_that_comes_back_in_the_middle_of_a_subagent_has_each_event_once() {
    let world = counting().await;
    let (thread, events) = streamed(&world, json!(true)).await;
    let run_id = events.run_id();
    let told = events.rest().await;
    let path = format!("/threads/{thread}/runs/{run_id}/stream");
    for at in told.iter().enumerate().filter(|(_, event)| event.name.contains('|')).map(|(at, _)| at) {
        let id = told[at].id.clone().unwrap();
        let rest = world.request(As::Local, Method::GET, &path).header("last-event-id", &id);
        let rest = Events::of(rest).await.rest().await;
        let texts = |events: &[Event]| events.iter().map(|event| event.text.clone()).collect::<Vec<_>>();
        assert_eq!(texts(&rest), texts(&told[at + 1..]), "after {id}");
    }
}

#[tokio::test]
async fn s19_2_a_subagent_is_told_by_the_protocol_in_the_namespace_of_its_call() {
    let world = counting().await;
    let thread = world.thread(As::Local).await;
    let path = format!("/threads/{thread}/stream/events");
    let filter = json!({"channels": ["lifecycle", "messages", "values", "tools", "updates"]});
    let mut events = Events::of(world.request(As::Local, Method::POST, &path).json(&filter)).await;
    world.say(As::Local, (&thread, "Count all birds.")).await;
    let (mut told, mut is_over) = (Vec::new(), false);
    while !is_over {
        let event = events.next().await.unwrap();
        let params = &event.data["params"];
        is_over = params["namespace"] == json!([]) && params["data"]["event"] == "completed";
        told.push(event);
    }
    let within = |call: &str, method: &str| -> Vec<Value> {
        let namespace = json!([format!("tools:{call}")]);
        let here = told
            .iter()
            .filter(|event| event.name == method && event.data["params"]["namespace"] == namespace);
        here.map(|event| event.data["params"]["data"].clone()).collect()
    };
    for call in ["c1", "c2"] {
        let namespace = json!([format!("tools:{call}")]);
        let cause = json!({"type": "toolCall", "tool_call_id": call});
        let [started, ended] = &*within(call, "lifecycle") else { panic!("{told:?}") };
        let begun = json!({
            "event": "started", "graph_name": "agent", "cause": cause, "namespace": namespace,
            "thread_id": started["thread_id"],
        });
        assert_eq!(*started, begun);
        let own = started["thread_id"].as_str().unwrap();
        assert_eq!(world.get(&format!("/threads/{own}")).await.0, 200, "who wants more reads its thread");
        assert_eq!(*ended, json!({"event": "completed", "graph_name": "agent", "namespace": namespace}));
        assert!(!within(call, "values").is_empty() && !within(call, "updates").is_empty());
    }
    let said = within("c1", "messages");
    assert_eq!((&said[0]["event"], &said[0]["role"]), (&json!("message-start"), &json!("ai")), "{said:?}");
    let deltas = said.iter().filter_map(|part| part["delta"]["text"].as_str());
    assert!(deltas.collect::<String>().starts_with("Three hens."), "{said:?}");
    let [started, finished] = &*within("c2", "tools") else { panic!("{told:?}") };
    assert_eq!((&started["event"], &started["tool_name"]), (&json!("tool-started"), &json!("ls")));
    assert_eq!((&finished["event"], &finished["tool_call_id"]), (&json!("tool-finished"), &json!("l1")));
    let numbers: Vec<u64> = told.iter().map(|event| event.data["seq"].as_u64().unwrap()).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
}
