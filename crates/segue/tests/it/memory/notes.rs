//! agent.md: notes are added by a sentence, shown, searched, and edited in the user's own editor; the block
//! of a handoff in it is protected.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

use crate::sandbox::TestSandbox;
use crate::terminal::PtyTerminal;

/// Sets an editor that runs these lines of shell script on the file `$1`.
fn set_editor(sandbox: &mut TestSandbox, script: &str) {
    let path = sandbox.write_file("editor.sh", format!("#!/bin/sh\n{script}\n"));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    sandbox.set_variable("EDITOR", &path);
}

/// Returns a sandbox whose agent.md contains a note and the block of a handoff.
fn sandbox_with_note() -> TestSandbox {
    let sandbox = TestSandbox::new();
    assert_eq!(sandbox.run(&["handoff", &sandbox.write_session(), "--apply"]).code, 0);
    assert_eq!(sandbox.run(&["remember", "the kettle", "is descaled on Fridays"]).code, 0);
    sandbox
}

/// Returns the names of the temporary files that an editor may leave in the home folder.
fn leftover_files(sandbox: &TestSandbox) -> Vec<String> {
    let entries = std::fs::read_dir(sandbox.home()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().to_str().unwrap().to_owned());
    names.filter(|name| name.starts_with("segue-")).collect()
}

#[test]
fn a_remembered_sentence_is_added_outside_the_block_and_its_file_is_printed() {
    let sandbox = sandbox_with_note();
    let text = sandbox.read_agent_md().unwrap();
    let (notes, block) = text.split_once("## Recent Thread Snapshot").unwrap();
    assert!(notes.contains("- the kettle is descaled on Fridays\n") && !block.contains("Fridays"), "{text}");
    let output = sandbox.run(&["remember", "tea is green"]);
    assert!(
        output.stdout.starts_with("Added to ") && output.stdout.contains("  - tea is green\n"),
        "{output:?}"
    );
    let json = sandbox.json(&["remember", "tea is green", "--json"]);
    assert_eq!((&json["was_known"], &json["withheld"]), (&true.into(), &0.into()), "{json}");
    let piped = sandbox.run_with(&["remember", "-"], "cups are blue\n");
    assert!(piped.code == 0 && sandbox.read_agent_md().unwrap().contains("- cups are blue\n"), "{piped:?}");
    sandbox.run(&["remember", " "]).assert_error(2, "no words were given");
}

#[test]
fn m3_a_note_for_a_folder_whose_path_is_not_utf8_is_refused() {
    let sandbox = TestSandbox::new();
    let folder = sandbox.home().join(OsStr::from_bytes(b"p\xff"));
    std::fs::create_dir_all(&folder).unwrap();
    let output = sandbox.command(&["remember", "tea is green"]).current_dir(&folder).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && error.contains("the path is not UTF-8"), "{output:?}");
    assert_eq!(sandbox.read_agent_md(), None);
}

#[test]
fn m16_a_planted_key_is_redacted_and_counted() {
    let sandbox = TestSandbox::new();
    let key = format!("sk-ant-api03-{}", "abcdefghij0123456789".repeat(4));
    let output = sandbox.run(&["remember", "the key is", &key]);
    assert!(output.code == 0 && output.stdout.contains("1 secret was redacted."), "{output:?}");
    assert!(!sandbox.read_agent_md().unwrap().contains(&key) && !output.stdout.contains(&key), "{output:?}");
    let chat = sandbox.run_with(&["chat"], &format!("/remember also {key} and more\n"));
    assert!(chat.stdout.contains("1 secret was redacted.") && !chat.stdout.contains(&key), "{chat:?}");
    assert!(!sandbox.read_agent_md().unwrap().contains(&key));
}

