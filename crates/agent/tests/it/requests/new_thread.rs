//! Tests of creating a thread together with its first run.

use agent::{Agent, NewThread};
use protocol::{RunId, RunStatus, ThreadId, ThreadStatus};
use serde_json::{Map, Value, json};
use test_model::ScriptedReply;

use super::{RequestFixture, assert_fault, request, transcript_lines, user_request};
use crate::environment::unwatched;

/// Creates the thread with a run of the request, drives the run and returns its end.
async fn first_run(agent: &Agent, new: &NewThread, run_request: Value) -> agent::RunEnd {
    let (frames, cancel) = unwatched();
    let started = agent
        .runs()
        .begin_on_new_thread(RunId::generate(), new, &request(run_request), &frames)
        .await
        .unwrap();
    let thread = agent.store().thread(new.thread_id()).await.unwrap();
    assert!(thread.is_some(), "the thread exists as soon as its run has started");
    agent.runs().drive_started(started, &frames, &cancel).await.unwrap()
}

#[tokio::test]
async fn b1_a_thread_created_with_its_first_run_equals_one_created_alone() {
    let fixture = RequestFixture::new([ScriptedReply::text("Hi.").with_repeat()]).await;
    let agent = &fixture.agent;
    let metadata = Map::from_iter([("title".to_owned(), json!("x")), ("owner".to_owned(), json!("bob"))]);
    let new = agent.threads().prepare_new_thread(ThreadId::generate(), metadata).unwrap();
    assert_eq!(agent.store().thread(new.thread_id()).await.unwrap(), None, "nothing is stored yet");
    let end = first_run(agent, &new, user_request("Hello.")).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(transcript_lines(agent, new.thread_id()).await, ["U: Hello.", "A: Hi."]);

    fixture.say("Hello.").await;
    let (created, alone) =
        (agent.store().thread(new.thread_id()).await.unwrap().unwrap(), fixture.row().await);
    assert_eq!((created.status, created.message_count), (ThreadStatus::Idle, 2));
    assert_eq!((&created.metadata["title"], created.metadata.get("owner")), (&json!("x"), None));
    for key in ["graph_id", "assistant_id", "workspace"] {
        assert_eq!(created.metadata[key], alone.metadata[key], "{key}");
    }
    let types = async |thread_id| {
        let query = journal::EventQuery { limit: 100, ..journal::EventQuery::default() };
        let events = agent.store().events(thread_id, query).await.unwrap();
        events.into_iter().map(|event| (event.seq, event.event_type)).collect::<Vec<_>>()
    };
    assert_eq!(
        types(new.thread_id()).await,
        types(fixture.thread).await,
        "the same events in the same order"
    );
}

#[tokio::test]
async fn i2_a_request_that_runs_no_turn_or_is_invalid_still_creates_the_thread() {
    let fixture = RequestFixture::new([ScriptedReply::text("Hi.").with_repeat()]).await;
    let agent = &fixture.agent;
    for (run_request, fault) in [
        (json!({"input": null}), Some("EmptyInputError")),
        (json!({"input": {}}), Some("EmptyInputError")),
        (json!({"input": null, "command": {"goto": "__end__"}}), None),
        (
            json!({"input": {"messages": [{"role": "user", "content": "x"}]}, "interrupt_before": ["nowhere"]}),
            Some("ConfigurationError"),
        ),
    ] {
        let new = agent.threads().prepare_new_thread(ThreadId::generate(), Map::new()).unwrap();
        let end = first_run(agent, &new, run_request.clone()).await;
        match fault {
            Some(fault) => assert_fault(&end, fault),
            None => assert_eq!(end.status, RunStatus::Success, "{run_request}: {end:?}"),
        }
    }
    // A model message from another conversation is added like any other message.
    let new = agent.threads().prepare_new_thread(ThreadId::generate(), Map::new()).unwrap();
    let input_messages = json!([{"role": "user", "content": "A?"}, {"type": "ai", "id": "a1", "content": "B."}, {"role": "user", "content": "C?"}]);
    let end = first_run(agent, &new, json!({"input": {"messages": input_messages}})).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(transcript_lines(agent, new.thread_id()).await, ["U: A?", "A: B.", "U: C?", "A: Hi."]);
}
