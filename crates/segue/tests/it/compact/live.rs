//! Compaction in a chat: its card while it runs and after a reload, and how it is stopped.

use serde_json::json;
use test_model::{GatePosition, Script, ScriptedReply, ScriptedServer};

use super::{GOAL, compacting_server, compaction_reply, conversation_requests, history_entries, long_thread};
use crate::sandbox::TestSandbox;
use crate::terminal::PtyTerminal;

const PROMPT: &str = "segue> ";

/// Returns the lines of the card with this first line.
#[track_caller]
fn card_lines(screen: &str, head: &str) -> Vec<String> {
    let mut lines = screen.lines().map(str::trim_end).skip_while(|line| !line.starts_with(head));
    let first = lines.next().unwrap_or_else(|| panic!("no card `{head}`:\n{screen}")).to_owned();
    std::iter::once(first)
        .chain(lines.take_while(|line| line.starts_with("   ")).map(str::to_owned))
        .collect()
}

/// Reopens the chat and returns its screen.
fn reopen_chat(sandbox: &TestSandbox, head: &str) -> String {
    let terminal = PtyTerminal::start(sandbox, 80, &["chat", "-c"]);
    terminal.wait_for(head);
    terminal.wait_for(PROMPT);
    terminal.press_keys("/quit\r");
    terminal.end().1
}

#[test]
fn c5_the_card_is_the_same_live_after_a_reload_and_in_the_history() {
    let server = compacting_server();
    let sandbox = long_thread(TestSandbox::new().with_model(&server), 12);
    let terminal = PtyTerminal::start(&sandbox, 80, &["chat", "-c"]);
    terminal.wait_for(PROMPT);
    terminal.press_keys("/compact --keep 4 the timeout\r");
    let screen = terminal.wait_for("/uncompact undoes it.");
    let head = "── 20 messages compacted";
    let live = card_lines(&screen, head);
    assert!(live.iter().any(|line| line.contains("focus: the timeout")), "{screen}");
    assert!(!screen.contains(GOAL), "c8: no summary is flashed\n{screen}");
    terminal.press_keys("/quit\r");
    assert_eq!(terminal.end().0, 0);
    assert_eq!(card_lines(&reopen_chat(&sandbox, head), head), live);
    assert_eq!(card_lines(&sandbox.run(&["history", "last"]).stdout, head), live);
}

#[test]
fn c5_the_card_of_an_automatic_compaction_is_the_same_after_a_reload() {
    let server = compacting_server();
    let sandbox = long_thread(TestSandbox::new().with_model(&server), 12);
    let settings = "[compaction]\ntrigger = [{messages = 20}]\nkeep = {messages = 4}\n";
    std::fs::write(sandbox.home().join("config.toml"), settings).unwrap();
    let terminal = PtyTerminal::start(&sandbox, 80, &["chat", "-c"]);
    terminal.wait_for(PROMPT);
    terminal.press_keys("and now?\r");
    terminal.wait_for("Going on.");
    let screen = terminal.wait_until("the prompt", |screen| screen.trim_end().ends_with("segue>"));
    let head = "── 22 messages compacted";
    let live = card_lines(&screen, head);
    assert!(live.concat().contains("auto"), "{screen}");
    assert!(!screen.contains(GOAL), "{screen}");
    terminal.press_keys("/context\r");
    let screen = terminal.wait_for("Everything up to #");
    assert!(screen.contains("summary"), "{screen}");
    terminal.press_keys("/uncompact\r");
    terminal.wait_for("Undone: 22 messages are sent to the model again");
    terminal.press_keys("/quit\r");
    assert_eq!(terminal.end().0, 0);
    let output = sandbox.run(&["history", "last", "--markers"]).stdout;
    let undone_card = card_lines(&output, "── 22 messages compacted, then undone");
    // Line breaks may differ, so the comparison ignores them.
    assert_eq!(
        undone_card.concat().replace(", then undone", "").replace([' ', '·'], ""),
        live.concat().replace([' ', '·'], "")
    );
}

