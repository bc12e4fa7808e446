//! A server that is killed in the middle of a run, and another that goes on in its folder: clients come back with what they
//! have had, and are told each thing once.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use test_model::{Call, Gate, Place, Reply, Script, Server};

use crate::sse::{Event, Events, data, names};
use crate::world::{As, Folder, World, configure, serve};

/// Tells the other process where its folder is.
const FOLDER: &str = "SEGUE_TEST_GATEWAY_FOLDER";

/// The part that runs in a process of its own: it serves until it is killed. Without the variable there is nothing to do.
#[tokio::test(flavor = "multi_thread")]
async fn process_beside() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let served = serve(folder.as_ref(), |settings| settings).await;
    println!("\nserving {} {}", served.url, served.token);
    std::io::stdout().flush().unwrap();
    std::future::pending::<()>().await;
}

/// A server in a process of its own.
struct Beside {
    process: Child,
    url: String,
    token: String,
    client: reqwest::Client,
}

impl Beside {
    fn start(folder: &Folder) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "streams::restart::process_beside", "--nocapture"])
            .env(FOLDER, folder.path());
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let told = lines.find_map(|line| line.unwrap().strip_prefix("serving ").map(str::to_owned)).unwrap();
        let (url, token) = told.split_once(' ').unwrap();
        Self { process, url: url.to_owned(), token: token.to_owned(), client: reqwest::Client::new() }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.url)).header("x-api-key", &self.token)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // One that was killed already cannot be killed, which is as well.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn gated(reply: Reply, name: &str) -> Reply {
    Reply { gate: Some(Gate { name: name.to_owned(), at: Place::End }), ..reply }
}

/// A model that looks at a folder and then answers. The first answer never ends, the second one when it may.
fn model() -> Server {
    let call = Call { id: "c1".into(), name: "ls".into(), args: json!({"path": "."}) };
    let looks = Reply { calls: vec![call], ..Reply::text("I look.") };
    let answer = Reply { text: vec!["It is ".into(), "empty.".into()], ..Reply::default() };
    let replies = vec![looks, gated(answer.clone(), "never"), gated(answer, "end")];
    Server::start(Script { replies, ..Script::default() }).unwrap()
}

/// Reads until the second answer has begun.
async fn into_the_answer(events: &mut Events, is_it: impl Fn(&Event) -> bool) -> Vec<Event> {
    let mut seen = Vec::new();
    loop {
        seen.push(events.next().await.expect("the stream stays open"));
        if is_it(&seen[seen.len() - 1]) {
            return seen;
        }
    }
}

/// Returns the ids of what was told whole: the last chunks of answers, and results.
fn told_whole(events: &[Event]) -> Vec<&Value> {
    let chunks = data(events, "messages").into_iter();
    let is_whole = |chunk: &&Value| chunk[0]["chunk_position"] == "last" || chunk[0]["type"] == "tool";
    chunks.filter(is_whole).map(|chunk| &chunk[0]["id"]).collect()
}

/// Returns what a client makes of the chunks that it was told: for each id, all of them put together.
fn put_together<'a>(events: impl IntoIterator<Item = &'a Event>) -> BTreeMap<String, String> {
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    for event in events.into_iter().filter(|event| event.name == "messages") {
        let chunk = &event.data[0];
        let text = texts.entry(chunk["id"].as_str().unwrap().to_owned()).or_default();
        text.push_str(chunk["content"].as_str().unwrap());
    }
    texts
}

/// Checks that a client was told each thing once, and of one gap: what was streamed before it and after it is what is
/// stored.
fn is_told_once(had: &[Event], rest: &[Event]) {
    assert_eq!(rest.iter().filter(|event| event.name == "gap").count(), 1, "{:?}", names(rest));
    let whole: Vec<&Value> = told_whole(had).into_iter().chain(told_whole(rest)).collect();
    let state = *data(rest, "values").last().unwrap();
    let stored = &state["messages"].as_array().unwrap()[1..];
    assert_eq!(whole, stored.iter().map(|one| &one["id"]).collect::<Vec<_>>());
    assert_eq!(stored[2]["content"], "It is empty.");
    let texts = put_together(had.iter().chain(rest));
    for message in stored {
        assert_eq!(texts[message["id"].as_str().unwrap()], message["content"].as_str().unwrap());
    }
}

