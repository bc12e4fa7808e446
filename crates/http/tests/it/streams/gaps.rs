//! Readers that lose frames: they are told so, and of what the journal has; and readers to whom nothing happens.

use std::collections::HashSet;

use reqwest::Method;
use serde_json::{Value, json};
use test_model::{Call, Gate, Place, Reply, Script, Server};
use uuid::Uuid;

use crate::sse::{Event, Events, data, names};
use crate::world::{As, Folder, World, configure};

/// More than a ring keeps.
const PIECES: usize = 9_000;

fn gated(reply: Reply) -> Reply {
    Reply { gate: Some(Gate { name: "end".to_owned(), at: Place::End }), ..reply }
}

fn long() -> Reply {
    Reply { text: vec!["all work and no play. ".to_owned(); PIECES], ..Reply::default() }
}

fn whole() -> String {
    long().text.concat()
}

/// Returns a server whose model has room for very much.
async fn playing(replies: impl IntoIterator<Item = Reply>) -> World {
    let (model, folder) = (Server::start(Script::new(replies)).unwrap(), Folder::new());
    configure(folder.path(), &model);
    let config = folder.path().join("home/config.toml");
    let settings = std::fs::read_to_string(&config).unwrap() + "context_tokens = 100000000\n";
    std::fs::write(&config, settings).unwrap();
    World::on((model, folder), |settings| settings).await
}

fn body(modes: &[&str]) -> Value {
    json!({
        "assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "hi"}]},
        "stream_mode": modes, "stream_resumable": true,
    })
}

async fn stream(world: &World, thread: &str, modes: &[&str]) -> Events {
    let path = format!("/threads/{thread}/runs/stream");
    Events::of(world.request(As::Local, Method::POST, &path).json(&body(modes))).await
}

async fn follow(world: &World, thread: &str, since: Option<u64>) -> Events {
    let path = format!("/threads/{thread}/stream/events");
    let filter = json!({"channels": ["values", "messages", "lifecycle", "input", "tools"], "since": since});
    Events::of(world.request(As::Local, Method::POST, &path).json(&filter)).await
}

fn said(event: &Event) -> &Value {
    &event.data["params"]["data"]
}

fn is_end(event: &Event) -> bool {
    event.name == "lifecycle" && said(event)["event"] != "running"
}

/// Reads a thread's events to the end of a run.
async fn to_the_end(events: &mut Events) -> Vec<Event> {
    let mut seen = Vec::new();
    loop {
        seen.push(events.next().await.expect("the stream stays open"));
        if is_end(&seen[seen.len() - 1]) {
            return seen;
        }
    }
}