#[test]
fn e16_control_c_stops_a_compaction_and_changes_nothing() {
    let server =
        ScriptedServer::start(Script::new([compaction_reply().with_gate("held", GatePosition::Start)]))
            .unwrap();
    let sandbox = long_thread(TestSandbox::new().with_model(&server), 12);
    let before = history_entries(&sandbox);
    let terminal = PtyTerminal::start(&sandbox, 80, &["chat", "-c"]);
    terminal.wait_for(PROMPT);
    terminal.press_keys("/compact --keep 4\r");
    terminal.wait_for("Esc or Ctrl-C stops");
    terminal.press_keys("kept for later");
    terminal.wait_for("> kept for later");
    terminal.press_keys("\x03");
    terminal.wait_for("Stopped: nothing was changed.");
    terminal.wait_until("the line", |screen| screen.trim_end().ends_with("segue> kept for later"));
    terminal.press_keys("\x03");
    terminal.wait_until("the prompt", |screen| screen.trim_end().ends_with("segue>"));
    terminal.press_keys("/compact --keep 99\r");
    terminal.wait_for("Nothing to compact: ");
    terminal.press_keys("/quit\r");
    assert_eq!(terminal.end().0, 0);
    assert_eq!(history_entries(&sandbox), before);
}

#[test]
fn c6_a_card_is_plain_text_for_screen_readers() {
    let server = compacting_server();
    let sandbox = long_thread(TestSandbox::new().with_model(&server), 12);
    let terminal = PtyTerminal::start(&sandbox, 100, &["chat", "-c", "--plain"]);
    terminal.wait_for(PROMPT);
    terminal.press_keys("/compact --keep 4\n");
    let screen = terminal.wait_for("/uncompact undoes it.");
    assert!(screen.contains("20 messages compacted, numbers 1 to 20, from "), "{screen}");
    assert!(!screen.contains('─') && !screen.contains('⠋'), "{screen}");
    let live = card_lines(&screen, "Marker ");
    terminal.press_keys("/quit\n");
    assert_eq!(terminal.end().0, 0);
    let created_at = history_entries(&sandbox).pop().unwrap()["created_at"].as_str().unwrap().to_owned();
    let when = created_at[..16].replace('T', " ");
    assert!(live[0].contains(&format!(", {when}: 20 messages compacted")), "{live:?}");
    let terminal = PtyTerminal::start(&sandbox, 100, &["chat", "-c", "--plain"]);
    terminal.wait_for("Marker ");
    let screen = terminal.wait_for(PROMPT);
    assert_eq!(card_lines(&screen, "Marker "), live);
    terminal.press_keys("/quit\n");
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn a_run_without_a_terminal_reports_its_compaction() {
    let server = compacting_server();
    let sandbox = long_thread(TestSandbox::new().with_model(&server), 12);
    let settings = "[compaction]\ntrigger = [{messages = 20}]\nkeep = {messages = 4}\n";
    std::fs::write(sandbox.home().join("config.toml"), settings).unwrap();
    let output = sandbox.run(&["run", "-c", "-p", "and now?"]);
    assert_eq!((output.code, output.stdout.as_str()), (0, "Going on.\n"), "{output:?}");
    assert!(output.stderr.starts_with("── 22 messages compacted · "), "{output:?}");
}

#[test]
fn e7_a_thread_is_compacted_and_its_request_repeated_after_a_refusal_as_too_large() {
    let refused = ScriptedReply::status(
        413,
        json!({"type": "error", "error": {"type": "request_too_large",
        "message": "prompt is too long"}})
        .to_string(),
    );
    let script = [
        ScriptedReply { always: true, ..compaction_reply() },
        refused,
        ScriptedReply::text("Going on.\n").with_tokens(3_000, 20),
    ];
    let server = ScriptedServer::start(Script::new(script)).unwrap();
    let sandbox = long_thread(TestSandbox::new().with_model(&server), 12);
    let settings = "[compaction]\nkeep = {messages = 4}\n";
    std::fs::write(sandbox.home().join("config.toml"), settings).unwrap();
    let output = sandbox.run(&["run", "-c", "-p", "and now?"]);
    assert_eq!((output.code, output.stdout.as_str()), (0, "Going on.\n"), "{output:?}");
    assert!(
        output.stderr.contains(" messages compacted · #1") && output.stderr.contains("overflow"),
        "{output:?}"
    );
    assert_eq!(conversation_requests(&server).len(), 3);
}

#[test]
fn e16_a_message_typed_during_a_compaction_is_sent_after_it() {
    let answer = ScriptedReply { always: true, ..ScriptedReply::text("Going on.\n").with_tokens(3_000, 20) };
    let server = ScriptedServer::start(Script::new([
        compaction_reply().with_gate("held", GatePosition::Start),
        answer,
    ]))
    .unwrap();
    let sandbox = long_thread(TestSandbox::new().with_model(&server), 12);
    let terminal = PtyTerminal::start(&sandbox, 80, &["chat", "-c"]);
    terminal.wait_for(PROMPT);
    terminal.press_keys("/compact --keep 4\r");
    terminal.wait_for("Esc or Ctrl-C stops");
    terminal.press_keys("and now?\r");
    terminal.wait_for("next: and now?");
    server.open_gate("held");
    terminal.wait_for("/uncompact undoes it.");
    terminal.wait_for("Going on.");
    terminal.wait_until("the prompt", |screen| screen.trim_end().ends_with("segue>"));
    terminal.press_keys("/quit\r");
    assert_eq!(terminal.end().0, 0);
    let sent = conversation_requests(&server).pop().unwrap()["messages"].to_string();
    assert!(sent.contains("and now?") && sent.contains(GOAL), "{sent}");
}

#[test]
fn e16_a_run_that_is_stopped_during_its_compaction_reports_that_nothing_was_compacted() {
    let answer = ScriptedReply::text("Going on.\n").with_tokens(3_000, 20);
    let server = ScriptedServer::start(Script::new([
        compaction_reply().with_gate("held", GatePosition::Start),
        answer,
    ]))
    .unwrap();
    let sandbox = long_thread(TestSandbox::new().with_model(&server), 12);
    let settings = "[compaction]\ntrigger = {messages = 20}\nkeep = {messages = 4}\n";
    std::fs::write(sandbox.home().join("config.toml"), settings).unwrap();
    let terminal = PtyTerminal::start(&sandbox, 80, &["chat", "-c"]);
    terminal.wait_for(PROMPT);
    terminal.press_keys("and now?\r");
    terminal.wait_for("compacting with ");
    terminal.press_keys("\x03");
    let screen = terminal.wait_for("Stopped: nothing was compacted.");
    assert!(!screen.contains("Stopped. Everything that had arrived"), "{screen}");
    terminal.wait_until("the prompt", |screen| screen.trim_end().ends_with("segue>"));
    terminal.press_keys("/quit\r");
    assert_eq!(terminal.end().0, 0);
    let markers = sandbox.json(&["history", "last", "--markers", "--json"]);
    assert_eq!(markers["entries"], json!([]), "{markers}");
}

#[test]
fn e16_a_key_stops_the_command_as_well() {
    let server =
        ScriptedServer::start(Script::new([compaction_reply().with_gate("held", GatePosition::Start)]))
            .unwrap();
    let sandbox = long_thread(TestSandbox::new().with_model(&server), 12);
    let before = history_entries(&sandbox);
    let terminal = PtyTerminal::start(&sandbox, 80, &["compact", "last", "--keep", "4"]);
    terminal.wait_for("Esc or Ctrl-C stops");
    terminal.press_keys("\x03");
    let (code, screen) = terminal.end();
    assert_eq!((code, screen.trim_end()), (130, "Stopped: nothing was changed."));
    assert_eq!(history_entries(&sandbox), before);
}
