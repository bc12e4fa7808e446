//! Memory without a terminal: old turns are summarized after a run, and all original messages stay
//! searchable. The submodules test agent.md, the store, search, and memory in a chat.

mod chat;
mod facts;
mod meaning;
mod notes;
mod pins;
mod projects;
mod search;
mod secrets;
mod store;

use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use test_model::{GatePosition, Script, ScriptedReply, ScriptedServer};

use crate::compact::{
    MEMORY_INSTRUCTIONS as INSTRUCTIONS, compaction_reply, conversation_requests, history_entries,
    history_messages, long_thread,
};
use crate::sandbox::TestSandbox;

/// The text of the summary of [`summary`].
const SUMMARY: &str = "The person asked about modules, one after the other; each parses line by line.";

/// Returns a summary of old turns as a model answers it.
fn summary_reply() -> ScriptedReply {
    ScriptedReply { always: true, ..ScriptedReply::text(SUMMARY).when_body_contains(INSTRUCTIONS) }
}

fn answer_reply() -> ScriptedReply {
    ScriptedReply { always: true, ..ScriptedReply::text("Going on.\n").with_tokens(8_000, 20) }
}

/// Starts a server that summarizes old turns and answers all other requests.
fn summarizing_server() -> ScriptedServer {
    ScriptedServer::start(Script::new([summary_reply(), answer_reply()])).unwrap()
}

/// Returns a sandbox with a thread of 24 messages, most of which exceed the budget.
fn over_budget_sandbox(server: &ScriptedServer) -> TestSandbox {
    let sandbox = long_thread(TestSandbox::new().with_model(server), 12);
    let settings = "[memory]\nshort_term_tokens = 1200\nmodel = \"anthropic/small\"\n";
    std::fs::write(sandbox.home().join("config.toml"), settings).unwrap();
    sandbox
}

fn memory_stats(sandbox: &TestSandbox) -> Value {
    sandbox.json(&["memory", "stats", "--json"])
}

/// Waits until the server has received this many requests.
fn wait_for_calls(server: &ScriptedServer, count: usize) {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(server.wait_for_calls(count));
}

#[test]
fn f6_f7_old_turns_are_summarized_after_a_run_and_no_message_is_lost() {
    let server = summarizing_server();
    let sandbox = over_budget_sandbox(&server);
    let before = history_messages(&sandbox);
    let ran = sandbox.run(&["run", "-c", "-p", "and now?"]);
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (0, "Going on.\n", ""), "{ran:?}");
    let transfer = server.requests().into_iter().map(|request| request.body.to_string());
    let transfer = transfer.into_iter().find(|body| body.contains(INSTRUCTIONS)).unwrap();
    assert!(transfer.contains("Question 0") && transfer.contains("\"small\""), "{transfer}");

    let held = memory_stats(&sandbox);
    let summarised = held["turns"]["summarised"].as_u64().unwrap();
    assert!(summarised >= 12 && held["summaries"] == 1 && held["due"] == 0, "{held}");
    let after = history_messages(&sandbox);
    assert_eq!(after[..before.len()], before, "every message is there");
    let markers = sandbox.json(&["history", "last", "--markers", "--json"]);
    let marker = &markers["entries"][0];
    assert_eq!(
        (&marker["type"], &marker["reason"]),
        (&json!("turns_archived"), &json!("budget")),
        "{markers}"
    );
    assert_eq!(marker["turn_count"], summarised);
    assert!(marker["summary"].as_str().unwrap().ends_with(SUMMARY), "{marker}");
    assert_eq!(marker["id"], format!("archive-marker-{}", marker["seq"]));

    // The next request contains the summary instead of the turns.
    assert_eq!(sandbox.run(&["run", "-c", "-p", "and then?"]).code, 0);
    let sent = conversation_requests(&server).pop().unwrap().to_string();
    assert!(
        sent.contains(SUMMARY) && !sent.contains("Question 3:") && sent.contains("Question 11:"),
        "{sent}"
    );
    let output = sandbox.run(&["context", "last"]).stdout;
    assert!(output.lines().any(|line| line.starts_with("tiered memory ")), "{output}");
}

