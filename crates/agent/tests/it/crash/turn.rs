//! Crash matrices of turns: after a crash at any commit or inside a tool, the next process reaches the same transcript. The
//! model is not called again for a stored answer, and a tool call that may have had its effect is reported and not repeated.

use std::collections::{BTreeMap, BTreeSet};

use agent::{Agent, ThreadFilter};
use journal::SubagentVisibility;
use protocol::{Decisions, Event, Message, RunStatus, Thread, ThreadId, ThreadStatus};
use serde_json::Value;
use test_model::ScriptedServer;
use tools::TODOS_CHANNEL;

use super::recording_tool::EFFECTS_FILE;
use super::scenario::{REQUEST, TurnScenario, decision};
use super::{CrashPoint, crashes_in_scenario};
use crate::environment::{TestEnvironment, assert_paired, event_lines, unwatched};

/// The first words of the result that a tool call gets if a crash interrupted it.
const INTERRUPTED_CALL_TEXT: &str = "The call was interrupted";

/// The final state as the user can see it, without the side effects of tools.
#[derive(Debug, Clone, PartialEq)]
struct TurnObservation {
    threads: Vec<ThreadObservation>,
    todos: Value,
}

/// The final state of a thread, the main agent's or a sub-agent's.
#[derive(Debug, Clone, PartialEq)]
struct ThreadObservation {
    name: Option<String>,
    status: ThreadStatus,
    /// The status and the total tokens of each run.
    runs: Vec<(RunStatus, u64)>,
    events: Vec<String>,
}

/// A tool call with a side effect.
#[derive(Debug, Clone, PartialEq)]
struct CallEffect {
    /// The number of times that the effect happened.
    times: usize,
    /// The stored result, if there is one.
    result: Option<String>,
    /// The position of the thread's checkpoint relative to the call.
    proximity: CallProximity,
}

/// The position of a thread's checkpoint relative to its tool calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallProximity {
    /// The node that executes the calls is next, so they may have started.
    Next,
    /// The node before it is next. It may have continued to the calls without a commit, so they may have started.
    Near,
    /// The calls have not started, or are complete.
    Far,
}

/// Runs the scenario in this process, which aborts at `boundary`.
pub(super) async fn run_until_crash(environment: &TestEnvironment, name: &str, boundary: usize) {
    let agent = TurnScenario::by_name(name).agent(environment, boundary);
    run_scenario(&agent).await.unwrap();
}

/// Continues the scenario from its current state, as a user would who starts Segue again after a crash. Returns the main
/// agent's thread.
async fn run_scenario(agent: &Agent) -> agent::Result<ThreadId> {
    let (frames, cancel) = unwatched();
    let threads = agent.threads().list(ThreadFilter { limit: 2, ..ThreadFilter::default() }).await?;
    let [thread] = threads.as_slice() else { panic!("one thread, not {threads:?}") };
    let thread_id = thread.thread_id;
    agent.runs().recover(thread_id, &frames, &cancel).await?;
    if agent.threads().events(thread_id).await?.iter().all(|event| event.message().is_none()) {
        agent.runs().send_message(thread_id, REQUEST, &frames, &cancel).await?;
    }
    while let Some(interrupt) = agent.runs().pending_interrupts(thread_id).await?.into_iter().next() {
        let decisions = interrupt.payload.action_requests.iter().map(decision).collect();
        agent.runs().resume(interrupt.interrupt_id, &Decisions { decisions }, &frames, &cancel).await?;
    }
    Ok(thread_id)
}

/// Returns all threads, the main agent's first.
async fn threads(agent: &Agent) -> Vec<Thread> {
    let filter = ThreadFilter { subagents: SubagentVisibility::Shown, limit: 10, ..ThreadFilter::default() };
    let mut threads = agent.threads().list(filter).await.unwrap();
    threads.sort_by_key(|thread| (thread.parent_id.is_some(), thread.name.clone()));
    threads
}