/// Waits until so many pieces were told to somebody who reads.
async fn told(events: &mut Events, pieces: usize) {
    for _ in 0..pieces {
        events.until("messages").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn i1_a_slow_reader_is_told_of_one_gap_and_then_what_the_journal_has() {
    let long = Reply { gate: Some(Gate { name: "begin".to_owned(), at: Place::Start }), ..long() };
    let world = playing([long]).await;
    let thread = world.thread(As::Local).await;
    // It asks for each piece with all that was said before: far more than its connection holds.
    let slow = stream(&world, &thread, &["messages", "values"]).await;
    let (run, path) = (slow.run_id(), format!("/threads/{thread}/runs"));
    let rejoin =
        world.request(As::Local, Method::GET, &format!("{path}/{}/stream?stream_mode=messages-tuple", run));
    let mut quick = Events::of(rejoin).await;
    world.model.open("begin");
    quick.until("end").await;
    let slow = slow.rest().await;
    let gap = slow.iter().position(|event| event.name == "gap").expect("it fell behind");
    assert_eq!(slow.iter().filter(|event| event.name == "gap").count(), 1);
    let rest = &slow[gap + 1..];
    assert_eq!(names(rest).last(), Some(&"end"));
    let message = rest.iter().rfind(|event| event.name.starts_with("messages/")).unwrap();
    assert_eq!(message.data[0]["content"], whole(), "{}", message.name);
    let state = *data(rest, "values").last().unwrap();
    assert_eq!(state["messages"][1]["content"], whole());
    assert_eq!(slow[gap].data["run_id"], run.as_str());
    world.stop().await;
}

/// A piece of a large answer, in bytes, and how many there are: the pieces are more than a ring keeps, the whole is what a ring
/// keeps by itself and far more than a connection holds in the buffers of both its ends.
const LARGE: (usize, usize) = (22 * 75, PIECES);

/// An answer that falls out of the ring, and of which no connection holds the whole; then a look at the folder.
fn large(gate: &str) -> Reply {
    let call = Call { id: gate.to_owned(), name: "ls".into(), args: json!({"path": "."}) };
    let gate = Some(Gate { name: gate.to_owned(), at: Place::Start });
    Reply {
        text: vec!["all work and no play. ".repeat(LARGE.0 / 22); LARGE.1],
        calls: vec![call],
        gate,
        ..Reply::default()
    }
}

/// Reads until a tool has said something.
async fn until_looked(events: &mut Events) {
    while events.until("messages").await.last().unwrap().data[0]["type"] != "tool" {}
}

#[tokio::test(flavor = "multi_thread")]
async fn i1_a_reader_that_falls_behind_twice_is_told_twice_and_hears_of_the_end() {
    let world = playing([
        large("one"),
        large("two"),
        gated(Reply::default()).and_call("c3", "ls", json!({"path": "."})),
        Reply::status(400, "{}"),
    ])
    .await;
    let thread = world.thread(As::Local).await;
    let mut slow = stream(&world, &thread, &["messages", "values"]).await;
    let of_run = format!("/threads/{thread}/runs/{}/stream?stream_mode=messages-tuple", slow.run_id());
    let mut quick = Events::of(world.request(As::Local, Method::GET, &of_run)).await;
    let of_thread = format!("/threads/{thread}/stream");
    let mut followed = Events::of(world.request(As::Local, Method::GET, &of_thread)).await;
    world.model.open("one");
    until_looked(&mut quick).await;
    // What they are told of the first gap does not fit into their connections: they read no frame before the second.
    let mut slow_had = slow.until("gap").await;
    let mut followed_had = followed.until("gap").await;
    world.model.open("two");
    until_looked(&mut quick).await;
    world.model.open("end");
    quick.rest().await;
    slow_had.extend(slow.rest().await);
    while followed_had.last().unwrap().data["status"] != "run_done" {
        followed_had.push(followed.next().await.expect("the stream stays open"));
    }
    for had in [&slow_had, &followed_had] {
        assert_eq!(had.iter().filter(|event| event.name == "gap").count(), 2, "{:?}", names(had));
        let state = *data(had, "values").last().unwrap();
        assert_eq!(state["messages"][3]["content"].as_str().unwrap().len(), LARGE.0 * LARGE.1);
        let seqs = had.iter().filter_map(|event| event.id.as_ref()?.split('-').next()?.parse::<u64>().ok());
        assert!(seqs.clone().all(|seq| seq < 1_000), "{:?}", seqs.max());
        assert_eq!(data(had, "error").len(), 1, "{:?}", names(had));
    }
    assert_eq!(slow_had.last().unwrap().name, "end");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i5_a_client_that_waits_stops_no_run_when_it_loses_frames() {
    let reply =
        Reply { gate: Some(Gate { name: "end".to_owned(), at: Place::Start }), ..Reply::text("Long.") };
    let world = playing([reply]).await;
    let thread = world.thread(As::Local).await;
    // One message is more than a stream keeps.
    let asked = json!({
        "assistant_id": "agent", "on_disconnect": "cancel",
        "input": {"messages": [{"role": "user", "content": "word ".repeat((17 << 20) / 5)}]},
    });
    let path = format!("/threads/{thread}/runs/wait");
    let answer = async {
        let answer = world.post(&path, &asked).await.1;
        assert_eq!(answer["messages"][1]["content"], "Long.", "{}", answer["__error__"]);
    };
    let opened = async {
        world.model.called(1).await;
        world.model.open("end");
    };
    tokio::join!(answer, opened);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s19_who_comes_when_the_beginning_is_lost_is_told_the_state_and_then_the_end() {
    let world = playing([gated(long()), Reply::text("more")]).await;
    let thread = world.thread(As::Local).await;
    let mut quick = stream(&world, &thread, &["messages-tuple"]).await;
    told(&mut quick, PIECES).await;
    let mut during = follow(&world, &thread, None).await;
    let first = during.next().await.unwrap();
    assert_eq!(said(&first)["event"], "running");
    let state = during.next().await.unwrap();
    assert_eq!((state.name.as_str(), &said(&state)["messages"][0]["content"]), ("values", &json!("hi")));
    world.model.open("end");
    quick.rest().await;
    let rest = to_the_end(&mut during).await;
    assert_eq!(said(rest.last().unwrap())["event"], "completed");
    // What was said unheard is told whole.
    let finished = rest.iter().filter(|event| said(event)["event"] == "content-block-finish");
    assert_eq!(finished.map(|event| &said(event)["content"]["text"]).collect::<Vec<_>>(), [&json!(whole())]);
    let seen: Vec<&Event> = [&first, &state].into_iter().chain(&rest).collect();
    are_numbered(&seen);
    // Who comes when the run is over is told the same of it, and who has had it all is told nothing of it.
    let after = to_the_end(&mut follow(&world, &thread, None).await).await;
    assert_eq!(said(&after[0])["event"], "running");
    assert_eq!(said(after.last().unwrap())["event"], "completed");
    assert!(after.iter().any(|event| said(event)["event"] == "message-finish"));
    are_numbered(&after.iter().collect::<Vec<_>>());
    let since = after.last().unwrap().data["seq"].as_u64();
    let mut had = follow(&world, &thread, since).await;
    world.say(As::Local, (&thread, "more")).await;
    let next = to_the_end(&mut had).await;
    assert_eq!(said(&next[0])["event"], "running");
    assert!(next.iter().all(|event| said(event)["content"]["text"] != whole().as_str()));
    world.stop().await;
}

/// Checks that numbers go up and that no id comes twice.
fn are_numbered(events: &[&Event]) {
    let numbers: Vec<u64> = events.iter().map(|event| event.data["seq"].as_u64().unwrap()).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    let ids: HashSet<&str> = events.iter().map(|event| event.data["event_id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), events.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn s19_a_question_behind_a_gap_is_asked() {
    let call = Call { id: "c1".into(), name: "execute".into(), args: json!({"command": "touch x"}) };
    let world = playing([Reply { calls: vec![call], ..long() }]).await;
    let thread = world.thread(As::Local).await;
    stream(&world, &thread, &["updates"]).await.rest().await;
    let told = to_the_end(&mut follow(&world, &thread, None).await).await;
    let asked: Vec<_> = told.iter().filter(|event| event.name == "input.requested").collect();
    assert_eq!(asked.len(), 1);
    assert_eq!(said(asked[0])["payload"]["action_requests"][0]["name"], "execute");
    assert_eq!(said(told.last().unwrap())["event"], "interrupted");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_taken_back_or_forgotten_ends_no_stream_of_its_thread() {
    let held = |text: &str| gated(Reply::text(text));
    let world = playing([Reply::text("one"), held("two"), Reply::text("three")]).await;
    let thread = world.thread(As::Local).await;
    let forgotten = stream(&world, &thread, &["values"]).await;
    let path = format!("/threads/{thread}/runs/{}", forgotten.run_id());
    forgotten.rest().await;
    // Its stream is kept when it is forgotten.
    assert_eq!(world.send(As::Local, (Method::DELETE, &path), &json!({})).await.0, 204);
    let of_thread = world.request(As::Local, Method::GET, &format!("/threads/{thread}/stream"));
    let mut of_thread = Events::of(of_thread.header("last-event-id", "-")).await;
    let mut events = follow(&world, &thread, None).await;
    let mut back = stream(&world, &thread, &["messages-tuple"]).await;
    back.until("messages").await;
    assert_eq!(of_thread.until("metadata").await[0].data["run_id"], back.run_id().as_str());
    let path = format!("/threads/{thread}/runs/{}/cancel?action=rollback&wait=1", back.run_id());
    assert_eq!(world.post(&path, &json!({})).await.0, 200);
    assert_eq!(names(&back.rest().await).last(), Some(&"end"));
    to_the_end(&mut events).await;
    let next = stream(&world, &thread, &["values"]).await;
    let run = next.run_id();
    next.rest().await;
    let mut again = follow(&world, &thread, None).await;
    for followed in [&mut events, &mut again] {
        let told = to_the_end(followed).await;
        assert_eq!(said(told.last().unwrap())["event"], "completed");
    }
    while of_thread.next().await.unwrap().data["run_id"] != run.as_str() {}
    world.stop().await;
}

#[tokio::test]
async fn i3_whoever_waits_has_heartbeats_whatever_it_waits_for() {
    let world = playing([Reply {
        gate: Some(Gate { name: "end".to_owned(), at: Place::Start }),
        ..Reply::text("one")
    }])
    .await;
    let thread = world.thread(As::Local).await;
    let mut run = stream(&world, &thread, &["updates"]).await;
    run.until("metadata").await;
    let path = format!("/threads/{thread}/stream");
    let mut of_thread =
        Events::of(world.request(As::Local, Method::GET, &format!("{path}?stream_modes=lifecycle"))).await;
    of_thread.until("metadata").await;
    let mut of_nobody = follow(&world, &Uuid::now_v7().to_string(), None).await;
    let (_, told) = world.get("/metrics").await;
    assert!(told.as_str().unwrap().contains("segue_streams_open 3"), "{told}");
    // From here on time goes by whenever everybody waits.
    tokio::time::pause();
    tokio::join!(run.heartbeats(3), of_thread.heartbeats(3), of_nobody.heartbeats(3));
    tokio::time::resume();
    world.model.open("end");
    run.rest().await;
    world.stop().await;
}
