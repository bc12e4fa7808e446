//! Memory and an undone compaction: messages that were archived because of it become active again.

use std::sync::Arc;

use agent::{Agent, SearchRequest};
use protocol::{ArchiveReason, ThreadId};
use serde_json::Value;
use test_model::GatePosition;

use super::*;
use crate::compaction::{append, compact_keeping, compact_thread, filled_thread, turns};
use crate::environment::{CrashingStore, message_texts};

/// Sends the same in both threads; fails unless both requests hold the same, byte for byte.
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

async fn memory_counts(agent: &Agent) -> (u64, u64) {
    let stats = agent.memory().stats().await.unwrap();
    (stats.summaries, stats.turns.summarised)
}

#[tokio::test]
async fn m9_an_undo_takes_back_what_memory_kept_of_it() {
    let (world, server) = (TestEnvironment::new(), summarizing_server());
    let agent = agent_of(&world, &server, (100_000, ""));
    let thread = filled_thread(&agent, 3_000).await;
    let control = agent.threads().fork(thread, None).await.unwrap().thread_id;
    compact_thread(&agent, thread).await.unwrap();
    send_message(&agent, thread, "While it is condensed.").await;
    let settled = settle_memory(&agent).await;
    assert_eq!((settled.len(), settled[0].reason), (1, ArchiveReason::Compaction));
    assert_eq!(memory_counts(&agent).await, (1, settled[0].turns));
    send_message(&agent, control, "While it is condensed.").await;
    assert!(
        newest_request(&server).body["system"].to_string().contains(SUMMARY_TEXT),
        "other threads are told of it"
    );
    send_message(&agent, thread, "So?").await;
    assert!(
        !newest_request(&server).body["system"].to_string().contains(SUMMARY_TEXT),
        "this one has its own summary"
    );

    agent.threads().undo_compaction(thread).await.unwrap();
    assert_eq!(memory_counts(&agent).await, (0, 0));
    let found = agent.memory().search(&SearchRequest::new("bees in Trento")).await.unwrap().hits;
    assert!(
        found.iter().all(|hit| !matches!(hit.source, agent::SearchHitSource::Summary { .. })),
        "{found:?}"
    );
    send_message(&agent, control, "So?").await;
    assert_same_request(&agent, &server, (thread, control), "And now?").await;
    // Another process, which has kept nothing, sends the same.
    drop(agent);
    let agent = agent_of(&world, &server, (100_000, ""));
    assert_same_request(&agent, &server, (thread, control), "And then?").await;
    assert_eq!(message_texts(&agent, thread).await, message_texts(&agent, control).await);
}

#[tokio::test]
async fn m9_a_flush_that_still_waits_is_harmless_after_the_undo() {
    let (world, server) = (TestEnvironment::new(), summarizing_server());
    let agent = agent_of(&world, &server, (100_000, ""));
    let thread = filled_thread(&agent, 3_000).await;
    compact_thread(&agent, thread).await.unwrap();
    assert_eq!(queued_threads(&agent).await.len(), 1);
    agent.threads().undo_compaction(thread).await.unwrap();
    assert_eq!(settle_memory(&agent).await, []);
    assert_eq!((queued_threads(&agent).await.len(), memory_counts(&agent).await), (0, (0, 0)));
}

#[tokio::test]
async fn m9_only_what_the_undone_compaction_condensed_comes_back() {
    let (world, server) = (TestEnvironment::new(), summarizing_server());
    let agent = agent_of(&world, &server, (100_000, ""));
    let thread = filled_thread(&agent, 3_000).await;
    compact_keeping(&agent, thread, 4).await;
    let first = settle_memory(&agent).await;
    append(&agent, thread, &turns(10..14, 3_000)).await;
    compact_keeping(&agent, thread, 4).await;
    let second = settle_memory(&agent).await;
    assert_eq!((first.len(), second.len()), (1, 1));
    agent.threads().undo_compaction(thread).await.unwrap();
    assert_eq!(memory_counts(&agent).await, (1, first[0].turns), "the first one still stands for its turns");
    agent.threads().undo_compaction(thread).await.unwrap();
    assert_eq!(memory_counts(&agent).await, (0, 0));
}

#[tokio::test]
async fn m9_what_two_compactions_condensed_and_one_summary_kept_is_due_again() {
    let (world, server) = (TestEnvironment::new(), summarizing_server());
    let agent = agent_of(&world, &server, (100_000, ""));
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
async fn m9_an_undo_in_a_copy_leaves_the_memory_of_the_source_alone() {
    let (world, server) = (TestEnvironment::new(), summarizing_server());
    let agent = agent_of(&world, &server, (100_000, ""));
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
async fn m9_an_undo_during_a_transfer_wins() {
    let world = TestEnvironment::new();
    let slow = ScriptedReply::text(SUMMARY_TEXT)
        .when_body_contains(MEMORY_SUMMARIZER_PROMPT)
        .with_gate("held", GatePosition::Start);
    let done = without_usage(ScriptedReply::text("Done.")).with_repeat();
    let server =
        ScriptedServer::start(Script::new([slow].into_iter().chain(summarizer_replies()).chain([done])))
            .unwrap();
    let agent = agent_of(&world, &server, (100_000, ""));
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
    assert_eq!(memory_counts(&agent).await, (0, 0), "nothing of it is condensed any more");
    send_message(&agent, thread, "And now?").await;
    assert!(
        newest_request(&server).body["messages"].to_string().contains(crate::compaction::CODE_WORD_SENTENCE)
    );
}

/// Returns an agent over the same journal whose commits can be outrun.
fn overtaken_agent(world: &TestEnvironment) -> (Arc<CrashingStore>, Agent) {
    let store = CrashingStore::crash_at(world.store(), usize::MAX);
    (store.clone(), world.agent_over(store, TEST_MODEL))
}

#[tokio::test]
async fn m9_a_transfer_that_is_done_right_before_the_undo_is_taken_back_with_it() {
    let (world, server) = (TestEnvironment::new(), summarizing_server());
    let other = Arc::new(agent_of(&world, &server, (100_000, "")));
    let thread = filled_thread(&other, 3_000).await;
    compact_thread(&other, thread).await.unwrap();
    let (store, agent) = overtaken_agent(&world);
    let worker = Arc::clone(&other);
    store.before_next_commit(async move {
        assert_eq!(settle_memory(&worker).await.len(), 1, "the undo has read by now that memory has nothing");
    });
    agent.threads().undo_compaction(thread).await.unwrap();
    assert_eq!(
        store.commit_count(),
        3,
        "it is noticed, worked out again, and how full the thread is is noted"
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
async fn m9_of_two_people_who_undo_at_once_one_takes_back_and_the_other_is_told() {
    let (world, server) = (TestEnvironment::new(), summarizing_server());
    let other = Arc::new(agent_of(&world, &server, (100_000, "")));
    let thread = filled_thread(&other, 3_000).await;
    compact_keeping(&other, thread, 4).await;
    append(&other, thread, &turns(10..14, 3_000)).await;
    compact_keeping(&other, thread, 4).await;
    let (store, agent) = overtaken_agent(&world);
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
