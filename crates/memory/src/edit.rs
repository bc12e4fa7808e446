//! Changing the notes of agent.md by exact replacement, around the managed block: what matches, what is refused, and
//! how. No file is touched here.

pub(crate) mod remember;
pub(crate) mod tool;

use std::borrow::Cow;
use std::ops::Range;

use memchr::memmem;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::block;
use facts::withhold;

/// The most bytes that what is noted may make of agent.md: all of it is part of every request.
pub const EDITED_BYTES_MAX: usize = 64 * 1024;

/// One replacement.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Edit {
    /// The text as it is in agent.md, unique there.
    pub old_string: String,
    /// What takes its place; empty removes it.
    pub new_string: String,
}

/// What is to be done, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Change {
    /// Replacements, one after the other.
    #[serde(default)]
    #[schemars(length(max = tool::EDITS_MAX))]
    pub edits: Vec<Edit>,
    /// Notes to add at the end.
    #[serde(default)]
    pub append: Option<String>,
}

/// What became of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Applied {
    /// The text with the parts that were not refused.
    pub text: Vec<u8>,
    /// How many parts changed it.
    pub made: usize,
    /// The parts that were refused, one line each that says why.
    pub refused: Vec<String>,
    /// Secrets that were withheld from what was made.
    pub withheld: u64,
}

/// Why a part may not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// It cannot be understood, or does not fit the text.
    #[error("{0}")]
    Unfit(String),
    /// The block is Segue's.
    #[error(
        "it would change, hide or double the block between {} and {}, which only Segue writes",
        block::OPEN,
        block::CLOSE
    )]
    Block,
    /// It and what stands beside it, or what it replaces, hold a secret.
    #[error(
        "it holds what looks like a key, a token or a password; secrets are never kept in agent.md, name the place \
         where the secret is instead"
    )]
    Secret,
    /// The file would be larger than it may be.
    #[error(
        "agent.md would have {bytes} bytes, and {EDITED_BYTES_MAX} is the limit; shorten what is there first"
    )]
    Full {
        /// How large.
        bytes: usize,
    },
}

impl From<String> for Refusal {
    fn from(reason: String) -> Self {
        Self::Unfit(reason)
    }
}

/// Applies `change` to `text`. Every part stands for itself: one that is refused leaves the others.
pub(crate) fn apply(text: &[u8], change: &Change) -> Applied {
    let mut applied = Applied { text: text.to_vec(), made: 0, refused: Vec::new(), withheld: 0 };
    for (index, edit) in change.edits.iter().enumerate() {
        let done = replaced(&applied.text, edit);
        applied.note(&format!("edit {}", index + 1), done);
    }
    if let Some(notes) = &change.append {
        let done = appended(&applied.text, notes);
        applied.note("append", done);
    }
    applied
}

impl Applied {
    fn note(&mut self, part: &str, done: Result<Replacement, Refusal>) {
        let checked = done.and_then(|new| Ok((checked(&self.text, &new)?, new.withheld)));
        match checked {
            Ok((text, withheld)) => {
                self.text = text;
                self.made += 1;
                self.withheld += withheld;
            }
            Err(reason) => self.refused.push(format!("{part} was refused: {reason}")),
        }
    }
}

/// Adds notes at the end; returns the text with them, and how many secrets were withheld from them.
pub(crate) fn add(text: &[u8], notes: &str) -> Result<(Vec<u8>, u64), Refusal> {
    let replacement = appended(text, notes)?;
    Ok((checked(text, &replacement)?, replacement.withheld))
}

/// Bytes that take the place of others.
struct Replacement {
    range: Range<usize>,
    new: Vec<u8>,
    /// Secrets that are no longer in `new`.
    withheld: u64,
}

