//! Edits the notes of agent.md by exact string replacement, outside the managed block. Works on text only and
//! touches no file.

pub(crate) mod fact_review;
pub(crate) mod notes;
pub(crate) mod remember;
pub(crate) mod tool;

use std::borrow::Cow;
use std::ops::Range;

use memchr::memmem;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::file::project_notes::{self, NoteOwner, NotesScope, ReplacedPart};
use crate::managed_block;
use secrets::redact_and_count;

/// Maximum size in bytes of an agent.md after an edit, 64 KiB. The file is part of every request, so it must stay
/// small.
pub const EDITED_BYTES_MAX: usize = 64 * 1024;

/// One replacement.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoteEdit {
    /// The text as it is in agent.md, unique there.
    pub old_string: String,
    /// What takes its place; empty removes it.
    pub new_string: String,
}

/// What is to be done, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NotesChange {
    /// Replacements, one after the other.
    #[serde(default)]
    #[schemars(length(max = tool::EDITS_MAX))]
    pub edits: Vec<NoteEdit>,
    /// Notes to add at the end.
    #[serde(default)]
    pub append: Option<String>,
    /// Where to add them: `project` (the default) for this project only, `personal` for conversations in all projects.
    #[serde(default)]
    pub scope: AppendScope,
}

/// The conversations that see added notes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AppendScope {
    /// Those of the project, unless memory covers all projects.
    #[default]
    Project,
    /// Those of all projects.
    Personal,
}

/// The result of applying a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AppliedChange {
    /// The text after all parts that were not refused.
    pub text: Vec<u8>,
    /// Number of parts that were applied.
    pub applied_count: usize,
    /// One line with the reason for each refused part.
    pub refusals: Vec<String>,
    /// Number of secrets redacted from the new text.
    pub redacted_secrets: u64,
}

/// The reason why a part of a change is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EditRefusal {
    /// The part is invalid, or does not match the text.
    #[error("{0}")]
    Invalid(String),
    /// The part would change the managed block.
    #[error(
        "it would change, hide or double the block between {} and {}, which only Segue writes",
        managed_block::OPEN_TAG,
        managed_block::CLOSE_TAG
    )]
    ManagedBlock,
    /// The part would change the notes of another project, or move notes to another project.
    #[error(
        "it would change which project notes belong to, or the notes of another project; use headings of level 3 and \
         below, and leave the lines that begin with `## Project:`"
    )]
    OtherProject,
    /// The new text forms a secret, alone or with adjacent text, or the part would replace a secret.
    #[error(
        "it holds what looks like a key, a token or a password; secrets are never kept in agent.md, name the place \
         where the secret is instead"
    )]
    Secret,
    /// The file would exceed [`EDITED_BYTES_MAX`].
    #[error(
        "agent.md would have {bytes} bytes, and {EDITED_BYTES_MAX} is the limit; shorten what is there first"
    )]
    TooLarge {
        /// The size in bytes after the edit.
        bytes: usize,
    },
}

impl From<String> for EditRefusal {
    fn from(reason: String) -> Self {
        Self::Invalid(reason)
    }
}

/// Applies `change` to the notes of `text` in this scope. Parts are independent: a refused part does not prevent the
/// others.
pub(crate) fn apply_change(text: &[u8], scope: &NotesScope, change: &NotesChange) -> AppliedChange {
    let mut applied =
        AppliedChange { text: text.to_vec(), applied_count: 0, refusals: Vec::new(), redacted_secrets: 0 };
    for (index, edit) in change.edits.iter().enumerate() {
        let result = find_replacement(&applied.text, scope, edit).and_then(|replacement| {
            Ok((check_and_apply(&applied.text, scope, &replacement)?, replacement.redacted_secrets))
        });
        applied.record_part(&format!("edit {}", index + 1), result);
    }
    if let Some(notes) = &change.append {
        let owner = match change.scope {
            AppendScope::Project => scope.default_owner(),
            AppendScope::Personal => NoteOwner::Personal,
        };
        applied.record_part("append", append_notes(&applied.text, owner, notes));
    }
    applied
}

impl AppliedChange {
    /// Records the text after a part with the number of secrets redacted from it, or the reason for refusing it. `part`
    /// is its name for the model.
    fn record_part(&mut self, part: &str, result: Result<(Vec<u8>, u64), EditRefusal>) {
        match result {
            Ok((text, redacted)) => {
                self.text = text;
                self.applied_count += 1;
                self.redacted_secrets += redacted;
            }
            Err(reason) => self.refusals.push(format!("{part} was refused: {reason}")),
        }
    }
}

