//! The limits of a request: where the run stops and how many steps it takes.

use protocol::{RunStatus, ThreadStatus};
use serde_json::json;
use test_model::ScriptedReply;

use super::{RequestFixture, assert_fault, done_reply, user_request};

fn with_field(mut request: serde_json::Value, key: &str, value: serde_json::Value) -> serde_json::Value {
    request[key] = value;
    request
}

#[tokio::test]
async fn a_breakpoint_stops_the_run_and_it_goes_on_from_there() {
    for (key, next) in [("interrupt_before", "tools"), ("interrupt_after", "model")] {
        let desk =
            RequestFixture::new([ScriptedReply::call("c1", "ls", json!({"path": "."})), done_reply()]).await;
        let end = desk.run(with_field(user_request("Look."), key, json!(["tools"]))).await;
        assert_eq!((end.status, end.interrupts.len()), (RunStatus::Interrupted, 0), "{key}: {end:?}");
        assert_eq!(desk.next().await.as_deref(), Some(next), "{key}");
        assert_eq!(desk.row().await.status, ThreadStatus::Interrupted, "{key}");
        let end = desk.run(with_field(json!({"input": null}), key, json!(["tools"]))).await;
        assert_eq!(end.status, RunStatus::Success, "{key}: {end:?}");
        assert_eq!((desk.transcript_lines().await.len(), desk.server.call_count()), (4, 2), "{key}");
    }
}

#[tokio::test]
async fn a_breakpoint_at_every_node_lets_a_client_walk_step_by_step() {
    let desk =
        RequestFixture::new([ScriptedReply::call("c1", "ls", json!({"path": "."})), done_reply()]).await;
    let mut stops = Vec::new();
    let mut end = desk.run(with_field(user_request("Look."), "interrupt_before", json!(["*"]))).await;
    while end.status == RunStatus::Interrupted {
        stops.push(desk.next().await.unwrap());
        assert!(stops.len() < 20, "{stops:?}");
        end = desk.run(json!({"interrupt_before": ["*"]})).await;
    }
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    let at = |node: &str| stops.iter().filter(|stop| *stop == node).count();
    assert_eq!((at("model"), at("tools")), (2, 1), "{stops:?}");
    assert_eq!(desk.server.call_count(), 2, "no model is asked twice");
}

#[tokio::test]
async fn a_node_that_is_not_there_is_no_breakpoint() {
    let desk = RequestFixture::new([done_reply()]).await;
    let end = desk.run(with_field(user_request("Look."), "interrupt_before", json!(["nowhere"]))).await;
    assert_fault(&end, "ConfigurationError");
    assert_eq!((desk.transcript_lines().await.len(), desk.server.call_count()), (0, 0));
}

#[tokio::test]
async fn a_client_lowers_the_limit_of_steps() {
    let ls = || ScriptedReply::call("c", "ls", json!({"path": "."})).with_repeat();
    let desk = RequestFixture::new([ls()]).await;
    let config = json!({"recursion_limit": 7, "tags": ["x"], "configurable": {"thread_id": "y"}});
    let end = desk.run(with_field(user_request("Look."), "config", config)).await;
    assert_eq!(end.status, RunStatus::Timeout, "{end:?}");
    assert_eq!(end.failure.as_ref().unwrap().kind.class_name(), "GraphRecursionError", "{end:?}");
    let calls = desk.server.call_count();
    assert!((1..=4).contains(&calls), "{calls}");
    for bad in [json!(0), json!(-1), json!("many"), json!(1.5)] {
        let end =
            desk.run(with_field(user_request("Look."), "config", json!({"recursion_limit": bad}))).await;
        assert_fault(&end, "ConfigurationError");
    }
    assert_eq!(desk.server.call_count(), calls);
}

#[tokio::test]
async fn what_cannot_be_met_and_what_does_nothing_leave_a_thread_that_stopped_where_it_is() {
    let desk =
        RequestFixture::new([ScriptedReply::call("c1", "ls", json!({"path": "."})), done_reply()]).await;
    desk.run(with_field(user_request("Look."), "interrupt_before", json!(["tools"]))).await;
    let approve = super::approve();
    let gone = json!({"0123456789abcdef0123456789abcdef": approve});
    for asked in
        [json!({"command": {"resume": gone}, "strict_resume": true}), json!({"command": {"resume": approve}})]
    {
        let before = desk.row().await;
        let is_strict = asked.get("strict_resume").is_some();
        desk.run(asked.clone()).await;
        let after = desk.row().await;
        assert_eq!((after.status, desk.next().await.as_deref()), (ThreadStatus::Interrupted, Some("tools")));
        assert!(!is_strict || after == before, "{after:?}");
    }
    let end = desk.run(json!({"input": null, "config": {"recursion_limit": 0}})).await;
    assert_fault(&end, "ConfigurationError");
    assert_eq!(desk.row().await.status, ThreadStatus::Error, "its newest run failed");
    assert_eq!(desk.run(json!({"command": {"resume": approve}})).await.status, RunStatus::Success);
    assert_eq!(desk.row().await.status, ThreadStatus::Error, "nothing was done");
    let end = desk.run(json!({"input": null})).await;
    assert_eq!((end.status, desk.row().await.status), (RunStatus::Success, ThreadStatus::Idle));
}

#[tokio::test]
async fn a13_what_came_with_a_run_that_could_not_begin_is_kept_beside_it() {
    let desk = RequestFixture::new([done_reply()]).await;
    for is_queued in [false, true] {
        let (run_id, asked) = (
            protocol::RunId::generate(),
            with_field(user_request("Look."), "config", json!({"recursion_limit": 0})),
        );
        let asked = super::request(asked);
        let (frames, cancel) = crate::environment::unwatched();
        let begun = match is_queued {
            true => {
                desk.agent.runs().enqueue(run_id, desk.thread, &asked).await.unwrap();
                desk.agent.runs().begin_queued(run_id, desk.thread, &asked, &frames).await.unwrap()
            }
            false => desk.agent.runs().begin(run_id, desk.thread, &asked, &frames).await.unwrap(),
        };
        let end = desk.agent.runs().drive_started(begun, &frames, &cancel).await.unwrap();
        assert_fault(&end, "ConfigurationError");
        assert_eq!(desk.agent.store().run_requests(&[run_id]).await.unwrap(), [(run_id, asked)]);
        assert_eq!(desk.row().await.status, ThreadStatus::Error);
    }
}

#[tokio::test]
async fn k4_of_a_large_request_that_could_not_begin_and_of_its_webhook_no_more_is_kept_than_of_another() {
    let desk = RequestFixture::new([done_reply()]).await;
    for (text, is_kept) in [("Look.".to_owned(), true), ("x".repeat(100_000), false)] {
        let asked = with_field(user_request(&text), "config", json!({"recursion_limit": 0}));
        let asked = super::request(with_field(asked, "webhook", json!("https://example.org/hook?key=k")));
        let run_id = protocol::RunId::generate();
        let (frames, _) = crate::environment::unwatched();
        desk.agent.runs().begin(run_id, desk.thread, &asked, &frames).await.unwrap();
        let (_, kept) = desk.agent.store().run_requests(&[run_id]).await.unwrap().pop().unwrap();
        let expected = if is_kept { asked.input.clone() } else { asked.without_input_messages().input };
        assert_eq!((kept.input, kept.webhook.as_deref()), (expected, Some("https://example.org/hook")));
        let owed = desk.agent.runs().pending_webhook(run_id).await.unwrap().unwrap();
        assert_eq!(owed.url, "https://example.org/hook?key=k");
    }
}
