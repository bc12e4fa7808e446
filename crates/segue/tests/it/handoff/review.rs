//! The review of a handoff in a terminal: its layout fits, no key decides by accident, and each answer has
//! its effect.

mod failed_drafts;
mod user_text;

use std::fs;

use serde_json::json;
use test_model::{Script, ScriptedFault, ScriptedReply, ScriptedServer};

use crate::sandbox::TestSandbox;
use crate::terminal::PtyTerminal;

const QUESTION: &str = "[Esc] Decide later";

fn start_review(sandbox: &TestSandbox, columns: u16) -> (PtyTerminal, String) {
    let terminal = PtyTerminal::start(sandbox, columns, &["handoff", &sandbox.write_session()]);
    let screen = terminal.wait_for(QUESTION);
    (terminal, screen)
}

/// Returns a draft as a model answers it, with one sentence in each of three sections.
fn draft_reply(tldr: &str, next: &str) -> ScriptedReply {
    let item = |kind: &str, text: &str| json!({"kind": kind, "text": text, "refs": [1]});
    let body = [
        item("objective", "Find why `retries_after_timeout` fails now and then."),
        item("decision", "Never raise the timeout."),
        item("next_step", next),
    ];
    ScriptedReply::text(json!({"title": "Mend the retry test", "tldr": tldr, "body": body}).to_string())
        .with_tokens(1200, 34)
}

fn start_with_replies(replies: impl IntoIterator<Item = ScriptedReply>) -> (TestSandbox, ScriptedServer) {
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    (TestSandbox::new().with_model(&server), server)
}

/// Waits for the question and answers it with a key.
fn answer_question(terminal: &PtyTerminal, key: &str) {
    terminal.wait_for(QUESTION);
    terminal.press_keys(&format!("{key}\r"));
}

/// Waits for a text, ignoring line breaks.
#[track_caller]
fn wait_for_sentence(terminal: &PtyTerminal, sentence: &str) {
    terminal.wait_until(sentence, |screen| {
        screen.split_whitespace().collect::<Vec<_>>().join(" ").contains(sentence)
    });
}

#[test]
fn g5_the_user_sees_the_whole_summary_and_accepts_it_with_one_key() {
    for columns in [80, 120] {
        let sandbox = TestSandbox::new();
        let (terminal, screen) = start_review(&sandbox, columns);
        for part in [
            "Handoff of ",
            "Objective",
            " messages: ",
            "Last request",
            "Files changed",
            "offline summary",
            "[a] Accept",
            "[e] Edit",
            "[D] Decline",
            "[l] List all",
        ] {
            assert!(screen.contains(part), "{part} at {columns} columns:\n{screen}");
        }
        terminal.press_keys("a\r");
        let (code, screen) = terminal.end();
        assert_eq!(code, 0, "{screen}");
        assert!(screen.contains("Accepted.") && screen.contains("Continue with: segue chat -t "), "{screen}");
        assert_eq!(sandbox.threads().len(), 2);
    }
}

#[test]
fn a_topic_is_added_after_its_text_was_shown() {
    let answer = "The palette has twelve colours, each with a name and a use. ".repeat(12);
    let draft = draft_reply("The clock is passed in.", "Do the same in src/backoff.rs.");
    let (sandbox, _server) = start_with_replies([
        draft.when_body_contains("You write the handoff summary").with_repeat(),
        ScriptedReply::text(answer).with_repeat(),
    ]);
    assert_eq!(sandbox.run(&["run", "-p", "Find why the test fails."]).code, 0);
    for prompt in ["Choose colours for the chart.", "Sort the bars of the chart by size."] {
        let output = sandbox.run(&["run", "-c", "-p", prompt]);
        assert_eq!(output.code, 0, "{output:?}");
    }
    let terminal = PtyTerminal::start(&sandbox, 100, &["handoff", "last"]);
    answer_question(&terminal, "+");
    terminal.wait_for("Not mentioned: Choose colours");
    terminal.press_keys("Choose colours\r");
    wait_for_sentence(&terminal, "Adds to Progress:");
    wait_for_sentence(&terminal, "- Asked earlier: Choose colours for the chart.");
    wait_for_sentence(&terminal, "- Answered: The palette has twelve colours");
    terminal.wait_for("[a] Add this");
    terminal.press_keys("a");
    terminal.wait_for("Enter confirms: Add this");
    terminal.press_keys("\r");
    wait_for_sentence(&terminal, "Changed: Progress");
    // Keys that are pressed before a question appears are discarded.
    terminal.wait_for(QUESTION);
    terminal.press_keys("\x1b");
    assert_eq!(terminal.end().0, 3);
}

