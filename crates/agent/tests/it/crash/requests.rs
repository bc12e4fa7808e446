//! Crash matrices of run requests of clients: after a crash at any commit, the requested run ends exactly once, and the
//! thread's final state equals that of a run without a crash.

use std::sync::Arc;

use agent::{Agent, HandoffRequestOptions};
use protocol::{RunId, RunStatus, Thread, ThreadId, ThreadStatus};
use serde_json::{Value, json};
use test_model::{Script, ScriptedReply, ScriptedServer};
use uuid::Uuid;

use super::{CrashPoint, crashes_in_scenario};
use crate::environment::{CrashingStore, TEST_MODEL, TestEnvironment, unwatched};
use crate::requests::{blank_thread, request, run, transcript_lines, user_request, write_call};

/// A request in a thread with a tool call that waits for an approval.
#[derive(Debug)]
pub(super) struct RequestScenario {
    pub(super) name: &'static str,
    operation: RequestOperation,
    /// The minimum number of commits of the scenario.
    commits_min: usize,
}

/// The operation of a scenario.
#[derive(Debug)]
enum RequestOperation {
    /// A run is requested and executed. The function returns the request as JSON.
    Requested(fn(&ThreadIds) -> Value),
    /// A run is requested, and cancelled while it is queued.
    Cancelled,
    /// The newest run is rolled back.
    RolledBack,
}

/// The ids of the thread that a request can contain.
struct ThreadIds {
    /// The checkpoint before the message that started the turn.
    before: String,
    /// The interrupt that asks for the approval.
    interrupt: String,
}

/// All scenarios.
pub(super) const SCENARIOS: [RequestScenario; 9] = [
    RequestScenario {
        name: "a new message",
        operation: RequestOperation::Requested(|_| user_request("Never mind.")),
        commits_min: 3,
    },
    RequestScenario {
        name: "an answer",
        operation: RequestOperation::Requested(|_| json!({"command": {"resume": reject_call()}})),
        commits_min: 4,
    },
    RequestScenario {
        name: "a named answer",
        operation: RequestOperation::Requested(
            |ids| json!({"command": {"resume": {ids.interrupt.as_str(): reject_call()}}}),
        ),
        commits_min: 4,
    },
    RequestScenario {
        name: "an edit",
        operation: RequestOperation::Requested(
            |ids| json!({"input": user_request("Other.")["input"], "checkpoint_id": ids.before}),
        ),
        commits_min: 3,
    },
    RequestScenario {
        name: "the end",
        operation: RequestOperation::Requested(|_| json!({"command": {"goto": "__end__"}})),
        commits_min: 2,
    },
    RequestScenario {
        name: "an answer with a change",
        operation: RequestOperation::Requested(
            |_| json!({"command": {"resume": reject_call(), "update": user_request("Hm.")["input"]}}),
        ),
        commits_min: 4,
    },
    RequestScenario {
        name: "a cancellation of a queued run",
        operation: RequestOperation::Cancelled,
        commits_min: 2,
    },
    RequestScenario { name: "a rolled back run", operation: RequestOperation::RolledBack, commits_min: 1 },
    RequestScenario {
        name: "nothing",
        operation: RequestOperation::Requested(|_| json!({"input": null})),
        commits_min: 2,
    },
];

/// Returns an answer that rejects the call. The call is not approved, because a crash inside it could leave its effect
/// without a result, which the crash matrices of turns test.
fn reject_call() -> Value {
    json!({"decisions": [{"type": "reject", "message": "no"}]})
}

/// The final state.
#[derive(Debug, PartialEq)]
struct RequestObservation {
    transcript: Vec<String>,
    /// The status of the requested run, and the message of its failure.
    run: Option<(RunStatus, Option<String>)>,
    thread: ThreadStatus,
    /// The nodes of the pending interrupts.
    interrupted_nodes: Vec<String>,
    /// The number of pending handoffs.
    handoffs: usize,
    /// The number of states in the thread's state history.
    states: usize,
}

/// Returns an environment with a thread in which a handoff and a tool call wait for decisions, and its server.
async fn set_up() -> (TestEnvironment, ScriptedServer) {
    let environment = TestEnvironment::new();
    let replies = [
        ScriptedReply::text("One."),
        write_call("c1", "a").when_body_contains("Write."),
        ScriptedReply::text("Done.").with_repeat(),
    ];
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    environment.configure(&server);
    let agent = agent_over(&environment, usize::MAX).1;
    let thread = blank_thread(&agent).await;
    run(&agent, thread, user_request("First.")).await;
    // A pending handoff must not interfere with the interrupt of the turn.
    let (frames, cancel) = unwatched();
    environment
        .agent()
        .handoffs()
        .request(thread, HandoffRequestOptions::default(), &frames, &cancel)
        .await
        .unwrap();
    let end = run(&agent, thread, user_request("Write.")).await;
    assert_eq!(end.status, RunStatus::Interrupted, "{end:?}");
    (environment, server)
}

/// Returns an agent whose process aborts at `boundary`, and its store.
fn agent_over(environment: &TestEnvironment, boundary: usize) -> (Arc<CrashingStore>, Agent) {
    let store = CrashingStore::crash_at(environment.store(), boundary);
    let agent = environment.agent_over(store.clone(), TEST_MODEL);
    (store, agent)
}

