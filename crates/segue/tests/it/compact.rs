//! `segue compact` without a terminal: its output, its effects, and the cases that it refuses.

mod feedback;
mod history;
mod live;

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};
use test_model::{GatePosition, Script, ScriptedReply, ScriptedServer};

use crate::sandbox::{ProgramOutput, TestSandbox};

/// First words of the instructions for a compaction summary.
const INSTRUCTIONS: &str = "You keep the record of a long conversation";
/// First words of the instructions for the summary of old turns.
pub const MEMORY_INSTRUCTIONS: &str = "You keep the long memory of an AI agent";
/// The text of the summary of [`record`].
const GOAL: &str = "Find out why the retry test fails.";

/// Returns a compaction summary as a model answers it.
pub fn compaction_reply() -> ScriptedReply {
    let record = json!({
        "goal": GOAL, "constraints": ["Never raise the timeout."], "progress": ["Ten modules were looked at."],
        "decisions": [], "files": [], "errors": [], "pending": [], "next_step": "",
    });
    ScriptedReply::text(record.to_string()).when_body_contains(INSTRUCTIONS)
}

/// Starts a server that answers requests for compaction summaries and all other requests.
pub fn compacting_server() -> ScriptedServer {
    let answer = ScriptedReply { always: true, ..ScriptedReply::text("Going on.\n").with_tokens(3_000, 20) };
    ScriptedServer::start(Script::new([ScriptedReply { always: true, ..compaction_reply() }, answer]))
        .unwrap()
}

/// Returns the requests that the server received, except those for summaries of old turns, which are made
/// after a run.
pub fn conversation_requests(server: &ScriptedServer) -> Vec<Value> {
    let requests = server.requests().into_iter().map(|request| request.body);
    requests.filter(|body| !body.to_string().contains(MEMORY_INSTRUCTIONS)).collect()
}

/// Returns the sandbox with a thread of this many questions and answers, the newest one last. Its messages
/// are #1, #2 and so on.
pub fn long_thread(mut sandbox: TestSandbox, turns: usize) -> TestSandbox {
    let mut lines = String::new();
    for at in 0..2 * turns {
        let (role, turn) = (if at % 2 == 0 { "user" } else { "assistant" }, at / 2);
        let text = match role {
            "user" => format!("Question {turn}: what is in module {turn}?"),
            _ => format!("Answer {turn}: {}", "it parses what it is given, line by line. ".repeat(20)),
        };
        let hour = 10 + at / 60;
        let parent = (at > 0).then(|| format!("00000000-0000-4000-8000-{:012}", at - 1));
        let line = json!({
            "parentUuid": parent, "isSidechain": false, "userType": "external", "cwd": sandbox.work_folder(), "version": "2.1.0",
            "sessionId": "11111111-2222-4333-8444-555555555555", "type": role,
            "uuid": format!("00000000-0000-4000-8000-{at:012}"),
            "timestamp": format!("2026-11-{}T{:02}:{:02}:00.000Z", 20 + hour / 24, hour % 24, at % 60),
            "message": {"role": role, "content": [{"type": "text", "text": text}]},
        });
        lines.push_str(&line.to_string());
        lines.push('\n');
    }
    let path = sandbox.write_file("long.jsonl", lines);
    assert_eq!(sandbox.run(&["import", &path]).code, 0);
    sandbox.set_variable("COLUMNS", "80");
    sandbox
}

/// Returns the entries of a thread's history, from the first message.
pub fn history_entries(sandbox: &TestSandbox) -> Vec<Value> {
    let page = sandbox.json(&["history", "last", "--limit", "500", "--json"]);
    assert_eq!((&page["has_more_before"], &page["source"]), (&json!(false), &json!("journal")), "{page}");
    page["entries"].as_array().unwrap().clone()
}

/// Returns the messages of a thread's history.
pub fn history_messages(sandbox: &TestSandbox) -> Vec<Value> {
    let is_message = |entry: &Value| ["human", "ai", "tool"].contains(&entry["type"].as_str().unwrap());
    history_entries(sandbox).into_iter().filter(is_message).collect()
}