#[test]
fn g5_enter_alone_decides_nothing_and_escape_leaves_it_pending() {
    let sandbox = TestSandbox::new();
    let (terminal, _) = start_review(&sandbox, 80);
    terminal.press_keys("\r\r y");
    terminal.press_keys("\x1b");
    let (code, screen) = terminal.end();
    assert_eq!(code, 3, "{screen}");
    assert!(screen.contains("the handoff is pending. Decide with:"), "{screen}");
    assert_eq!(sandbox.threads().len(), 1);
    let (terminal, screen) = start_review(&sandbox, 80);
    assert!(screen.contains("and is still pending"), "{screen}");
    terminal.press_keys("\t");
    terminal.wait_for("▸[a] Accept");
    terminal.press_keys("\r");
    assert_eq!(terminal.end().0, 0);
    assert_eq!(sandbox.threads().len(), 2);
}

#[test]
fn g15_declining_asks_why_and_changes_nothing() {
    let sandbox = TestSandbox::new();
    let (terminal, _) = start_review(&sandbox, 80);
    answer_question(&terminal, "D");
    terminal.wait_for("Reason (Enter for none)");
    terminal.press_keys("too vague\r");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains("Declined. No child thread was created"), "{screen}");
    assert_eq!(sandbox.threads().len(), 1);
    assert_eq!(sandbox.read_agent_md(), None);
}

#[test]
fn control_c_leaves_the_handoff_pending() {
    let sandbox = TestSandbox::new();
    let (terminal, _) = start_review(&sandbox, 80);
    terminal.press_keys("\x03");
    let (code, screen) = terminal.end();
    assert_eq!(code, 3, "{screen}");
}

#[test]
fn m8_refining_shows_the_changes_and_reverting_restores_an_earlier_draft() {
    let (sandbox, server) = start_with_replies([
        draft_reply("The clock is passed in.", "Do the same in src/backoff.rs."),
        draft_reply("The clock is passed in.", "Pass the clock in src/backoff.rs, and run the whole suite."),
    ]);
    let (terminal, screen) = start_review(&sandbox, 60);
    assert!(screen.contains("3 refinements remain.") && screen.contains("used 1234 tokens"), "{screen}");
    assert!(screen.contains("[D] Decline") && !screen.contains("[d] Diff"), "nothing to compare: {screen}");
    answer_question(&terminal, "r");
    terminal.wait_for("Feedback");
    terminal.press_keys("\r");
    terminal.wait_for("The feedback is empty");
    terminal.press_keys("name the suite\r");
    let screen = terminal.wait_for("Changed: Next steps (+1 -1).");
    assert!(screen.contains("2 refinements remain.") && screen.contains("draft 2"), "{screen}");
    assert!(server.requests()[1].body.to_string().contains("name the suite"));
    answer_question(&terminal, "d");
    terminal.wait_until("both versions", |screen| {
        [
            "Draft 1 (-) and draft 2 (+):",
            "- - Do the same in src/backoff.rs.",
            "+ - Pass the clock in src/backoff.rs",
        ]
        .iter()
        .all(|part| screen.contains(part))
    });
    answer_question(&terminal, "l");
    terminal.wait_for("From the first message to the last");
    answer_question(&terminal, "u");
    terminal.wait_for("Return to");
    terminal.press_keys("\r");
    terminal.wait_for("draft 3");
    assert_eq!(server.call_count(), 2, "going back asks no model");
    answer_question(&terminal, "a");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    let block = sandbox.read_agent_md().unwrap();
    assert!(
        block.contains("- Do the same in src/backoff.rs.") && !block.contains("Pass the clock"),
        "{block}"
    );
}

#[test]
fn g4_an_outdated_draft_says_so_and_one_key_redrafts_it_with_the_newer_messages() {
    let (sandbox, server) = start_with_replies([
        draft_reply("The clock is passed in.", "Do the same in src/backoff.rs."),
        ScriptedReply::text("Done."),
        draft_reply("Both are mended.", "Run the whole suite."),
    ]);
    // Every reply of the model is counted, so the check of what the summary answers may take none.
    fs::create_dir_all(sandbox.home()).unwrap();
    fs::write(sandbox.home().join("config.toml"), "[handoff]\nprobe = \"off\"\n").unwrap();
    let (terminal, screen) = start_review(&sandbox, 80);
    assert!(!screen.contains("[n] Redraft"), "{screen}");
    terminal.press_keys("\x1b");
    assert_eq!(terminal.end().0, 3);
    assert_eq!(sandbox.run(&["run", "-t", "last", "-p", "And the backoff."]).code, 0);
    let terminal = PtyTerminal::start(&sandbox, 80, &["handoff", "last"]);
    wait_for_sentence(&terminal, "2 newer messages are not covered: `n` redrafts with them.");
    answer_question(&terminal, "n");
    let screen = terminal.wait_for("Both are mended.");
    assert!(screen.contains("3 refinements remain."), "{screen}");
    answer_question(&terminal, "a");
    assert_eq!(terminal.end().0, 0);
    assert_eq!(server.call_count(), 3);
    assert!(sandbox.read_agent_md().unwrap().contains("Both are mended."));
}

