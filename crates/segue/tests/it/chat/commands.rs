//! Slash commands of the chat that show or change the state of the conversation.

use serde_json::json;
use test_model::{Script, ScriptedReply, ScriptedServer};

use crate::sandbox::TestSandbox;
use crate::terminal::PtyTerminal;

const PROMPT: &str = "segue> ";

fn sandbox_with_conversation() -> (ScriptedServer, TestSandbox) {
    let server = ScriptedServer::start(Script::new([
        ScriptedReply::call("c1", "read_file", json!({"path": "note.txt"})),
        ScriptedReply::text("It says hi.\n").with_tokens(1_000, 50),
        ScriptedReply { always: true, ..ScriptedReply::text("Going on.\n") },
    ]))
    .unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    sandbox.write_file("note.txt", "hi there\n");
    assert_eq!(sandbox.run(&["run", "-p", "what does it say?"]).code, 0);
    (server, sandbox)
}

fn run_chat_lines(sandbox: &TestSandbox, lines: &str) -> crate::sandbox::ProgramOutput {
    let output = sandbox.run_with(&["chat", "-c"], lines);
    assert_eq!(output.code, 0, "{output:?}");
    output
}

#[test]
fn the_context_the_cost_and_the_last_call_are_shown_on_request() {
    let (_server, sandbox) = sandbox_with_conversation();
    let output_text = run_chat_lines(&sandbox, "/context\n/cost\n/show\n/tools\n/memory\n").stdout;
    for part in [
        "about ",
        " of 200.0k tokens",
        "messages",
        "free",
        "anthropic/claude-sonnet-4-5",
        "read_file note.txt",
        "\"path\": \"note.txt\"",
        "hi there",
        "write_file",
        "agent.md",
    ] {
        assert!(output_text.contains(part), "{part}:\n{output_text}");
    }
    assert!(run_chat_lines(&sandbox, "/show 7\n").stdout.contains("There is no such tool call."));
}

#[test]
fn a_rewind_removes_a_message_and_puts_its_text_into_the_prompt() {
    let (server, sandbox) = sandbox_with_conversation();
    let terminal = PtyTerminal::start(&sandbox, 80, &["chat", "-c"]);
    terminal.wait_for(PROMPT);
    terminal.press_keys("a second question\r");
    terminal.wait_until("the answer", |screen| {
        screen.contains("Going on.") && screen.trim_end().ends_with("segue>")
    });
    terminal.press_keys("/rewind\r");
    let screen = terminal.wait_for("Esc leaves");
    assert!(screen.contains("what does it say?"), "{screen}");
    terminal.press_keys("second\r");
    terminal.wait_until("the line", |screen| screen.trim_end().ends_with("segue> a second question"));
    terminal.press_keys(", better put\r");
    terminal.wait_until("the second answer", |screen| {
        screen.matches("Going on.").count() == 2 && screen.trim_end().ends_with("segue>")
    });
    terminal.press_keys("\x04");
    terminal.end();
    let sent = server.requests().last().unwrap().body["messages"].to_string();
    assert!(sent.contains("a second question, better put"), "{sent}");
    assert!(!sent.contains("Going on."), "undone messages are not sent: {sent}");
}

#[test]
fn a_fork_continues_in_the_copy() {
    let (_server, sandbox) = sandbox_with_conversation();
    let output_text = run_chat_lines(&sandbox, "/fork\nand now?\n").stdout;
    assert!(output_text.contains("You are in the copy"), "{output_text}");
    let threads = sandbox.threads();
    assert_eq!(threads.len(), 2);
    let fork = threads.iter().find(|thread| thread["parent_kind"] == "fork").unwrap();
    let other = threads.iter().find(|thread| thread["parent_kind"].is_null()).unwrap();
    assert!(fork["message_count"].as_u64() > other["message_count"].as_u64());
}

