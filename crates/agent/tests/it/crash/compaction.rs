//! Crash matrices of an automatic compaction, a manual compaction, and an undo: after a crash at any commit, the conversation
//! is either compacted once or not yet, and the next process reaches the same final state.

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

/// The user's message, with which the turn starts.
const REQUEST: &str = "Look at the large one.";

/// A scenario that compacts a thread, or undoes a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CompactionScenario {
    pub(super) name: &'static str,
    operation: CompactionOperation,
}

/// The operation of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CompactionOperation {
    /// A turn whose large tool result causes an automatic compaction.
    Turn,
    /// A manual compaction.
    Compact,
    /// An undo of a compaction whose messages the memory has summarized.
    Undo,
}

/// All scenarios.
pub(super) const SCENARIOS: [CompactionScenario; 3] = [
    CompactionScenario { name: "compacting turn", operation: CompactionOperation::Turn },
    CompactionScenario { name: "compact", operation: CompactionOperation::Compact },
    CompactionScenario { name: "uncompact", operation: CompactionOperation::Undo },
];

/// The final state as the user can see it.
#[derive(Debug, Clone, PartialEq)]
struct CompactionObservation {
    /// The thread's events as lines.
    events: Vec<String>,
    /// The number of compaction boundaries.
    markers: usize,
    /// The number of clipped tool results.
    clip_count: usize,
    status: ThreadStatus,
    runs: Vec<RunStatus>,
    /// The number of compacted messages that the memory summarized.
    queued_for_memory: u64,
    /// The number of archived messages.
    archived: u64,
    /// The messages of the next request, as JSON text.
    request: String,
}

/// Returns an environment with its server and a thread of 8 turns. For an undo, the thread is compacted and the memory has
/// summarized it.
async fn set_up(operation: CompactionOperation) -> (TestEnvironment, ScriptedServer, ThreadId) {
    let environment = TestEnvironment::new();
    let memory_summary = ScriptedReply::text("Parts were put in order.")
        .when_body_contains(MEMORY_SUMMARIZER_PROMPT)
        .with_repeat();
    let record =
        ScriptedReply::text(RECORD).with_tokens(700, 70).when_body_contains(SUMMARIZER_PROMPT).with_repeat();
    let calls = large_call("c1", 80_000).when_turn_is(9, 1).with_repeat();
    // A large result causes an automatic compaction. After an undo, it would compact the conversation again.
    let calls = (operation != CompactionOperation::Undo).then_some(calls);
    let done = without_usage(ScriptedReply::text("Done.")).with_repeat();
    let replies = [memory_summary, record].into_iter().chain(calls).chain([done]);
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let agent = agent_in(&environment, &server, usize::MAX);
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    append(&agent, thread, &turns(1..9, 3_000)).await;
    if operation == CompactionOperation::Undo {
        compact_thread(&agent, thread).await.unwrap();
        assert_eq!(settle_memory(&agent).await.len(), 1);
    }
    (environment, server, thread)
}

/// Writes the configuration and returns an agent whose process aborts at `boundary`.
fn agent_in(environment: &TestEnvironment, server: &ScriptedServer, boundary: usize) -> Agent {
    let section = "[permissions]\nallow = [\"large\"]";
    configure(environment, server, (36_000, section));
    agent_over(environment, boundary).1
}

/// Returns an agent whose process aborts at `boundary`, and its store.
fn agent_over(environment: &TestEnvironment, boundary: usize) -> (Arc<CrashingStore>, Agent) {
    let store = CrashingStore::crash_at(environment.store(), boundary);
    let agent = environment
        .agent_over(store.clone(), TEST_MODEL)
        .with_tool(Arc::new(crate::compaction::LargeResultTool));
    (store, agent)
}

/// Runs the scenario in this process, which aborts at `boundary`.
pub(super) async fn run_until_crash(
    environment: &TestEnvironment,
    scenario: CompactionScenario,
    boundary: usize,
) {
    run_scenario(&agent_over(environment, boundary).1, scenario).await.unwrap();
}

