//! Tests of a server that is killed during a run, and of another server that continues in its folder. Clients reconnect
//! with their last position and receive each message once.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use test_model::{Gate, GatePosition, Script, ScriptedCall, ScriptedReply, ScriptedServer};

use crate::fixture::{ServerFixture, TestCaller, TestFolder, http_client, start_server, write_config};
use crate::sse::{ReceivedEvent, SseReader, event_data, event_names};

/// The environment variable with the folder of the peer process.
const FOLDER_VAR: &str = "SEGUE_TEST_GATEWAY_FOLDER";

/// The body of the peer process: it serves until it is killed. As a normal test, without the variable, it does nothing.
#[tokio::test(flavor = "multi_thread")]
async fn peer_process() {
    let Ok(folder) = std::env::var(FOLDER_VAR) else { return };
    let running = start_server(folder.as_ref(), |settings| settings).await;
    println!("\nserving {} {}", running.url, running.token);
    std::io::stdout().flush().unwrap();
    std::future::pending::<()>().await;
}

/// A server in a separate process.
struct PeerProcess {
    process: Child,
    url: String,
    token: String,
    client: reqwest::Client,
}

impl PeerProcess {
    fn start(folder: &TestFolder) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "streams::restart::peer_process", "--nocapture"])
            .env(FOLDER_VAR, folder.path());
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let line = lines.find_map(|line| line.unwrap().strip_prefix("serving ").map(str::to_owned)).unwrap();
        let (url, token) = line.split_once(' ').unwrap();
        Self { process, url: url.to_owned(), token: token.to_owned(), client: http_client() }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.url)).header("x-api-key", &self.token)
    }
}

