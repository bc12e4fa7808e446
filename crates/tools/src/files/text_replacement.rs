//! Exact text replacement: finds the text to replace, keeps a file's line endings, and renders a change as a unified
//! diff. It reads and writes no file.

use std::fmt::Write;
use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;
use text_diff::DiffHeader;

/// The Unicode byte order mark that some editors write at the beginning of a file.
pub(super) const BOM: &str = "\u{feff}";

/// Unchanged lines that a diff shows before and after a change.
const CONTEXT_LINES: usize = 3;
/// Maximum number of line numbers in the error about a text that occurs several times.
const OCCURRENCES_MAX: usize = 8;

/// One replacement.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TextReplacement {
    /// The text as it is in the file, without line numbers; unique unless replace_all.
    pub old_string: String,
    /// The replacement text.
    pub new_string: String,
    /// Replace every occurrence. Default: false.
    #[serde(default)]
    pub replace_all: bool,
}

/// Applies all `edits` to `text`, one after the other, and returns the new text and the number of replacements.
///
/// Text outside the replacements stays unchanged, line endings included. Edits may use `\n` for every line ending: they
/// also match a file with `\r\n`, and the replacement gets the file's line endings.
///
/// # Errors
/// Returns the message for the model if an edit does not match, or matches several times without `replace_all`.
pub(super) fn apply_replacements(text: &str, edits: &[TextReplacement]) -> Result<(String, usize), String> {
    let mut text = text.to_owned();
    let mut replacements = 0;
    for (index, edit) in edits.iter().enumerate() {
        let prefix = if edits.len() == 1 { String::new() } else { format!("edit {}: ", index + 1) };
        let (next, count) = replace_text(&text, edit).map_err(|reason| format!("{prefix}{reason}"))?;
        text = next;
        replacements += count;
    }
    Ok((text, replacements))
}

/// Returns `content` in the style of `old`, the file's previous text: with its byte order mark, its line endings, and a
/// line break at the end if `old` had one.
pub(super) fn match_style(old: &str, content: &str) -> String {
    let mut text = if uses_crlf(old) { lf_to_crlf(content) } else { content.to_owned() };
    if old.starts_with(BOM) && !text.starts_with(BOM) {
        text.insert_str(0, BOM);
    }
    if old.ends_with('\n') && !text.is_empty() && !text.ends_with('\n') {
        text.push_str(if uses_crlf(old) { "\r\n" } else { "\n" });
    }
    text
}

/// Returns the unified diff of two versions of a file, or an empty text if they are equal. `old` is `None` for a new
/// file. `path` is the path shown in the header.
pub(super) fn unified_diff(path: &Path, old: Option<&str>, new: &str) -> String {
    if old == Some(new) {
        return String::new();
    }
    let path = path.display();
    let from = if old.is_some() { format!("a/{path}") } else { "/dev/null".to_owned() };
    let to = format!("b/{path}");
    let header = DiffHeader { old: &from, new: &to };
    let diff = text_diff::unified_diff(old.unwrap_or_default(), new, CONTEXT_LINES, Some(header));
    if diff.is_empty() { format!("--- {from}\n+++ {to}\n") } else { diff }
}

/// Applies one replacement and returns the new text and the number of replaced occurrences.
fn replace_text(text: &str, edit: &TextReplacement) -> Result<(String, usize), String> {
    if edit.old_string.is_empty() {
        return Err("old_string is empty; write_file makes a new file".to_owned());
    }
    let normalized = NormalizedText::from_original(text);
    let old = crlf_to_lf(&edit.old_string);
    if old == crlf_to_lf(&edit.new_string) {
        return Err("old_string and new_string are the same".to_owned());
    }
    let offsets: Vec<usize> = normalized.text.match_indices(&old).map(|(offset, _)| offset).collect();
    match offsets.len() {
        0 => return Err(no_match_error(&normalized.text, &old)),
        1 => {}
        _ if edit.replace_all => {}
        count => return Err(ambiguous_match_error(&normalized.text, &offsets, count)),
    }
    let new = crlf_to_lf(&edit.new_string);
    let new = if uses_crlf(text) { lf_to_crlf(&new) } else { new };
    let mut changed = String::with_capacity(text.len());
    let mut copied = 0;
    for offset in &offsets {
        changed.push_str(&text[copied..normalized.original_offset(*offset)]);
        changed.push_str(&new);
        copied = normalized.original_offset(offset + old.len());
    }
    changed.push_str(&text[copied..]);
    Ok((changed, offsets.len()))
}

/// A text with `\n` for every line ending, which can map its offsets back to the original text.
struct NormalizedText {
    text: String,
    /// Ascending byte offsets in `text` at which the original has an additional `\r`.
    cr_offsets: Vec<usize>,
}

impl NormalizedText {
    /// Normalizes the line endings of `original`.
    fn from_original(original: &str) -> Self {
        let mut text = String::with_capacity(original.len());
        let mut cr_offsets = Vec::new();
        let mut remaining = original;
        while let Some(index) = remaining.find("\r\n") {
            text.push_str(&remaining[..index]);
            cr_offsets.push(text.len());
            remaining = &remaining[index + 1..];
        }
        text.push_str(remaining);
        Self { text, cr_offsets }
    }

    /// Returns the byte offset in the original text that corresponds to `offset` in the normalized text.
    fn original_offset(&self, offset: usize) -> usize {
        offset + self.cr_offsets.partition_point(|cr_offset| *cr_offset < offset)
    }
}

/// Replaces every `\r\n` by `\n`.
fn crlf_to_lf(text: &str) -> String {
    text.replace("\r\n", "\n")
}

/// Gives every line the ending `\r\n`.
fn lf_to_crlf(text: &str) -> String {
    crlf_to_lf(text).replace('\n', "\r\n")
}

/// Returns whether more than half of the lines end with `\r\n`.
fn uses_crlf(text: &str) -> bool {
    let lines = text.matches('\n').count();
    lines > 0 && text.matches("\r\n").count() * 2 > lines
}

/// Returns the error about a text that occurs `count` times, with the line numbers of the first occurrences. `offsets`
/// are the byte offsets of the occurrences in `text`.
fn ambiguous_match_error(text: &str, offsets: &[usize], count: usize) -> String {
    let first = offsets.iter().take(OCCURRENCES_MAX);
    let lines: Vec<String> = first.map(|offset| line_number(text, *offset).to_string()).collect();
    let more = if count > OCCURRENCES_MAX { ", …" } else { "" };
    format!(
        "old_string occurs {count} times (lines {}{more}); add lines around it until it is unique, or set replace_all",
        lines.join(", ")
    )
}

/// Returns the error about a text that does not occur. If the file has a line that equals the first line of `old` apart
/// from blanks, the error points to that line.
fn no_match_error(text: &str, old: &str) -> String {
    let mut reason = "old_string does not occur in the file; it must match exactly".to_owned();
    let first_line = old.lines().map(str::trim).find(|line| !line.is_empty());
    if let Some(first_line) = first_line
        && let Some((index, line)) = text.lines().enumerate().find(|(_, line)| line.trim() == first_line)
    {
        let is_exact = old.lines().any(|old| old == line);
        let difference = if is_exact { "what follows it differs" } else { "its blanks differ" };
        let number = index + 1;
        let _ =
            write!(reason, ". Its first line is like line {number}, but {difference}; read the file again");
    }
    reason
}

/// Returns the line number, counted from 1, of the byte offset `offset`.
fn line_number(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

#[cfg(test)]
mod tests;
