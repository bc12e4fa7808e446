//! Turns through the agent: streamed, cancelled, recovered.

mod approval;
mod lease;
mod rewind;
mod stream;
mod subagent;
mod window;

use agent::{CancellationToken, Error, Frame, Frames, Item};
use protocol::{Message, RunStatus};
use scripted::{Fault, Reply, Script, Server};
use serde_json::json;

use crate::world::{World, messages, quiet};

#[tokio::test]
async fn a_turn_runs_tools_until_the_model_rests() {
    let world = World::new();
    let call = Reply::call("call_1", "ls", json!({"path": "."}));
    let server = Server::start(Script::new([call, Reply::pieces(["There is ", "one file."])])).unwrap();
    let agent = world.agent_with(&server);
    std::fs::write(agent.workspace().join("notes.txt"), "hello").unwrap();
    let thread = agent.create_thread(None).await.unwrap().thread_id;
    let (frames, mut receiver) = Frames::channel();
    let end = agent.send(thread, "What is here?", &frames, &CancellationToken::new()).await.unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    drop(frames);
    let mut streamed = String::new();
    while let Some(Item::Frame(_, frame)) = receiver.next().await {
        if let Frame::Text { text, .. } = &*frame {
            streamed.push_str(text);
        }
    }
    let messages = messages(&agent, thread).await;
    assert_eq!(messages.len(), 4);
    assert!(messages[2].text().contains("notes.txt"));
    assert_eq!(messages[3].text(), streamed, "i4: the deltas joined are the final message");
}

#[tokio::test]
async fn a13_the_message_is_journaled_before_the_model_is_called_even_if_the_call_fails() {
    let world = World::new();
    let server = Server::start(Script::new([Reply::status(401, "{}")])).unwrap();
    let (frames, cancel) = quiet();
    let agent = world.agent_with(&server);
    let thread = agent.create_thread(None).await.unwrap().thread_id;
    let end = agent.send(thread, "Hello.", &frames, &cancel).await.unwrap();
    assert_eq!((end.status, end.kind.as_deref()), (RunStatus::Error, Some("config")));
    assert!(end.hint.is_some());
    assert_eq!(messages(&agent, thread).await, [Message::human("Hello.")]);
}

#[tokio::test]
async fn a17_what_had_arrived_of_a_broken_answer_is_kept_and_marked() {
    let world = World::new();
    let half = Reply::text("Half an ans").then(Fault::Half);
    let server = Server::start(Script::new([half])).unwrap();
    let (frames, cancel) = quiet();
    let agent = world.agent_with(&server);
    let thread = agent.create_thread(None).await.unwrap().thread_id;
    let end = agent.send(thread, "Hello.", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Error);
    let messages = messages(&agent, thread).await;
    let Message::Ai(answer) = &messages[1] else { panic!("{messages:?}") };
    assert!(answer.incomplete);
    assert_eq!(messages[1].text(), "Half an ans");
}

#[tokio::test]
async fn a_stop_ends_the_run_cleanly_and_the_thread_goes_on() {
    let world = World::new();
    let stalled = Reply::text("Let me think").then(Fault::Stall);
    let server = Server::start(Script::new([stalled, Reply::text("Done.")])).unwrap();
    let agent = world.agent_with(&server);
    let thread = agent.create_thread(None).await.unwrap().thread_id;
    let cancel = CancellationToken::new();
    let (frames, mut receiver) = Frames::channel();
    let stop = cancel.clone();
    let stopper = tokio::spawn(async move {
        while let Some(Item::Frame(_, frame)) = receiver.next().await {
            if matches!(&*frame, Frame::Text { .. }) {
                stop.cancel();
            }
        }
    });
    let end = agent.send(thread, "Hello.", &frames, &cancel).await.unwrap();
    drop(frames);
    stopper.await.unwrap();
    assert_eq!(end.status, RunStatus::Cancelled);
    let (frames, cancel) = quiet();
    let end = agent.send(thread, "Go on.", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    let texts: Vec<String> = messages(&agent, thread).await.iter().map(Message::text).collect();
    assert_eq!(texts, ["Hello.", "Let me think", "Go on.", "Done."]);
}

#[tokio::test]
async fn without_a_model_nothing_is_journaled_and_the_way_out_is_named() {
    let world = World::new();
    let (frames, cancel) = quiet();
    let agent = world.agent();
    let thread = agent.create_thread(None).await.unwrap().thread_id;
    let error = agent.send(thread, "Hello.", &frames, &cancel).await.unwrap_err();
    assert!(matches!(error, Error::NoModel { .. }));
    assert!(error.hint().unwrap().contains("segue models"));
    assert_eq!(messages(&agent, thread).await, []);
}

#[tokio::test]
async fn j1_a_thread_that_another_process_works_on_is_busy_and_loses_nothing() {
    let world = World::new();
    let stalled = Reply::text("Working").then(Fault::Stall);
    let server = Server::start(Script::new([stalled])).unwrap();
    let (one, two) = (world.agent_with(&server), world.agent_with(&server));
    let thread = one.create_thread(None).await.unwrap().thread_id;
    let cancel = CancellationToken::new();
    let (frames, mut receiver) = Frames::channel();
    let first = one.send(thread, "First.", &frames, &cancel);
    let second = async {
        while !matches!(receiver.next().await, Some(Item::Frame(_, frame)) if matches!(&*frame, Frame::Text { .. }))
        {
        }
        let (frames, quiet) = quiet();
        let refused = two.send(thread, "Second.", &frames, &quiet).await;
        cancel.cancel();
        refused
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!(first.unwrap().status, RunStatus::Cancelled);
    let error = second.unwrap_err();
    assert_eq!(error.class(), agent::Class::Conflict, "{error}");
    assert!(error.hint().is_some());
    let texts: Vec<String> = messages(&one, thread).await.iter().map(Message::text).collect();
    assert_eq!(texts, ["First.", "Working"]);
}
