//! Memory without a terminal: old turns become summaries behind a run, nothing is lost, and everything is found again;
//! what is kept in agent.md and in the store.

mod chat;
mod notes;
mod search;
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

/// A summary of old turns.
fn summary_reply() -> ScriptedReply {
    ScriptedReply { always: true, ..ScriptedReply::text(SUMMARY).when_body_contains(INSTRUCTIONS) }
}

fn answer_reply() -> ScriptedReply {
    ScriptedReply { always: true, ..ScriptedReply::text("Going on.\n").with_tokens(8_000, 20) }
}

/// A server that summarises old turns, and answers everything else.
fn summarizing_server() -> ScriptedServer {
    ScriptedServer::start(Script::new([summary_reply(), answer_reply()])).unwrap()
}

/// A thread of 24 messages, and a budget that most of them are beyond.
fn over_budget_sandbox(server: &ScriptedServer) -> TestSandbox {
    let sandbox = long_thread(TestSandbox::new().with_model(server), 12);
    let settings = "[memory]\nshort_term_tokens = 1200\nmodel = \"anthropic/small\"\n";
    std::fs::write(sandbox.home().join("config.toml"), settings).unwrap();
    sandbox
}

fn memory_stats(sandbox: &TestSandbox) -> Value {
    sandbox.json(&["memory", "stats", "--json"])
}

/// Waits until the server was asked so often.
fn wait_for_calls(server: &ScriptedServer, count: usize) {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(server.wait_for_calls(count));
}

#[test]
fn f6_f7_old_turns_become_a_summary_behind_a_run_and_nothing_is_lost() {
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

    // The next request has the summary in place of the turns.
    assert_eq!(sandbox.run(&["run", "-c", "-p", "and then?"]).code, 0);
    let sent = conversation_requests(&server).pop().unwrap().to_string();
    assert!(
        sent.contains(SUMMARY) && !sent.contains("Question 3:") && sent.contains("Question 11:"),
        "{sent}"
    );
    let told = sandbox.run(&["context", "last"]).stdout;
    assert!(told.lines().any(|line| line.starts_with("tiered memory ")), "{told}");
}

#[test]
fn f7_each_turn_of_a_thread_is_traced_with_what_became_of_it() {
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

    let told = sandbox.run(&["memory", "trace", "last"]);
    let line =
        |seq: &str| told.stdout.lines().find(|line| line.contains(&format!(" {seq} "))).unwrap().to_owned();
    assert!(line("#1").contains("summarized") && line("#1").contains("Question 0:"), "{told:?}");
    assert!(line("#24").contains("active"), "{told:?}");
    assert!(told.stdout.lines().all(|line| line.chars().count() <= 80), "{told:?}");
    // What is taken back is told as such, and its summary is gone with it.
    assert_eq!(sandbox.run(&["threads", "rewind", "last", "20"]).code, 0);
    let told = sandbox.run(&["memory", "trace", "last"]).stdout;
    assert!(told.contains("rewound"), "{told}");
}

