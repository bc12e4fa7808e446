//! Tests of the endpoints for lists of threads.

use journal::{Transaction, Write};
use protocol::{AssistantId, Thread, ThreadId};
use reqwest::Method;
use serde_json::{Value, json};
use test_model::{Gate, GatePosition, Script, ScriptedReply};

use crate::fixture::{ServerFixture, TestCaller};

async fn list_titles(server: &ServerFixture, query: &str) -> (u64, Vec<String>) {
    let (status, page) = server.get(&format!("/api/threads{query}")).await;
    assert_eq!(status, 200, "{query}: {page}");
    let title = |row: &Value| row["title"].as_str().unwrap_or_default().to_owned();
    let titles = page["threads"].as_array().unwrap().iter().map(title).collect();
    (page["total"].as_u64().unwrap(), titles)
}

#[tokio::test(flavor = "multi_thread")]
async fn h4_a_page_of_threads_has_their_titles_and_states() {
    let server = ServerFixture::start_default().await;
    let first = server.create_thread_with_message(TestCaller::Local, "Mend the kettle\nplease").await;
    let second = server.create_thread_with_message(TestCaller::Local, "Paint the fence").await;
    let (status, renamed) = server
        .send(
            TestCaller::Local,
            Method::PATCH,
            &format!("/api/threads/{first}"),
            &json!({"name": " The\tkettle "}),
        )
        .await;
    assert_eq!((status.as_u16(), &renamed["name"]), (200, &json!("The kettle")));
    let (_, fork) = server.post(&format!("/api/threads/{second}/fork"), &json!({"keep_seq": 2})).await;
    assert_eq!((&fork["parent_kind"], &fork["parent_title"]), (&json!("fork"), &json!("Paint the fence")));
    assert_eq!(fork["message_count"], 1);
    // Renaming is not an activity, so the newest fork stays first.
    let all = ["Paint the fence", "Paint the fence", "The kettle"].map(str::to_owned).to_vec();
    assert_eq!(list_titles(&server, "").await, (3, all.clone()));
    assert_eq!(list_titles(&server, "?limit=1&offset=2").await, (3, all[2..].to_vec()));
    assert_eq!(list_titles(&server, "?q=KETTLE&order=created").await, (1, all[2..].to_vec()));
    assert_eq!(list_titles(&server, "?q=100%25").await, (0, vec![]));
    assert_eq!(list_titles(&server, "?state=needs_you").await, (0, vec![]));
    let row = server.get(&format!("/api/threads/{first}")).await.1;
    assert_eq!((&row["state"], &row["tokens"]), (&json!("idle"), &json!(15)));
    assert_eq!(row["first_prompt"], "Mend the kettle\nplease");
    assert_eq!(
        (&row["interrupts"], &row["todos"], &row["active_run"]),
        (&json!([]), &json!([]), &Value::Null)
    );
    assert_eq!(row["last_run"]["status"], "success");
    // Invalid parameters are refused.
    for query in ["?state=busy", "?order=name", "?limit=0", "?limit=201", "?offset=-1"] {
        assert_eq!(server.get(&format!("/api/threads{query}")).await.0, 422, "{query}");
    }
    for name in [json!(""), json!(" \n"), json!("x".repeat(201)), Value::Null, json!(1)] {
        let path = format!("/api/threads/{first}");
        let (status, _) = server.send(TestCaller::Local, Method::PATCH, &path, &json!({"name": name})).await;
        assert_eq!(status, 422, "{name}");
    }
    let beyond_end = server.post(&format!("/api/threads/{first}/fork"), &json!({"keep_seq": 1_000})).await;
    assert_eq!(beyond_end.0, 404, "{beyond_end:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_with_the_beginning_of_an_imported_session_says_so() {
    let server = ServerFixture::start_default().await;
    let mut thread = Thread::blank(ThreadId::generate(), AssistantId::default(), jiff::Timestamp::now());
    let mark = json!({"path": "/s.jsonl", "messages": 3, "messages_total": 9});
    thread.metadata.insert(protocol::IncompleteImport::KEY.to_owned(), mark);
    let path = format!("/api/threads/{}", thread.thread_id);
    let writes = vec![Write::CreateThread(thread)];
    server.agent.store().commit(Transaction { fence: None, writes }).await.unwrap();
    let expected = json!({
        "messages": 3, "messages_total": 9, "whole_thread_id": null,
        "notice": "import incomplete: 3 of 9 messages; run `segue import /s.jsonl` again to complete it",
    });
    assert_eq!(server.get(&path).await.1["incomplete_import"], expected);
    assert_eq!(server.get("/api/threads").await.1["threads"][0]["incomplete_import"], expected);
    let other = server.create_thread_with_message(TestCaller::Local, "Hello.").await;
    assert_eq!(server.get(&format!("/api/threads/{other}")).await.1["incomplete_import"], Value::Null);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h4_the_threads_of_a_large_list_are_counted_up_to_a_limit_beyond_the_page() {
    const THREADS: u64 = 10_100;
    let server = ServerFixture::start_default().await;
    let count = async |query: &str| {
        let page = server.get(&format!("/api/threads?limit=1{query}")).await.1;
        (page["total"].as_u64().unwrap(), page["is_total_exact"].as_bool().unwrap())
    };
    server.create_thread_with_message(TestCaller::Local, "Hello.").await;
    assert_eq!(count("").await, (1, true));
    let new_thread = |_| Thread::blank(ThreadId::generate(), AssistantId::default(), jiff::Timestamp::now());
    let writes = (1..THREADS).map(new_thread).map(Write::CreateThread).collect();
    server.agent.store().commit(Transaction { fence: None, writes }).await.unwrap();
    assert_eq!(count("").await, (10_000, false));
    assert_eq!(count("&offset=9090").await, (THREADS - 10, false));
    assert_eq!(count("&offset=9200").await, (THREADS, true));
    assert_eq!(count("&q=hello").await, (1, true));
    // The search of the Agent Server protocol leaves the total out, but names the next page.
    let search = async |offset: u64| {
        let request = server.request(TestCaller::Local, Method::POST, "/threads/search");
        let body = json!({"limit": 5, "offset": offset, "select": ["thread_id"]});
        let response = request.json(&body).send().await.unwrap();
        let header = |name| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        (header("x-pagination-total"), header("x-pagination-next"))
    };
    assert_eq!(search(0).await, (None, Some("5".to_owned())));
    assert_eq!(search(THREADS - 5).await, (Some(THREADS.to_string()), None));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h4_the_pending_questions_and_the_active_run_of_a_thread_are_shown_without_its_messages() {
    let execute = ScriptedReply::call("c1", "execute", json!({"command": "touch x"}));
    let stalled = ScriptedReply {
        gate: Some(Gate { name: "held".into(), at: GatePosition::Start }),
        ..ScriptedReply::text("late")
    };
    let plan = json!({"todos": [{"content": "look", "status": "pending"}]});
    let script = Script::new([ScriptedReply::call("c0", "write_todos", plan), execute, stalled]);
    let server = ServerFixture::with_script(script, |settings| settings).await;
    let thread = server.create_thread(TestCaller::Local).await;
    let path = format!("/api/threads/{thread}");
    let body =
        json!({"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "do it"}]}});
    server.post(&format!("/threads/{thread}/runs/wait"), &body).await;
    let row = server.get(&path).await.1;
    assert_eq!((&row["state"], &row["status"]), (&json!("needs_you"), &json!("interrupted")));
    assert_eq!(row["interrupts"][0]["value"]["action_requests"][0]["name"], "execute");
    assert_eq!(row["interrupts"], server.get(&format!("/threads/{thread}/state")).await.1["interrupts"]);
    assert_eq!(row["todos"][0]["content"], "look");
    assert_eq!(list_titles(&server, "?state=needs_you").await.0, 1);
    let resume = json!({"assistant_id": "agent", "command": {"resume": {"decisions": [{"type": "reject"}]}}});
    let run = server.post(&format!("/threads/{thread}/runs"), &resume).await.1;
    server.model.wait_for_calls(3).await;
    server.post(&format!("/threads/{thread}/runs"), &body).await;
    let row = server.get(&path).await.1;
    assert_eq!((&row["state"], &row["pending_runs"]), (&json!("running"), &json!(1)));
    assert_eq!((&row["active_run"]["run_id"], &row["last_run"]["run_id"]), (&run["run_id"], &run["run_id"]));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_the_user_stopped_leaves_nothing_pending_in_any_list() {
    let stalled = ScriptedReply {
        gate: Some(Gate { name: "never".into(), at: GatePosition::Start }),
        ..ScriptedReply::text("late")
    };
    let look = ScriptedReply::call("c1", "ls", json!({"path": "."}));
    let server = ServerFixture::with_script(Script::new([look, stalled]), |settings| settings).await;
    let thread = server.create_thread(TestCaller::Local).await;
    let input = json!({"messages": [{"role": "user", "content": "look around"}]});
    let body = json!({"assistant_id": "agent", "input": input});
    let run = server.post(&format!("/threads/{thread}/runs"), &body).await.1;
    server.model.wait_for_calls(2).await;
    let cancel = format!("/threads/{thread}/runs/{}/cancel?wait=1", run["run_id"].as_str().unwrap());
    assert_eq!(server.post(&cancel, &json!({})).await.0, 200);

    let thread_row = server.get(&format!("/api/threads/{thread}")).await.1;
    assert_eq!(
        (&thread_row["state"], &thread_row["interrupts"]),
        (&json!("stopped"), &json!([])),
        "{thread_row}"
    );
    let listed = server.get("/api/threads").await.1;
    assert_eq!(listed["threads"][0]["state"], "stopped");
    assert_eq!(list_titles(&server, "?state=needs_you").await, (0, vec![]));
    assert_eq!(list_titles(&server, "?state=stopped").await, (1, vec!["look around".to_owned()]));
    let lineage = server.get(&format!("/api/threads/{thread}/lineage")).await.1;
    assert_eq!(lineage["threads"][0]["state"], "stopped");
    // In the Agent Server protocol the thread has pending nodes and is interrupted.
    let wire = server.get(&format!("/threads/{thread}")).await.1;
    assert_eq!((&wire["status"], &thread_row["status"]), (&json!("interrupted"), &json!("interrupted")));
    let results = server.post("/threads/search", &json!({"status": "interrupted"})).await.1;
    assert_eq!(results.as_array().map(Vec::len), Some(1), "{results}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s19_2_sub_agents_are_listed_with_the_calls_that_started_them() {
    let task =
        ScriptedReply::call("c1", "task", json!({"description": "count", "prompt": "Count the hens."}));
    let script = Script::new([
        task.when_body_contains("all birds").when_turn_is(1, 1),
        ScriptedReply::text("Three.").when_body_contains("Count the hens.").when_turn_is(1, 1),
        ScriptedReply { always: true, ..ScriptedReply::text("Done.") },
    ]);
    let server = ServerFixture::with_script(script, |settings| settings).await;
    let thread = server.create_thread_with_message(TestCaller::Local, "Count all birds.").await;
    let (_, response) = server.get(&format!("/api/threads/{thread}/subagents")).await;
    assert_eq!(response["is_complete"], true);
    let [subagent] = &**response["subagents"].as_array().unwrap() else { panic!("{response}") };
    assert_eq!(
        (&subagent["call_id"], &subagent["name"], &subagent["state"]),
        (&json!("c1"), &json!("count"), &json!("idle"))
    );
    let subagent_thread = subagent["thread_id"].as_str().unwrap();
    let history = server.get(&format!("/api/threads/{subagent_thread}/history")).await.1;
    assert_eq!(history["entries"][0]["content"][0]["text"], "Count the hens.");
    assert_eq!(list_titles(&server, "").await.0, 1, "sub-agents are in no list");
    server.stop().await;
}
