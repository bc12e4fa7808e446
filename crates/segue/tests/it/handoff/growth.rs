//! The chat proposes a handoff once for each large growth of the context, and changes nothing without an
//! answer.

use test_model::{Script, ScriptedReply, ScriptedServer};

use crate::compact::{compacting_server, long_thread};
use crate::handoff::summary_draft;
use crate::sandbox::TestSandbox;
use crate::terminal::PtyTerminal;

const QUESTION: &str = "[h] Hand off";
/// A line of a message that makes the context grow by enough for a proposal.
const LONG: &str = "many words of a long log";

/// Returns a sandbox with a context window so small that the first answer fills it.
fn nearly_full_sandbox(server: &ScriptedServer) -> TestSandbox {
    let sandbox = TestSandbox::new().with_model(server);
    std::fs::create_dir(sandbox.home()).unwrap();
    std::fs::write(
        sandbox.home().join("config.toml"),
        "[handoff]\npropose_at = 0.001\nprobe = \"text\"\n[compaction]\nkeep = {messages = 4}\n",
    )
    .unwrap();
    sandbox
}

fn answering_server() -> ScriptedServer {
    let draft = ScriptedReply { always: true, ..summary_draft("One") };
    // The program trusts the token counts that a provider reports, so they must match the request.
    let heard =
        |tokens| ScriptedReply { always: true, ..ScriptedReply::text("Heard.").with_tokens(tokens, 5) };
    let draft = draft.when_body_contains("You write the handoff summary");
    ScriptedServer::start(Script::new([draft, heard(40_000).when_body_contains(LONG), heard(3_000)])).unwrap()
}

#[test]
fn h7_m15_the_chat_proposes_a_handoff_once_for_each_large_growth() {
    let server = answering_server();
    let sandbox = nearly_full_sandbox(&server);
    let terminal = PtyTerminal::start(&sandbox, 60, &["chat"]);
    terminal.wait_for("segue> ");
    terminal.press_keys("hello\r");
    let screen = terminal.wait_for(QUESTION);
    assert!(screen.contains("% of the model's window") && screen.contains("ctx "), "{screen}");
    assert!(
        screen.contains("[c] Compact here")
            && screen.contains("[g] Continue")
            && screen.lines().all(|line| line.chars().count() <= 60),
        "{screen}"
    );
    terminal.press_keys("g\r");
    terminal.wait_for("→ Continue");
    terminal.press_keys("hello again\r");
    terminal.wait_until("the second answer", |screen| screen.matches("Heard.").count() == 2);
    terminal.wait_until("the prompt", |screen| screen.trim_end().ends_with("segue>"));
    terminal.press_keys("/quit\r");
    let (_, screen) = terminal.end();
    assert!(!screen.contains(QUESTION), "it is not proposed again:\n{screen}");

    // A restart does not repeat the proposal. The next large growth does, and one key accepts the
    // handoff.
    let terminal = PtyTerminal::start(&sandbox, 80, &["chat", "-c"]);
    terminal.wait_until("the prompt", |screen| screen.trim_end().ends_with("segue>"));
    terminal.press_keys("/quit\r");
    assert!(!terminal.end().1.contains(QUESTION));
    let long = format!("{LONG}\n").repeat(6_000);
    assert_eq!(sandbox.run_with(&["run", "-c", "-p", "-"], &long).code, 0, "unattended, nothing is proposed");
    let terminal = PtyTerminal::start(&sandbox, 80, &["chat", "-c"]);
    terminal.wait_for(QUESTION);
    terminal.press_keys("h\r");
    terminal.wait_for("[a] Accept");
    terminal.press_keys("\x1b");
    terminal.wait_for("Nothing was decided");
    terminal.press_keys("/quit\r");
    assert_eq!(terminal.end().0, 0);
    assert_eq!(sandbox.threads().len(), 1);
}

#[test]
fn m15_after_an_undone_compaction_the_proposal_is_not_repeated_and_typed_lines_are_sent_one_by_one() {
    let server = compacting_server();
    let sandbox = long_thread(nearly_full_sandbox(&server), 12);
    let terminal = PtyTerminal::start(&sandbox, 80, &["chat", "-c"]);
    terminal.wait_for(QUESTION);
    terminal.press_keys("c\r");
    terminal.wait_for("/uncompact undoes it.");
    terminal.wait_until("the prompt", |screen| screen.trim_end().ends_with("segue>"));
    terminal.press_keys("/uncompact\rwhat is left?\rand then?\r");
    terminal.wait_until("both answers", |screen| screen.matches("Going on.").count() == 2);
    terminal.wait_until("the prompt", |screen| screen.trim_end().ends_with("segue>"));
    terminal.press_keys("/quit\r");
    let (code, screen) = terminal.end();
    assert_eq!((code, screen.matches("This thread fills").count()), (0, 1), "{screen}");
    assert!(screen.contains("Undone: "), "{screen}");
    let sent = server.requests().pop().unwrap().body["messages"].to_string();
    assert!(sent.contains("what is left?") && sent.contains("and then?"), "{sent}");
    assert!(!sent.contains("what is left?\\nand then?"), "{sent}");
}

#[test]
fn m15_lines_typed_at_the_question_are_shown_one_by_one_before_they_are_sent() {
    let server = compacting_server();
    let sandbox = long_thread(nearly_full_sandbox(&server), 12);
    let terminal = PtyTerminal::start(&sandbox, 80, &["chat", "-c"]);
    terminal.wait_for(QUESTION);
    terminal.press_keys("what is left?\rand then?\rg\r");
    terminal.wait_until("the first line", |screen| screen.trim_end().ends_with("segue> what is left?"));
    terminal.press_keys("\r");
    terminal.wait_for("Going on.");
    terminal.wait_until("the second line", |screen| screen.trim_end().ends_with("segue> and then?"));
    terminal.press_keys("\r");
    terminal.wait_until("both answers", |screen| screen.matches("Going on.").count() == 2);
    terminal.wait_until("the prompt", |screen| screen.trim_end().ends_with("segue>"));
    terminal.press_keys("/quit\r");
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn m15_escape_continues_and_changes_nothing() {
    let server = answering_server();
    let sandbox = nearly_full_sandbox(&server);
    let terminal = PtyTerminal::start(&sandbox, 80, &["chat"]);
    terminal.wait_for("segue> ");
    terminal.press_keys("hello\r");
    terminal.wait_for(QUESTION);
    terminal.press_keys("\x1b");
    terminal.wait_until("the prompt", |screen| screen.trim_end().ends_with("segue>"));
    terminal.press_keys("/quit\r");
    assert_eq!(terminal.end().0, 0);
    assert_eq!((sandbox.threads().len(), server.call_count()), (1, 1));
}

#[test]
fn m15_one_key_compacts_and_continues_in_the_same_thread() {
    let server = compacting_server();
    let sandbox = long_thread(nearly_full_sandbox(&server), 12);
    let terminal = PtyTerminal::start(&sandbox, 80, &["chat", "-c"]);
    terminal.wait_for(QUESTION);
    terminal.press_keys("c\r");
    terminal.wait_for("→ Compact here");
    terminal.wait_for(" messages compacted · #1");
    terminal.wait_for("/uncompact undoes it.");
    terminal.wait_until("the prompt", |screen| screen.trim_end().ends_with("segue>"));
    terminal.press_keys("/quit\r");
    assert_eq!(terminal.end().0, 0);
    assert_eq!(sandbox.threads().len(), 1);
}