#[test]
fn calls_that_wait_for_approval_are_asked_about_before_the_accept() {
    let call = ScriptedReply::call("w1", "write_file", json!({"path": "new.txt", "content": "words"}));
    let (sandbox, _server) = start_with_replies([call, draft_reply("A file is due.", "Write new.txt.")]);
    // Every reply of the model is counted, so the check of what the summary answers may take none.
    fs::create_dir_all(sandbox.home()).unwrap();
    fs::write(sandbox.home().join("config.toml"), "[handoff]\nprobe = \"off\"\n").unwrap();
    assert_eq!(sandbox.run(&["run", "-p", "Write new.txt."]).code, 3);
    let terminal = PtyTerminal::start(&sandbox, 80, &["handoff", "last"]);
    answer_question(&terminal, "a");
    // Keys before the question is drawn would be discarded.
    let screen = terminal.wait_for("[Esc] Go back");
    terminal.press_keys("\x1b");
    assert!(screen.contains("1 call waits for approval in this thread:"), "{screen}");
    assert!(screen.contains("Calls that wait for approval"), "{screen}");
    answer_question(&terminal, "a");
    terminal.wait_for("[t] Move them to the new thread");
    terminal.press_keys("t\r");
    let (code, screen) = terminal.end();
    assert!(code == 0 && screen.contains("Accepted."), "{screen}");
    let threads = sandbox.json(&["threads", "list", "--json"]).to_string();
    assert!(!threads.contains("\"interrupted\""), "nothing waits any more: {threads}");
    assert!(sandbox.read_agent_md().unwrap().contains("### Calls that wait for approval"));
}

#[test]
fn m6_an_invented_name_is_marked_and_listed() {
    let (sandbox, _server) =
        start_with_replies([draft_reply("The clock is passed in.", "Do the same in src/invented_file.rs.")]);
    let (terminal, screen) = start_review(&sandbox, 60);
    assert!(screen.contains("Do the same in src/invented_file.rs. (unverified)"), "{screen}");
    let output = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(output.contains("! unverified: not in the covered messages: src/invented_file.rs"), "{screen}");
    terminal.press_keys("\x1b");
    assert_eq!(terminal.end().0, 3);
}

#[test]
fn m8_a_refinement_by_another_client_is_shown_before_acceptance() {
    let (sandbox, _server) = start_with_replies([
        draft_reply("The clock is passed in.", "Do the same in src/backoff.rs."),
        draft_reply("The clock is passed in.", "Run the whole suite."),
    ]);
    let (terminal, _) = start_review(&sandbox, 100);
    let id = sandbox.json(&["handoff", "--list", "--json"])[0]["handoff_id"].as_str().unwrap().to_owned();
    let file = write_refinement(&sandbox, "name the suite");
    assert_eq!(sandbox.run(&["handoff", "--decide", &id, "--decision-file", &file]).code, 3);
    answer_question(&terminal, "a");
    terminal.wait_for("Changed: Next steps (+1 -1).");
    assert_eq!(sandbox.threads().len(), 1, "the old text is not accepted, nor the new one unseen");
    answer_question(&terminal, "a");
    assert_eq!(terminal.end().0, 0);
    assert!(sandbox.read_agent_md().unwrap().contains("Run the whole suite."));
}

#[test]
fn unused_feedback_is_offered_again_until_a_refinement_uses_it() {
    let (sandbox, server) = start_with_replies([
        draft_reply("The clock is passed in.", "Do the same in src/backoff.rs."),
        ScriptedReply::text("no"),
        draft_reply("The clock is passed in.", "Run the whole suite."),
    ]);
    let (terminal, _) = start_review(&sandbox, 100);
    let asked = |times: usize, text: &str| {
        terminal.wait_until("the feedback", |screen| screen.matches(text).count() == times);
    };
    answer_question(&terminal, "r");
    asked(1, "Feedback> ");
    terminal.press_keys("name the suite\r");
    wait_for_sentence(&terminal, "Your feedback was not used yet: name the suite");
    answer_question(&terminal, "r");
    asked(2, "Feedback> name the suite");
    terminal.press_keys(", please\r");
    terminal.wait_for("Changed: ");
    assert!(server.requests()[2].body.to_string().contains("name the suite, please"));
    answer_question(&terminal, "a");
    assert_eq!(terminal.end().0, 0);
}

