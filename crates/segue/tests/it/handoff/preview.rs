//! `segue handoff --preview` changes nothing: every row of the database is the same before and after.

use std::collections::BTreeMap;

use rusqlite::types::Value as Stored;
use serde_json::{Value, json};
use test_model::{Gate, GatePosition, Script, ScriptedReply, ScriptedServer};

use super::summary_draft;
use crate::sandbox::{TestSandbox, sample_session};

/// Returns every row of every table, in its stored form.
fn stored_rows(sandbox: &TestSandbox) -> BTreeMap<String, Vec<String>> {
    let connection = rusqlite::Connection::open(sandbox.home().join("segue.db")).unwrap();
    let mut names = connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").unwrap();
    let names: Vec<String> =
        names.query_map([], |row| row.get(0)).unwrap().map(|name| name.unwrap()).collect();
    let mut all = BTreeMap::new();
    for name in names {
        let mut statement = connection.prepare(&format!("SELECT * FROM \"{name}\"")).unwrap();
        let width = statement.column_count();
        let read = |row: &rusqlite::Row<'_>| {
            let values: Vec<Stored> = (0..width).map(|at| row.get(at)).collect::<rusqlite::Result<_>>()?;
            Ok(format!("{values:?}"))
        };
        let mut rows: Vec<String> = statement.query_map([], read).unwrap().map(|row| row.unwrap()).collect();
        rows.sort();
        all.insert(name, rows);
    }
    assert!(all.len() > 10, "{:?}", all.keys());
    all
}

/// Runs a command and checks that it changes no row.
fn run_unchanged(sandbox: &TestSandbox, args: &[&str]) -> String {
    let before = stored_rows(sandbox);
    let output = sandbox.run(args);
    assert_eq!(output.code, 0, "{args:?}: {output:?}");
    assert_eq!(stored_rows(sandbox), before, "{args:?}");
    output.stdout
}

/// Previews in both formats, and returns the report.
fn preview_unchanged(sandbox: &TestSandbox, source: &str) -> Value {
    let text = run_unchanged(sandbox, &["handoff", source, "--preview"]);
    assert!(text.contains("Only shown: nothing was stored, and no thread was created."), "{text}");
    let report: Value =
        serde_json::from_str(&run_unchanged(sandbox, &["handoff", source, "--preview", "--json"])).unwrap();
    assert_eq!(report["outcome"], "previewed");
    assert_eq!(report["handoff"]["status"], "previewed");
    report
}

/// Checks that a stored draft has the previewed bytes, and refers to the same events.
fn assert_same_draft(previewed: &Value, stored: &Value) {
    for key in ["summary_md", "summary_sha256", "coverage", "iteration", "problem"] {
        assert_eq!(previewed[key], stored[key], "{key}");
    }
    for key in ["title", "tldr", "body", "model", "carried", "tokens_used"] {
        assert_eq!(previewed["summary_json"][key], stored["summary_json"][key], "{key}");
    }
    let names = |report: &Value| -> Vec<String> { report.as_object().unwrap().keys().cloned().collect() };
    let decided = ["outcome", "thread_id", "handoff", "summary_json", "child_thread_id", "next_command"];
    assert!(decided.iter().all(|name| names(previewed).iter().any(|key| key == name)), "{previewed}");
}

fn empty_home() -> TestSandbox {
    let sandbox = TestSandbox::new().with_file_database();
    assert_eq!(sandbox.threads().len(), 0);
    sandbox
}

/// Imports the sample session and returns its thread's id.
fn import_sample(sandbox: &TestSandbox) -> String {
    let report = sandbox.json(&["import", &sandbox.write_session(), "--json"]);
    report["threads"][0]["thread_id"].as_str().unwrap().to_owned()
}

#[test]
fn g15_a_preview_of_a_thread_changes_no_row_and_shows_what_a_draft_stores() {
    let sandbox = empty_home();
    let thread = import_sample(&sandbox);
    let previewed = preview_unchanged(&sandbox, &thread);
    assert_eq!(previewed["thread_id"], thread.as_str());
    assert_eq!(previewed.get("import"), None);
    let stored = sandbox.run(&["handoff", &thread, "--json"]).json();
    assert_same_draft(&previewed, &stored);
    let pending = run_unchanged(&sandbox, &["handoff", &thread, "--preview", "--json"]);
    let pending: Value = serde_json::from_str(&pending).unwrap();
    assert_eq!((&pending["outcome"], &pending["handoff"]), (&json!("pending"), &stored["handoff"]));
    let other_goal = sandbox.run(&["handoff", &thread, "--preview", "another", "goal"]);
    other_goal.assert_error(1, "request a handoff of thread");
}

#[test]
fn g15_a_preview_of_a_session_file_imports_nothing_and_says_how_to_keep_it() {
    let sandbox = empty_home();
    let session = sandbox.write_session();
    let previewed = preview_unchanged(&sandbox, &session);
    assert_eq!(previewed["import"]["threads"][0]["is_new"], true);
    assert_eq!(previewed["import"]["threads"][0]["thread_id"], previewed["thread_id"]);
    let text = run_unchanged(&sandbox, &["handoff", &session, "--preview"]);
    assert!(text.contains(&format!("To keep the session: segue import {session}")), "{text}");
    assert_eq!(sandbox.threads().len(), 0);
    assert_same_draft(&previewed, &sandbox.run(&["handoff", &session, "--json"]).json());
    assert_eq!(sandbox.threads().len(), 1);
}

