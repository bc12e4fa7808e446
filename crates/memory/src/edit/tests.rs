//! Effects of edits of the notes, and refusals.

use super::*;

const NOTES: &str = "# Notes\n- tabs\n- tea\n\n## Recent Thread Snapshot\n<current_thread_summary>\nS\n</current_thread_summary>\n";

fn change(edits: &[(&str, &str)], append: Option<&str>) -> NotesChange {
    let edits = edits
        .iter()
        .map(|(old, new)| NoteEdit { old_string: (*old).to_owned(), new_string: (*new).to_owned() });
    NotesChange { edits: edits.collect(), append: append.map(str::to_owned), ..NotesChange::default() }
}

/// Applies a change and returns the text with the reasons of what was refused.
fn apply_and_report(text: &str, change: &NotesChange) -> (String, String) {
    let applied = apply_change(text.as_bytes(), &NotesScope::AllProjects, change);
    let refused = applied.refusals.join("\n");
    assert_eq!(
        applied.applied_count + applied.refusals.len(),
        change.edits.len() + usize::from(change.append.is_some())
    );
    (String::from_utf8(applied.text).unwrap(), refused)
}

fn check(text: &str, edits: &[(&str, &str)], expected: &str) {
    assert_eq!(
        apply_and_report(text, &change(edits, None)),
        (expected.to_owned(), String::new()),
        "{edits:?}"
    );
}

fn check_refused(text: &str, edit: (&str, &str), reason: &str) {
    let (after, why) = apply_and_report(text, &change(&[edit], None));
    assert_eq!(after, text, "{edit:?}");
    assert!(why.starts_with("edit 1 was refused: ") && why.contains(reason), "{edit:?}: {why}");
}

#[test]
fn f4_notes_are_replaced_exactly() {
    check(NOTES, &[("tabs", "spaces")], &NOTES.replace("tabs", "spaces"));
    check(
        NOTES,
        &[("- tabs\n", ""), ("tea", "coffee")],
        &NOTES.replace("- tabs\n", "").replace("tea", "coffee"),
    );
    check("a\r\nb\r\nc", &[("a\nb", "x\ny\nz")], "x\r\ny\r\nz\r\nc");
    check("a <b> c", &[("&lt;b> c", "&lt;b> d")], "a <b> d");
    check("S\n", &[("S", "T")], "T\n");
    // An occurrence in the block does not count: the text is unique among the notes.
    check(&NOTES.replace("tea", "S"), &[("S\n\n", "T\n\n")], &NOTES.replace("tea", "T"));
    check_refused(NOTES, ("absent", "x"), "does not occur");
    check_refused(NOTES, ("- t", "x"), "occurs 2 times");
    check_refused(NOTES, ("", "x"), "use append");
    check_refused(NOTES, ("tea", "tea"), "are the same");
}

#[test]
fn f4_an_edit_that_touches_the_block_is_refused_and_the_others_stay() {
    let in_block = "is part of the block";
    let block_changes = "would change, hide or double the block";
    check_refused(NOTES, ("S\n</current", "T\n</current"), in_block);
    check_refused(NOTES, ("<current_thread_summary>", ""), in_block);
    check_refused(NOTES, ("Snapshot\n<current_thread_summary>", "x"), in_block);
    check_refused(NOTES, ("S", "T"), in_block);
    check_refused(NOTES, ("## Recent Thread Snapshot\n", ""), in_block);
    let second = "<current_thread_summary>\nmine\n</current_thread_summary>";
    check_refused(NOTES, ("- tea", second), block_changes);
    check_refused("a\n", ("a", second), block_changes);
    check_refused(NOTES, ("- tea", "</current_thread_summary>"), block_changes);
    // The edit would join the marker to the line before it.
    check_refused(NOTES, ("- tea\n\n", "- tea "), block_changes);
    // A fence around the block hides it.
    let fenced = format!("{NOTES}```\ncode\n");
    check_refused(&fenced, ("- tea", "```"), block_changes);
    let edits = [("tabs", "spaces"), ("S\n</current", "T"), ("tea", "coffee")];
    let (text, why) = apply_and_report(NOTES, &change(&edits, Some(second)));
    assert_eq!(text, NOTES.replace("tabs", "spaces").replace("tea", "coffee"));
    assert_eq!(
        why.lines().map(|line| line.split(':').next().unwrap()).collect::<Vec<_>>(),
        ["edit 2 was refused", "append was refused"]
    );
}

#[test]
fn f4_notes_are_added_before_a_block_at_the_end() {
    let append = |text: &str, notes: &str| apply_and_report(text, &change(&[], Some(notes)));
    let done = |text: String| (text, String::new());
    assert_eq!(append(NOTES, "- new\n"), done(NOTES.replace("- tea\n", "- tea\n- new\n")));
    assert_eq!(append("", "a"), done("a\n".to_owned()));
    assert_eq!(append("a", "b"), done("a\nb\n".to_owned()));
    assert_eq!(append("a\r\nb\r\n", "c\nd"), done("a\r\nb\r\nc\r\nd\r\n".to_owned()));
    let block = NOTES.split_once("\n\n").unwrap().1;
    assert_eq!(append(block, "a"), done(format!("a\n\n{block}")));
    assert_eq!(append(&format!("a\n{block}"), "b"), done(format!("a\nb\n\n{block}")));
    assert_eq!(append(&format!("{block}after\n"), "b"), done(format!("{block}after\nb\n")));
    assert!(append(NOTES, " \n").1.contains("blank"));
}