#[test]
fn agent_md_is_shown_searched_and_named() {
    let sandbox = sandbox_with_note();
    let path = sandbox.home().join("agents/agent/agent.md");
    assert_eq!(sandbox.run(&["memory", "path"]).stdout, format!("{}\n", path.display()));
    let shown = sandbox.run(&["memory", "show"]).stdout;
    for part in [
        "is descaled on Fridays",
        "Recent Thread Snapshot",
        "Summaries of old messages",
        "Segue manages the text between",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let json = sandbox.json(&["memory", "show", "--json"]);
    assert_eq!(json["text"], sandbox.read_agent_md().unwrap());
    let found = sandbox.run(&["memory", "search", "when is the kettle descaled?"]).stdout;
    assert!(
        found.starts_with("agent.md:") && found.contains("- the kettle is descaled on Fridays"),
        "{found}"
    );
    let json = sandbox.json(&["memory", "search", "descaled", "--json"]);
    assert_eq!(json["agent_md"][0]["text"], "- the kettle is descaled on Fridays", "{json}");
    let none = sandbox.run(&["memory", "search", "xylophone"]).stdout;
    assert!(none.starts_with("No matches for `xylophone`"), "{none}");
    let stats = sandbox.run(&["memory", "stats"]).stdout;
    assert!(stats.starts_with("TIER ") && stats.contains(" B of "), "{stats}");
}

#[test]
fn f4_an_edit_outside_the_block_is_saved_and_leaves_no_temporary_file() {
    let mut sandbox = sandbox_with_note();
    let before = sandbox.read_agent_md().unwrap();
    set_editor(&mut sandbox, "sed -i 's/Fridays/Mondays/' \"$1\"");
    let output = sandbox.run(&["memory", "edit"]);
    assert_eq!(
        (output.code, output.stdout.as_str()),
        (0, "Changed. Your next message uses the new text.\n"),
        "{output:?}"
    );
    assert_eq!(sandbox.read_agent_md().unwrap(), before.replace("Fridays", "Mondays"));
    set_editor(&mut sandbox, ":");
    assert_eq!(sandbox.json(&["memory", "edit", "--json"])["changed"], false);
    assert_eq!(leftover_files(&sandbox), Vec::<String>::new());
}

#[test]
fn f4_an_edit_within_the_block_is_refused_and_the_text_is_not_lost() {
    let mut sandbox = sandbox_with_note();
    let before = sandbox.read_agent_md().unwrap();
    set_editor(&mut sandbox, "sed -i 's/Fridays/Mondays/; s/^<current_thread_summary>/&\\nmine/' \"$1\"");
    let output = sandbox.run(&["memory", "edit"]);
    output.assert_error(2, "which Segue manages");
    assert_eq!(sandbox.read_agent_md().unwrap(), before);
    let kept = leftover_files(&sandbox);
    assert!(kept.len() == 1 && output.stderr.contains(&kept[0]), "{kept:?} {output:?}");
    assert!(std::fs::read_to_string(sandbox.home().join(&kept[0])).unwrap().contains("Mondays"));
}

#[test]
fn f4_a_refused_edit_can_be_continued() {
    let mut sandbox = sandbox_with_note();
    // The first edit adds a line to the block, and the second one removes it.
    set_editor(
        &mut sandbox,
        "if grep -q '^mine' \"$1\"; then sed -i '/^mine/d' \"$1\"\n\
         else sed -i 's/Fridays/Mondays/; s/^<current_thread_summary>/&\\nmine/' \"$1\"; fi",
    );
    let terminal = PtyTerminal::start(&sandbox, 80, &["memory", "edit"]);
    terminal.wait_for("[e] Edit again");
    terminal.press_keys("e\r");
    let (code, screen) = terminal.end();
    assert!(code == 0 && screen.contains("Changed. Your next message uses the new text."), "{screen}");
    let text = sandbox.read_agent_md().unwrap();
    assert!(text.contains("Mondays") && !text.contains("mine"), "{text}");
}

#[test]
fn f4_an_edit_is_not_lost_when_the_editor_fails() {
    let mut sandbox = sandbox_with_note();
    let before = sandbox.read_agent_md().unwrap();
    // The second edit saves the file and exits with an error.
    set_editor(
        &mut sandbox,
        "if grep -q '^mine' \"$1\"; then echo '- more' >> \"$1\"; exit 1\n\
         else sed -i 's/Fridays/Mondays/; s/^<current_thread_summary>/&\\nmine/' \"$1\"; fi",
    );
    let terminal = PtyTerminal::start(&sandbox, 80, &["memory", "edit"]);
    terminal.wait_for("[e] Edit again");
    terminal.press_keys("e\r");
    let (code, screen) = terminal.end();
    let kept = leftover_files(&sandbox);
    assert!(code == 2 && kept.len() == 1 && screen.contains("your text is in"), "{kept:?} {screen}");
    let text = std::fs::read_to_string(sandbox.home().join(&kept[0])).unwrap();
    assert!(text.contains("Mondays") && text.ends_with("- more\n"), "{text}");
    assert_eq!(sandbox.read_agent_md().unwrap(), before);

    // An unchanged text is not saved.
    std::fs::remove_file(sandbox.home().join(&kept[0])).unwrap();
    set_editor(&mut sandbox, "exit 1");
    sandbox.run(&["memory", "edit"]).assert_error(2, "ended with");
    assert_eq!(leftover_files(&sandbox), Vec::<String>::new());
}
