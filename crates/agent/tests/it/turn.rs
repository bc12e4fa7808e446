//! Tests of turns through the agent: streaming, cancellation, failures and recovery.

mod approval;
mod journaling;
mod lease;
mod rewind;
mod stream;
mod subagent;
mod window;
mod workspace;

use agent::{CancellationToken, Frame, FrameSender, SubscriptionItem};
use protocol::{FailureKind, Message, RunStatus};
use serde_json::json;
use test_model::{Script, ScriptedFault, ScriptedReply, ScriptedServer};

use crate::environment::{
    CrashingStore, TEST_MODEL, TestEnvironment, answering_server, message_texts, messages, unwatched,
};

#[tokio::test]
async fn a_turn_runs_tools_until_the_model_requests_none() {
    let environment = TestEnvironment::new();
    let call = ScriptedReply::call("call_1", "ls", json!({"path": "."}));
    let server =
        ScriptedServer::start(Script::new([call, ScriptedReply::from_pieces(["There is ", "one file."])]))
            .unwrap();
    let agent = environment.agent_with(&server);
    std::fs::write(agent.workspace().join("notes.txt"), "hello").unwrap();
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let (frames, mut receiver) = FrameSender::channel();
    let end =
        agent.runs().send_message(thread, "What is here?", &frames, &CancellationToken::new()).await.unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    drop(frames);
    let mut streamed = String::new();
    while let Some(SubscriptionItem::Frame(_, frame)) = receiver.next().await {
        if let Frame::Text { text, .. } = &*frame {
            streamed.push_str(text);
        }
    }
    let messages = messages(&agent, thread).await;
    assert_eq!(messages.len(), 4);
    assert!(messages[2].text().contains("notes.txt"));
    assert_eq!(messages[3].text(), streamed, "i4: the deltas joined are the final message");
}

/// Each commit is synced to disk, which takes most of the time of a short turn.
#[tokio::test]
async fn a13_a_first_message_creates_its_thread_in_two_commits_and_the_same_events() {
    let environment = TestEnvironment::new();
    let server = answering_server("Hi.");
    environment.configure(&server);
    let store = CrashingStore::never_crash(environment.store());
    let agent = environment.agent_over(store.clone(), TEST_MODEL);
    let (frames, cancel) = unwatched();
    let new = agent.threads().prepare().unwrap();
    assert_eq!(agent.store().thread(new.thread_id()).await.unwrap(), None, "nothing is stored yet");
    let end = agent.runs().send_first_message(&new, "Hello.", &frames, &cancel).await.unwrap();
    assert_eq!((end.status, store.commit_count()), (RunStatus::Success, 2), "{end:?}");

    let other = agent.threads().create(None).await.unwrap().thread_id;
    agent.runs().send_message(other, "Hello.", &frames, &cancel).await.unwrap();
    assert_eq!(store.commit_count(), 5);
    let types = async |thread_id| {
        let query = journal::EventQuery { limit: 100, ..journal::EventQuery::default() };
        let events = agent.store().events(thread_id, query).await.unwrap();
        events.into_iter().map(|event| (event.seq, event.event_type)).collect::<Vec<_>>()
    };
    assert_eq!(types(new.thread_id()).await, types(other).await);
    let metadata = async |thread_id| agent.store().thread(thread_id).await.unwrap().unwrap().metadata;
    assert_eq!(metadata(new.thread_id()).await, metadata(other).await);
}

#[tokio::test]
async fn a13_a_first_message_that_no_model_can_answer_is_kept() {
    let environment = TestEnvironment::new();
    let agent = environment.agent();
    let (frames, cancel) = unwatched();
    let new = agent.threads().prepare().unwrap();
    let end = agent.runs().send_first_message(&new, "Hello.", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Error, "{end:?}");
    assert_eq!(messages(&agent, new.thread_id()).await, [Message::human("Hello.")]);
}

#[tokio::test]
async fn a13_the_message_is_journaled_before_the_model_is_called_even_if_the_call_fails() {
    let environment = TestEnvironment::new();
    let server = ScriptedServer::start(Script::new([ScriptedReply::status(401, "{}")])).unwrap();
    let (frames, cancel) = unwatched();
    let agent = environment.agent_with(&server);
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let end = agent.runs().send_message(thread, "Hello.", &frames, &cancel).await.unwrap();
    assert_eq!(
        (end.status, end.failure.as_ref().map(|failure| failure.kind.as_str())),
        (RunStatus::Error, Some("config"))
    );
    assert!(end.failure.as_ref().is_some_and(|failure| failure.hint.is_some()));
    assert_eq!(messages(&agent, thread).await, [Message::human("Hello.")]);
}

#[tokio::test]
async fn a17_the_received_part_of_a_broken_answer_is_stored_as_incomplete() {
    let environment = TestEnvironment::new();
    let half = ScriptedReply::text("Half an ans").with_fault(ScriptedFault::Half);
    let server = ScriptedServer::start(Script::new([half])).unwrap();
    let (frames, cancel) = unwatched();
    let agent = environment.agent_with(&server);
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let end = agent.runs().send_message(thread, "Hello.", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Error);
    let messages = messages(&agent, thread).await;
    let Message::Ai(answer) = &messages[1] else { panic!("{messages:?}") };
    assert!(answer.incomplete);
    assert_eq!(messages[1].text(), "Half an ans");
}

