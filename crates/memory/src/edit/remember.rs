//! `remember`: adds a note to agent.md at the user's explicit request, outside the managed block. Nothing is
//! remembered without a request.

use std::path::PathBuf;

use secrets::redact_and_count;
use unicode_segmentation::UnicodeSegmentation;

use crate::edit::{self, EDITED_BYTES_MAX, EditRefusal, notes};
use crate::file::project_notes::{NoteOwner, notes_of_owner};
use crate::file::{AgentFile, BlockIntent, FileAction};
use crate::{Error, Result, managed_block};

/// Maximum length of a note in grapheme clusters.
const NOTE_CHARS_MAX: usize = 4_000;

/// The result of remembering a note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RememberedNote {
    /// Path of the agent.md.
    pub path: PathBuf,
    /// The note as it was written; several lines when the text had several.
    pub line: String,
    /// The path of the project whose conversations see it; `None` for those of all projects.
    pub project: Option<String>,
    /// True when the file already had this note; a note is never added twice.
    pub was_already_noted: bool,
    /// Number of secrets redacted from the note.
    pub redacted_secrets: u64,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Maximum size of the file in bytes.
    pub bytes_max: u64,
}

/// The effect of a new note on the note that it replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoteReplacement {
    /// It replaces no note.
    NotRequested,
    /// The new note stands in the place of the old one, which is no longer in the file.
    Replaced,
    /// The old note does not stand in the file exactly once, so the new one was added.
    NotFound,
}

/// Adds a note of this owner to agent.md, outside the block. Creates the file when it is missing. Redacts secrets. A note
/// that conversations of the owner already see is not added again.
///
/// # Errors
/// When the text is blank or too long, or the file would become too large. The file is then unchanged.
pub fn remember(file: &AgentFile, owner: NoteOwner<'_>, text: &str) -> Result<RememberedNote> {
    write_note(file, owner, text, None).map(|(note, _)| note)
}

/// Writes a note with the rules of [`remember`]. If the note `replaces` stands in the file exactly once, among those that
/// conversations of the owner see, the new one takes its place. Repeating the call changes nothing.
pub(crate) fn write_note(
    file: &AgentFile,
    owner: NoteOwner<'_>,
    text: &str,
    replaces: Option<&str>,
) -> Result<(RememberedNote, NoteReplacement)> {
    let (line, redacted_secrets) = format_note(text)?;
    let bytes_max = EDITED_BYTES_MAX as u64;
    let to_report = |bytes: usize, was_already_noted| RememberedNote {
        path: file.path().to_owned(),
        line: line.clone(),
        project: match owner {
            NoteOwner::Personal => None,
            NoteOwner::Project(path) => Some(path.to_owned()),
        },
        was_already_noted,
        redacted_secrets,
        bytes: bytes as u64,
        bytes_max,
    };
    let mut guard = file.lock()?;
    file.replace_with(&mut guard, |current| {
        let old = current.unwrap_or_default();
        let standing = replaces.map(|note| notes::find_note(old, owner, note)).unwrap_or_default();
        let replacement = match (replaces, standing.as_slice()) {
            (None, _) => NoteReplacement::NotRequested,
            (Some(_), []) if has_note(&notes_of_owner(old, owner), &line) => NoteReplacement::Replaced,
            (Some(_), [_]) => NoteReplacement::Replaced,
            (Some(_), _) => NoteReplacement::NotFound,
        };
        if has_note(&notes_of_owner(old, owner), &line) {
            return Ok(FileAction::KeepFile((to_report(old.len(), true), replacement)));
        }
        let written = match standing.as_slice() {
            [range] => edit::replace_lines(old, owner, range, &line),
            _ => edit::append_notes(old, owner, &line).map(|(bytes, _)| bytes),
        };
        match written {
            Ok(bytes) => {
                let report = (to_report(bytes.len(), false), replacement);
                Ok(FileAction::ReplaceFile { bytes, block: BlockIntent::KeepBlock, report })
            }
            Err(refusal) => Err(refusal_error(file, refusal)),
        }
    })
}

/// Removes a note of this owner that stands in agent.md exactly once, or puts `earlier` in its place. Does nothing otherwise.
///
/// # Errors
/// When the file cannot be read or written.
pub(crate) fn remove_note(
    file: &AgentFile,
    owner: NoteOwner<'_>,
    note: &str,
    earlier: Option<&str>,
) -> Result<()> {
    let mut guard = file.lock()?;
    file.replace_with(&mut guard, |current| {
        let old = current.unwrap_or_default();
        let standing = notes::find_note(old, owner, note);
        let [range] = standing.as_slice() else { return Ok(FileAction::KeepFile(())) };
        let bytes = match earlier {
            Some(earlier) => edit::replace_lines(old, owner, range, earlier)
                .map_err(|refusal| refusal_error(file, refusal))?,
            None => {
                let line_end = memchr::memchr(b'\n', &old[range.end..]);
                let end = line_end.map_or(old.len(), |position| range.end + position + 1);
                [&old[..range.start], &old[end..]].concat()
            }
        };
        Ok(FileAction::ReplaceFile { bytes, block: BlockIntent::KeepBlock, report: () })
    })
}

/// Returns the error for a note that was refused.
fn refusal_error(file: &AgentFile, refusal: EditRefusal) -> Error {
    let path = file.path().to_owned();
    match refusal {
        EditRefusal::TooLarge { bytes } => {
            Error::NoteDoesNotFit { path, bytes: bytes as u64, bytes_max: EDITED_BYTES_MAX as u64 }
        }
        refusal @ (EditRefusal::Invalid(_)
        | EditRefusal::ManagedBlock
        | EditRefusal::OtherProject
        | EditRefusal::Secret) => Error::NoteRefused { path, reason: refusal.to_string() },
    }
}

/// Returns the text as a list item, and the number of secrets redacted from it.
fn format_note(text: &str) -> Result<(String, u64)> {
    let text = text.trim();
    if text.is_empty() {
        return Err(Error::BlankNote);
    }
    let chars = text.graphemes(true).count();
    if chars > NOTE_CHARS_MAX {
        return Err(Error::NoteTooLong { chars, chars_max: NOTE_CHARS_MAX });
    }
    let (safe, redacted) = redact_and_count(text);
    let inert = managed_block::escape_block_tags(&safe);
    // Some programs begin a new line at these characters, and would read the rest of the line as one of its own.
    let inert =
        inert.replace("\r\n", "\n").replace(['\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}'], "\n");
    let mut lines = inert.lines().map(str::trim_end).filter(|line| !line.trim().is_empty());
    // A text that already begins with a list marker gets no second one.
    let first = lines.next().unwrap_or_default();
    let mut item =
        format!("- {}", ["- ", "* "].iter().find_map(|mark| first.strip_prefix(mark)).unwrap_or(first));
    for line in lines {
        item.push_str("\n  ");
        item.push_str(line);
    }
    Ok((item, redacted))
}

/// Returns whether the notes contain exactly these consecutive lines.
fn has_note(text: &[u8], lines: &str) -> bool {
    let notes = String::from_utf8_lossy(&managed_block::remove_blocks(text)).replace("\r\n", "\n");
    notes.match_indices(lines).any(|(start, _)| {
        let is_line_start = start == 0 || notes[..start].ends_with(['\n', '\u{feff}']);
        // Indented lines after the match belong to a longer note, which is a different one.
        let after = &notes[start + lines.len()..];
        is_line_start && (after.is_empty() || after.starts_with('\n')) && !after.starts_with("\n  ")
    })
}
