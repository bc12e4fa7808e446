//! Tests of clients that reconnect after runs that they missed: each missed event is sent exactly once.

use reqwest::Method;
use serde_json::{Value, json};
use test_model::{Gate, GatePosition, Script, ScriptedReply};

use crate::fixture::{ServerFixture, TestCaller, http_client, start_server};
use crate::sse::{ReceivedEvent, SseReader, event_data, event_names};

/// Returns a reply that waits after its last word at a gate, which is named like its text.
fn gated_reply(text: &str) -> ScriptedReply {
    ScriptedReply {
        gate: Some(Gate { name: text.to_owned(), at: GatePosition::End }),
        ..ScriptedReply::text(text)
    }
}

/// Starts a server whose model gives these replies in order.
async fn start_with_replies(replies: impl IntoIterator<Item = ScriptedReply>) -> ServerFixture {
    ServerFixture::with_script(Script::new(replies), |settings| settings).await
}

/// Returns the body of a run request with the message `hi`, and with the fields of `extra`.
fn run_body(extra: &Value) -> Value {
    let mut body = json!({
        "assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "hi"}]},
        "stream_mode": ["messages-tuple", "values"],
    });
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    body
}

/// Starts a run in the background and returns its id.
async fn start_background_run(server: &ServerFixture, thread: &str, extra: &Value) -> String {
    let (status, run) = server.post(&format!("/threads/{thread}/runs"), &run_body(extra)).await;
    assert_eq!(status, 200, "{run}");
    run["run_id"].as_str().unwrap().to_owned()
}

/// Executes a run with a stream that is neither buffered nor read; returns the id of the run.
async fn run_unread(server: &ServerFixture, thread: &str) -> String {
    let run = start_background_run(server, thread, &json!({})).await;
    let (status, _) = server.get(&format!("/threads/{thread}/runs/{run}/join")).await;
    assert_eq!(status, 200);
    run
}

/// Opens the stream of all runs of a thread, with `last` as the `Last-Event-ID` if there is one.
async fn follow_thread(server: &ServerFixture, thread: &str, last: Option<&str>) -> SseReader {
    let request = server.request(TestCaller::Local, Method::GET, &format!("/threads/{thread}/stream"));
    SseReader::open(match last {
        Some(last) => request.header("last-event-id", last),
        None => request,
    })
    .await
}

/// Reads up to the first event that matches; returns all events read.
async fn read_until(events: &mut SseReader, is_match: impl Fn(&ReceivedEvent) -> bool) -> Vec<ReceivedEvent> {
    let mut received = Vec::new();
    loop {
        received.push(events.next().await.expect("the stream stays open"));
        if is_match(&received[received.len() - 1]) {
            return received;
        }
    }
}

/// Returns a predicate for the event that ends a run on its thread's stream.
fn is_run_done(run: &str) -> impl Fn(&ReceivedEvent) -> bool {
    move |event| event.data["status"] == "run_done" && event.data["run_id"] == run
}

/// Returns the texts of the chunks, joined for each message, in their order.
fn chunk_texts(events: &[ReceivedEvent]) -> Vec<String> {
    let mut texts: Vec<(&Value, String)> = Vec::new();
    for chunk in event_data(events, "messages") {
        let (id, text) = (&chunk[0]["id"], chunk[0]["content"].as_str().unwrap_or_default());
        match texts.last_mut().filter(|(last, _)| *last == id) {
            Some((_, whole)) => whole.push_str(text),
            None => texts.push((id, text.to_owned())),
        }
    }
    texts.into_iter().map(|(_, text)| text).collect()
}

