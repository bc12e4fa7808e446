//! Tests of readers that lose frames, which receive a gap and then the stored events, and of heartbeats on idle streams.

use std::collections::HashSet;

use reqwest::Method;
use serde_json::{Value, json};
use test_model::{Gate, GatePosition, Script, ScriptedCall, ScriptedReply, ScriptedServer};
use uuid::Uuid;

use crate::fixture::{ServerFixture, TestCaller, TestFolder, write_config};
use crate::sse::{ReceivedEvent, SseReader, event_data, event_names};

/// Number of chunks of a long answer, more than a ring holds.
const CHUNK_COUNT: usize = 9_000;

/// Returns a reply that waits at the gate `end` after its last word.
fn gated_reply(reply: ScriptedReply) -> ScriptedReply {
    ScriptedReply { gate: Some(Gate { name: "end".to_owned(), at: GatePosition::End }), ..reply }
}

/// Returns a reply with more chunks than a ring holds.
fn long_reply() -> ScriptedReply {
    ScriptedReply { text: vec!["all work and no play. ".to_owned(); CHUNK_COUNT], ..ScriptedReply::default() }
}

/// Returns the text of [`long_reply`].
fn long_text() -> String {
    long_reply().text.concat()
}

/// Starts a server whose model has a very large context window.
async fn start_with_replies(replies: impl IntoIterator<Item = ScriptedReply>) -> ServerFixture {
    let (model, folder) = (ScriptedServer::start(Script::new(replies)).unwrap(), TestFolder::new());
    write_config(folder.path(), &model);
    let config = folder.path().join("home/config.toml");
    let settings = std::fs::read_to_string(&config).unwrap() + "context_tokens = 100000000\n";
    std::fs::write(&config, settings).unwrap();
    ServerFixture::in_folder(model, folder, |settings| settings).await
}

/// Returns the body of a run request with the message `hi` and these stream modes.
fn run_body(modes: &[&str]) -> Value {
    json!({
        "assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "hi"}]},
        "stream_mode": modes, "stream_resumable": true,
    })
}

/// Creates a run with a streamed response.
async fn stream_run(server: &ServerFixture, thread: &str, modes: &[&str]) -> SseReader {
    let path = format!("/threads/{thread}/runs/stream");
    SseReader::open(server.request(TestCaller::Local, Method::POST, &path).json(&run_body(modes))).await
}

/// Opens the event stream of a thread, after the number `since` if there is one.
async fn follow_events(server: &ServerFixture, thread: &str, since: Option<u64>) -> SseReader {
    let path = format!("/threads/{thread}/stream/events");
    let filter = json!({"channels": ["values", "messages", "lifecycle", "input", "tools"], "since": since});
    SseReader::open(server.request(TestCaller::Local, Method::POST, &path).json(&filter)).await
}

/// Returns the data inside the envelope of an event.
fn channel_data(event: &ReceivedEvent) -> &Value {
    &event.data["params"]["data"]
}

/// Returns whether the event is the end of a run.
fn is_end(event: &ReceivedEvent) -> bool {
    event.name == "lifecycle" && channel_data(event)["event"] != "running"
}

/// Reads a thread's events up to the end of a run.
async fn read_to_run_end(events: &mut SseReader) -> Vec<ReceivedEvent> {
    let mut received = Vec::new();
    loop {
        received.push(events.next().await.expect("the stream stays open"));
        if is_end(&received[received.len() - 1]) {
            return received;
        }
    }
}

