//! Threads as a list of them needs them.

use reqwest::Method;
use serde_json::{Value, json};
use test_model::{Gate, Place, Reply, Script};

use crate::world::{As, World};

async fn titles(world: &World, query: &str) -> (u64, Vec<String>) {
    let (status, page) = world.get(&format!("/api/threads{query}")).await;
    assert_eq!(status, 200, "{query}: {page}");
    let title = |row: &Value| row["title"].as_str().unwrap_or_default().to_owned();
    let titles = page["threads"].as_array().unwrap().iter().map(title).collect();
    (page["total"].as_u64().unwrap(), titles)
}

#[tokio::test(flavor = "multi_thread")]
async fn h4_a_page_of_threads_says_what_each_is_called_and_how_it_stands() {
    let world = World::start().await;
    let first = world.talk(As::Local, "Mend the kettle\nplease").await;
    let second = world.talk(As::Local, "Paint the fence").await;
    let (status, renamed) = world
        .send(As::Local, (Method::PATCH, &format!("/api/threads/{first}")), &json!({"name": " The\tkettle "}))
        .await;
    assert_eq!((status.as_u16(), &renamed["name"]), (200, &json!("The kettle")));
    let (_, fork) = world.post(&format!("/api/threads/{second}/fork"), &json!({"keep_seq": 2})).await;
    assert_eq!((&fork["parent_kind"], &fork["parent_title"]), (&json!("fork"), &json!("Paint the fence")));
    assert_eq!(fork["message_count"], 1);
    // A name is no activity; the list has the fork first, which was made last.
    let all = ["Paint the fence", "Paint the fence", "The kettle"].map(str::to_owned).to_vec();
    assert_eq!(titles(&world, "").await, (3, all.clone()));
    assert_eq!(titles(&world, "?limit=1&offset=2").await, (3, all[2..].to_vec()));
    assert_eq!(titles(&world, "?q=KETTLE&order=created").await, (1, all[2..].to_vec()));
    assert_eq!(titles(&world, "?q=100%25").await, (0, vec![]));
    assert_eq!(titles(&world, "?state=needs_you").await, (0, vec![]));
    let row = world.get(&format!("/api/threads/{first}")).await.1;
    assert_eq!((&row["state"], &row["tokens"]), (&json!("idle"), &json!(15)));
    assert_eq!(row["first_prompt"], "Mend the kettle\nplease");
    assert_eq!(
        (&row["interrupts"], &row["todos"], &row["active_run"]),
        (&json!([]), &json!([]), &Value::Null)
    );
    assert_eq!(row["last_run"]["status"], "success");
    // What cannot be meant is refused.
    for query in ["?state=busy", "?order=name", "?limit=0", "?limit=201", "?offset=-1"] {
        assert_eq!(world.get(&format!("/api/threads{query}")).await.0, 422, "{query}");
    }
    for name in [json!(""), json!(" \n"), json!("x".repeat(201)), Value::Null, json!(1)] {
        let path = format!("/api/threads/{first}");
        let (status, _) = world.send(As::Local, (Method::PATCH, &path), &json!({"name": name})).await;
        assert_eq!(status, 422, "{name}");
    }
    let far = world.post(&format!("/api/threads/{first}/fork"), &json!({"keep_seq": 1_000})).await;
    assert_eq!(far.0, 404, "{far:?}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h4_what_waits_and_what_works_is_told_of_a_thread_without_its_messages() {
    let execute = Reply::call("c1", "execute", json!({"command": "touch x"}));
    let held = Reply { gate: Some(Gate { name: "held".into(), at: Place::Start }), ..Reply::text("late") };
    let plan = json!({"todos": [{"content": "look", "status": "pending"}]});
    let script = Script::new([Reply::call("c0", "write_todos", plan), execute, held]);
    let world = World::playing(script, |settings| settings).await;
    let thread = world.thread(As::Local).await;
    let path = format!("/api/threads/{thread}");
    let asked =
        json!({"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "do it"}]}});
    world.post(&format!("/threads/{thread}/runs/wait"), &asked).await;
    let row = world.get(&path).await.1;
    assert_eq!((&row["state"], &row["status"]), (&json!("needs_you"), &json!("interrupted")));
    assert_eq!(row["interrupts"][0]["value"]["action_requests"][0]["name"], "execute");
    assert_eq!(row["interrupts"], world.get(&format!("/threads/{thread}/state")).await.1["interrupts"]);
    assert_eq!(row["todos"][0]["content"], "look");
    assert_eq!(titles(&world, "?state=needs_you").await.0, 1);
    let resume = json!({"assistant_id": "agent", "command": {"resume": {"decisions": [{"type": "reject"}]}}});
    let run = world.post(&format!("/threads/{thread}/runs"), &resume).await.1;
    world.model.called(3).await;
    world.post(&format!("/threads/{thread}/runs"), &asked).await;
    let row = world.get(&path).await.1;
    assert_eq!((&row["state"], &row["pending_runs"]), (&json!("running"), &json!(1)));
    assert_eq!((&row["active_run"]["run_id"], &row["last_run"]["run_id"]), (&run["run_id"], &run["run_id"]));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_a_person_stopped_leaves_nothing_pending_in_any_list() {
    let held = Reply { gate: Some(Gate { name: "never".into(), at: Place::Start }), ..Reply::text("late") };
    let look = Reply::call("c1", "ls", json!({"path": "."}));
    let world = World::playing(Script::new([look, held]), |settings| settings).await;
    let thread = world.thread(As::Local).await;
    let input = json!({"messages": [{"role": "user", "content": "look around"}]});
    let asked = json!({"assistant_id": "agent", "input": input});
    let run = world.post(&format!("/threads/{thread}/runs"), &asked).await.1;
    world.model.called(2).await;
    let cancel = format!("/threads/{thread}/runs/{}/cancel?wait=1", run["run_id"].as_str().unwrap());
    assert_eq!(world.post(&cancel, &json!({})).await.0, 200);

    let shown = world.get(&format!("/api/threads/{thread}")).await.1;
    assert_eq!((&shown["state"], &shown["interrupts"]), (&json!("stopped"), &json!([])), "{shown}");
    let listed = world.get("/api/threads").await.1;
    assert_eq!(listed["threads"][0]["state"], "stopped");
    assert_eq!(titles(&world, "?state=needs_you").await, (0, vec![]));
    assert_eq!(titles(&world, "?state=stopped").await, (1, vec!["look around".to_owned()]));
    let lineage = world.get(&format!("/api/threads/{thread}/lineage")).await.1;
    assert_eq!(lineage["threads"][0]["state"], "stopped");
    // The Agent Server protocol has pending nodes here, and calls that interrupted.
    let wire = world.get(&format!("/threads/{thread}")).await.1;
    assert_eq!((&wire["status"], &shown["status"]), (&json!("interrupted"), &json!("interrupted")));
    let found = world.post("/threads/search", &json!({"status": "interrupted"})).await.1;
    assert_eq!(found.as_array().map(Vec::len), Some(1), "{found}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s19_2_sub_agents_are_found_by_the_calls_that_began_them() {
    let task = Reply::call("c1", "task", json!({"description": "count", "prompt": "Count the hens."}));
    let script = Script::new([
        task.when_body_contains("all birds").when_turn_is(1, 1),
        Reply::text("Three.").when_body_contains("Count the hens.").when_turn_is(1, 1),
        Reply { always: true, ..Reply::text("Done.") },
    ]);
    let world = World::playing(script, |settings| settings).await;
    let thread = world.talk(As::Local, "Count all birds.").await;
    let (_, found) = world.get(&format!("/api/threads/{thread}/subagents")).await;
    assert_eq!(found["is_complete"], true);
    let [only] = &**found["subagents"].as_array().unwrap() else { panic!("{found}") };
    assert_eq!(
        (&only["call_id"], &only["name"], &only["state"]),
        (&json!("c1"), &json!("count"), &json!("idle"))
    );
    let own = only["thread_id"].as_str().unwrap();
    let history = world.get(&format!("/api/threads/{own}/history")).await.1;
    assert_eq!(history["entries"][0]["content"][0]["text"], "Count the hens.");
    assert_eq!(titles(&world, "").await.0, 1, "sub-agents are in no list");
    world.stop().await;
}
