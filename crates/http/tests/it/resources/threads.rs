//! Tests of the endpoints for threads: create, read, patch, search, delete and copy.

use reqwest::Method;
use serde_json::{Value, json};
use test_model::{Gate, GatePosition, Script, ScriptedReply};

use crate::fixture::{ServerFixture, TestCaller, read_response};

const ID: &str = "018f0000-0000-7000-8000-00000000000a";

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_is_created_once_with_the_clients_id() {
    let server = ServerFixture::start_default().await;
    let (status, thread) = server.post("/threads", &json!({"thread_id": ID, "metadata": {"a": 1}})).await;
    assert_eq!(status, 200, "{thread}");
    assert_eq!((&thread["thread_id"], &thread["status"]), (&json!(ID), &json!("idle")));
    assert_eq!(
        (&thread["values"], &thread["interrupts"], &thread["config"]),
        (&Value::Null, &json!({}), &json!({}))
    );
    assert_eq!(thread["metadata"], json!({"a": 1}));
    let (status, body) = server.post("/threads", &json!({"thread_id": ID})).await;
    assert_eq!((status.as_u16(), &body["code"]), (409, &json!("conflict")));
    let (status, same) = server.post("/threads", &json!({"thread_id": ID, "if_exists": "do_nothing"})).await;
    assert_eq!((status.as_u16(), &same["metadata"]), (200, &json!({"a": 1})));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k4_clients_cannot_set_metadata_that_only_the_server_sets() {
    let server = ServerFixture::start_default().await;
    let forged = json!({"owner": "eve", "temporary": true, "source": "x", "handoff": {"pending": true},
        "last_handoff": {}, "workspace": "/etc", "incomplete_import": {"messages": 1}, "mine": true});
    let (_, thread) = server.post("/threads", &json!({"metadata": forged})).await;
    assert_eq!(thread["metadata"], json!({"mine": true}));
    let path = format!("/threads/{}", thread["thread_id"].as_str().unwrap());
    let (status, thread) =
        server.send(TestCaller::Local, Method::PATCH, &path, &json!({"metadata": forged})).await;
    assert_eq!((status.as_u16(), &thread["metadata"]), (200, &json!({"mine": true})));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k4_a_run_request_with_a_secret_is_refused() {
    let server = ServerFixture::start_default().await;
    let thread = server.create_thread(TestCaller::Local).await;
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
        let (status, refused) = server.post(&path, &body).await;
        assert_eq!((status.as_u16(), &refused["code"]), (422, &json!("invalid")), "{refused}");
        assert!(refused["detail"].as_str().unwrap().contains(&format!("`{field}`")), "{refused}");
        assert!(!refused.to_string().contains(secret));
    }
    assert_eq!(server.get(&path).await.1, json!([]));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_with_invalid_supersteps_is_not_created() {
    let server = ServerFixture::start_default().await;
    let superstep =
        |text: &str| json!({"updates": [{"values": {"messages": [{"role": "user", "content": text}]}}]});
    let wrong = json!({"updates": [{"values": {"messages": [{"role": "nobody"}]}}]});
    let body = json!({"thread_id": ID, "supersteps": [superstep("one"), wrong]});
    let (status, refused) = server.post("/threads", &body).await;
    assert_eq!(status, 400, "{refused}");
    assert_eq!(server.get(&format!("/threads/{ID}")).await.0, 404);
    let body = json!({"thread_id": ID, "supersteps": [superstep("one"), superstep("two")]});
    let (status, created) = server.post("/threads", &body).await;
    assert_eq!(status, 200, "{created}");
    assert_eq!(created["values"]["messages"].as_array().map(Vec::len), Some(2));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_is_merged_and_a_minimal_response_can_be_requested() {
    let server = ServerFixture::start_default().await;
    let thread = server.create_thread(TestCaller::Local).await;
    let path = format!("/threads/{thread}");
    let (_, patched) = server
        .send(TestCaller::Local, Method::PATCH, &path, &json!({"metadata": {"a": 1, "b": {"c": 2}}}))
        .await;
    assert_eq!(patched["metadata"], json!({"a": 1, "b": {"c": 2}}));
    let request = server.request(TestCaller::Local, Method::PATCH, &path).header("prefer", "return=minimal");
    let response = request.json(&json!({"metadata": {"a": 3}})).send().await.unwrap();
    assert_eq!(response.status(), 204);
    assert_eq!(server.get(&path).await.1["metadata"], json!({"a": 3, "b": {"c": 2}}));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_with_messages_shows_its_values_and_its_assistant() {
    let server = ServerFixture::start_default().await;
    let thread = server.create_thread_with_message(TestCaller::Local, "hello").await;
    let (_, thread_row) = server.get(&format!("/threads/{thread}")).await;
    assert_eq!(thread_row["status"], "idle");
    assert_eq!(thread_row["metadata"]["graph_id"], "agent");
    assert_eq!(thread_row["metadata"]["assistant_id"], "fe096781-5601-53d2-b2f6-0d3403f7e9ca");
    assert!(thread_row["metadata"].get("workspace").is_none(), "{thread_row}");
    let messages = thread_row["values"]["messages"].as_array().unwrap();
    let messages_seen: Vec<(&str, &str)> = messages
        .iter()
        .map(|message| (message["type"].as_str().unwrap(), message["content"].as_str().unwrap()))
        .collect();
    assert_eq!(messages_seen, [("human", "hello"), ("ai", "Done.")]);
    assert!(
        messages
            .iter()
            .all(|message| message["id"].is_string() && message["response_metadata"]["seq"].is_u64())
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn threads_are_found_by_metadata_and_by_values() {
    let server = ServerFixture::start_default().await;
    let first = server.create_thread_with_message(TestCaller::Local, "one").await;
    let second = server.create_thread_with_message(TestCaller::Local, "two").await;
    let third = server.create_thread(TestCaller::Local).await;
    let note = json!({"metadata": {"kind": {"a": 1, "b": 2}}});
    server.send(TestCaller::Local, Method::PATCH, &format!("/threads/{third}"), &note).await;
    let find = async |search: Value| {
        let (status, results) = server.post("/threads/search", &search).await;
        assert_eq!(status, 200, "{search} {results}");
        let ids: Vec<String> = results
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["thread_id"].as_str().unwrap().to_owned())
            .collect();
        ids
    };
    let graph = json!({"metadata": {"graph_id": "agent"}, "sort_by": "created_at", "sort_order": "asc"});
    assert_eq!(find(graph).await, [first.clone(), second.clone()]);
    assert_eq!(find(json!({"metadata": {"kind": {"a": 1}}})).await, std::slice::from_ref(&third));
    assert_eq!(find(json!({"ids": [second]})).await, std::slice::from_ref(&second));
    assert_eq!(find(json!({"status": "interrupted"})).await, [""; 0]);
    assert_eq!(
        find(json!({"values": {"messages": [{"content": "one"}]}})).await,
        std::slice::from_ref(&first)
    );
    assert_eq!(find(json!({"limit": 2, "offset": 2})).await.len(), 1);
    assert_eq!(server.post("/threads/count", &json!({"metadata": {"graph_id": "agent"}})).await.1, json!(2));
    assert_eq!(
        server.post("/threads/count", &json!({"values": {"messages": [{"content": "two"}]}})).await.1,
        json!(1)
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_returns_the_total_and_only_the_selected_fields() {
    let server = ServerFixture::start_default().await;
    server.create_thread_with_message(TestCaller::Local, "hello").await;
    server.create_thread(TestCaller::Local).await;
    let request = server.request(TestCaller::Local, Method::POST, "/threads/search");
    let response =
        request.json(&json!({"limit": 1, "select": ["thread_id", "status"]})).send().await.unwrap();
    assert_eq!(response.headers()["x-pagination-total"], "2");
    assert_eq!(response.headers()["x-pagination-next"], "1");
    let (_, rows) = read_response(response).await;
    assert_eq!(rows[0].as_object().unwrap().keys().collect::<Vec<_>>(), ["thread_id", "status"]);
    let extract = json!({"metadata": {"graph_id": "agent"}, "select": ["thread_id"], "extract": {"last": "values.messages[-1].content", "none": "values.x"}});
    let (_, rows) = server.post("/threads/search", &extract).await;
    assert_eq!(rows[0]["extracted"], json!({"last": "Done.", "none": null}));
    assert!(rows[0].get("values").is_none());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h3_no_endpoint_finds_a_deleted_thread() {
    let server = ServerFixture::start_default().await;
    let thread = server.create_thread_with_message(TestCaller::Local, "hello").await;
    let path = format!("/threads/{thread}");
    assert_eq!(server.request(TestCaller::Local, Method::DELETE, &path).send().await.unwrap().status(), 204);
    for path in [path.clone(), format!("{path}/state"), format!("{path}/history")] {
        let (status, body) = server.get(&path).await;
        assert_eq!((status.as_u16(), &body["code"]), (404, &json!("not_found")), "{path}");
    }
    assert_eq!(server.request(TestCaller::Local, Method::DELETE, &path).send().await.unwrap().status(), 404);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_has_the_messages_and_metadata_and_is_independent() {
    let server = ServerFixture::start_default().await;
    let thread = server.create_thread_with_message(TestCaller::Local, "hello").await;
    server
        .send(TestCaller::Local, Method::PATCH, &format!("/threads/{thread}"), &json!({"metadata": {"a": 1}}))
        .await;
    let response = server
        .request(TestCaller::Local, Method::POST, &format!("/threads/{thread}/copy"))
        .send()
        .await
        .unwrap();
    let (status, copy) = read_response(response).await;
    assert_eq!(
        (status.as_u16(), &copy["status"], &copy["metadata"]["a"]),
        (200, &json!("idle"), &json!(1)),
        "{copy}"
    );
    assert_eq!(copy["values"]["messages"].as_array().unwrap().len(), 2);
    let id = copy["thread_id"].as_str().unwrap();
    assert_ne!(id, thread);
    server.send_message(TestCaller::Local, id, "more").await;
    assert_eq!(
        server.get(&format!("/threads/{thread}/state")).await.1["values"]["messages"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    assert_eq!(
        server.get(&format!("/threads/{id}/state")).await.1["values"]["messages"].as_array().unwrap().len(),
        4
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_busy_thread_stops_its_runs_first() {
    let gate = Some(Gate { name: "g".into(), at: GatePosition::End });
    let reply = ScriptedReply { always: true, text: vec!["Never.".into()], gate, ..ScriptedReply::default() };
    let server =
        ServerFixture::with_script(Script { replies: vec![reply], ..Script::default() }, |settings| settings)
            .await;
    let thread = server.create_thread(TestCaller::Local).await;
    let body = json!({"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "work"}]}});
    for _ in 0..3 {
        let (status, run) = server.post(&format!("/threads/{thread}/runs"), &body).await;
        assert_eq!(status, 200, "{run}");
    }
    server.model.wait_for_calls(1).await;
    let path = format!("/threads/{thread}");
    assert_eq!(server.get(&path).await.1["status"], "busy");
    assert_eq!(server.request(TestCaller::Local, Method::DELETE, &path).send().await.unwrap().status(), 204);
    assert_eq!(server.get(&path).await.0, 404);
    assert_eq!(server.model.call_count(), 1);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h4_an_incomplete_search_by_values_has_a_header_and_a_count_by_values_is_refused() {
    let server = ServerFixture::start_default().await;
    let agent = &server.agent;
    for _ in 0..1_001 {
        agent.threads().ensure_thread(None, serde_json::Map::new(), agent::IfExists::Raise).await.unwrap();
    }
    let search = async |path: &str, body: Value| {
        server.request(TestCaller::Local, Method::POST, path).json(&body).send().await.unwrap()
    };
    let values = json!({"values": {"messages": []}, "limit": 1});
    let limited = search("/threads/search", values.clone()).await;
    assert_eq!(limited.headers()["x-search-cut"], "1000");
    assert!(!limited.headers().contains_key("x-pagination-total"));
    assert_eq!(search("/threads/count", values).await.status(), 422);
    let complete = search("/threads/search", json!({"limit": 1})).await;
    assert_eq!(complete.headers()["x-pagination-total"], "1001");
    assert!(!complete.headers().contains_key("x-search-cut"));
    server.stop().await;
}
