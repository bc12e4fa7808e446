//! Compactions that processes die in, of a turn and of a person's, and one that is taken back: whatever the moment, the
//! conversation is condensed once or not yet, and the next process comes to the same end.

use std::collections::BTreeSet;
use std::sync::Arc;

use agent::{Agent, CompactionRequest, Error, ThreadError};
use journal::ThreadFilter;
use protocol::{EventType, RunStatus, ThreadId, ThreadStatus};
use serde_json::{Map, Value};
use test_model::{Reply, Script, Server};

use super::{Death, dies};
use crate::compaction::{
    OPENING, PROMPT, RECORD, append, calls_large, compacted, configure, events_of, large, markers, turns,
    unreported,
};
use crate::memory::{TRANSFER, due, settled};
use crate::world::{Dying, MODEL, World, assert_paired, quiet, told};

/// A person's message that a turn begins with.
const REQUEST: &str = "Look at the large one.";

/// A way to a compaction, or back from one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Road {
    pub(super) name: &'static str,
    way: Way,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Turn,
    Compact,
    Undo,
}

/// Every road.
pub(super) const ROADS: [Road; 3] = [
    Road { name: "compacting turn", way: Way::Turn },
    Road { name: "compact", way: Way::Compact },
    Road { name: "uncompact", way: Way::Undo },
];

/// What is left at the end, as far as a person can see it.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    events: Vec<String>,
    markers: usize,
    clips: usize,
    status: ThreadStatus,
    runs: Vec<RunStatus>,
    /// Turns that memory kept of what was condensed.
    kept: u64,
    /// Turns that are archived.
    archived: u64,
    request: String,
}

/// A world with a thread to condense, or one that is and that memory has, and its server.
async fn begun(way: Way) -> (World, Server, ThreadId) {
    let world = World::new();
    let kept = Reply::text("Parts were put in order.").when_body_contains(TRANSFER).repeated();
    let record = Reply::text(RECORD).tokens(700, 70).when_body_contains(PROMPT).repeated();
    let calls = calls_large("c1", 80_000).when_turn_is(9, 1).repeated();
    // A large result has the conversation condensed; behind an undo it would be condensed again.
    let calls = (way != Way::Undo).then_some(calls);
    let done = unreported(Reply::text("Done.")).repeated();
    let replies = [kept, record].into_iter().chain(calls).chain([done]);
    let server = Server::start(Script::new(replies)).unwrap();
    let agent = agent_in(&world, &server, usize::MAX);
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    append(&agent, thread, &turns(1..9, 3_000)).await;
    if way == Way::Undo {
        compacted(&agent, thread).await.unwrap();
        assert_eq!(settled(&agent).await.len(), 1);
    }
    (world, server, thread)
}

fn agent_in(world: &World, server: &Server, boundary: usize) -> Agent {
    let section = "[permissions]\nallow = [\"large\"]";
    configure(world, server, (36_000, section));
    agent_over(world, boundary).1
}

fn agent_over(world: &World, boundary: usize) -> (Arc<Dying>, Agent) {
    let store = Dying::at(world.store(), boundary);
    let agent = world.agent_over(store.clone(), MODEL).with_tool(Arc::new(crate::compaction::Large));
    (store, agent)
}

/// Walks the road in a process that dies at `boundary`.
pub(super) async fn walk_to_death(world: &World, road: Road, boundary: usize) {
    walk(&agent_over(world, boundary).1, road).await.unwrap();
}

/// Walks the road from wherever it stands, the way a person would who opens Segue again.
async fn walk(agent: &Agent, road: Road) -> agent::Result<()> {
    let (frames, cancel) = quiet();
    let threads = agent.threads().list(ThreadFilter { limit: 2, ..ThreadFilter::default() }).await?;
    let thread = threads[0].thread_id;
    agent.runs().recover(thread, &frames, &cancel).await?;
    match road.way {
        Way::Compact if markers(agent, thread).await.is_empty() => {
            return match agent
                .threads()
                .compact(thread, &CompactionRequest::default(), &frames, &cancel)
                .await
            {
                // What the process before had begun is finished first.
                Ok(_) | Err(Error::Thread(ThreadError::NothingToCompact { .. })) => Ok(()),
                Err(error) => Err(error),
            };
        }
        Way::Undo if events_of(agent, thread, EventType::CompactionUndone).await.is_empty() => {
            return agent.threads().uncompact(thread).await.map(drop);
        }
        Way::Compact | Way::Undo => return Ok(()),
        Way::Turn => {}
    }
    let said = agent.threads().prompts(thread, 1).await?;
    if said[0].text != REQUEST {
        agent.runs().send(thread, REQUEST, &frames, &cancel).await?;
    }
    Ok(())
}

