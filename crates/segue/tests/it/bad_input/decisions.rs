//! Invalid decisions, and handoffs that cannot be decided: each gives one error line, one hint and the
//! right exit code, and changes nothing.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use rusqlite::Connection;
use serde_json::{Value, json};
use test_model::{GatePosition, Script, ScriptedReply, ScriptedServer};

use crate::handoff::{edit_decision, leave_pending_handoff, summary_draft};
use crate::sandbox::{ProgramOutput, TestSandbox};

/// Returns a text of everything that is stored in the database and in agent.md, for comparison. `without`
/// names tables to skip.
fn stored_state(sandbox: &TestSandbox, without: &[&str]) -> String {
    let mut all = format!("agent.md: {:?}\n", sandbox.read_agent_md());
    if let Some(database) = sandbox.database() {
        let is_looked_at = |row: &String| without.iter().all(|name| !row.starts_with(&format!("{name}: ")));
        all.extend(database.dump_rows().unwrap().into_iter().filter(is_looked_at).map(|row| row + "\n"));
        return all;
    }
    let database = Connection::open(sandbox.home().join("segue.db")).unwrap();
    let names = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
    let mut names = database.prepare(names).unwrap();
    let names: Vec<String> = names.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    for name in names.iter().filter(|name| !without.contains(&name.as_str())) {
        let mut rows = database.prepare(&format!("SELECT * FROM \"{name}\"")).unwrap();
        let columns = rows.column_count();
        let mut rows = rows.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            for column in 0..columns {
                write!(all, "{name}: {:?} ", row.get_ref(column).unwrap()).unwrap();
            }
            all.push('\n');
        }
    }
    all
}

/// Checks that a command fails with this error and changes nothing that is stored.
#[track_caller]
fn assert_refused(sandbox: &TestSandbox, args: &[&str], code: i32, what: &str) -> ProgramOutput {
    let before = stored_state(sandbox, &[]);
    let output = sandbox.run(args);
    output.assert_error(code, what);
    assert_eq!(stored_state(sandbox, &[]), before, "{args:?}");
    output
}

#[track_caller]
fn assert_decision_refused(sandbox: &TestSandbox, report: &Value, decisions: &str, what: &str) {
    let file = sandbox.write_file("decision.json", decisions);
    let id = report["handoff"]["handoff_id"].as_str().unwrap();
    assert_refused(sandbox, &["handoff", "--decide", id, "--decision-file", &file], 2, what);
    assert_refused(
        sandbox,
        &["handoff", report["thread_id"].as_str().unwrap(), "--decision-file", &file],
        2,
        what,
    );
}

fn edited_text_decision(lines: &[&str]) -> Value {
    json!({"type": "approve", "args": {"summary_md": lines.join("\n")}})
}

#[test]
fn g3_a_malformed_decision_is_reported_and_changes_nothing() {
    let cases = [
        (json!({"type": "accept"}), "unknown variant `accept`"),
        (json!({}), "missing field `type`"),
        (json!({"type": "edit"}), "missing field `edited_action`"),
        (json!({"type": "edit", "edited_action": {"name": "handoff_summary"}}), "missing field `args`"),
        (json!({"type": "respond"}), "missing field `message`"),
        (json!({"type": "reject", "mesage": "no"}), "unknown field `mesage`"),
        (json!({"type": "approve", "summary_sha256": "00"}), "summary_sha256 is not the hash of the current"),
        (json!({"type": "respond", "message": "x"}), "`respond` is not allowed"),
        (
            json!({"type": "edit", "edited_action": {"name": "execute", "args": {}}}),
            "expected `handoff_summary`",
        ),
        (edit_decision(json!({})), "an edit needs"),
        (edit_decision(json!({"redraft": {}, "revert_to": 0})), "only one of"),
        (edit_decision(json!({"revert_to": 0})), "iteration 0 is the current one"),
        (edit_decision(json!({"revert_to": 5})), "there is no iteration 5"),
        (edit_decision(json!({"revert_to": "first"})), "there is no iteration \"first\""),
        (edit_decision(json!({"redraft": "again"})), "`redraft` is"),
        (
            edit_decision(json!({"redraft": {"model": "nobody/model"}})),
            "the model `nobody/model` cannot redraft",
        ),
        (edit_decision(json!({"redraft": {"model": "openai/x"}})), "the model `openai/x` cannot redraft"),
        (edit_decision(json!({"redraft": {"model": "x"}})), "the model `x` cannot redraft"),
        // No model is configured here.
        (edit_decision(json!({"redraft": {}})), "no model is configured"),
        (edit_decision(json!({"feedback": "Shorter."})), "no model is configured"),
    ];
    let sandbox = TestSandbox::new();
    let report = leave_pending_handoff(&sandbox);
    for (decision, what) in cases {
        assert_decision_refused(&sandbox, &report, &json!({"decisions": [decision]}).to_string(), what);
    }
    let approve = json!({"type": "approve"});
    for (decisions, what) in [
        (json!({"decisions": []}), "0 decisions were given for 1 action"),
        (json!({"decisions": [approve, approve]}), "2 decisions were given for 1 action"),
        (json!([approve]), "read the decision"),
    ] {
        assert_decision_refused(&sandbox, &report, &decisions.to_string(), what);
    }
    assert_decision_refused(&sandbox, &report, "no json", "read the decision");
}

