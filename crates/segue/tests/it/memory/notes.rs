//! agent.md: kept by a sentence, shown, searched, and changed in the person's own editor, but for the block in it.

use std::os::unix::fs::PermissionsExt;

use crate::sandbox::TestSandbox;
use crate::terminal::PtyTerminal;

/// An editor that does what the lines of a shell script say to the file `$1`.
fn set_editor(sandbox: &mut TestSandbox, script: &str) {
    let path = sandbox.write_file("editor.sh", format!("#!/bin/sh\n{script}\n"));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    sandbox.set_variable("EDITOR", &path);
}

/// A sandbox whose agent.md has a note and the block of a handoff.
fn sandbox_with_note() -> TestSandbox {
    let sandbox = TestSandbox::new();
    assert_eq!(sandbox.run(&["handoff", &sandbox.write_session(), "--apply"]).code, 0);
    assert_eq!(sandbox.run(&["remember", "the kettle", "is descaled on Fridays"]).code, 0);
    sandbox
}

/// Returns the files that an editor may leave in the home folder.
fn leftover_files(sandbox: &TestSandbox) -> Vec<String> {
    let entries = std::fs::read_dir(sandbox.home()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().to_str().unwrap().to_owned());
    names.filter(|name| name.starts_with("segue-")).collect()
}

#[test]
fn a_sentence_is_remembered_outside_the_block_and_says_where_it_went() {
    let sandbox = sandbox_with_note();
    let text = sandbox.read_agent_md().unwrap();
    let (notes, block) = text.split_once("## Recent Thread Snapshot").unwrap();
    assert!(notes.contains("- the kettle is descaled on Fridays\n") && !block.contains("Fridays"), "{text}");
    let told = sandbox.run(&["remember", "tea is green"]);
    assert!(told.stdout.starts_with("Added to ") && told.stdout.contains("  - tea is green\n"), "{told:?}");
    let json = sandbox.json(&["remember", "tea is green", "--json"]);
    assert_eq!((&json["was_known"], &json["withheld"]), (&true.into(), &0.into()), "{json}");
    let piped = sandbox.run_with(&["remember", "-"], "cups are blue\n");
    assert!(piped.code == 0 && sandbox.read_agent_md().unwrap().contains("- cups are blue\n"), "{piped:?}");
    sandbox.run(&["remember", " "]).assert_error(2, "no words were given");
}

#[test]
fn m16_a_planted_key_is_withheld_with_a_count() {
    let sandbox = TestSandbox::new();
    let key = format!("sk-ant-api03-{}", "abcdefghij0123456789".repeat(4));
    let told = sandbox.run(&["remember", "the key is", &key]);
    assert!(told.code == 0 && told.stdout.contains("1 secret was redacted."), "{told:?}");
    assert!(!sandbox.read_agent_md().unwrap().contains(&key) && !told.stdout.contains(&key), "{told:?}");
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
fn f4_an_edit_beside_the_block_is_taken_and_nothing_is_left_behind() {
    let mut sandbox = sandbox_with_note();
    let before = sandbox.read_agent_md().unwrap();
    set_editor(&mut sandbox, "sed -i 's/Fridays/Mondays/' \"$1\"");
    let told = sandbox.run(&["memory", "edit"]);
    assert_eq!(
        (told.code, told.stdout.as_str()),
        (0, "Changed. Your next message uses the new text.\n"),
        "{told:?}"
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
    let told = sandbox.run(&["memory", "edit"]);
    told.assert_error(2, "which Segue manages");
    assert_eq!(sandbox.read_agent_md().unwrap(), before);
    let kept = leftover_files(&sandbox);
    assert!(kept.len() == 1 && told.stderr.contains(&kept[0]), "{kept:?} {told:?}");
    assert!(std::fs::read_to_string(sandbox.home().join(&kept[0])).unwrap().contains("Mondays"));
}

#[test]
fn f4_a_person_whose_edit_is_refused_goes_on_with_it() {
    let mut sandbox = sandbox_with_note();
    // The first time a line goes into the block, the second time it comes out again.
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
fn f4_what_was_edited_is_not_lost_when_the_editor_fails_in_the_end() {
    let mut sandbox = sandbox_with_note();
    let before = sandbox.read_agent_md().unwrap();
    // The second time it saves, and fails.
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

    // What was not changed is not kept.
    std::fs::remove_file(sandbox.home().join(&kept[0])).unwrap();
    set_editor(&mut sandbox, "exit 1");
    sandbox.run(&["memory", "edit"]).assert_error(2, "ended with");
    assert_eq!(leftover_files(&sandbox), Vec::<String>::new());
}