/// Writes the file of a `refine` decision.
fn write_refinement(sandbox: &TestSandbox, feedback: &str) -> String {
    let action = json!({"name": "handoff_summary", "args": {"feedback": feedback}});
    let decisions = json!({"decisions": [{"type": "edit", "edited_action": action}]});
    sandbox.write_file("decision.json", decisions.to_string())
}

#[test]
fn a_decision_refused_because_another_client_is_active_is_asked_again_and_keeps_its_feedback() {
    let (sandbox, _server) = start_with_replies([
        draft_reply("The clock is passed in.", "Do the same in src/backoff.rs."),
        ScriptedReply::fault(ScriptedFault::Hang),
    ]);
    let (terminal, _) = start_review(&sandbox, 100);
    let listed = || sandbox.json(&["handoff", "--list", "--json"])[0].clone();
    let id = listed()["handoff_id"].as_str().unwrap().to_owned();
    let file = write_refinement(&sandbox, "by someone else");
    let mut other =
        sandbox.command(&["handoff", "--decide", &id, "--decision-file", &file, "--json"]).spawn().unwrap();
    while listed()["status"] != "drafting" {}
    answer_question(&terminal, "r");
    terminal.wait_for("Feedback> ");
    terminal.press_keys("name the suite\r");
    terminal.wait_for("Your feedback is kept: Refine starts with it.");
    answer_question(&terminal, "r");
    terminal.wait_for("Feedback> name the suite");
    terminal.press_keys("\x1b");
    terminal.wait_until("the question again", |screen| {
        screen.matches("→ Refine").count() == 2 && screen.contains(QUESTION)
    });
    terminal.press_keys("\x1b");
    let (code, screen) = terminal.end();
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(code, 3, "{screen}");
    assert!(screen.contains("Your feedback was not used:\n  name the suite"), "{screen}");
}

#[test]
fn m1_unused_feedback_is_shown_when_another_client_has_decided() {
    let (sandbox, _server) =
        start_with_replies([draft_reply("The clock is passed in.", "Do the same in src/backoff.rs.")]);
    let (terminal, _) = start_review(&sandbox, 100);
    let id = sandbox.json(&["handoff", "--list", "--json"])[0]["handoff_id"].as_str().unwrap().to_owned();
    let file = sandbox.write_file("decision.json", json!({"decisions": [{"type": "reject"}]}).to_string());
    assert_eq!(sandbox.run(&["handoff", "--decide", &id, "--decision-file", &file]).code, 0);
    answer_question(&terminal, "r");
    terminal.wait_for("Feedback> ");
    terminal.press_keys("name the suite\r");
    let (code, screen) = terminal.end();
    assert_eq!(code, 1, "{screen}");
    assert!(screen.contains("Your feedback was not used:\n  name the suite"), "{screen}");
    assert!(screen.contains("it is declined already"), "{screen}");
}