#[test]
fn g6_a_text_over_a_limit_is_reported_with_its_line_and_changes_nothing() {
    let (title, tldr, item) = ("**Mine**", "Short.", "- a thing to do");
    let (long_title, long_tldr) = (format!("**{}**", "t".repeat(121)), "w ".repeat(101));
    let thirteen: Vec<&str> = [title, tldr, "### Objective"].into_iter().chain([item; 13]).collect();
    let long_item = format!("- {}", "many words here ".repeat(1_200));
    let body = |items: usize| vec![json!({"kind": "objective", "text": "a"}); items];
    let structure = |title: &str, tldr: &str, items: usize| {
        edit_decision(json!({"summary_json": {"title": title, "tldr": tldr, "body": body(items)}}))
    };
    let cases = [
        (edited_text_decision(&[&long_title, tldr, "### Objective", item]), "line 1: `**ttt"),
        (edited_text_decision(&["", title, &long_tldr, "### Objective", item]), "line 3: `w w"),
        (edited_text_decision(&thirteen), "line 16: `- a thing"),
        (edited_text_decision(&[title, tldr, "### Objective", &long_item]), "tokens"),
        (edited_text_decision(&[title, tldr, "### Wishes", item]), "line 3: `### Wishes` is not a heading"),
        (edited_text_decision(&[title, tldr, "### Objective", "```", item]), "line 4: `"),
        (edited_text_decision(&[title, tldr, "<!-- mine", item]), "line 3: `<!-- mine` starts a comment"),
        (edited_text_decision(&[title, tldr]), "there is no item"),
        (edited_text_decision(&["", " "]), "the text is empty"),
        (json!({"type": "approve", "args": {"title": "t".repeat(121)}}), "the title has 121 characters"),
        (json!({"type": "approve", "args": {"title": " "}}), "the title is empty"),
        (structure(&"t".repeat(121), "s", 3), "the title has 121 characters"),
        (structure("t", &"s".repeat(201), 3), "the TL;DR has 201 characters"),
        (structure("t", "s", 13), "there are 13 items, at most 12"),
        (structure("t", "s", 0), "there is no item"),
        (
            edit_decision(json!({"summary_json": {"title": "t", "body": body(3)}})),
            "`summary_json.tldr` is missing",
        ),
    ];
    let sandbox = TestSandbox::new();
    let report = leave_pending_handoff(&sandbox);
    for (decision, what) in cases {
        assert_decision_refused(&sandbox, &report, &json!({"decisions": [decision]}).to_string(), what);
    }
}

#[test]
fn g5_the_cap_refuses_refinements_and_allows_the_users_own_text() {
    let server =
        ScriptedServer::start(Script::new([ScriptedReply { always: true, ..summary_draft("One") }])).unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    std::fs::create_dir(sandbox.home()).unwrap();
    std::fs::write(sandbox.home().join("config.toml"), "[handoff]\nmax_refinements = 1\n").unwrap();
    let report = leave_pending_handoff(&sandbox);
    let refine =
        |feedback: &str| json!({"decisions": [edit_decision(json!({"feedback": feedback}))]}).to_string();
    assert_decision_refused(&sandbox, &report, &refine(" \n"), "the feedback is empty");
    assert_decision_refused(&sandbox, &report, &refine(&"long ".repeat(1_601)), "the feedback has 8");
    let file = sandbox.write_file("decision.json", refine("Shorter."));
    let id = report["handoff"]["handoff_id"].as_str().unwrap();
    let refined = sandbox.run(&["handoff", "--decide", id, "--decision-file", &file, "--json"]);
    assert_eq!(refined.code, 3, "{refined:?}");
    assert_eq!(refined.json()["allowed_decisions"], json!(["approve", "reject", "preview"]));
    assert_decision_refused(&sandbox, &report, &refine("Shorter still."), "no refinement is left");
    assert_eq!(server.call_count(), 2);
    let text = edited_text_decision(&["**Mine**", "Short.", "### Objective", "- a thing to do"]);
    let file = sandbox.write_file("decision.json", json!({"decisions": [text]}).to_string());
    let accepted = sandbox.json(&["handoff", "--decide", id, "--decision-file", &file, "--json"]);
    assert_eq!((&accepted["outcome"], server.call_count()), (&json!("accepted"), 2));
}

