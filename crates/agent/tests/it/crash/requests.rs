//! Requests of clients that processes die in: whatever the moment, the run that was asked for comes to its end once, and
//! the thread is as if nobody had died.

use std::sync::Arc;

use agent::{Agent, HandoffRequestOptions};
use protocol::{RunId, RunStatus, Thread, ThreadId, ThreadStatus};
use serde_json::{Value, json};
use test_model::{Script, ScriptedReply, ScriptedServer};
use uuid::Uuid;

use super::{CrashPoint, crashes_in_scenario};
use crate::environment::{CrashingStore, TEST_MODEL, TestEnvironment, unwatched};
use crate::requests::{blank_thread, request, run, transcript_lines, user_request, write_call};

/// A request, in a thread where a call waits that a person is asked about.
#[derive(Debug)]
pub(super) struct RequestScenario {
    pub(super) name: &'static str,
    operation: RequestOperation,
    /// Commits that the road takes at least.
    commits_min: usize,
}

/// The expected end of a run.
#[derive(Debug)]
enum RequestOperation {
    /// One is asked for, and works.
    Requested(fn(&ThreadIds) -> Value),
    /// One is asked for, and stopped while it waits.
    Stopped,
    /// The last one is taken back.
    RolledBack,
}

/// The ids that a client knows of the thread.
struct ThreadIds {
    /// The point before the message that began the turn.
    before: String,
    /// The question.
    question: String,
}

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
            |at| json!({"command": {"resume": {at.question.as_str(): reject_call()}}}),
        ),
        commits_min: 4,
    },
    RequestScenario {
        name: "an edit",
        operation: RequestOperation::Requested(
            |at| json!({"input": user_request("Other.")["input"], "checkpoint_id": at.before}),
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
        name: "a stop of one that waits",
        operation: RequestOperation::Stopped,
        commits_min: 2,
    },
    RequestScenario { name: "a run taken back", operation: RequestOperation::RolledBack, commits_min: 1 },
    RequestScenario {
        name: "nothing",
        operation: RequestOperation::Requested(|_| json!({"input": null})),
        commits_min: 2,
    },
];

/// A call that a process dies in may have had its effect, which is another matter.
fn reject_call() -> Value {
    json!({"decisions": [{"type": "reject", "message": "no"}]})
}

/// The final state.
#[derive(Debug, PartialEq)]
struct RequestObservation {
    transcript: Vec<String>,
    run: Option<(RunStatus, Option<String>)>,
    thread: ThreadStatus,
    waiting: Vec<String>,
    handoffs: usize,
    states: usize,
}

async fn set_up() -> (TestEnvironment, ScriptedServer) {
    let world = TestEnvironment::new();
    let replies = [
        ScriptedReply::text("One."),
        write_call("c1", "a").when_body_contains("Write."),
        ScriptedReply::text("Done.").with_repeat(),
    ];
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    world.configure(&server);
    let agent = agent_over(&world, usize::MAX).1;
    let thread = blank_thread(&agent).await;
    run(&agent, thread, user_request("First.")).await;
    // A handoff waits beside the turn's question.
    let (frames, cancel) = unwatched();
    world
        .agent()
        .handoffs()
        .request(thread, HandoffRequestOptions::default(), &frames, &cancel)
        .await
        .unwrap();
    let end = run(&agent, thread, user_request("Write.")).await;
    assert_eq!(end.status, RunStatus::Interrupted, "{end:?}");
    (world, server)
}

fn agent_over(world: &TestEnvironment, boundary: usize) -> (Arc<CrashingStore>, Agent) {
    let store = CrashingStore::crash_at(world.store(), boundary);
    let agent = world.agent_over(store.clone(), TEST_MODEL);
    (store, agent)
}

async fn only_thread(agent: &Agent) -> Thread {
    agent.threads().find("last").await.unwrap()
}

fn run_id(thread: ThreadId) -> RunId {
    RunId::from_uuid(Uuid::new_v5(&thread.uuid(), b"asked"))
}

