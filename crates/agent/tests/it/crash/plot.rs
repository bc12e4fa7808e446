//! The plots of the turns that processes die in: what the model says, what a person answers, what the rules are.

use std::sync::Arc;

use agent::{Agent, Policy, Settings};
use protocol::{ActionRequest, Decision};
use serde_json::{Value, json};
use test_model::{Reply, Script, Server};

use super::record::{Look, Record};
use crate::world::{Dying, MODEL, World};

/// What the person says first; no sub-agent reads it.
pub(super) const REQUEST: &str = "Do all of it.";

/// One plot.
pub(super) struct Plot {
    pub(super) name: &'static str,
    config: &'static str,
    approve: Policy,
    replies: fn() -> Vec<Reply>,
}

/// Every plot.
pub(super) const PLOTS: &[Plot] = &[
    Plot { name: "policy", config: "", approve: Policy::Allow, replies: three_calls_one_of_a_command },
    Plot { name: "rule", config: ALLOWED, approve: Policy::Ask, replies: three_calls },
    Plot { name: "approval", config: LOOKING, approve: Policy::Ask, replies: three_calls },
    Plot { name: "subagent", config: ALLOWED, approve: Policy::Ask, replies: one_task },
    Plot { name: "asking_subagents", config: "", approve: Policy::Ask, replies: two_tasks },
    Plot { name: "asking_twice", config: "", approve: Policy::Ask, replies: one_task_that_asks_twice },
];

const ALLOWED: &str = "[permissions]\nallow = [\"record\", \"look\"]\n";
const LOOKING: &str = "[permissions]\nallow = [\"look\"]\n";

impl Plot {
    pub(super) fn of(name: &str) -> &'static Self {
        PLOTS.iter().find(|plot| plot.name == name).unwrap()
    }

    /// Makes a world for it, in which nothing has happened.
    pub(super) fn world(&self) -> (World, Server) {
        let world = World::new();
        let server = Server::start(Script::new((self.replies)())).unwrap();
        world.configure_with(&server, self.config);
        world.put("notes.txt", "one\ntwo\n");
        (world, server)
    }

    /// Returns an agent whose process dies at `boundary`.
    pub(super) fn agent(&self, world: &World, boundary: usize) -> Agent {
        let settings = Settings { approve: self.approve, ..world.settings(MODEL) };
        let store = Dying::at(world.store(), boundary);
        Agent::with_store(settings, store).unwrap().with_tool(Arc::new(Record)).with_tool(Arc::new(Look))
    }
}

/// Returns what a person answers: yes, but with another line.
pub(super) fn decision(request: &ActionRequest) -> Decision {
    let line = format!("{}, edited", request.args["line"].as_str().unwrap());
    let edited = json!({"name": request.name, "args": {"line": line}});
    serde_json::from_value(json!({"type": "edit", "edited_action": edited})).unwrap()
}

/// A reply of the thread's own agent, as often as it is asked for.
fn own(reply: Reply, turn: usize, step: usize) -> Reply {
    reply.when_body_contains(REQUEST).when_turn_is(turn, step).repeated()
}

/// A reply of the sub-agent with that task.
fn subagents(task: &str, reply: Reply, step: usize) -> Reply {
    reply.when_body_contains(task).when_turn_is(1, step).repeated()
}

fn ending() -> [Reply; 2] {
    [own(Reply::text("All of it is done."), 1, 2), own(Reply::text("Still here."), 2, 1)]
}

fn todos() -> Value {
    json!({"todos": [{"content": "record it", "status": "completed"}]})
}

fn three_calls() -> Vec<Reply> {
    let calls = Reply::text("I begin.")
        .and_call("c1", "record", json!({"line": "own"}))
        .and_call("c2", "look", json!({"call": "c1"}))
        .and_call("c3", "write_todos", todos());
    [own(calls, 1, 1)].into_iter().chain(ending()).collect()
}

fn three_calls_one_of_a_command() -> Vec<Reply> {
    let command = json!({"command": "echo own >> effects.txt"});
    let calls = Reply::text("I begin.")
        .and_call("c1", "execute", command)
        .and_call("c2", "read_file", json!({"path": "notes.txt"}))
        .and_call("c3", "write_todos", todos());
    [own(calls, 1, 1)].into_iter().chain(ending()).collect()
}

fn one_task() -> Vec<Reply> {
    let calls = Reply::call("c1", "task", json!({"description": "count", "prompt": "Count the hens."}))
        .and_call("c2", "record", json!({"line": "own"}));
    let counted = Reply::text("There are three hens.");
    let records = Reply::call("s1", "record", json!({"line": "hens"}));
    let hens = [subagents("Count the hens.", records, 1), subagents("Count the hens.", counted, 2)];
    [own(calls, 1, 1)].into_iter().chain(ending()).chain(hens).collect()
}

fn two_tasks() -> Vec<Reply> {
    let prompt = |what: &str| format!("Count the {what}.");
    let task = |what: &str| json!({"description": format!("count {what}"), "prompt": prompt(what)});
    let calls = Reply::call("c1", "task", task("hens")).and_call("c2", "task", task("ducks"));
    let subs = ["hens", "ducks"].into_iter().flat_map(|what| {
        let records = Reply::call(format!("s-{what}"), "record", json!({"line": what}));
        let counted = Reply::text(format!("There are three {what}."));
        [subagents(&prompt(what), records, 1), subagents(&prompt(what), counted, 2)]
    });
    [own(calls, 1, 1)].into_iter().chain(ending()).chain(subs).collect()
}

fn one_task_that_asks_twice() -> Vec<Reply> {
    const TASK: &str = "Count the hens, then the eggs.";
    let calls = Reply::call("c1", "task", json!({"description": "count", "prompt": TASK}));
    let hens = Reply::call("s1", "record", json!({"line": "hens"}));
    let eggs = Reply::call("s2", "record", json!({"line": "eggs"}));
    let counted = Reply::text("There are three hens, and an egg.");
    let subs = [subagents(TASK, hens, 1), subagents(TASK, eggs, 2), subagents(TASK, counted, 3)];
    [own(calls, 1, 1)].into_iter().chain(ending()).chain(subs).collect()
}
