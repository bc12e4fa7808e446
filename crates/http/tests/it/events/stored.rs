//! The channel `history`: what a page that follows a thread is told is what it finds when it is opened anew.

use serde_json::{Value, json};
use test_model::{Place, Reply};

use super::{follow, playing};
use crate::sse::{Event, Events};
use crate::world::{As, World};

const SAID: usize = 8;

/// A thread whose older part can be condensed, long questions and short answers; and what its model says then.
async fn long_talk(then: Option<Reply>) -> (World, String) {
    let answers = std::iter::repeat_n(Reply::text("Yes."), SAID);
    let world = playing(answers.chain(then).collect()).await;
    let thread = world.thread(As::Local).await;
    for number in 0..SAID {
        world.say(As::Local, (&thread, &format!("{number}: {}", "word ".repeat(400)))).await;
    }
    (world, thread)
}

fn told(event: &Event) -> &Value {
    &event.data["params"]["data"]
}

/// Reads until an event of that type is told to be stored; returns all that came.
async fn until(events: &mut Events, event_type: &str) -> Vec<Event> {
    let mut seen = Vec::new();
    loop {
        let event = events.next().await.expect("the stream stays open");
        let is_last = told(&event)["event_type"] == event_type;
        seen.push(event);
        if is_last {
            return seen;
        }
    }
}

/// Returns the entries that were told, each once.
fn entries(events: &[Event]) -> Vec<Value> {
    let mut entries: Vec<Value> =
        events.iter().map(|event| told(event)["entry"].clone()).filter(Value::is_object).collect();
    entries.dedup_by_key(|entry| entry["seq"].clone());
    entries
}

/// Returns the entries that the history has, without what is told beside them.
async fn history(world: &World, thread: &str) -> Vec<Value> {
    let (_, page) = world.get(&format!("/api/threads/{thread}/history?limit=1000")).await;
    let mut entries = page["entries"].as_array().unwrap().clone();
    for entry in &mut entries {
        entry.as_object_mut().unwrap().remove("feedback");
    }
    entries
}

