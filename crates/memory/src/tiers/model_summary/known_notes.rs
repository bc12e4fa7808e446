//! The notes of agent.md in the prompt of a summary: numbered, bounded data, so that the model does not repeat a note and can
//! name the one that a fact replaces.

use std::collections::HashSet;

use facts::formatting::truncate_with_ellipsis;
use journal::comparison_key;
use model::{tokens, untrusted_text};
use secrets::redact_and_count;

use crate::edit::notes::{note_text, split_notes};
use crate::prompt::visible_notes;
use crate::{AgentFileSnapshot, NotesScope};

/// Maximum tokens of the notes in a prompt.
const NOTES_TOKENS_MAX: u64 = 1_500;
/// Maximum length of a note in a prompt in grapheme clusters.
const NOTE_CHARS_MAX: usize = 300;
/// Maximum bytes of a note that a fact can replace.
const REPLACED_BYTES_MAX: usize = 4_000;

/// The notes that conversations of a project see.
#[derive(Debug, Clone, Default)]
pub(in crate::tiers) struct KnownNotes {
    /// The notes in the prompt, as lines.
    lines: Vec<String>,
    /// The same notes as they stand in the file; `None` for one with a secret, which the journal must not store.
    originals: Vec<Option<String>>,
    /// The comparison keys of all notes, also of those that the prompt has no room for.
    keys: HashSet<String>,
}

impl KnownNotes {
    /// Returns the notes in this scope. The prompt has room for the last of them.
    pub(in crate::tiers) fn new(agent_md: &AgentFileSnapshot, scope: &NotesScope) -> Self {
        let notes = split_notes(&visible_notes(agent_md, scope));
        let keys = notes.iter().map(|note| comparison_key(note_text(note))).collect();
        let mut used = 0;
        let to_line = |note: &String| {
            let (safe, secrets) = redact_and_count(note_text(note));
            let line = untrusted_text::neutralize_line(&truncate_with_ellipsis(&safe, NOTE_CHARS_MAX));
            let is_replaceable =
                secrets == 0 && note.len() <= REPLACED_BYTES_MAX && !note.contains('\u{fffd}');
            (line, is_replaceable.then(|| note.clone()))
        };
        let fits = |(line, _): &(String, Option<String>)| {
            used += tokens::estimate_tokens(line);
            used <= NOTES_TOKENS_MAX
        };
        let (mut lines, mut originals): (Vec<_>, Vec<_>) =
            notes.iter().rev().map(to_line).take_while(fits).unzip();
        lines.reverse();
        originals.reverse();
        Self { lines, originals, keys }
    }

    /// Returns the notes in the prompt, in the order of their numbers.
    pub(super) fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Returns the note with this number, from 1, as it stands in the file.
    pub(super) fn note(&self, number: u64) -> Option<String> {
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        self.originals.get(index)?.clone()
    }

    /// Returns whether a note has this text.
    pub(super) fn contains(&self, text: &str) -> bool {
        self.keys.contains(&comparison_key(text))
    }
}
