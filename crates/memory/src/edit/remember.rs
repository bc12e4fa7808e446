//! What a person asks the assistant to remember: a line of their own in the notes of agent.md, beside the block and whatever
//! else is there. Nothing is remembered that nobody asked for.

use std::path::PathBuf;

use facts::redact_and_count;
use unicode_segmentation::UnicodeSegmentation;

use crate::edit::{self, EDITED_BYTES_MAX, EditRefusal};
use crate::file::{AgentFile, BlockIntent, FileAction};
use crate::{Error, Result, managed_block};

const NOTE_CHARS_MAX: usize = 4_000;

/// What was remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RememberedNote {
    /// The file.
    pub path: PathBuf,
    /// The line in it; several where the text had several.
    pub line: String,
    /// Whether it was there before: nothing is remembered twice.
    pub was_already_noted: bool,
    /// Secrets that were withheld from it.
    pub redacted_secrets: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Bytes it may have.
    pub bytes_max: u64,
}

/// Adds a line to the notes of agent.md, outside the block, creating the file when it is missing. Secrets are withheld; a
/// line that is there already is not added again.
///
/// # Errors
/// When the text is blank or too long, or there is no room for it; the file is then as it was.
pub fn remember(file: &AgentFile, text: &str) -> Result<RememberedNote> {
    let (line, withheld) = format_note(text)?;
    let bytes_max = EDITED_BYTES_MAX as u64;
    let remembered = |bytes: usize, was_known| RememberedNote {
        path: file.path().to_owned(),
        line: line.clone(),
        was_already_noted: was_known,
        redacted_secrets: withheld,
        bytes: bytes as u64,
        bytes_max,
    };
    let mut holding = file.lock()?;
    file.replace_with(&mut holding, |found| {
        let old = found.unwrap_or_default();
        if has_note(old, &line) {
            return Ok(FileAction::KeepFile(remembered(old.len(), true)));
        }
        let path = || file.path().to_owned();
        match edit::append_notes(old, &line) {
            Ok((bytes, _)) => {
                let report = remembered(bytes.len(), false);
                Ok(FileAction::ReplaceFile { bytes, block: BlockIntent::KeepBlock, report })
            }
            Err(EditRefusal::TooLarge { bytes }) => {
                Err(Error::NoteDoesNotFit { path: path(), bytes: bytes as u64, bytes_max })
            }
            Err(refusal @ (EditRefusal::Invalid(_) | EditRefusal::ManagedBlock | EditRefusal::Secret)) => {
                Err(Error::NoteRefused { path: path(), reason: refusal.to_string() })
            }
        }
    })
}

/// Returns the text as an item of a list, and how many secrets were withheld from it.
fn format_note(text: &str) -> Result<(String, u64)> {
    let text = text.trim();
    if text.is_empty() {
        return Err(Error::BlankNote);
    }
    let chars = text.graphemes(true).count();
    if chars > NOTE_CHARS_MAX {
        return Err(Error::NoteTooLong { chars, chars_max: NOTE_CHARS_MAX });
    }
    let (safe, withheld) = redact_and_count(text);
    let inert = managed_block::escape_block_tags(&safe);
    let mut lines = inert.lines().map(str::trim_end).filter(|line| !line.trim().is_empty());
    // A note that is written as an item is one item all the same.
    let first = lines.next().unwrap_or_default();
    let mut item =
        format!("- {}", ["- ", "* "].iter().find_map(|mark| first.strip_prefix(mark)).unwrap_or(first));
    for line in lines {
        item.push_str("\n  ");
        item.push_str(line);
    }
    Ok((item, withheld))
}

/// Returns whether the notes have these lines, one after the other.
fn has_note(text: &[u8], lines: &str) -> bool {
    let notes = String::from_utf8_lossy(&managed_block::remove_blocks(text)).replace("\r\n", "\n");
    let next = |at: usize| notes[at..].chars().next();
    let mut places = notes.match_indices(lines);
    places.any(|(at, _)| {
        let is_begin = at == 0 || notes[..at].ends_with(['\n', '\u{feff}']);
        // Indented lines behind it belong to another, longer note.
        let rest = &notes[at + lines.len()..];
        is_begin && matches!(next(at + lines.len()), None | Some('\n')) && !rest.starts_with("\n  ")
    })
}
