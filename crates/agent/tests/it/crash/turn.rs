//! Turns that processes die in: whatever the moment, the next process comes to the same transcript. A stored answer of
//! the model is not asked for again, and a call that may have had its effect is reported and not repeated.

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

/// The beginning of what the model is told of a call that a crash cut off.
const INTERRUPTED_CALL_TEXT: &str = "The call was interrupted";

/// The final state as far as a person can see it, without the side effects.
#[derive(Debug, Clone, PartialEq)]
struct TurnObservation {
    threads: Vec<ThreadObservation>,
    todos: Value,
}

/// One thread, the person's own or a sub-agent's.
#[derive(Debug, Clone, PartialEq)]
struct ThreadObservation {
    name: Option<String>,
    status: ThreadStatus,
    runs: Vec<(RunStatus, u64)>,
    events: Vec<String>,
}

/// A call with an effect.
#[derive(Debug, Clone, PartialEq)]
struct CallEffect {
    /// How often it had its effect.
    times: usize,
    /// Its result, if one is stored.
    result: Option<String>,
    /// True if the thread is at a point at which the call may have started.
    proximity: CallProximity,
}

/// Where a thread stands as to its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallProximity {
    /// Their node comes next.
    Next,
    /// The node before theirs comes next; whether it went on without a commit is not known.
    Near,
    /// They were not begun, or are done.
    Far,
}

pub(super) async fn run_until_crash(world: &TestEnvironment, plot: &str, boundary: usize) {
    let agent = TurnScenario::by_name(plot).agent(world, boundary);
    run_scenario(&agent).await.unwrap();
}

/// Walks the road from wherever it stands, the way a person would who opens Segue again.
async fn run_scenario(agent: &Agent) -> agent::Result<ThreadId> {
    let (frames, cancel) = unwatched();
    let thread = agent.threads().list(ThreadFilter { limit: 2, ..ThreadFilter::default() }).await?;
    let [thread] = thread.as_slice() else { panic!("one thread, not {thread:?}") };
    let thread_id = thread.thread_id;
    agent.runs().recover(thread_id, &frames, &cancel).await?;
    if agent.threads().events(thread_id).await?.iter().all(|event| event.message().is_none()) {
        agent.runs().send_message(thread_id, REQUEST, &frames, &cancel).await?;
    }
    while let Some(asked) = agent.runs().pending_interrupts(thread_id).await?.into_iter().next() {
        let decisions = asked.payload.action_requests.iter().map(decision).collect();
        agent.runs().resume(asked.interrupt_id, &Decisions { decisions }, &frames, &cancel).await?;
    }
    Ok(thread_id)
}

/// Returns all threads, the person's own first.
async fn threads(agent: &Agent) -> Vec<Thread> {
    let filter = ThreadFilter { subagents: SubagentVisibility::Shown, limit: 10, ..ThreadFilter::default() };
    let mut threads = agent.threads().list(filter).await.unwrap();
    threads.sort_by_key(|thread| (thread.parent_id.is_some(), thread.name.clone()));
    threads
}

async fn observe(agent: &Agent) -> TurnObservation {
    let mut seen = TurnObservation { threads: Vec::new(), todos: Value::Null };
    for thread in threads(agent).await {
        let events = agent.threads().events(thread.thread_id).await.unwrap();
        let mut runs = Vec::new();
        for run_id in events.iter().filter_map(|event| event.run_id).collect::<BTreeSet<_>>() {
            let run = agent.store().run(run_id).await.unwrap().unwrap();
            runs.push((run.status, run.usage.total_tokens()));
        }
        let (name, status) = (thread.name, thread.status);
        let mut events = event_lines(&events);
        // That the run was taken over is told, and is all that may be told beside what happened.
        events.retain(|event| event != r#"run_started {"how":"taken over"}"#);
        seen.threads.push(ThreadObservation { name, status, runs, events });
        let state = agent.store().checkpoint(thread.thread_id).await.unwrap().unwrap();
        if let Some(todos) = state.channels.get(TODOS_CHANNEL.key()) {
            seen.todos = todos.clone();
        }
    }
    assert_eq!(agent.store().active_runs(None).await.unwrap(), [], "every run has come to its end");
    seen
}

/// Returns the calls with an effect, by the line they write.
async fn call_effects(world: &TestEnvironment, agent: &Agent) -> BTreeMap<String, CallEffect> {
    let written = world.read_file(EFFECTS_FILE);
    let mut effects = BTreeMap::new();
    for thread in threads(agent).await {
        let events = agent.threads().events(thread.thread_id).await.unwrap();
        let standing =
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
            effects.insert(line.to_owned(), CallEffect { times, result, proximity: standing });
        }
    }
    effects
}

fn results_of(messages: &[Message], call: &str) -> Vec<String> {
    let results = messages.iter().filter_map(|message| match message {
        Message::Tool(result) if result.call_id == call => Some(message.text()),
        Message::Tool(_) | Message::Human(_) | Message::Ai(_) => None,
    });
    results.collect()
}