#[tokio::test(flavor = "multi_thread")]
async fn c5_b3_what_is_told_live_is_what_the_history_has() {
    let call = Reply::call("c1", "ls", json!({"path": "."})).thinking(["I look."]);
    let world = playing(vec![call, Reply::text("Nothing is there.")]).await;
    let thread = world.thread(As::Local).await;
    let mut events = follow(&world, &thread, &json!({"channels": ["history"]})).await;
    world.say(As::Local, (&thread, "What is there?")).await;
    let seen = until(&mut events, "run_ended").await;
    let entries = entries(&seen);
    let types: Vec<&str> = entries.iter().map(|entry| entry["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["human", "ai", "tool", "ai"]);
    let is_timed: Vec<bool> = entries.iter().map(|entry| entry["duration_ms"].is_u64()).collect();
    assert_eq!(is_timed, [false, true, true, true]);
    assert_eq!(entries, history(&world, &thread).await);
    let beside: Vec<&str> = seen
        .iter()
        .filter(|event| told(event)["entry"].is_null())
        .map(|event| told(event)["event_type"].as_str().unwrap())
        .collect();
    assert!(beside.contains(&"run_started") && beside.contains(&"run_ended"), "{beside:?}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c5_a_compaction_is_told_as_it_begins_and_ends_and_what_takes_it_back_too() {
    let (world, thread) = long_talk(Some(Reply { always: true, ..Reply::text("Yes.") })).await;
    let since = json!({"channels": ["history", "custom:compacting"], "since": u64::MAX >> 12});
    let mut events = follow(&world, &thread, &since).await;
    // A place that nobody ever gave counts as lost: the client reads again.
    assert_eq!(told(&events.next().await.unwrap())["event"], "missed");
    let api = format!("/api/threads/{thread}");
    let (_, done) = world.post(&format!("{api}/compact"), &json!({"keep": {"messages": 2}})).await;
    assert_eq!(done["outcome"], "condensed", "{done}");
    let seen = until(&mut events, "middleware:summarize").await;
    let states: Vec<&Value> =
        seen.iter().filter(|event| event.name == "custom").map(|event| &told(event)["payload"]).collect();
    assert_eq!(states.len(), 2, "{states:?}");
    assert_eq!((&states[0]["state"], &states[0]["trigger"]), (&json!("began"), &json!("manual")));
    assert_eq!(states[0]["replaced_count"], done["marker"]["replaced_count"]);
    assert_eq!(states[1], &json!({"state": "condensed", "trigger": "manual"}));
    assert_eq!(told(seen.last().unwrap())["entry"], done["marker"]);
    world.post(&format!("{api}/uncompact"), &json!({})).await;
    let undone = until(&mut events, "compaction_undone").await;
    assert_eq!(told(undone.last().unwrap())["entry"]["marker_seq"], done["marker"]["seq"]);
    assert!(told(undone.last().unwrap())["run_id"].is_null());
    let before = history(&world, &thread).await;
    let keep = before[3]["seq"].clone();
    world.post(&format!("{api}/rewind"), &json!({"keep_seq": keep})).await;
    let rewound = until(&mut events, "thread_rewound").await;
    assert_eq!(told(rewound.last().unwrap())["content"]["keep_seq"], keep);
    // Who comes back with the place before it is told of it again.
    let at = undone.last().unwrap().data["seq"].clone();
    let mut again = follow(&world, &thread, &json!({"channels": ["history"], "since": at})).await;
    let again = until(&mut again, "thread_rewound").await;
    assert_eq!(told(again.last().unwrap())["seq"], told(rewound.last().unwrap())["seq"]);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c5_a_compaction_that_is_stopped_is_told_to_have_ended() {
    let never = Reply::text("{}").gated("never", Place::Start);
    let (world, thread) = long_talk(Some(never)).await;
    let mut events = follow(&world, &thread, &json!({"channels": ["custom:compacting", "lifecycle"]})).await;
    let path = format!("/api/threads/{thread}/compact");
    let body = json!({"keep": {"messages": 2}});
    let asked = world.request(As::Local, reqwest::Method::POST, &path).json(&body).send();
    let asked = tokio::spawn(asked);
    let run_id = loop {
        let event = events.next().await.unwrap();
        if event.name == "custom" {
            let id = event.data["event_id"].as_str().unwrap();
            break id.split(':').next().unwrap().to_owned();
        }
    };
    let path = format!("/threads/{thread}/runs/{run_id}/cancel");
    assert_eq!(world.post(&path, &json!({})).await.0, 202);
    let ended = loop {
        let event = events.next().await.unwrap();
        if event.name == "custom" {
            break told(&event)["payload"].clone();
        }
    };
    assert_eq!(ended, json!({"state": "stopped", "trigger": "manual"}));
    assert!(!asked.await.unwrap().unwrap().status().is_success());
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m8_a_handoff_that_another_client_drafts_is_told() {
    let (world, thread) = long_talk(Some(Reply { always: true, ..Reply::text("Yes.") })).await;
    let mut events = follow(&world, &thread, &json!({"channels": ["history", "input"]})).await;
    let (_, drafted) = world.post(&format!("/api/threads/{thread}/handoffs"), &json!({})).await;
    let handoff_id = &drafted["handoff"]["handoff_id"];
    let seen = until(&mut events, "handoff_proposed").await;
    for event_type in ["handoff_requested", "handoff_proposed"] {
        let event = seen.iter().find(|event| told(event)["event_type"] == event_type).unwrap();
        assert_eq!(&told(event)["content"]["handoff_id"], handoff_id, "{event_type}");
    }
    until(&mut events, "run_interrupted").await;
    let asked = events.next().await.unwrap();
    assert_eq!(asked.name, "input.requested");
    world.stop().await;
}
