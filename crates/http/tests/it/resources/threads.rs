//! Threads over HTTP: made, read, noted on, listed, removed, copied.

use reqwest::Method;
use serde_json::{Value, json};
use test_model::{Gate, Place, Reply, Script};

use crate::world::{As, World, answer};

const ID: &str = "018f0000-0000-7000-8000-00000000000a";

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_is_made_once_under_the_clients_id() {
    let world = World::start().await;
    let (status, thread) = world.post("/threads", &json!({"thread_id": ID, "metadata": {"a": 1}})).await;
    assert_eq!(status, 200, "{thread}");
    assert_eq!((&thread["thread_id"], &thread["status"]), (&json!(ID), &json!("idle")));
    assert_eq!(
        (&thread["values"], &thread["interrupts"], &thread["config"]),
        (&Value::Null, &json!({}), &json!({}))
    );
    assert_eq!(thread["metadata"], json!({"a": 1}));
    let (status, body) = world.post("/threads", &json!({"thread_id": ID})).await;
    assert_eq!((status.as_u16(), &body["code"]), (409, &json!("conflict")));
    let (status, same) = world.post("/threads", &json!({"thread_id": ID, "if_exists": "do_nothing"})).await;
    assert_eq!((status.as_u16(), &same["metadata"]), (200, &json!({"a": 1})));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k4_what_only_the_server_notes_is_not_a_clients_to_set() {
    let world = World::start().await;
    let forged = json!({"owner": "eve", "temporary": true, "source": "x", "handoff": {"pending": true},
        "last_handoff": {}, "workspace": "/etc", "mine": true});
    let (_, thread) = world.post("/threads", &json!({"metadata": forged})).await;
    assert_eq!(thread["metadata"], json!({"mine": true}));
    let path = format!("/threads/{}", thread["thread_id"].as_str().unwrap());
    let (status, thread) = world.send(As::Local, (Method::PATCH, &path), &json!({"metadata": forged})).await;
    assert_eq!((status.as_u16(), &thread["metadata"]), (200, &json!({"mine": true})));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k4_what_a_run_is_asked_with_holds_no_secret() {
    let world = World::start().await;
    let thread = world.thread(As::Local).await;
    let path = format!("/threads/{thread}/runs");
    let secret = "AKIAIOSFODNN7EXAMPLE";
    for (body, field) in [
        (json!({"metadata": {"note": secret}}), "metadata.note"),
        (json!({"config": {"configurable": {"key": [secret]}}}), "config.configurable.key[0]"),
        (json!({"context": {"key": secret}}), "context.key"),
    ] {
        let mut body = body;
        body["assistant_id"] = "agent".into();
        body["input"] = json!({"messages": [{"role": "user", "content": "hi"}]});
        let (status, refused) = world.post(&path, &body).await;
        assert_eq!((status.as_u16(), &refused["code"]), (422, &json!("invalid")), "{refused}");
        assert!(refused["detail"].as_str().unwrap().contains(&format!("`{field}`")), "{refused}");
        assert!(!refused.to_string().contains(secret));
    }
    assert_eq!(world.get(&path).await.1, json!([]));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_that_cannot_be_filled_is_not_made() {
    let world = World::start().await;
    let said =
        |text: &str| json!({"updates": [{"values": {"messages": [{"role": "user", "content": text}]}}]});
    let wrong = json!({"updates": [{"values": {"messages": [{"role": "nobody"}]}}]});
    let body = json!({"thread_id": ID, "supersteps": [said("one"), wrong]});
    let (status, refused) = world.post("/threads", &body).await;
    assert_eq!(status, 400, "{refused}");
    assert_eq!(world.get(&format!("/threads/{ID}")).await.0, 404);
    let body = json!({"thread_id": ID, "supersteps": [said("one"), said("two")]});
    let (status, made) = world.post("/threads", &body).await;
    assert_eq!(status, 200, "{made}");
    assert_eq!(made["values"]["messages"].as_array().map(Vec::len), Some(2));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn notes_are_merged_and_the_answer_can_be_left_out() {
    let world = World::start().await;
    let thread = world.thread(As::Local).await;
    let path = format!("/threads/{thread}");
    let (_, noted) =
        world.send(As::Local, (Method::PATCH, &path), &json!({"metadata": {"a": 1, "b": {"c": 2}}})).await;
    assert_eq!(noted["metadata"], json!({"a": 1, "b": {"c": 2}}));
    let request = world.request(As::Local, Method::PATCH, &path).header("prefer", "return=minimal");
    let answer = request.json(&json!({"metadata": {"a": 3}})).send().await.unwrap();
    assert_eq!(answer.status(), 204);
    assert_eq!(world.get(&path).await.1["metadata"], json!({"a": 3, "b": {"c": 2}}));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_that_was_talked_in_shows_its_values_and_whose_it_is() {
    let world = World::start().await;
    let thread = world.talk(As::Local, "hello").await;
    let (_, shown) = world.get(&format!("/threads/{thread}")).await;
    assert_eq!(shown["status"], "idle");
    assert_eq!(shown["metadata"]["graph_id"], "agent");
    assert_eq!(shown["metadata"]["assistant_id"], "fe096781-5601-53d2-b2f6-0d3403f7e9ca");
    assert!(shown["metadata"].get("workspace").is_none(), "{shown}");
    let messages = shown["values"]["messages"].as_array().unwrap();
    let said: Vec<(&str, &str)> = messages
        .iter()
        .map(|one| (one["type"].as_str().unwrap(), one["content"].as_str().unwrap()))
        .collect();
    assert_eq!(said, [("human", "hello"), ("ai", "Done.")]);
    assert!(messages.iter().all(|one| one["id"].is_string() && one["response_metadata"]["seq"].is_u64()));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn threads_are_found_by_what_is_noted_and_what_was_said() {
    let world = World::start().await;
    let first = world.talk(As::Local, "one").await;
    let second = world.talk(As::Local, "two").await;
    let third = world.thread(As::Local).await;
    let note = json!({"metadata": {"kind": {"a": 1, "b": 2}}});
    world.send(As::Local, (Method::PATCH, &format!("/threads/{third}")), &note).await;
    let found = async |search: Value| {
        let (status, found) = world.post("/threads/search", &search).await;
        assert_eq!(status, 200, "{search} {found}");
        let ids: Vec<String> = found
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["thread_id"].as_str().unwrap().to_owned())
            .collect();
        ids
    };
    let graph = json!({"metadata": {"graph_id": "agent"}, "sort_by": "created_at", "sort_order": "asc"});
    assert_eq!(found(graph).await, [first.clone(), second.clone()]);
    assert_eq!(found(json!({"metadata": {"kind": {"a": 1}}})).await, std::slice::from_ref(&third));
    assert_eq!(found(json!({"ids": [second]})).await, std::slice::from_ref(&second));
    assert_eq!(found(json!({"status": "interrupted"})).await, [""; 0]);
    assert_eq!(
        found(json!({"values": {"messages": [{"content": "one"}]}})).await,
        std::slice::from_ref(&first)
    );
    assert_eq!(found(json!({"limit": 2, "offset": 2})).await.len(), 1);
    assert_eq!(world.post("/threads/count", &json!({"metadata": {"graph_id": "agent"}})).await.1, json!(2));
    assert_eq!(
        world.post("/threads/count", &json!({"values": {"messages": [{"content": "two"}]}})).await.1,
        json!(1)
    );
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_tells_how_many_there_are_and_only_what_was_chosen() {
    let world = World::start().await;
    world.talk(As::Local, "hello").await;
    world.thread(As::Local).await;
    let request = world.request(As::Local, Method::POST, "/threads/search");
    let response =
        request.json(&json!({"limit": 1, "select": ["thread_id", "status"]})).send().await.unwrap();
    assert_eq!(response.headers()["x-pagination-total"], "2");
    assert_eq!(response.headers()["x-pagination-next"], "1");
    let (_, rows) = answer(response).await;
    assert_eq!(rows[0].as_object().unwrap().keys().collect::<Vec<_>>(), ["thread_id", "status"]);
    let extract = json!({"metadata": {"graph_id": "agent"}, "select": ["thread_id"], "extract": {"last": "values.messages[-1].content", "none": "values.x"}});
    let (_, rows) = world.post("/threads/search", &extract).await;
    assert_eq!(rows[0]["extracted"], json!({"last": "Done.", "none": null}));
    assert!(rows[0].get("values").is_none());
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h3_a_removed_thread_is_gone_for_everyone() {
    let world = World::start().await;
    let thread = world.talk(As::Local, "hello").await;
    let path = format!("/threads/{thread}");
    assert_eq!(world.request(As::Local, Method::DELETE, &path).send().await.unwrap().status(), 204);
    for path in [path.clone(), format!("{path}/state"), format!("{path}/history")] {
        let (status, body) = world.get(&path).await;
        assert_eq!((status.as_u16(), &body["code"]), (404, &json!("not_found")), "{path}");
    }
    assert_eq!(world.request(As::Local, Method::DELETE, &path).send().await.unwrap().status(), 404);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_holds_what_was_said_and_noted_and_goes_its_own_way() {
    let world = World::start().await;
    let thread = world.talk(As::Local, "hello").await;
    world
        .send(As::Local, (Method::PATCH, &format!("/threads/{thread}")), &json!({"metadata": {"a": 1}}))
        .await;
    let response =
        world.request(As::Local, Method::POST, &format!("/threads/{thread}/copy")).send().await.unwrap();
    let (status, copy) = answer(response).await;
    assert_eq!(
        (status.as_u16(), &copy["status"], &copy["metadata"]["a"]),
        (200, &json!("idle"), &json!(1)),
        "{copy}"
    );
    assert_eq!(copy["values"]["messages"].as_array().unwrap().len(), 2);
    let id = copy["thread_id"].as_str().unwrap();
    assert_ne!(id, thread);
    world.say(As::Local, (id, "more")).await;
    assert_eq!(
        world.get(&format!("/threads/{thread}/state")).await.1["values"]["messages"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    assert_eq!(
        world.get(&format!("/threads/{id}/state")).await.1["values"]["messages"].as_array().unwrap().len(),
        4
    );
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_thread_that_is_removed_is_stopped_first() {
    let gate = Some(Gate { name: "g".into(), at: Place::End });
    let reply = Reply { always: true, text: vec!["Never.".into()], gate, ..Reply::default() };
    let world =
        World::playing(Script { replies: vec![reply], ..Script::default() }, |settings| settings).await;
    let thread = world.thread(As::Local).await;
    let body = json!({"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "work"}]}});
    for _ in 0..3 {
        let (status, run) = world.post(&format!("/threads/{thread}/runs"), &body).await;
        assert_eq!(status, 200, "{run}");
    }
    world.model.called(1).await;
    let path = format!("/threads/{thread}");
    assert_eq!(world.get(&path).await.1["status"], "busy");
    assert_eq!(world.request(As::Local, Method::DELETE, &path).send().await.unwrap().status(), 204);
    assert_eq!(world.get(&path).await.0, 404);
    assert_eq!(world.model.calls(), 1);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h4_a_search_by_values_that_is_cut_says_so_and_a_count_is_refused() {
    let world = World::start().await;
    let agent = &world.agent;
    for _ in 0..1_001 {
        agent.threads().ensure(None, serde_json::Map::new(), agent::IfExists::Raise).await.unwrap();
    }
    let search = async |path: &str, body: Value| {
        world.request(As::Local, Method::POST, path).json(&body).send().await.unwrap()
    };
    let values = json!({"values": {"messages": []}, "limit": 1});
    let cut = search("/threads/search", values.clone()).await;
    assert_eq!(cut.headers()["x-search-cut"], "1000");
    assert!(!cut.headers().contains_key("x-pagination-total"));
    assert_eq!(search("/threads/count", values).await.status(), 422);
    let whole = search("/threads/search", json!({"limit": 1})).await;
    assert_eq!(whole.headers()["x-pagination-total"], "1001");
    assert!(!whole.headers().contains_key("x-search-cut"));
    world.stop().await;
}