#[test]
fn g20_a_handoff_that_cannot_be_decided_is_reported_and_nothing_changes() {
    let sandbox = TestSandbox::new();
    let report = leave_pending_handoff(&sandbox);
    let (id, thread) =
        (report["handoff"]["handoff_id"].as_str().unwrap(), report["thread_id"].as_str().unwrap());
    let fork = sandbox.json(&["threads", "fork", thread, "--json"]);
    let fork = fork["thread_id"].as_str().unwrap();
    assert_eq!(sandbox.run(&["handoff", fork, "--json"]).code, 3);
    let decide = |id: &'static str| ["handoff", "--decide", id, "--apply"];
    assert_refused(&sandbox, &decide("ffffffff"), 2, "find handoff `ffffffff`");
    assert_refused(&sandbox, &decide("nonsense"), 2, "find handoff `nonsense`");
    assert_refused(&sandbox, &decide("0"), 2, "choose among 2 handoffs that begin with `0`");
    assert_refused(&sandbox, &decide("00000000000000000000000000000000"), 2, "find handoff");
    assert_refused(&sandbox, &["handoff", "--show", "ffffffff"], 2, "find handoff `ffffffff`");
    assert_refused(&sandbox, &["handoff", "--show", id, "--draft", "4"], 2, "find draft 4");
    assert_refused(
        &sandbox,
        &["handoff", "--decide", id, fork, "--apply"],
        2,
        "it belongs to another thread",
    );
    assert_refused(
        &sandbox,
        &["handoff", "--decide", id, "ffffffff", "--apply"],
        2,
        "find a thread `ffffffff`",
    );
    assert_refused(&sandbox, &["handoff", "ffffffff", "--apply"], 2, "find a thread `ffffffff`");
    assert_refused(&sandbox, &["handoff", thread, "another", "goal"], 1, "");
    let interrupt = report["interrupt_id"].as_str().unwrap();
    let output =
        assert_refused(&sandbox, &["decide", interrupt, "--approve"], 2, "a question about a handoff");
    assert!(output.stderr.contains("`segue handoff --decide "), "{output:?}");
    let output = assert_refused(&sandbox, &["decide", thread, "--approve"], 2, "a question about a handoff");
    assert!(output.stderr.contains("`segue handoff --decide "), "{output:?}");

    sandbox.json(&["handoff", "--decide", interrupt, thread, "--apply", "--json"]);
    assert_refused(&sandbox, &["handoff", "--decide", id, "--apply"], 1, "already");
    assert_refused(&sandbox, &["handoff", "--decide", interrupt, "--preview"], 1, "already");
    sandbox.json(&["threads", "rewind", thread, "0", "--json"]);
    assert_refused(&sandbox, &["handoff", thread], 2, "it has no messages");
}

#[test]
fn an_undecided_handoff_expires_and_reports_it() {
    let sandbox = TestSandbox::new();
    let report = leave_pending_handoff(&sandbox);
    let (id, thread) =
        (report["handoff"]["handoff_id"].as_str().unwrap(), report["thread_id"].as_str().unwrap());
    sandbox.execute_sql("UPDATE handoffs SET updated_at = '2020-01-01T00:00:00Z'");
    let output = sandbox.run(&["handoff", "--decide", id, "--apply"]);
    output.assert_error(1, "it expired: nobody decided");
    assert_refused(&sandbox, &["handoff", "--decide", id, "--apply"], 1, "it expired: nobody decided");
    let interrupt = report["interrupt_id"].as_str().unwrap();
    assert_refused(
        &sandbox,
        &["handoff", "--decide", interrupt, "--preview"],
        1,
        "it expired: nobody decided",
    );
    assert_eq!((sandbox.threads().len(), sandbox.read_agent_md()), (1, None));
    assert_eq!(sandbox.json(&["handoff", "--list", "--json"]), json!([]));
    let second_run = sandbox.run(&["handoff", thread, "--json"]).json();
    assert_ne!(second_run["handoff"]["handoff_id"], report["handoff"]["handoff_id"]);
}