/// Returns the id of the last event that has one.
fn last_id(events: &[ReceivedEvent]) -> String {
    events.iter().rev().find_map(|event| event.id.clone()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn i1_a_client_that_reconnects_to_a_thread_receives_the_runs_it_missed() {
    let server = start_with_replies([
        ScriptedReply::text("one"),
        ScriptedReply::text("two"),
        ScriptedReply::text("three"),
        gated_reply("four"),
        ScriptedReply::text("five"),
    ])
    .await;
    let thread = server.create_thread(TestCaller::Local).await;
    let mut first = follow_thread(&server, &thread, None).await;
    let run_one = start_background_run(&server, &thread, &json!({})).await;
    let earlier = read_until(&mut first, is_run_done(&run_one)).await;
    drop(first);
    let last = last_id(&earlier);
    // A client that received everything has missed nothing.
    let mut up_to_date = follow_thread(&server, &thread, Some(&last)).await;
    let (run_two, run_three) = (run_unread(&server, &thread).await, run_unread(&server, &thread).await);
    let received = read_until(&mut up_to_date, is_run_done(&run_three)).await;
    assert_eq!(
        (event_data(&received, "gap").len(), chunk_texts(&received)),
        (0, vec!["two".to_owned(), "three".to_owned()])
    );
    drop(up_to_date);
    let run_four = start_background_run(&server, &thread, &json!({})).await;
    server.model.wait_for_calls(4).await;
    let mut reconnected = follow_thread(&server, &thread, Some(&last)).await;
    server.model.open_gate("four");
    let received = read_until(&mut reconnected, is_run_done(&run_four)).await;
    // The streams of the two earlier runs are buffered because the thread had a reader.
    assert_eq!(
        (event_data(&received, "gap").len(), chunk_texts(&received)),
        (0, vec!["two".to_owned(), "three".to_owned(), "four".to_owned()])
    );
    assert!(received.iter().any(is_run_done(&run_two)));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i1_runs_without_a_buffered_stream_are_a_gap_followed_by_the_stored_events() {
    let server = start_with_replies([
        ScriptedReply::text("one"),
        ScriptedReply::text("two"),
        ScriptedReply::status(400, "{}"),
        gated_reply("four"),
        ScriptedReply::text("five"),
    ])
    .await;
    let thread = server.create_thread(TestCaller::Local).await;
    let mut first = follow_thread(&server, &thread, None).await;
    let run_one = start_background_run(&server, &thread, &json!({})).await;
    let last = last_id(&read_until(&mut first, is_run_done(&run_one)).await);
    let filter = json!({"channels": ["values", "messages", "lifecycle"]});
    let events_path = format!("/threads/{thread}/stream/events");
    let mut events =
        SseReader::open(server.request(TestCaller::Local, Method::POST, &events_path).json(&filter)).await;
    let is_end = |event: &ReceivedEvent| {
        event.name == "lifecycle" && event.data["params"]["data"]["event"] != "running"
    };
    let since = read_until(&mut events, is_end).await.last().unwrap().data["seq"].clone();
    drop((first, events));
    // The server notices the disconnects and buffers no streams for these clients.
    server.wait_for_open_streams(0).await;
    let (run_two, run_three) = (run_unread(&server, &thread).await, run_unread(&server, &thread).await);
    let run_four = start_background_run(&server, &thread, &json!({})).await;
    server.model.wait_for_calls(4).await;

    let mut reconnected = follow_thread(&server, &thread, Some(&last)).await;
    let filter = json!({"channels": filter["channels"], "since": since});
    let mut events =
        SseReader::open(server.request(TestCaller::Local, Method::POST, &events_path).json(&filter)).await;
    let mut received = read_until(&mut reconnected, is_run_done(&run_three)).await;
    let mut protocol_events = read_until(&mut events, is_end).await;
    protocol_events.extend(read_until(&mut events, is_end).await);
    server.model.open_gate("four");
    received.extend(read_until(&mut reconnected, is_run_done(&run_four)).await);
    assert_eq!(received[0].name, "gap", "{:?}", event_names(&received));
    assert_eq!((event_data(&received, "gap").len(), event_data(&received, "error").len()), (1, 1));
    assert_eq!(chunk_texts(&received), ["two", "four"]);
    assert!(received.iter().any(is_run_done(&run_two)) && !received.iter().any(is_run_done(&run_one)));
    let state = *event_data(&received, "values").last().unwrap();
    assert_eq!(state["messages"].as_array().unwrap().len(), 7);

    let whole = |received: &[ReceivedEvent]| -> Vec<String> {
        let finished =
            received.iter().filter(|event| event.data["params"]["data"]["event"] == "content-block-finish");
        finished
            .map(|event| event.data["params"]["data"]["content"]["text"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(whole(&protocol_events), ["two"], "also while another run is active");
    assert_eq!(whole(&read_until(&mut events, is_end).await), ["four"]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i1_a_buffered_run_without_messages_is_sent_among_unbuffered_runs() {
    let server = start_with_replies([
        ScriptedReply::text("one"),
        ScriptedReply::text("two"),
        ScriptedReply::text("four"),
    ])
    .await;
    let thread = server.create_thread(TestCaller::Local).await;
    let run_one = start_background_run(&server, &thread, &json!({"stream_resumable": true})).await;
    let path = format!("/threads/{thread}/runs/{run_one}/stream");
    let rejoin = server.request(TestCaller::Local, Method::GET, &path).header("last-event-id", "-1");
    let last = last_id(&SseReader::open(rejoin).await.read_to_end().await);
    let (_, state) = server.get(&format!("/threads/{thread}/state")).await;
    assert_eq!(state["values"]["messages"].as_array().unwrap().len(), 2);
    let run_two = run_unread(&server, &thread).await;
    let nowhere = json!({"command": {"goto": "nowhere"}, "input": null, "stream_resumable": true});
    let run_three = start_background_run(&server, &thread, &nowhere).await;
    server.get(&format!("/threads/{thread}/runs/{run_three}/join")).await;
    let run_four = run_unread(&server, &thread).await;

    let mut reconnected = follow_thread(&server, &thread, Some(&last)).await;
    let received = read_until(&mut reconnected, is_run_done(&run_four)).await;
    assert_eq!(
        (event_data(&received, "gap").len(), event_data(&received, "error").len()),
        (1, 1),
        "{:?}",
        event_names(&received)
    );
    let done = received.iter().filter(|event| event.data["status"] == "run_done");
    let done: Vec<&str> = done.map(|event| event.data["run_id"].as_str().unwrap()).collect();
    assert_eq!(
        (chunk_texts(&received), done),
        (vec!["two".to_owned(), "four".to_owned()], vec![&*run_two, &*run_three, &*run_four])
    );

    let seq: u64 = last.split('-').next().unwrap().parse().unwrap();
    let filter = json!({"channels": ["messages", "lifecycle"], "since": (seq + 1) << 27});
    let events_path = format!("/threads/{thread}/stream/events");
    let mut events =
        SseReader::open(server.request(TestCaller::Local, Method::POST, &events_path).json(&filter)).await;
    let mut ends = Vec::new();
    while ends.len() < 6 {
        let event = events.next().await.expect("the stream stays open");
        if event.name == "lifecycle" {
            ends.push(event.data["params"]["data"]["event"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(ends, ["running", "completed", "running", "failed", "running", "completed"]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i1_a_missed_run_that_was_queued_behind_a_later_one_is_sent_and_one_that_never_started_is_not() {
    let server = start_with_replies([
        gated_reply("one"),
        ScriptedReply::text("three"),
        ScriptedReply::text("two"),
        gated_reply("four"),
    ])
    .await;
    let thread = server.create_thread(TestCaller::Local).await;
    start_background_run(&server, &thread, &json!({})).await;
    server.model.wait_for_calls(1).await;
    let run_two = start_background_run(&server, &thread, &json!({})).await;
    let buffered = json!({"stream_resumable": true, "multitask_strategy": "interrupt"});
    let run_three = start_background_run(&server, &thread, &buffered).await;
    let run_request = |run: &str| {
        let path = format!("/threads/{thread}/runs/{run}/stream");
        server.request(TestCaller::Local, Method::GET, &path).header("last-event-id", "-1")
    };
    let earlier = SseReader::open(run_request(&run_three)).await.read_to_end().await;
    assert_eq!(chunk_texts(&earlier), ["three"]);
    server.get(&format!("/threads/{thread}/runs/{run_two}/join")).await;
    let mut reconnected = follow_thread(&server, &thread, Some(&last_id(&earlier))).await;
    let received = read_until(&mut reconnected, is_run_done(&run_two)).await;
    assert_eq!(
        (event_data(&received, "gap").len(), chunk_texts(&received)),
        (1, vec!["two".to_owned()]),
        "{:?}",
        event_names(&received)
    );
    drop(reconnected);
    server.wait_for_open_streams(0).await;

    let run_four = start_background_run(&server, &thread, &json!({"stream_resumable": true})).await;
    server.model.wait_for_calls(4).await;
    let last = last_id(&SseReader::open(run_request(&run_four)).await.read_until("metadata").await);
    let run_five = start_background_run(&server, &thread, &json!({})).await;
    let cancel = format!("/threads/{thread}/runs/{run_five}/cancel?wait=true");
    let (status, response) = server.post(&cancel, &json!({})).await;
    assert!(status.is_success(), "{response}");
    server.model.open_gate("four");
    server.get(&format!("/threads/{thread}/runs/{run_four}/join")).await;
    let mut reconnected = follow_thread(&server, &thread, Some(&last)).await;
    let received = read_until(&mut reconnected, is_run_done(&run_four)).await;
    assert_eq!(
        (event_data(&received, "gap").len(), chunk_texts(&received)),
        (0, vec!["four".to_owned()]),
        "{:?}",
        event_names(&received)
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i1_a_position_of_another_thread_hides_no_events() {
    let server = start_with_replies([gated_reply("one"), gated_reply("two")]).await;
    let thread = server.create_thread(TestCaller::Local).await;
    let run = start_background_run(&server, &thread, &json!({"stream_resumable": true})).await;
    server.model.wait_for_calls(1).await;
    let path = format!("/threads/{thread}/runs/{run}/stream");
    let run_stream =
        server.request(TestCaller::Local, Method::GET, &path).header("last-event-id", "999999-0-0");
    let mut run_stream = SseReader::open(run_stream).await;
    let mut thread_stream = follow_thread(&server, &thread, Some("999999-0-0")).await;
    let filter = json!({"channels": ["values", "messages", "lifecycle"], "since": 1_u64 << 52});
    let events_path = format!("/threads/{thread}/stream/events");
    let mut events =
        SseReader::open(server.request(TestCaller::Local, Method::POST, &events_path).json(&filter)).await;
    let mut run_events = run_stream.read_until("gap").await;
    let mut thread_events = thread_stream.read_until("gap").await;
    server.model.open_gate("one");
    run_events.extend(run_stream.read_until("end").await);
    thread_events.extend(read_until(&mut thread_stream, is_run_done(&run)).await);
    for received in [&run_events, &thread_events] {
        assert_eq!(chunk_texts(received).last().unwrap(), "one", "{:?}", event_names(received));
        assert_eq!(event_data(received, "values").last().unwrap()["messages"][1]["content"], "one");
    }
    read_until(&mut events, |event| event.data["params"]["data"]["event"] == "completed").await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i1_a_run_of_another_server_is_sent_from_the_clients_position() {
    let call = ScriptedReply::text("I look.").with_call("c1", "ls", json!({"path": "."}));
    let server = start_with_replies([call, gated_reply("one"), gated_reply("two")]).await;
    let thread = server.create_thread(TestCaller::Local).await;
    let run = start_background_run(&server, &thread, &json!({"stream_resumable": true})).await;
    let path = format!("/threads/{thread}/runs/{run}/stream");
    let rejoin = server.request(TestCaller::Local, Method::GET, &path).header("last-event-id", "-1");
    let mut earlier = SseReader::open(rejoin).await;
    let earlier =
        read_until(&mut earlier, |event| event.name == "messages" && event.data[0]["type"] == "tool").await;
    let peer = start_server(server.folder.path(), |settings| settings).await;
    let client = http_client();
    let request_peer =
        |path: &str| client.get(format!("{}{path}", peer.url)).header("x-api-key", &peer.token);
    let mut remaining = SseReader::open(request_peer(&path).header("last-event-id", last_id(&earlier))).await;
    server.model.open_gate("one");
    let received = remaining.read_until("end").await;
    assert_eq!(chunk_texts(&received), ["one"], "{:?}", event_names(&received));
    assert!(!event_names(&received).contains(&"gap"), "nothing is missing: {:?}", event_names(&received));

    let run = start_background_run(&server, &thread, &json!({})).await;
    server.model.wait_for_calls(3).await;
    let disconnecting =
        SseReader::open(request_peer(&format!("/threads/{thread}/runs/{run}/stream?cancel_on_disconnect=1")))
            .await;
    drop(disconnecting);
    server.get(&format!("/threads/{thread}/runs/{run}/join")).await;
    assert_eq!(server.get(&format!("/threads/{thread}/runs/{run}")).await.1["status"], "interrupted");
    peer.stop().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i1_the_failure_of_a_run_of_another_server_is_sent_from_any_position() {
    let call = ScriptedReply::text("I look.").with_call("c1", "ls", json!({"path": "."}));
    let gate = Some(Gate { name: "fails".to_owned(), at: GatePosition::Start });
    let server = start_with_replies([call, ScriptedReply { gate, ..ScriptedReply::status(400, "{}") }]).await;
    let thread = server.create_thread(TestCaller::Local).await;
    let run = start_background_run(&server, &thread, &json!({"stream_resumable": true})).await;
    let path = format!("/threads/{thread}/runs/{run}/stream");
    let rejoin = server.request(TestCaller::Local, Method::GET, &path).header("last-event-id", "-1");
    let mut earlier = SseReader::open(rejoin).await;
    read_until(&mut earlier, |event| event.name == "messages" && event.data[0]["type"] == "tool").await;
    let last = last_id(&earlier.read_until("values").await);
    let peer = start_server(server.folder.path(), |settings| settings).await;
    let remaining = http_client().get(format!("{}{path}", peer.url)).header("x-api-key", &peer.token);
    let remaining = SseReader::open(remaining.header("last-event-id", last)).await;
    server.model.open_gate("fails");
    let received = remaining.read_to_end().await;
    assert_eq!(event_names(&received), ["error", "end"], "nothing else is missing, and nothing else changed");
    peer.stop().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i1_a_client_can_reconnect_at_every_event_of_a_run() {
    let call = ScriptedReply::text("I look.").with_call("c1", "ls", json!({"path": "."}));
    let server = start_with_replies([call, ScriptedReply::text("Done.")]).await;
    let thread = server.create_thread(TestCaller::Local).await;
    let modes =
        ["values", "messages", "messages-tuple", "updates", "tasks", "checkpoints", "debug", "custom"];
    let body = run_body(&json!({"stream_mode": modes, "stream_resumable": true}));
    let path = format!("/threads/{thread}/runs/stream");
    let run = SseReader::open(server.request(TestCaller::Local, Method::POST, &path).json(&body)).await;
    let rejoin = format!("/threads/{thread}/runs/{}/stream", run.run_id());
    let received = run.read_to_end().await;
    for (index, event) in received.iter().enumerate() {
        let Some(id) = &event.id else { continue };
        let remaining = server.request(TestCaller::Local, Method::GET, &rejoin).header("last-event-id", id);
        let remaining: Vec<String> = SseReader::open(remaining)
            .await
            .read_to_end()
            .await
            .into_iter()
            .map(|event| event.text)
            .collect();
        let expected: Vec<&str> = received[index + 1..].iter().map(|event| event.text.as_str()).collect();
        assert_eq!(remaining, expected, "after {id}, {}", event.name);
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s9_a_task_has_the_same_id_in_the_stream_the_state_and_the_thread() {
    let call = ScriptedReply::call("c1", "execute", json!({"command": "touch x"}));
    let server = start_with_replies([call]).await;
    let thread = server.create_thread(TestCaller::Local).await;
    let body = run_body(&json!({"stream_mode": ["tasks", "checkpoints", "debug"]}));
    let path = format!("/threads/{thread}/runs/stream");
    let received = SseReader::open(server.request(TestCaller::Local, Method::POST, &path).json(&body))
        .await
        .read_to_end()
        .await;
    let tasks = event_data(&received, "tasks");
    for (index, task) in tasks.iter().enumerate() {
        let is_end = task.get("result").is_some();
        assert_eq!(index % 2 == 1, is_end, "each task has a start and then an end: {tasks:?}");
        assert!(!is_end || task["id"] == tasks[index - 1]["id"]);
    }
    let question_task = tasks.last().unwrap();
    assert_eq!(question_task["interrupts"].as_array().unwrap().len(), 1, "{question_task}");
    let (_, state) = server.get(&format!("/threads/{thread}/state")).await;
    assert_eq!(
        (&state["tasks"][0]["id"], &state["tasks"][0]["name"]),
        (&question_task["id"], &question_task["name"])
    );
    let (_, row) = server.get(&format!("/threads/{thread}")).await;
    assert!(row["interrupts"].get(question_task["id"].as_str().unwrap()).is_some(), "{row}");
    let steps: Vec<i64> =
        event_data(&received, "debug").iter().map(|data| data["step"].as_i64().unwrap()).collect();
    assert!(steps.is_sorted(), "{steps:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i1_an_unknown_position_in_an_old_run_receives_the_end_of_the_run() {
    let server = start_with_replies([gated_reply("one"), gated_reply("two")]).await;
    let thread = server.create_thread(TestCaller::Local).await;
    let mut runs = Vec::new();
    for (number, gate) in [(1, "one"), (2, "two")] {
        runs.push(start_background_run(&server, &thread, &json!({"stream_resumable": true})).await);
        server.model.wait_for_calls(number).await;
        server.model.open_gate(gate);
        server.get(&format!("/threads/{thread}/runs/{}/join", runs[number - 1])).await;
    }
    let path = format!("/threads/{thread}/runs/{}/stream", runs[0]);
    for position in ["17", "3-0-0"] {
        let rejoin = server.request(TestCaller::Local, Method::GET, &path).header("last-event-id", position);
        let received = SseReader::open(rejoin).await.read_to_end().await;
        assert_eq!(received.last().unwrap().name, "end", "{position}: {:?}", event_names(&received));
    }
    server.stop().await;
}
