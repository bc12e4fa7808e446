//! Transfers that processes die in: whatever the moment, the turns are in one summary or still to be summarised, and the
//! next process comes to the same end.

use std::sync::Arc;

use agent::{Agent, StoredSummary};
use protocol::ThreadId;
use test_model::{Script, ScriptedReply, ScriptedServer};

use super::{CrashPoint, crashes_in_scenario};
use crate::compaction::{configure, send_message, without_usage};
use crate::environment::{CrashingStore, TEST_MODEL, TestEnvironment, assert_paired, unwatched};
use crate::memory::{
    BUDGET_TOKENS, newest_request, queued_threads, settle_memory, summarizer_replies, summarizer_requests,
    turn_text, turns_archived,
};

/// The road: a turn that goes over the budget, and the work that follows it.
pub(super) const SCENARIO: &str = "transfer";

/// Turns before the one that goes over the budget.
const TURNS_BEFORE: usize = 5;

/// The final state as far as it is the same each time.
#[derive(Debug, PartialEq)]
struct MemoryObservation {
    /// Turns, those that are archived, and those that summaries stand for.
    turns: (usize, usize, u64),
    texts: Vec<String>,
    ranges: Vec<(u64, u64)>,
    request: String,
}

async fn set_up() -> (TestEnvironment, ScriptedServer, ThreadId) {
    let world = TestEnvironment::new();
    let replies =
        summarizer_replies().into_iter().chain([without_usage(ScriptedReply::text("Done.")).with_repeat()]);
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    configure(&world, &server, (200_000, &format!("[memory]\nshort_term_tokens = {BUDGET_TOKENS}")));
    let agent = agent_over(&world, usize::MAX).1;
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    for number in 1..=TURNS_BEFORE {
        send_message(&agent, thread, &turn_text(number)).await;
    }
    assert_eq!(queued_threads(&agent).await, Vec::<String>::new());
    (world, server, thread)
}

fn agent_over(world: &TestEnvironment, boundary: usize) -> (Arc<CrashingStore>, Agent) {
    let store = CrashingStore::crash_at(world.store(), boundary);
    let agent = world.agent_over(store.clone(), TEST_MODEL);
    (store, agent)
}

/// Walks the road in a process that dies at `boundary`.
pub(super) async fn run_until_crash(world: &TestEnvironment, boundary: usize) {
    run_scenario(&agent_over(world, boundary).1).await;
}

/// Walks the road from wherever it stands.
async fn run_scenario(agent: &Agent) {
    let (frames, cancel) = unwatched();
    let thread = agent.threads().find("last").await.unwrap().thread_id;
    agent.runs().recover(thread, &frames, &cancel).await.unwrap();
    if !agent.threads().prompts(thread, 1).await.unwrap()[0]
        .text
        .starts_with(&format!("Request {}.", TURNS_BEFORE + 1))
    {
        agent
            .runs()
            .send_message(thread, turn_text(TURNS_BEFORE + 1).as_str(), &frames, &cancel)
            .await
            .unwrap();
    }
    settle_memory(agent).await;
}

async fn observe(agent: &Agent, server: &ScriptedServer, thread: ThreadId) -> MemoryObservation {
    // What was queued or done by the turn that died is the same turn's: the next one notices what is left.
    send_message(agent, thread, "And now?").await;
    settle_memory(agent).await;
    assert_eq!(queued_threads(agent).await, Vec::<String>::new(), "nothing is left to do");
    send_message(agent, thread, "And then?").await;
    let body = newest_request(server).body;
    assert_paired(&body);
    let trace = agent.memory().task_trace(thread, None, 100).await.unwrap();
    let archived = trace.iter().filter(|turn| turn.is_archived).count();
    let told = turns_archived(agent, thread).await;
    let summaries = agent.memory().recent_summaries(100).await.unwrap();
    assert_eq!(told.len(), summaries.len(), "each summary is told once");
    let text = |stored: StoredSummary| stored.summary.summary_text;
    MemoryObservation {
        turns: (trace.len(), archived, told.iter().map(|archived| archived.turn_count).sum()),
        ranges: told.iter().map(|archived| (archived.turn_range_start, archived.turn_range_end)).collect(),
        texts: summaries.into_iter().map(text).collect(),
        request: body["messages"].to_string(),
    }
}

async fn is_archived(agent: &Agent, thread: ThreadId) -> bool {
    agent.memory().task_trace(thread, None, 100).await.unwrap().iter().any(|turn| turn.is_archived)
}

#[tokio::test]
async fn f8_a_transfer_survives_death_at_every_commit() {
    let (world, server, thread) = set_up().await;
    let (counting, agent) = agent_over(&world, usize::MAX);
    run_scenario(&agent).await;
    let boundaries = counting.commit_count() * 2;
    let expected = observe(&agent, &server, thread).await;
    assert!(expected.turns.1 > 0 && expected.turns.1 as u64 == expected.turns.2, "{expected:?}");
    let mut unnoticed = 0;
    for boundary in 0..boundaries {
        let (world, server, thread) = set_up().await;
        assert!(
            crashes_in_scenario(&world, SCENARIO, &CrashPoint::Boundary(boundary)),
            "boundary {boundary} was not reached"
        );
        let agent = agent_over(&world, usize::MAX).1;
        run_scenario(&agent).await;
        assert!(
            summarizer_requests(&server).len() <= 2,
            "boundary {boundary}: only a call whose answer was lost is repeated"
        );
        let is_kept = is_archived(&agent, thread).await || !queued_threads(&agent).await.is_empty();
        unnoticed += usize::from(!is_kept);
        assert_eq!(observe(&agent, &server, thread).await, expected, "death at boundary {boundary}");
    }
    println!("{SCENARIO}: {boundaries} points");
    // Behind the turn's last commit and before it is queued: the next turn notices what that one did not come to.
    assert!(unnoticed <= 2, "after {unnoticed} deaths nothing is queued or done before a turn is sent");
    assert!(boundaries >= 6, "the matrix has {boundaries} points");
}
