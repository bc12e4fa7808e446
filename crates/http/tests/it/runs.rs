//! Runs over HTTP: streamed, waited for, looked at, stopped.

mod content;
mod subagents;

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use test_model::{Call, Fault, Gate, Place, Reply, Script, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::sse::{Event, Events, data, names};
use crate::world::{As, Folder, World};

const UNKNOWN: &str = "018f0000-0000-7000-8000-0000000000ff";

fn said(text: &str) -> Reply {
    Reply { text: text.split_inclusive(' ').map(str::to_owned).collect(), ..Reply::default() }
}

fn at_gate(reply: Reply, name: &str, at: Place) -> Reply {
    Reply { gate: Some(Gate { name: name.to_owned(), at }), ..reply }
}

fn script(replies: impl IntoIterator<Item = Reply>) -> Script {
    Script { replies: replies.into_iter().collect(), ..Script::default() }
}

async fn playing(replies: impl IntoIterator<Item = Reply>) -> World {
    World::playing(script(replies), |settings| settings).await
}

fn body(text: &str, more: &Value) -> Value {
    let mut body = json!({
        "assistant_id": "agent", "input": {"messages": [{"role": "user", "content": text}]},
    });
    let more = more.as_object().unwrap().clone();
    body.as_object_mut().unwrap().extend(more);
    body
}

async fn stream(world: &World, thread: &str, body: &Value) -> Events {
    let path = format!("/threads/{thread}/runs/stream");
    Events::of(world.request(As::Local, Method::POST, &path).json(body)).await
}

async fn rejoin(world: &World, (thread, run): (&str, &str), last: Option<&str>) -> Events {
    let request = world.request(As::Local, Method::GET, &format!("/threads/{thread}/runs/{run}/stream"));
    Events::of(match last {
        Some(last) => request.header("last-event-id", last),
        None => request,
    })
    .await
}

fn texts(values: &Value) -> Vec<String> {
    let messages = values["messages"].as_array().unwrap();
    messages.iter().map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn s8_a_stream_tells_what_was_asked_for_and_nothing_else() {
    let world = playing([said("Hello there.")]).await;
    let thread = world.thread(As::Local).await;
    let events = stream(&world, &thread, &body("hi", &json!({}))).await;
    let run = events.run_id();
    let place = format!("/threads/{thread}/runs/{run}");
    assert_eq!(events.header("content-location"), place);
    assert_eq!(events.header("location"), format!("{place}/stream"));
    let events = events.rest().await;
    assert_eq!(names(&events), ["metadata", "values", "values", "end"]);
    assert_eq!(events[0].data, json!({"run_id": run, "attempt": 1}));
    assert_eq!(texts(&events[1].data), ["hi"]);
    assert_eq!(texts(&events[2].data), ["hi", "Hello there."]);
    assert!(events.iter().all(|event| event.id.is_none()), "only a resumable stream has ids");
    // Before the end was told, the rows were final.
    let (_, row) = world.get(&place).await;
    assert_eq!(row["status"], "success");
    assert_eq!(world.get(&format!("/threads/{thread}")).await.1["status"], "idle");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s9_a_step_is_told_as_chunks_then_updates_then_values_and_the_chunks_are_the_message() {
    let world =
        playing([Reply { thinking: vec!["hm ".into(), "ok".into()], ..said("Hello 🦀 there.") }]).await;
    let thread = world.thread(As::Local).await;
    let modes = json!({"stream_mode": ["values", "updates", "messages-tuple", "tools"]});
    let events = stream(&world, &thread, &body("hi", &modes)).await.rest().await;
    let told = names(&events);
    let last_chunk = told.iter().rposition(|name| *name == "messages").unwrap();
    let update = told.iter().position(|name| *name == "updates").unwrap();
    let values = told.iter().rposition(|name| *name == "values").unwrap();
    assert!(last_chunk < update && update < values, "{told:?}");
    let chunks = data(&events, "messages");
    let whole: String = chunks.iter().map(|chunk| chunk[0]["content"].as_str().unwrap()).collect();
    assert_eq!(whole, "Hello 🦀 there.");
    let state = &events[values].data;
    let answer = &state["messages"][1];
    assert_eq!(answer["content"], "Hello 🦀 there.");
    assert_eq!(answer["additional_kwargs"]["reasoning_content"], "hm ok");
    let thought =
        |chunk: &&&Value| chunk[0]["additional_kwargs"]["reasoning_content"].as_str().map(str::to_owned);
    assert_eq!(chunks.iter().filter_map(|chunk| thought(&chunk)).collect::<String>(), "hm ok");
    for chunk in &chunks {
        assert_eq!(chunk[0]["id"], answer["id"], "s22_10");
        assert_eq!(chunk[0]["type"], "AIMessageChunk");
        assert_eq!(chunk[1]["langgraph_node"], "model");
        assert!(chunk[1]["langgraph_checkpoint_ns"].as_str().unwrap().starts_with("model:"));
    }
    let counted = chunks.iter().filter(|chunk| !chunk[0]["usage_metadata"].is_null()).count();
    assert_eq!(counted, 1, "usage is told once");
    assert_eq!(chunks.last().unwrap()[0]["chunk_position"], "last");
    assert_eq!(data(&events, "updates"), [&json!({"model": {"messages": [answer]}})]);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s22_5_updates_and_values_are_not_told_to_who_did_not_ask() {
    for (mode, told) in [("messages-tuple", "messages"), ("updates", "updates"), ("custom", "end")] {
        let world = playing([said("Hello.")]).await;
        let thread = world.thread(As::Local).await;
        let events = stream(&world, &thread, &body("hi", &json!({"stream_mode": mode}))).await.rest().await;
        let others: Vec<&str> =
            names(&events).into_iter().filter(|name| !["metadata", "end", told].contains(name)).collect();
        assert!(others.is_empty(), "{mode}: {others:?}");
        world.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_fails_says_so_in_the_stream_and_in_the_result_and_never_by_a_status() {
    let fault = Fault::Status { status: 400, headers: Default::default(), body: String::new() };
    let world = playing([Reply { fault: Some(fault), always: true, ..Reply::default() }]).await;
    let thread = world.thread(As::Local).await;
    let events = stream(&world, &thread, &body("hi", &json!({}))).await.rest().await;
    assert_eq!(names(&events), ["metadata", "values", "error", "end"]);
    let error = &events[2].data;
    assert!(
        !error["error"].as_str().unwrap().is_empty() && !error["message"].as_str().unwrap().is_empty(),
        "{error}"
    );
    let path = format!("/threads/{thread}/runs/wait");
    let (status, result) = world.post(&path, &body("again", &json!({}))).await;
    assert_eq!(status, 200);
    assert_eq!(result["__error__"]["error"], error["error"], "{result}");
    assert_eq!(world.get(&format!("/threads/{thread}")).await.1["status"], "error");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s12_1_a_question_is_told_with_the_whole_state_and_again_when_it_is_asked_for() {
    let call = Call { id: "c1".into(), name: "execute".into(), args: json!({"command": "touch x"}) };
    let world = playing([Reply { calls: vec![call], ..said("I do it.") }, said("Done.")]).await;
    let thread = world.thread(As::Local).await;
    let modes = json!({"stream_mode": ["values", "updates", "messages-tuple"]});
    let events = stream(&world, &thread, &body("do it", &modes)).await.rest().await;
    let asked =
        data(&events, "updates").into_iter().find(|update| update.get("__interrupt__").is_some()).unwrap();
    let interrupts = asked["__interrupt__"].as_array().unwrap();
    assert_eq!(interrupts.len(), 1);
    let id = interrupts[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(interrupts[0].as_object().unwrap().len(), 2, "an interrupt is id and value: {asked}");
    assert_eq!(id.len(), 32);
    let last = *data(&events, "values").last().unwrap();
    assert_eq!(last["__interrupt__"], asked["__interrupt__"]);
    assert_eq!(texts(last), ["do it", "I do it."], "s22_11");
    let (_, shown) = world.get(&format!("/threads/{thread}")).await;
    assert_eq!(shown["status"], "interrupted");
    // The run itself succeeded, and whoever joins it later sees the same.
    let (_, runs) = world.get(&format!("/threads/{thread}/runs")).await;
    let run = runs[0]["run_id"].as_str().unwrap().to_owned();
    assert_eq!(runs[0]["status"], "success");
    let (_, joined) = world.get(&format!("/threads/{thread}/runs/{run}/join")).await;
    assert_eq!(joined["__interrupt__"][0]["id"], id.as_str(), "{joined}");
    let answer = json!({"assistant_id": "agent", "command": {"resume": {"decisions": [{"type": "reject", "message": "no"}]}}});
    let (_, after) = world.post(&format!("/threads/{thread}/runs/wait"), &answer).await;
    assert!(after.get("__interrupt__").is_none(), "{after}");
    assert_eq!(texts(&after).last().unwrap(), "Done.");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i1_a_resumable_run_is_told_again_byte_for_byte_from_any_place() {
    let world = playing([said("one two three four")]).await;
    let thread = world.thread(As::Local).await;
    let more = json!({"stream_mode": ["values", "messages-tuple", "updates", "tasks", "checkpoints", "debug", "messages"],
        "stream_resumable": true});
    let events = stream(&world, &thread, &body("hi", &more)).await;
    let run = events.run_id();
    let first = events.rest().await;
    let text = |events: &[Event]| events.iter().map(|event| event.text.as_str()).collect::<String>();
    let ids: Vec<&str> = first.iter().filter_map(|event| event.id.as_deref()).collect();
    assert_eq!(ids.len(), first.len() - 1, "all but the end have ids");
    let again = rejoin(&world, (&thread, &run), Some("-1")).await.rest().await;
    assert_eq!(text(&again), text(&first));
    for (at, id) in ids.iter().enumerate() {
        let rest = rejoin(&world, (&thread, &run), Some(id)).await.rest().await;
        assert_eq!(text(&rest), text(&first[at + 1..]), "after {id}");
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i1_the_rejoin_matrix() {
    let replies = [at_gate(said("one two"), "a", Place::End), at_gate(said("three four"), "b", Place::End)];
    let world = playing(replies).await;
    let thread = world.thread(As::Local).await;
    // Resumable and working: with a cursor what follows it, without one what happens from now on.
    let more = json!({"stream_mode": ["messages-tuple", "values"], "stream_resumable": true});
    let mut events = stream(&world, &thread, &body("hi", &more)).await;
    let run = events.run_id();
    let seen = events.until("messages").await;
    let last = seen.last().unwrap().id.clone().unwrap();
    let mut all = rejoin(&world, (&thread, &run), Some("-1")).await;
    let mut behind = rejoin(&world, (&thread, &run), Some(&last)).await;
    assert_eq!(all.next().await.unwrap().name, "metadata");
    assert_eq!(behind.next().await.unwrap().data[0]["content"], "two");
    let now = rejoin(&world, (&thread, &run), None).await;
    let foreign = rejoin(&world, (&thread, &run), Some("1763784000000-0")).await;
    world.model.open("a");
    let now = now.rest().await;
    assert_eq!(names(&now), ["metadata", "messages", "values", "end"], "{now:?}");
    assert_eq!(now[1].data[0]["content"], "");
    let foreign = foreign.rest().await;
    assert_eq!(names(&foreign)[..2], ["metadata", "gap"]);
    assert_eq!(foreign[1].data["code"], "stream_replay_gap");
    assert_eq!(texts(data(&foreign, "values").last().unwrap()), ["hi", "one two"]);
    // Not resumable: whatever the cursor, what happens from now on; and afterwards nothing is kept.
    let mut events = stream(&world, &thread, &body("more", &json!({"stream_mode": "messages-tuple"}))).await;
    let run = events.run_id();
    events.until("messages").await;
    let live = rejoin(&world, (&thread, &run), Some("-1")).await;
    world.model.open("b");
    assert_eq!(names(&live.rest().await).last(), Some(&"end"));
    events.rest().await;
    for cursor in [None, Some("-1"), Some("7-0-3"), Some("1763784000000-0")] {
        let over = rejoin(&world, (&thread, &run), cursor).await.rest().await;
        assert_eq!(names(&over), ["end"], "s22_1 {cursor:?}");
    }
    let path = format!("/threads/{thread}/runs/{run}/stream");
    let bad =
        world.request(As::Local, Method::GET, &path).header("last-event-id", "x-y").send().await.unwrap();
    assert_eq!(bad.status(), 422);
    assert_eq!(world.get(&format!("/threads/{thread}/runs/{UNKNOWN}/stream")).await.0, 404);
    assert_eq!(world.get(&format!("/threads/{UNKNOWN}/runs/{run}/stream")).await.0, 404);
    assert_eq!(world.get(&format!("/threads/{thread}/runs/x/stream")).await.0, 422);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s10_3_a_run_that_is_stopped_ends_its_stream_without_an_error() {
    let world = playing([at_gate(said("one two"), "never", Place::End)]).await;
    let thread = world.thread(As::Local).await;
    let mut events = stream(&world, &thread, &body("hi", &json!({"stream_mode": ["messages-tuple"]}))).await;
    let run = events.run_id();
    events.until("messages").await;
    let cancel = format!("/threads/{thread}/runs/{run}/cancel");
    let (status, _) = world.post(&format!("{cancel}?wait=true&action=interrupt"), &json!({})).await;
    assert_eq!(status, 200);
    // It has really stopped.
    let (_, row) = world.get(&format!("/threads/{thread}/runs/{run}")).await;
    assert_eq!(row["status"], "interrupted", "s22_2");
    let rest = events.rest().await;
    assert!(!names(&rest).contains(&"error"), "{rest:?}");
    assert_eq!(names(&rest).last(), Some(&"end"));
    let (status, told) = world.post(&cancel, &json!({})).await;
    assert_eq!(status, 409, "{told}");
    assert!(told["detail"].as_str().unwrap().contains("not cancellable"), "{told}");
    assert_eq!(world.post(&format!("/threads/{thread}/runs/{UNKNOWN}/cancel"), &json!({})).await.0, 404);
    assert_eq!(world.post(&format!("{cancel}?action=explode"), &json!({})).await.0, 422);
    assert_eq!(world.post(&format!("{cancel}?wait=perhaps"), &json!({})).await.0, 422);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i5_a_client_that_goes_away_stops_its_run_only_if_it_said_so() {
    for (on_disconnect, status) in [("cancel", "interrupted"), ("continue", "success")] {
        let world = playing([at_gate(said("one two"), "gate", Place::End)]).await;
        let thread = world.thread(As::Local).await;
        let more = json!({"stream_mode": ["messages-tuple"], "on_disconnect": on_disconnect});
        let mut events = stream(&world, &thread, &body("hi", &more)).await;
        let run = events.run_id();
        events.until("messages").await;
        drop(events);
        let join = format!("/threads/{thread}/runs/{run}/join");
        if on_disconnect == "continue" {
            world.model.open("gate");
        }
        let (_, joined) = world.get(&join).await;
        assert_eq!(joined.get("__error__").is_some(), on_disconnect == "cancel", "{joined}");
        let (_, row) = world.get(&format!("/threads/{thread}/runs/{run}")).await;
        assert_eq!(row["status"], status, "{on_disconnect}");
        world.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s8_a_run_that_waits_has_its_head_sent_at_once_and_its_events_when_it_starts() {
    let world = playing([at_gate(said("one"), "first", Place::Start), said("two")]).await;
    let thread = world.thread(As::Local).await;
    let first = stream(&world, &thread, &body("a", &json!({}))).await;
    let second = stream(&world, &thread, &body("b", &json!({}))).await;
    let waits = world.get(&format!("/threads/{thread}/runs/{}", second.run_id())).await.1;
    assert_eq!(waits["status"], "pending");
    let reject = body("c", &json!({"multitask_strategy": "reject"}));
    for path in ["runs", "runs/stream", "runs/wait"] {
        let (status, told) = world.post(&format!("/threads/{thread}/{path}"), &reject).await;
        assert_eq!(status, 409, "{path}");
        assert!(told["detail"].as_str().unwrap().starts_with("Thread is already running a task."), "{told}");
    }
    // One that waits is stopped without ever having begun.
    let third = stream(&world, &thread, &body("d", &json!({}))).await;
    let run = third.run_id();
    assert_eq!(world.post(&format!("/threads/{thread}/runs/{run}/cancel?wait=1"), &json!({})).await.0, 200);
    assert_eq!(names(&third.rest().await), ["end"]);
    world.model.open("first");
    assert_eq!(texts(&first.rest().await[2].data), ["a", "one"]);
    let second = second.rest().await;
    assert_eq!(names(&second), ["metadata", "values", "values", "end"]);
    assert_eq!(texts(&second[2].data), ["a", "one", "b", "two"]);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s7_background_runs_are_joined_listed_and_forgotten() {
    let world = playing([at_gate(said("one"), "a", Place::Start), said("two")]).await;
    let thread = world.thread(As::Local).await;
    let runs = format!("/threads/{thread}/runs");
    let request =
        world.request(As::Local, Method::POST, &runs).json(&body("hi", &json!({"metadata": {"k": "v"}})));
    let response = request.send().await.unwrap();
    let place = response.headers()["content-location"].to_str().unwrap().to_owned();
    let run: Value = response.json().await.unwrap();
    assert_eq!((&run["status"], &run["metadata"]["k"]), (&json!("pending"), &json!("v")));
    assert_eq!(place, format!("{runs}/{}", run["run_id"].as_str().unwrap()));
    world.model.open("a");
    let (status, values) = world.get(&format!("{place}/join")).await;
    assert_eq!((status.as_u16(), texts(&values)), (200, vec!["hi".to_owned(), "one".to_owned()]));
    let (_, values) = world.post(&format!("{runs}/wait"), &body("more", &json!({}))).await;
    assert_eq!(texts(&values).last().unwrap(), "two");
    let (_, all) = world.get(&runs).await;
    assert_eq!(all.as_array().unwrap().len(), 2);
    assert_eq!(all[1]["run_id"], run["run_id"], "newest first");
    let (_, one) =
        world.get(&format!("{runs}?limit=1&offset=1&status=success&select=run_id&select=status")).await;
    assert_eq!(one, json!([{"run_id": run["run_id"], "status": "success"}]));
    assert_eq!(world.get(&format!("{runs}?status=nope")).await.0, 422);
    assert_eq!(world.get(&format!("{runs}?limit=0")).await.0, 422);
    assert_eq!(world.get(&format!("/threads/{UNKNOWN}/runs")).await.0, 404);
    assert_eq!(world.send(As::Local, (Method::DELETE, &place), &json!({})).await.0, 204);
    assert_eq!(world.get(&place).await.0, 404);
    assert_eq!(world.send(As::Local, (Method::DELETE, &place), &json!({})).await.0, 404);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s7_what_cannot_be_taken_is_refused_before_anything_is_stored() {
    let world = playing([said("one")]).await;
    let thread = world.thread(As::Local).await;
    let path = format!("/threads/{thread}/runs/stream");
    let cases = [
        (json!({"assistant_id": "nobody"}), 422, "Invalid assistant"),
        (json!({"assistant_id": UNKNOWN}), 404, "Thread or assistant not found."),
        (json!({}), 422, "assistant_id"),
        (json!({"assistant_id": "agent", "stream_mode": ["nope"]}), 422, "messages-tuple"),
        (
            json!({"assistant_id": "agent", "context": {"a": 1}, "config": {"configurable": {"b": 1}}}),
            400,
            "context",
        ),
    ];
    for (body, expected, named) in cases {
        let (status, told) = world.post(&path, &body).await;
        assert_eq!(status, expected, "{body}: {told}");
        assert!(told["detail"].as_str().unwrap().contains(named), "{told}");
    }
    let missing = body("hi", &json!({}));
    let (status, told) = world.post(&format!("/threads/{UNKNOWN}/runs/wait"), &missing).await;
    assert_eq!((status.as_u16(), told["detail"].as_str()), (404, Some("Thread or assistant not found.")));
    assert_eq!(world.get(&format!("/threads/{thread}/runs")).await.1, json!([]));
    let made = body("hi", &json!({"if_not_exists": "create"}));
    assert_eq!(world.post(&format!("/threads/{UNKNOWN}/runs/wait"), &made).await.0, 200);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s14_a_run_without_a_thread_has_one_of_its_own_that_goes_with_it() {
    let world = playing([Reply { always: true, ..said("one") }]).await;
    let request = world.request(As::Local, Method::POST, "/runs/wait").json(&body("hi", &json!({})));
    let response = request.send().await.unwrap();
    let place = response.headers()["content-location"].to_str().unwrap().to_owned();
    let values: Value = response.json().await.unwrap();
    assert_eq!(texts(&values), ["hi", "one"]);
    let thread = place.split('/').nth(2).unwrap().to_owned();
    let gone = async {
        while world.get(&format!("/threads/{thread}")).await.0 != 404 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), gone).await.expect("the thread goes with its run");
    let keep = body("hi", &json!({"on_completion": "keep"}));
    let events = Events::of(world.request(As::Local, Method::POST, "/runs/stream").json(&keep)).await;
    let run = events.run_id();
    assert_eq!(events.header("content-location"), format!("/runs/{run}"));
    let thread = events.header("location").split('/').nth(2).unwrap().to_owned();
    assert_eq!(names(&events.rest().await), ["metadata", "values", "values", "end"]);
    assert_eq!(world.get(&format!("/threads/{thread}")).await.0, 200);
    let (status, runs) = world.post("/runs/batch", &json!([keep, keep])).await;
    assert_eq!((status.as_u16(), runs.as_array().unwrap().len()), (200, 2));
    assert_eq!(world.post("/runs/batch", &json!([])).await.0, 422);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s10_4_a_thread_is_followed_over_its_runs() {
    let world = playing([Reply { always: true, ..said("one") }]).await;
    let thread = world.thread(As::Local).await;
    let path = format!("/threads/{thread}/stream");
    let mut followed = Events::of(world.request(As::Local, Method::GET, &path)).await;
    let mut runs = Vec::new();
    for _ in 0..2 {
        let events = stream(&world, &thread, &body("hi", &json!({"stream_resumable": true}))).await;
        runs.push(events.run_id());
        events.rest().await;
    }
    let mut seen = Vec::new();
    for run in &runs {
        let first = followed.next().await.unwrap();
        assert_eq!((first.name.as_str(), &first.data["run_id"]), ("metadata", &json!(run)));
        let told = followed.until("metadata").await;
        assert_eq!(names(&told), ["values", "values", "metadata"]);
        assert_eq!(told[2].data, json!({"status": "run_done", "run_id": run}));
        seen.push(first);
        seen.extend(told);
    }
    assert!(seen.iter().all(|event| event.id.is_some()));
    let kept = world.request(As::Local, Method::GET, &path).header("last-event-id", "-");
    let mut again = Events::of(kept).await;
    for event in &seen {
        assert_eq!(again.next().await.unwrap().text, event.text);
    }
    let alone = world.request(As::Local, Method::GET, &format!("{path}?stream_modes=lifecycle"));
    let mut alone = Events::of(alone.header("last-event-id", "-")).await;
    for _ in 0..4 {
        assert_eq!(alone.next().await.unwrap().name, "metadata");
    }
    assert_eq!(world.get(&format!("/threads/{UNKNOWN}/stream")).await.0, 404);
    assert_eq!(world.get(&format!("{path}?stream_modes=nope")).await.0, 422);
    world.stop().await;
}

async fn raw(world: &World, thread: &str, length: usize, body: &str) -> TcpStream {
    let address = world.url.strip_prefix("http://").unwrap();
    let mut socket = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /threads/{thread}/runs/stream HTTP/1.1\r\nhost: {address}\r\nx-api-key: {}\r\ncontent-length: {length}\r\n\r\n{body}",
        world.token
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    socket
}

#[tokio::test(flavor = "multi_thread")]
async fn i6_a_client_that_never_reads_holds_up_nobody() {
    let long = Reply { text: vec!["x".repeat(1_000); 2_000], always: true, ..Reply::default() };
    let world = playing([long]).await;
    let thread = world.thread(As::Local).await;
    // It asks for each delta with all that was said before: far more than the connection holds.
    let asked = body("hi", &json!({"stream_mode": ["messages", "values"]})).to_string();
    let deaf = raw(&world, &thread, asked.len(), &asked).await;
    let runs = format!("/threads/{thread}/runs");
    let ended = async {
        loop {
            let (_, runs) = world.get(&runs).await;
            if runs[0]["status"] == "success" {
                break;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), ended).await.expect("the run ends although nobody reads");
    drop(deaf);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_cut_in_the_middle_leaves_nothing_behind() {
    let world = playing([said("one")]).await;
    let thread = world.thread(As::Local).await;
    let whole = body("hi", &json!({})).to_string();
    for cut in [0, 1, whole.len() / 2, whole.len() - 1] {
        let mut socket = raw(&world, &thread, whole.len(), &whole[..cut]).await;
        socket.shutdown().await.unwrap();
        let mut answer = Vec::new();
        // Whether an answer comes or none, the connection ends.
        drop(socket.read_to_end(&mut answer).await);
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    assert_eq!(world.get(&format!("/threads/{thread}/runs")).await.1, json!([]));
    assert_eq!(names(&stream(&world, &thread, &body("hi", &json!({}))).await.rest().await).len(), 4);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_no_model_can_answer_is_kept_and_the_client_is_told_what_to_do() {
    // The settings name a model, and no key for it.
    let world = World::on((Server::start(script([])).unwrap(), Folder::new()), |settings| settings).await;
    let thread = world.thread(As::Local).await;
    let path = format!("/threads/{thread}/runs/wait");
    let (status, told) = world.post(&path, &body("Hello.", &json!({}))).await;
    assert_eq!((status.as_u16(), &told["__error__"]["error"]), (200, &json!("RunError")), "{told}");
    let state = world.get(&format!("/threads/{thread}/state")).await.1;
    assert_eq!(texts(&state["values"]), ["Hello."]);
    let (_, shown) = world.get(&format!("/api/threads/{thread}")).await;
    let run = &shown["last_run"];
    assert_eq!((&run["status"], &run["error_kind"]), (&json!("error"), &json!("config")), "{run}");
    assert!(run["error"].as_str().unwrap().contains("set ANTHROPIC_API_KEY"), "{run}");
    assert!(run["hint"].as_str().unwrap().contains("segue models"), "{run}");
    assert_eq!(told["__error__"]["message"], run["error"]);
    assert_eq!(world.model.calls(), 0);
    world.stop().await;
}
