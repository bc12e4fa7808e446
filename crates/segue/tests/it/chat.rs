//! The chat in a terminal, against the scripted model server.

mod approval;
mod commands;
mod editor;
mod folders;
mod handoff_commands;
mod history_command;
mod suggestion;

use serde_json::json;
use test_model::{Script, ScriptedFault, ScriptedReply, ScriptedServer};

use crate::sandbox::TestSandbox;
use crate::terminal::PtyTerminal;

const PROMPT: &str = "segue> ";

#[test]
fn a_turn_streams_shows_its_tool_calls_and_what_it_cost() {
    let server = ScriptedServer::start(Script::new([
        ScriptedReply::from_pieces(["I will ", "look.\n"]).with_call(
            "c1",
            "read_file",
            json!({"path": "note.txt"}),
        ),
        ScriptedReply::call("c2", "read_file", json!({"path": "missing.txt"})),
        ScriptedReply::from_pieces(["# Found\nIt says **hi", "** and `x`.\n```\nlet y = 1;\n```\n"]),
    ]))
    .unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    sandbox.write_file("note.txt", "hi\n");
    let terminal = PtyTerminal::start(&sandbox, 80, &["chat"]);
    terminal.wait_for(PROMPT);
    terminal.press_keys("what does it say?\r");
    let screen = terminal.wait_for(" in · ");
    for part in [
        "I will look.",
        "✓ read_file note.txt · ",
        "✗ read_file missing.txt · failed: ",
        "It says hi and x.",
        "│ let y = 1;",
    ] {
        assert!(screen.contains(part), "{part}:\n{screen}");
    }
    assert!(!screen.contains("**") && !screen.contains("```"), "{screen}");
    terminal.press_keys("\x04");
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn a24_what_a_turn_cost_counts_each_call_once() {
    let server = ScriptedServer::start(Script::new([
        ScriptedReply::call("c1", "ls", json!({"path": "."})).with_tokens(100, 10),
        ScriptedReply::call("c2", "ls", json!({"path": "."})).with_tokens(200, 20),
        ScriptedReply::text("Nothing there.\n").with_tokens(1000, 34),
    ]))
    .unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    let opened = sandbox.run_with(&["chat"], "look around\n");
    assert!(opened.stdout.contains(" · 1300 in · 64 out"), "{opened:?}");
}

#[test]
fn a_run_that_was_stopped_with_esc_is_not_listed_as_pending() {
    let server = ScriptedServer::start(Script::new([
        ScriptedReply::call("c1", "ls", json!({"path": "."})),
        ScriptedReply::text("The first line.\n").with_fault(ScriptedFault::Stall),
    ]))
    .unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    let terminal = PtyTerminal::start(&sandbox, 80, &["chat"]);
    terminal.wait_for(PROMPT);
    terminal.press_keys("look around\r");
    terminal.wait_for("The first line.");
    terminal.press_keys("\x1b");
    terminal.wait_for("Stopped. Everything that had arrived is kept.");
    let listed = sandbox.json(&["threads", "list", "--json"]);
    assert_eq!((&listed[0]["state"], &listed[0]["status"]), (&json!("stopped"), &json!("interrupted")));
    assert_eq!(sandbox.json(&["threads", "show", "last", "--json"])["state"], "stopped");
    assert_eq!(sandbox.json(&["threads", "tree", "last", "--json"])[0]["state"], "stopped");
    let list = sandbox.run(&["threads", "list"]);
    assert!(
        list.stdout.contains("[stopped] look around") && !list.stdout.contains("[needs you]"),
        "{list:?}"
    );
    wait_for_prompt(&terminal);
    terminal.press_keys("/quit\r");
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn control_c_stops_the_answer_and_keeps_its_received_part() {
    let server = ScriptedServer::start(Script::new([
        ScriptedReply::text("The first line.\n").with_fault(ScriptedFault::Stall),
        ScriptedReply::text("Back again.\n"),
    ]))
    .unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    let terminal = PtyTerminal::start(&sandbox, 80, &["chat"]);
    terminal.wait_for(PROMPT);
    terminal.press_keys("go\r");
    terminal.wait_for("The first line.");
    terminal.press_keys("\x03");
    terminal.wait_for("Stopped. Everything that had arrived is kept.");
    terminal.press_keys("and now?\r");
    terminal.wait_for("Back again.");
    wait_for_prompt(&terminal);
    terminal.press_keys("/quit\r");
    assert_eq!(terminal.end().0, 0);
    let second = server.requests()[1].body.to_string();
    assert!(second.contains("The first line."), "{second}");
    assert_eq!(sandbox.threads()[0]["status"], "idle");
}

/// Waits until the chat accepts input again. Keys that are typed while a run is active may be lost.
fn wait_for_prompt(terminal: &PtyTerminal) {
    terminal.wait_until("the prompt", |screen| screen.trim_end().ends_with(PROMPT.trim_end()));
}

#[test]
fn g12_a_handoff_in_the_chat_continues_in_the_child_with_its_summary() {
    let server = ScriptedServer::start(Script::new([
        ScriptedReply::text("Hello to you.\n"),
        // The draft is not JSON, so the offline summary is used.
        ScriptedReply::text("no draft"),
        ScriptedReply { when: None, always: true, ..ScriptedReply::text("Going on.\n") },
    ]))
    .unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    let terminal = PtyTerminal::start(&sandbox, 100, &["chat"]);
    terminal.wait_for(PROMPT);
    terminal.press_keys("please mend the kettle\r");
    terminal.wait_for("Hello to you.");
    terminal.press_keys("/handoff polish the kettle\r");
    terminal.wait_for("[Esc] Decide later");
    terminal.press_keys("a\r");
    terminal.wait_for("You are in the new thread");
    let before = server.call_count();
    for (answers, turn) in ["first", "second"].into_iter().enumerate() {
        terminal.press_keys(&format!("{turn}\r"));
        terminal.wait_until(turn, |screen| {
            screen.matches("Going on.").count() == answers + 1
                && screen.trim_end().ends_with(PROMPT.trim_end())
        });
    }
    wait_for_prompt(&terminal);
    terminal.press_keys("/quit\r");
    assert_eq!(terminal.end().0, 0);
    let requests: Vec<String> =
        server.requests()[before..].iter().map(|request| request.body.to_string()).collect();
    for request in &requests[..2] {
        assert!(request.contains("### Goal of the new thread\\n- polish the kettle"), "{request}");
    }
}

#[test]
fn a_child_shows_the_carried_over_summary_and_a_pending_handoff_is_offered() {
    let sandbox = TestSandbox::new();
    let report = sandbox.json(&["handoff", &sandbox.write_session(), "--apply", "--json"]);
    let (parent, child) =
        (report["thread_id"].as_str().unwrap(), report["child_thread_id"].as_str().unwrap());
    let opened = sandbox.run_with(&["chat", "-t", child], "hello?\n/threads\n/handof\n/help\n/quit\n");
    assert_eq!(opened.code, 1, "the message was not answered: {opened:?}");
    for part in
        ["This thread continues with this summary", "Objective", "No model is configured", "/handoff [goal…]"]
    {
        assert!(opened.stdout.contains(part), "{part}: {opened:?}");
    }
    assert!(opened.stderr.contains("Did you mean `/handoff`?"), "{opened:?}");
    assert_eq!(sandbox.run(&["handoff", parent]).code, 3);
    let opened = sandbox.run_with(&["chat", "-t", parent], "");
    assert!(opened.stdout.contains("needs a decision"), "{opened:?}");
    assert!(opened.stdout.contains("run the whole suite"), "the last messages are shown: {opened:?}");
}

#[test]
fn a14_j2_a_run_interrupted_by_a_crash_resumes_without_repeating_its_prompt() {
    let server = ScriptedServer::start(Script::new([
        ScriptedReply::text("Half of it.\n").with_fault(ScriptedFault::Stall),
        ScriptedReply { always: true, ..ScriptedReply::text("The whole answer.\n") },
    ]))
    .unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    let terminal = PtyTerminal::start(&sandbox, 80, &["chat"]);
    terminal.wait_for(PROMPT);
    terminal.press_keys("tell me\r");
    terminal.wait_for("Half of it.");
    terminal.kill();
    let opened = sandbox.run_with(&["chat", "-t", "last"], "/quit\n");
    assert_eq!(opened.code, 0, "{opened:?}");
    assert!(opened.stdout.contains("The whole answer."), "{opened:?}");
    assert!(opened.stdout.contains("was interrupted"), "{opened:?}");
    let history = sandbox.json(&["history", "last", "--json"]);
    let humans =
        history["entries"].as_array().unwrap().iter().filter(|entry| entry["type"] == "human").count();
    assert_eq!(humans, 1, "{history}");
}

#[test]
fn j1_a_second_process_on_the_thread_is_refused_because_a_run_is_active() {
    let server =
        ScriptedServer::start(Script::new([ScriptedReply::text("Half.\n").with_fault(ScriptedFault::Stall)]))
            .unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    let terminal = PtyTerminal::start(&sandbox, 80, &["chat"]);
    terminal.wait_for(PROMPT);
    terminal.press_keys("tell me\r");
    terminal.wait_for("Half.");
    sandbox
        .run(&["run", "-t", "last", "-p", "me too"])
        .assert_error(1, "another process has an active run in it");
    sandbox.run(&["handoff", "last"]).assert_error(1, "another process has an active run in it");
    let opened = sandbox.run_with(&["chat", "-t", "last"], "/quit\n");
    assert!(
        opened.code == 0 && opened.stderr.contains("another process has an active run in it"),
        "{opened:?}"
    );
    terminal.press_keys("\x03");
    terminal.wait_for("Stopped.");
    terminal.press_keys("\x04");
    assert_eq!(terminal.end().0, 0);
    let history = sandbox.run(&["history", "last"]).stdout;
    assert!(history.contains("tell me") && !history.contains("me too"), "{history}");
}

#[test]
fn j1_a_message_that_a_busy_thread_refuses_stays_in_the_prompt() {
    let server =
        ScriptedServer::start(Script::new([ScriptedReply::text("Half.\n").with_fault(ScriptedFault::Stall)]))
            .unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    let first = PtyTerminal::start(&sandbox, 80, &["chat"]);
    first.wait_for(PROMPT);
    first.press_keys("tell me\r");
    first.wait_for("Half.");
    let second = PtyTerminal::start(&sandbox, 80, &["chat", "-t", "last"]);
    let is_at_prompt = |screen: &str, refusals: usize, line: &str| {
        let last = screen.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        screen.matches("another process has an active run in it").count() == refusals
            && last.trim_end().ends_with(line)
    };
    second.wait_until("prompt behind the refusal", |screen| is_at_prompt(screen, 1, PROMPT.trim_end()));
    second.press_keys("and me\r");
    second.wait_until("refused message in the prompt", |screen| is_at_prompt(screen, 2, "and me"));
    second.kill();
    first.kill();
    assert!(!sandbox.run(&["history", "last"]).stdout.contains("and me"));
}

#[test]
fn model_output_cannot_control_the_terminal() {
    let server = ScriptedServer::start(Script::new([ScriptedReply::text(
        "\u{1b}[2J\u{1b}]0;owned\u{7}harm\u{202e}less\n",
    )]))
    .unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    let opened = sandbox.run_with(&["chat"], "hi\n");
    assert!(opened.stdout.contains("harmless\n") && !opened.stdout.contains('\u{1b}'), "{opened:?}");
}