async fn thread_ids(agent: &Agent, thread: ThreadId) -> ThreadIds {
    let states = agent.threads().states(thread, None, 100).await.unwrap();
    let has =
        |state: &&agent::ThreadSnapshot| state.messages.iter().any(|shown| shown.message.text() == "Write.");
    let first = states.iter().rev().find(has).unwrap();
    let pending = agent.runs().pending_interrupts(thread).await.unwrap();
    let question = pending.iter().find(|interrupt| interrupt.node == "after_model");
    ThreadIds {
        before: first.parent_id.unwrap().to_string(),
        question: question.map(|interrupt| interrupt.interrupt_id.to_string()).unwrap_or_default(),
    }
}

/// Walks the road in a process that dies at `boundary`.
pub(super) async fn run_until_crash(world: &TestEnvironment, road: &RequestScenario, boundary: usize) {
    run_scenario(&agent_over(world, boundary).1, road).await;
}

/// Walks the road from wherever it stands, as a server does: the run is stored, it begins, and once it has begun it is
/// recovered.
async fn run_scenario(agent: &Agent, road: &RequestScenario) {
    let (frames, cancel) = unwatched();
    let thread = only_thread(agent).await.thread_id;
    let run_id = run_id(thread);
    if let RequestOperation::RolledBack = road.operation {
        if transcript_lines(agent, thread).await.contains(&"U: Write.".to_owned()) {
            let newest = agent.store().newest_run(thread).await.unwrap().unwrap();
            agent.runs().roll_back_run(newest).await.unwrap();
        }
        return;
    }
    let found = agent.store().run(run_id).await.unwrap();
    let asked = match found.as_ref().map(|run| run.status) {
        Some(RunStatus::Running) => {
            agent.runs().recover(thread, &frames, &cancel).await.unwrap();
            return;
        }
        None => {
            let asked = match road.operation {
                RequestOperation::Requested(asked) => request(asked(&thread_ids(agent, thread).await)),
                RequestOperation::Stopped | RequestOperation::RolledBack => {
                    request(user_request("Never mind."))
                }
            };
            agent.runs().enqueue(run_id, thread, &asked).await.unwrap();
            asked
        }
        Some(RunStatus::Pending) => {
            // The process that was to begin it is gone.
            agent.runs().claim_runs(vec![run_id]).await.unwrap();
            agent.store().run_requests(&[run_id]).await.unwrap().remove(0).1
        }
        Some(_) => return,
    };
    if let RequestOperation::Stopped = road.operation {
        agent.runs().cancel_queued_run(run_id).await.unwrap();
        return;
    }
    let begun = agent.runs().begin_queued(run_id, thread, &asked, &frames).await.unwrap();
    agent.runs().drive_started(begun, &frames, &cancel).await.unwrap();
}

async fn observe(agent: &Agent) -> RequestObservation {
    let thread = only_thread(agent).await;
    let id = thread.thread_id;
    let run = agent.store().run(run_id(id)).await.unwrap();
    let pending = agent.runs().pending_interrupts(id).await.unwrap();
    RequestObservation {
        transcript: transcript_lines(agent, id).await,
        run: run.map(|run| (run.status, run.failure.map(|failure| failure.message))),
        thread: thread.status,
        waiting: pending.into_iter().map(|interrupt| interrupt.node).collect(),
        handoffs: agent.handoffs().pending(Some(id)).await.unwrap().len(),
        states: agent.threads().states(id, None, 100).await.unwrap().len(),
    }
}

#[tokio::test]
async fn j2_what_a_client_asked_for_survives_death_at_every_commit() {
    for road in &SCENARIOS {
        let (world, _server) = set_up().await;
        let (counting, agent) = agent_over(&world, usize::MAX);
        run_scenario(&agent, road).await;
        let commits = counting.commit_count();
        assert!(commits >= road.commits_min, "{}: {commits} commits", road.name);
        let expected = observe(&agent).await;
        let is_active = |(status, _): &(RunStatus, _)| status.is_active();
        assert!(!expected.run.as_ref().is_some_and(is_active), "{}: {expected:?}", road.name);
        for boundary in 0..commits * 2 {
            let (world, _server) = set_up().await;
            let road_name = format!("request: {}", road.name);
            assert!(
                crashes_in_scenario(&world, &road_name, &CrashPoint::Boundary(boundary)),
                "{road_name}: {boundary} was not reached"
            );
            let agent = agent_over(&world, usize::MAX).1;
            run_scenario(&agent, road).await;
            assert_eq!(observe(&agent).await, expected, "{road_name}: death at boundary {boundary}");
        }
        println!("{}: {} points", road.name, commits * 2);
    }
}
