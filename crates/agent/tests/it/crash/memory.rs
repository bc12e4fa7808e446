//! The crash matrix of a transfer into the memory: after a crash at any commit, each message is either in exactly one summary
//! or still to be summarized, and the next process reaches the same final state.

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

/// The name of the scenario: a turn that exceeds the short-term budget, and the transfer that follows.
pub(super) const SCENARIO: &str = "transfer";

/// The number of turns before the turn that exceeds the budget.
const TURNS_BEFORE: usize = 5;

/// The part of the final state that is equal in all runs.
#[derive(Debug, PartialEq)]
struct MemoryObservation {
    /// The number of messages, of archived messages, and of messages that summaries cover.
    turns: (usize, usize, u64),
    /// The texts of the summaries.
    texts: Vec<String>,
    /// The first and last index of each summary's range.
    ranges: Vec<(u64, u64)>,
    /// The messages of the next request, as JSON text.
    request: String,
}

/// Returns an environment with its server and a thread just below the short-term budget.
async fn set_up() -> (TestEnvironment, ScriptedServer, ThreadId) {
    let environment = TestEnvironment::new();
    let replies =
        summarizer_replies().into_iter().chain([without_usage(ScriptedReply::text("Done.")).with_repeat()]);
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    configure(&environment, &server, (200_000, &format!("[memory]\nshort_term_tokens = {BUDGET_TOKENS}")));
    let agent = agent_over(&environment, usize::MAX).1;
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    for number in 1..=TURNS_BEFORE {
        send_message(&agent, thread, &turn_text(number)).await;
    }
    assert_eq!(queued_threads(&agent).await, Vec::<String>::new());
    (environment, server, thread)
}

/// Returns an agent whose process aborts at `boundary`, and its store.
fn agent_over(environment: &TestEnvironment, boundary: usize) -> (Arc<CrashingStore>, Agent) {
    let store = CrashingStore::crash_at(environment.store(), boundary);
    let agent = environment.agent_over(store.clone(), TEST_MODEL);
    (store, agent)
}

/// Runs the scenario in this process, which aborts at `boundary`.
pub(super) async fn run_until_crash(environment: &TestEnvironment, boundary: usize) {
    run_scenario(&agent_over(environment, boundary).1).await;
}

/// Continues the scenario from its current state.
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

/// Sends two more messages with a transfer between them, and reads the final state.
async fn observe(agent: &Agent, server: &ScriptedServer, thread: ThreadId) -> MemoryObservation {
    // The crashed turn may not have queued its transfer. The next turn then queues it.
    send_message(agent, thread, "And now?").await;
    settle_memory(agent).await;
    assert_eq!(queued_threads(agent).await, Vec::<String>::new(), "no transfer is pending");
    send_message(agent, thread, "And then?").await;
    let body = newest_request(server).body;
    assert_paired(&body);
    let trace = agent.memory().task_trace(thread, None, 100).await.unwrap();
    let archived = trace.iter().filter(|turn| turn.is_archived).count();
    let transfers = turns_archived(agent, thread).await;
    let summaries = agent.memory().recent_summaries(agent::ProjectScope::Any, 100).await.unwrap();
    assert_eq!(transfers.len(), summaries.len(), "each summary has one event");
    let text = |stored: StoredSummary| stored.summary.summary_text;
    MemoryObservation {
        turns: (trace.len(), archived, transfers.iter().map(|transfer| transfer.turn_count).sum()),
        ranges: transfers
            .iter()
            .map(|transfer| (transfer.turn_range_start, transfer.turn_range_end))
            .collect(),
        texts: summaries.into_iter().map(text).collect(),
        request: body["messages"].to_string(),
    }
}

/// Returns whether a message of the thread is archived.
async fn is_archived(agent: &Agent, thread: ThreadId) -> bool {
    agent.memory().task_trace(thread, None, 100).await.unwrap().iter().any(|turn| turn.is_archived)
}

#[tokio::test]
async fn f8_a_transfer_survives_a_crash_at_every_commit() {
    let (environment, server, thread) = set_up().await;
    let (counting, agent) = agent_over(&environment, usize::MAX);
    run_scenario(&agent).await;
    let boundaries = counting.commit_count() * 2;
    let expected = observe(&agent, &server, thread).await;
    assert!(expected.turns.1 > 0 && expected.turns.1 as u64 == expected.turns.2, "{expected:?}");
    let mut unqueued_crashes = 0;
    for boundary in 0..boundaries {
        let (environment, server, thread) = set_up().await;
        assert!(
            crashes_in_scenario(&environment, SCENARIO, &CrashPoint::Boundary(boundary)),
            "boundary {boundary} was not reached"
        );
        let agent = agent_over(&environment, usize::MAX).1;
        run_scenario(&agent).await;
        assert!(
            summarizer_requests(&server).len() <= 2,
            "boundary {boundary}: only a model call whose answer was lost is repeated"
        );
        let is_queued_or_done = is_archived(&agent, thread).await || !queued_threads(&agent).await.is_empty();
        unqueued_crashes += usize::from(!is_queued_or_done);
        assert_eq!(observe(&agent, &server, thread).await, expected, "crash at boundary {boundary}");
    }
    println!("{SCENARIO}: {boundaries} points");
    // After a crash between the turn's last commit and the queuing, only the next turn queues the transfer.
    assert!(unqueued_crashes <= 2, "{unqueued_crashes} crashes left the transfer neither queued nor done");
    assert!(boundaries >= 6, "the matrix has {boundaries} points");
}
