//! Proposing in the chat: once for each real growth, and nothing changes without an answer.

use test_model::{Reply, Script, Server};

use crate::compact::{condensing, long_thread};
use crate::handoff::summary_draft;
use crate::sandbox::Sandbox;
use crate::terminal::Terminal;

const QUESTION: &str = "[h] Hand off";
/// A line of a message that makes a thread really grow.
const LONG: &str = "many words of a long log";

/// A sandbox whose threads are full with their first answer: what a request always holds is enough.
fn soon_full(server: &Server) -> Sandbox {
    let sandbox = Sandbox::new().with_model(server);
    std::fs::create_dir(sandbox.home()).unwrap();
    std::fs::write(
        sandbox.home().join("config.toml"),
        "[handoff]\npropose_at = 0.001\n[compaction]\nkeep = {messages = 4}\n",
    )
    .unwrap();
    sandbox
}

fn answering() -> Server {
    let draft = Reply { always: true, ..summary_draft("One") };
    // What a provider reports is believed: it must fit what was sent.
    let heard = |tokens| Reply { always: true, ..Reply::text("Heard.").tokens(tokens, 5) };
    let draft = draft.when_body_contains("You write the handoff summary");
    Server::start(Script::new([draft, heard(40_000).when_body_contains(LONG), heard(3_000)])).unwrap()
}

#[test]
fn m15_a_full_thread_is_proposed_to_be_handed_off_once_for_each_real_growth() {
    let server = answering();
    let sandbox = soon_full(&server);
    let terminal = Terminal::start(&sandbox, 60, &["chat"]);
    terminal.wait_for("segue> ");
    terminal.keys("hello\r");
    let screen = terminal.wait_for(QUESTION);
    assert!(screen.contains("% of the model's window") && screen.contains("ctx "), "{screen}");
    assert!(
        screen.contains("[c] Compact here")
            && screen.contains("[g] Go on")
            && screen.lines().all(|line| line.chars().count() <= 60),
        "{screen}"
    );
    terminal.keys("g\r");
    terminal.wait_for("→ Go on");
    terminal.keys("hello again\r");
    terminal.wait_until("the second answer", |screen| screen.matches("Heard.").count() == 2);
    terminal.wait_until("the prompt", |screen| screen.trim_end().ends_with("segue>"));
    terminal.keys("/quit\r");
    let (_, screen) = terminal.end();
    assert!(!screen.contains(QUESTION), "it is not proposed again:\n{screen}");

    // Neither is it after a restart; once it has really grown it is, and handing off is one key away.
    let terminal = Terminal::start(&sandbox, 80, &["chat", "-c"]);
    terminal.wait_until("the prompt", |screen| screen.trim_end().ends_with("segue>"));
    terminal.keys("/quit\r");
    assert!(!terminal.end().1.contains(QUESTION));
    let long = format!("{LONG}\n").repeat(6_000);
    assert_eq!(sandbox.run_with(&["run", "-c", "-p", "-"], &long).code, 0, "unattended, nothing is proposed");
    let terminal = Terminal::start(&sandbox, 80, &["chat", "-c"]);
    terminal.wait_for(QUESTION);
    terminal.keys("h\r");
    terminal.wait_for("[a] Accept");
    terminal.keys("\x1b");
    terminal.wait_for("Nothing was decided");
    terminal.keys("/quit\r");
    assert_eq!(terminal.end().0, 0);
    assert_eq!(sandbox.threads().len(), 1);
}

#[test]
fn m15_whoever_takes_a_compaction_back_is_not_asked_again_and_what_they_type_on_is_sent_line_by_line() {
    let server = condensing();
    let sandbox = long_thread(soon_full(&server), 12);
    let terminal = Terminal::start(&sandbox, 80, &["chat", "-c"]);
    terminal.wait_for(QUESTION);
    terminal.keys("c\r");
    terminal.wait_for("/uncompact takes it back.");
    terminal.wait_until("the prompt", |screen| screen.trim_end().ends_with("segue>"));
    terminal.keys("/uncompact\rwhat is left?\rand then?\r");
    terminal.wait_until("both answers", |screen| screen.matches("Going on.").count() == 2);
    terminal.wait_until("the prompt", |screen| screen.trim_end().ends_with("segue>"));
    terminal.keys("/quit\r");
    let (code, screen) = terminal.end();
    assert_eq!((code, screen.matches("This thread fills").count()), (0, 1), "{screen}");
    assert!(screen.contains("Taken back: "), "{screen}");
    let sent = server.requests().pop().unwrap().body["messages"].to_string();
    assert!(sent.contains("what is left?") && sent.contains("and then?"), "{sent}");
    assert!(!sent.contains("what is left?\\nand then?"), "{sent}");
}

#[test]
fn m15_lines_that_were_typed_at_the_question_are_looked_at_one_by_one() {
    let server = condensing();
    let sandbox = long_thread(soon_full(&server), 12);
    let terminal = Terminal::start(&sandbox, 80, &["chat", "-c"]);
    terminal.wait_for(QUESTION);
    terminal.keys("what is left?\rand then?\rg\r");
    terminal.wait_until("the first line", |screen| screen.trim_end().ends_with("segue> what is left?"));
    terminal.keys("\r");
    terminal.wait_for("Going on.");
    terminal.wait_until("the second line", |screen| screen.trim_end().ends_with("segue> and then?"));
    terminal.keys("\r");
    terminal.wait_until("both answers", |screen| screen.matches("Going on.").count() == 2);
    terminal.wait_until("the prompt", |screen| screen.trim_end().ends_with("segue>"));
    terminal.keys("/quit\r");
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn m15_escape_goes_on_and_changes_nothing() {
    let server = answering();
    let sandbox = soon_full(&server);
    let terminal = Terminal::start(&sandbox, 80, &["chat"]);
    terminal.wait_for("segue> ");
    terminal.keys("hello\r");
    terminal.wait_for(QUESTION);
    terminal.keys("\x1b");
    terminal.wait_until("the prompt", |screen| screen.trim_end().ends_with("segue>"));
    terminal.keys("/quit\r");
    assert_eq!(terminal.end().0, 0);
    assert_eq!((sandbox.threads().len(), server.calls()), (1, 1));
}

#[test]
fn m15_compacting_here_is_one_key_away_and_goes_on_in_the_same_thread() {
    let server = condensing();
    let sandbox = long_thread(soon_full(&server), 12);
    let terminal = Terminal::start(&sandbox, 80, &["chat", "-c"]);
    terminal.wait_for(QUESTION);
    terminal.keys("c\r");
    terminal.wait_for("→ Compact here");
    terminal.wait_for(" messages condensed · #1");
    terminal.wait_for("/uncompact takes it back.");
    terminal.wait_until("the prompt", |screen| screen.trim_end().ends_with("segue>"));
    terminal.keys("/quit\r");
    assert_eq!(terminal.end().0, 0);
    assert_eq!(sandbox.threads().len(), 1);
}