#[test]
fn an_export_writes_a_new_file_and_overwrites_none() {
    let (_server, sandbox) = sandbox_with_conversation();
    let output = run_chat_lines(&sandbox, "/export out.md\n/export out.md\n/export out.json\n");
    let json = std::fs::read_to_string(sandbox.work_folder().join("out.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(json["history"].is_array(), "{json}");
    let text = std::fs::read_to_string(sandbox.work_folder().join("out.md")).unwrap();
    assert!(text.contains("It says hi."), "{text}");
    assert!(output.stderr.contains("the file exists"), "{output:?}");
}

#[test]
fn the_thread_to_resume_can_be_chosen() {
    let (_server, sandbox) = sandbox_with_conversation();
    let terminal = PtyTerminal::start(&sandbox, 60, &["chat", "-r"]);
    let screen = terminal.wait_for("Esc leaves");
    assert!(screen.contains("Continue") && screen.contains("what does it say?"), "{screen}");
    terminal.press_keys("\r");
    terminal.wait_for("It says hi.");
    terminal.wait_for(PROMPT);
    terminal.press_keys("/quit\r");
    assert_eq!(terminal.end().0, 0);
    sandbox.run(&["chat", "-r"]).assert_error(2, "there is no terminal to ask on");
}

#[test]
fn a_thread_is_rewound_and_a_run_is_stopped_from_another_process() {
    let (_server, sandbox) = sandbox_with_conversation();
    let history = sandbox.json(&["history", "last", "--json"]);
    let first = history["entries"][0]["seq"].as_u64().unwrap().to_string();
    let done = sandbox.json(&["threads", "rewind", "last", &first, "--json"]);
    assert_eq!(done["superseded"], 3, "{done}");
    let left = sandbox.json(&["history", "last", "--json"]);
    let types = left["entries"].as_array().unwrap().iter().map(|entry| &entry["type"]);
    assert!(types.eq(["human", "thread_rewound"]), "{left}");
    let stopped = sandbox.json(&["threads", "stop", "last", "--json"]);
    assert_eq!(stopped["asked"], false, "{stopped}");
}

#[test]
fn control_o_opens_the_last_call_and_keeps_the_input_line() {
    let (_server, sandbox) = sandbox_with_conversation();
    let terminal = PtyTerminal::start(&sandbox, 80, &["chat", "-c"]);
    terminal.wait_for(PROMPT);
    terminal.press_keys("half a li");
    terminal.wait_for("half a li");
    terminal.press_keys("\x0f");
    terminal.wait_for("\"path\": \"note.txt\"");
    terminal.wait_until("the line", |screen| screen.trim_end().ends_with("segue> half a li"));
    terminal.press_keys("\x03");
    terminal.wait_until("an empty prompt", |screen| screen.trim_end().ends_with("segue>"));
    terminal.press_keys("\x04");
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn the_status_says_model_window_and_spending_and_fits_a_narrow_screen() {
    let server =
        ScriptedServer::start(Script::new([ScriptedReply::text("Hello.\n").with_tokens(12_345, 67)]))
            .unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    let terminal = PtyTerminal::start(&sandbox, 60, &["chat"]);
    terminal.wait_for(PROMPT);
    terminal.press_keys("hi\r");
    let screen = terminal.wait_for(" · $0.0");
    let line = screen.lines().find(|line| line.contains("ctx ")).unwrap();
    for part in ["claude-sonnet-4-5", "ctx ", "$0.0"] {
        assert!(line.contains(part), "{part}:\n{screen}");
    }
    assert!(line.chars().count() < 60, "{line}");
    terminal.press_keys("\x04");
    terminal.end();
}

#[test]
fn an_unusable_model_does_not_replace_the_current_one() {
    let (_server, sandbox) = sandbox_with_conversation();
    let output = run_chat_lines(&sandbox, "/model\n/model foo/bar\n/model\n");
    assert!(
        output.stderr.contains("foo") && output.stderr.contains("the model was not changed"),
        "{output:?}"
    );
    let models: Vec<&str> = output.stdout.lines().filter(|line| line.starts_with("Model: ")).collect();
    assert!(models.len() == 3 && models[0] == models[2], "{output:?}");
}
