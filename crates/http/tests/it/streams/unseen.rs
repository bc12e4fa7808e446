//! Clients that come back when runs have come and gone: what they have not had is told, once, and nothing is passed over.

use reqwest::Method;
use serde_json::{Value, json};
use test_model::{Gate, Place, Reply, Script};

use crate::sse::{Event, Events, data, names};
use crate::world::{As, World, serve};

fn held(text: &str) -> Reply {
    Reply { gate: Some(Gate { name: text.to_owned(), at: Place::End }), ..Reply::text(text) }
}

async fn playing(replies: impl IntoIterator<Item = Reply>) -> World {
    World::playing(Script::new(replies), |settings| settings).await
}

fn asked(extra: &Value) -> Value {
    let mut body = json!({
        "assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "hi"}]},
        "stream_mode": ["messages-tuple", "values"],
    });
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    body
}

/// Asks for a run in the background and returns its id.
async fn begin(world: &World, thread: &str, extra: &Value) -> String {
    let (status, run) = world.post(&format!("/threads/{thread}/runs"), &asked(extra)).await;
    assert_eq!(status, 200, "{run}");
    run["run_id"].as_str().unwrap().to_owned()
}

/// Does a run that is not kept and that nobody reads, to its end.
async fn unseen(world: &World, thread: &str) -> String {
    let run = begin(world, thread, &json!({})).await;
    let (status, _) = world.get(&format!("/threads/{thread}/runs/{run}/join")).await;
    assert_eq!(status, 200);
    run
}

async fn follow(world: &World, thread: &str, last: Option<&str>) -> Events {
    let request = world.request(As::Local, Method::GET, &format!("/threads/{thread}/stream"));
    Events::of(match last {
        Some(last) => request.header("last-event-id", last),
        None => request,
    })
    .await
}

async fn until(events: &mut Events, is_it: impl Fn(&Event) -> bool) -> Vec<Event> {
    let mut seen = Vec::new();
    loop {
        seen.push(events.next().await.expect("the stream stays open"));
        if is_it(&seen[seen.len() - 1]) {
            return seen;
        }
    }
}

fn is_done(run: &str) -> impl Fn(&Event) -> bool {
    move |event| event.data["status"] == "run_done" && event.data["run_id"] == run
}

/// Returns the texts of the chunks, joined for each message in the order in which they came.
fn said(events: &[Event]) -> Vec<String> {
    let mut said: Vec<(&Value, String)> = Vec::new();
    for chunk in data(events, "messages") {
        let (id, text) = (&chunk[0]["id"], chunk[0]["content"].as_str().unwrap_or_default());
        match said.last_mut().filter(|(last, _)| *last == id) {
            Some((_, whole)) => whole.push_str(text),
            None => said.push((id, text.to_owned())),
        }
    }
    said.into_iter().map(|(_, text)| text).collect()
}

