//! The editor of the chat: several lines, pastes, attached files and images, completion, history, keys that
//! are pressed during an answer, and terminals with fewer features.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;
use test_model::{GatePosition, Script, ScriptedReply, ScriptedServer};

use crate::sandbox::TestSandbox;
use crate::terminal::PtyTerminal;

const PROMPT: &str = "segue> ";

fn echo_server() -> ScriptedServer {
    ScriptedServer::start(Script::new([ScriptedReply { always: true, ..ScriptedReply::text("Heard.\n") }]))
        .unwrap()
}

fn start_chat(sandbox: &TestSandbox, columns: u16) -> PtyTerminal {
    let terminal = PtyTerminal::start(sandbox, columns, &["chat"]);
    terminal.wait_for(PROMPT);
    terminal
}

/// Waits until the answer was printed this many times and the prompt is below it.
fn wait_for_answers(terminal: &PtyTerminal, times: usize) -> String {
    terminal.wait_until("the answer and the prompt", |screen| {
        screen.matches("Heard.").count() == times && screen.trim_end().ends_with("segue>")
    })
}

/// Returns the texts of the newest message in a request.
fn message_texts(server: &ScriptedServer, request: usize) -> Vec<String> {
    let body = &server.requests()[request].body;
    let last = body["messages"].as_array().unwrap().last().unwrap();
    let blocks = last["content"].as_array().unwrap().clone();
    blocks.iter().map(|block| block["text"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_message_has_as_many_lines_as_it_needs() {
    let server = echo_server();
    let sandbox = TestSandbox::new().with_model(&server);
    let terminal = start_chat(&sandbox, 60);
    terminal.press_keys("one\x1b\rtwo\nthree\\\r");
    terminal.wait_for("three\\");
    terminal.press_keys("four\r");
    wait_for_answers(&terminal, 1);
    assert_eq!(message_texts(&server, 0), ["one\ntwo\nthree\nfour"]);
    terminal.press_keys("\x04");
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn a_long_paste_is_abbreviated_in_the_prompt_and_can_be_undone() {
    let server = echo_server();
    let sandbox = TestSandbox::new().with_model(&server);
    let terminal = start_chat(&sandbox, 80);
    let long: String = (1..=120).map(|line| format!("line {line}\r")).collect();
    terminal.press_keys(&format!("look: \x1b[200~{long}\x1b[201~"));
    terminal.wait_for("look: [pasted 120 lines]");
    terminal.press_keys("\x1a");
    terminal.wait_until("the paste gone", |screen| !screen.contains("pasted"));
    terminal.press_keys(&format!("\x1b[200~{long}\x1b[201~"));
    terminal.wait_for("[pasted 120 lines #2]");
    terminal.press_keys("\r");
    wait_for_answers(&terminal, 1);
    let text = message_texts(&server, 0).concat();
    assert!(text.starts_with("look: line 1\nline 2\n") && text.contains("line 120"), "{text}");
    // The history file contains the whole paste and is readable only by its owner.
    let history = sandbox.home().join("chat_history.txt");
    assert!(std::fs::read_to_string(&history).unwrap().contains("line 120"));
    assert_eq!(std::fs::metadata(&history).unwrap().permissions().mode() & 0o777, 0o600);
    terminal.press_keys("\x04");
    terminal.end();
}

#[test]
fn a_file_and_an_image_are_attached() {
    let server = echo_server();
    let sandbox = TestSandbox::new().with_model(&server);
    sandbox.write_file("note.txt", "the kettle leaks\n");
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    png.resize(2_000, 0);
    let image = sandbox.write_file("tea pot.png", &png);
    let terminal = start_chat(&sandbox, 100);
    terminal.press_keys("see @note.txt and ");
    terminal.press_keys(&format!("\x1b[200~'{image}'\x1b[201~"));
    terminal.wait_for("[image tea pot.png 2 kB]");
    terminal.press_keys("\r");
    let screen = wait_for_answers(&terminal, 1);
    assert!(screen.contains("@note.txt is attached, 17 B"), "{screen}");
    let texts = message_texts(&server, 0);
    assert_eq!(texts[0], "see @note.txt and [image tea pot.png 2 kB]");
    assert!(texts[1].contains("the kettle leaks") && texts[1].starts_with("<attached_file "), "{texts:?}");
    let body = server.requests()[0].body.to_string();
    assert!(body.contains("image/png"), "{body}");
    terminal.press_keys("/history\r");
    let screen = terminal.wait_for("[image/png 2 kB]");
    assert!(!screen.contains("the kettle leaks"), "what went along is named, not repeated:\n{screen}");
    terminal.press_keys("\x04");
    terminal.end();
}

#[test]
fn commands_and_files_are_completed() {
    let server = echo_server();
    let sandbox = TestSandbox::new().with_model(&server);
    sandbox.write_file("kettle.txt", "k");
    let terminal = start_chat(&sandbox, 80);
    terminal.press_keys("/ha\t");
    terminal.wait_for("/handoff ");
    terminal.press_keys("\x15@ket\t");
    terminal.wait_for("@kettle.txt");
    terminal.press_keys("\x15/c\t");
    // The completion lists the commands with this prefix and their descriptions.
    let screen = terminal.wait_for("/cost");
    assert!(screen.contains("/context") && screen.contains("show the cost of this thread"), "{screen}");
    terminal.press_keys("\x1b");
    terminal.wait_until("the menu gone", |screen| !screen.contains("/cost"));
    clear_line(&terminal);
    terminal.press_keys("\x04");
    assert_eq!(terminal.end().0, 0);
}

/// Clears the input line.
fn clear_line(terminal: &PtyTerminal) {
    terminal.press_keys("\x03");
    terminal.wait_until("an empty prompt", |screen| screen.trim_end().ends_with("segue>"));
}

#[test]
fn lines_typed_during_an_answer_are_sent_afterwards_and_an_incomplete_line_stays() {
    let server = ScriptedServer::start(Script::new([
        ScriptedReply::text("Heard.\n").with_gate("first", GatePosition::End),
        ScriptedReply { always: true, ..ScriptedReply::text("Heard.\n") },
    ]))
    .unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    let terminal = start_chat(&sandbox, 80);
    terminal.press_keys("one\r");
    terminal.wait_for("Heard.");
    terminal.press_keys("two\rthr");
    let screen = terminal
        .wait_until("what was typed", |screen| screen.contains("next: two") && screen.contains("> thr"));
    assert!(screen.contains("Esc or Ctrl-C stops"), "{screen}");
    server.open_gate("first");
    terminal.wait_until("the next prompt", |screen| {
        screen.matches("Heard.").count() == 2 && screen.trim_end().ends_with("segue> thr")
    });
    terminal.press_keys("ee\r");
    wait_for_answers(&terminal, 3);
    assert_eq!(
        (message_texts(&server, 1), message_texts(&server, 2)),
        (vec!["two".to_owned()], vec!["three".to_owned()])
    );
    terminal.press_keys("\x04");
    terminal.end();
}

#[test]
fn a_stopped_answer_returns_queued_input_to_the_prompt() {
    let server = ScriptedServer::start(Script::new([
        ScriptedReply::text("Heard.\n").with_gate("never", GatePosition::End),
        ScriptedReply { always: true, ..ScriptedReply::text("Heard.\n") },
    ]))
    .unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    let terminal = start_chat(&sandbox, 80);
    terminal.press_keys("one\r");
    terminal.wait_for("Heard.");
    terminal.press_keys("wait\r");
    terminal.wait_for("next: wait");
    terminal.press_keys("\x1b");
    terminal.wait_for("Stopped. Everything that had arrived is kept.");
    terminal.wait_until("the line", |screen| screen.trim_end().ends_with("segue> wait"));
    assert_eq!(server.call_count(), 1);
    clear_line(&terminal);
    terminal.press_keys("\x04");
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn control_c_twice_at_an_empty_prompt_leaves() {
    let sandbox = TestSandbox::new();
    let terminal = start_chat(&sandbox, 80);
    terminal.press_keys("some words");
    terminal.wait_for("some words");
    clear_line(&terminal);
    terminal.press_keys("\x03");
    terminal.wait_for("Press Ctrl-C again");
    terminal.wait_until("the prompt", |screen| screen.trim_end().ends_with("segue>"));
    terminal.press_keys("\x03");
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn a_dumb_terminal_gets_plain_lines_and_no_tricks() {
    let server = ScriptedServer::start(Script::new([
        ScriptedReply::call("c1", "ls", serde_json::json!({"path": "."})),
        ScriptedReply::text("# Title\nHeard.\n"),
    ]))
    .unwrap();
    let mut sandbox = TestSandbox::new().with_model(&server);
    sandbox.set_variable("TERM", "dumb");
    let terminal = start_chat(&sandbox, 60);
    terminal.press_keys("one\\\n");
    terminal.wait_for("… ");
    terminal.press_keys("two\n");
    terminal.wait_until("the answer", |screen| {
        screen.contains("Heard.") && screen.trim_end().ends_with("segue>")
    });
    assert_eq!(message_texts(&server, 0), ["one\ntwo"]);
    terminal.press_keys("\x04");
    let screen_bytes = terminal.end_formatted();
    for part in ["⏺ ls .", "✓ ls .", "Title"] {
        assert!(screen_bytes.contains(part), "{part}: {screen_bytes:?}");
    }
    assert!(!has_terminal_escapes(&screen_bytes), "{screen_bytes:?}");
}

/// Returns whether the screen contains escape sequences that the program sent. The parser removes the
/// sequences that it interprets; the program's styles appear as attributes.
fn has_terminal_escapes(screen_bytes: &str) -> bool {
    ["\u{1b}[1m", "\u{1b}[2m", "\u{1b}[7m"].iter().any(|sequence| screen_bytes.contains(sequence))
}

#[test]
fn segue_without_a_command_is_the_chat_and_options_before_a_command_are_refused() {
    let sandbox = TestSandbox::new();
    let terminal = PtyTerminal::start(&sandbox, 80, &[]);
    terminal.wait_for(PROMPT);
    terminal.press_keys("/quit\r");
    assert_eq!(terminal.end().0, 0);
    let output = sandbox.run(&["-c", "threads", "list"]);
    assert_eq!(output.code, 2, "{output:?}");
    let threads: Vec<Value> = sandbox.threads();
    assert_eq!(threads.len(), 0);
}