fn replaced(text: &[u8], edit: &Edit) -> Result<Replacement, Refusal> {
    if edit.old_string.is_empty() {
        return Err("old_string is empty; use append to add notes".to_owned().into());
    }
    if edit.old_string == edit.new_string {
        return Err("old_string and new_string are the same".to_owned().into());
    }
    let eol = block::line_ending(text);
    let managed = block::managed(text);
    let mut is_in_block = false;
    for form in forms(edit) {
        for ends in [eol, if eol == "\n" { "\r\n" } else { "\n" }] {
            let old = with_line_ends(&form.old_string, ends);
            let found: Vec<usize> = memmem::find_iter(text, old.as_bytes()).collect();
            let is_outside =
                |at: &usize| !managed.iter().any(|part| at + old.len() > part.start && *at < part.end);
            let outside: Vec<usize> = found.iter().copied().filter(is_outside).collect();
            match outside.as_slice() {
                [] => is_in_block |= !found.is_empty(),
                [at] => {
                    let (new, withheld) = withhold(&form.new_string);
                    if withheld > 0 && secrets_in(old.as_bytes()) > 0 {
                        // A person may have written it there; it is neither repeated nor taken away.
                        return Err(Refusal::Secret);
                    }
                    let new = with_line_ends(&new, eol).into_owned().into_bytes();
                    return Ok(Replacement { range: *at..at + old.len(), new, withheld });
                }
                several => {
                    let count = several.len();
                    return Err(Refusal::Unfit(format!(
                        "old_string occurs {count} times; add text around it until it is unique"
                    )));
                }
            }
        }
    }
    if is_in_block {
        return Err(Refusal::Unfit(format!(
            "the text is part of the block between {} and {}, which only Segue writes",
            block::OPEN,
            block::CLOSE
        )));
    }
    Err("old_string does not occur in agent.md; it must match exactly, blanks included (comments in the file are \
         not shown to you)"
        .to_owned()
        .into())
}

/// The edit as it is, and as it was meant if it was copied from the prompt, where `<` may be shown as `&lt;`.
fn forms(edit: &Edit) -> Vec<Cow<'_, Edit>> {
    let mut forms = vec![Cow::Borrowed(edit)];
    if edit.old_string.contains("&lt;") {
        let shown = |text: &str| text.replace("&lt;", "<");
        let (old_string, new_string) = (shown(&edit.old_string), shown(&edit.new_string));
        forms.push(Cow::Owned(Edit { old_string, new_string }));
    }
    forms
}

fn appended(text: &[u8], notes: &str) -> Result<Replacement, Refusal> {
    let (notes, withheld) = withhold(notes.trim_end());
    if notes.trim().is_empty() {
        return Err("append is blank".to_owned().into());
    }
    let eol = block::line_ending(text);
    let end = block::notes_end(text);
    // Blank lines before the block stay between it and the notes.
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
    let new = format!("{before}{}{eol}{after}", with_line_ends(&notes, eol));
    Ok(Replacement { range: at..at, new: new.into_bytes(), withheld })
}

/// Returns the text after the replacement, unless it may not be made.
fn checked(text: &[u8], replacement: &Replacement) -> Result<Vec<u8>, Refusal> {
    let Replacement { range, new, .. } = replacement;
    let mut result = Vec::with_capacity(text.len() + new.len());
    result.extend_from_slice(&text[..range.start]);
    result.extend_from_slice(new);
    result.extend_from_slice(&text[range.end..]);
    if !block::is_same(text, &result) {
        return Err(Refusal::Block);
    }
    // What is withheld from a text alone may still become a secret beside what stands there.
    let new_range = range.start..range.start + new.len();
    if secrets_in(new) > 0 || secrets_in(lines_of(&result, &new_range)) > secrets_in(lines_of(text, range)) {
        return Err(Refusal::Secret);
    }
    if result.len() > EDITED_BYTES_MAX && result.len() > text.len() {
        return Err(Refusal::Full { bytes: result.len() });
    }
    Ok(result)
}

/// Returns how many secrets are in the text.
pub(crate) fn secrets_in(text: &[u8]) -> u64 {
    withhold(&String::from_utf8_lossy(text)).1
}

/// Returns the whole lines that `range` touches.
fn lines_of<'a>(text: &'a [u8], range: &Range<usize>) -> &'a [u8] {
    let start = memchr::memrchr(b'\n', &text[..range.start]).map_or(0, |newline| newline + 1);
    let end = memchr::memchr(b'\n', &text[range.end..]).map_or(text.len(), |newline| range.end + newline);
    &text[start..end]
}

fn with_line_ends<'a>(text: &'a str, eol: &str) -> Cow<'a, str> {
    if !text.contains('\n') {
        return Cow::Borrowed(text);
    }
    let plain = text.replace("\r\n", "\n");
    Cow::Owned(if eol == "\n" { plain } else { plain.replace('\n', eol) })
}

#[cfg(test)]
mod tests;
