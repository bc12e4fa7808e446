//! Tests of the options of a run request: stream modes, tags, metadata and limits.

use reqwest::Method;
use serde_json::{Value, json};
use test_model::{GatePosition, ScriptedReply};

use super::{message_texts, run_body, start_with_replies, stream_run, streamed_reply};
use crate::fixture::TestCaller;
use crate::sse::{SseReader, event_data, event_names};

/// Number of runs that are active at the same time.
const RUNS: usize = 6;

/// A step limit with which a run ends before its second model call.
const LOW_STEP_LIMIT: u64 = 3;

/// The gate at which the first reply of every run waits.
const GATE: &str = "every run has called the model";

fn prompt_of(number: usize) -> String {
    format!("Look around for request {number}.")
}

/// Returns the replies to the message of run `number`: a tool call, and an answer.
fn replies_of(number: usize) -> [ScriptedReply; 2] {
    let call = ScriptedReply::call(format!("call{number}"), "ls", json!({"path": "."}));
    let answer = ScriptedReply::text(format!("Answer {number}."));
    [call.with_gate(GATE, GatePosition::Start), answer]
        .map(|reply| reply.when_body_contains(prompt_of(number)))
}

/// Returns the options of run `number`. Every second run has a low step limit.
fn options_of(number: usize) -> Value {
    let mut config = json!({"tags": [format!("tag{number}")]});
    if number % 2 == 1 {
        config["recursion_limit"] = json!(LOW_STEP_LIMIT);
    }
    json!({"config": config, "metadata": {"number": number}, "stream_mode": ["messages-tuple", "values"]})
}

#[tokio::test(flavor = "multi_thread")]
async fn e15_concurrent_runs_share_neither_tags_nor_metadata_nor_limits() {
    let server = start_with_replies((0..RUNS).flat_map(replies_of)).await;
    let mut streams = Vec::new();
    for number in 0..RUNS {
        let thread = server.create_thread(TestCaller::Local).await;
        let body = run_body(&prompt_of(number), &options_of(number));
        let events = stream_run(&server, &thread, &body).await;
        streams.push((number, thread, events));
    }
    server.model.wait_for_calls(RUNS).await;
    server.model.open_gate(GATE);
    for (number, thread, events) in streams {
        let run = events.run_id();
        let events = events.read_to_end().await;
        let chunks = event_data(&events, "messages");
        assert!(!chunks.is_empty(), "run {number}: {events:?}");
        for chunk in chunks {
            let metadata = &chunk[1];
            assert_eq!(
                (&metadata["tags"], &metadata["number"], &metadata["run_id"]),
                (&json!([format!("tag{number}")]), &json!(number), &json!(run)),
                "{chunk}"
            );
        }
        let texts = message_texts(event_data(&events, "values").last().unwrap());
        assert_eq!(texts[0], prompt_of(number));
        let failures: Vec<&Value> =
            event_data(&events, "error").into_iter().map(|failure| &failure["error"]).collect();
        match number % 2 {
            1 => assert_eq!(failures, [&json!("GraphRecursionError")], "run {number}"),
            _ => {
                assert_eq!(failures, [&Value::Null; 0], "run {number}");
                assert_eq!(texts.last(), Some(&format!("Answer {number}.")));
            }
        }
        let (_, row) = server.get(&format!("/threads/{thread}/runs/{run}")).await;
        assert_eq!(row["metadata"]["number"], json!(number), "{row}");
    }
    let requests = server.model.requests();
    assert_eq!(requests.len(), RUNS + RUNS / 2, "a run with a low limit calls the model once");
    for request in requests {
        let body = request.body.to_string();
        let prompts = (0..RUNS).filter(|number| body.contains(&prompt_of(*number))).count();
        assert_eq!(prompts, 1, "{body}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i8_unknown_stream_modes_are_refused_with_the_known_ones_and_no_run_is_created() {
    let server = start_with_replies([streamed_reply("Hello.")]).await;
    let thread = server.create_thread(TestCaller::Local).await;
    let runs = format!("/threads/{thread}/runs");
    for path in [runs.clone(), format!("{runs}/stream"), format!("{runs}/wait"), "/runs/stream".to_owned()] {
        for modes in [json!("nope"), json!(["nope", "neither"])] {
            let body = run_body("hi", &json!({"stream_mode": modes}));
            let (status, refused) = server.post(&path, &body).await;
            let detail = refused["detail"].as_str().unwrap_or_default();
            assert_eq!(status, 422, "{path}: {refused}");
            for name in ["`nope", "values", "updates", "messages-tuple", "custom", "debug"] {
                assert!(detail.contains(name), "{path}, {name}: {detail}");
            }
        }
    }
    assert_eq!(server.get(&runs).await.1, json!([]));
    assert_eq!(server.model.call_count(), 0);
    server.stop().await;
}

/// The official SDKs send every option, and `null` for those that their caller has not set.
#[tokio::test(flavor = "multi_thread")]
async fn i8_a_request_with_every_option_of_an_sdk_unset_is_a_plain_run() {
    let server = start_with_replies([streamed_reply("Hello.")]).await;
    let thread = server.create_thread(TestCaller::Local).await;
    let unset = json!({
        "command": null, "config": null, "context": null, "metadata": null, "checkpoint": null,
        "checkpoint_id": null, "checkpoint_during": null, "durability": null, "interrupt_before": null,
        "interrupt_after": null, "feedback_keys": null, "webhook": null, "multitask_strategy": null,
        "if_not_exists": null, "on_disconnect": null, "on_completion": null, "after_seconds": null,
        "stream_mode": ["values"], "stream_subgraphs": false, "stream_resumable": false, "langsmith_tracer": null,
    });
    let path = format!("/threads/{thread}/runs/stream");
    let request = server.request(TestCaller::Local, Method::POST, &path).json(&run_body("hi", &unset));
    let events = SseReader::open(request).await.read_to_end().await;
    assert_eq!(event_names(&events), ["metadata", "values", "values", "end"]);
    assert_eq!(message_texts(&events[2].data), ["hi", "Hello."]);
    server.stop().await;
}
