//! Memory beside a compaction that is taken back: what was flushed because of it comes back too.

use std::sync::Arc;

use agent::{Agent, SearchRequest};
use protocol::{ArchiveReason, ThreadId};
use serde_json::Value;
use test_model::Place;

use super::*;
use crate::compaction::{append, compacted, compacted_to, filled, turns};
use crate::world::{Dying, texts};

/// Sends the same in both threads; fails unless both requests hold the same, byte for byte.
async fn sends_the_same(agent: &Agent, server: &Server, (thread, control): (ThreadId, ThreadId), text: &str) {
    let mut bodies = Vec::new();
    for thread in [control, thread] {
        sent(agent, thread, text).await;
        bodies.push(newest(server).body);
    }
    let parts = |body: &Value| ["messages", "system", "tools"].map(|part| body[part].to_string());
    assert_eq!(parts(&bodies[1]), parts(&bodies[0]), "{text}");
}

async fn counts(agent: &Agent) -> (u64, u64) {
    let stats = agent.memory().stats().await.unwrap();
    (stats.summaries, stats.turns.summarised)
}

#[tokio::test]
async fn m9_an_undo_takes_back_what_memory_kept_of_it() {
    let (world, server) = (World::new(), keeping_server());
    let agent = agent_of(&world, &server, (100_000, ""));
    let thread = filled(&agent, 3_000).await;
    let control = agent.threads().fork(thread, None).await.unwrap().thread_id;
    compacted(&agent, thread).await.unwrap();
    sent(&agent, thread, "While it is condensed.").await;
    let settled = settled(&agent).await;
    assert_eq!((settled.len(), settled[0].reason), (1, ArchiveReason::Compaction));
    assert_eq!(counts(&agent).await, (1, settled[0].turns));
    sent(&agent, control, "While it is condensed.").await;
    assert!(newest(&server).body["system"].to_string().contains(SUMMARY), "other threads are told of it");
    sent(&agent, thread, "So?").await;
    assert!(!newest(&server).body["system"].to_string().contains(SUMMARY), "this one has its own summary");

    agent.threads().uncompact(thread).await.unwrap();
    assert_eq!(counts(&agent).await, (0, 0));
    let found = agent.memory().search(&SearchRequest::of("bees in Trento")).await.unwrap().hits;
    assert!(found.iter().all(|hit| !matches!(hit.found, agent::Found::Summary { .. })), "{found:?}");
    sent(&agent, control, "So?").await;
    sends_the_same(&agent, &server, (thread, control), "And now?").await;
    // Another process, which has kept nothing, sends the same.
    drop(agent);
    let agent = agent_of(&world, &server, (100_000, ""));
    sends_the_same(&agent, &server, (thread, control), "And then?").await;
    assert_eq!(texts(&agent, thread).await, texts(&agent, control).await);
}

#[tokio::test]
async fn m9_a_flush_that_still_waits_is_harmless_after_the_undo() {
    let (world, server) = (World::new(), keeping_server());
    let agent = agent_of(&world, &server, (100_000, ""));
    let thread = filled(&agent, 3_000).await;
    compacted(&agent, thread).await.unwrap();
    assert_eq!(due(&agent).await.len(), 1);
    agent.threads().uncompact(thread).await.unwrap();
    assert_eq!(settled(&agent).await, []);
    assert_eq!((due(&agent).await.len(), counts(&agent).await), (0, (0, 0)));
}

#[tokio::test]
async fn m9_only_what_the_undone_compaction_condensed_comes_back() {
    let (world, server) = (World::new(), keeping_server());
    let agent = agent_of(&world, &server, (100_000, ""));
    let thread = filled(&agent, 3_000).await;
    compacted_to(&agent, thread, 4).await;
    let first = settled(&agent).await;
    append(&agent, thread, &turns(10..14, 3_000)).await;
    compacted_to(&agent, thread, 4).await;
    let second = settled(&agent).await;
    assert_eq!((first.len(), second.len()), (1, 1));
    agent.threads().uncompact(thread).await.unwrap();
    assert_eq!(counts(&agent).await, (1, first[0].turns), "the first one still stands for its turns");
    agent.threads().uncompact(thread).await.unwrap();
    assert_eq!(counts(&agent).await, (0, 0));
}

#[tokio::test]
async fn m9_what_two_compactions_condensed_and_one_summary_kept_is_due_again() {
    let (world, server) = (World::new(), keeping_server());
    let agent = agent_of(&world, &server, (100_000, ""));
    let thread = filled(&agent, 3_000).await;
    compacted_to(&agent, thread, 4).await;
    append(&agent, thread, &turns(10..14, 3_000)).await;
    compacted_to(&agent, thread, 4).await;
    let both = settled(&agent).await;
    assert_eq!(both.len(), 1);
    agent.threads().uncompact(thread).await.unwrap();
    assert_eq!(due(&agent).await, [thread.to_string()], "the first compaction is in effect again");
    let again = settled(&agent).await;
    assert_eq!(again.len(), 1);
    assert!(again[0].turns < both[0].turns, "{again:?} after {both:?}");
}

