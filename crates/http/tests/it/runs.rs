//! Tests of runs over HTTP: streaming, waiting, rejoining and cancelling.

mod content;
mod decisions;
mod options;
mod replicas;
mod subagents;

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use test_model::{Gate, GatePosition, Script, ScriptedCall, ScriptedFault, ScriptedReply, ScriptedServer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::fixture::{ServerFixture, TestCaller, TestFolder};
use crate::sse::{ReceivedEvent, SseReader, event_data, event_names};

const UNKNOWN_ID: &str = "018f0000-0000-7000-8000-0000000000ff";

/// Returns a reply that is streamed word by word.
fn streamed_reply(text: &str) -> ScriptedReply {
    ScriptedReply { text: text.split_inclusive(' ').map(str::to_owned).collect(), ..ScriptedReply::default() }
}

/// Returns a reply that waits at the gate `name`, before its first or after its last word.
fn gated_reply(reply: ScriptedReply, name: &str, at: GatePosition) -> ScriptedReply {
    ScriptedReply { gate: Some(Gate { name: name.to_owned(), at }), ..reply }
}

fn new_script(replies: impl IntoIterator<Item = ScriptedReply>) -> Script {
    Script { replies: replies.into_iter().collect(), ..Script::default() }
}

/// Starts a server whose model gives these replies in order.
async fn start_with_replies(replies: impl IntoIterator<Item = ScriptedReply>) -> ServerFixture {
    ServerFixture::with_script(new_script(replies), |settings| settings).await
}

/// Returns the body of a run request with one message, and with the fields of `extra`.
fn run_body(text: &str, extra: &Value) -> Value {
    let mut body = json!({
        "assistant_id": "agent", "input": {"messages": [{"role": "user", "content": text}]},
    });
    let fields = extra.as_object().unwrap().clone();
    body.as_object_mut().unwrap().extend(fields);
    body
}

/// Creates a run with a streamed response.
async fn stream_run(server: &ServerFixture, thread: &str, body: &Value) -> SseReader {
    let path = format!("/threads/{thread}/runs/stream");
    SseReader::open(server.request(TestCaller::Local, Method::POST, &path).json(body)).await
}

/// Joins the stream of a run, with `last` as the `Last-Event-ID` if there is one.
async fn rejoin_stream(server: &ServerFixture, thread: &str, run: &str, last: Option<&str>) -> SseReader {
    let request =
        server.request(TestCaller::Local, Method::GET, &format!("/threads/{thread}/runs/{run}/stream"));
    SseReader::open(match last {
        Some(last) => request.header("last-event-id", last),
        None => request,
    })
    .await
}

/// Returns the content of each message of a state.
fn message_texts(values: &Value) -> Vec<String> {
    let messages = values["messages"].as_array().unwrap();
    messages.iter().map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn s8_a_stream_contains_the_requested_modes_only() {
    let server = start_with_replies([streamed_reply("Hello there.")]).await;
    let thread = server.create_thread(TestCaller::Local).await;
    let events = stream_run(&server, &thread, &run_body("hi", &json!({}))).await;
    let run = events.run_id();
    let location = format!("/threads/{thread}/runs/{run}");
    assert_eq!(events.header("content-location"), location);
    assert_eq!(events.header("location"), format!("{location}/stream"));
    let events = events.read_to_end().await;
    assert_eq!(event_names(&events), ["metadata", "values", "values", "end"]);
    assert_eq!(events[0].data, json!({"run_id": run, "attempt": 1}));
    assert_eq!(message_texts(&events[1].data), ["hi"]);
    assert_eq!(message_texts(&events[2].data), ["hi", "Hello there."]);
    assert!(events.iter().all(|event| event.id.is_none()), "only a resumable stream has ids");
    // The rows are final before the end is sent.
    let (_, row) = server.get(&location).await;
    assert_eq!(row["status"], "success");
    assert_eq!(server.get(&format!("/threads/{thread}")).await.1["status"], "idle");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s9_a_step_is_sent_as_chunks_then_updates_then_values_and_the_chunks_form_the_message() {
    let server = start_with_replies([ScriptedReply {
        thinking: vec!["hm ".into(), "ok".into()],
        ..streamed_reply("Hello 🦀 there.")
    }])
    .await;
    let thread = server.create_thread(TestCaller::Local).await;
    let modes = json!({"stream_mode": ["values", "updates", "messages-tuple", "tools"]});
    let events = stream_run(&server, &thread, &run_body("hi", &modes)).await.read_to_end().await;
    let names = event_names(&events);
    let last_chunk = names.iter().rposition(|name| *name == "messages").unwrap();
    let update = names.iter().position(|name| *name == "updates").unwrap();
    let values = names.iter().rposition(|name| *name == "values").unwrap();
    assert!(last_chunk < update && update < values, "{names:?}");
    let chunks = event_data(&events, "messages");
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
    assert_eq!(counted, 1, "usage is sent once");
    assert_eq!(chunks.last().unwrap()[0]["chunk_position"], "last");
    assert_eq!(event_data(&events, "updates"), [&json!({"model": {"messages": [answer]}})]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s22_5_updates_and_values_are_not_sent_unless_requested() {
    for (mode, expected_name) in [("messages-tuple", "messages"), ("updates", "updates"), ("custom", "end")] {
        let server = start_with_replies([streamed_reply("Hello.")]).await;
        let thread = server.create_thread(TestCaller::Local).await;
        let events = stream_run(&server, &thread, &run_body("hi", &json!({"stream_mode": mode})))
            .await
            .read_to_end()
            .await;
        let others: Vec<&str> = event_names(&events)
            .into_iter()
            .filter(|name| !["metadata", "end", expected_name].contains(name))
            .collect();
        assert!(others.is_empty(), "{mode}: {others:?}");
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_run_is_reported_in_the_stream_and_the_result_but_not_by_the_http_status() {
    let fault = ScriptedFault::Status { status: 400, headers: Default::default(), body: String::new() };
    let server =
        start_with_replies([ScriptedReply { fault: Some(fault), always: true, ..ScriptedReply::default() }])
            .await;
    let thread = server.create_thread(TestCaller::Local).await;
    let events = stream_run(&server, &thread, &run_body("hi", &json!({}))).await.read_to_end().await;
    assert_eq!(event_names(&events), ["metadata", "values", "error", "end"]);
    let error = &events[2].data;
    assert!(
        !error["error"].as_str().unwrap().is_empty() && !error["message"].as_str().unwrap().is_empty(),
        "{error}"
    );
    let path = format!("/threads/{thread}/runs/wait");
    let (status, result) = server.post(&path, &run_body("again", &json!({}))).await;
    assert_eq!(status, 200);
    assert_eq!(result["__error__"]["error"], error["error"], "{result}");
    assert_eq!(server.get(&format!("/threads/{thread}")).await.1["status"], "error");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s12_1_a_question_is_sent_with_the_whole_state_and_again_when_the_run_is_joined() {
    let call = ScriptedCall { id: "c1".into(), name: "execute".into(), args: json!({"command": "touch x"}) };
    let server = start_with_replies([
        ScriptedReply { calls: vec![call], ..streamed_reply("I do it.") },
        streamed_reply("Done."),
    ])
    .await;
    let thread = server.create_thread(TestCaller::Local).await;
    let modes = json!({"stream_mode": ["values", "updates", "messages-tuple"]});
    let events = stream_run(&server, &thread, &run_body("do it", &modes)).await.read_to_end().await;
    let question = event_data(&events, "updates")
        .into_iter()
        .find(|update| update.get("__interrupt__").is_some())
        .unwrap();
    let interrupts = question["__interrupt__"].as_array().unwrap();
    assert_eq!(interrupts.len(), 1);
    let id = interrupts[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(interrupts[0].as_object().unwrap().len(), 2, "an interrupt is id and value: {question}");
    assert_eq!(id.len(), 32);
    let last = *event_data(&events, "values").last().unwrap();
    assert_eq!(last["__interrupt__"], question["__interrupt__"]);
    assert_eq!(message_texts(last), ["do it", "I do it."], "s22_11");
    let (_, thread_row) = server.get(&format!("/threads/{thread}")).await;
    assert_eq!(thread_row["status"], "interrupted");
    // The run itself succeeded, and a client that joins it later gets the same question.
    let (_, runs) = server.get(&format!("/threads/{thread}/runs")).await;
    let run = runs[0]["run_id"].as_str().unwrap().to_owned();
    assert_eq!(runs[0]["status"], "success");
    let (_, joined) = server.get(&format!("/threads/{thread}/runs/{run}/join")).await;
    assert_eq!(joined["__interrupt__"][0]["id"], id.as_str(), "{joined}");
    let resume_body = json!({"assistant_id": "agent", "command": {"resume": {"decisions": [{"type": "reject", "message": "no"}]}}});
    let (_, after) = server.post(&format!("/threads/{thread}/runs/wait"), &resume_body).await;
    assert!(after.get("__interrupt__").is_none(), "{after}");
    assert_eq!(message_texts(&after).last().unwrap(), "Done.");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i1_a_resumable_run_can_be_replayed_byte_for_byte_from_any_position() {
    let server = start_with_replies([streamed_reply("one two three four")]).await;
    let thread = server.create_thread(TestCaller::Local).await;
    let fields = json!({"stream_mode": ["values", "messages-tuple", "updates", "tasks", "checkpoints", "debug", "messages"],
        "stream_resumable": true});
    let events = stream_run(&server, &thread, &run_body("hi", &fields)).await;
    let run = events.run_id();
    let first = events.read_to_end().await;
    let text = |events: &[ReceivedEvent]| events.iter().map(|event| event.text.as_str()).collect::<String>();
    let ids: Vec<&str> = first.iter().filter_map(|event| event.id.as_deref()).collect();
    assert_eq!(ids.len(), first.len() - 1, "all events except the end have ids");
    let replayed = rejoin_stream(&server, &thread, &run, Some("-1")).await.read_to_end().await;
    assert_eq!(text(&replayed), text(&first));
    for (index, id) in ids.iter().enumerate() {
        let remaining = rejoin_stream(&server, &thread, &run, Some(id)).await.read_to_end().await;
        assert_eq!(text(&remaining), text(&first[index + 1..]), "after {id}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i1_the_rejoin_matrix() {
    let replies = [
        gated_reply(streamed_reply("one two"), "a", GatePosition::End),
        gated_reply(streamed_reply("three four"), "b", GatePosition::End),
    ];
    let server = start_with_replies(replies).await;
    let thread = server.create_thread(TestCaller::Local).await;
    // Resumable and active: with a cursor, the events after it; without one, events from now on.
    let fields = json!({"stream_mode": ["messages-tuple", "values"], "stream_resumable": true});
    let mut events = stream_run(&server, &thread, &run_body("hi", &fields)).await;
    let run = events.run_id();
    let received = events.read_until("messages").await;
    let last = received.last().unwrap().id.clone().unwrap();
    let mut from_start = rejoin_stream(&server, &thread, &run, Some("-1")).await;
    let mut after_last = rejoin_stream(&server, &thread, &run, Some(&last)).await;
    assert_eq!(from_start.next().await.unwrap().name, "metadata");
    assert_eq!(after_last.next().await.unwrap().data[0]["content"], "two");
    let from_now = rejoin_stream(&server, &thread, &run, None).await;
    let foreign = rejoin_stream(&server, &thread, &run, Some("1763784000000-0")).await;
    server.model.open_gate("a");
    let from_now = from_now.read_to_end().await;
    assert_eq!(event_names(&from_now), ["metadata", "messages", "values", "end"], "{from_now:?}");
    assert_eq!(from_now[1].data[0]["content"], "");
    let foreign = foreign.read_to_end().await;
    assert_eq!(event_names(&foreign)[..2], ["metadata", "gap"]);
    assert_eq!(foreign[1].data["code"], "stream_replay_gap");
    assert_eq!(message_texts(event_data(&foreign, "values").last().unwrap()), ["hi", "one two"]);
    // Not resumable: with any cursor, events from now on; after the end of the run, nothing is buffered.
    let mut events =
        stream_run(&server, &thread, &run_body("more", &json!({"stream_mode": "messages-tuple"}))).await;
    let run = events.run_id();
    events.read_until("messages").await;
    let rejoined = rejoin_stream(&server, &thread, &run, Some("-1")).await;
    server.model.open_gate("b");
    assert_eq!(event_names(&rejoined.read_to_end().await).last(), Some(&"end"));
    events.read_to_end().await;
    for cursor in [None, Some("-1"), Some("7-0-3"), Some("1763784000000-0")] {
        let after_end = rejoin_stream(&server, &thread, &run, cursor).await.read_to_end().await;
        assert_eq!(event_names(&after_end), ["end"], "s22_1 {cursor:?}");
    }
    let path = format!("/threads/{thread}/runs/{run}/stream");
    let bad = server
        .request(TestCaller::Local, Method::GET, &path)
        .header("last-event-id", "x-y")
        .send()
        .await
        .unwrap();
    assert_eq!(bad.status(), 422);
    assert_eq!(server.get(&format!("/threads/{thread}/runs/{UNKNOWN_ID}/stream")).await.0, 404);
    assert_eq!(server.get(&format!("/threads/{UNKNOWN_ID}/runs/{run}/stream")).await.0, 404);
    assert_eq!(server.get(&format!("/threads/{thread}/runs/x/stream")).await.0, 422);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s10_3_a_cancelled_run_ends_its_stream_without_an_error() {
    let server =
        start_with_replies([gated_reply(streamed_reply("one two"), "never", GatePosition::End)]).await;
    let thread = server.create_thread(TestCaller::Local).await;
    let mut events =
        stream_run(&server, &thread, &run_body("hi", &json!({"stream_mode": ["messages-tuple"]}))).await;
    let run = events.run_id();
    events.read_until("messages").await;
    let cancel = format!("/threads/{thread}/runs/{run}/cancel");
    let (status, _) = server.post(&format!("{cancel}?wait=true&action=interrupt"), &json!({})).await;
    assert_eq!(status, 200);
    // The run has stopped when the response arrives.
    let (_, row) = server.get(&format!("/threads/{thread}/runs/{run}")).await;
    assert_eq!(row["status"], "interrupted", "s22_2");
    let remaining = events.read_to_end().await;
    assert!(!event_names(&remaining).contains(&"error"), "{remaining:?}");
    assert_eq!(event_names(&remaining).last(), Some(&"end"));
    let (status, response) = server.post(&cancel, &json!({})).await;
    assert_eq!(status, 409, "{response}");
    assert!(response["detail"].as_str().unwrap().contains("not cancellable"), "{response}");
    assert_eq!(server.post(&format!("/threads/{thread}/runs/{UNKNOWN_ID}/cancel"), &json!({})).await.0, 404);
    assert_eq!(server.post(&format!("{cancel}?action=explode"), &json!({})).await.0, 422);
    assert_eq!(server.post(&format!("{cancel}?wait=perhaps"), &json!({})).await.0, 422);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i5_a_disconnected_client_cancels_its_run_only_if_requested() {
    for (on_disconnect, status) in [("cancel", "interrupted"), ("continue", "success")] {
        let server =
            start_with_replies([gated_reply(streamed_reply("one two"), "gate", GatePosition::End)]).await;
        let thread = server.create_thread(TestCaller::Local).await;
        let fields = json!({"stream_mode": ["messages-tuple"], "on_disconnect": on_disconnect});
        let mut events = stream_run(&server, &thread, &run_body("hi", &fields)).await;
        let run = events.run_id();
        events.read_until("messages").await;
        drop(events);
        let join = format!("/threads/{thread}/runs/{run}/join");
        if on_disconnect == "continue" {
            server.model.open_gate("gate");
        }
        let (_, joined) = server.get(&join).await;
        assert_eq!(joined.get("__error__").is_some(), on_disconnect == "cancel", "{joined}");
        let (_, row) = server.get(&format!("/threads/{thread}/runs/{run}")).await;
        assert_eq!(row["status"], status, "{on_disconnect}");
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s8_the_stream_of_a_queued_run_opens_at_once_and_receives_its_events_after_the_start() {
    let server = start_with_replies([
        gated_reply(streamed_reply("one"), "first", GatePosition::Start),
        streamed_reply("two"),
    ])
    .await;
    let thread = server.create_thread(TestCaller::Local).await;
    let first = stream_run(&server, &thread, &run_body("a", &json!({}))).await;
    let second = stream_run(&server, &thread, &run_body("b", &json!({}))).await;
    let queued = server.get(&format!("/threads/{thread}/runs/{}", second.run_id())).await.1;
    assert_eq!(queued["status"], "pending");
    let reject = run_body("c", &json!({"multitask_strategy": "reject"}));
    for path in ["runs", "runs/stream", "runs/wait"] {
        let (status, response) = server.post(&format!("/threads/{thread}/{path}"), &reject).await;
        assert_eq!(status, 409, "{path}");
        assert!(
            response["detail"].as_str().unwrap().starts_with("Thread is already running a task."),
            "{response}"
        );
    }
    // A queued run is cancelled without having started.
    let third = stream_run(&server, &thread, &run_body("d", &json!({}))).await;
    let run = third.run_id();
    assert_eq!(server.post(&format!("/threads/{thread}/runs/{run}/cancel?wait=1"), &json!({})).await.0, 200);
    assert_eq!(event_names(&third.read_to_end().await), ["end"]);
    server.model.open_gate("first");
    assert_eq!(message_texts(&first.read_to_end().await[2].data), ["a", "one"]);
    let second = second.read_to_end().await;
    assert_eq!(event_names(&second), ["metadata", "values", "values", "end"]);
    assert_eq!(message_texts(&second[2].data), ["a", "one", "b", "two"]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s7_background_runs_can_be_joined_listed_and_deleted() {
    let server = start_with_replies([
        gated_reply(streamed_reply("one"), "a", GatePosition::Start),
        streamed_reply("two"),
    ])
    .await;
    let thread = server.create_thread(TestCaller::Local).await;
    let runs = format!("/threads/{thread}/runs");
    let request = server
        .request(TestCaller::Local, Method::POST, &runs)
        .json(&run_body("hi", &json!({"metadata": {"k": "v"}})));
    let response = request.send().await.unwrap();
    let location = response.headers()["content-location"].to_str().unwrap().to_owned();
    let run: Value = response.json().await.unwrap();
    assert_eq!((&run["status"], &run["metadata"]["k"]), (&json!("pending"), &json!("v")));
    assert_eq!(location, format!("{runs}/{}", run["run_id"].as_str().unwrap()));
    server.model.open_gate("a");
    let (status, values) = server.get(&format!("{location}/join")).await;
    assert_eq!((status.as_u16(), message_texts(&values)), (200, vec!["hi".to_owned(), "one".to_owned()]));
    let (_, values) = server.post(&format!("{runs}/wait"), &run_body("more", &json!({}))).await;
    assert_eq!(message_texts(&values).last().unwrap(), "two");
    let (_, all) = server.get(&runs).await;
    assert_eq!(all.as_array().unwrap().len(), 2);
    assert_eq!(all[1]["run_id"], run["run_id"], "newest first");
    let (_, selected) =
        server.get(&format!("{runs}?limit=1&offset=1&status=success&select=run_id&select=status")).await;
    assert_eq!(selected, json!([{"run_id": run["run_id"], "status": "success"}]));
    assert_eq!(server.get(&format!("{runs}?status=nope")).await.0, 422);
    assert_eq!(server.get(&format!("{runs}?limit=0")).await.0, 422);
    assert_eq!(server.get(&format!("/threads/{UNKNOWN_ID}/runs")).await.0, 404);
    assert_eq!(server.send(TestCaller::Local, Method::DELETE, &location, &json!({})).await.0, 204);
    assert_eq!(server.get(&location).await.0, 404);
    assert_eq!(server.send(TestCaller::Local, Method::DELETE, &location, &json!({})).await.0, 404);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s7_an_invalid_run_is_refused_before_anything_is_stored() {
    let server = start_with_replies([streamed_reply("one")]).await;
    let thread = server.create_thread(TestCaller::Local).await;
    let path = format!("/threads/{thread}/runs/stream");
    let cases = [
        (json!({"assistant_id": "nobody"}), 422, "Invalid assistant"),
        (json!({"assistant_id": UNKNOWN_ID}), 404, "Thread or assistant not found."),
        (json!({}), 422, "assistant_id"),
        (json!({"assistant_id": "agent", "stream_mode": ["nope"]}), 422, "messages-tuple"),
        (
            json!({"assistant_id": "agent", "context": {"a": 1}, "config": {"configurable": {"b": 1}}}),
            400,
            "context",
        ),
    ];
    for (body, expected, expected_text) in cases {
        let (status, response) = server.post(&path, &body).await;
        assert_eq!(status, expected, "{body}: {response}");
        assert!(response["detail"].as_str().unwrap().contains(expected_text), "{response}");
    }
    let missing = run_body("hi", &json!({}));
    let (status, response) = server.post(&format!("/threads/{UNKNOWN_ID}/runs/wait"), &missing).await;
    assert_eq!((status.as_u16(), response["detail"].as_str()), (404, Some("Thread or assistant not found.")));
    assert_eq!(server.get(&format!("/threads/{thread}/runs")).await.1, json!([]));
    let creating = run_body("hi", &json!({"if_not_exists": "create"}));
    assert_eq!(server.post(&format!("/threads/{UNKNOWN_ID}/runs/wait"), &creating).await.0, 200);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s14_a_run_without_a_thread_gets_a_temporary_thread() {
    let server = start_with_replies([ScriptedReply { always: true, ..streamed_reply("one") }]).await;
    let request =
        server.request(TestCaller::Local, Method::POST, "/runs/wait").json(&run_body("hi", &json!({})));
    let response = request.send().await.unwrap();
    let location = response.headers()["content-location"].to_str().unwrap().to_owned();
    let values: Value = response.json().await.unwrap();
    assert_eq!(message_texts(&values), ["hi", "one"]);
    let thread = location.split('/').nth(2).unwrap().to_owned();
    let deletion = async {
        while server.get(&format!("/threads/{thread}")).await.0 != 404 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), deletion)
        .await
        .expect("the thread is deleted with its run");
    let keep = run_body("hi", &json!({"on_completion": "keep"}));
    let events =
        SseReader::open(server.request(TestCaller::Local, Method::POST, "/runs/stream").json(&keep)).await;
    let run = events.run_id();
    assert_eq!(events.header("content-location"), format!("/runs/{run}"));
    let thread = events.header("location").split('/').nth(2).unwrap().to_owned();
    assert_eq!(event_names(&events.read_to_end().await), ["metadata", "values", "values", "end"]);
    assert_eq!(server.get(&format!("/threads/{thread}")).await.0, 200);
    let (status, runs) = server.post("/runs/batch", &json!([keep, keep])).await;
    assert_eq!((status.as_u16(), runs.as_array().unwrap().len()), (200, 2));
    assert_eq!(server.post("/runs/batch", &json!([])).await.0, 422);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s10_4_a_stream_of_a_thread_contains_all_its_runs() {
    let server = start_with_replies([ScriptedReply { always: true, ..streamed_reply("one") }]).await;
    let thread = server.create_thread(TestCaller::Local).await;
    let path = format!("/threads/{thread}/stream");
    let mut followed = SseReader::open(server.request(TestCaller::Local, Method::GET, &path)).await;
    let mut runs = Vec::new();
    for _ in 0..2 {
        let events = stream_run(&server, &thread, &run_body("hi", &json!({"stream_resumable": true}))).await;
        runs.push(events.run_id());
        events.read_to_end().await;
    }
    let mut received = Vec::new();
    for run in &runs {
        let first = followed.next().await.unwrap();
        assert_eq!((first.name.as_str(), &first.data["run_id"]), ("metadata", &json!(run)));
        let run_events = followed.read_until("metadata").await;
        assert_eq!(event_names(&run_events), ["values", "values", "metadata"]);
        assert_eq!(run_events[2].data, json!({"status": "run_done", "run_id": run}));
        received.push(first);
        received.extend(run_events);
    }
    assert!(received.iter().all(|event| event.id.is_some()));
    let rejoin = server.request(TestCaller::Local, Method::GET, &path).header("last-event-id", "-");
    let mut replayed = SseReader::open(rejoin).await;
    for event in &received {
        assert_eq!(replayed.next().await.unwrap().text, event.text);
    }
    let lifecycle_only =
        server.request(TestCaller::Local, Method::GET, &format!("{path}?stream_modes=lifecycle"));
    let mut lifecycle_only = SseReader::open(lifecycle_only.header("last-event-id", "-")).await;
    for _ in 0..4 {
        assert_eq!(lifecycle_only.next().await.unwrap().name, "metadata");
    }
    assert_eq!(server.get(&format!("/threads/{UNKNOWN_ID}/stream")).await.0, 404);
    assert_eq!(server.get(&format!("{path}?stream_modes=nope")).await.0, 422);
    server.stop().await;
}

/// Sends a run request over a plain TCP connection. `length` is the announced length of the body, which may be
/// longer than `body`.
async fn send_raw_request(server: &ServerFixture, thread: &str, length: usize, body: &str) -> TcpStream {
    let address = server.url.strip_prefix("http://").unwrap();
    let mut socket = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /threads/{thread}/runs/stream HTTP/1.1\r\nhost: {address}\r\nx-api-key: {}\r\ncontent-length: {length}\r\n\r\n{body}",
        server.token
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    socket
}

#[tokio::test(flavor = "multi_thread")]
async fn i6_a_client_that_never_reads_does_not_delay_its_run() {
    let long =
        ScriptedReply { text: vec!["x".repeat(1_000); 2_000], always: true, ..ScriptedReply::default() };
    let server = start_with_replies([long]).await;
    let thread = server.create_thread(TestCaller::Local).await;
    // Each delta is requested with the whole text before it, which is far more than the connection's buffers hold.
    let body = run_body("hi", &json!({"stream_mode": ["messages", "values"]})).to_string();
    let unread = send_raw_request(&server, &thread, body.len(), &body).await;
    let runs = format!("/threads/{thread}/runs");
    let ended = async {
        loop {
            let (_, runs) = server.get(&runs).await;
            if runs[0]["status"] == "success" {
                break;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), ended).await.expect("the run ends although nobody reads");
    drop(unread);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_cut_off_leaves_nothing_behind() {
    let server = start_with_replies([streamed_reply("one")]).await;
    let thread = server.create_thread(TestCaller::Local).await;
    let whole = run_body("hi", &json!({})).to_string();
    for cut in [0, 1, whole.len() / 2, whole.len() - 1] {
        let mut socket = send_raw_request(&server, &thread, whole.len(), &whole[..cut]).await;
        socket.shutdown().await.unwrap();
        let mut response = Vec::new();
        // With or without a response, the server closes the connection.
        drop(socket.read_to_end(&mut response).await);
        let response = String::from_utf8_lossy(&response);
        assert!(response.is_empty() || response.starts_with("HTTP/1.1 4"), "{response}");
    }
    assert_eq!(server.get(&format!("/threads/{thread}/runs")).await.1, json!([]));
    assert_eq!(
        event_names(&stream_run(&server, &thread, &run_body("hi", &json!({}))).await.read_to_end().await)
            .len(),
        4
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_without_a_usable_model_is_kept_and_the_error_has_a_hint() {
    // The settings name a model without a key.
    let server = ServerFixture::in_folder(
        ScriptedServer::start(new_script([])).unwrap(),
        TestFolder::new(),
        |settings| settings,
    )
    .await;
    let thread = server.create_thread(TestCaller::Local).await;
    let path = format!("/threads/{thread}/runs/wait");
    let (status, result) = server.post(&path, &run_body("Hello.", &json!({}))).await;
    assert_eq!((status.as_u16(), &result["__error__"]["error"]), (200, &json!("RunError")), "{result}");
    let state = server.get(&format!("/threads/{thread}/state")).await.1;
    assert_eq!(message_texts(&state["values"]), ["Hello."]);
    let (_, thread_row) = server.get(&format!("/api/threads/{thread}")).await;
    let run = &thread_row["last_run"];
    assert_eq!((&run["status"], &run["error_kind"]), (&json!("error"), &json!("config")), "{run}");
    assert!(run["error"].as_str().unwrap().contains("set ANTHROPIC_API_KEY"), "{run}");
    assert!(run["hint"].as_str().unwrap().contains("segue models"), "{run}");
    assert_eq!(result["__error__"]["message"], run["error"]);
    assert_eq!(result["__error__"]["hint"], run["hint"], "{result}");
    assert_eq!(server.model.call_count(), 0);
    server.stop().await;
}
