//! States over HTTP: at the head, at points of the past, over branches, and changed.

use reqwest::Method;
use serde_json::{Value, json};
use test_model::{Gate, Place, Reply, Script};

use crate::world::{As, World};

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_thread_has_an_empty_state() {
    let world = World::start().await;
    let thread = world.thread(As::Local).await;
    let (status, state) = world.get(&format!("/threads/{thread}/state")).await;
    assert_eq!(status, 200);
    assert_eq!(
        state,
        json!({"values": {}, "next": [], "tasks": [], "metadata": null, "created_at": null, "checkpoint": null,
            "parent_checkpoint": null, "interrupts": [], "checkpoint_id": null, "parent_checkpoint_id": null})
    );
    assert_eq!(world.post(&format!("/threads/{thread}/history"), &json!({"limit": 10})).await.1, json!([]));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_message_has_a_first_state_whose_parent_does_not_have_it() {
    let world = World::start().await;
    let thread = world.talk(As::Local, "first").await;
    world.say(As::Local, (&thread, "second")).await;
    let (_, states) = world.post(&format!("/threads/{thread}/history"), &json!({"limit": 100})).await;
    let states = states.as_array().unwrap();
    let holds = |state: &Value, id: &str| {
        let messages = state["values"]["messages"].as_array().cloned().unwrap_or_default();
        messages.iter().any(|message| message["id"] == id)
    };
    for message in states[0]["values"]["messages"].as_array().unwrap() {
        let id = message["id"].as_str().unwrap();
        let first = states.iter().rfind(|state| holds(state, id)).unwrap();
        let parent = &first["parent_checkpoint"]["checkpoint_id"];
        let parent = states.iter().find(|state| state["checkpoint"]["checkpoint_id"] == *parent).unwrap();
        assert!(!holds(parent, id), "{message}");
    }
    let oldest = states.last().unwrap();
    assert_eq!(
        (&oldest["metadata"]["source"], &oldest["metadata"]["step"], &oldest["next"]),
        (&json!("input"), &json!(-1), &json!(["__start__"]))
    );
    let ids: Vec<&str> = states.iter().map(|state| state["checkpoint_id"].as_str().unwrap()).collect();
    assert!(ids.is_sorted_by(|newer, older| newer > older), "{ids:?}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b5_pages_of_the_past_are_the_whole_in_every_form_of_cursor() {
    let world = World::start().await;
    let thread = world.talk(As::Local, "first").await;
    world.say(As::Local, (&thread, "second")).await;
    let path = format!("/threads/{thread}/history");
    let all = world.post(&path, &json!({"limit": 1000})).await.1;
    let all: Vec<&str> =
        all.as_array().unwrap().iter().map(|state| state["checkpoint_id"].as_str().unwrap()).collect();
    for form in 0..3 {
        let mut seen: Vec<String> = Vec::new();
        loop {
            let before = seen.last().map(|id| match form {
                0 => json!(id),
                1 => json!({"checkpoint_id": id, "checkpoint_ns": ""}),
                _ => json!({"configurable": {"checkpoint_id": id, "thread_id": thread}}),
            });
            let (status, page) = world.post(&path, &json!({"limit": 2, "before": before})).await;
            assert_eq!(status, 200, "{page}");
            let page: Vec<String> = page
                .as_array()
                .unwrap()
                .iter()
                .map(|state| state["checkpoint_id"].as_str().unwrap().to_owned())
                .collect();
            if page.is_empty() {
                break;
            }
            seen.extend(page);
        }
        assert_eq!(seen, all, "form {form}");
    }
    let (_, page) = world.get(&format!("{path}?limit=1&before={}", all[0])).await;
    assert_eq!(page[0]["checkpoint_id"], all[1]);
    let (_, loops) = world.post(&path, &json!({"limit": 100, "metadata": {"source": "input"}})).await;
    assert_eq!(loops.as_array().unwrap().len(), 2);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_point_of_the_past_is_read_in_both_ways() {
    let world = World::start().await;
    let thread = world.talk(As::Local, "hello").await;
    let path = format!("/threads/{thread}/state");
    let (_, head) = world.get(&path).await;
    let parent = head["parent_checkpoint"].clone();
    let (_, by_path) = world.get(&format!("{path}/{}", parent["checkpoint_id"].as_str().unwrap())).await;
    let (_, by_body) = world.post(&format!("{path}/checkpoint"), &json!({"checkpoint": parent})).await;
    assert_eq!(by_path, by_body);
    assert_eq!(by_path["checkpoint"], parent);
    let (_, latest) =
        world.post(&format!("{path}/checkpoint"), &json!({"checkpoint": {"thread_id": thread}})).await;
    assert_eq!(latest, head);
    for unknown in ["018f0000-0000-7000-8000-00000000000f", "nothing"] {
        let (status, body) = world.get(&format!("{path}/{unknown}")).await;
        assert_eq!((status.as_u16(), &body["code"]), (404, &json!("not_found")), "{unknown}");
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_is_changed_by_the_ids_of_messages() {
    let world = World::start().await;
    let thread = world.talk(As::Local, "hello").await;
    let path = format!("/threads/{thread}/state");
    let (_, head) = world.get(&path).await;
    let id = head["values"]["messages"][1]["id"].clone();
    let change = json!({"values": {"messages": [{"type": "ai", "id": id, "content": "Changed."}], "files": {"a.txt": "b"}}});
    let (status, put) = world.post(&path, &change).await;
    assert_eq!(status, 200, "{put}");
    assert_eq!(put["checkpoint"]["thread_id"], json!(thread));
    assert_eq!(put["checkpoint"], put["configurable"]);
    let (_, state) = world.get(&path).await;
    assert_eq!(state["checkpoint_id"], put["checkpoint_id"]);
    let messages = state["values"]["messages"].as_array().unwrap();
    assert_eq!((messages.len(), &messages[1]["content"], &messages[1]["id"]), (2, &json!("Changed."), &id));
    assert_eq!(state["metadata"]["source"], "update");
    for (wrong, field) in [
        (json!({"values": 3}), "values"),
        (json!({"values": {"messages": [{"content": "x"}]}}), "messages[0]"),
        (json!({"values": {}, "as_node": "nowhere"}), "nowhere"),
    ] {
        let (status, body) = world.post(&path, &wrong).await;
        assert_eq!(status, 400, "{wrong} {body}");
        assert!(body["detail"].as_str().unwrap().contains(field), "{body}");
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_a_busy_threads_state_is_made_when_it_rests() {
    let gate = Some(Gate { name: "g".into(), at: Place::End });
    let reply = Reply { always: true, text: vec!["Done.".into()], gate, ..Reply::default() };
    let world =
        World::playing(Script { replies: vec![reply], ..Script::default() }, |settings| settings).await;
    let thread = world.thread(As::Local).await;
    let body = json!({"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "work"}]}});
    world.post(&format!("/threads/{thread}/runs"), &body).await;
    world.model.called(1).await;
    let path = format!("/threads/{thread}/state");
    let change = json!({"values": {"files": {"a.txt": "b"}}});
    let change = world.request(As::Local, Method::POST, &path).json(&change).send();
    let (changed, ()) = tokio::join!(change, async { world.model.open("g") });
    assert_eq!(changed.unwrap().status(), 200);
    let (_, state) = world.get(&path).await;
    assert_eq!(state["values"]["files"], json!({"a.txt": "b"}));
    assert_eq!(state["values"]["messages"].as_array().unwrap().len(), 2);
    world.stop().await;
}
