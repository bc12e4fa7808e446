//! `remember`: adds a note to agent.md at the user's explicit request, outside the managed block. Nothing is
//! remembered without a request.

use std::ops::Range;
use std::path::PathBuf;

use model::untrusted_text;
use secrets::redact_and_count;
use unicode_segmentation::UnicodeSegmentation;

use crate::edit::{self, EDITED_BYTES_MAX, EditRefusal, notes};
use crate::file::project_notes::{NoteOwner, notes_of_owner};
use crate::file::{AgentFile, AgentFileGuard, BlockIntent, FileAction};
use crate::{Error, Result, managed_block};

/// Maximum length of a note in grapheme clusters.
pub const NOTE_CHARS_MAX: usize = 4_000;

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
    /// The old note does not stand exactly once among the notes of the same project, or among the personal ones if the new note
    /// is personal, so the new one was added.
    NotFound,
}

/// Adds a note of this owner to agent.md, outside the block. Creates the file when it is missing. Redacts secrets. A note
/// that conversations of the owner already see is not added again.
///
/// # Errors
/// When the text has no letter and no digit, or is too long, or the file would become too large. The file is then unchanged.
pub fn remember(file: &AgentFile, owner: NoteOwner<'_>, text: &str) -> Result<RememberedNote> {
    file.lock()?.remember(owner, text)
}

/// A note in the form in which it stands in agent.md.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FormattedNote {
    /// The note as a list item; several lines when the text had several.
    pub line: String,
    /// Number of secrets redacted from the text.
    pub redacted_secrets: u64,
}

impl AgentFileGuard<'_> {
    /// Does the same as [`remember`].
    ///
    /// # Errors
    /// See there.
    pub fn remember(&mut self, owner: NoteOwner<'_>, text: &str) -> Result<RememberedNote> {
        write_note(self, owner, &format_note(text)?, None).map(|(note, _)| note)
    }
}

/// Returns the report on a note of this owner.
pub(crate) fn report_note(
    file: &AgentFile,
    owner: NoteOwner<'_>,
    note: &FormattedNote,
    bytes: usize,
) -> RememberedNote {
    RememberedNote {
        path: file.path().to_owned(),
        line: note.line.clone(),
        project: match owner {
            NoteOwner::Personal => None,
            NoteOwner::Project(path) => Some(path.to_owned()),
        },
        was_already_noted: false,
        redacted_secrets: note.redacted_secrets,
        bytes: bytes as u64,
        bytes_max: EDITED_BYTES_MAX as u64,
    }
}

/// Writes a note with the rules of [`remember`]. If the note `replaces` stands exactly once among the notes of this very owner, the
/// new one takes its place. Repeating the call changes nothing.
pub(crate) fn write_note(
    guard: &mut AgentFileGuard<'_>,
    owner: NoteOwner<'_>,
    note: &FormattedNote,
    replaces: Option<&str>,
) -> Result<(RememberedNote, NoteReplacement)> {
    let file = guard.file();
    guard.replace(|current| {
        let old = current.unwrap_or_default();
        let standing = replaces.map(|replaced| notes::find_note(old, owner, replaced)).unwrap_or_default();
        let is_noted = has_note(&notes_of_owner(old, owner), &note.line);
        let replacement = note_replacement(old, owner, note, replaces);
        let written = match standing.as_slice() {
            [range] if is_noted && replaces != Some(note.line.as_str()) => Ok(remove_lines(old, range)),
            _ if is_noted => {
                let report =
                    RememberedNote { was_already_noted: true, ..report_note(file, owner, note, old.len()) };
                return Ok(FileAction::KeepFile((report, replacement)));
            }
            [range] => edit::replace_lines(old, owner, range, &note.line),
            _ => edit::append_notes(old, owner, &note.line).map(|(bytes, _)| bytes),
        };
        let bytes = written.map_err(|refusal| refusal_error(file, refusal))?;
        let report = (report_note(file, owner, note, bytes.len()), replacement);
        Ok(FileAction::ReplaceFile { bytes, block: BlockIntent::KeepBlock, report })
    })
}

/// Returns the effect of a note on the note `replaces` in a text, where the new one may stand already.
pub(crate) fn note_replacement(
    text: &[u8],
    owner: NoteOwner<'_>,
    note: &FormattedNote,
    replaces: Option<&str>,
) -> NoteReplacement {
    let Some(replaces) = replaces else { return NoteReplacement::NotRequested };
    let is_gone = || {
        let visible = notes_of_owner(text, owner);
        !has_note(&visible, replaces) && has_note(&visible, &note.line)
    };
    match notes::find_note(text, owner, replaces).as_slice() {
        [_] => NoteReplacement::Replaced,
        [] if is_gone() => NoteReplacement::Replaced,
        _ => NoteReplacement::NotFound,
    }
}

/// Returns the text without the lines of this range.
fn remove_lines(text: &[u8], range: &Range<usize>) -> Vec<u8> {
    let line_end = memchr::memchr(b'\n', &text[range.end..]);
    let end = line_end.map_or(text.len(), |position| range.end + position + 1);
    [&text[..range.start], &text[end..]].concat()
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

/// Returns the text as a list item without secrets, hidden characters and control characters.
///
/// # Errors
/// When the text has no letter and no digit, or is too long.
pub(crate) fn format_note(text: &str) -> Result<FormattedNote> {
    // Some programs begin a new line at these characters, and would read the rest of the line as one of its own.
    let text =
        text.replace("\r\n", "\n").replace(['\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}'], "\n");
    let visible = untrusted_text::strip_hidden_characters(&text);
    let text = visible.trim();
    if !text.contains(char::is_alphanumeric) {
        return Err(Error::BlankNote);
    }
    let chars = text.graphemes(true).count();
    if chars > NOTE_CHARS_MAX {
        return Err(Error::NoteTooLong { chars, chars_max: NOTE_CHARS_MAX });
    }
    let (safe, redacted) = redact_and_count(text);
    let inert = managed_block::escape_block_tags(&safe);
    let mut lines = inert.lines().map(str::trim_end).filter(|line| !line.trim().is_empty());
    // A text that already begins with a list marker gets no second one.
    let first = lines.next().unwrap_or_default();
    let mut item =
        format!("- {}", ["- ", "* "].iter().find_map(|mark| first.strip_prefix(mark)).unwrap_or(first));
    for line in lines {
        item.push_str("\n  ");
        item.push_str(line);
    }
    Ok(FormattedNote { line: item, redacted_secrets: redacted })
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
