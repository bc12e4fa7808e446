//! Tests of undoing a compaction: turns that memory summarized because of it become active again.

use std::sync::Arc;

use agent::{Agent, SearchRequest};
use protocol::{ArchiveReason, ThreadId};
use serde_json::Value;
use test_model::GatePosition;

use super::*;
use crate::compaction::{append, compact_keeping, compact_thread, filled_thread, turns};
use crate::environment::{CrashingStore, message_texts};

/// Sends the same message in both threads. Fails unless the messages, the system prompt and the tools of both requests
/// are equal, byte for byte.
async fn assert_same_request(
    agent: &Agent,
    server: &ScriptedServer,
    (thread, control): (ThreadId, ThreadId),
    text: &str,
) {
    let mut bodies = Vec::new();
    for thread in [control, thread] {
        send_message(agent, thread, text).await;
        bodies.push(newest_request(server).body);
    }
    let parts = |body: &Value| ["messages", "system", "tools"].map(|part| body[part].to_string());
    assert_eq!(parts(&bodies[1]), parts(&bodies[0]), "{text}");
}

/// Returns the number of summaries and the number of summarized turns.
async fn memory_counts(agent: &Agent) -> (u64, u64) {
    let stats = agent.memory().stats().await.unwrap();
    (stats.summaries, stats.turns.summarised)
}

#[tokio::test]
async fn m9_undoing_a_compaction_removes_its_summary_from_memory() {
    let (environment, server) = (TestEnvironment::new(), summarizing_server());
    let agent = agent_of(&environment, &server, (100_000, ""));
    let thread = filled_thread(&agent, 3_000).await;
    let control = agent.threads().fork(thread, None).await.unwrap().thread_id;
    compact_thread(&agent, thread).await.unwrap();
    send_message(&agent, thread, "While it is compacted.").await;
    let settled = settle_memory(&agent).await;
    assert_eq!((settled.len(), settled[0].reason), (1, ArchiveReason::Compaction));
    assert_eq!(memory_counts(&agent).await, (1, settled[0].turns));
    send_message(&agent, control, "While it is compacted.").await;
    assert!(
        newest_request(&server).body["system"].to_string().contains(SUMMARY_TEXT),
        "other threads receive the summary"
    );
    send_message(&agent, thread, "So?").await;
    assert!(
        !newest_request(&server).body["system"].to_string().contains(SUMMARY_TEXT),
        "the source thread has its own compaction summary instead"
    );

    agent.threads().undo_compaction(thread).await.unwrap();
    assert_eq!(memory_counts(&agent).await, (0, 0));
    let hits = agent.memory().search(&SearchRequest::new("bees in Trento")).await.unwrap().hits;
    assert!(hits.iter().all(|hit| !matches!(hit.source, agent::SearchHitSource::Summary { .. })), "{hits:?}");
    send_message(&agent, control, "So?").await;
    assert_same_request(&agent, &server, (thread, control), "And now?").await;
    // An agent without cached contexts sends the same request.
    drop(agent);
    let agent = agent_of(&environment, &server, (100_000, ""));
    assert_same_request(&agent, &server, (thread, control), "And then?").await;
    assert_eq!(message_texts(&agent, thread).await, message_texts(&agent, control).await);
}

#[tokio::test]
async fn m9_a_queued_summarization_does_nothing_after_the_undo() {
    let (environment, server) = (TestEnvironment::new(), summarizing_server());
    let agent = agent_of(&environment, &server, (100_000, ""));
    let thread = filled_thread(&agent, 3_000).await;
    compact_thread(&agent, thread).await.unwrap();
    assert_eq!(queued_threads(&agent).await.len(), 1);
    agent.threads().undo_compaction(thread).await.unwrap();
    assert_eq!(settle_memory(&agent).await, []);
    assert_eq!((queued_threads(&agent).await.len(), memory_counts(&agent).await), (0, (0, 0)));
}

#[tokio::test]
async fn m9_only_the_turns_of_the_undone_compaction_become_active_again() {
    let (environment, server) = (TestEnvironment::new(), summarizing_server());
    let agent = agent_of(&environment, &server, (100_000, ""));
    let thread = filled_thread(&agent, 3_000).await;
    compact_keeping(&agent, thread, 4).await;
    let first = settle_memory(&agent).await;
    append(&agent, thread, &turns(10..14, 3_000)).await;
    compact_keeping(&agent, thread, 4).await;
    let second = settle_memory(&agent).await;
    assert_eq!((first.len(), second.len()), (1, 1));
    agent.threads().undo_compaction(thread).await.unwrap();
    assert_eq!(memory_counts(&agent).await, (1, first[0].turns), "the first summary still covers its turns");
    agent.threads().undo_compaction(thread).await.unwrap();
    assert_eq!(memory_counts(&agent).await, (0, 0));
}

#[tokio::test]
async fn m9_turns_of_two_compactions_in_one_summary_are_queued_again_when_one_is_undone() {
    let (environment, server) = (TestEnvironment::new(), summarizing_server());
    let agent = agent_of(&environment, &server, (100_000, ""));
    let thread = filled_thread(&agent, 3_000).await;
    compact_keeping(&agent, thread, 4).await;
    append(&agent, thread, &turns(10..14, 3_000)).await;
    compact_keeping(&agent, thread, 4).await;
    let both = settle_memory(&agent).await;
    assert_eq!(both.len(), 1);
    agent.threads().undo_compaction(thread).await.unwrap();
    assert_eq!(queued_threads(&agent).await, [thread.to_string()], "the first compaction is in effect again");
    let again = settle_memory(&agent).await;
    assert_eq!(again.len(), 1);
    assert!(again[0].turns < both[0].turns, "{again:?} after {both:?}");
}