impl Drop for PeerProcess {
    fn drop(&mut self) {
        // An error means that the process has exited already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns a reply that waits at the gate `name` after its last word.
fn gated_reply(reply: ScriptedReply, name: &str) -> ScriptedReply {
    ScriptedReply { gate: Some(Gate { name: name.to_owned(), at: GatePosition::End }), ..reply }
}

/// Returns a model that calls a tool and then answers. Its first answer never ends; the second one ends at a gate.
fn tool_calling_model() -> ScriptedServer {
    let call = ScriptedCall { id: "c1".into(), name: "ls".into(), args: json!({"path": "."}) };
    let tool_call = ScriptedReply { calls: vec![call], ..ScriptedReply::text("I look.") };
    let answer = ScriptedReply { text: vec!["It is ".into(), "empty.".into()], ..ScriptedReply::default() };
    let replies = vec![tool_call, gated_reply(answer.clone(), "never"), gated_reply(answer, "end")];
    ScriptedServer::start(Script { replies, ..Script::default() }).unwrap()
}

/// Reads up to the first event that matches; returns all events read.
async fn read_into_answer(
    events: &mut SseReader,
    is_match: impl Fn(&ReceivedEvent) -> bool,
) -> Vec<ReceivedEvent> {
    let mut received = Vec::new();
    loop {
        received.push(events.next().await.expect("the stream stays open"));
        if is_match(&received[received.len() - 1]) {
            return received;
        }
    }
}

/// Returns the ids of the messages that were received completely: the last chunks of answers, and tool results.
fn whole_message_ids(events: &[ReceivedEvent]) -> Vec<&Value> {
    let chunks = event_data(events, "messages").into_iter();
    let is_whole = |chunk: &&Value| chunk[0]["chunk_position"] == "last" || chunk[0]["type"] == "tool";
    chunks.filter(is_whole).map(|chunk| &chunk[0]["id"]).collect()
}

/// Returns the text of each message, joined from its chunks as a client does it.
fn join_chunks<'a>(events: impl IntoIterator<Item = &'a ReceivedEvent>) -> BTreeMap<String, String> {
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    for event in events.into_iter().filter(|event| event.name == "messages") {
        let chunk = &event.data[0];
        let text = texts.entry(chunk["id"].as_str().unwrap().to_owned()).or_default();
        text.push_str(chunk["content"].as_str().unwrap());
    }
    texts
}

/// Checks that a client received each message once and exactly one gap. The chunks before and after the gap must form
/// the stored messages.
fn assert_sent_once(received: &[ReceivedEvent], remaining: &[ReceivedEvent]) {
    assert_eq!(
        remaining.iter().filter(|event| event.name == "gap").count(),
        1,
        "{:?}",
        event_names(remaining)
    );
    let whole: Vec<&Value> =
        whole_message_ids(received).into_iter().chain(whole_message_ids(remaining)).collect();
    let state = *event_data(remaining, "values").last().unwrap();
    let stored = &state["messages"].as_array().unwrap()[1..];
    assert_eq!(whole, stored.iter().map(|message| &message["id"]).collect::<Vec<_>>());
    assert_eq!(stored[2]["content"], "It is empty.");
    let texts = join_chunks(received.iter().chain(remaining));
    for message in stored {
        assert_eq!(texts[message["id"].as_str().unwrap()], message["content"].as_str().unwrap());
    }
}

/// Returns the id of the last event that has one.
fn last_id(events: &[ReceivedEvent]) -> String {
    events.iter().rev().find_map(|event| event.id.clone()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn j2_a_client_that_reconnects_after_a_kill_receives_each_message_once() {
    let (model, folder) = (tool_calling_model(), TestFolder::new());
    write_config(folder.path(), &model);
    let mut peer = PeerProcess::start(&folder);
    let thread = uuid::Uuid::now_v7().to_string();
    let filter = json!({"channels": ["values", "messages", "lifecycle", "tools"]});
    let (thread_path, events_path) =
        (format!("/threads/{thread}/stream"), format!("/threads/{thread}/stream/events"));
    let mut events = SseReader::open(peer.request(Method::POST, &events_path).json(&filter)).await;
    let body = json!({
        "assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "hi"}]},
        "stream_mode": ["messages-tuple", "values"], "stream_resumable": true, "if_not_exists": "create",
    });
    let mut run =
        SseReader::open(peer.request(Method::POST, &format!("/threads/{thread}/runs/stream")).json(&body))
            .await;
    let run_id = run.run_id();
    let mut followed = SseReader::open(peer.request(Method::GET, &thread_path)).await;
    let is_answer = |event: &ReceivedEvent| event.name == "messages" && event.data[0]["content"] == "empty.";
    let run_received = read_into_answer(&mut run, is_answer).await;
    let followed_received = read_into_answer(&mut followed, is_answer).await;
    let is_delta = |event: &ReceivedEvent| event.data["params"]["data"]["delta"]["text"] == "empty.";
    let events_received = read_into_answer(&mut events, is_delta).await;
    peer.process.kill().unwrap();
    peer.process.wait().unwrap();

    let server = ServerFixture::in_folder(model, folder, |settings| settings).await;
    let rejoin = |path: &str, last: &[ReceivedEvent]| {
        server.request(TestCaller::Local, Method::GET, path).header("last-event-id", last_id(last))
    };
    let mut run =
        SseReader::open(rejoin(&format!("/threads/{thread}/runs/{run_id}/stream"), &run_received)).await;
    let mut followed = SseReader::open(rejoin(&thread_path, &followed_received)).await;
    let since = events_received.last().unwrap().data["seq"].as_u64().unwrap();
    let filter = json!({"channels": filter["channels"], "since": since});
    let mut events =
        SseReader::open(server.request(TestCaller::Local, Method::POST, &events_path).json(&filter)).await;
    let is_values = |event: &ReceivedEvent| event.name == "values";
    let (run_gap, followed_gap) =
        (read_into_answer(&mut run, is_values).await, read_into_answer(&mut followed, is_values).await);
    let mut events_remaining = read_into_answer(&mut events, is_values).await;
    server.model.open_gate("end");
    let run_remaining: Vec<ReceivedEvent> = run_gap.into_iter().chain(run.read_to_end().await).collect();
    let is_done = |event: &ReceivedEvent| event.data["status"] == "run_done";
    let followed_remaining: Vec<ReceivedEvent> =
        followed_gap.into_iter().chain(read_into_answer(&mut followed, is_done).await).collect();

    for (received, remaining) in [(&run_received, &run_remaining), (&followed_received, &followed_remaining)]
    {
        assert_sent_once(received, remaining);
    }
    assert_eq!(run_remaining.last().unwrap().name, "end");

    let is_end = |event: &ReceivedEvent| {
        event.name == "lifecycle" && event.data["params"]["data"]["event"] == "completed"
    };
    events_remaining.extend(read_into_answer(&mut events, is_end).await);
    assert!(events_remaining.iter().all(|event| event.data["seq"].as_u64().unwrap() > since));
    let all: Vec<&ReceivedEvent> = events_received.iter().chain(&events_remaining).collect();
    let ids: std::collections::HashSet<&Value> = all.iter().map(|event| &event.data["event_id"]).collect();
    assert_eq!(ids.len(), all.len());
    let count = |name: &str| all.iter().filter(|event| event.data["params"]["data"]["event"] == name).count();
    assert_eq!((count("message-finish"), count("tool-finished"), count("completed")), (3, 1, 1));

    drop(events);
    check_third_server(server, thread, run_id, &run_received, &run_remaining).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn j2_fifty_clients_of_a_killed_server_receive_each_message_once_from_the_next_server() {
    const RUNS: usize = 50;
    let tool_call =
        ScriptedReply::text("I look.").with_call("c1", "ls", json!({"path": "."})).when_turn_is(1, 1);
    let answer =
        |gate| gated_reply(ScriptedReply::from_pieces(["It is ", "empty."]), gate).when_turn_is(1, 2);
    let replies = [tool_call.with_repeat()]
        .into_iter()
        .chain(vec![answer("never"); RUNS])
        .chain([answer("end").with_repeat()]);
    let (model, folder) = (ScriptedServer::start(Script::new(replies)).unwrap(), TestFolder::new());
    write_config(folder.path(), &model);
    let mut peer = PeerProcess::start(&folder);
    let body = json!({
        "assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "hi"}]},
        "stream_mode": ["messages-tuple", "values"], "stream_resumable": true, "if_not_exists": "create",
    });
    let started = (0..RUNS).map(|_| async {
        let thread = uuid::Uuid::now_v7().to_string();
        let path = format!("/threads/{thread}/runs/stream");
        let mut run = SseReader::open(peer.request(Method::POST, &path).json(&body)).await;
        let path = format!("/threads/{thread}/runs/{}/stream", run.run_id());
        let is_answer =
            |event: &ReceivedEvent| event.name == "messages" && event.data[0]["content"] == "empty.";
        (path, read_into_answer(&mut run, is_answer).await)
    });
    let started = futures::future::join_all(started).await;
    peer.process.kill().unwrap();
    peer.process.wait().unwrap();

    let server = ServerFixture::in_folder(model, folder, |settings| settings).await;
    let remaining = started.iter().map(|(path, received)| {
        let rejoin =
            server.request(TestCaller::Local, Method::GET, path).header("last-event-id", last_id(received));
        async {
            let mut run = SseReader::open(rejoin).await;
            let mut remaining = run.read_until("values").await;
            server.model.open_gate("end");
            remaining.extend(run.read_to_end().await);
            remaining
        }
    });
    for ((_, received), remaining) in started.iter().zip(futures::future::join_all(remaining).await) {
        assert_sent_once(received, &remaining);
        assert_eq!(remaining.last().unwrap().name, "end");
    }
    server.stop().await;
}

/// Checks that a third server, which has no stream of the run, sends what the client lacks and ends the stream at once.
async fn check_third_server(
    server: ServerFixture,
    thread: String,
    run: String,
    received: &[ReceivedEvent],
    received_later: &[ReceivedEvent],
) {
    let folder = server.stop().await;
    let server =
        ServerFixture::in_folder(ScriptedServer::start(Script::default()).unwrap(), folder, |settings| {
            settings
        })
        .await;
    let path = format!("/threads/{thread}/runs/{run}/stream");
    let rejoin =
        server.request(TestCaller::Local, Method::GET, &path).header("last-event-id", last_id(received));
    let remaining = SseReader::open(rejoin).await.read_to_end().await;
    assert_eq!((event_names(&remaining)[0], *event_names(&remaining).last().unwrap()), ("gap", "end"));
    assert_eq!(whole_message_ids(&remaining), whole_message_ids(received_later));
    server.stop().await;
}