fn last_id(events: &[Event]) -> String {
    events.iter().rev().find_map(|event| event.id.clone()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn i1_who_comes_back_to_a_thread_is_told_of_the_runs_that_passed_by() {
    let world = playing([
        Reply::text("one"),
        Reply::text("two"),
        Reply::text("three"),
        held("four"),
        Reply::text("five"),
    ])
    .await;
    let thread = world.thread(As::Local).await;
    let mut first = follow(&world, &thread, None).await;
    let one = begin(&world, &thread, &json!({})).await;
    let had = until(&mut first, is_done(&one)).await;
    drop(first);
    let last = last_id(&had);
    // Who has had everything has missed nothing.
    let mut nothing = follow(&world, &thread, Some(&last)).await;
    let (two, three) = (unseen(&world, &thread).await, unseen(&world, &thread).await);
    let told = until(&mut nothing, is_done(&three)).await;
    assert_eq!((data(&told, "gap").len(), said(&told)), (0, vec!["two".to_owned(), "three".to_owned()]));
    drop(nothing);
    let four = begin(&world, &thread, &json!({})).await;
    world.model.called(4).await;
    let mut back = follow(&world, &thread, Some(&last)).await;
    world.model.open("four");
    let told = until(&mut back, is_done(&four)).await;
    // The two runs before are kept, for somebody followed them.
    assert_eq!(
        (data(&told, "gap").len(), said(&told)),
        (0, vec!["two".to_owned(), "three".to_owned(), "four".to_owned()])
    );
    assert!(told.iter().any(is_done(&two)));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i1_runs_of_which_nothing_is_kept_are_a_gap_and_then_what_the_journal_has() {
    let world = playing([
        Reply::text("one"),
        Reply::text("two"),
        Reply::status(400, "{}"),
        held("four"),
        Reply::text("five"),
    ])
    .await;
    let thread = world.thread(As::Local).await;
    let mut first = follow(&world, &thread, None).await;
    let one = begin(&world, &thread, &json!({})).await;
    let last = last_id(&until(&mut first, is_done(&one)).await);
    let filter = json!({"channels": ["values", "messages", "lifecycle"]});
    let of_events = format!("/threads/{thread}/stream/events");
    let mut events = Events::of(world.request(As::Local, Method::POST, &of_events).json(&filter)).await;
    let is_end =
        |event: &Event| event.name == "lifecycle" && event.data["params"]["data"]["event"] != "running";
    let since = until(&mut events, is_end).await.last().unwrap().data["seq"].clone();
    drop((first, events));
    // The server notices that they went, and keeps nothing for them.
    world.streams_open(0).await;
    let (two, three) = (unseen(&world, &thread).await, unseen(&world, &thread).await);
    let four = begin(&world, &thread, &json!({})).await;
    world.model.called(4).await;

    let mut back = follow(&world, &thread, Some(&last)).await;
    let filter = json!({"channels": filter["channels"], "since": since});
    let mut events = Events::of(world.request(As::Local, Method::POST, &of_events).json(&filter)).await;
    let mut told = until(&mut back, is_done(&three)).await;
    let mut told_of_events = until(&mut events, is_end).await;
    told_of_events.extend(until(&mut events, is_end).await);
    world.model.open("four");
    told.extend(until(&mut back, is_done(&four)).await);
    assert_eq!(told[0].name, "gap", "{:?}", names(&told));
    assert_eq!((data(&told, "gap").len(), data(&told, "error").len()), (1, 1));
    assert_eq!(said(&told), ["two", "four"]);
    assert!(told.iter().any(is_done(&two)) && !told.iter().any(is_done(&one)));
    let state = *data(&told, "values").last().unwrap();
    assert_eq!(state["messages"].as_array().unwrap().len(), 7);

    let whole = |told: &[Event]| -> Vec<String> {
        let finished =
            told.iter().filter(|event| event.data["params"]["data"]["event"] == "content-block-finish");
        finished
            .map(|event| event.data["params"]["data"]["content"]["text"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(whole(&told_of_events), ["two"], "also while another run works");
    assert_eq!(whole(&until(&mut events, is_end).await), ["four"]);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i1_a_kept_run_that_said_nothing_is_told_among_those_of_which_nothing_is_kept() {
    let world = playing([Reply::text("one"), Reply::text("two"), Reply::text("four")]).await;
    let thread = world.thread(As::Local).await;
    let one = begin(&world, &thread, &json!({"stream_resumable": true})).await;
    let path = format!("/threads/{thread}/runs/{one}/stream");
    let again = world.request(As::Local, Method::GET, &path).header("last-event-id", "-1");
    let last = last_id(&Events::of(again).await.rest().await);
    let (_, state) = world.get(&format!("/threads/{thread}/state")).await;
    assert_eq!(state["values"]["messages"].as_array().unwrap().len(), 2);
    let two = unseen(&world, &thread).await;
    let nowhere = json!({"command": {"goto": "nowhere"}, "input": null, "stream_resumable": true});
    let three = begin(&world, &thread, &nowhere).await;
    world.get(&format!("/threads/{thread}/runs/{three}/join")).await;
    let four = unseen(&world, &thread).await;

    let mut back = follow(&world, &thread, Some(&last)).await;
    let told = until(&mut back, is_done(&four)).await;
    assert_eq!((data(&told, "gap").len(), data(&told, "error").len()), (1, 1), "{:?}", names(&told));
    let done = told.iter().filter(|event| event.data["status"] == "run_done");
    let done: Vec<&str> = done.map(|event| event.data["run_id"].as_str().unwrap()).collect();
    assert_eq!(
        (said(&told), done),
        (vec!["two".to_owned(), "four".to_owned()], vec![&*two, &*three, &*four])
    );

    let seq: u64 = last.split('-').next().unwrap().parse().unwrap();
    let filter = json!({"channels": ["messages", "lifecycle"], "since": (seq + 1) << 27});
    let of_events = format!("/threads/{thread}/stream/events");
    let mut events = Events::of(world.request(As::Local, Method::POST, &of_events).json(&filter)).await;
    let mut ends = Vec::new();
    while ends.len() < 6 {
        let event = events.next().await.expect("the stream stays open");
        if event.name == "lifecycle" {
            ends.push(event.data["params"]["data"]["event"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(ends, ["running", "completed", "running", "failed", "running", "completed"]);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i1_a_run_that_waited_for_a_later_one_is_missed_and_one_that_never_began_is_not() {
    let world = playing([held("one"), Reply::text("three"), Reply::text("two"), held("four")]).await;
    let thread = world.thread(As::Local).await;
    begin(&world, &thread, &json!({})).await;
    world.model.called(1).await;
    let two = begin(&world, &thread, &json!({})).await;
    let kept = json!({"stream_resumable": true, "multitask_strategy": "interrupt"});
    let three = begin(&world, &thread, &kept).await;
    let of_run = |run: &str| {
        let path = format!("/threads/{thread}/runs/{run}/stream");
        world.request(As::Local, Method::GET, &path).header("last-event-id", "-1")
    };
    let had = Events::of(of_run(&three)).await.rest().await;
    assert_eq!(said(&had), ["three"]);
    world.get(&format!("/threads/{thread}/runs/{two}/join")).await;
    let mut back = follow(&world, &thread, Some(&last_id(&had))).await;
    let told = until(&mut back, is_done(&two)).await;
    assert_eq!((data(&told, "gap").len(), said(&told)), (1, vec!["two".to_owned()]), "{:?}", names(&told));
    drop(back);
    world.streams_open(0).await;

    let four = begin(&world, &thread, &json!({"stream_resumable": true})).await;
    world.model.called(4).await;
    let last = last_id(&Events::of(of_run(&four)).await.until("metadata").await);
    let five = begin(&world, &thread, &json!({})).await;
    let cancel = format!("/threads/{thread}/runs/{five}/cancel?wait=true");
    let (status, told) = world.post(&cancel, &json!({})).await;
    assert!(status.is_success(), "{told}");
    world.model.open("four");
    world.get(&format!("/threads/{thread}/runs/{four}/join")).await;
    let mut back = follow(&world, &thread, Some(&last)).await;
    let told = until(&mut back, is_done(&four)).await;
    assert_eq!((data(&told, "gap").len(), said(&told)), (0, vec!["four".to_owned()]), "{:?}", names(&told));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i1_a_place_of_another_thread_hides_nothing() {
    let world = playing([held("one"), held("two")]).await;
    let thread = world.thread(As::Local).await;
    let run = begin(&world, &thread, &json!({"stream_resumable": true})).await;
    world.model.called(1).await;
    let path = format!("/threads/{thread}/runs/{run}/stream");
    let of_run = world.request(As::Local, Method::GET, &path).header("last-event-id", "999999-0-0");
    let mut of_run = Events::of(of_run).await;
    let mut of_thread = follow(&world, &thread, Some("999999-0-0")).await;
    let filter = json!({"channels": ["values", "messages", "lifecycle"], "since": 1_u64 << 52});
    let of_events = format!("/threads/{thread}/stream/events");
    let mut events = Events::of(world.request(As::Local, Method::POST, &of_events).json(&filter)).await;
    let mut of_run_told = of_run.until("gap").await;
    let mut of_thread_told = of_thread.until("gap").await;
    world.model.open("one");
    of_run_told.extend(of_run.until("end").await);
    of_thread_told.extend(until(&mut of_thread, is_done(&run)).await);
    for told in [&of_run_told, &of_thread_told] {
        assert_eq!(said(told).last().unwrap(), "one", "{:?}", names(told));
        assert_eq!(data(told, "values").last().unwrap()["messages"][1]["content"], "one");
    }
    until(&mut events, |event| event.data["params"]["data"]["event"] == "completed").await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i1_a_run_that_another_server_works_on_is_told_behind_the_place_of_the_client() {
    let call = Reply::text("I look.").and_call("c1", "ls", json!({"path": "."}));
    let world = playing([call, held("one"), held("two")]).await;
    let thread = world.thread(As::Local).await;
    let run = begin(&world, &thread, &json!({"stream_resumable": true})).await;
    let path = format!("/threads/{thread}/runs/{run}/stream");
    let again = world.request(As::Local, Method::GET, &path).header("last-event-id", "-1");
    let mut had = Events::of(again).await;
    let had = until(&mut had, |event| event.name == "messages" && event.data[0]["type"] == "tool").await;
    let beside = serve(world.folder.path(), |settings| settings).await;
    let client = reqwest::Client::new();
    let ask = |path: &str| client.get(format!("{}{path}", beside.url)).header("x-api-key", &beside.token);
    let mut rest = Events::of(ask(&path).header("last-event-id", last_id(&had))).await;
    world.model.open("one");
    let told = rest.until("end").await;
    assert_eq!(said(&told), ["one"], "{:?}", names(&told));
    assert!(!names(&told).contains(&"gap"), "nothing is missing: {:?}", names(&told));

    let run = begin(&world, &thread, &json!({})).await;
    world.model.called(3).await;
    let leaving =
        Events::of(ask(&format!("/threads/{thread}/runs/{run}/stream?cancel_on_disconnect=1"))).await;
    drop(leaving);
    world.get(&format!("/threads/{thread}/runs/{run}/join")).await;
    assert_eq!(world.get(&format!("/threads/{thread}/runs/{run}")).await.1["status"], "interrupted");
    beside.stop().await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i1_the_failure_of_a_run_that_another_server_works_on_is_told_behind_any_place() {
    let call = Reply::text("I look.").and_call("c1", "ls", json!({"path": "."}));
    let gate = Some(Gate { name: "fails".to_owned(), at: Place::Start });
    let world = playing([call, Reply { gate, ..Reply::status(400, "{}") }]).await;
    let thread = world.thread(As::Local).await;
    let run = begin(&world, &thread, &json!({"stream_resumable": true})).await;
    let path = format!("/threads/{thread}/runs/{run}/stream");
    let again = world.request(As::Local, Method::GET, &path).header("last-event-id", "-1");
    let mut had = Events::of(again).await;
    until(&mut had, |event| event.name == "messages" && event.data[0]["type"] == "tool").await;
    let last = last_id(&had.until("values").await);
    let beside = serve(world.folder.path(), |settings| settings).await;
    let rest = reqwest::Client::new().get(format!("{}{path}", beside.url)).header("x-api-key", &beside.token);
    let rest = Events::of(rest.header("last-event-id", last)).await;
    world.model.open("fails");
    let told = rest.rest().await;
    assert_eq!(names(&told), ["error", "end"], "nothing else is missing, and nothing else changed");
    beside.stop().await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i1_every_event_of_a_run_is_a_place_to_go_on_behind() {
    let call = Reply::text("I look.").and_call("c1", "ls", json!({"path": "."}));
    let world = playing([call, Reply::text("Done.")]).await;
    let thread = world.thread(As::Local).await;
    let modes =
        ["values", "messages", "messages-tuple", "updates", "tasks", "checkpoints", "debug", "custom"];
    let body = asked(&json!({"stream_mode": modes, "stream_resumable": true}));
    let path = format!("/threads/{thread}/runs/stream");
    let run = Events::of(world.request(As::Local, Method::POST, &path).json(&body)).await;
    let again = format!("/threads/{thread}/runs/{}/stream", run.run_id());
    let told = run.rest().await;
    for (at, event) in told.iter().enumerate() {
        let Some(id) = &event.id else { continue };
        let rest = world.request(As::Local, Method::GET, &again).header("last-event-id", id);
        let rest: Vec<String> =
            Events::of(rest).await.rest().await.into_iter().map(|event| event.text).collect();
        let behind: Vec<&str> = told[at + 1..].iter().map(|event| event.text.as_str()).collect();
        assert_eq!(rest, behind, "behind {id}, {}", event.name);
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s9_a_task_has_one_id_in_the_stream_the_state_and_the_thread() {
    let call = Reply::call("c1", "execute", json!({"command": "touch x"}));
    let world = playing([call]).await;
    let thread = world.thread(As::Local).await;
    let body = asked(&json!({"stream_mode": ["tasks", "checkpoints", "debug"]}));
    let path = format!("/threads/{thread}/runs/stream");
    let told = Events::of(world.request(As::Local, Method::POST, &path).json(&body)).await.rest().await;
    let tasks = data(&told, "tasks");
    for (at, task) in tasks.iter().enumerate() {
        let is_end = task.get("result").is_some();
        assert_eq!(at % 2 == 1, is_end, "each begins and then ends: {tasks:?}");
        assert!(!is_end || task["id"] == tasks[at - 1]["id"]);
    }
    let asks = tasks.last().unwrap();
    assert_eq!(asks["interrupts"].as_array().unwrap().len(), 1, "{asks}");
    let (_, state) = world.get(&format!("/threads/{thread}/state")).await;
    assert_eq!((&state["tasks"][0]["id"], &state["tasks"][0]["name"]), (&asks["id"], &asks["name"]));
    let (_, row) = world.get(&format!("/threads/{thread}")).await;
    assert!(row["interrupts"].get(asks["id"].as_str().unwrap()).is_some(), "{row}");
    let steps: Vec<i64> = data(&told, "debug").iter().map(|told| told["step"].as_i64().unwrap()).collect();
    assert!(steps.is_sorted(), "{steps:?}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i1_a_place_that_nobody_gave_in_a_run_that_others_came_after_is_told_its_end() {
    let world = playing([held("one"), held("two")]).await;
    let thread = world.thread(As::Local).await;
    let mut runs = Vec::new();
    for (number, said) in [(1, "one"), (2, "two")] {
        runs.push(begin(&world, &thread, &json!({"stream_resumable": true})).await);
        world.model.called(number).await;
        world.model.open(said);
        world.get(&format!("/threads/{thread}/runs/{}/join", runs[number - 1])).await;
    }
    let path = format!("/threads/{thread}/runs/{}/stream", runs[0]);
    for place in ["17", "3-0-0"] {
        let again = world.request(As::Local, Method::GET, &path).header("last-event-id", place);
        let told = Events::of(again).await.rest().await;
        assert_eq!(told.last().unwrap().name, "end", "{place}: {:?}", names(&told));
    }
    world.stop().await;
}