/// Continues the scenario from its current state, as a user would who starts Segue again after a crash.
async fn run_scenario(agent: &Agent, scenario: CompactionScenario) -> agent::Result<()> {
    let (frames, cancel) = unwatched();
    let threads = agent.threads().list(ThreadFilter { limit: 2, ..ThreadFilter::default() }).await?;
    let thread = threads[0].thread_id;
    agent.runs().recover(thread, &frames, &cancel).await?;
    match scenario.operation {
        CompactionOperation::Compact if visible_markers(agent, thread).await.is_empty() => {
            return match agent
                .threads()
                .compact(thread, &CompactionParameters::default(), &frames, &cancel)
                .await
            {
                // The recovery has already finished the compaction that the crashed process started.
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
    let prompts = agent.threads().prompts(thread, 1).await?;
    if prompts[0].text != REQUEST {
        agent.runs().send_message(thread, REQUEST, &frames, &cancel).await?;
    }
    Ok(())
}

/// Returns the line without fields that differ between runs: durations and sequence numbers.
fn without_times(line: String) -> String {
    let Some((kind, content)) = line.split_once(' ') else { return line };
    let Ok(mut content) = serde_json::from_str::<Map<String, Value>>(content) else {
        return line;
    };
    content.retain(|key, _| key != "duration_ms" && key != "seq" && !key.ends_with("_seq"));
    format!("{kind} {}", Value::Object(content))
}

/// Reads the final state, summarizes queued messages into the memory, and sends one more message.
async fn observe(
    agent: &Agent,
    server: &ScriptedServer,
    (thread, operation): (ThreadId, CompactionOperation),
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
    assert_eq!(agent.store().active_runs(None).await.unwrap(), [], "every run has ended");
    let queued = if operation == CompactionOperation::Undo { vec![] } else { vec![thread.to_string()] };
    assert_eq!(
        queued_threads(agent).await,
        queued,
        "f8: the thread is queued for the memory exactly if it has a marker"
    );
    let summarized = settle_memory(agent).await.iter().map(|settled| settled.turns).sum();
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
        queued_for_memory: summarized,
        archived,
        request,
    }
}

/// Runs the scenario without a crash, and then with a crash at every commit boundary. Asserts that all final states are
/// equal, and returns the final state.
async fn check_scenario(scenario: CompactionScenario) -> CompactionObservation {
    let (environment, server, thread) = set_up(scenario.operation).await;
    let (counting, agent) = agent_over(&environment, usize::MAX);
    run_scenario(&agent, scenario).await.unwrap();
    let boundaries = counting.commit_count() * 2;
    let calls = server.call_count();
    let expected = observe(&agent, &server, (thread, scenario.operation)).await;
    for boundary in 0..boundaries {
        let (environment, server, thread) = set_up(scenario.operation).await;
        assert!(
            crashes_in_scenario(&environment, scenario.name, &CrashPoint::Boundary(boundary)),
            "boundary {boundary} was not reached"
        );
        let agent = agent_over(&environment, usize::MAX).1;
        run_scenario(&agent, scenario).await.unwrap();
        let calls_after_crash = server.call_count();
        assert!(
            calls_after_crash <= calls + 1,
            "boundary {boundary}: only a model call whose answer was lost is repeated"
        );
        let observed = observe(&agent, &server, (thread, scenario.operation)).await;
        assert_eq!(observed, expected, "{}: crash at boundary {boundary}", scenario.name);
    }
    println!("{}: {boundaries} points", scenario.name);
    assert!(boundaries >= 4, "the matrix has {boundaries} points");
    expected
}

#[tokio::test]
async fn e9_a_turn_that_compacts_survives_a_crash_at_every_commit() {
    let observed = check_scenario(SCENARIOS[0]).await;
    let (markers, clips) = (observed.markers, observed.clip_count);
    assert!(markers >= 1 && clips == 1, "{markers} markers, {clips} clips");
    assert!(
        observed
            .events
            .iter()
            .any(|line| line.contains(&large_result(1_000).lines().nth(9).unwrap().to_owned()))
    );
}

#[tokio::test]
async fn e9_a_manual_compaction_survives_a_crash_at_every_commit() {
    let observed = check_scenario(SCENARIOS[1]).await;
    assert_eq!((observed.markers, observed.clip_count), (1, 0));
}

#[tokio::test]
async fn m9_an_undo_survives_a_crash_at_every_commit() {
    let observed = check_scenario(SCENARIOS[2]).await;
    assert_eq!(
        (observed.markers, observed.queued_for_memory, observed.archived),
        (1, 0, 0),
        "the memory no longer archives the messages"
    );
    assert!(!observed.request.contains(SUMMARY_OPENING), "the original messages are sent");
}