/// Appends notes to those of their owner. Returns the new text and the number of secrets redacted from the notes.
///
/// # Errors
/// When the notes are blank, and in the cases of [`check_and_apply`].
pub(crate) fn append_notes(
    text: &[u8],
    owner: NoteOwner<'_>,
    notes: &str,
) -> Result<(Vec<u8>, u64), EditRefusal> {
    let text = project_notes::with_section_of(text, owner, managed_block::line_ending(text));
    let replacement = append_replacement(&text, owner, notes)?;
    Ok((check_and_apply(&text, &scope_of(owner), &replacement)?, replacement.redacted_secrets))
}

/// Replaces whole lines of the notes that conversations of the owner see. Secrets must have been redacted from `lines`.
///
/// # Errors
/// In the cases of [`check_and_apply`].
pub(crate) fn replace_lines(
    text: &[u8],
    owner: NoteOwner<'_>,
    range: &Range<usize>,
    lines: &str,
) -> Result<Vec<u8>, EditRefusal> {
    let new = with_line_ending(lines, managed_block::line_ending(text)).into_owned().into_bytes();
    let replacement = ByteReplacement { range: range.clone(), new, redacted_secrets: 0 };
    check_and_apply(text, &scope_of(owner), &replacement)
}

/// Returns the notes that a note of this owner may change. A personal note must not open the section of a project.
fn scope_of(owner: NoteOwner<'_>) -> NotesScope {
    match owner {
        NoteOwner::Personal => NotesScope::Project(String::new()),
        NoteOwner::Project(path) => NotesScope::Project(path.to_owned()),
    }
}

/// A range of bytes and the bytes that replace it.
struct ByteReplacement {
    range: Range<usize>,
    new: Vec<u8>,
    /// Number of secrets redacted from `new`.
    redacted_secrets: u64,
}

/// Finds the unique match of `edit` in the visible notes outside the block, in both line endings and in both forms of `<`.
///
/// # Errors
/// When the text does not occur outside the block or occurs several times, when the edit has no effect, and when it
/// would replace a secret by another one.
fn find_replacement(
    text: &[u8],
    scope: &NotesScope,
    edit: &NoteEdit,
) -> Result<ByteReplacement, EditRefusal> {
    if edit.old_string.is_empty() {
        return Err("old_string is empty; use append to add notes".to_owned().into());
    }
    if edit.old_string == edit.new_string {
        return Err("old_string and new_string are the same".to_owned().into());
    }
    let eol = managed_block::line_ending(text);
    let managed = managed_block::managed_ranges(text);
    let hidden = project_notes::hidden_ranges(text, scope);
    let mut is_in_block = false;
    for form in edit_variants(edit) {
        for ends in [eol, if eol == "\n" { "\r\n" } else { "\n" }] {
            let old = with_line_ending(&form.old_string, ends);
            let matches: Vec<usize> = memmem::find_iter(text, old.as_bytes()).collect();
            let overlaps = |ranges: &[Range<usize>], start: usize| {
                ranges.iter().any(|part| start + old.len() > part.start && start < part.end)
            };
            let visible = matches.iter().copied().filter(|start| !overlaps(&hidden, *start));
            let (inside, outside): (Vec<usize>, Vec<usize>) =
                visible.partition(|start| overlaps(&managed, *start));
            match outside.as_slice() {
                [] => is_in_block |= !inside.is_empty(),
                [start] => {
                    let (new, redacted_secrets) = redact_and_count(&form.new_string);
                    if redacted_secrets > 0 && count_secrets(old.as_bytes()) > 0 {
                        // The user may have put the secret there; it is neither repeated nor removed.
                        return Err(EditRefusal::Secret);
                    }
                    let new = with_line_ending(&new, eol).into_owned().into_bytes();
                    return Ok(ByteReplacement { range: *start..start + old.len(), new, redacted_secrets });
                }
                several => {
                    let count = several.len();
                    return Err(EditRefusal::Invalid(format!(
                        "old_string occurs {count} times; add text around it until it is unique"
                    )));
                }
            }
        }
    }
    if is_in_block {
        return Err(EditRefusal::Invalid(format!(
            "the text is part of the block between {} and {}, which only Segue writes",
            managed_block::OPEN_TAG,
            managed_block::CLOSE_TAG
        )));
    }
    Err("old_string does not occur in agent.md; it must match exactly, blanks included (comments in the file are \
         not shown to you)"
        .to_owned()
        .into())
}