fn last_id(events: &[Event]) -> String {
    events.iter().rev().find_map(|event| event.id.clone()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn j2_a_client_that_comes_back_after_a_kill_is_told_each_thing_once() {
    let (model, folder) = (model(), Folder::new());
    configure(folder.path(), &model);
    let mut beside = Beside::start(&folder);
    let thread = uuid::Uuid::now_v7().to_string();
    let filter = json!({"channels": ["values", "messages", "lifecycle", "tools"]});
    let (of_thread, of_events) =
        (format!("/threads/{thread}/stream"), format!("/threads/{thread}/stream/events"));
    let mut events = Events::of(beside.request(Method::POST, &of_events).json(&filter)).await;
    let body = json!({
        "assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "hi"}]},
        "stream_mode": ["messages-tuple", "values"], "stream_resumable": true, "if_not_exists": "create",
    });
    let mut run =
        Events::of(beside.request(Method::POST, &format!("/threads/{thread}/runs/stream")).json(&body)).await;
    let run_id = run.run_id();
    let mut followed = Events::of(beside.request(Method::GET, &of_thread)).await;
    let is_answer = |event: &Event| event.name == "messages" && event.data[0]["content"] == "empty.";
    let run_had = into_the_answer(&mut run, is_answer).await;
    let followed_had = into_the_answer(&mut followed, is_answer).await;
    let is_delta = |event: &Event| event.data["params"]["data"]["delta"]["text"] == "empty.";
    let events_had = into_the_answer(&mut events, is_delta).await;
    beside.process.kill().unwrap();
    beside.process.wait().unwrap();

    let world = World::on((model, folder), |settings| settings).await;
    let again = |path: &str, last: &[Event]| {
        world.request(As::Local, Method::GET, path).header("last-event-id", last_id(last))
    };
    let mut run = Events::of(again(&format!("/threads/{thread}/runs/{run_id}/stream"), &run_had)).await;
    let mut followed = Events::of(again(&of_thread, &followed_had)).await;
    let since = events_had.last().unwrap().data["seq"].as_u64().unwrap();
    let filter = json!({"channels": filter["channels"], "since": since});
    let mut events = Events::of(world.request(As::Local, Method::POST, &of_events).json(&filter)).await;
    let is_values = |event: &Event| event.name == "values";
    let (run_gap, followed_gap) =
        (into_the_answer(&mut run, is_values).await, into_the_answer(&mut followed, is_values).await);
    let mut events_rest = into_the_answer(&mut events, is_values).await;
    world.model.open("end");
    let run_rest: Vec<Event> = run_gap.into_iter().chain(run.rest().await).collect();
    let is_done = |event: &Event| event.data["status"] == "run_done";
    let followed_rest: Vec<Event> =
        followed_gap.into_iter().chain(into_the_answer(&mut followed, is_done).await).collect();

    for (had, rest) in [(&run_had, &run_rest), (&followed_had, &followed_rest)] {
        is_told_once(had, rest);
    }
    assert_eq!(run_rest.last().unwrap().name, "end");

    let is_end =
        |event: &Event| event.name == "lifecycle" && event.data["params"]["data"]["event"] == "completed";
    events_rest.extend(into_the_answer(&mut events, is_end).await);
    assert!(events_rest.iter().all(|event| event.data["seq"].as_u64().unwrap() > since));
    let all: Vec<&Event> = events_had.iter().chain(&events_rest).collect();
    let ids: std::collections::HashSet<&Value> = all.iter().map(|event| &event.data["event_id"]).collect();
    assert_eq!(ids.len(), all.len());
    let count = |told: &str| all.iter().filter(|event| event.data["params"]["data"]["event"] == told).count();
    assert_eq!((count("message-finish"), count("tool-finished"), count("completed")), (3, 1, 1));

    drop(events);
    third_server(world, (thread, run_id), (&run_had, &run_rest)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn j2_fifty_clients_of_a_server_that_is_killed_are_told_each_thing_once_by_the_next() {
    const RUNS: usize = 50;
    let looks = Reply::text("I look.").and_call("c1", "ls", json!({"path": "."})).when_turn_is(1, 1);
    let answer = |gate| gated(Reply::pieces(["It is ", "empty."]), gate).when_turn_is(1, 2);
    let replies =
        [looks.repeated()].into_iter().chain(vec![answer("never"); RUNS]).chain([answer("end").repeated()]);
    let (model, folder) = (Server::start(Script::new(replies)).unwrap(), Folder::new());
    configure(folder.path(), &model);
    let mut beside = Beside::start(&folder);
    let body = json!({
        "assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "hi"}]},
        "stream_mode": ["messages-tuple", "values"], "stream_resumable": true, "if_not_exists": "create",
    });
    let begun = (0..RUNS).map(|_| async {
        let thread = uuid::Uuid::now_v7().to_string();
        let path = format!("/threads/{thread}/runs/stream");
        let mut run = Events::of(beside.request(Method::POST, &path).json(&body)).await;
        let path = format!("/threads/{thread}/runs/{}/stream", run.run_id());
        let is_answer = |event: &Event| event.name == "messages" && event.data[0]["content"] == "empty.";
        (path, into_the_answer(&mut run, is_answer).await)
    });
    let begun = futures::future::join_all(begun).await;
    beside.process.kill().unwrap();
    beside.process.wait().unwrap();

    let world = World::on((model, folder), |settings| settings).await;
    let told = begun.iter().map(|(path, had)| {
        let again = world.request(As::Local, Method::GET, path).header("last-event-id", last_id(had));
        async {
            let mut run = Events::of(again).await;
            let mut rest = run.until("values").await;
            world.model.open("end");
            rest.extend(run.rest().await);
            rest
        }
    });
    for ((_, had), rest) in begun.iter().zip(futures::future::join_all(told).await) {
        is_told_once(had, &rest);
        assert_eq!(rest.last().unwrap().name, "end");
    }
    world.stop().await;
}

/// Another server has no stream of the run: what a client has not had is told, and the stream ends at once.
async fn third_server(
    world: World,
    (thread, run_id): (String, String),
    (had, told_later): (&[Event], &[Event]),
) {
    let folder = world.stop().await;
    let world = World::on((Server::start(Script::default()).unwrap(), folder), |settings| settings).await;
    let path = format!("/threads/{thread}/runs/{run_id}/stream");
    let rejoin = world.request(As::Local, Method::GET, &path).header("last-event-id", last_id(had));
    let rest = Events::of(rejoin).await.rest().await;
    assert_eq!((names(&rest)[0], *names(&rest).last().unwrap()), ("gap", "end"));
    assert_eq!(told_whole(&rest), told_whole(told_later));
    world.stop().await;
}
