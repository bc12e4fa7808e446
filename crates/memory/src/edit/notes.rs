//! The single notes of agent.md: the list items and lines that a fact can repeat or replace. Works on text only.

use std::ops::Range;

use memchr::memmem;

use super::with_line_ending;
use crate::file::project_notes::{self, NoteOwner};
use crate::managed_block;
use crate::prompt::open_fence_after;

/// Returns the notes of a text without the managed block and comments: each list item at the margin with its indented lines,
/// and each other line. Headings, code blocks and blank lines are no notes.
pub(crate) fn split_notes(text: &str) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    let mut fence: Option<String> = None;
    // True if an indented line continues the last note.
    let mut is_open = false;
    for line in text.lines().map(str::trim_end) {
        let was_in_fence = fence.is_some();
        fence = open_fence_after(fence.as_deref(), line.trim()).map(str::to_owned);
        if was_in_fence || fence.is_some() || line.trim().is_empty() || line.starts_with('#') {
            is_open = false;
            continue;
        }
        match notes.last_mut().filter(|_| is_open && line.starts_with([' ', '\t'])) {
            Some(note) => {
                note.push('\n');
                note.push_str(line);
            }
            None => notes.push(line.to_owned()),
        }
        is_open = true;
    }
    notes
}

/// Returns the text of a note without its list marker.
pub(crate) fn note_text(note: &str) -> &str {
    let note = note.trim_start();
    ["- ", "* "].iter().find_map(|mark| note.strip_prefix(mark)).unwrap_or(note)
}

/// Returns the ranges at which the note stands in a text, as whole lines, among the notes of this very owner: those in the
/// section of the project, or the personal ones.
pub(crate) fn find_note(text: &[u8], owner: NoteOwner<'_>, note: &str) -> Vec<Range<usize>> {
    let own = project_notes::ranges_of_owner(text, owner);
    let managed = managed_block::managed_ranges(text);
    let lines = with_line_ending(note, managed_block::line_ending(text));
    let is_whole = |range: &Range<usize>| {
        let (before, after) = (&text[..range.start], &text[range.end..]);
        let is_start = before.is_empty() || before.ends_with(b"\n") || before == "\u{feff}".as_bytes();
        let after = after.strip_prefix(b"\r").unwrap_or(after);
        // Indented lines after it belong to a longer note, which is a different one.
        is_start && (after.is_empty() || after.starts_with(b"\n")) && !after.starts_with(b"\n  ")
    };
    let is_own = |range: &Range<usize>| {
        own.iter().any(|own| own.start <= range.start && range.end <= own.end)
            && managed.iter().all(|block| range.end <= block.start || block.end <= range.start)
    };
    let found = memmem::find_iter(text, lines.as_bytes()).map(|start| start..start + lines.len());
    found.filter(|range| !lines.is_empty() && is_whole(range) && is_own(range)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_list_items_with_their_lines_and_other_lines() {
        let text =
            "# Notes\n\n- one\n  and more\n- two\nA line.\n```\n- code\n```\n## Project: /a\n* three\n";
        assert_eq!(split_notes(text), ["- one\n  and more", "- two", "A line.", "* three"]);
        assert_eq!(
            split_notes("- one\n  and more").iter().map(|note| note_text(note)).collect::<Vec<_>>(),
            ["one\n  and more"]
        );
    }

    #[test]
    fn a_note_is_found_as_whole_lines_of_its_owner() {
        let text = b"- a\n- ab\n- a\n  b\n## Project: /p\n- a\r\n## Project: /q\n- a";
        let count = |owner, note| find_note(text, owner, note).len();
        assert_eq!(count(NoteOwner::Personal, "- a"), 1);
        assert_eq!(count(NoteOwner::Project("/p"), "- a"), 1);
        assert_eq!(count(NoteOwner::Project("/q"), "- ab"), 0);
        assert_eq!(count(NoteOwner::Personal, "- a\n  b"), 1);
        assert_eq!(count(NoteOwner::Personal, ""), 0);
    }
}
