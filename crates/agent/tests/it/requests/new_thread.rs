//! The first run of a thread that is made with it.

use agent::{Agent, NewThread};
use protocol::{RunId, RunStatus, ThreadStatus};
use serde_json::{Map, Value, json};
use test_model::ScriptedReply;

use super::{RequestFixture, assert_fault, request, transcript_lines, user_request};
use crate::environment::unwatched;

async fn first_run(agent: &Agent, new: &NewThread, asked: Value) -> agent::RunEnd {
    let (frames, cancel) = unwatched();
    let begun =
        agent.runs().begin_on_new_thread(RunId::generate(), new, &request(asked), &frames).await.unwrap();
    let thread = agent.store().thread(new.thread_id()).await.unwrap();
    assert!(thread.is_some(), "the thread is there as soon as its run has begun");
    agent.runs().drive_started(begun, &frames, &cancel).await.unwrap()
}

#[tokio::test]
async fn b1_a_thread_is_made_with_its_first_run_as_it_is_made_alone() {
    let desk = RequestFixture::new([ScriptedReply::text("Hi.").with_repeat()]).await;
    let agent = &desk.agent;
    let notes = Map::from_iter([("title".to_owned(), json!("x")), ("owner".to_owned(), json!("bob"))]);
    let new = agent.threads().prepare_new_thread(notes).unwrap();
    assert_eq!(agent.store().thread(new.thread_id()).await.unwrap(), None, "nothing is stored yet");
    let end = first_run(agent, &new, user_request("Hello.")).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(transcript_lines(agent, new.thread_id()).await, ["U: Hello.", "A: Hi."]);

    desk.say("Hello.").await;
    let (made, alone) = (agent.store().thread(new.thread_id()).await.unwrap().unwrap(), desk.row().await);
    assert_eq!((made.status, made.message_count), (ThreadStatus::Idle, 2));
    assert_eq!((&made.metadata["title"], made.metadata.get("owner")), (&json!("x"), None));
    for key in ["graph_id", "assistant_id", "workspace"] {
        assert_eq!(made.metadata[key], alone.metadata[key], "{key}");
    }
    let types = async |thread_id| {
        let query = journal::EventQuery { limit: 100, ..journal::EventQuery::default() };
        let events = agent.store().events(thread_id, query).await.unwrap();
        events.into_iter().map(|event| (event.seq, event.event_type)).collect::<Vec<_>>()
    };
    assert_eq!(types(new.thread_id()).await, types(desk.thread).await, "the same events in the same order");
}

#[tokio::test]
async fn i2_what_is_no_turn_and_what_cannot_be_met_finds_the_thread_made() {
    let desk = RequestFixture::new([ScriptedReply::text("Hi.").with_repeat()]).await;
    let agent = &desk.agent;
    for (asked, fault) in [
        (json!({"input": null}), Some("EmptyInputError")),
        (json!({"input": {}}), Some("EmptyInputError")),
        (json!({"input": null, "command": {"goto": "__end__"}}), None),
        (
            json!({"input": {"messages": [{"role": "user", "content": "x"}]}, "interrupt_before": ["nowhere"]}),
            Some("ConfigurationError"),
        ),
    ] {
        let new = agent.threads().prepare_new_thread(Map::new()).unwrap();
        let end = first_run(agent, &new, asked.clone()).await;
        match fault {
            Some(fault) => assert_fault(&end, fault),
            None => assert_eq!(end.status, RunStatus::Success, "{asked}: {end:?}"),
        }
    }
    // What the model said elsewhere is put in like any other message.
    let new = agent.threads().prepare_new_thread(Map::new()).unwrap();
    let put_in = json!([{"role": "user", "content": "A?"}, {"type": "ai", "id": "a1", "content": "B."}, {"role": "user", "content": "C?"}]);
    let end = first_run(agent, &new, json!({"input": {"messages": put_in}})).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(transcript_lines(agent, new.thread_id()).await, ["U: A?", "A: B.", "U: C?", "A: Hi."]);
}
