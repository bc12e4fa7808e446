//! Requests of clients that processes die in: whatever the moment, the run that was asked for comes to its end once, and
//! the thread is as if nobody had died.

use std::sync::Arc;

use agent::{Agent, HandoffRequest};
use protocol::{RunId, RunStatus, Thread, ThreadId, ThreadStatus};
use serde_json::{Value, json};
use test_model::{Reply, Script, Server};
use uuid::Uuid;

use super::{Death, dies};
use crate::requests::{blank, request, run, said, told, write};
use crate::world::{Dying, MODEL, World, quiet};

/// A request, in a thread where a call waits that a person is asked about.
#[derive(Debug)]
pub(super) struct Road {
    pub(super) name: &'static str,
    way: Way,
    /// Commits that the road takes at least.
    commits_min: usize,
}

/// What becomes of a run.
#[derive(Debug)]
enum Way {
    /// One is asked for, and works.
    Asked(fn(&Standing) -> Value),
    /// One is asked for, and stopped while it waits.
    Stopped,
    /// The last one is taken back.
    TakenBack,
}

/// What a client knows of the thread.
struct Standing {
    /// The point before the message that began the turn.
    before: String,
    /// The question.
    question: String,
}

pub(super) const ROADS: [Road; 9] = [
    Road { name: "a new message", way: Way::Asked(|_| said("Never mind.")), commits_min: 3 },
    Road { name: "an answer", way: Way::Asked(|_| json!({"command": {"resume": refuse()}})), commits_min: 4 },
    Road {
        name: "a named answer",
        way: Way::Asked(|at| json!({"command": {"resume": {at.question.as_str(): refuse()}}})),
        commits_min: 4,
    },
    Road {
        name: "an edit",
        way: Way::Asked(|at| json!({"input": said("Other.")["input"], "checkpoint_id": at.before})),
        commits_min: 3,
    },
    Road { name: "the end", way: Way::Asked(|_| json!({"command": {"goto": "__end__"}})), commits_min: 2 },
    Road {
        name: "an answer with a change",
        way: Way::Asked(|_| json!({"command": {"resume": refuse(), "update": said("Hm.")["input"]}})),
        commits_min: 4,
    },
    Road { name: "a stop of one that waits", way: Way::Stopped, commits_min: 2 },
    Road { name: "a run taken back", way: Way::TakenBack, commits_min: 1 },
    Road { name: "nothing", way: Way::Asked(|_| json!({"input": null})), commits_min: 2 },
];

/// A call that a process dies in may have had its effect, which is another matter.
fn refuse() -> Value {
    json!({"decisions": [{"type": "reject", "message": "no"}]})
}

/// What is left at the end.
#[derive(Debug, PartialEq)]
struct Seen {
    told: Vec<String>,
    run: Option<(RunStatus, Option<String>)>,
    thread: ThreadStatus,
    waiting: Vec<String>,
    handoffs: usize,
    states: usize,
}

async fn begun() -> (World, Server) {
    let world = World::new();
    let replies =
        [Reply::text("One."), write("c1", "a").when_body_contains("Write."), Reply::text("Done.").repeated()];
    let server = Server::start(Script::new(replies)).unwrap();
    world.configure(&server);
    let agent = agent_over(&world, usize::MAX).1;
    let thread = blank(&agent).await;
    run(&agent, thread, said("First.")).await;
    // A handoff waits beside the turn's question.
    let (frames, cancel) = quiet();
    world.agent().handoffs().request(thread, HandoffRequest::default(), &frames, &cancel).await.unwrap();
    let end = run(&agent, thread, said("Write.")).await;
    assert_eq!(end.status, RunStatus::Interrupted, "{end:?}");
    (world, server)
}

fn agent_over(world: &World, boundary: usize) -> (Arc<Dying>, Agent) {
    let store = Dying::at(world.store(), boundary);
    let agent = world.agent_over(store.clone(), MODEL);
    (store, agent)
}

async fn only_thread(agent: &Agent) -> Thread {
    agent.threads().find("last").await.unwrap()
}

fn run_id(thread: ThreadId) -> RunId {
    RunId::from_uuid(Uuid::new_v5(&thread.uuid(), b"asked"))
}

