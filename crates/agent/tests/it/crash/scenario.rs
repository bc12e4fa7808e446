//! The scenarios of the crash matrices of turns: the model's replies, the user's decisions, and the permission rules.

use std::sync::Arc;

use agent::{Agent, AgentSettings, ApprovalPolicy};
use protocol::{ActionRequest, Decision};
use serde_json::{Value, json};
use test_model::{Script, ScriptedReply, ScriptedServer};

use super::recording_tool::{RecordTool, WaitForResultTool};
use crate::environment::{CrashingStore, TEST_MODEL, TestEnvironment};

/// The user's first message. It identifies requests of the main agent, because no sub-agent receives it.
pub(super) const REQUEST: &str = "Do all of it.";

/// A scripted turn.
pub(super) struct TurnScenario {
    pub(super) name: &'static str,
    /// More text for the configuration file.
    config: &'static str,
    /// The policy for calls that no rule covers.
    approve: ApprovalPolicy,
    replies: fn() -> Vec<ScriptedReply>,
}

/// All scenarios.
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
    /// Returns the scenario with this name. Panics if there is none.
    pub(super) fn by_name(name: &str) -> &'static Self {
        SCENARIOS.iter().find(|scenario| scenario.name == name).unwrap()
    }

    /// Returns a new environment and server for the scenario.
    pub(super) fn set_up(&self) -> (TestEnvironment, ScriptedServer) {
        let environment = TestEnvironment::new();
        let server = ScriptedServer::start(Script::new((self.replies)())).unwrap();
        environment.configure_with_extra(&server, self.config);
        environment.write_file("notes.txt", "one\ntwo\n");
        (environment, server)
    }

    /// Returns an agent whose process aborts at `boundary`.
    pub(super) fn agent(&self, environment: &TestEnvironment, boundary: usize) -> Agent {
        let settings = AgentSettings { approval_policy: self.approve, ..environment.settings(TEST_MODEL) };
        let store = CrashingStore::crash_at(environment.store(), boundary);
        Agent::with_store(settings, store)
            .unwrap()
            .with_tool(Arc::new(RecordTool))
            .with_tool(Arc::new(WaitForResultTool))
    }
}

/// Returns the user's decision about an action: run the call with an edited line.
pub(super) fn decision(request: &ActionRequest) -> Decision {
    let line = format!("{}, edited", request.args["line"].as_str().unwrap());
    let edited = json!({"name": request.name, "args": {"line": line}});
    serde_json::from_value(json!({"type": "edit", "edited_action": edited})).unwrap()
}

/// Returns a reply to the main agent's request in this turn and step, which repeats.
fn main_agent_reply(reply: ScriptedReply, turn: usize, step: usize) -> ScriptedReply {
    reply.when_body_contains(REQUEST).when_turn_is(turn, step).with_repeat()
}

/// Returns a reply to the request of the sub-agent with this task in this step, which repeats.
fn subagent_reply(task: &str, reply: ScriptedReply, step: usize) -> ScriptedReply {
    reply.when_body_contains(task).when_turn_is(1, step).with_repeat()
}

/// Returns the main agent's last replies of the first and of the second turn.
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
    let record_call = ScriptedReply::call("s1", "record", json!({"line": "hens"}));
    let hens =
        [subagent_reply("Count the hens.", record_call, 1), subagent_reply("Count the hens.", counted, 2)];
    [main_agent_reply(calls, 1, 1)].into_iter().chain(final_replies()).chain(hens).collect()
}

fn two_tasks() -> Vec<ScriptedReply> {
    let prompt = |animal: &str| format!("Count the {animal}.");
    let task = |animal: &str| json!({"description": format!("count {animal}"), "prompt": prompt(animal)});
    let calls = ScriptedReply::call("c1", "task", task("hens")).with_call("c2", "task", task("ducks"));
    let subagents = ["hens", "ducks"].into_iter().flat_map(|animal| {
        let record_call = ScriptedReply::call(format!("s-{animal}"), "record", json!({"line": animal}));
        let counted = ScriptedReply::text(format!("There are three {animal}."));
        [subagent_reply(&prompt(animal), record_call, 1), subagent_reply(&prompt(animal), counted, 2)]
    });
    [main_agent_reply(calls, 1, 1)].into_iter().chain(final_replies()).chain(subagents).collect()
}

fn one_task_that_asks_twice() -> Vec<ScriptedReply> {
    const TASK: &str = "Count the hens, then the eggs.";
    let calls = ScriptedReply::call("c1", "task", json!({"description": "count", "prompt": TASK}));
    let hens = ScriptedReply::call("s1", "record", json!({"line": "hens"}));
    let eggs = ScriptedReply::call("s2", "record", json!({"line": "eggs"}));
    let counted = ScriptedReply::text("There are three hens, and an egg.");
    let subagent =
        [subagent_reply(TASK, hens, 1), subagent_reply(TASK, eggs, 2), subagent_reply(TASK, counted, 3)];
    [main_agent_reply(calls, 1, 1)].into_iter().chain(final_replies()).chain(subagent).collect()
}
