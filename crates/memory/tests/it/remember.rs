//! Notes that the user asks to remember: each is added to agent.md once, without secrets, and changes nothing else.

use std::fs;

use jiff::Timestamp;
use memory::{AgentFile, Error, NoteOwner, RememberedNote, managed_block, remember};
use tempfile::TempDir;

fn file_with(text: &str) -> (TempDir, AgentFile) {
    let folder = tempfile::tempdir().unwrap();
    let file = AgentFile::new(folder.path().join("agent.md"));
    if !text.is_empty() {
        fs::write(file.path(), text).unwrap();
    }
    (folder, file)
}

fn text(file: &AgentFile) -> String {
    fs::read_to_string(file.path()).unwrap_or_default()
}

/// Remembers a note. Returns the content of the file after it, and the report.
fn remember_in(before: &str, note: &str) -> (String, RememberedNote) {
    let (_folder, file) = file_with(before);
    let remembered = remember(&file, NoteOwner::Personal, note).unwrap();
    assert_eq!(remembered.bytes, text(&file).len() as u64);
    assert_eq!((remembered.path.as_path(), remembered.bytes_max), (file.path(), 64 * 1024));
    (text(&file), remembered)
}

#[test]
fn f4_a_note_is_a_line_of_its_own_outside_the_block() {
    let of_block = "## Recent Thread Snapshot\n<current_thread_summary>\nS\n</current_thread_summary>\n";
    for (before, note, expected) in [
        ("", "I use tabs.", "- I use tabs.\n".to_owned()),
        ("# Notes\n- a", " - I use tabs.\n", "# Notes\n- a\n- I use tabs.\n".to_owned()),
        ("a\r\nb\r\n", "c", "a\r\nb\r\n- c\r\n".to_owned()),
        ("- a\n", "one\n\n  two\r\nthree", "- a\n- one\n    two\n  three\n".to_owned()),
        (&format!("- a\n\n{of_block}"), "b", format!("- a\n- b\n\n{of_block}")),
        (&format!("{of_block}after\n"), "b", format!("{of_block}after\n- b\n")),
        // A text that looks like a marker or like half of a fence is escaped.
        ("", "</current_thread_summary>", "- &lt;/current_thread_summary&gt;\n".to_owned()),
    ] {
        assert_eq!(remember_in(before, note).0, expected, "{note:?} in {before:?}");
    }
    let (_, remembered) = remember_in("", "one\ntwo");
    assert_eq!(
        (remembered.line.as_str(), remembered.was_already_noted, remembered.redacted_secrets),
        ("- one\n  two", false, 0)
    );
    let (_folder, file) = file_with("- a\n");
    file.write_block("S", Timestamp::UNIX_EPOCH).unwrap();
    remember(&file, NoteOwner::Personal, "b").unwrap();
    assert_eq!(managed_block::block_content(text(&file).as_bytes()).as_deref(), Some("S"));
    assert_eq!(file.read().unwrap().block.as_deref(), Some("S"));
}

#[test]
fn f9_a_note_is_never_added_twice() {
    let (_folder, file) = file_with("");
    for (note, was_known) in [
        ("I use tabs.", false),
        ("I use tabs.", true),
        ("- I use tabs.\n", true),
        ("I use tabs", false),
        ("I use tabs.\nAnd tea.", false),
        ("I use tabs.\nAnd tea.", true),
        ("And tea.", false),
    ] {
        assert_eq!(
            remember(&file, NoteOwner::Personal, note).unwrap().was_already_noted,
            was_known,
            "{note:?}"
        );
    }
    assert_eq!(text(&file), "- I use tabs.\n- I use tabs\n- I use tabs.\n  And tea.\n- And tea.\n");
}

#[test]
fn m3_a_note_is_added_to_its_project_unless_its_conversations_see_it_already() {
    let (_folder, file) = file_with("- personal\n");
    let add = |project: Option<&str>, note: &str| {
        let owner = project.map_or(NoteOwner::Personal, NoteOwner::Project);
        let remembered = remember(&file, owner, note).unwrap();
        assert_eq!(remembered.project.as_deref(), project);
        remembered.was_already_noted
    };
    assert!(!add(Some("/a"), "tabs"));
    assert!(!add(Some("/b"), "tabs"));
    assert!(add(Some("/a"), "tabs"));
    assert!(add(Some("/b"), "personal"));
    assert!(!add(None, "tabs"));
    assert!(!add(Some("/a"), "## Project: /b"));
    assert_eq!(
        text(&file),
        "- personal\n- tabs\n\n## Project: /a\n- tabs\n- ## Project: /b\n\n## Project: /b\n- tabs\n"
    );
}

#[test]
fn m16_secrets_are_redacted_and_counted() {
    let key = "sk-ant-api03-abcdefghijklmnop1234";
    let (after, remembered) = remember_in("- a\n", &format!("my key is {key}, and password=hunter2hunter2"));
    assert_eq!(remembered.redacted_secrets, 2);
    assert_eq!(after, "- a\n- my key is [redacted], and password=[redacted]\n");
    assert_eq!(remembered.line, "- my key is [redacted], and password=[redacted]");
}

#[test]
fn hidden_and_control_characters_are_not_written() {
    let (after, _) = remember_in("- a\n", "\u{1b}[31mred\u{7} \u{202e}and\u{200b} blue\u{2028}x");
    assert_eq!(after, "- a\n- [31mred and blue\n  x\n");
}

#[test]
fn f2_a_refused_note_is_an_error_and_leaves_the_file_unchanged() {
    let (_folder, file) = file_with("- a\n");
    for blank in ["", " \n\t", "\u{200b}", "* * *", "---", "```", "\u{1b}[\u{7}"] {
        assert!(matches!(remember(&file, NoteOwner::Personal, blank), Err(Error::BlankNote)));
    }
    let long = remember(&file, NoteOwner::Personal, &"word ".repeat(900)).unwrap_err();
    assert_eq!(long.to_string(), "remember it: the text has 4499 characters, and 4000 is the limit");
    let fence = remember(&file, NoteOwner::Personal, "```sh").map(|remembered| remembered.line);
    assert_eq!(fence.unwrap(), "- ```sh", "a fence in an item hides nothing before it");
    let full = format!("{}\n", "a".repeat(64 * 1024 - 5));
    fs::write(file.path(), &full).unwrap();
    let error = remember(&file, NoteOwner::Personal, "more").unwrap_err();
    assert!(matches!(error, Error::NoteDoesNotFit { bytes: 65_539, bytes_max: 65_536, .. }), "{error:?}");
    assert_eq!(error.hint(), "shorten the file first: all of it is part of every request");
    assert_eq!(text(&file), full);
}
