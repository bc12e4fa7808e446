//! Compactions that processes die in, of a turn and of a person's, and one that is taken back: whatever the moment, the
//! conversation is condensed once or not yet, and the next process comes to the same end.

use std::collections::BTreeSet;
use std::sync::Arc;

use agent::{Agent, CompactionParameters, Error, ThreadError};
use journal::ThreadFilter;
use protocol::{EventType, RunStatus, ThreadId, ThreadStatus};
use serde_json::{Map, Value};
use test_model::{Script, ScriptedReply, ScriptedServer};

use super::{CrashPoint, crashes_in_scenario};
use crate::compaction::{
    RECORD, SUMMARIZER_PROMPT, SUMMARY_OPENING, append, compact_thread, configure, events_of, large_call,
    large_result, turns, visible_markers, without_usage,
};
use crate::environment::{CrashingStore, TEST_MODEL, TestEnvironment, assert_paired, event_lines, unwatched};
use crate::memory::{MEMORY_SUMMARIZER_PROMPT, queued_threads, settle_memory};

/// A person's message that a turn begins with.
const REQUEST: &str = "Look at the large one.";

/// A way to a compaction, or back from one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CompactionScenario {
    pub(super) name: &'static str,
    operation: CompactionOperation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CompactionOperation {
    Turn,
    Compact,
    Undo,
}

/// Every road.
pub(super) const SCENARIOS: [CompactionScenario; 3] = [
    CompactionScenario { name: "compacting turn", operation: CompactionOperation::Turn },
    CompactionScenario { name: "compact", operation: CompactionOperation::Compact },
    CompactionScenario { name: "uncompact", operation: CompactionOperation::Undo },
];

/// The final state as far as a person can see it.
#[derive(Debug, Clone, PartialEq)]
struct CompactionObservation {
    events: Vec<String>,
    markers: usize,
    clip_count: usize,
    status: ThreadStatus,
    runs: Vec<RunStatus>,
    /// Turns that memory kept of what was condensed.
    queued_for_memory: u64,
    /// Turns that are archived.
    archived: u64,
    request: String,
}

/// A world with a thread to condense, or one that is and that memory has, and its server.
async fn set_up(way: CompactionOperation) -> (TestEnvironment, ScriptedServer, ThreadId) {
    let world = TestEnvironment::new();
    let kept = ScriptedReply::text("Parts were put in order.")
        .when_body_contains(MEMORY_SUMMARIZER_PROMPT)
        .with_repeat();
    let record =
        ScriptedReply::text(RECORD).with_tokens(700, 70).when_body_contains(SUMMARIZER_PROMPT).with_repeat();
    let calls = large_call("c1", 80_000).when_turn_is(9, 1).with_repeat();
    // A large result has the conversation condensed; behind an undo it would be condensed again.
    let calls = (way != CompactionOperation::Undo).then_some(calls);
    let done = without_usage(ScriptedReply::text("Done.")).with_repeat();
    let replies = [kept, record].into_iter().chain(calls).chain([done]);
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let agent = agent_in(&world, &server, usize::MAX);
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    append(&agent, thread, &turns(1..9, 3_000)).await;
    if way == CompactionOperation::Undo {
        compact_thread(&agent, thread).await.unwrap();
        assert_eq!(settle_memory(&agent).await.len(), 1);
    }
    (world, server, thread)
}

fn agent_in(world: &TestEnvironment, server: &ScriptedServer, boundary: usize) -> Agent {
    let section = "[permissions]\nallow = [\"large\"]";
    configure(world, server, (36_000, section));
    agent_over(world, boundary).1
}

fn agent_over(world: &TestEnvironment, boundary: usize) -> (Arc<CrashingStore>, Agent) {
    let store = CrashingStore::crash_at(world.store(), boundary);
    let agent =
        world.agent_over(store.clone(), TEST_MODEL).with_tool(Arc::new(crate::compaction::LargeResultTool));
    (store, agent)
}

/// Walks the road in a process that dies at `boundary`.
pub(super) async fn run_until_crash(world: &TestEnvironment, road: CompactionScenario, boundary: usize) {
    run_scenario(&agent_over(world, boundary).1, road).await.unwrap();
}

/// Walks the road from wherever it stands, the way a person would who opens Segue again.
async fn run_scenario(agent: &Agent, road: CompactionScenario) -> agent::Result<()> {
    let (frames, cancel) = unwatched();
    let threads = agent.threads().list(ThreadFilter { limit: 2, ..ThreadFilter::default() }).await?;
    let thread = threads[0].thread_id;
    agent.runs().recover(thread, &frames, &cancel).await?;
    match road.operation {
        CompactionOperation::Compact if visible_markers(agent, thread).await.is_empty() => {
            return match agent
                .threads()
                .compact(thread, &CompactionParameters::default(), &frames, &cancel)
                .await
            {
                // What the process before had begun is finished first.
                Ok(_) | Err(Error::Thread(ThreadError::NothingToCompact { .. })) => Ok(()),
                Err(error) => Err(error),
            };
        }
        CompactionOperation::Undo
            if events_of(agent, thread, EventType::CompactionUndone).await.is_empty() =>
        {
            return agent.threads().undo_compaction(thread).await.map(drop);
        }
        CompactionOperation::Compact | CompactionOperation::Undo => return Ok(()),
        CompactionOperation::Turn => {}
    }
    let said = agent.threads().prompts(thread, 1).await?;
    if said[0].text != REQUEST {
        agent.runs().send_message(thread, REQUEST, &frames, &cancel).await?;
    }
    Ok(())
}