#[test]
fn a_list_closes_a_handoff_that_nobody_decided_in_time() {
    for command in
        [&["threads", "list"][..], &["threads", "show", "last"], &["handoff", "--list"], &["history", "last"]]
    {
        let sandbox = TestSandbox::new();
        leave_pending_handoff(&sandbox);
        sandbox.execute_sql("UPDATE handoffs SET updated_at = '2020-01-01T00:00:00Z'");
        let output = sandbox.run(command);
        assert!(!output.stdout.contains("needs you"), "{command:?}: {}", output.stdout);
        // The handoff is closed, and not only shown as if it were.
        sandbox.execute_sql("UPDATE handoffs SET updated_at = '2126-01-01T00:00:00Z'");
        assert_eq!(sandbox.json(&["handoff", "--list", "--json"]), json!([]), "{command:?}");
        assert_eq!(sandbox.threads()[0]["state"], "idle", "{command:?}");
    }
}

#[test]
fn m2_a_decision_interrupted_by_a_crash_takes_effect_once() {
    let sandbox = TestSandbox::new();
    let report = leave_pending_handoff(&sandbox);
    let (id, thread) =
        (report["handoff"]["handoff_id"].as_str().unwrap(), report["thread_id"].as_str().unwrap());
    // This is the state after a crash right after the answer was committed.
    let decisions = json!({"decisions": [{"type": "approve"}]}).to_string();
    sandbox.execute_sql(&format!(
        "UPDATE interrupts SET status = 'resolved', resolved_at = created_at, decisions = '{decisions}'"
    ));
    assert_refused(
        &sandbox,
        &["handoff", "--decide", id, "--preview"],
        1,
        "a run is working on it, or was interrupted",
    );
    sandbox.run(&["handoff", thread]).assert_error(1, "it is accepted already");
    assert_eq!(sandbox.threads().len(), 2);
    assert!(sandbox.read_agent_md().unwrap().contains(report["summary_md"].as_str().unwrap().trim()));
}

#[test]
fn a_pending_tool_call_is_not_accepted_as_a_handoff() {
    let call = ScriptedReply::call("c1", "write_file", json!({"path": "a.txt", "content": "a"}));
    let server = ScriptedServer::start(Script::new([call])).unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    let output = sandbox.run(&["run", "-p", "write it", "--json"]);
    assert_eq!(output.code, 3, "{output:?}");
    let result: Value = serde_json::from_str(output.stdout.lines().last().unwrap()).unwrap();
    let interrupt = result["interrupts"][0]["interrupt_id"].as_str().unwrap();
    let file = sandbox.write_file("decision.json", "no json");
    let output =
        assert_refused(&sandbox, &["decide", "last", "--decision-file", &file], 2, "read the decision");
    assert!(output.stderr.contains("`segue decide --help`"), "{output:?}");
    let file = sandbox.write_file("decision.json", r#"{"decisions": []}"#);
    let few = "0 decisions were given for 1 action";
    let output = assert_refused(&sandbox, &["decide", "last", "--decision-file", &file], 2, few);
    assert!(!output.stderr.contains("1 actions"), "{output:?}");
    let output = assert_refused(
        &sandbox,
        &["handoff", "--decide", interrupt, "--apply"],
        2,
        "asks about something else",
    );
    assert!(output.stderr.contains(&format!("`segue decide {interrupt}`")), "{output:?}");
}

#[test]
fn g9_a_thread_that_another_process_has_locked_accepts_no_decision_and_no_draft() {
    let answer = ScriptedReply { always: true, ..ScriptedReply::text("At last.") }
        .with_gate("answer", GatePosition::Start);
    let server = ScriptedServer::start(Script::new([answer])).unwrap();
    let mut sandbox = TestSandbox::new();
    let report = leave_pending_handoff(&sandbox);
    let (id, thread) =
        (report["handoff"]["handoff_id"].as_str().unwrap(), report["thread_id"].as_str().unwrap());
    sandbox.set_variable("ANTHROPIC_BASE_URL", server.url());
    sandbox.set_variable("ANTHROPIC_API_KEY", "test-key");
    let mut working = sandbox
        .command(&["run", "-t", thread, "-p", "go on", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output_lines = BufReader::new(working.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(output_lines.any(|line| line.contains("\"step_started\",\"node\":\"model\"")));
    // The other process renews its lease during the command.
    let without = ["runs"];
    for args in [
        &["handoff", "--decide", id, "--apply"][..],
        &["handoff", thread],
        &["run", "-t", thread, "-p", "me too"],
    ] {
        let before = stored_state(&sandbox, &without);
        sandbox.run(args).assert_error(1, "another process has an active run in it");
        assert_eq!(stored_state(&sandbox, &without), before, "{args:?}");
    }
    server.open_gate("answer");
    assert!(output_lines.last().unwrap().contains("At last."));
    assert!(working.wait().unwrap().success());
    let accepted = sandbox.json(&["handoff", "--decide", id, "--apply", "--json"]);
    assert_eq!((&accepted["outcome"], &accepted["uncovered_messages"]), (&json!("accepted"), &json!(2)));
}