#[tokio::test]
async fn m9_an_undo_in_a_copy_leaves_the_memory_of_the_source_alone() {
    let (world, server) = (World::new(), keeping_server());
    let agent = agent_of(&world, &server, (100_000, ""));
    let thread = filled(&agent, 3_000).await;
    compacted(&agent, thread).await.unwrap();
    let settled = settled(&agent).await;
    let copy = agent.threads().fork(thread, None).await.unwrap().thread_id;
    agent.threads().uncompact(copy).await.unwrap();
    assert_eq!(counts(&agent).await, (1, settled[0].turns));
    sent(&agent, copy, "And now?").await;
    assert!(newest(&server).body["messages"].to_string().contains(crate::compaction::SAID));
}

#[tokio::test]
async fn m9_an_undo_during_a_transfer_wins() {
    let world = World::new();
    let slow = Reply::text(SUMMARY).when_body_contains(TRANSFER).gated("held", Place::Start);
    let done = unreported(Reply::text("Done.")).repeated();
    let server = Server::start(Script::new([slow].into_iter().chain(summarisers()).chain([done]))).unwrap();
    let agent = agent_of(&world, &server, (100_000, ""));
    let thread = filled(&agent, 3_000).await;
    sent(&agent, thread, "And now?").await;
    compacted(&agent, thread).await.unwrap();
    let calls = server.calls();
    let meanwhile = async {
        server.called(calls + 1).await;
        agent.threads().uncompact(thread).await.unwrap();
        server.open("held");
    };
    let (_, ()) = futures::join!(settled(&agent), meanwhile);
    settled(&agent).await;
    assert_eq!(counts(&agent).await, (0, 0), "nothing of it is condensed any more");
    sent(&agent, thread, "And now?").await;
    assert!(newest(&server).body["messages"].to_string().contains(crate::compaction::SAID));
}

/// Returns an agent over the same journal whose commits can be outrun.
fn outrun(world: &World) -> (Arc<Dying>, Agent) {
    let store = Dying::at(world.store(), usize::MAX);
    (store.clone(), world.agent_over(store, MODEL))
}

#[tokio::test]
async fn m9_a_transfer_that_is_done_right_before_the_undo_is_taken_back_with_it() {
    let (world, server) = (World::new(), keeping_server());
    let other = Arc::new(agent_of(&world, &server, (100_000, "")));
    let thread = filled(&other, 3_000).await;
    compacted(&other, thread).await.unwrap();
    let (store, agent) = outrun(&world);
    let worker = Arc::clone(&other);
    store.before_next_commit(async move {
        assert_eq!(settled(&worker).await.len(), 1, "the undo has read by now that memory has nothing");
    });
    agent.threads().uncompact(thread).await.unwrap();
    assert_eq!(store.commits(), 3, "it is noticed, worked out again, and how full the thread is is noted");
    assert_eq!((due(&agent).await.len(), counts(&agent).await), (0, (0, 0)));
    let trace = agent.memory().task_trace(thread, None, 100).await.unwrap();
    assert!(!trace.is_empty() && trace.iter().all(|turn| !turn.is_archived), "{trace:?}");
    sent(&agent, thread, "And now?").await;
    let request = newest(&server).body;
    assert!(request["messages"].to_string().contains(crate::compaction::SAID));
    assert!(!request["system"].to_string().contains(SUMMARY));
}

#[tokio::test]
async fn m9_of_two_people_who_undo_at_once_one_takes_back_and_the_other_is_told() {
    let (world, server) = (World::new(), keeping_server());
    let other = Arc::new(agent_of(&world, &server, (100_000, "")));
    let thread = filled(&other, 3_000).await;
    compacted_to(&other, thread, 4).await;
    append(&other, thread, &turns(10..14, 3_000)).await;
    compacted_to(&other, thread, 4).await;
    let (store, agent) = outrun(&world);
    let first = Arc::clone(&other);
    store.before_next_commit(async move {
        first.threads().uncompact(thread).await.unwrap();
    });
    let refused = agent.threads().uncompact(thread).await.unwrap_err();
    assert!(
        matches!(refused, agent::Error::Journal(journal::Error::Differs { .. })),
        "the compaction before it stays in effect: {refused:?}"
    );
    agent.threads().uncompact(thread).await.unwrap();
    let refused = agent.threads().uncompact(thread).await.unwrap_err();
    assert!(matches!(refused, agent::Error::Thread(agent::ThreadError::NothingToUndo(_))), "{refused:?}");
}