/// Waits until the reader has received `chunks` message chunks.
async fn wait_for_chunks(events: &mut SseReader, chunks: usize) {
    for _ in 0..chunks {
        events.read_until("messages").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn i1_a_slow_reader_receives_one_gap_and_then_the_stored_events() {
    let long = ScriptedReply {
        gate: Some(Gate { name: "begin".to_owned(), at: GatePosition::Start }),
        ..long_reply()
    };
    let server = start_with_replies([long]).await;
    let thread = server.create_thread(TestCaller::Local).await;
    // Each chunk is requested with the whole text before it, which is far more than the connection's buffers hold.
    let slow = stream_run(&server, &thread, &["messages", "values"]).await;
    let (run, path) = (slow.run_id(), format!("/threads/{thread}/runs"));
    let rejoin = server.request(
        TestCaller::Local,
        Method::GET,
        &format!("{path}/{}/stream?stream_mode=messages-tuple", run),
    );
    let mut quick = SseReader::open(rejoin).await;
    server.model.open_gate("begin");
    quick.read_until("end").await;
    let slow = slow.read_to_end().await;
    let gap = slow.iter().position(|event| event.name == "gap").expect("it fell behind");
    assert_eq!(slow.iter().filter(|event| event.name == "gap").count(), 1);
    let remaining = &slow[gap + 1..];
    assert_eq!(event_names(remaining).last(), Some(&"end"));
    let message = remaining.iter().rfind(|event| event.name.starts_with("messages/")).unwrap();
    assert_eq!(message.data[0]["content"], long_text(), "{}", message.name);
    let state = *event_data(remaining, "values").last().unwrap();
    assert_eq!(state["messages"][1]["content"], long_text());
    assert_eq!(slow[gap].data["run_id"], run.as_str());
    server.stop().await;
}

/// The size of a chunk of a large answer, in bytes, and the number of chunks. The chunks do not fit into a ring. The
/// whole answer is as large as a ring, which is far more than a connection's buffers hold.
const LARGE_RANGE: (usize, usize) = (22 * 75, CHUNK_COUNT);

/// Returns an answer that does not fit into the ring or the buffers of a connection, followed by a tool call.
fn large_reply(gate: &str) -> ScriptedReply {
    let call = ScriptedCall { id: gate.to_owned(), name: "ls".into(), args: json!({"path": "."}) };
    let gate = Some(Gate { name: gate.to_owned(), at: GatePosition::Start });
    ScriptedReply {
        text: vec!["all work and no play. ".repeat(LARGE_RANGE.0 / 22); LARGE_RANGE.1],
        calls: vec![call],
        gate,
        ..ScriptedReply::default()
    }
}

/// Reads until the first tool message.
async fn read_until_tool_message(events: &mut SseReader) {
    while events.read_until("messages").await.last().unwrap().data[0]["type"] != "tool" {}
}

#[tokio::test(flavor = "multi_thread")]
async fn i1_a_reader_that_lags_twice_receives_two_gaps_and_the_end() {
    let server = start_with_replies([
        large_reply("one"),
        large_reply("two"),
        gated_reply(ScriptedReply::default()).with_call("c3", "ls", json!({"path": "."})),
        ScriptedReply::status(400, "{}"),
    ])
    .await;
    let thread = server.create_thread(TestCaller::Local).await;
    let mut slow = stream_run(&server, &thread, &["messages", "values"]).await;
    let run_path = format!("/threads/{thread}/runs/{}/stream?stream_mode=messages-tuple", slow.run_id());
    let mut quick = SseReader::open(server.request(TestCaller::Local, Method::GET, &run_path)).await;
    let thread_path = format!("/threads/{thread}/stream");
    let mut followed = SseReader::open(server.request(TestCaller::Local, Method::GET, &thread_path)).await;
    server.model.open_gate("one");
    read_until_tool_message(&mut quick).await;
    // The events after the first gap do not fit into the connections, so the readers read no frame before the second
    // gap.
    let mut slow_events = slow.read_until("gap").await;
    let mut followed_events = followed.read_until("gap").await;
    server.model.open_gate("two");
    read_until_tool_message(&mut quick).await;
    server.model.open_gate("end");
    quick.read_to_end().await;
    slow_events.extend(slow.read_to_end().await);
    while followed_events.last().unwrap().data["status"] != "run_done" {
        followed_events.push(followed.next().await.expect("the stream stays open"));
    }
    for events in [&slow_events, &followed_events] {
        assert_eq!(events.iter().filter(|event| event.name == "gap").count(), 2, "{:?}", event_names(events));
        let state = *event_data(events, "values").last().unwrap();
        assert_eq!(state["messages"][3]["content"].as_str().unwrap().len(), LARGE_RANGE.0 * LARGE_RANGE.1);
        let seqs =
            events.iter().filter_map(|event| event.id.as_ref()?.split('-').next()?.parse::<u64>().ok());
        assert!(seqs.clone().all(|seq| seq < 1_000), "{:?}", seqs.max());
        assert_eq!(event_data(events, "error").len(), 1, "{:?}", event_names(events));
    }
    assert_eq!(slow_events.last().unwrap().name, "end");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i5_a_waiting_client_that_loses_frames_does_not_cancel_its_run() {
    let reply = ScriptedReply {
        gate: Some(Gate { name: "end".to_owned(), at: GatePosition::Start }),
        ..ScriptedReply::text("Long.")
    };
    let server = start_with_replies([reply]).await;
    let thread = server.create_thread(TestCaller::Local).await;
    // This message is larger than a ring.
    let body = json!({
        "assistant_id": "agent", "on_disconnect": "cancel",
        "input": {"messages": [{"role": "user", "content": "word ".repeat((17 << 20) / 5)}]},
    });
    let path = format!("/threads/{thread}/runs/wait");
    let answer = async {
        let answer = server.post(&path, &body).await.1;
        assert_eq!(answer["messages"][1]["content"], "Long.", "{}", answer["__error__"]);
    };
    let open_gate = async {
        server.model.wait_for_calls(1).await;
        server.model.open_gate("end");
    };
    tokio::join!(answer, open_gate);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s19_a_reader_that_joins_after_the_beginning_was_dropped_receives_the_state_and_then_the_end() {
    let server = start_with_replies([gated_reply(long_reply()), ScriptedReply::text("more")]).await;
    let thread = server.create_thread(TestCaller::Local).await;
    let mut quick = stream_run(&server, &thread, &["messages-tuple"]).await;
    wait_for_chunks(&mut quick, CHUNK_COUNT).await;
    let mut during = follow_events(&server, &thread, None).await;
    let first = during.next().await.unwrap();
    assert_eq!(channel_data(&first)["event"], "running");
    let state = during.next().await.unwrap();
    assert_eq!(
        (state.name.as_str(), &channel_data(&state)["messages"][0]["content"]),
        ("values", &json!("hi"))
    );
    server.model.open_gate("end");
    quick.read_to_end().await;
    let remaining = read_to_run_end(&mut during).await;
    assert_eq!(channel_data(remaining.last().unwrap())["event"], "completed");
    // A message whose beginning was dropped is sent as a whole.
    let finished = remaining.iter().filter(|event| channel_data(event)["event"] == "content-block-finish");
    assert_eq!(
        finished.map(|event| &channel_data(event)["content"]["text"]).collect::<Vec<_>>(),
        [&json!(long_text())]
    );
    let received: Vec<&ReceivedEvent> = [&first, &state].into_iter().chain(&remaining).collect();
    assert_numbered(&received);
    // After the run, a new reader receives the same summary of it, and a reader at the end receives nothing of it.
    let after = read_to_run_end(&mut follow_events(&server, &thread, None).await).await;
    assert_eq!(channel_data(&after[0])["event"], "running");
    assert_eq!(channel_data(after.last().unwrap())["event"], "completed");
    assert!(after.iter().any(|event| channel_data(event)["event"] == "message-finish"));
    assert_numbered(&after.iter().collect::<Vec<_>>());
    let since = after.last().unwrap().data["seq"].as_u64();
    let mut at_end = follow_events(&server, &thread, since).await;
    server.send_message(TestCaller::Local, &thread, "more").await;
    let next = read_to_run_end(&mut at_end).await;
    assert_eq!(channel_data(&next[0])["event"], "running");
    assert!(next.iter().all(|event| channel_data(event)["content"]["text"] != long_text().as_str()));
    server.stop().await;
}

/// Checks that sequence numbers increase and that no event id occurs twice.
fn assert_numbered(events: &[&ReceivedEvent]) {
    let numbers: Vec<u64> = events.iter().map(|event| event.data["seq"].as_u64().unwrap()).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    let ids: HashSet<&str> = events.iter().map(|event| event.data["event_id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), events.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn s19_a_question_after_a_gap_is_sent() {
    let call = ScriptedCall { id: "c1".into(), name: "execute".into(), args: json!({"command": "touch x"}) };
    let server = start_with_replies([ScriptedReply { calls: vec![call], ..long_reply() }]).await;
    let thread = server.create_thread(TestCaller::Local).await;
    stream_run(&server, &thread, &["updates"]).await.read_to_end().await;
    let events = read_to_run_end(&mut follow_events(&server, &thread, None).await).await;
    let questions: Vec<_> = events.iter().filter(|event| event.name == "input.requested").collect();
    assert_eq!(questions.len(), 1);
    assert_eq!(channel_data(questions[0])["payload"]["action_requests"][0]["name"], "execute");
    assert_eq!(channel_data(events.last().unwrap())["event"], "interrupted");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_rolled_back_or_deleted_does_not_end_the_streams_of_its_thread() {
    let gated = |text: &str| gated_reply(ScriptedReply::text(text));
    let server =
        start_with_replies([ScriptedReply::text("one"), gated("two"), ScriptedReply::text("three")]).await;
    let thread = server.create_thread(TestCaller::Local).await;
    let forgotten = stream_run(&server, &thread, &["values"]).await;
    let path = format!("/threads/{thread}/runs/{}", forgotten.run_id());
    forgotten.read_to_end().await;
    // The stream of the run is still buffered when the run is deleted.
    assert_eq!(server.send(TestCaller::Local, Method::DELETE, &path, &json!({})).await.0, 204);
    let thread_stream = server.request(TestCaller::Local, Method::GET, &format!("/threads/{thread}/stream"));
    let mut thread_stream = SseReader::open(thread_stream.header("last-event-id", "-")).await;
    let mut events = follow_events(&server, &thread, None).await;
    let mut rolled_back = stream_run(&server, &thread, &["messages-tuple"]).await;
    rolled_back.read_until("messages").await;
    assert_eq!(thread_stream.read_until("metadata").await[0].data["run_id"], rolled_back.run_id().as_str());
    let path = format!("/threads/{thread}/runs/{}/cancel?action=rollback&wait=1", rolled_back.run_id());
    assert_eq!(server.post(&path, &json!({})).await.0, 200);
    assert_eq!(event_names(&rolled_back.read_to_end().await).last(), Some(&"end"));
    read_to_run_end(&mut events).await;
    let next = stream_run(&server, &thread, &["values"]).await;
    let run = next.run_id();
    next.read_to_end().await;
    let mut second_events = follow_events(&server, &thread, None).await;
    for followed in [&mut events, &mut second_events] {
        let events_read = read_to_run_end(followed).await;
        assert_eq!(channel_data(events_read.last().unwrap())["event"], "completed");
    }
    while thread_stream.next().await.unwrap().data["run_id"] != run.as_str() {}
    server.stop().await;
}

#[tokio::test]
async fn i3_every_waiting_client_receives_heartbeats() {
    let server = start_with_replies([ScriptedReply {
        gate: Some(Gate { name: "end".to_owned(), at: GatePosition::Start }),
        ..ScriptedReply::text("one")
    }])
    .await;
    let thread = server.create_thread(TestCaller::Local).await;
    let mut run = stream_run(&server, &thread, &["updates"]).await;
    run.read_until("metadata").await;
    let path = format!("/threads/{thread}/stream");
    let mut thread_stream = SseReader::open(server.request(
        TestCaller::Local,
        Method::GET,
        &format!("{path}?stream_modes=lifecycle"),
    ))
    .await;
    thread_stream.read_until("metadata").await;
    let mut empty_thread_stream = follow_events(&server, &Uuid::now_v7().to_string(), None).await;
    let (_, metrics) = server.get("/metrics").await;
    assert!(metrics.as_str().unwrap().contains("segue_streams_open 3"), "{metrics}");
    // From here on, time advances whenever all tasks wait.
    tokio::time::pause();
    tokio::join!(
        run.wait_for_heartbeats(3),
        thread_stream.wait_for_heartbeats(3),
        empty_thread_stream.wait_for_heartbeats(3)
    );
    tokio::time::resume();
    server.model.open_gate("end");
    run.read_to_end().await;
    server.stop().await;
}
