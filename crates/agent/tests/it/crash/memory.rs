//! Transfers that processes die in: whatever the moment, the turns are in one summary or still to be summarised, and the
//! next process comes to the same end.

use std::sync::Arc;

use agent::{Agent, StoredSummary};
use protocol::ThreadId;
use test_model::{Reply, Script, Server};

use super::{Death, dies};
use crate::compaction::{configure, sent, unreported};
use crate::memory::{BUDGET, archives, due, newest, said, settled, summarisers, transfers};
use crate::world::{Dying, MODEL, World, assert_paired, quiet};

/// The road: a turn that goes over the budget, and the work that follows it.
pub(super) const ROAD: &str = "transfer";

/// Turns before the one that goes over the budget.
const TURNS_BEFORE: usize = 5;

/// What is left at the end, as far as it is the same each time.
#[derive(Debug, PartialEq)]
struct Seen {
    /// Turns, those that are archived, and those that summaries stand for.
    turns: (usize, usize, u64),
    texts: Vec<String>,
    ranges: Vec<(u64, u64)>,
    request: String,
}

async fn begun() -> (World, Server, ThreadId) {
    let world = World::new();
    let replies = summarisers().into_iter().chain([unreported(Reply::text("Done.")).repeated()]);
    let server = Server::start(Script::new(replies)).unwrap();
    configure(&world, &server, (200_000, &format!("[memory]\nshort_term_tokens = {BUDGET}")));
    let agent = agent_over(&world, usize::MAX).1;
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    for number in 1..=TURNS_BEFORE {
        sent(&agent, thread, &said(number)).await;
    }
    assert_eq!(due(&agent).await, Vec::<String>::new());
    (world, server, thread)
}

fn agent_over(world: &World, boundary: usize) -> (Arc<Dying>, Agent) {
    let store = Dying::at(world.store(), boundary);
    let agent = world.agent_over(store.clone(), MODEL);
    (store, agent)
}

/// Walks the road in a process that dies at `boundary`.
pub(super) async fn walk_to_death(world: &World, boundary: usize) {
    walk(&agent_over(world, boundary).1).await;
}

/// Walks the road from wherever it stands.
async fn walk(agent: &Agent) {
    let (frames, cancel) = quiet();
    let thread = agent.threads().find("last").await.unwrap().thread_id;
    agent.runs().recover(thread, &frames, &cancel).await.unwrap();
    if !agent.threads().prompts(thread, 1).await.unwrap()[0]
        .text
        .starts_with(&format!("Request {}.", TURNS_BEFORE + 1))
    {
        agent.runs().send(thread, said(TURNS_BEFORE + 1).as_str(), &frames, &cancel).await.unwrap();
    }
    settled(agent).await;
}

async fn look(agent: &Agent, server: &Server, thread: ThreadId) -> Seen {
    // What was queued or done by the turn that died is the same turn's: the next one notices what is left.
    sent(agent, thread, "And now?").await;
    settled(agent).await;
    assert_eq!(due(agent).await, Vec::<String>::new(), "nothing is left to do");
    sent(agent, thread, "And then?").await;
    let body = newest(server).body;
    assert_paired(&body);
    let trace = agent.memory().task_trace(thread, None, 100).await.unwrap();
    let archived = trace.iter().filter(|turn| turn.is_archived).count();
    let told = archives(agent, thread).await;
    let summaries = agent.memory().recent_summaries(100).await.unwrap();
    assert_eq!(told.len(), summaries.len(), "each summary is told once");
    let text = |stored: StoredSummary| stored.summary.summary_text;
    Seen {
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
    let (world, server, thread) = begun().await;
    let (counting, agent) = agent_over(&world, usize::MAX);
    walk(&agent).await;
    let boundaries = counting.commits() * 2;
    let expected = look(&agent, &server, thread).await;
    assert!(expected.turns.1 > 0 && expected.turns.1 as u64 == expected.turns.2, "{expected:?}");
    let mut unnoticed = 0;
    for boundary in 0..boundaries {
        let (world, server, thread) = begun().await;
        assert!(dies(&world, ROAD, &Death::Boundary(boundary)), "boundary {boundary} was not reached");
        let agent = agent_over(&world, usize::MAX).1;
        walk(&agent).await;
        assert!(
            transfers(&server).len() <= 2,
            "boundary {boundary}: only a call whose answer was lost is repeated"
        );
        let is_kept = is_archived(&agent, thread).await || !due(&agent).await.is_empty();
        unnoticed += usize::from(!is_kept);
        assert_eq!(look(&agent, &server, thread).await, expected, "death at boundary {boundary}");
    }
    println!("{ROAD}: {boundaries} points");
    // Behind the turn's last commit and before it is queued: the next turn notices what that one did not come to.
    assert!(unnoticed <= 2, "after {unnoticed} deaths nothing is queued or done before a turn is sent");
    assert!(boundaries >= 6, "the matrix has {boundaries} points");
}