#[test]
fn f6_summaries_are_listed_newest_first_and_a_marker_opens_to_its_own() {
    let server = summarizing_server();
    let sandbox = over_budget_sandbox(&server);
    let none = sandbox.run(&["memory", "summaries"]);
    assert_eq!((none.code, none.stdout.as_str()), (0, "No message was summarized yet.\n"), "{none:?}");
    assert_eq!(sandbox.run(&["run", "-c", "-p", "and now?"]).code, 0);
    let told = sandbox.run(&["memory", "summaries"]);
    assert!(
        told.stdout.contains(" summary of messages 1–") && told.stdout.contains("│ The person asked"),
        "{told:?}"
    );
    let id = &told.stdout[..8];
    for way in [format!("`segue memory trace {id} --after 0`"), format!("`segue history {id} --around 1`")] {
        assert!(told.stderr.replace("\n  ", " ").contains(&way), "{way}: {told:?}");
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
fn f8_what_waits_for_a_summary_survives_a_kill_and_is_done_once() {
    let server = ScriptedServer::start(Script::new([
        summary_reply().with_gate("held", GatePosition::Start),
        answer_reply(),
    ]))
    .unwrap();
    let sandbox = over_budget_sandbox(&server);
    let mut command = sandbox.command(&["run", "-c", "-p", "and now?"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The run's own call, and that of whoever summarises.
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
fn f8_a_run_that_has_answered_is_not_changed_by_what_is_stopped_behind_it() {
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
    let ended: crate::sandbox::ProgramOutput = child.wait_with_output().unwrap().into();
    assert_eq!(
        (ended.code, ended.stdout.as_str(), ended.stderr.as_str()),
        (0, "Going on.\n", ""),
        "{ended:?}"
    );
    assert_eq!(memory_stats(&sandbox)["due"], 1, "it waits");
}

#[test]
fn f6_without_a_model_that_works_the_turns_wait_and_are_extracted_in_the_end() {
    let refused =
        ScriptedReply { always: true, ..ScriptedReply::status(400, "{\"error\":{\"message\":\"no\"}}") };
    let script = [refused.when_body_contains(INSTRUCTIONS), answer_reply()];
    let server = ScriptedServer::start(Script::new(script)).unwrap();
    let sandbox = over_budget_sandbox(&server);
    assert_eq!(sandbox.run(&["run", "-c", "-p", "and now?"]).code, 0);
    assert_eq!(memory_stats(&sandbox)["due"], 1);
    let told = sandbox.run(&["memory", "summarize"]);
    assert!(told.code == 0 && told.stderr.contains("it is tried again later"), "{told:?}");
    let told: Vec<String> = (0..3).map(|_| sandbox.run(&["memory", "summarize"]).stdout).collect();
    assert!(told.concat().contains("summarized by the offline summary"), "{told:?}");
    assert_eq!(memory_stats(&sandbox)["due"], 0);
}

#[test]
fn f6_a_run_tells_where_the_extract_stood_in_for_the_model() {
    let refused =
        ScriptedReply { always: true, ..ScriptedReply::status(400, "{\"error\":{\"message\":\"no\"}}") };
    let script = [refused.when_body_contains(INSTRUCTIONS), answer_reply()];
    let server = ScriptedServer::start(Script::new(script)).unwrap();
    let sandbox = over_budget_sandbox(&server);
    let told: Vec<_> = (0..4).map(|_| sandbox.run(&["run", "-c", "-p", "and now?"])).collect();
    assert!(told.iter().all(|told| (told.code, told.stdout.as_str()) == (0, "Going on.\n")), "{told:?}");
    assert!(told[0].stderr.contains("it is tried again later"), "{told:?}");
    assert!(told[3].stderr.contains("moved to memory and summarized by the offline summary"), "{told:?}");
}

#[test]
fn f8_what_a_compaction_condensed_goes_to_memory_behind_it() {
    let answered = ScriptedReply { always: true, ..compaction_reply() };
    let server = ScriptedServer::start(Script::new([summary_reply(), answered, answer_reply()])).unwrap();
    let sandbox = long_thread(TestSandbox::new().with_model(&server), 12);
    let done = sandbox.run(&["compact", "last", "--keep", "4", "--json"]);
    assert_eq!((done.code, done.stderr.as_str()), (0, ""), "{done:?}");
    let held = memory_stats(&sandbox);
    assert!(held["turns"]["summarised"].as_u64().unwrap() >= 12 && held["due"] == 0, "{held}");
}

#[test]
fn m16_a_secret_in_what_was_said_is_withheld_from_the_summary_and_counted() {
    let key = format!("sk-ant-api03-{}", "abcdefghij0123456789".repeat(4));
    let told = ScriptedReply::text(format!("{SUMMARY} The key is {key}.")).when_body_contains(INSTRUCTIONS);
    let server =
        ScriptedServer::start(Script::new([ScriptedReply { always: true, ..told }, answer_reply()])).unwrap();
    let sandbox = over_budget_sandbox(&server);
    assert_eq!(sandbox.run(&["run", "-c", "-p", "and now?"]).code, 0);
    let printed = sandbox.run(&["memory", "summaries", "--json"]).stdout;
    assert!(printed.contains(SUMMARY) && !printed.contains(&key), "{printed}");
    let history = sandbox.run(&["history", "last", "--markers", "--expand", "--json"]).stdout;
    assert!(!history.contains(&key), "{history}");
}