/// Returns the line without what is another matter each time: how long it took, and which events came before.
fn timeless(line: String) -> String {
    let Some((kind, content)) = line.split_once(' ') else { return line };
    let Ok(mut content) = serde_json::from_str::<Map<String, Value>>(content) else {
        return line;
    };
    content.retain(|key, _| key != "duration_ms" && key != "seq" && !key.ends_with("_seq"));
    format!("{kind} {}", Value::Object(content))
}

/// Looks at what is left, and sends one more message.
async fn look(agent: &Agent, server: &Server, (thread, way): (ThreadId, Way)) -> Seen {
    let events = agent.threads().events(thread).await.unwrap();
    let count = |kind| events.iter().filter(|event| event.kind() == Some(kind)).count();
    let mut lines = told(&events);
    lines.retain(|line| line != r#"run_started {"how":"taken over"}"#);
    let lines = lines.into_iter().map(timeless).collect();
    let mut runs = Vec::new();
    for run_id in events.iter().filter_map(|event| event.run_id).collect::<BTreeSet<_>>() {
        runs.push(agent.store().run(run_id).await.unwrap().unwrap().status);
    }
    let status = agent.store().thread(thread).await.unwrap().unwrap().status;
    let (markers, clips) = (count(EventType::Compacted), count(EventType::ResultClipped));
    assert_eq!(agent.store().active_runs(None).await.unwrap(), [], "every run has come to its end");
    let queued = if way == Way::Undo { vec![] } else { vec![thread.to_string()] };
    assert_eq!(due(agent).await, queued, "f8: it was queued with the marker, and is not without it");
    let kept = settled(agent).await.iter().map(|settled| settled.turns).sum();
    let (frames, cancel) = quiet();
    let end = agent.runs().send(thread, "And now?", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    let body = server.requests().last().unwrap().body.clone();
    assert_paired(&body);
    let archived = agent.memory().stats().await.unwrap().turns.summarised;
    let request = body["messages"].to_string();
    Seen { events: lines, markers, clips, status, runs, kept, archived, request }
}

/// Walks the road with a death at every boundary, and then to its end.
async fn check(road: Road) -> Seen {
    let (world, server, thread) = begun(road.way).await;
    let (counting, agent) = agent_over(&world, usize::MAX);
    walk(&agent, road).await.unwrap();
    let boundaries = counting.commits() * 2;
    let calls = server.calls();
    let expected = look(&agent, &server, (thread, road.way)).await;
    for boundary in 0..boundaries {
        let (world, server, thread) = begun(road.way).await;
        assert!(dies(&world, road.name, &Death::Boundary(boundary)), "boundary {boundary} was not reached");
        let agent = agent_over(&world, usize::MAX).1;
        walk(&agent, road).await.unwrap();
        let called = server.calls();
        assert!(called <= calls + 1, "boundary {boundary}: only a call whose answer was lost is repeated");
        let seen = look(&agent, &server, (thread, road.way)).await;
        assert_eq!(seen, expected, "{}: death at boundary {boundary}", road.name);
    }
    println!("{}: {boundaries} points", road.name);
    assert!(boundaries >= 4, "the matrix has {boundaries} points");
    expected
}

#[tokio::test]
async fn e9_a_turn_that_condenses_survives_death_at_every_commit() {
    let seen = check(ROADS[0]).await;
    assert!(seen.markers >= 1 && seen.clips == 1, "{} markers, {} clips", seen.markers, seen.clips);
    assert!(seen.events.iter().any(|line| line.contains(&large(1_000).lines().nth(9).unwrap().to_owned())));
}

#[tokio::test]
async fn e9_a_persons_compaction_survives_death_at_every_commit() {
    let seen = check(ROADS[1]).await;
    assert_eq!((seen.markers, seen.clips), (1, 0));
}

#[tokio::test]
async fn m9_an_undo_survives_death_at_every_commit() {
    let seen = check(ROADS[2]).await;
    assert_eq!((seen.markers, seen.kept, seen.archived), (1, 0, 0), "memory gave back what it had");
    assert!(!seen.request.contains(OPENING), "what was condensed is sent as it was");
}
