//! The script of the session: the user's prompts, the model's replies, and the decisions about tool calls.

use serde_json::{Value, json};
use test_model::{ScriptedFault, ScriptedReply};

/// The number of turns.
pub(super) const TURNS: usize = 50;
/// The number of the turn whose run is cancelled.
pub(super) const CANCELLED_TURN: usize = 27;
/// The number of the turn before which the thread is rewound by two turns.
pub(super) const REWOUND_TURN: usize = 36;

/// A scripted turn.
pub(super) struct SessionTurn {
    /// The user's message.
    pub(super) prompt: String,
    /// The model's replies, one for each call of the model.
    pub(super) replies: Vec<ScriptedReply>,
    /// The decisions about each interrupt of the turn, as JSON.
    pub(super) decisions: Vec<Value>,
}

/// Returns the turn with this number, which counts from 1. The last digit of the number selects the kind of turn.
pub(super) fn session_turn(number: usize) -> SessionTurn {
    let prompt = format!("Request {number}.");
    if number == CANCELLED_TURN {
        let replies = vec![ScriptedReply::text("I begin with").with_fault(ScriptedFault::Stall)];
        return SessionTurn { prompt, replies, decisions: Vec::new() };
    }
    let id = |call: usize| format!("call_{number}_{call}");
    let end = ScriptedReply::from_pieces(["That was ", "request ", &number.to_string(), ". ✓"])
        .with_tokens(100 + number as u64, 7);
    let (before, decisions) = match number % 10 {
        1 => (vec![], vec![]),
        2 => (vec![ScriptedReply::call(id(1), "read_file", json!({"path": "notes.txt"}))], vec![]),
        3 => (vec![read_only_calls(&id)], vec![]),
        4 => (vec![failing_calls(&id)], vec![]),
        5 => (vec![write_call(&id, number)], vec![single_decision(json!({"type": "approve"}))]),
        6 => (
            vec![write_call(&id, number)],
            vec![single_decision(json!({"type": "reject", "message": "Not that file."}))],
        ),
        7 => (
            vec![write_call(&id, number)],
            vec![single_decision(json!({"type": "respond", "message": "I wrote it myself."}))],
        ),
        8 => (several_steps(&id, number), vec![]),
        9 => (vec![read_only_calls(&id).with_thinking(["I look ", "at all of it."])], vec![]),
        _ => (
            vec![write_call(&id, number), mixed_calls(&id, number)],
            vec![edit_decision(number), approve_and_reject()],
        ),
    };
    let end = if number % 10 == 1 { end.with_thinking(["Nothing ", "to do."]) } else { end };
    SessionTurn { prompt, replies: before.into_iter().chain([end]).collect(), decisions }
}

/// Returns a reply with four calls that only read.
fn read_only_calls(id: &impl Fn(usize) -> String) -> ScriptedReply {
    ScriptedReply::text("I look around.")
        .with_call(id(1), "ls", json!({"path": "."}))
        .with_call(id(2), "grep", json!({"pattern": "beta"}))
        .with_call(id(3), "glob", json!({"pattern": "*.txt"}))
        .with_call(id(4), "execute", json!({"command": "printf 'a b\\n'"}))
}

/// Returns a reply with five calls that fail for different reasons.
fn failing_calls(id: &impl Fn(usize) -> String) -> ScriptedReply {
    ScriptedReply::call(id(1), "read_file", json!({"path": "missing.txt"}))
        .with_call(id(2), "read_file", json!({"path": "../outside.txt"}))
        .with_call(id(3), "no_such_tool", json!({"a": [1, null, "ü"]}))
        .with_call(id(4), "read_file", json!({}))
        .with_call(id(5), "execute", json!({"command": "printf %d nothing"}))
}

/// Returns a reply with a call that needs an approval.
fn write_call(id: &impl Fn(usize) -> String, number: usize) -> ScriptedReply {
    let args = json!({"path": "src.txt", "content": format!("written in {number}\n")});
    ScriptedReply::text("I write it down.").with_call(id(1), "write_file", args)
}

/// Returns the replies of a turn with several model calls that maintain a to-do list.
fn several_steps(id: &impl Fn(usize) -> String, number: usize) -> Vec<ScriptedReply> {
    let todos = |status: &str| json!({"todos": [{"content": format!("part {number}"), "status": status}]});
    let content = format!("number {number}\n");
    vec![
        ScriptedReply::call(id(1), "write_todos", todos("in_progress")),
        ScriptedReply::call(id(2), "write_file", json!({"path": "out/a.txt", "content": content})).with_call(
            id(3),
            "read_file",
            json!({"path": "notes.txt", "limit": 1}),
        ),
        ScriptedReply::call(id(4), "read_file", json!({"path": "out/a.txt"})),
        ScriptedReply::call(
            id(5),
            "edit_file",
            json!({"path": "out/a.txt", "old_string": "number", "new_string": "No."}),
        ),
        ScriptedReply::call(id(6), "write_todos", todos("completed")).with_thinking(["Done, ", "then."]),
    ]
}

/// Returns a reply with three calls: `write_file` below `out` is allowed by a rule, and the other two share one interrupt.
fn mixed_calls(id: &impl Fn(usize) -> String, number: usize) -> ScriptedReply {
    let content = format!("of {number}\n");
    ScriptedReply::call(id(7), "execute", json!({"command": "touch made.txt"}))
        .with_call(id(8), "write_file", json!({"path": "out/b.txt", "content": content}))
        .with_call(id(9), "execute", json!({"command": "rm notes.txt"}))
}

/// Returns the answer to an interrupt with one action.
fn single_decision(decision: Value) -> Value {
    json!({"decisions": [decision]})
}

/// Returns an answer that edits the content of the `write_file` call.
fn edit_decision(number: usize) -> Value {
    let args = json!({"path": "src.txt", "content": format!("by hand, in {number}\n")});
    single_decision(json!({"type": "edit", "edited_action": {"name": "write_file", "args": args}}))
}

/// Returns an answer that approves the first action and rejects the second.
fn approve_and_reject() -> Value {
    json!({"decisions": [{"type": "approve"}, {"type": "reject"}]})
}