#[test]
fn c1_b1_a_compacted_thread_has_a_marker_and_all_original_messages() {
    let server = compacting_server();
    let sandbox = long_thread(TestSandbox::new().with_model(&server), 12);
    let before = history_messages(&sandbox);
    let done = sandbox.json(&["compact", "last", "--keep", "4", "--focus", "the timeout", "--json"]);
    assert_eq!(done["outcome"], "condensed");
    let marker = &done["marker"];
    for (field, expected) in [
        ("type", json!("summary_marker")),
        ("replaced_count", json!(20)),
        ("kept_count", json!(4)),
        ("first_seq", json!(1)),
        ("last_seq", json!(20)),
        ("trigger", json!("manual")),
        ("focus", json!("the timeout")),
        ("id", json!(format!("summary-marker-{}", marker["seq"]))),
    ] {
        assert_eq!(marker[field], expected, "{field}: {marker}");
    }
    assert!(marker["model"].as_str().unwrap().starts_with("anthropic/"), "{marker}");
    assert!(marker["summary"].as_str().unwrap().contains(GOAL), "{marker}");
    assert!(marker["tokens_after"].as_u64() < marker["tokens_before"].as_u64(), "{marker}");
    assert_eq!(done["compaction"]["sections"]["goal"], GOAL);
    let requests = conversation_requests(&server);
    assert!(requests.len() == 1 && requests[0].to_string().contains("the timeout"), "{requests:?}");

    assert_eq!(history_messages(&sandbox), before, "every message is there");
    let markers = sandbox.json(&["history", "last", "--markers", "--json"]);
    assert_eq!(markers["entries"], json!([marker]), "{markers}");
    assert_eq!(history_entries(&sandbox).last(), Some(marker));

    // The next request contains the summary and the messages that were not compacted.
    assert_eq!(sandbox.run(&["run", "-c", "-p", "and now?"]).code, 0);
    let sent = conversation_requests(&server).pop().unwrap()["messages"].to_string();
    assert!(sent.contains(GOAL) && sent.contains("Question 10") && !sent.contains("Answer 3"), "{sent}");
}

#[test]
fn m9_a_compaction_is_undone_once() {
    let server = compacting_server();
    let sandbox = long_thread(TestSandbox::new().with_model(&server), 12);
    let marker = sandbox.json(&["compact", "last", "--keep", "4", "--json"])["marker"].clone();
    let output = sandbox.run(&["history", "last", "--limit", "1"]).stdout;
    let head = "── 20 messages compacted · #1–#20 · ";
    assert!(output.starts_with(head) && output.contains(&format!("marker #{}", marker["seq"])), "{output}");
    let undone = sandbox.json(&["uncompact", "last", "--json"]);
    assert_eq!((&undone["marker_seq"], &undone["replaced_count"]), (&marker["seq"], &json!(20)));
    let output = sandbox.run(&["history", "last", "--markers"]).stdout;
    assert!(output.contains("20 messages compacted, then undone"), "{output}");
    assert!(output.contains(&format!("── undone: the compaction of #{}", marker["seq"])), "{output}");
    sandbox.run(&["uncompact", "last"]).assert_error(2, "nothing is compacted in it");
    assert_eq!(sandbox.run(&["run", "-c", "-p", "and now?"]).code, 0);
    let sent = conversation_requests(&server).pop().unwrap()["messages"].to_string();
    assert!(sent.contains("Answer 3") && !sent.contains(GOAL), "{sent}");
}

#[test]
fn a_preview_shows_the_summary_and_stores_nothing() {
    let server = compacting_server();
    let sandbox = long_thread(TestSandbox::new().with_model(&server), 12);
    let before = history_entries(&sandbox);
    let output = sandbox.run(&["compact", "last", "--keep", "4", "--preview"]);
    assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{output:?}");
    for part in ["── 20 messages would be compacted", GOAL, "Preview: nothing was changed."] {
        assert!(output.stdout.contains(part), "{part}: {output:?}");
    }
    let report = sandbox.json(&["compact", "last", "--keep", "4", "--preview", "--json"]);
    assert_eq!((&report["outcome"], &report["marker"]), (&json!("previewed"), &Value::Null));
    assert_eq!(history_entries(&sandbox), before);
    assert_eq!(sandbox.threads()[0]["last_seq"], 24);
}

