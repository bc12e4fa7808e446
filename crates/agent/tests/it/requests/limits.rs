//! Tests of the limits of a run request: breakpoints and the maximum number of steps.

use agent::ApprovalPolicy;
use protocol::{RunId, RunStatus, ThreadStatus};
use serde_json::json;
use test_model::{ScriptedFault, ScriptedReply};

use super::{RequestFixture, approve, assert_fault, done_reply, run, user_request, write_call};
use crate::environment::unwatched;

/// Sets a field of a request.
fn with_field(mut request: serde_json::Value, key: &str, value: serde_json::Value) -> serde_json::Value {
    request[key] = value;
    request
}

#[tokio::test]
async fn a_breakpoint_stops_the_run_and_the_next_run_resumes_there() {
    for (key, next) in [("interrupt_before", "tools"), ("interrupt_after", "model")] {
        let fixture =
            RequestFixture::new([ScriptedReply::call("c1", "ls", json!({"path": "."})), done_reply()]).await;
        let end = fixture.run(with_field(user_request("Look."), key, json!(["tools"]))).await;
        assert_eq!((end.status, end.interrupts.len()), (RunStatus::Interrupted, 0), "{key}: {end:?}");
        assert_eq!(fixture.next().await.as_deref(), Some(next), "{key}");
        assert_eq!(fixture.row().await.status, ThreadStatus::Interrupted, "{key}");
        let end = fixture.run(with_field(json!({"input": null}), key, json!(["tools"]))).await;
        assert_eq!(end.status, RunStatus::Success, "{key}: {end:?}");
        assert_eq!((fixture.transcript_lines().await.len(), fixture.server.call_count()), (4, 2), "{key}");
    }
}

#[tokio::test]
async fn a_breakpoint_at_every_node_lets_a_client_walk_step_by_step() {
    let fixture =
        RequestFixture::new([ScriptedReply::call("c1", "ls", json!({"path": "."})), done_reply()]).await;
    let mut stops = Vec::new();
    let mut end = fixture.run(with_field(user_request("Look."), "interrupt_before", json!(["*"]))).await;
    while end.status == RunStatus::Interrupted {
        stops.push(fixture.next().await.unwrap());
        assert!(stops.len() < 20, "{stops:?}");
        end = fixture.run(json!({"interrupt_before": ["*"]})).await;
    }
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    let stop_count = |node: &str| stops.iter().filter(|stop| *stop == node).count();
    assert_eq!((stop_count("model"), stop_count("tools")), (2, 1), "{stops:?}");
    assert_eq!(fixture.server.call_count(), 2, "no model call is repeated");
}

#[tokio::test]
async fn an_unknown_node_as_breakpoint_is_an_error() {
    let fixture = RequestFixture::new([done_reply()]).await;
    let end = fixture.run(with_field(user_request("Look."), "interrupt_before", json!(["nowhere"]))).await;
    assert_fault(&end, "ConfigurationError");
    assert_eq!((fixture.transcript_lines().await.len(), fixture.server.call_count()), (0, 0));
}

#[tokio::test]
async fn a_client_can_lower_the_step_limit() {
    let ls = || ScriptedReply::call("c", "ls", json!({"path": "."})).with_repeat();
    let fixture = RequestFixture::new([ls()]).await;
    let config = json!({"recursion_limit": 7, "tags": ["x"], "configurable": {"thread_id": "y"}});
    let end = fixture.run(with_field(user_request("Look."), "config", config)).await;
    assert_eq!(end.status, RunStatus::Timeout, "{end:?}");
    let failure = end.failure.as_ref().unwrap();
    assert_eq!(failure.kind.class_name(), "GraphRecursionError", "{failure:?}");
    assert!(failure.hint.as_ref().unwrap().contains("raise the step limit"), "{failure:?}");
    let calls = fixture.server.call_count();
    assert!((1..=4).contains(&calls), "{calls}");
    for bad in [json!(0), json!(-1), json!("many"), json!(1.5)] {
        let end =
            fixture.run(with_field(user_request("Look."), "config", json!({"recursion_limit": bad}))).await;
        assert_fault(&end, "ConfigurationError");
    }
    assert_eq!(fixture.server.call_count(), calls);
}

#[tokio::test]
async fn invalid_and_empty_requests_keep_the_position_of_a_stopped_thread() {
    let fixture =
        RequestFixture::new([ScriptedReply::call("c1", "ls", json!({"path": "."})), done_reply()]).await;
    fixture.run(with_field(user_request("Look."), "interrupt_before", json!(["tools"]))).await;
    let approve = super::approve();
    let unknown_question = json!({"0123456789abcdef0123456789abcdef": approve});
    for run_request in [
        json!({"command": {"resume": unknown_question}, "strict_resume": true}),
        json!({"command": {"resume": approve}}),
    ] {
        let before = fixture.row().await;
        let is_strict = run_request.get("strict_resume").is_some();
        fixture.run(run_request.clone()).await;
        let after = fixture.row().await;
        assert_eq!(
            (after.status, fixture.next().await.as_deref()),
            (ThreadStatus::Interrupted, Some("tools"))
        );
        assert!(!is_strict || after == before, "{after:?}");
    }
    let end = fixture.run(json!({"input": null, "config": {"recursion_limit": 0}})).await;
    assert_fault(&end, "ConfigurationError");
    assert_eq!(fixture.row().await.status, ThreadStatus::Error, "the newest run failed");
    assert_eq!(fixture.run(json!({"command": {"resume": approve}})).await.status, RunStatus::Success);
    assert_eq!(fixture.row().await.status, ThreadStatus::Error, "the run did nothing");
    let end = fixture.run(json!({"input": null})).await;
    assert_eq!((end.status, fixture.row().await.status), (RunStatus::Success, ThreadStatus::Idle));
}