/// Returns the line without what is another matter each time: how long it took, and which events came before.
fn without_times(line: String) -> String {
    let Some((kind, content)) = line.split_once(' ') else { return line };
    let Ok(mut content) = serde_json::from_str::<Map<String, Value>>(content) else {
        return line;
    };
    content.retain(|key, _| key != "duration_ms" && key != "seq" && !key.ends_with("_seq"));
    format!("{kind} {}", Value::Object(content))
}

/// Looks at what is left, and sends one more message.
async fn observe(
    agent: &Agent,
    server: &ScriptedServer,
    (thread, way): (ThreadId, CompactionOperation),
) -> CompactionObservation {
    let events = agent.threads().events(thread).await.unwrap();
    let count = |kind| events.iter().filter(|event| event.kind() == Some(kind)).count();
    let mut lines = event_lines(&events);
    lines.retain(|line| line != r#"run_started {"how":"taken over"}"#);
    let lines = lines.into_iter().map(without_times).collect();
    let mut runs = Vec::new();
    for run_id in events.iter().filter_map(|event| event.run_id).collect::<BTreeSet<_>>() {
        runs.push(agent.store().run(run_id).await.unwrap().unwrap().status);
    }
    let status = agent.store().thread(thread).await.unwrap().unwrap().status;
    let (markers, clips) = (count(EventType::Compacted), count(EventType::ResultClipped));
    assert_eq!(agent.store().active_runs(None).await.unwrap(), [], "every run has come to its end");
    let queued = if way == CompactionOperation::Undo { vec![] } else { vec![thread.to_string()] };
    assert_eq!(
        queued_threads(agent).await,
        queued,
        "f8: it was queued with the marker, and is not without it"
    );
    let kept = settle_memory(agent).await.iter().map(|settled| settled.turns).sum();
    let (frames, cancel) = unwatched();
    let end = agent.runs().send_message(thread, "And now?", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    let body = server.requests().last().unwrap().body.clone();
    assert_paired(&body);
    let archived = agent.memory().stats().await.unwrap().turns.summarised;
    let request = body["messages"].to_string();
    CompactionObservation {
        events: lines,
        markers,
        clip_count: clips,
        status,
        runs,
        queued_for_memory: kept,
        archived,
        request,
    }
}

/// Walks the road with a death at every boundary, and then to its end.
async fn check_scenario(road: CompactionScenario) -> CompactionObservation {
    let (world, server, thread) = set_up(road.operation).await;
    let (counting, agent) = agent_over(&world, usize::MAX);
    run_scenario(&agent, road).await.unwrap();
    let boundaries = counting.commit_count() * 2;
    let calls = server.call_count();
    let expected = observe(&agent, &server, (thread, road.operation)).await;
    for boundary in 0..boundaries {
        let (world, server, thread) = set_up(road.operation).await;
        assert!(
            crashes_in_scenario(&world, road.name, &CrashPoint::Boundary(boundary)),
            "boundary {boundary} was not reached"
        );
        let agent = agent_over(&world, usize::MAX).1;
        run_scenario(&agent, road).await.unwrap();
        let called = server.call_count();
        assert!(called <= calls + 1, "boundary {boundary}: only a call whose answer was lost is repeated");
        let seen = observe(&agent, &server, (thread, road.operation)).await;
        assert_eq!(seen, expected, "{}: death at boundary {boundary}", road.name);
    }
    println!("{}: {boundaries} points", road.name);
    assert!(boundaries >= 4, "the matrix has {boundaries} points");
    expected
}

#[tokio::test]
async fn e9_a_turn_that_condenses_survives_death_at_every_commit() {
    let seen = check_scenario(SCENARIOS[0]).await;
    assert!(seen.markers >= 1 && seen.clip_count == 1, "{} markers, {} clips", seen.markers, seen.clip_count);
    assert!(
        seen.events.iter().any(|line| line.contains(&large_result(1_000).lines().nth(9).unwrap().to_owned()))
    );
}

#[tokio::test]
async fn e9_a_persons_compaction_survives_death_at_every_commit() {
    let seen = check_scenario(SCENARIOS[1]).await;
    assert_eq!((seen.markers, seen.clip_count), (1, 0));
}

#[tokio::test]
async fn m9_an_undo_survives_death_at_every_commit() {
    let seen = check_scenario(SCENARIOS[2]).await;
    assert_eq!(
        (seen.markers, seen.queued_for_memory, seen.archived),
        (1, 0, 0),
        "memory gave back what it had"
    );
    assert!(!seen.request.contains(SUMMARY_OPENING), "what was condensed is sent as it was");
}