#[test]
fn e16_a_thread_with_nothing_to_compact_gives_one_line_with_the_reason() {
    let sandbox = long_thread(TestSandbox::new(), 2);
    let output = sandbox.run(&["compact", "last", "--keep", "9"]);
    assert_eq!(
        (output.code, output.stdout.lines().count(), output.stderr.as_str()),
        (0, 1, ""),
        "{output:?}"
    );
    assert!(output.stdout.starts_with("Nothing to compact in "), "{output:?}");
    let report = sandbox.json(&["compact", "last", "--keep", "9", "--json"]);
    assert_eq!(report["outcome"], "nothing");
    assert!(report["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{report}");
    let none = sandbox.run(&["history", "last", "--markers"]);
    assert_eq!((none.code, none.stdout.as_str()), (0, "There are no markers.\n"), "{none:?}");
}

#[test]
fn after_a_handoff_the_empty_child_names_its_parent_to_compact() {
    let sandbox = TestSandbox::new();
    let report = sandbox.json(&["handoff", &sandbox.write_session(), "--apply", "--json"]);
    let output = sandbox.run(&["compact", "last"]);
    let line = output.stdout.replace("\n  ", " ");
    assert!(output.code == 0 && line.contains(" (the child of a handoff, 0 messages): "), "{output:?}");
    let child = line.strip_prefix("Nothing to compact in ").and_then(|line| line.split(' ').next()).unwrap();
    let parent = line.split("`segue compact ").nth(1).and_then(|line| line.split('`').next()).unwrap();
    assert!(report["child_thread_id"].as_str().unwrap().starts_with(child), "{line}");
    assert!(report["thread_id"].as_str().unwrap().starts_with(parent), "{line}");
}

#[test]
fn e8_without_a_model_the_offline_summary_is_used_and_reported() {
    let sandbox = long_thread(TestSandbox::new(), 12);
    let output = sandbox.run(&["compact", "last", "--keep", "4"]);
    assert_eq!(output.code, 0, "{output:?}");
    assert!(
        output.stdout.contains("offline summary") && output.stdout.contains("No model wrote the summary"),
        "{output:?}"
    );
    assert!(output.stdout.lines().all(|line| line.chars().count() <= 80), "{output:?}");
    let output = sandbox.run(&["context", "last"]);
    assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{output:?}");
    for part in ["no model\n", "about ", "summary", "Everything up to #20 is compacted"] {
        assert!(output.stdout.contains(part), "{part}: {output:?}");
    }
}

#[test]
fn e8_a_compaction_without_a_benefit_changes_nothing_and_reports_the_reason() {
    let sandbox = TestSandbox::new();
    assert_eq!(sandbox.run(&["import", &sandbox.write_session()]).code, 0);
    let before = history_messages(&sandbox);
    let output = sandbox.run(&["compact", "last", "--keep", "8"]);
    assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{output:?}");
    let line = output.stdout.replace("\n  ", " ");
    assert!(line.starts_with("Nothing to compact in ") && line.lines().count() == 1, "{output:?}");
    assert_eq!(history_messages(&sandbox), before);
    let last = history_entries(&sandbox).pop().unwrap();
    assert_eq!((&last["type"], &last["trigger"]), (&json!("compaction_failed"), &json!("manual")));
    assert!(sandbox.run(&["history", "last"]).stdout.contains("── nothing was compacted #"));
}

#[test]
fn a_pending_handoff_survives_a_compaction_and_covers_the_compacted_messages() {
    let sandbox = long_thread(TestSandbox::new(), 12);
    assert_eq!(sandbox.run(&["handoff", "last"]).code, 3);
    assert_eq!(sandbox.run(&["compact", "last", "--keep", "4"]).code, 0);
    assert_eq!(sandbox.threads()[0]["status"], "interrupted");
    let open = sandbox.json(&["handoff", "--list", "--json"]);
    let id = open[0]["handoff_id"].as_str().unwrap();
    let accepted = sandbox.json(&["handoff", "--decide", id, "--apply", "--json"]);
    assert_eq!((&accepted["outcome"], &accepted["coverage"]["first_seq"]), (&json!("accepted"), &json!(1)));
}

#[test]
fn a_pending_tool_call_survives_a_compaction() {
    let server = ScriptedServer::start(Script::new([
        ScriptedReply { always: true, ..compaction_reply() },
        ScriptedReply {
            always: true,
            ..ScriptedReply::text("Modules.").when_body_contains(MEMORY_INSTRUCTIONS)
        },
        ScriptedReply::call("c1", "execute", json!({"command": "echo made > made.txt"}))
            .with_tokens(3_000, 20),
        ScriptedReply::text("Done.\n").with_tokens(3_000, 20),
    ]))
    .unwrap();
    let sandbox = long_thread(TestSandbox::new().with_model(&server), 12);
    assert_eq!(sandbox.run(&["run", "-c", "-p", "make it"]).code, 3);
    assert_eq!(sandbox.run(&["compact", "last", "--keep", "4"]).code, 0);
    assert_eq!(sandbox.threads()[0]["status"], "interrupted");
    let output = sandbox.run(&["decide", "last", "--approve"]);
    assert_eq!((output.code, output.stdout.as_str()), (0, "Done.\n"), "{output:?}");
    assert!(sandbox.work_folder().join("made.txt").exists());
}

#[test]
fn e16_a_busy_thread_is_not_compacted() {
    let server = ScriptedServer::start(Script::new([
        ScriptedReply::text("Late.\n").with_gate("late", GatePosition::End)
    ]))
    .unwrap();
    let sandbox = long_thread(TestSandbox::new().with_model(&server), 12);
    let mut command = sandbox.command(&["run", "-c", "-p", "slowly", "--json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    lines.find(|line| line.contains("Late.")).unwrap();
    let output = sandbox.run(&["compact", "last", "--keep", "4"]);
    output.assert_error(1, "another process has an active run in it");
    server.open_gate("late");
    assert!(lines.last().unwrap().contains("\"status\":\"success\""));
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn unknown_threads_and_runs_and_invalid_numbers_are_refused() {
    let sandbox = long_thread(TestSandbox::new(), 2);
    sandbox.run(&["compact", "nothing"]).assert_error(2, "find a thread `nothing`");
    sandbox.run(&["uncompact", "nothing"]).assert_error(2, "find a thread `nothing`");
    sandbox.run(&["context", "nothing"]).assert_error(2, "find a thread `nothing`");
    for args in [["trace", "0192f0c1"], ["trace", "last"]] {
        sandbox.run(&args).assert_error(2, "find a run");
    }
    sandbox.run(&["feedback", "0192f0c1", "up"]).assert_error(2, "find a run");
    for args in [["compact", "last", "--keep", "0"], ["run", "-cp", "x", "--max-turns=0"]] {
        let output = sandbox.run(&args);
        assert_eq!(output.code, 2, "{output:?}");
        assert!(output.stderr.contains("`0` is not a valid number; write 1 or more"), "{output:?}");
    }
    assert_eq!(sandbox.run(&["feedback", "last", "sideways"]).code, 2);
}

#[test]
fn e16_triggers_are_one_entry_or_a_list_and_errors_name_the_setting() {
    let server = compacting_server();
    let sandbox = long_thread(TestSandbox::new().with_model(&server), 12);
    let configure = |section: &str| {
        std::fs::write(sandbox.home().join("config.toml"), format!("[compaction]\n{section}\n")).unwrap();
    };
    for trigger in ["{ tokens = 150000 }", "[{ tokens = 150000 }]"] {
        configure(&format!("trigger = {trigger}"));
        assert_eq!(sandbox.json(&["context", "last", "--json"])["trigger_tokens"], 150_000, "{trigger}");
    }
    for (section, error_text) in [
        ("keep = { tokens = 1, messages = 2 }", "`keep` takes one of tokens, messages, fraction"),
        ("trigger = { fractions = 0.95 }", "unknown field `fractions`"),
        ("trigger = 0.95", "expected a table such as { fraction = 0.85 }, or a list of such tables"),
    ] {
        configure(section);
        sandbox.run(&["context", "last"]).assert_error(1, error_text);
    }
}

#[test]
fn m9_a_rewind_past_an_undo_reports_the_marker_that_is_active_again() {
    let server = compacting_server();
    let sandbox = long_thread(TestSandbox::new().with_model(&server), 12);
    let marker = sandbox.json(&["compact", "last", "--keep", "4", "--json"])["marker"]["seq"].clone();
    let marker_seq = marker.to_string();
    assert_eq!(sandbox.run(&["uncompact", "last"]).code, 0);
    let output = sandbox.run(&["threads", "rewind", "last", &marker_seq]);
    assert_eq!(output.code, 0, "{output:?}");
    let again = format!("The compaction of marker #{marker_seq} is active again");
    assert!(output.stdout.contains(&again), "{output:?}");
    let report = sandbox.json(&["threads", "rewind", "last", &marker_seq, "--json"]);
    assert_eq!(report["marker_seq"], marker, "{report}");
    let output = sandbox.run(&["threads", "rewind", "last", &marker_seq]);
    assert!(!output.stdout.contains("marker"), "nothing changed: {output:?}");
    let output = sandbox.run(&["threads", "rewind", "last", "22"]);
    assert!(output.stdout.contains("No compaction is active any more"), "{output:?}");
}

#[test]
fn m9_a_chat_undoes_only_the_newest_compaction_and_reports_when_none_exists() {
    let server = compacting_server();
    let sandbox = long_thread(TestSandbox::new().with_model(&server), 12);
    let before = history_entries(&sandbox);
    let output = sandbox.run_with(&["chat", "-c"], "/uncompact\n/uncompact 5\n/help\n");
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.stdout.contains("There is nothing to undo: this thread has no compaction."), "{output:?}");
    assert!(output.stderr.contains("failed to read /uncompact: it has no argument `5`"), "{output:?}");
    assert!(output.stdout.contains("/history [ID] [--expand] [--before SEQ] [--after SEQ]"), "{output:?}");
    assert!(sandbox.run(&["compact", "last", "--keep", "4"]).code == 0);
    let entries = history_entries(&sandbox);
    sandbox.run_with(&["chat", "-c"], "/uncompact 5\n");
    assert_eq!(history_entries(&sandbox), entries, "the compaction is not undone");
    sandbox.run_with(&["chat", "-c"], "/uncompact\n");
    assert_eq!(history_entries(&sandbox).len(), before.len() + 2);
}

#[test]
fn c6_nothing_is_drawn_for_screen_readers_and_pipes() {
    let server = compacting_server();
    let sandbox = long_thread(TestSandbox::new().with_model(&server), 2);
    for args in [&["context", "last"][..], &["--plain", "context", "last"]] {
        let output = sandbox.run(args);
        assert!(output.stdout.contains("\nfree ") && !output.stdout.contains(['█', '░', '▓']), "{output:?}");
    }
}

#[test]
fn b18_context_lists_each_section_and_the_next_compaction() {
    let server = compacting_server();
    let sandbox = long_thread(TestSandbox::new().with_model(&server), 12);
    let before = sandbox.json(&["context", "last", "--json"]);
    assert!(before["trigger_tokens"].as_u64() > before["tokens"].as_u64(), "{before}");
    assert_eq!(sandbox.run(&["compact", "last", "--keep", "4"]).code, 0);
    let after = sandbox.json(&["context", "last", "--json"]);
    assert!(after["tokens"].as_u64() < before["tokens"].as_u64(), "{before} {after}");
    assert_eq!(after["condensed"]["last_seq"], 20);
    let output: ProgramOutput = sandbox.run(&["context", "last"]);
    for part in [
        "messages",
        "summary",
        "free",
        "Everything up to #20 is compacted",
        "The thread will be compacted at ",
    ] {
        assert!(output.stdout.contains(part), "{part}: {output:?}");
    }
}