/// Returns how many answers of the model are stored.
async fn stored_answer_count(agent: &Agent) -> usize {
    let mut answers = 0;
    for thread in threads(agent).await {
        let events = agent.threads().events(thread.thread_id).await.unwrap();
        answers += events.iter().filter(|event| event.event_type == "ai_message").count();
    }
    answers
}

/// Dies, and walks on; fails unless what is left is what was expected. Returns whether it died.
async fn check_crash_at(plot: &TurnScenario, death: &CrashPoint, expected: &TurnObservation) -> bool {
    let (world, server) = plot.world();
    plot.agent(&world, usize::MAX).threads().create(None).await.unwrap();
    if !crashes_in_scenario(&world, plot.name, death) {
        return false;
    }
    let told = format!("{}, {death:?}", plot.name);
    let agent = plot.agent(&world, usize::MAX);
    let (before, stored, called) =
        (call_effects(&world, &agent).await, stored_answer_count(&agent).await, server.call_count());
    let thread = run_scenario(&agent).await.unwrap();
    let mut seen = observe(&agent).await;
    for (line, effect) in call_effects(&world, &agent).await {
        let result = effect.result.unwrap_or_else(|| panic!("{told}: the call for {line} dangles"));
        let is_cut_off = result.starts_with(INTERRUPTED_CALL_TEXT);
        let left = before.get(&line);
        let may_have_begun =
            left.is_some_and(|left| left.result.is_none() && left.proximity != CallProximity::Far);
        let has_begun =
            left.is_some_and(|left| left.result.is_none() && left.proximity == CallProximity::Next);
        assert!(!is_cut_off || may_have_begun, "{told}: {line} was not made although it never began");
        assert!(is_cut_off || !has_begun, "{told}: {line} may have been made twice");
        let times = if is_cut_off { left.map_or(0, |left| left.times) } else { 1 };
        assert_eq!(effect.times, times, "{told}: how often {line} had its effect");
        assert!(effect.times <= 1, "{told}: {line} had its effect twice");
        if is_cut_off {
            seen.replace_interrupted_results(expected);
        }
    }
    assert_eq!(&seen, expected, "{told}");
    let asked = server.call_count() - called;
    assert_eq!(asked, stored_answer_count(&agent).await - stored, "{told}: an answer was asked for again");
    assert_thread_usable(&agent, &server, thread, &told).await;
    true
}

impl TurnObservation {
    /// Puts the expected result in the place of one that was cut off.
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

/// Fails unless the thread can be used, and what it sends is legal.
async fn assert_thread_usable(agent: &Agent, server: &ScriptedServer, thread: ThreadId, told: &str) {
    let (frames, cancel) = unwatched();
    let end = agent.runs().send_message(thread, "And now?", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Success, "{told}: {end:?}");
    assert_paired(&server.requests().last().unwrap().body);
}

/// Dies at every place of the plot.
async fn check_crash_matrix(name: &str, calls: &[&str]) {
    let plot = TurnScenario::by_name(name);
    let (world, server) = plot.world();
    let agent = plot.agent(&world, usize::MAX);
    agent.threads().create(None).await.unwrap();
    let thread = run_scenario(&agent).await.unwrap();
    let expected = observe(&agent).await;
    for (line, effect) in call_effects(&world, &agent).await {
        assert_eq!(effect.times, 1, "{line}");
    }
    assert_thread_usable(&agent, &server, thread, name).await;
    // How many commits there are depends on which of the calls that run together is done first.
    let mut boundary = 0;
    while check_crash_at(plot, &CrashPoint::Boundary(boundary), &expected).await {
        boundary += 1;
    }
    assert!(boundary >= 8, "the matrix of {name} has {boundary} points");
    for call in calls {
        for place in ["before", "after"] {
            let death = CrashPoint::Call(format!("{place} {call}"));
            assert!(check_crash_at(plot, &death, &expected).await, "{death:?}");
        }
    }
}

#[tokio::test]
async fn j2_a_turn_whose_calls_the_policy_allows_survives_death_at_every_commit() {
    check_crash_matrix("policy", &[]).await;
}

#[tokio::test]
async fn j2_a_turn_survives_death_at_every_commit_and_inside_its_tool() {
    check_crash_matrix("rule", &["own"]).await;
}

#[tokio::test]
async fn j7_a_turn_that_asks_survives_death_at_every_commit_and_inside_its_tool() {
    check_crash_matrix("approval", &["own, edited"]).await;
}

#[tokio::test]
async fn j2_a_turn_with_a_subagent_survives_death_at_every_commit_and_inside_their_tools() {
    check_crash_matrix("subagent", &["own", "hens"]).await;
}

#[tokio::test]
async fn j7_a_turn_with_two_subagents_that_ask_survives_death_at_every_commit() {
    check_crash_matrix("asking_subagents", &["hens, edited", "ducks, edited"]).await;
}

#[tokio::test]
async fn j7_an_answer_reaches_the_question_it_was_given_to_whenever_the_process_dies() {
    check_crash_matrix("asking_twice", &["hens, edited", "eggs, edited"]).await;
}