#[tokio::test]
async fn a13_the_request_of_a_run_that_cannot_start_is_stored_with_the_run() {
    let fixture = RequestFixture::new([done_reply()]).await;
    for is_queued in [false, true] {
        let (run_id, run_request) = (
            protocol::RunId::generate(),
            with_field(user_request("Look."), "config", json!({"recursion_limit": 0})),
        );
        let run_request = super::request(run_request);
        let (frames, cancel) = crate::environment::unwatched();
        let started = match is_queued {
            true => {
                fixture.agent.runs().enqueue(run_id, fixture.thread, &run_request).await.unwrap();
                fixture
                    .agent
                    .runs()
                    .begin_queued(run_id, fixture.thread, &run_request, &frames)
                    .await
                    .unwrap()
            }
            false => fixture.agent.runs().begin(run_id, fixture.thread, &run_request, &frames).await.unwrap(),
        };
        let end = fixture.agent.runs().drive_started(started, &frames, &cancel).await.unwrap();
        assert_fault(&end, "ConfigurationError");
        assert_eq!(fixture.agent.store().run_requests(&[run_id]).await.unwrap(), [(run_id, run_request)]);
        assert_eq!(fixture.row().await.status, ThreadStatus::Error);
    }
}

#[tokio::test]
async fn k4_a_large_request_that_cannot_start_is_stored_without_its_messages_and_the_webhooks_query() {
    let fixture = RequestFixture::new([done_reply()]).await;
    for (text, is_stored) in [("Look.".to_owned(), true), ("x".repeat(100_000), false)] {
        let run_request = with_field(user_request(&text), "config", json!({"recursion_limit": 0}));
        let run_request =
            super::request(with_field(run_request, "webhook", json!("https://example.org/hook?key=k")));
        let run_id = protocol::RunId::generate();
        let (frames, _) = crate::environment::unwatched();
        fixture.agent.runs().begin(run_id, fixture.thread, &run_request, &frames).await.unwrap();
        let (_, stored) = fixture.agent.store().run_requests(&[run_id]).await.unwrap().pop().unwrap();
        let expected =
            if is_stored { run_request.input.clone() } else { run_request.without_input_messages().input };
        assert_eq!((stored.input, stored.webhook.as_deref()), (expected, Some("https://example.org/hook")));
        let pending_webhook = fixture.agent.runs().pending_webhook(run_id).await.unwrap().unwrap();
        assert_eq!(pending_webhook.url, "https://example.org/hook?key=k");
    }
}

#[tokio::test]
async fn h7_a_run_that_another_process_resumes_keeps_its_breakpoints_and_its_step_limit() {
    for (key, value, status) in [
        ("interrupt_before", json!(["tools"]), RunStatus::Interrupted),
        ("config", json!({"recursion_limit": 3}), RunStatus::Timeout),
    ] {
        let look = ScriptedReply::call("c1", "ls", json!({"path": "."}));
        let fixture =
            RequestFixture::new([ScriptedReply::fault(ScriptedFault::Hang), look, done_reply()]).await;
        let RequestFixture { environment, server, agent, thread } = fixture;
        let run_request = super::request(with_field(user_request("Look."), key, value));
        let (frames, cancel) = unwatched();
        let started = agent.runs().begin(RunId::generate(), thread, &run_request, &frames).await.unwrap();
        tokio::select! {
            // The run is dropped during its first model call, as when its process exits.
            end = agent.runs().drive_started(started, &frames, &cancel) => panic!("{key}: {end:?}"),
            () = server.wait_for_calls(1) => {}
        }
        drop(agent);
        let second = environment.agent_with_policy(&server, ("", ApprovalPolicy::Ask));
        let end = second.runs().recover(thread, &frames, &cancel).await.unwrap().unwrap();
        assert_eq!(end.status, status, "{key}: {end:?}");
        assert_eq!(server.call_count(), 2, "{key}: the run stops before the result of its tool call is sent");
    }
}

#[tokio::test]
async fn h7_another_process_has_the_context_the_folder_and_the_question_of_a_thread() {
    let fixture = RequestFixture::new([write_call("c1", "a"), done_reply()]).await;
    fixture.say("Write.").await;
    let RequestFixture { environment, server, agent, thread } = fixture;
    let context = agent.threads().context_report(thread).await.unwrap();
    let pending = agent.runs().pending_interrupts(thread).await.unwrap();
    assert!(context.tokens > 0 && context.message_count >= 2, "{context:?}");
    assert_eq!(pending.len(), 1, "{pending:?}");
    drop(agent);
    let second = environment.agent_with_policy(&server, ("", ApprovalPolicy::Ask));
    let again = second.threads().context_report(thread).await.unwrap();
    assert_eq!((again.tokens, again.message_count), (context.tokens, context.message_count));
    assert_eq!(second.runs().pending_interrupts(thread).await.unwrap(), pending);
    let end = run(&second, thread, json!({"command": {"resume": approve()}})).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(environment.read_file("a"), "a", "the call was made in the folder of the question");
}