#[tokio::test]
async fn a_stopped_run_ends_cleanly_and_the_thread_can_continue() {
    let environment = TestEnvironment::new();
    let stalled = ScriptedReply::text("Let me think").with_fault(ScriptedFault::Stall);
    let server = ScriptedServer::start(Script::new([stalled, ScriptedReply::text("Done.")])).unwrap();
    let agent = environment.agent_with(&server);
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let cancel = CancellationToken::new();
    let (frames, mut receiver) = FrameSender::channel();
    let stop = cancel.clone();
    let stopper = tokio::spawn(async move {
        while let Some(SubscriptionItem::Frame(_, frame)) = receiver.next().await {
            if matches!(&*frame, Frame::Text { .. }) {
                stop.cancel();
            }
        }
    });
    let end = agent.runs().send_message(thread, "Hello.", &frames, &cancel).await.unwrap();
    drop(frames);
    stopper.await.unwrap();
    assert_eq!(end.status, RunStatus::Cancelled);
    let (frames, cancel) = unwatched();
    let end = agent.runs().send_message(thread, "Go on.", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    let texts: Vec<String> = messages(&agent, thread).await.iter().map(Message::text).collect();
    assert_eq!(texts, ["Hello.", "Let me think", "Go on.", "Done."]);
}

#[tokio::test]
async fn h8_a_stopped_thread_can_be_pruned_and_one_with_a_pending_question_cannot() {
    let environment = TestEnvironment::new();
    let script = [
        ScriptedReply::call("call_1", "ls", json!({"path": "."})),
        ScriptedReply::text("Let me think").with_fault(ScriptedFault::Stall),
        ScriptedReply::call("call_2", "execute", json!({"command": "touch made.txt"})),
    ];
    let server = ScriptedServer::start(Script::new(script)).unwrap();
    let agent = environment.agent_with_policy(&server, ("", agent::ApprovalPolicy::Ask));
    let (frames, mut receiver) = FrameSender::channel();
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let stopper = tokio::spawn(async move {
        while let Some(SubscriptionItem::Frame(_, frame)) = receiver.next().await {
            if matches!(&*frame, Frame::Text { .. }) {
                stop.cancel();
            }
        }
    });
    let stopped = agent.threads().create(None).await.unwrap().thread_id;
    let end = agent.runs().send_message(stopped, "Hello.", &frames, &cancel).await.unwrap();
    drop(frames);
    stopper.await.unwrap();
    let (frames, cancel) = unwatched();
    let asking = agent.threads().create(None).await.unwrap().thread_id;
    let asked = agent.runs().send_message(asking, "Try it.", &frames, &cancel).await.unwrap();
    assert_eq!((end.status, asked.status), (RunStatus::Cancelled, RunStatus::Interrupted));
    let later = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(60);
    let prunable = agent.threads().prune_plan(later, agent::NamedThreadPolicy::Prune).await.unwrap();
    let pruned: Vec<_> = prunable.threads.iter().map(|thread| thread.thread_id).collect();
    assert_eq!((pruned.as_slice(), prunable.kept.in_use), (&[stopped][..], 1));
    let pruned = agent.threads().prune(&prunable, &frames, &cancel).await.unwrap();
    assert_eq!((pruned.threads, pruned.came_to_use), (1, 0));
}

#[tokio::test]
async fn without_a_model_a_message_is_stored_and_answered_by_the_next_turn_with_a_model() {
    let environment = TestEnvironment::new();
    let (frames, cancel) = unwatched();
    let agent = environment.agent();
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let end = agent.runs().send_message(thread, "Hello.", &frames, &cancel).await.unwrap();
    let failure = end.failure.unwrap();
    assert_eq!((end.status, failure.kind), (RunStatus::Error, FailureKind::Config));
    assert_eq!(failure.message, "no model is configured");
    assert!(failure.hint.unwrap().contains("segue models"));
    assert_eq!(message_texts(&agent, thread).await, ["Hello."]);
    let server = ScriptedServer::start(Script::new([ScriptedReply::text("Hello to you.")])).unwrap();
    let agent = environment.agent_with(&server);
    let end = agent.runs().send_message(thread, "Are you there?", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(message_texts(&agent, thread).await, ["Hello.", "Are you there?", "Hello to you."]);
    let sent = server.requests()[0].body["messages"].to_string();
    assert!(sent.contains("Hello.") && sent.contains("Are you there?"), "{sent}");
}

#[tokio::test]
async fn j1_a_thread_with_a_run_of_another_process_is_busy_and_loses_nothing() {
    let environment = TestEnvironment::new();
    let stalled = ScriptedReply::text("Working").with_fault(ScriptedFault::Stall);
    let server = ScriptedServer::start(Script::new([stalled])).unwrap();
    let (first_agent, second_agent) = (environment.agent_with(&server), environment.agent_with(&server));
    let thread = first_agent.threads().create(None).await.unwrap().thread_id;
    let cancel = CancellationToken::new();
    let (frames, mut receiver) = FrameSender::channel();
    let first = first_agent.runs().send_message(thread, "First.", &frames, &cancel);
    let second = async {
        while !matches!(receiver.next().await, Some(SubscriptionItem::Frame(_, frame)) if matches!(&*frame, Frame::Text { .. }))
        {
        }
        let (frames, quiet) = unwatched();
        let refused = second_agent.runs().send_message(thread, "Second.", &frames, &quiet).await;
        cancel.cancel();
        refused
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!(first.unwrap().status, RunStatus::Cancelled);
    let error = second.unwrap_err();
    assert_eq!(error.class(), agent::ErrorClass::Conflict, "{error}");
    assert!(error.hint().is_some());
    let texts: Vec<String> = messages(&first_agent, thread).await.iter().map(Message::text).collect();
    assert_eq!(texts, ["First.", "Working"]);
}