/// Returns the edit as given and, if it was copied from the prompt, where `<` appears as `&lt;`, also with `<`
/// restored.
fn edit_variants(edit: &NoteEdit) -> Vec<Cow<'_, NoteEdit>> {
    let mut forms = vec![Cow::Borrowed(edit)];
    if edit.old_string.contains("&lt;") {
        let shown = |text: &str| text.replace("&lt;", "<");
        let (old_string, new_string) = (shown(&edit.old_string), shown(&edit.new_string));
        forms.push(Cow::Owned(NoteEdit { old_string, new_string }));
    }
    forms
}

/// Returns the replacement that appends `notes` to those of their owner, before the block when it follows them.
fn append_replacement(
    text: &[u8],
    owner: NoteOwner<'_>,
    notes: &str,
) -> Result<ByteReplacement, EditRefusal> {
    let (notes, redacted_secrets) = redact_and_count(notes.trim_end());
    if notes.trim().is_empty() {
        return Err("append is blank".to_owned().into());
    }
    let eol = managed_block::line_ending(text);
    let end = project_notes::append_offset(text, owner);
    // Blank lines before the block stay between the block and the notes.
    let body = text[..end].trim_ascii_end().len();
    let at = match end < text.len() {
        true => {
            body + text[body..end].iter().position(|byte| *byte == b'\n').map_or(0, |newline| newline + 1)
        }
        false => end,
    };
    let before =
        if at == 0 || text[..at].ends_with(b"\n") || text[..at] == *"\u{feff}".as_bytes() { "" } else { eol };
    let after = if at == end && end < text.len() { eol } else { "" };
    let new = format!("{before}{}{eol}{after}", with_line_ending(&notes, eol));
    Ok(ByteReplacement { range: at..at, new: new.into_bytes(), redacted_secrets })
}

/// Returns the text after the replacement.
///
/// # Errors
/// When the replacement would change the block or the notes of a project outside of the scope, form a secret, or exceed
/// the size limit.
fn check_and_apply(
    text: &[u8],
    scope: &NotesScope,
    replacement: &ByteReplacement,
) -> Result<Vec<u8>, EditRefusal> {
    let ByteReplacement { range, new, .. } = replacement;
    let mut result = Vec::with_capacity(text.len() + new.len());
    result.extend_from_slice(&text[..range.start]);
    result.extend_from_slice(new);
    result.extend_from_slice(&text[range.end..]);
    if !managed_block::has_same_blocks(text, &result) {
        return Err(EditRefusal::ManagedBlock);
    }
    let new_range = range.start..range.start + new.len();
    let (old, new_part) = (ReplacedPart { text, range }, ReplacedPart { text: &result, range: &new_range });
    if !project_notes::keeps_owners(&old, &new_part, scope) {
        return Err(EditRefusal::OtherProject);
    }
    // A text that contains no secret alone may form one together with adjacent text.
    if count_secrets(new) > 0
        || count_secrets(touched_lines(&result, &new_range)) > count_secrets(touched_lines(text, range))
    {
        return Err(EditRefusal::Secret);
    }
    if result.len() > EDITED_BYTES_MAX && result.len() > text.len() {
        return Err(EditRefusal::TooLarge { bytes: result.len() });
    }
    Ok(result)
}

/// Returns the number of secrets in the text.
pub(crate) fn count_secrets(text: &[u8]) -> u64 {
    redact_and_count(&String::from_utf8_lossy(text)).1
}

/// Returns the whole lines that overlap `range`.
fn touched_lines<'a>(text: &'a [u8], range: &Range<usize>) -> &'a [u8] {
    let start = memchr::memrchr(b'\n', &text[..range.start]).map_or(0, |newline| newline + 1);
    let end = memchr::memchr(b'\n', &text[range.end..]).map_or(text.len(), |newline| range.end + newline);
    &text[start..end]
}

/// Returns the text with all line breaks as `eol`.
fn with_line_ending<'a>(text: &'a str, eol: &str) -> Cow<'a, str> {
    if !text.contains('\n') {
        return Cow::Borrowed(text);
    }
    let plain = text.replace("\r\n", "\n");
    Cow::Owned(if eol == "\n" { plain } else { plain.replace('\n', eol) })
}

#[cfg(test)]
mod tests;