#[test]
fn g5_at_the_cap_refine_is_not_offered_and_the_reason_is_shown() {
    let (sandbox, _server) = start_with_replies([
        draft_reply("The clock is passed in.", "Do the same in src/backoff.rs."),
        draft_reply("The clock is passed in.", "Run the whole suite."),
    ]);
    fs::create_dir_all(sandbox.home()).unwrap();
    fs::write(sandbox.home().join("config.toml"), "[handoff]\nmax_refinements = 1\nprobe = \"text\"\n")
        .unwrap();
    let (terminal, screen) = start_review(&sandbox, 80);
    assert!(screen.contains("1 refinement remains."), "{screen}");
    answer_question(&terminal, "r");
    terminal.wait_for("Feedback");
    terminal.press_keys("\x1b");
    terminal
        .wait_until("the question again", |screen| screen.contains("→ Refine") && screen.contains(QUESTION));
    terminal.press_keys("r\r");
    terminal.wait_until("the second asking", |screen| screen.matches("Feedback> ").count() == 2);
    terminal.press_keys("name the suite\r");
    terminal.wait_for("No refinement remains: ");
    let screen = terminal.wait_for(QUESTION);
    assert!(!screen.contains("[r] Refine") && screen.contains("[u] Earlier draft"), "{screen}");
    answer_question(&terminal, "a");
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn in_plain_mode_nothing_is_drawn_over_and_questions_are_answered_by_the_line() {
    let (sandbox, _server) = start_with_replies([
        draft_reply("The clock is passed in.", "Do the same in src/backoff.rs."),
        draft_reply("The clock is passed in.", "Run the whole suite."),
    ]);
    let terminal = PtyTerminal::start(&sandbox, 60, &["--plain", "handoff", &sandbox.write_session()]);
    let line = "Choose a key, Enter for none> ";
    terminal.wait_for(line.trim_end());
    terminal.press_keys("accept the risk of it\n");
    terminal.wait_for("There is no such key.");
    terminal.press_keys("r\n");
    terminal.wait_for("Feedback>");
    terminal.press_keys("name the suite\n");
    terminal.wait_until("the question again", |screen| {
        let after = screen.rsplit("Changed: Next steps (+1 -1).").next().unwrap_or_default();
        after.len() < screen.len() && after.contains(line.trim_end())
    });
    terminal.press_keys("d\n");
    terminal.wait_until("the question after the difference", |screen| {
        let after = screen.rsplit("Draft 1 (-) and draft 2 (+):").next().unwrap_or_default();
        after.len() < screen.len() && after.contains(line.trim_end())
    });
    terminal.press_keys("accept\n");
    let (code, printed) = terminal.end_printed();
    assert_eq!(code, 0, "{printed}");
    assert!(!printed.contains('\u{1b}'), "{printed:?}");
    assert!(!printed.contains("You typed this meanwhile") && printed.contains("Accepted."), "{printed}");
}

#[test]
fn a_deletion_needs_confirmation_and_escape_keeps_the_thread() {
    let sandbox = TestSandbox::new();
    sandbox.run(&["import", &sandbox.write_session()]);
    for (key, left) in [("\x1b", 1), ("n\r", 1), ("y\r", 0)] {
        let terminal = PtyTerminal::start(&sandbox, 80, &["threads", "delete", "last"]);
        terminal.wait_for("[y] Delete");
        terminal.press_keys(key);
        assert_eq!(terminal.end().0, 0);
        assert_eq!(sandbox.threads().len(), left);
    }
}

#[test]
fn a_review_checks_what_the_draft_answers_with_the_model_and_refines_what_is_missing() {
    let answers = json!({"answers": [{"number": 1, "answer": "unknown"}]}).to_string();
    let check =
        ScriptedReply::text(answers).when_body_contains("You are about to continue work").with_repeat();
    let (sandbox, server) = start_with_replies([
        draft_reply("Half done.", "Run the suite."),
        check,
        draft_reply("Done.", "Ship it."),
    ]);
    fs::create_dir_all(sandbox.home()).unwrap();
    fs::write(sandbox.home().join("config.toml"), "[handoff]\nprobe = \"auto\"\n").unwrap();
    let (terminal, screen) = start_review(&sandbox, 100);
    assert!(screen.contains("this text alone answers 0 of ") && screen.contains("✗ rule"), "{screen}");
    let unwrapped = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        unwrapped.contains("(asked anthropic/") && screen.contains("[f] Fill in what is missing"),
        "{screen}"
    );
    answer_question(&terminal, "f");
    terminal.wait_for("- last request: ");
    terminal.press_keys("\r");
    terminal.wait_for("Ship it.");
    let sent = server
        .requests()
        .iter()
        .any(|request| request.body.to_string().contains("cannot find the following"));
    assert!(sent, "the feedback is sent");
    // The pane covers the screen, opens a place, and uncovers the screen.
    answer_question(&terminal, "o");
    terminal.wait_for("▾ Next steps");
    terminal.press_keys("c\u{1b}[B\u{1b}[B\r");
    terminal.wait_for("› ▾ ");
    terminal.press_keys("q");
    terminal.wait_for("[a] Accept");
}

#[test]
fn a_terminal_that_is_shorter_than_the_text_says_how_to_read_it() {
    let sandbox = TestSandbox::new();
    let note = "The text is longer than this terminal: [o] opens it here.";
    let (terminal, screen) = start_review(&sandbox, 80);
    assert!(!screen.contains(note), "{screen}");
    terminal.press_keys("\x1b");
    terminal.end();
    let program = crate::sandbox::binary_path().display();
    let command = format!("stty rows 24 && exec '{program}' handoff last");
    let terminal = PtyTerminal::start_program(&sandbox, 80, "/bin/sh", &["-c", &command]);
    let screen = terminal.wait_for(QUESTION);
    assert!(screen.contains(note), "{screen}");
    terminal.press_keys("\x1b");
    terminal.end();
}
