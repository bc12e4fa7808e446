//! What was stopped or withdrawn: how its thread stands then, and what those are answered who waited for it.

use reqwest::Method;
use serde_json::{Value, json};
use test_model::{Gate, Place, Reply, Script};

use crate::world::{As, World};

fn said(text: &str) -> Value {
    json!({"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": text}]}})
}

/// A model that asks for leave to execute something.
async fn asking() -> World {
    let asks = Reply::call("c1", "execute", json!({"command": "touch x"}));
    World::playing(Script::new([asks]), |settings| settings).await
}

/// A model that answers three times, and then begins to and never ends.
async fn stalling() -> World {
    let held = Reply { gate: Some(Gate { name: "never".into(), at: Place::Start }), ..Reply::text("late") };
    World::playing(
        Script::new([Reply::text("One."), Reply::text("Two."), Reply::text("Three."), held]),
        |settings| settings,
    )
    .await
}

/// A thread with three turns.
async fn talked(world: &World) -> String {
    let thread = world.talk(As::Local, &"Hello there. ".repeat(400)).await;
    for _ in 0..2 {
        world.say(As::Local, (&thread, &"And on it goes. ".repeat(400))).await;
    }
    thread
}

async fn assert_stopped(world: &World, thread: &str) {
    let shown = world.get(&format!("/api/threads/{thread}")).await.1;
    assert_eq!((&shown["state"], &shown["interrupts"]), (&json!("stopped"), &json!([])), "{shown}");
    let waiting = world.get("/api/threads?state=needs_you").await.1;
    assert_eq!(waiting["total"], 0, "{waiting}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_the_state_that_withdraws_the_question_leaves_nobody_to_answer() {
    for change in [json!({"values": {"todos": []}}), json!({"values": {"todos": []}, "as_node": "model"})] {
        let world = asking().await;
        let thread = world.thread(As::Local).await;
        world.post(&format!("/threads/{thread}/runs/wait"), &said("do it")).await;
        assert_eq!(world.get(&format!("/api/threads/{thread}")).await.1["state"], "needs_you");
        for _ in 0..2 {
            let (status, changed) = world.post(&format!("/threads/{thread}/state"), &change).await;
            assert_eq!(status, 200, "{changed}");
            assert_stopped(&world, &thread).await;
        }
        world.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_run_that_is_deleted_leaves_a_stopped_thread() {
    let world = stalling().await;
    let thread = talked(&world).await;
    let run = world.post(&format!("/threads/{thread}/runs"), &said("look around")).await.1;
    let run = format!("/threads/{thread}/runs/{}", run["run_id"].as_str().unwrap());
    world.model.called(4).await;
    assert_eq!(world.post(&format!("{run}/cancel?wait=1"), &json!({})).await.0, 200);
    assert_stopped(&world, &thread).await;
    assert_eq!(world.send(As::Local, (Method::DELETE, &run), &Value::Null).await.0, 204);
    assert_stopped(&world, &thread).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_for_a_draft_that_is_stopped_is_answered_that_it_was() {
    for (path, wanted) in [("handoffs", json!({})), ("compact", json!({"keep": {"messages": 1}}))] {
        let world = stalling().await;
        let thread = talked(&world).await;
        let posted = format!("/api/threads/{thread}/{path}");
        let stopping = async {
            world.model.called(4).await;
            let runs = world.get(&format!("/threads/{thread}/runs?limit=1")).await.1;
            let run = format!("/threads/{thread}/runs/{}", runs[0]["run_id"].as_str().unwrap());
            let cancelled = world.post(&format!("{run}/cancel?wait=1"), &json!({})).await;
            assert!(cancelled.0.is_success(), "{cancelled:?}");
            world.send(As::Local, (Method::DELETE, &run), &Value::Null).await;
        };
        let ((status, answer), ()) = tokio::join!(world.post(&posted, &wanted), stopping);
        assert_eq!((status.as_u16(), &answer["code"]), (409, &json!("stopped")), "{path}: {answer}");
        assert!(answer["hint"].is_string(), "{path}: {answer}");
        let waiting = world.get("/api/threads?state=needs_you").await.1;
        assert_eq!(waiting["total"], 0, "{path}: {waiting}");
        world.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_asks_after_a_declined_handoff_is_interrupted_and_says_what_it_asks() {
    let draft = json!({"title": "One", "tldr": "Short.", "body": [
        {"kind": "objective", "text": "Do it.", "refs": [1]}, {"kind": "progress", "text": "Done.", "refs": [1]}, {"kind": "next_step", "text": "Go on.", "refs": [1]}]});
    let draft = Reply { always: true, ..Reply::text(draft.to_string()) };
    let script = Script::new([
        draft.when_body_contains("You write the handoff summary"),
        Reply::call("h1", "request_handoff", json!({"goal": "the rest"})),
        Reply::call("c1", "execute", json!({"command": "touch x"})),
    ]);
    let world = World::playing(script, |settings| settings).await;
    let thread = world.thread(As::Local).await;
    world.post(&format!("/threads/{thread}/runs/wait"), &said("do it")).await;
    let listed = world.get("/api/handoffs").await.1;
    let path = format!("/api/handoffs/{}/decision", listed["handoffs"][0]["handoff_id"].as_str().unwrap());
    let (status, decided) = world.post(&path, &json!({"decisions": [{"type": "reject"}]})).await;
    assert_eq!(status, 200, "{decided}");
    let shown = world.get(&format!("/api/threads/{thread}")).await.1;
    assert_eq!((&shown["state"], &shown["last_run"]["status"]), (&json!("needs_you"), &json!("interrupted")));
    assert_eq!(decided["run"]["status"], "interrupted", "{decided}");
    assert_eq!(decided["run"]["interrupts"], shown["interrupts"]);
    assert_eq!(decided["run"]["interrupts"].as_array().map(Vec::len), Some(1));
    world.stop().await;
}
