//! The review in a terminal: what is shown fits, nothing is decided by accident, and each answer does what it says.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::sandbox::Sandbox;
use crate::terminal::Terminal;

const QUESTION: &str = "[Esc] Decide later";

fn ask(sandbox: &Sandbox, columns: u16) -> (Terminal, String) {
    let terminal = Terminal::start(sandbox, columns, &["handoff", &sandbox.session()]);
    let screen = terminal.wait_for(QUESTION);
    (terminal, screen)
}

/// An editor that does what the lines of a shell script say to the file `$1`.
fn editor(sandbox: &mut Sandbox, script: &str) {
    let path = sandbox.file("editor.sh", format!("#!/bin/sh\n{script}\n"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    sandbox.set("EDITOR", &path);
}

#[test]
fn g5_a_person_sees_the_whole_summary_and_accepts_it_with_one_key() {
    for columns in [80, 120] {
        let sandbox = Sandbox::new();
        let (terminal, screen) = ask(&sandbox, columns);
        for part in [
            "Handoff of ",
            "Objective",
            "Covers ",
            "offline extract",
            "[a] Accept",
            "[e] Edit",
            "[d] Decline",
        ] {
            assert!(screen.contains(part), "{part} at {columns} columns:\n{screen}");
        }
        terminal.keys("a\r");
        let (code, screen) = terminal.end();
        assert_eq!(code, 0, "{screen}");
        assert!(screen.contains("Accepted.") && screen.contains("Go on with: segue chat -t "), "{screen}");
        assert_eq!(sandbox.threads().len(), 2);
    }
}

#[test]
fn g5_enter_alone_decides_nothing_and_escape_leaves_it_pending() {
    let sandbox = Sandbox::new();
    let (terminal, _) = ask(&sandbox, 80);
    terminal.keys("\r\r y");
    terminal.keys("\x1b");
    let (code, screen) = terminal.end();
    assert_eq!(code, 3, "{screen}");
    assert!(screen.contains("the handoff waits. Come back with: segue handoff "), "{screen}");
    assert_eq!(sandbox.threads().len(), 1);
    let (terminal, screen) = ask(&sandbox, 80);
    assert!(screen.contains("and still waits"), "{screen}");
    terminal.keys("\t");
    terminal.wait_for("▸[a] Accept");
    terminal.keys("\r");
    assert_eq!(terminal.end().0, 0);
    assert_eq!(sandbox.threads().len(), 2);
}

#[test]
fn g15_declining_asks_why_and_changes_nothing() {
    let sandbox = Sandbox::new();
    let (terminal, _) = ask(&sandbox, 80);
    terminal.keys("d\r");
    terminal.wait_for("Reason (Enter for none)");
    terminal.keys("too vague\r");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains("Declined. Nothing was changed"), "{screen}");
    assert_eq!(sandbox.threads().len(), 1);
    assert_eq!(sandbox.agent_md(), None);
}

#[test]
fn control_c_leaves_the_handoff_pending() {
    let sandbox = Sandbox::new();
    let (terminal, _) = ask(&sandbox, 80);
    terminal.keys("\x03");
    let (code, screen) = terminal.end();
    assert_eq!(code, 3, "{screen}");
}

#[test]
fn an_edit_that_is_not_taken_comes_back_with_its_text_and_the_reason() {
    let mut sandbox = Sandbox::new();
    let log = sandbox.work().join("seen").to_str().unwrap().to_owned();
    // First the items go, which is refused; then the same text comes back and gets one.
    editor(
        &mut sandbox,
        &format!(
            "if [ ! -e {log} ]; then cp \"$1\" {log}; sed -i '/^- /d' \"$1\"; echo 'my own line' >> \"$1\"\n\
             else cp \"$1\" {log}.again; printf '\\n### Objective\\n- only this\\n' >> \"$1\"; fi"
        ),
    );
    let (terminal, _) = ask(&sandbox, 80);
    terminal.keys("e\r");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains("Accepted."), "{screen}");
    let again = fs::read_to_string(format!("{log}.again")).unwrap_or_default();
    let block = sandbox.agent_md().unwrap();
    if again.is_empty() {
        // A line of one's own under a heading is an item: the first text was taken.
        assert!(block.contains("my own line"), "{block}");
    } else {
        assert!(again.contains("The text was not taken: ") && again.contains("my own line"), "{again}");
        assert!(block.contains("only this") && block.contains("my own line"), "{block}");
    }
    assert!(!block.contains("<!--"), "the explanation is not part of the text: {block}");
    let left: Vec<String> = fs::read_dir(sandbox.home())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_str().unwrap().to_owned())
        .filter(|name| name.starts_with("segue-"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn an_unchanged_edit_goes_back_to_the_question() {
    let mut sandbox = Sandbox::new();
    editor(&mut sandbox, "true");
    let (terminal, _) = ask(&sandbox, 80);
    terminal.keys("e\r");
    terminal.wait_for("The text was not changed.");
    terminal.wait_until("second question", |screen| screen.contains("→ Edit") && screen.contains(QUESTION));
    terminal.keys("p\r");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains("Only shown."), "{screen}");
    assert_eq!(sandbox.threads().len(), 1);
}

#[test]
fn without_an_editor_the_question_comes_back() {
    let mut sandbox = Sandbox::new();
    sandbox.set("PATH", "/nonexistent");
    let (terminal, _) = ask(&sandbox, 80);
    terminal.keys("e\r");
    terminal.wait_for("hint: set EDITOR");
    terminal.wait_until("second question", |screen| screen.contains("→ Edit") && screen.contains(QUESTION));
    terminal.keys("\x1b");
    assert_eq!(terminal.end().0, 3);
}

#[test]
fn a_deletion_is_asked_about_and_escape_keeps_the_thread() {
    let sandbox = Sandbox::new();
    sandbox.run(&["import", &sandbox.session()]);
    for (key, left) in [("\x1b", 1), ("n\r", 1), ("y\r", 0)] {
        let terminal = Terminal::start(&sandbox, 80, &["threads", "delete", "last"]);
        terminal.wait_for("[y] Delete");
        terminal.keys(key);
        assert_eq!(terminal.end().0, 0);
        assert_eq!(sandbox.threads().len(), left);
    }
}