async fn standing(agent: &Agent, thread: ThreadId) -> Standing {
    let states = agent.threads().states(thread, None, 100).await.unwrap();
    let has = |state: &&agent::State| state.messages.iter().any(|shown| shown.message.text() == "Write.");
    let first = states.iter().rev().find(has).unwrap();
    let pending = agent.runs().pending_interrupts(thread).await.unwrap();
    let question = pending.iter().find(|interrupt| interrupt.node == "after_model");
    Standing {
        before: first.parent_id.unwrap().to_string(),
        question: question.map(|interrupt| interrupt.interrupt_id.to_string()).unwrap_or_default(),
    }
}

/// Walks the road in a process that dies at `boundary`.
pub(super) async fn walk_to_death(world: &World, road: &Road, boundary: usize) {
    walk(&agent_over(world, boundary).1, road).await;
}

/// Walks the road from wherever it stands, as a server does: the run is stored, it begins, and once it has begun it is
/// recovered.
async fn walk(agent: &Agent, road: &Road) {
    let (frames, cancel) = quiet();
    let thread = only_thread(agent).await.thread_id;
    let run_id = run_id(thread);
    if let Way::TakenBack = road.way {
        if told(agent, thread).await.contains(&"U: Write.".to_owned()) {
            let newest = agent.store().newest_run(thread).await.unwrap().unwrap();
            agent.runs().roll_back(newest).await.unwrap();
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
            let asked = match road.way {
                Way::Asked(asked) => request(asked(&standing(agent, thread).await)),
                Way::Stopped | Way::TakenBack => request(said("Never mind.")),
            };
            agent.runs().queue(run_id, thread, &asked).await.unwrap();
            asked
        }
        Some(RunStatus::Pending) => {
            // The process that was to begin it is gone.
            agent.runs().claim(vec![run_id]).await.unwrap();
            agent.store().run_requests(&[run_id]).await.unwrap().remove(0).1
        }
        Some(_) => return,
    };
    if let Way::Stopped = road.way {
        agent.runs().cancel_queued(run_id).await.unwrap();
        return;
    }
    let begun = agent.runs().begin_queued(run_id, thread, &asked, &frames).await.unwrap();
    agent.runs().drive_begun(begun, &frames, &cancel).await.unwrap();
}

async fn look(agent: &Agent) -> Seen {
    let thread = only_thread(agent).await;
    let id = thread.thread_id;
    let run = agent.store().run(run_id(id)).await.unwrap();
    let pending = agent.runs().pending_interrupts(id).await.unwrap();
    Seen {
        told: told(agent, id).await,
        run: run.map(|run| (run.status, run.failure.map(|failure| failure.message))),
        thread: thread.status,
        waiting: pending.into_iter().map(|interrupt| interrupt.node).collect(),
        handoffs: agent.handoffs().pending(Some(id)).await.unwrap().len(),
        states: agent.threads().states(id, None, 100).await.unwrap().len(),
    }
}

#[tokio::test]
async fn j2_what_a_client_asked_for_survives_death_at_every_commit() {
    for road in &ROADS {
        let (world, _server) = begun().await;
        let (counting, agent) = agent_over(&world, usize::MAX);
        walk(&agent, road).await;
        let commits = counting.commits();
        assert!(commits >= road.commits_min, "{}: {commits} commits", road.name);
        let expected = look(&agent).await;
        let is_active = |(status, _): &(RunStatus, _)| status.is_active();
        assert!(!expected.run.as_ref().is_some_and(is_active), "{}: {expected:?}", road.name);
        for boundary in 0..commits * 2 {
            let (world, _server) = begun().await;
            let road_name = format!("request: {}", road.name);
            assert!(
                dies(&world, &road_name, &Death::Boundary(boundary)),
                "{road_name}: {boundary} was not reached"
            );
            let agent = agent_over(&world, usize::MAX).1;
            walk(&agent, road).await;
            assert_eq!(look(&agent).await, expected, "{road_name}: death at boundary {boundary}");
        }
        println!("{}: {} points", road.name, commits * 2);
    }
}
