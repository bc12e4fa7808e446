//! The user's own text in the review: it comes from the editor or line by line, is shown again before
//! acceptance, and is never lost.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::{QUESTION, answer_question, draft_reply, start_review, start_with_replies};
use crate::sandbox::TestSandbox;
use crate::terminal::PtyTerminal;

/// Sets an editor that runs these lines of shell script on the file `$1`.
fn set_editor(sandbox: &mut TestSandbox, script: &str) {
    let path = sandbox.write_file("editor.sh", format!("#!/bin/sh\n{script}\n"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    sandbox.set_variable("EDITOR", &path);
}

/// Accepts the `nth` text that came from the editor.
fn accept_text(terminal: &PtyTerminal, nth: usize) {
    terminal.wait_until("the last look at the text", |screen| {
        screen.contains("[a] Accept this text") && screen.matches("→ Accept this text").count() + 1 == nth
    });
    terminal.press_keys("a\r");
}

#[test]
fn a_rejected_edit_is_reopened_with_its_text_and_the_reason() {
    let mut sandbox = TestSandbox::new();
    let log = sandbox.work_folder().join("seen").to_str().unwrap().to_owned();
    // The first edit removes the items and is rejected. The second one starts from the same text and
    // adds an item.
    set_editor(
        &mut sandbox,
        &format!(
            "if [ ! -e {log} ]; then cp \"$1\" {log}; sed -i '/^- /d' \"$1\"; echo 'my own line' >> \"$1\"\n\
             else cp \"$1\" {log}.again; printf '\\n### Objective\\n- only this\\n' >> \"$1\"; fi"
        ),
    );
    let (terminal, _) = start_review(&sandbox, 80);
    terminal.press_keys("e\r");
    // The line is under the heading of a fact, so the first text has no item.
    accept_text(&terminal, 1);
    accept_text(&terminal, 2);
    // The text has lost the rules with all other lines.
    terminal.wait_for("[y] Accept it anyway");
    terminal.press_keys("y\r");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains("Accepted."), "{screen}");
    let again = fs::read_to_string(format!("{log}.again")).unwrap();
    let block = sandbox.read_agent_md().unwrap();
    assert!(again.contains("The text was refused: ") && again.contains("my own line"), "{again}");
    assert!(block.contains("only this") && block.contains("my own line"), "{block}");
    assert!(!block.contains("<!--"), "the explanation is not part of the text: {block}");
    let left: Vec<String> = fs::read_dir(sandbox.home())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_str().unwrap().to_owned())
        .filter(|name| name.starts_with("segue-"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn g5_a_text_from_the_editor_is_shown_again_and_can_be_discarded() {
    let mut sandbox = TestSandbox::new();
    set_editor(&mut sandbox, "sed -i 's/^### Objective$/&\\n- mine/' \"$1\"");
    let (terminal, _) = start_review(&sandbox, 80);
    terminal.press_keys("e\r");
    let screen = terminal.wait_for("[a] Accept this text");
    assert!(screen.contains("You changed:") && screen.contains("+ - mine"), "{screen}");
    terminal.press_keys("\x1b");
    terminal.wait_for("Your text is kept: Edit opens it again.");
    terminal.wait_for(QUESTION);
    assert_eq!(sandbox.threads().len(), 1);
    terminal.press_keys("\x1b");
    assert_eq!(terminal.end().0, 3);
}

#[test]
fn g4_the_users_text_is_saved_edited_again_refined_and_accepted() {
    let (mut sandbox, server) = start_with_replies([
        draft_reply("The clock is passed in.", "Do the same in src/backoff.rs."),
        draft_reply("The clock is passed in.", "Run the whole suite."),
    ]);
    set_editor(&mut sandbox, "sed -i 's/retry test/retry test, again/' \"$1\"");
    let (terminal, _) = start_review(&sandbox, 80);
    answer_question(&terminal, "e");
    terminal.wait_for("[s] Save as a draft");
    terminal.press_keys("s\r");
    terminal.wait_until("the saved text", |screen| {
        screen.contains("Edited by you") && screen.contains("draft 2")
    });
    answer_question(&terminal, "e");
    terminal.wait_until("the second text", |screen| {
        screen.contains("again, again**") && screen.contains("[r] Refine")
    });
    terminal.press_keys("r\r");
    terminal.wait_for("Feedback");
    terminal.press_keys("name the suite\r");
    terminal.wait_for("draft 4");
    let prompt = server.requests()[1].body.to_string();
    assert!(prompt.contains("retry test, again, again") && prompt.contains("name the suite"), "{prompt}");
    answer_question(&terminal, "a");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert!(sandbox.read_agent_md().unwrap().contains("Run the whole suite."));
    assert!(!screen.contains("Your text is saved in"), "a stored text needs no file: {screen}");
}

#[test]
fn m1_only_changed_items_are_marked_as_changed_and_names_are_shown_unescaped() {
    let (mut sandbox, _server) = start_with_replies([draft_reply(
        "The clock is passed in.",
        "See ponylang__ponyc__0.1 and *x* in invented.rs.",
    )]);
    sandbox.set_variable("PATH", "/nonexistent");
    let (terminal, screen) = start_review(&sandbox, 100);
    assert!(screen.contains("See ponylang__ponyc__0.1 and *x* in invented.rs. (unverified)"), "{screen}");
    answer_question(&terminal, "e");
    terminal.wait_for("Title");
    terminal.press_keys(" for good\r");
    for field in ["TL;DR", "Objective> ", "Decisions> ", "Next steps> ", "Kind of a new item"] {
        terminal.wait_for(field);
        terminal.press_keys("\r");
    }
    let screen = terminal.wait_for("[a] Accept this text");
    let changed = screen.rsplit("You changed:").next().unwrap();
    assert!(changed.contains("+ **Mend the retry test for good**"), "{screen}");
    assert!(!changed.contains("unverified"), "{screen}");
    terminal.press_keys("\x1b");
    terminal.wait_for("Your text is kept");
    terminal.wait_for(QUESTION);
    terminal.press_keys("\x1b");
    assert_eq!(terminal.end().0, 3);
}

#[test]
fn an_unchanged_edit_goes_back_to_the_question() {
    let mut sandbox = TestSandbox::new();
    set_editor(&mut sandbox, "true");
    let (terminal, _) = start_review(&sandbox, 80);
    terminal.press_keys("e\r");
    terminal.wait_for("The text was not changed.");
    terminal.wait_until("second question", |screen| screen.contains("→ Edit") && screen.contains(QUESTION));
    terminal.press_keys("p\r");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains("Only shown."), "{screen}");
    assert_eq!(sandbox.threads().len(), 1);
}

#[test]
fn an_invalid_edit_is_reported_by_line_and_reopened_with_the_users_text() {
    let (mut sandbox, _server) =
        start_with_replies([draft_reply("The clock is passed in.", "Do the same in src/backoff.rs.")]);
    let log = sandbox.work_folder().join("line").to_str().unwrap().to_owned();
    set_editor(
        &mut sandbox,
        &format!(
            "if [ ! -e {log} ]; then sed -i 's/### Next steps/### Tomorrow/' \"$1\"; grep -n '^### Tomorrow' \"$1\" > {log}\n\
             else grep -n '^### Tomorrow' \"$1\" > {log}.again; grep -c 'The text was refused: ' \"$1\" >> {log}.again; \
             sed -i 's/### Tomorrow/### Next steps/; s/Do the same/Do just the same/' \"$1\"; fi"
        ),
    );
    let (terminal, _) = start_review(&sandbox, 100);
    answer_question(&terminal, "e");
    accept_text(&terminal, 1);
    accept_text(&terminal, 2);
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    let line = fs::read_to_string(&log).unwrap();
    let number = line.split(':').next().unwrap().to_owned();
    assert!(screen.contains(&format!("line {number}: `### Tomorrow` is not a heading")), "{line}\n{screen}");
    assert_eq!(fs::read_to_string(format!("{log}.again")).unwrap(), format!("{line}1\n"));
    assert!(sandbox.read_agent_md().unwrap().contains("Do just the same"));
}

#[test]
fn a_rejected_text_is_saved_in_a_file() {
    let mut sandbox = TestSandbox::new();
    let log = sandbox.work_folder().join("seen").to_str().unwrap().to_owned();
    set_editor(
        &mut sandbox,
        &format!(
            "if [ ! -e {log} ]; then touch {log}; printf '\\n### Tomorrow\\n- my own words\\n' >> \"$1\"; fi"
        ),
    );
    let (terminal, _) = start_review(&sandbox, 100);
    answer_question(&terminal, "e");
    accept_text(&terminal, 1);
    terminal.wait_for("Your text is kept: Edit opens it again.");
    terminal.wait_for(QUESTION);
    terminal.press_keys("\x1b");
    let (code, screen) = terminal.end();
    assert_eq!(code, 3, "{screen}");
    assert!(screen.contains("Your text is saved in "), "{screen}");
    let kept = fs::read_dir(sandbox.home()).unwrap().map(|entry| entry.unwrap().path());
    let mut kept = kept.filter(|path| path.extension().is_some_and(|end| end == "md"));
    let text = fs::read_to_string(kept.next().unwrap()).unwrap();
    assert!(text.contains("- my own words") && !text.contains("<!--"), "{text}");
}

#[test]
fn without_an_editor_each_line_is_a_field() {
    let (mut sandbox, _server) =
        start_with_replies([draft_reply("The clock is passed in.", "Do the same in src/backoff.rs.")]);
    sandbox.set_variable("PATH", "/nonexistent");
    let (terminal, _) = start_review(&sandbox, 80);
    answer_question(&terminal, "e");
    terminal.wait_for("Title");
    terminal.press_keys(" for good\r");
    terminal.wait_for("TL;DR");
    terminal.press_keys("\r");
    terminal.wait_for("Objective> ");
    terminal.press_keys("\r");
    terminal.wait_for("Decisions> ");
    // Ctrl-U empties the line, which removes the item.
    terminal.press_keys("\x15\r");
    terminal.wait_for("Next steps> ");
    terminal.press_keys("\r");
    terminal.wait_for("Kind of a new item");
    terminal.press_keys("b\r");
    terminal.wait_for("Blockers> ");
    terminal.press_keys("the suite is slow\r");
    terminal.wait_until("the kinds again", |screen| screen.matches("Kind of a new item").count() == 2);
    terminal.press_keys("\r");
    let screen = terminal.wait_for("[a] Accept this text");
    assert!(
        screen.contains("+ **Mend the retry test for good**") && screen.contains("- - Never raise"),
        "{screen}"
    );
    terminal.press_keys("\r");
    terminal.press_keys("a\r");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    let block = sandbox.read_agent_md().unwrap();
    assert!(block.contains("for good**") && block.contains("- the suite is slow"), "{block}");
    assert!(!block.contains("### Decisions"), "{block}");
}

#[test]
fn if_the_editor_cannot_be_started_each_line_is_a_field() {
    let mut sandbox = TestSandbox::new();
    sandbox.set_variable("EDITOR", "/nonexistent/editor");
    let (terminal, _) = start_review(&sandbox, 100);
    answer_question(&terminal, "e");
    let screen = terminal.wait_for("Title");
    assert!(screen.contains("failed to start `/nonexistent/editor`"), "{screen}");
    terminal.press_keys("\x1b");
    terminal.wait_until("the question again", |screen| screen.contains("The text was not changed."));
    terminal.wait_for(QUESTION);
    terminal.press_keys("\x1b");
    assert_eq!(terminal.end().0, 3);
}

#[test]
fn in_plain_mode_an_empty_line_keeps_a_field_and_a_dash_removes_it() {
    let (mut sandbox, _server) =
        start_with_replies([draft_reply("The clock is passed in.", "Do the same in src/backoff.rs.")]);
    sandbox.set_variable("PATH", "/nonexistent");
    let terminal = PtyTerminal::start(&sandbox, 80, &["--plain", "handoff", &sandbox.write_session()]);
    for (asked, line) in [
        ("Choose a key, Enter for none>", "e"),
        ("Title: Mend the retry test", ""),
        ("TL;DR, Enter keeps it>", "All is said."),
        ("Objective, Enter keeps it>", ""),
        ("Decisions, Enter keeps it>", "-"),
        ("Next steps, Enter keeps it>", ""),
        ("Kind of a new item (Enter for none)>", ""),
        ("[a] Accept this text", "a"),
    ] {
        terminal.wait_for(asked);
        terminal.press_keys(&format!("{line}\n"));
    }
    let (code, printed) = terminal.end_printed();
    assert_eq!(code, 0, "{printed}");
    let block = sandbox.read_agent_md().unwrap();
    assert!(block.contains("All is said.") && !block.contains("### Decisions"), "{block}");
}

#[test]
fn the_warnings_about_a_text_are_shown_before_it_is_accepted() {
    let (mut sandbox, _server) =
        start_with_replies([draft_reply("The test fails now and then.", "Add a test.")]);
    set_editor(
        &mut sandbox,
        "sed -i 's/^- Add a test\\.$/- Raise the timeout in `src\\/ghost9.rs`./' \"$1\"",
    );
    let (terminal, _) = start_review(&sandbox, 80);
    terminal.press_keys("e\r");
    let screen = terminal.wait_for("[a] Accept this text");
    let shown = screen.rsplit("You changed:").next().unwrap();
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("not found in the conversation: src/ghost9.rs"), "{screen}");
    assert!(shown.contains("may contradict your rule: Never raise the timeout"), "{screen}");
    assert!(!shown.contains("Put it back"), "{screen}");
    terminal.press_keys("a\r");
    terminal.wait_for("[y] Accept it anyway");
    terminal.press_keys("y\r");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert!(sandbox.read_agent_md().unwrap().contains("src/ghost9.rs"));
}

/// Waits until the text is behind the last `mark` on the screen.
fn wait_behind(terminal: &PtyTerminal, mark: &str, text: &str) {
    terminal
        .wait_until(text, |screen| screen.rsplit_once(mark).is_some_and(|(_, behind)| behind.contains(text)));
}

#[test]
fn a_rule_that_a_text_has_lost_is_put_back_with_one_key_and_accepting_without_it_asks_again() {
    let mut sandbox = TestSandbox::new();
    set_editor(&mut sandbox, "sed -i '/^### Rules$/,/^$/d' \"$1\"");
    let (terminal, _) = start_review(&sandbox, 80);
    terminal.press_keys("e\r");
    let screen = terminal.wait_for("[+] Put it back");
    let shown = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("Your text does not contain the rule: Never raise the timeout"), "{screen}");
    terminal.press_keys("a\r");
    terminal.wait_for("[y] Accept it anyway");
    // Going back leads to the question before, not out of the user's own text.
    terminal.press_keys("\x1b");
    wait_behind(&terminal, "→ Go back", "[s] Save as a draft");
    terminal.press_keys("e\r");
    wait_behind(&terminal, "→ Edit it again", "[+] Put it back");
    terminal.press_keys("a\r");
    wait_behind(&terminal, "→ Accept this text", "[y] Accept it anyway");
    terminal.press_keys("+\r");
    wait_behind(&terminal, "→ Put it back", "[a] Accept this text");
    terminal.press_keys("a\r");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    let block = sandbox.read_agent_md().unwrap();
    assert!(block.contains("### Rules\n- Never raise the timeout"), "{block}");
}