#[test]
fn f9_secrets_are_never_stored() {
    let key = "sk-ant-api03-abcdefghijklmnop1234";
    for (text, edit, expected) in [
        (NOTES, ("tea", key), NOTES.replace("tea", "[redacted]")),
        (NOTES, ("tea", "password=hunter2hunter2"), NOTES.replace("tea", "password=[redacted]")),
        // The edit adds a value to a name that was there before.
        (
            "api_key = \n",
            ("api_key = ", "api_key = \"a1b2c3d4e5f6\""),
            "api_key = \"[redacted]\"\n".to_owned(),
        ),
    ] {
        let applied = apply_change(text.as_bytes(), &NotesScope::AllProjects, &change(&[edit], None));
        assert_eq!(
            (String::from_utf8(applied.text).unwrap(), applied.redacted_secrets),
            (expected, 1),
            "{edit:?}"
        );
    }
    let applied = apply_change(
        NOTES.as_bytes(),
        &NotesScope::AllProjects,
        &change(&[("tea", key)], Some(&format!("- {key}\n- also {key}"))),
    );
    assert_eq!((applied.applied_count, applied.redacted_secrets), (2, 3));
    // A text that forms a secret only together with the adjacent text is refused.
    check_refused("password: 'X'\n", ("X", "s3cr3tvalue"), "secrets are never kept");
    // A secret that the user wrote is neither repeated nor removed.
    check_refused(
        &format!("- {key} old\n"),
        (&format!("{key} old"), &format!("{key} new")),
        "secrets are never kept",
    );
    // Other parts of a line with the user's secret may be changed.
    check(&format!("{key} old\n"), &[(" old", " new")], &format!("{key} new\n"));
    check(
        NOTES,
        &[("tea", "the key is in the environment, as API_KEY")],
        &NOTES.replace("tea", "the key is in the environment, as API_KEY"),
    );
}

#[test]
fn f2_the_file_does_not_grow_over_its_limit() {
    let full = "a".repeat(EDITED_BYTES_MAX - 1) + "b";
    check_refused(&full, ("b", "bb"), "is the limit");
    check(&full, &[("b", "c")], &(full[..EDITED_BYTES_MAX - 1].to_owned() + "c"));
    let larger = full.clone() + "tail";
    check(&larger, &[("tail", "t")], &(full + "t"));
}

const PROJECTS: &str =
    "- everywhere\n\n## Project: /a\n- of a\n\n## Project: /b\n- of b\n\n# Later\n- also everywhere\n";

/// Applies a change in the project `/a` and returns the text with the reasons of what was refused.
fn apply_in_project(change: &NotesChange) -> (String, String) {
    let applied = apply_change(PROJECTS.as_bytes(), &NotesScope::Project("/a".to_owned()), change);
    (String::from_utf8(applied.text).unwrap(), applied.refusals.join("\n"))
}

#[test]
fn m3_notes_are_added_to_their_project() {
    let append = |scope| {
        apply_in_project(&NotesChange { append: Some("- new".to_owned()), scope, ..NotesChange::default() }).0
    };
    assert_eq!(append(AppendScope::Project), PROJECTS.replace("- of a\n", "- of a\n- new\n"));
    assert_eq!(
        append(AppendScope::Personal),
        PROJECTS.replacen("- everywhere\n", "- everywhere\n- new\n", 1)
    );
    let in_c = NotesScope::Project("/c".to_owned());
    let applied = apply_change(PROJECTS.as_bytes(), &in_c, &change(&[], Some("- new")));
    assert_eq!(String::from_utf8(applied.text).unwrap(), format!("{PROJECTS}\n## Project: /c\n- new\n"));
    let applied = apply_change(b"", &in_c, &change(&[], Some("- new")));
    assert_eq!(applied.text, b"## Project: /c\n- new\n");
}

#[test]
fn m3_an_edit_reaches_no_note_of_another_project() {
    let (text, why) = apply_in_project(&change(&[("- of b", "- mine")], None));
    assert_eq!(text, PROJECTS);
    assert!(why.contains("does not occur"), "{why}");
    // A text that is unique among the visible notes is replaced there.
    let (text, _) = apply_in_project(&change(&[("- of ", "- now of ")], None));
    assert_eq!(text, PROJECTS.replace("- of a", "- now of a"));
    for (old, new) in [
        ("- everywhere", "## Project: /b\n- for b"),
        ("- of a", "# Notes\n- for everyone"),
        ("## Project: /a\n", ""),
        ("/a\n", "/b\n"),
        ("# Later\n", ""),
        ("- of a", "```"),
    ] {
        let (text, why) = apply_in_project(&change(&[(old, new)], None));
        // A fence that is never closed ends with the section of the next project.
        if new == "```" {
            assert_eq!(text, PROJECTS.replace("- of a", "```"));
            continue;
        }
        assert_eq!(text, PROJECTS, "{old:?}");
        assert!(why.contains("which project notes belong to"), "{why}");
    }
    // The personal notes behind a section do not become notes of the project.
    let change_b = change(&[("# Later\n", "")], None);
    let applied = apply_change(PROJECTS.as_bytes(), &NotesScope::Project("/b".to_owned()), &change_b);
    assert_eq!((applied.text.as_slice(), applied.applied_count), (PROJECTS.as_bytes(), 0));
    for notes in ["## Project: /b\n- for b", "# Notes\n- for everyone"] {
        let (text, why) = apply_in_project(&change(&[], Some(notes)));
        assert_eq!(text, PROJECTS, "{notes:?}");
        assert!(why.starts_with("append was refused: it would change which project"), "{why}");
    }
}
