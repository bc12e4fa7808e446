//! Empty values, numbers outside their limits, and input that is no text.

use std::io::Write;
use std::process::Stdio;

use serde_json::json;

use crate::handoff::{edit_decision, leave_pending_handoff};
use crate::sandbox::{ProgramOutput, TestSandbox};

/// Runs the program with bytes as standard input.
fn run_with_bytes(sandbox: &TestSandbox, args: &[&str], input: &[u8]) -> ProgramOutput {
    let mut command = sandbox.command(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap().into()
}

#[test]
fn an_empty_value_gives_one_error_line_and_a_hint() {
    let sandbox = TestSandbox::new();
    for (args, what) in [
        (&["handoff", "--decide", ""][..], "find handoff: the id is empty"),
        (&["handoff", "--decide="], "find handoff: the id is empty"),
        (&["handoff", "--show", " "], "find handoff: the id is empty"),
        (&["threads", "show", ""], "find a thread: the id is empty"),
        (&["decide", ""], "find a thread: the id is empty"),
        (&["threads", "export", "last", "-o", ""], "read `--output <FILE>`: the value is empty"),
    ] {
        sandbox.run(args).assert_error(2, what);
    }
    let report = leave_pending_handoff(&sandbox);
    let id = report["handoff"]["handoff_id"].as_str().unwrap();
    for (decision, what) in [
        (edit_decision(json!({"feedback": ""})), "the feedback is empty"),
        (edit_decision(json!({"title": ""})), "the title is empty"),
        (json!({"type": "approve", "args": {"title": " "}}), "the title is empty"),
    ] {
        let file = sandbox.write_file("decision.json", json!({"decisions": [decision]}).to_string());
        let output = sandbox.run(&["handoff", "--decide", id, "--decision-file", &file]);
        let lines: Vec<&str> = output.stderr.lines().collect();
        assert!(output.code == 2 && lines.len() == 2 && lines[0].contains(what), "{output:?}");
        assert!(lines[1].starts_with("  hint: "), "{output:?}");
    }
}

#[test]
fn a_number_outside_its_limits_gives_one_error_line_with_the_limits() {
    let sandbox = TestSandbox::new();
    for (args, what) in [
        (
            &["history", "last", "--limit", "0"][..],
            "`--limit <N>`: `0` is not a valid number; write 1 to 500",
        ),
        (&["search", "x", "--limit", "x"], "`--limit <N>`: `x` is not a valid number; write 1 to 100"),
        (
            &["run", "-p", "x", "--max-turns", "x"],
            "`--max-turns <N>`: `x` is not a valid number; write 1 or more",
        ),
        (&["threads", "rewind", "last", "x"], "`<SEQ>`: `x` is not a whole number"),
    ] {
        sandbox.run(args).assert_error(2, what);
        let json = sandbox.run(&[args, &["--json"]].concat());
        let error: serde_json::Value = serde_json::from_str(&json.stderr).unwrap();
        assert!(error["error"]["message"].as_str().unwrap().contains(what), "{error}");
    }
}

#[test]
fn input_that_is_no_text_gives_one_error_line() {
    let sandbox = TestSandbox::new();
    let report = leave_pending_handoff(&sandbox);
    let id = report["handoff"]["handoff_id"].as_str().unwrap();
    for args in [
        &["run"][..],
        &["remember", "-"],
        &["store", "put", "notes", "key", "-"],
        &["handoff", "--decide", id, "--decision-file", "-"],
        &["chat"],
    ] {
        let output = run_with_bytes(&sandbox, args, b"abc\xff\xfe\n");
        let lines: Vec<&str> = output.stderr.lines().filter(|line| line.starts_with("segue: ")).collect();
        assert!(output.code == 2 && lines.len() == 1, "{args:?}: {output:?}");
        assert!(lines[0].contains("from standard input: it is not UTF-8 text"), "{args:?}: {output:?}");
        assert!(output.stderr.lines().any(|line| line.starts_with("  hint: ")), "{args:?}: {output:?}");
    }
}