#[test]
fn g15_a_preview_of_a_session_that_grew_after_its_import_refers_to_the_events_of_a_real_import() {
    let sandbox = empty_home();
    let session = sample_session();
    let beginning: String = session.lines().take(6).map(|line| format!("{line}\n")).collect();
    let path = sandbox.write_file("session.jsonl", beginning);
    let decline = sandbox.write_file("decline.json", json!({"decisions": [{"type": "reject"}]}).to_string());
    // The events of the declined handoff separate the two parts of the session.
    assert_eq!(sandbox.run(&["handoff", &path, "--decision-file", &decline]).code, 0);
    let imported = preview_unchanged(&sandbox, &path);
    assert_eq!(imported["import"]["threads"][0]["events_new"], 0);
    sandbox.write_file("session.jsonl", &session);
    let previewed = preview_unchanged(&sandbox, &path);
    assert_eq!(previewed["import"]["threads"][0]["events_new"], 5);
    assert_eq!(previewed["thread_id"], imported["thread_id"]);
    let stored = sandbox.run(&["handoff", &path, "--json"]).json();
    assert_eq!(stored["thread_id"], previewed["thread_id"]);
    assert_same_draft(&previewed, &stored);
}

#[test]
fn g15_a_preview_calls_a_model_once_and_changes_no_row() {
    let replies = ["one", "two", "three"].map(summary_draft);
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let sandbox = empty_home().with_model(&server);
    let thread = import_sample(&sandbox);
    for (source, title, calls) in [(thread, "one", 1), (sandbox.write_session(), "two", 2)] {
        let report = run_unchanged(&sandbox, &["handoff", &source, "--preview", "--json"]);
        let report: Value = serde_json::from_str(&report).unwrap();
        assert_eq!(report["summary_json"]["title"], title);
        assert_eq!(report["summary_json"]["tokens_used"], 15);
        assert_eq!(server.call_count(), calls);
    }
    let other = sandbox.write_file("other.jsonl", sample_session().replace("11111111", "22222222"));
    let text = run_unchanged(&sandbox, &["handoff", &other, "--preview"]);
    assert!(text.contains("three") && text.contains("This draft used 15 tokens"), "{text}");
    assert_eq!(server.call_count(), 3);
}

#[test]
fn g15_a_preview_that_is_killed_while_the_model_drafts_leaves_no_trace() {
    let waiting = |name: &str| {
        let gate = Some(Gate { name: name.to_owned(), at: GatePosition::Start });
        ScriptedReply { gate, ..summary_draft("late") }
    };
    let server = ScriptedServer::start(Script::new([waiting("first"), waiting("second")])).unwrap();
    let sandbox = empty_home().with_model(&server);
    let thread = import_sample(&sandbox);
    let other = sandbox.write_file("other.jsonl", sample_session().replace("11111111", "22222222"));
    let before = stored_rows(&sandbox);
    for (source, calls) in [(thread, 1), (other, 2)] {
        let mut child = sandbox.command(&["handoff", &source, "--preview"]).spawn().unwrap();
        while server.call_count() < calls {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(stored_rows(&sandbox), before, "{source}");
        let files: Vec<_> =
            std::fs::read_dir(sandbox.home()).unwrap().map(|file| file.unwrap().file_name()).collect();
        assert!(!files.iter().any(|name| name.to_string_lossy().starts_with(".tmp")), "{files:?}");
    }
    assert_eq!(sandbox.threads().len(), 1);
}

#[test]
fn g15_a_preview_in_the_chat_stores_no_handoff() {
    let sandbox = empty_home();
    let thread = import_sample(&sandbox);
    // The chat updates the search index, which is not part of this guarantee.
    let rows = |sandbox: &TestSandbox| {
        let mut rows = stored_rows(sandbox);
        let rows = ["events", "handoffs", "proposals", "runs"].map(|name| rows.remove(name).unwrap());
        (rows, sandbox.threads())
    };
    let before = rows(&sandbox);
    let chat = sandbox.run_with(&["chat", "-t", &thread], "/handoff --preview\n");
    assert!(chat.stdout.contains("Objective"), "{chat:?}");
    assert!(chat.stdout.contains("Only shown: nothing was stored."), "{chat:?}");
    assert!(rows(&sandbox) == before);
}

#[test]
fn a_preview_names_no_key_because_none_works_there() {
    let sandbox = TestSandbox::new();
    let calls: Vec<Value> = (0..40)
        .flat_map(|n| {
            let arguments = json!({"file_path": format!("src/part_{n}.rs")}).to_string();
            let function = json!({"name": "read_file", "arguments": arguments});
            let call = json!({"id": format!("c{n}"), "type": "function", "function": function});
            [
                json!({"role": "assistant", "content": "I read on.", "tool_calls": [call]}),
                json!({"role": "tool", "tool_call_id": format!("c{n}"), "content": "fn part() {}"}),
            ]
        })
        .collect();
    let request =
        json!({"role": "user", "content": "Read all parts of the parser and list their functions."});
    let messages: Vec<Value> = std::iter::once(request).chain(calls).collect();
    let path = sandbox.home().join("long.json");
    std::fs::create_dir_all(sandbox.home()).unwrap();
    std::fs::write(&path, Value::from(messages).to_string()).unwrap();
    let output = sandbox.run(&["handoff", path.to_str().unwrap(), "--preview"]);
    let text = output.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("Long lists are folded here") && text.contains("`--json` prints all."), "{text}");
    assert!(!text.contains("`l` lists all"), "{text}");
}