#[tokio::test]
async fn m9_an_undo_in_a_fork_keeps_the_memory_of_its_source() {
    let (environment, server) = (TestEnvironment::new(), summarizing_server());
    let agent = agent_of(&environment, &server, (100_000, ""));
    let thread = filled_thread(&agent, 3_000).await;
    compact_thread(&agent, thread).await.unwrap();
    let settled = settle_memory(&agent).await;
    let copy = agent.threads().fork(thread, None).await.unwrap().thread_id;
    agent.threads().undo_compaction(copy).await.unwrap();
    assert_eq!(memory_counts(&agent).await, (1, settled[0].turns));
    send_message(&agent, copy, "And now?").await;
    assert!(
        newest_request(&server).body["messages"].to_string().contains(crate::compaction::CODE_WORD_SENTENCE)
    );
}

#[tokio::test]
async fn m9_an_undo_during_a_summarization_discards_the_summary() {
    let environment = TestEnvironment::new();
    let slow = ScriptedReply::text(SUMMARY_TEXT)
        .when_body_contains(MEMORY_SUMMARIZER_PROMPT)
        .with_gate("held", GatePosition::Start);
    let done = without_usage(ScriptedReply::text("Done.")).with_repeat();
    let server =
        ScriptedServer::start(Script::new([slow].into_iter().chain(summarizer_replies()).chain([done])))
            .unwrap();
    let agent = agent_of(&environment, &server, (100_000, ""));
    let thread = filled_thread(&agent, 3_000).await;
    send_message(&agent, thread, "And now?").await;
    compact_thread(&agent, thread).await.unwrap();
    let calls = server.call_count();
    let meanwhile = async {
        server.wait_for_calls(calls + 1).await;
        agent.threads().undo_compaction(thread).await.unwrap();
        server.open_gate("held");
    };
    let (_, ()) = futures::join!(settle_memory(&agent), meanwhile);
    settle_memory(&agent).await;
    assert_eq!(memory_counts(&agent).await, (0, 0), "none of its turns is compacted any more");
    send_message(&agent, thread, "And now?").await;
    assert!(
        newest_request(&server).body["messages"].to_string().contains(crate::compaction::CODE_WORD_SENTENCE)
    );
}

/// Returns an agent over the same journal, and its store, on which a test can commit before the agent's next commit.
fn agent_with_racing_store(environment: &TestEnvironment) -> (Arc<CrashingStore>, Agent) {
    let store = CrashingStore::crash_at(environment.store(), usize::MAX);
    (store.clone(), environment.agent_over(store, TEST_MODEL))
}

#[tokio::test]
async fn m9_a_summary_committed_right_before_the_undo_is_removed_with_it() {
    let (environment, server) = (TestEnvironment::new(), summarizing_server());
    let other = Arc::new(agent_of(&environment, &server, (100_000, "")));
    let thread = filled_thread(&other, 3_000).await;
    compact_thread(&other, thread).await.unwrap();
    let (store, agent) = agent_with_racing_store(&environment);
    let worker = Arc::clone(&other);
    store.before_next_commit(async move {
        assert_eq!(
            settle_memory(&worker).await.len(),
            1,
            "the undo has already read that memory has no summary"
        );
    });
    agent.threads().undo_compaction(thread).await.unwrap();
    assert_eq!(
        store.commit_count(),
        3,
        "the conflict is detected, the undo is computed again, and the context size is recorded"
    );
    assert_eq!((queued_threads(&agent).await.len(), memory_counts(&agent).await), (0, (0, 0)));
    let trace = agent.memory().task_trace(thread, None, 100).await.unwrap();
    assert!(!trace.is_empty() && trace.iter().all(|turn| !turn.is_archived), "{trace:?}");
    send_message(&agent, thread, "And now?").await;
    let request = newest_request(&server).body;
    assert!(request["messages"].to_string().contains(crate::compaction::CODE_WORD_SENTENCE));
    assert!(!request["system"].to_string().contains(SUMMARY_TEXT));
}

#[tokio::test]
async fn m9_one_of_two_concurrent_undos_succeeds_and_the_other_is_refused() {
    let (environment, server) = (TestEnvironment::new(), summarizing_server());
    let other = Arc::new(agent_of(&environment, &server, (100_000, "")));
    let thread = filled_thread(&other, 3_000).await;
    compact_keeping(&other, thread, 4).await;
    append(&other, thread, &turns(10..14, 3_000)).await;
    compact_keeping(&other, thread, 4).await;
    let (store, agent) = agent_with_racing_store(&environment);
    let first = Arc::clone(&other);
    store.before_next_commit(async move {
        first.threads().undo_compaction(thread).await.unwrap();
    });
    let refused = agent.threads().undo_compaction(thread).await.unwrap_err();
    assert!(
        matches!(refused, agent::Error::Journal(journal::Error::Conflict { .. })),
        "the compaction before it stays in effect: {refused:?}"
    );
    agent.threads().undo_compaction(thread).await.unwrap();
    let refused = agent.threads().undo_compaction(thread).await.unwrap_err();
    assert!(matches!(refused, agent::Error::Thread(agent::ThreadError::NothingToUndo(_))), "{refused:?}");
}
