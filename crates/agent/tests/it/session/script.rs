//! The script of the session: what the person says, what the model answers, what is decided about its calls.

use serde_json::{Value, json};
use test_model::{Fault, Reply};

/// How many turns there are.
pub(super) const TURNS: usize = 50;
/// The turn whose run is stopped.
pub(super) const CANCELLED: usize = 27;
/// The turn before which the last two are taken back.
pub(super) const REWOUND: usize = 36;

/// One turn.
pub(super) struct PartOfSession {
    pub(super) says: String,
    pub(super) replies: Vec<Reply>,
    /// The answer to each question of the turn.
    pub(super) decisions: Vec<Value>,
}

/// Returns the turn of that number.
pub(super) fn part(number: usize) -> PartOfSession {
    let says = format!("Request {number}.");
    if number == CANCELLED {
        let replies = vec![Reply::text("I begin with").then(Fault::Stall)];
        return PartOfSession { says, replies, decisions: Vec::new() };
    }
    let id = |call: usize| format!("call_{number}_{call}");
    let end =
        Reply::pieces(["That was ", "request ", &number.to_string(), ". ✓"]).tokens(100 + number as u64, 7);
    let (before, decisions) = match number % 10 {
        1 => (vec![], vec![]),
        2 => (vec![Reply::call(id(1), "read_file", json!({"path": "notes.txt"}))], vec![]),
        3 => (vec![looking(&id)], vec![]),
        4 => (vec![failing(&id)], vec![]),
        5 => (vec![writing(&id, number)], vec![one(json!({"type": "approve"}))]),
        6 => (vec![writing(&id, number)], vec![one(json!({"type": "reject", "message": "Not that file."}))]),
        7 => (
            vec![writing(&id, number)],
            vec![one(json!({"type": "respond", "message": "I wrote it myself."}))],
        ),
        8 => (steps(&id, number), vec![]),
        9 => (vec![looking(&id).thinking(["I look ", "at all of it."])], vec![]),
        _ => (vec![writing(&id, number), mixed(&id, number)], vec![edited(number), approve_and_reject()]),
    };
    let end = if number % 10 == 1 { end.thinking(["Nothing ", "to do."]) } else { end };
    PartOfSession { says, replies: before.into_iter().chain([end]).collect(), decisions }
}

/// Four calls that only look.
fn looking(id: &impl Fn(usize) -> String) -> Reply {
    Reply::text("I look around.")
        .and_call(id(1), "ls", json!({"path": "."}))
        .and_call(id(2), "grep", json!({"pattern": "beta"}))
        .and_call(id(3), "glob", json!({"pattern": "*.txt"}))
        .and_call(id(4), "execute", json!({"command": "printf 'a b\\n'"}))
}

/// Calls that fail, each in its own way.
fn failing(id: &impl Fn(usize) -> String) -> Reply {
    Reply::call(id(1), "read_file", json!({"path": "missing.txt"}))
        .and_call(id(2), "read_file", json!({"path": "../outside.txt"}))
        .and_call(id(3), "no_such_tool", json!({"a": [1, null, "ü"]}))
        .and_call(id(4), "read_file", json!({}))
        .and_call(id(5), "execute", json!({"command": "printf %d nothing"}))
}

/// A call that a person is asked about.
fn writing(id: &impl Fn(usize) -> String, number: usize) -> Reply {
    let args = json!({"path": "src.txt", "content": format!("written in {number}\n")});
    Reply::text("I write it down.").and_call(id(1), "write_file", args)
}

/// Several steps, with the list of tasks.
fn steps(id: &impl Fn(usize) -> String, number: usize) -> Vec<Reply> {
    let todos = |status: &str| json!({"todos": [{"content": format!("part {number}"), "status": status}]});
    let content = format!("number {number}\n");
    vec![
        Reply::call(id(1), "write_todos", todos("in_progress")),
        Reply::call(id(2), "write_file", json!({"path": "out/a.txt", "content": content})).and_call(
            id(3),
            "read_file",
            json!({"path": "notes.txt", "limit": 1}),
        ),
        Reply::call(id(4), "read_file", json!({"path": "out/a.txt"})),
        Reply::call(
            id(5),
            "edit_file",
            json!({"path": "out/a.txt", "old_string": "number", "new_string": "No."}),
        ),
        Reply::call(id(6), "write_todos", todos("completed")).thinking(["Done, ", "then."]),
    ]
}

/// Two calls that are asked about in one question, and one that is not.
fn mixed(id: &impl Fn(usize) -> String, number: usize) -> Reply {
    let content = format!("of {number}\n");
    Reply::call(id(7), "execute", json!({"command": "touch made.txt"}))
        .and_call(id(8), "write_file", json!({"path": "out/b.txt", "content": content}))
        .and_call(id(9), "execute", json!({"command": "rm notes.txt"}))
}

fn one(decision: Value) -> Value {
    json!({"decisions": [decision]})
}

fn edited(number: usize) -> Value {
    let args = json!({"path": "src.txt", "content": format!("by hand, in {number}\n")});
    one(json!({"type": "edit", "edited_action": {"name": "write_file", "args": args}}))
}

fn approve_and_reject() -> Value {
    json!({"decisions": [{"type": "approve"}, {"type": "reject"}]})
}
