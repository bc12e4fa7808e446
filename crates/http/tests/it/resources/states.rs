//! Tests of the endpoints for states: the newest one, earlier checkpoints, their history, and updates.

use reqwest::Method;
use serde_json::{Value, json};
use test_model::{Gate, GatePosition, Script, ScriptedReply};

use crate::fixture::{ServerFixture, TestCaller};

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_thread_has_an_empty_state() {
    let server = ServerFixture::start_default().await;
    let thread = server.create_thread(TestCaller::Local).await;
    let (status, state) = server.get(&format!("/threads/{thread}/state")).await;
    assert_eq!(status, 200);
    assert_eq!(
        state,
        json!({"values": {}, "next": [], "tasks": [], "metadata": null, "created_at": null, "checkpoint": null,
            "parent_checkpoint": null, "interrupts": [], "checkpoint_id": null, "parent_checkpoint_id": null})
    );
    assert_eq!(server.post(&format!("/threads/{thread}/history"), &json!({"limit": 10})).await.1, json!([]));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_message_has_a_first_state_whose_parent_does_not_contain_it() {
    let server = ServerFixture::start_default().await;
    let thread = server.create_thread_with_message(TestCaller::Local, "first").await;
    server.send_message(TestCaller::Local, &thread, "second").await;
    let (_, states) = server.post(&format!("/threads/{thread}/history"), &json!({"limit": 100})).await;
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
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b5_pages_of_the_state_history_are_complete_for_every_form_of_cursor() {
    let server = ServerFixture::start_default().await;
    let thread = server.create_thread_with_message(TestCaller::Local, "first").await;
    server.send_message(TestCaller::Local, &thread, "second").await;
    let path = format!("/threads/{thread}/history");
    let all = server.post(&path, &json!({"limit": 1000})).await.1;
    let all: Vec<&str> =
        all.as_array().unwrap().iter().map(|state| state["checkpoint_id"].as_str().unwrap()).collect();
    for form in 0..3 {
        let mut listed: Vec<String> = Vec::new();
        loop {
            let before = listed.last().map(|id| match form {
                0 => json!(id),
                1 => json!({"checkpoint_id": id, "checkpoint_ns": ""}),
                _ => json!({"configurable": {"checkpoint_id": id, "thread_id": thread}}),
            });
            let (status, page) = server.post(&path, &json!({"limit": 2, "before": before})).await;
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
            listed.extend(page);
        }
        assert_eq!(listed, all, "form {form}");
    }
    let (_, page) = server.get(&format!("{path}?limit=1&before={}", all[0])).await;
    assert_eq!(page[0]["checkpoint_id"], all[1]);
    let (_, loops) = server.post(&path, &json!({"limit": 100, "metadata": {"source": "input"}})).await;
    assert_eq!(loops.as_array().unwrap().len(), 2);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_can_be_read_by_path_and_by_body() {
    let server = ServerFixture::start_default().await;
    let thread = server.create_thread_with_message(TestCaller::Local, "hello").await;
    let path = format!("/threads/{thread}/state");
    let (_, head) = server.get(&path).await;
    let parent = head["parent_checkpoint"].clone();
    let (_, by_path) = server.get(&format!("{path}/{}", parent["checkpoint_id"].as_str().unwrap())).await;
    let (_, by_body) = server.post(&format!("{path}/checkpoint"), &json!({"checkpoint": parent})).await;
    assert_eq!(by_path, by_body);
    assert_eq!(by_path["checkpoint"], parent);
    let (_, latest) =
        server.post(&format!("{path}/checkpoint"), &json!({"checkpoint": {"thread_id": thread}})).await;
    assert_eq!(latest, head);
    for unknown in ["018f0000-0000-7000-8000-00000000000f", "nothing"] {
        let (status, body) = server.get(&format!("{path}/{unknown}")).await;
        assert_eq!((status.as_u16(), &body["code"]), (404, &json!("not_found")), "{unknown}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_update_replaces_messages_by_their_ids() {
    let server = ServerFixture::start_default().await;
    let thread = server.create_thread_with_message(TestCaller::Local, "hello").await;
    let path = format!("/threads/{thread}/state");
    let (_, head) = server.get(&path).await;
    let id = head["values"]["messages"][1]["id"].clone();
    let change = json!({"values": {"messages": [{"type": "ai", "id": id, "content": "Changed."}], "files": {"a.txt": "b"}}});
    let (status, updated) = server.post(&path, &change).await;
    assert_eq!(status, 200, "{updated}");
    assert_eq!(updated["checkpoint"]["thread_id"], json!(thread));
    assert_eq!(updated["checkpoint"], updated["configurable"]);
    let (_, state) = server.get(&path).await;
    assert_eq!(state["checkpoint_id"], updated["checkpoint_id"]);
    let messages = state["values"]["messages"].as_array().unwrap();
    assert_eq!((messages.len(), &messages[1]["content"], &messages[1]["id"]), (2, &json!("Changed."), &id));
    assert_eq!(state["metadata"]["source"], "update");
    for (invalid, field) in [
        (json!({"values": 3}), "values"),
        (json!({"values": {"messages": [{"content": "x"}]}}), "messages[0]"),
        (json!({"values": {}, "as_node": "nowhere"}), "nowhere"),
    ] {
        let (status, body) = server.post(&path, &invalid).await;
        assert_eq!(status, 400, "{invalid} {body}");
        assert!(body["detail"].as_str().unwrap().contains(field), "{body}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_update_of_a_busy_thread_is_made_after_its_run() {
    let gate = Some(Gate { name: "g".into(), at: GatePosition::End });
    let reply = ScriptedReply { always: true, text: vec!["Done.".into()], gate, ..ScriptedReply::default() };
    let server =
        ServerFixture::with_script(Script { replies: vec![reply], ..Script::default() }, |settings| settings)
            .await;
    let thread = server.create_thread(TestCaller::Local).await;
    let body = json!({"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "work"}]}});
    server.post(&format!("/threads/{thread}/runs"), &body).await;
    server.model.wait_for_calls(1).await;
    let path = format!("/threads/{thread}/state");
    let change = json!({"values": {"files": {"a.txt": "b"}}});
    let change = server.request(TestCaller::Local, Method::POST, &path).json(&change).send();
    let (changed, ()) = tokio::join!(change, async { server.model.open_gate("g") });
    assert_eq!(changed.unwrap().status(), 200);
    let (_, state) = server.get(&path).await;
    assert_eq!(state["values"]["files"], json!({"a.txt": "b"}));
    assert_eq!(state["values"]["messages"].as_array().unwrap().len(), 2);
    server.stop().await;
}
