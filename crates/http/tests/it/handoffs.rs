//! Handoffs whose first draft is stopped by whoever stops the run that carries them.

use reqwest::Method;
use serde_json::{Value, json};
use test_model::{Gate, Place, Reply, Script};

use crate::world::{As, World, answer};

/// Words of the drafting prompt, by which its requests are known.
const DRAFT_PROMPT: &str = "You write the handoff summary";

/// Returns a world whose model drafts once the gate is opened, which it never is.
async fn drafting(replies: impl IntoIterator<Item = Reply>) -> World {
    let gate = Some(Gate { name: "never".to_owned(), at: Place::Start });
    let draft = Reply { gate, ..Reply::text("{}") }.when_body_contains(DRAFT_PROMPT).repeated();
    let script = Script { replies: [draft].into_iter().chain(replies).collect(), ..Script::default() };
    World::playing(script, |settings| settings).await
}

/// Stops the thread's run, and returns once it has stopped what the client is answered.
async fn stop(world: &World, thread: &str, action: &str) -> u16 {
    let runs = world.get(&format!("/threads/{thread}/runs?status=running")).await.1;
    let run = runs[0]["run_id"].as_str().unwrap();
    let path = format!("/threads/{thread}/runs/{run}/cancel?wait=true&action={action}");
    world.post(&path, &json!({})).await.0.as_u16()
}

async fn assert_nothing_is_left(world: &World, thread: &str) {
    let listed = world.get(&format!("/api/handoffs?status=all&thread_id={thread}")).await.1;
    assert_eq!(listed["handoffs"], json!([]));
    let row = world.get(&format!("/api/threads/{thread}")).await.1;
    assert_eq!((&row["active_run"], &row["pending_handoff_id"]), (&Value::Null, &Value::Null), "{row}");
}

#[tokio::test(flavor = "multi_thread")]
async fn g5_a_stop_of_the_run_that_drafts_a_handoff_leaves_no_draft_behind() {
    // A draft is not taken back: it is only stopped.
    for (action, status) in [("interrupt", 200), ("rollback", 409)] {
        let world = drafting([Reply::text("Hello to you.").repeated()]).await;
        let thread = world.talk(As::Local, "Hello.").await;
        let path = format!("/api/threads/{thread}/handoffs");
        let asked = world.request(As::Local, Method::POST, &path).json(&json!({})).send();
        let asked = tokio::spawn(async move { answer(asked.await.unwrap()).await });
        world.model.called(2).await;
        assert_eq!(stop(&world, &thread, action).await, status, "{action}");
        let told: Value = asked.await.unwrap().1;
        assert!(told.get("handoff").is_none(), "{action}: {told}");
        assert_nothing_is_left(&world, &thread).await;
        world.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn g5_a_stop_of_a_turn_that_drafts_a_handoff_leaves_no_draft_behind() {
    for action in ["interrupt", "rollback"] {
        let asks = Reply::call("h1", "request_handoff", json!({}));
        let world = drafting([asks, Reply::text("Hello to you.").repeated()]).await;
        let thread = world.thread(As::Local).await;
        let body = json!({"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "Hand it off."}]}});
        let (status, run) = world.post(&format!("/threads/{thread}/runs"), &body).await;
        assert_eq!(status, 200, "{run}");
        world.model.called(2).await;
        assert_eq!(stop(&world, &thread, action).await, 200, "{action}");
        assert_nothing_is_left(&world, &thread).await;
        world.stop().await;
    }
}