#[test]
fn f7_the_trace_of_a_thread_shows_the_memory_state_of_each_turn() {
    let server = summarizing_server();
    let sandbox = over_budget_sandbox(&server);
    assert_eq!(sandbox.run(&["run", "-c", "-p", "and now?"]).code, 0);
    let trace = sandbox.json(&["memory", "trace", "last", "--json"]);
    let turns = trace["turns"].as_array().unwrap();
    assert_eq!((turns.len(), &trace["next_after"]), (26, &Value::Null), "{trace}");
    let archived = turns.iter().filter(|turn| turn["archived"] == true).count() as u64;
    assert_eq!(memory_stats(&sandbox)["turns"]["summarised"], archived);
    let page = sandbox.json(&["memory", "trace", "last", "--limit", "4", "--json"]);
    assert_eq!(page["turns"].as_array().unwrap().len(), 4);
    let next = page["next_after"].to_string();
    let rest = sandbox.json(&["memory", "trace", "last", "--after", &next, "--json"]);
    assert_eq!(rest["turns"][0], turns[4]);

    let output = sandbox.run(&["memory", "trace", "last"]);
    let line =
        |seq: &str| output.stdout.lines().find(|line| line.contains(&format!(" {seq} "))).unwrap().to_owned();
    assert!(line("#1").contains("summarized") && line("#1").contains("Question 0:"), "{output:?}");
    assert!(line("#24").contains("active"), "{output:?}");
    assert!(output.stdout.lines().all(|line| line.chars().count() <= 80), "{output:?}");
    // The trace marks a turn that was undone, and the turn's summary is deleted.
    assert_eq!(sandbox.run(&["threads", "rewind", "last", "20"]).code, 0);
    let output = sandbox.run(&["memory", "trace", "last"]).stdout;
    assert!(output.contains("rewound"), "{output}");
}

#[test]
fn f6_summaries_are_listed_newest_first_and_a_marker_opens_to_its_own() {
    let server = summarizing_server();
    let sandbox = over_budget_sandbox(&server);
    let none = sandbox.run(&["memory", "summaries"]);
    assert_eq!((none.code, none.stdout.as_str()), (0, "No message was summarized yet.\n"), "{none:?}");
    assert_eq!(sandbox.run(&["run", "-c", "-p", "and now?"]).code, 0);
    let output = sandbox.run(&["memory", "summaries"]);
    assert!(
        output.stdout.contains(" summary of messages 1–") && output.stdout.contains("│ The person asked"),
        "{output:?}"
    );
    let id = &output.stdout[..13];
    for way in [format!("`segue memory trace {id} --after 0`"), format!("`segue history {id} --around 1`")] {
        assert!(output.stderr.replace("\n  ", " ").contains(&way), "{way}: {output:?}");
    }
    let json = sandbox.json(&["memory", "summaries", "--json"]);
    let printed = &json["summaries"][0];
    assert!(printed["summary_text"].as_str().unwrap().ends_with(SUMMARY), "{json}");
    assert_eq!(printed["turns"], memory_stats(&sandbox)["turns"]["summarised"]);
    assert_eq!(printed["thread_id"], sandbox.threads()[0]["thread_id"]);
    let closed = sandbox.run(&["history", "last", "--limit", "3"]).stdout;
    assert!(
        closed.contains(" messages moved to memory · #1–#") && !closed.contains("│ The person"),
        "{closed}"
    );
    assert!(closed.contains("summary by anthropic/small") || closed.contains("anthropic/small"), "{closed}");
    let open = sandbox.run(&["history", "last", "--expand", "--limit", "3"]);
    assert!(open.stdout.contains("│ The person asked about modules"), "{open:?}");
    assert!(open.stderr.contains("Messages of marker #"), "{open:?}");
    let first = sandbox.run(&["history", "last", "--expand", "--before", "4"]).stdout;
    assert!(first.contains(" · summarized in #"), "{first}");
    let export = sandbox.run(&["threads", "export", "last"]).stdout;
    assert!(export.contains("moved to memory") && export.contains(SUMMARY), "{export}");
}

#[test]
fn f8_pending_summaries_survive_a_kill_and_are_made_once() {
    let server = ScriptedServer::start(Script::new([
        summary_reply().with_gate("held", GatePosition::Start),
        answer_reply(),
    ]))
    .unwrap();
    let sandbox = over_budget_sandbox(&server);
    let mut command = sandbox.command(&["run", "-c", "-p", "and now?"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The first call is the run's own; the second one is the summary's.
    wait_for_calls(&server, 2);
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(Signal::KILL.as_raw()));
    let held = memory_stats(&sandbox);
    assert_eq!((&held["due"], &held["turns"]["summarised"]), (&json!(1), &json!(0)), "{held}");

    server.open_gate("held");
    let done = sandbox.json(&["memory", "summarize", "--json"]);
    let settled = &done["settled"][0];
    assert_eq!(
        (&settled["model"], &settled["reason"]),
        (&json!("anthropic/small"), &json!("budget")),
        "{done}"
    );
    assert_eq!(done["waiting"], 0);
    assert_eq!(memory_stats(&sandbox)["turns"]["summarised"], settled["turns"]);
    let again = sandbox.run(&["memory", "summarize"]);
    assert_eq!((again.code, again.stdout.as_str()), (0, "Nothing is due.\n"), "{again:?}");
    let kinds: Vec<Value> =
        history_entries(&sandbox).into_iter().map(|entry| entry["type"].clone()).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "turns_archived").count(), 1, "{kinds:?}");
}