/// Reads the final state. Asserts that every run has ended.
async fn observe(agent: &Agent) -> TurnObservation {
    let mut observed = TurnObservation { threads: Vec::new(), todos: Value::Null };
    for thread in threads(agent).await {
        let events = agent.threads().events(thread.thread_id).await.unwrap();
        let mut runs = Vec::new();
        for run_id in events.iter().filter_map(|event| event.run_id).collect::<BTreeSet<_>>() {
            let run = agent.store().run(run_id).await.unwrap().unwrap();
            runs.push((run.status, run.usage.total_tokens()));
        }
        let (name, status) = (thread.name, thread.status);
        let mut events = event_lines(&events);
        // The event of the takeover is the only event that a run without a crash does not have.
        events.retain(|event| event != r#"run_started {"how":"taken over"}"#);
        observed.threads.push(ThreadObservation { name, status, runs, events });
        let state = agent.store().checkpoint(thread.thread_id).await.unwrap().unwrap();
        if let Some(todos) = state.channels.get(TODOS_CHANNEL.key()) {
            observed.todos = todos.clone();
        }
    }
    assert_eq!(agent.store().active_runs(None).await.unwrap(), [], "every run has ended");
    observed
}

/// Returns the tool calls with a side effect, by the line that they write.
async fn call_effects(environment: &TestEnvironment, agent: &Agent) -> BTreeMap<String, CallEffect> {
    let written = environment.read_file(EFFECTS_FILE);
    let mut effects = BTreeMap::new();
    for thread in threads(agent).await {
        let events = agent.threads().events(thread.thread_id).await.unwrap();
        let proximity =
            match agent.store().checkpoint(thread.thread_id).await.unwrap().and_then(|point| point.next) {
                Some(next) if next == "tools" => CallProximity::Next,
                Some(next) if next == "after_model" => CallProximity::Near,
                Some(_) | None => CallProximity::Far,
            };
        let messages: Vec<Message> = events.iter().filter_map(Event::message).collect();
        for (id, name, args) in messages.iter().flat_map(Message::tool_calls) {
            let line = match name {
                "record" => args["line"].as_str().unwrap(),
                "execute" => "own",
                _ => continue,
            };
            let times = written.lines().filter(|written| written.starts_with(line)).count();
            let results: Vec<String> = results_of(&messages, id);
            assert!(results.len() < 2, "call {id} has several results: {results:?}");
            let result = results.into_iter().next();
            effects.insert(line.to_owned(), CallEffect { times, result, proximity });
        }
    }
    effects
}

/// Returns the texts of the results of a tool call.
fn results_of(messages: &[Message], call: &str) -> Vec<String> {
    let results = messages.iter().filter_map(|message| match message {
        Message::Tool(result) if result.call_id == call => Some(message.text()),
        Message::Tool(_) | Message::Human(_) | Message::Ai(_) => None,
    });
    results.collect()
}

/// Returns the number of stored answers of the model.
async fn stored_answer_count(agent: &Agent) -> usize {
    let mut answers = 0;
    for thread in threads(agent).await {
        let events = agent.threads().events(thread.thread_id).await.unwrap();
        answers += events.iter().filter(|event| event.event_type == "ai_message").count();
    }
    answers
}

/// Runs the scenario in a child process that aborts at `crash_point`, continues it in this process, and asserts that the
/// final state equals `expected`. Returns false if the child process did not reach the crash point.
async fn check_crash_at(
    scenario: &TurnScenario,
    crash_point: &CrashPoint,
    expected: &TurnObservation,
) -> bool {
    let (environment, server) = scenario.set_up();
    scenario.agent(&environment, usize::MAX).threads().create(None).await.unwrap();
    if !crashes_in_scenario(&environment, scenario.name, crash_point) {
        return false;
    }
    let case = format!("{}, {crash_point:?}", scenario.name);
    let agent = scenario.agent(&environment, usize::MAX);
    let (effects_before, answers_before, calls_before) =
        (call_effects(&environment, &agent).await, stored_answer_count(&agent).await, server.call_count());
    let thread = run_scenario(&agent).await.unwrap();
    let mut observed = observe(&agent).await;
    for (line, effect) in call_effects(&environment, &agent).await {
        let result = effect.result.unwrap_or_else(|| panic!("{case}: the call for {line} has no result"));
        let is_interrupted = result.starts_with(INTERRUPTED_CALL_TEXT);
        let before = effects_before.get(&line);
        let may_have_started =
            before.is_some_and(|before| before.result.is_none() && before.proximity != CallProximity::Far);
        let counts_as_started =
            before.is_some_and(|before| before.result.is_none() && before.proximity == CallProximity::Next);
        assert!(
            !is_interrupted || may_have_started,
            "{case}: {line} was not executed although it never started"
        );
        assert!(is_interrupted || !counts_as_started, "{case}: {line} may have been executed twice");
        let times = if is_interrupted { before.map_or(0, |before| before.times) } else { 1 };
        assert_eq!(effect.times, times, "{case}: the number of effects of {line}");
        assert!(effect.times <= 1, "{case}: {line} had its effect twice");
        if is_interrupted {
            observed.replace_interrupted_results(expected);
        }
    }
    assert_eq!(&observed, expected, "{case}");
    let calls = server.call_count() - calls_before;
    let answers = stored_answer_count(&agent).await - answers_before;
    assert_eq!(calls, answers, "{case}: the model was called again for a stored answer");
    assert_thread_usable(&agent, &server, thread, &case).await;
    true
}

impl TurnObservation {
    /// Replaces the results of interrupted calls by the expected results.
    fn replace_interrupted_results(&mut self, expected: &Self) {
        for (thread, expected) in self.threads.iter_mut().zip(&expected.threads) {
            for (line, expected) in thread.events.iter_mut().zip(&expected.events) {
                let is_effect = expected.contains("\"record\"") || expected.contains("\"execute\"");
                if line.contains(INTERRUPTED_CALL_TEXT) && expected.starts_with("tool_message") && is_effect {
                    line.clone_from(expected);
                }
            }
        }
    }
}

/// Asserts that a message in the thread succeeds and that its request pairs all tool calls with results.
async fn assert_thread_usable(agent: &Agent, server: &ScriptedServer, thread: ThreadId, case: &str) {
    let (frames, cancel) = unwatched();
    let end = agent.runs().send_message(thread, "And now?", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Success, "{case}: {end:?}");
    assert_paired(&server.requests().last().unwrap().body);
}

/// Runs the scenario without a crash, and then with a crash at every commit boundary and before and after the effect of each
/// of `calls`.
async fn check_crash_matrix(name: &str, calls: &[&str]) {
    let scenario = TurnScenario::by_name(name);
    let (environment, server) = scenario.set_up();
    let agent = scenario.agent(&environment, usize::MAX);
    agent.threads().create(None).await.unwrap();
    let thread = run_scenario(&agent).await.unwrap();
    let expected = observe(&agent).await;
    for (line, effect) in call_effects(&environment, &agent).await {
        assert_eq!(effect.times, 1, "{line}");
    }
    assert_thread_usable(&agent, &server, thread, name).await;
    // The number of commits depends on which of the concurrent calls ends first, so the loop ends with the first boundary
    // that is not reached.
    let mut boundary = 0;
    while check_crash_at(scenario, &CrashPoint::Boundary(boundary), &expected).await {
        boundary += 1;
    }
    assert!(boundary >= 8, "the matrix of {name} has {boundary} points");
    for call in calls {
        for moment in ["before", "after"] {
            let crash_point = CrashPoint::Call(format!("{moment} {call}"));
            assert!(check_crash_at(scenario, &crash_point, &expected).await, "{crash_point:?}");
        }
    }
}

#[tokio::test]
async fn j2_a_turn_whose_calls_the_policy_allows_survives_a_crash_at_every_commit() {
    check_crash_matrix("policy", &[]).await;
}

#[tokio::test]
async fn j2_a_turn_survives_a_crash_at_every_commit_and_inside_its_tool() {
    check_crash_matrix("rule", &["own"]).await;
}

#[tokio::test]
async fn j7_a_turn_with_an_approval_survives_a_crash_at_every_commit_and_inside_its_tool() {
    check_crash_matrix("approval", &["own, edited"]).await;
}

#[tokio::test]
async fn j2_a_turn_with_a_subagent_survives_a_crash_at_every_commit_and_inside_their_tools() {
    check_crash_matrix("subagent", &["own", "hens"]).await;
}

#[tokio::test]
async fn j7_a_turn_with_approvals_of_two_subagents_survives_a_crash_at_every_commit() {
    check_crash_matrix("asking_subagents", &["hens, edited", "ducks, edited"]).await;
}

#[tokio::test]
async fn j7_a_decision_applies_to_the_interrupt_that_it_answers_after_a_crash_at_every_commit() {
    check_crash_matrix("asking_twice", &["hens, edited", "eggs, edited"]).await;
}