/// Returns the thread of the environment.
async fn only_thread(agent: &Agent) -> Thread {
    agent.threads().find("last").await.unwrap()
}

/// Returns the id of the requested run, which every process derives from the thread.
fn run_id(thread: ThreadId) -> RunId {
    RunId::from_uuid(Uuid::new_v5(&thread.uuid(), b"requested"))
}

/// Reads the ids that requests contain.
async fn thread_ids(agent: &Agent, thread: ThreadId) -> ThreadIds {
    let states = agent.threads().states(thread, None, 100).await.unwrap();
    let has_request =
        |state: &&agent::ThreadSnapshot| state.messages.iter().any(|entry| entry.message.text() == "Write.");
    let first = states.iter().rev().find(has_request).unwrap();
    let pending = agent.runs().pending_interrupts(thread).await.unwrap();
    let interrupt = pending.iter().find(|interrupt| interrupt.node == "after_model");
    ThreadIds {
        before: first.parent_id.unwrap().to_string(),
        interrupt: interrupt.map(|interrupt| interrupt.interrupt_id.to_string()).unwrap_or_default(),
    }
}

/// Runs the scenario in this process, which aborts at `boundary`.
pub(super) async fn run_until_crash(
    environment: &TestEnvironment,
    scenario: &RequestScenario,
    boundary: usize,
) {
    run_scenario(&agent_over(environment, boundary).1, scenario).await;
}

/// Continues the scenario from its current state, as a server does: it stores the run and starts it, and recovers a run that
/// was started before.
async fn run_scenario(agent: &Agent, scenario: &RequestScenario) {
    let (frames, cancel) = unwatched();
    let thread = only_thread(agent).await.thread_id;
    let run_id = run_id(thread);
    if let RequestOperation::RolledBack = scenario.operation {
        if transcript_lines(agent, thread).await.contains(&"U: Write.".to_owned()) {
            let newest = agent.store().newest_run(thread).await.unwrap().unwrap();
            agent.runs().roll_back_run(newest).await.unwrap();
        }
        return;
    }
    let stored = agent.store().run(run_id).await.unwrap();
    let run_request = match stored.as_ref().map(|run| run.status) {
        Some(RunStatus::Running) => {
            agent.runs().recover(thread, &frames, &cancel).await.unwrap();
            return;
        }
        None => {
            let run_request = match scenario.operation {
                RequestOperation::Requested(body) => request(body(&thread_ids(agent, thread).await)),
                RequestOperation::Cancelled | RequestOperation::RolledBack => {
                    request(user_request("Never mind."))
                }
            };
            agent.runs().enqueue(run_id, thread, &run_request).await.unwrap();
            run_request
        }
        Some(RunStatus::Pending) => {
            // The process that enqueued the run has crashed, so this process claims it.
            agent.runs().claim_runs(vec![run_id]).await.unwrap();
            agent.store().run_requests(&[run_id]).await.unwrap().remove(0).1
        }
        Some(_) => return,
    };
    if let RequestOperation::Cancelled = scenario.operation {
        agent.runs().cancel_queued_run(run_id).await.unwrap();
        return;
    }
    let started = agent.runs().begin_queued(run_id, thread, &run_request, &frames).await.unwrap();
    agent.runs().drive_started(started, &frames, &cancel).await.unwrap();
}

/// Reads the final state.
async fn observe(agent: &Agent) -> RequestObservation {
    let thread = only_thread(agent).await;
    let id = thread.thread_id;
    let run = agent.store().run(run_id(id)).await.unwrap();
    let pending = agent.runs().pending_interrupts(id).await.unwrap();
    RequestObservation {
        transcript: transcript_lines(agent, id).await,
        run: run.map(|run| (run.status, run.failure.map(|failure| failure.message))),
        thread: thread.status,
        interrupted_nodes: pending.into_iter().map(|interrupt| interrupt.node).collect(),
        handoffs: agent.handoffs().pending(Some(id)).await.unwrap().len(),
        states: agent.threads().states(id, None, 100).await.unwrap().len(),
    }
}

#[tokio::test]
async fn j2_a_run_request_survives_a_crash_at_every_commit() {
    for scenario in &SCENARIOS {
        let (environment, _server) = set_up().await;
        let (counting, agent) = agent_over(&environment, usize::MAX);
        run_scenario(&agent, scenario).await;
        let commits = counting.commit_count();
        assert!(commits >= scenario.commits_min, "{}: {commits} commits", scenario.name);
        let expected = observe(&agent).await;
        let is_active = |(status, _): &(RunStatus, _)| status.is_active();
        assert!(!expected.run.as_ref().is_some_and(is_active), "{}: {expected:?}", scenario.name);
        for boundary in 0..commits * 2 {
            let (environment, _server) = set_up().await;
            let name = format!("request: {}", scenario.name);
            assert!(
                crashes_in_scenario(&environment, &name, &CrashPoint::Boundary(boundary)),
                "{name}: boundary {boundary} was not reached"
            );
            let agent = agent_over(&environment, usize::MAX).1;
            run_scenario(&agent, scenario).await;
            assert_eq!(observe(&agent).await, expected, "{name}: crash at boundary {boundary}");
        }
        println!("{}: {} points", scenario.name, commits * 2);
    }
}