#[test]
fn f8_stopping_a_summary_does_not_change_the_finished_run() {
    let server = ScriptedServer::start(Script::new([
        summary_reply().with_gate("held", GatePosition::Start),
        answer_reply(),
    ]))
    .unwrap();
    let sandbox = over_budget_sandbox(&server);
    let mut command = sandbox.command(&["run", "-c", "-p", "and now?"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_calls(&server, 2);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output: crate::sandbox::ProgramOutput = child.wait_with_output().unwrap().into();
    assert_eq!(
        (output.code, output.stdout.as_str(), output.stderr.as_str()),
        (0, "Going on.\n", ""),
        "{output:?}"
    );
    assert_eq!(memory_stats(&sandbox)["due"], 1, "it waits");
}

#[test]
fn f6_without_a_working_model_turns_stay_pending_and_finally_get_an_offline_summary() {
    let refused =
        ScriptedReply { always: true, ..ScriptedReply::status(400, "{\"error\":{\"message\":\"no\"}}") };
    let script = [refused.when_body_contains(INSTRUCTIONS), answer_reply()];
    let server = ScriptedServer::start(Script::new(script)).unwrap();
    let sandbox = over_budget_sandbox(&server);
    assert_eq!(sandbox.run(&["run", "-c", "-p", "and now?"]).code, 0);
    assert_eq!(memory_stats(&sandbox)["due"], 1);
    let output = sandbox.run(&["memory", "summarize", "--log-level", "info"]);
    assert!(output.code == 0 && output.stderr.contains("it is tried again later"), "{output:?}");
    let logged =
        output.stderr.lines().find(|line| line.contains("failed to summarize the messages of the thread"));
    assert!(logged.is_some_and(|line| line.contains("WARN") && line.contains("thread_id")), "{output:?}");
    let output: Vec<String> = (0..3).map(|_| sandbox.run(&["memory", "summarize"]).stdout).collect();
    assert!(output.concat().contains("summarized by the offline summary"), "{output:?}");
    assert_eq!(memory_stats(&sandbox)["due"], 0);
}

#[test]
fn f6_a_run_reports_the_use_of_the_offline_summary() {
    let refused =
        ScriptedReply { always: true, ..ScriptedReply::status(400, "{\"error\":{\"message\":\"no\"}}") };
    let script = [refused.when_body_contains(INSTRUCTIONS), answer_reply()];
    let server = ScriptedServer::start(Script::new(script)).unwrap();
    let sandbox = over_budget_sandbox(&server);
    let output: Vec<_> = (0..4).map(|_| sandbox.run(&["run", "-c", "-p", "and now?"])).collect();
    assert!(
        output.iter().all(|output| (output.code, output.stdout.as_str()) == (0, "Going on.\n")),
        "{output:?}"
    );
    assert!(output[0].stderr.contains("it is tried again later"), "{output:?}");
    assert!(output[3].stderr.contains("moved to memory and summarized by the offline summary"), "{output:?}");
}

#[test]
fn f8_compacted_turns_are_summarized_into_memory_after_the_compaction() {
    let answered = ScriptedReply { always: true, ..compaction_reply() };
    let server = ScriptedServer::start(Script::new([summary_reply(), answered, answer_reply()])).unwrap();
    let sandbox = long_thread(TestSandbox::new().with_model(&server), 12);
    let done = sandbox.run(&["compact", "last", "--keep", "4", "--json"]);
    assert_eq!((done.code, done.stderr.as_str()), (0, ""), "{done:?}");
    let held = memory_stats(&sandbox);
    assert!(held["turns"]["summarised"].as_u64().unwrap() >= 12 && held["due"] == 0, "{held}");
}

#[test]
fn m16_a_secret_in_a_message_is_redacted_from_the_summary_and_counted() {
    let key = format!("sk-ant-api03-{}", "abcdefghij0123456789".repeat(4));
    let output = ScriptedReply::text(format!("{SUMMARY} The key is {key}.")).when_body_contains(INSTRUCTIONS);
    let server =
        ScriptedServer::start(Script::new([ScriptedReply { always: true, ..output }, answer_reply()]))
            .unwrap();
    let sandbox = over_budget_sandbox(&server);
    assert_eq!(sandbox.run(&["run", "-c", "-p", "and now?"]).code, 0);
    let printed = sandbox.run(&["memory", "summaries", "--json"]).stdout;
    assert!(printed.contains(SUMMARY) && !printed.contains(&key), "{printed}");
    let history = sandbox.run(&["history", "last", "--markers", "--expand", "--json"]).stdout;
    assert!(!history.contains(&key), "{history}");
}
