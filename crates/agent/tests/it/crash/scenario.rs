//! The plots of the turns that processes die in: what the model says, what a person answers, what the rules are.

use std::sync::Arc;

use agent::{Agent, AgentSettings, ApprovalPolicy};
use protocol::{ActionRequest, Decision};
use serde_json::{Value, json};
use test_model::{Script, ScriptedReply, ScriptedServer};

use super::recording_tool::{RecordTool, WaitForResultTool};
use crate::environment::{CrashingStore, TEST_MODEL, TestEnvironment};

/// The person's first message; no sub-agent reads it.
pub(super) const REQUEST: &str = "Do all of it.";

/// One plot.
pub(super) struct TurnScenario {
    pub(super) name: &'static str,
    config: &'static str,
    approve: ApprovalPolicy,
    replies: fn() -> Vec<ScriptedReply>,
}

/// Every plot.
pub(super) const SCENARIOS: &[TurnScenario] = &[
    TurnScenario {
        name: "policy",
        config: "",
        approve: ApprovalPolicy::Allow,
        replies: three_calls_one_of_a_command,
    },
    TurnScenario {
        name: "rule",
        config: RECORD_AND_LOOK_ALLOWED,
        approve: ApprovalPolicy::Ask,
        replies: three_calls,
    },
    TurnScenario {
        name: "approval",
        config: LOOK_ALLOWED,
        approve: ApprovalPolicy::Ask,
        replies: three_calls,
    },
    TurnScenario {
        name: "subagent",
        config: RECORD_AND_LOOK_ALLOWED,
        approve: ApprovalPolicy::Ask,
        replies: one_task,
    },
    TurnScenario { name: "asking_subagents", config: "", approve: ApprovalPolicy::Ask, replies: two_tasks },
    TurnScenario {
        name: "asking_twice",
        config: "",
        approve: ApprovalPolicy::Ask,
        replies: one_task_that_asks_twice,
    },
];

const RECORD_AND_LOOK_ALLOWED: &str = "[permissions]\nallow = [\"record\", \"look\"]\n";
const LOOK_ALLOWED: &str = "[permissions]\nallow = [\"look\"]\n";

impl TurnScenario {
    pub(super) fn by_name(name: &str) -> &'static Self {
        SCENARIOS.iter().find(|plot| plot.name == name).unwrap()
    }

    /// Makes a world for it, in which nothing has happened.
    pub(super) fn world(&self) -> (TestEnvironment, ScriptedServer) {
        let world = TestEnvironment::new();
        let server = ScriptedServer::start(Script::new((self.replies)())).unwrap();
        world.configure_with_extra(&server, self.config);
        world.write_file("notes.txt", "one\ntwo\n");
        (world, server)
    }

    /// Returns an agent whose process dies at `boundary`.
    pub(super) fn agent(&self, world: &TestEnvironment, boundary: usize) -> Agent {
        let settings = AgentSettings { approval_policy: self.approve, ..world.settings(TEST_MODEL) };
        let store = CrashingStore::crash_at(world.store(), boundary);
        Agent::with_store(settings, store)
            .unwrap()
            .with_tool(Arc::new(RecordTool))
            .with_tool(Arc::new(WaitForResultTool))
    }
}

/// Returns what a person answers: yes, but with another line.
pub(super) fn decision(request: &ActionRequest) -> Decision {
    let line = format!("{}, edited", request.args["line"].as_str().unwrap());
    let edited = json!({"name": request.name, "args": {"line": line}});
    serde_json::from_value(json!({"type": "edit", "edited_action": edited})).unwrap()
}

/// A reply of the thread's own agent, as often as it is asked for.
fn main_agent_reply(reply: ScriptedReply, turn: usize, step: usize) -> ScriptedReply {
    reply.when_body_contains(REQUEST).when_turn_is(turn, step).with_repeat()
}

/// A reply of the sub-agent with that task.
fn subagent_reply(task: &str, reply: ScriptedReply, step: usize) -> ScriptedReply {
    reply.when_body_contains(task).when_turn_is(1, step).with_repeat()
}

fn final_replies() -> [ScriptedReply; 2] {
    [
        main_agent_reply(ScriptedReply::text("All of it is done."), 1, 2),
        main_agent_reply(ScriptedReply::text("Still here."), 2, 1),
    ]
}

fn todos() -> Value {
    json!({"todos": [{"content": "record it", "status": "completed"}]})
}

fn three_calls() -> Vec<ScriptedReply> {
    let calls = ScriptedReply::text("I begin.")
        .with_call("c1", "record", json!({"line": "own"}))
        .with_call("c2", "look", json!({"call": "c1"}))
        .with_call("c3", "write_todos", todos());
    [main_agent_reply(calls, 1, 1)].into_iter().chain(final_replies()).collect()
}

fn three_calls_one_of_a_command() -> Vec<ScriptedReply> {
    let command = json!({"command": "echo own >> effects.txt"});
    let calls = ScriptedReply::text("I begin.")
        .with_call("c1", "execute", command)
        .with_call("c2", "read_file", json!({"path": "notes.txt"}))
        .with_call("c3", "write_todos", todos());
    [main_agent_reply(calls, 1, 1)].into_iter().chain(final_replies()).collect()
}

fn one_task() -> Vec<ScriptedReply> {
    let calls =
        ScriptedReply::call("c1", "task", json!({"description": "count", "prompt": "Count the hens."}))
            .with_call("c2", "record", json!({"line": "own"}));
    let counted = ScriptedReply::text("There are three hens.");
    let records = ScriptedReply::call("s1", "record", json!({"line": "hens"}));
    let hens = [subagent_reply("Count the hens.", records, 1), subagent_reply("Count the hens.", counted, 2)];
    [main_agent_reply(calls, 1, 1)].into_iter().chain(final_replies()).chain(hens).collect()
}

fn two_tasks() -> Vec<ScriptedReply> {
    let prompt = |what: &str| format!("Count the {what}.");
    let task = |what: &str| json!({"description": format!("count {what}"), "prompt": prompt(what)});
    let calls = ScriptedReply::call("c1", "task", task("hens")).with_call("c2", "task", task("ducks"));
    let subs = ["hens", "ducks"].into_iter().flat_map(|what| {
        let records = ScriptedReply::call(format!("s-{what}"), "record", json!({"line": what}));
        let counted = ScriptedReply::text(format!("There are three {what}."));
        [subagent_reply(&prompt(what), records, 1), subagent_reply(&prompt(what), counted, 2)]
    });
    [main_agent_reply(calls, 1, 1)].into_iter().chain(final_replies()).chain(subs).collect()
}

fn one_task_that_asks_twice() -> Vec<ScriptedReply> {
    const TASK: &str = "Count the hens, then the eggs.";
    let calls = ScriptedReply::call("c1", "task", json!({"description": "count", "prompt": TASK}));
    let hens = ScriptedReply::call("s1", "record", json!({"line": "hens"}));
    let eggs = ScriptedReply::call("s2", "record", json!({"line": "eggs"}));
    let counted = ScriptedReply::text("There are three hens, and an egg.");
    let subs =
        [subagent_reply(TASK, hens, 1), subagent_reply(TASK, eggs, 2), subagent_reply(TASK, counted, 3)];
    [main_agent_reply(calls, 1, 1)].into_iter().chain(final_replies()).chain(subs).collect()
}
