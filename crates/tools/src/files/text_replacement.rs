//! Changing a text by exact replacement: what matches, how lines end, and the diff that shows it. It reads and writes
//! no file.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use similar::TextDiff;

/// The mark some editors put at the beginning of a file.
pub(super) const BOM: &str = "\u{feff}";

/// Unchanged lines shown around a change.
const CONTEXT_LINES: usize = 3;
/// How long the shortest diff is looked for; then any will do.
const DIFF_TIME_MAX: Duration = Duration::from_millis(200);
/// How many places are named when a text occurs several times.
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

/// Returns `text` after all `edits`, one after the other, and how many places changed. Nothing outside them changes,
/// line ends included: the edits are written with `\n`, whatever the file uses.
///
/// # Errors
/// What the model is told, when an edit does not match exactly once.
pub(super) fn apply_replacements(text: &str, edits: &[TextReplacement]) -> Result<(String, usize), String> {
    let mut text = text.to_owned();
    let mut places = 0;
    for (index, edit) in edits.iter().enumerate() {
        let which = if edits.len() == 1 { String::new() } else { format!("edit {}: ", index + 1) };
        let (next, count) = replace_text(&text, edit).map_err(|reason| format!("{which}{reason}"))?;
        text = next;
        places += count;
    }
    Ok((text, places))
}

/// Returns `content` as a whole new text of a file that held `old`: with its mark, its line ends and its last one.
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

/// Returns the unified diff of two texts of one file; empty when they are equal. A file that is new has no old text.
pub(super) fn unified_diff(path: &Path, old: Option<&str>, new: &str) -> String {
    if old == Some(new) {
        return String::new();
    }
    let path = path.display();
    let from = if old.is_some() { format!("a/{path}") } else { "/dev/null".to_owned() };
    let texts = TextDiff::configure().timeout(DIFF_TIME_MAX).diff_lines(old.unwrap_or_default(), new);
    let diff =
        texts.unified_diff().context_radius(CONTEXT_LINES).header(&from, &format!("b/{path}")).to_string();
    if diff.is_empty() { format!("--- {from}\n+++ b/{path}\n") } else { diff }
}

fn replace_text(text: &str, edit: &TextReplacement) -> Result<(String, usize), String> {
    if edit.old_string.is_empty() {
        return Err("old_string is empty; write_file makes a new file".to_owned());
    }
    let plain = NormalizedText::from_original(text);
    let old = crlf_to_lf(&edit.old_string);
    if old == crlf_to_lf(&edit.new_string) {
        return Err("old_string and new_string are the same".to_owned());
    }
    let found: Vec<usize> = plain.text.match_indices(&old).map(|(at, _)| at).collect();
    match found.len() {
        0 => return Err(no_match_error(&plain.text, &old)),
        1 => {}
        _ if edit.replace_all => {}
        count => return Err(ambiguous_match_error(&plain.text, &found, count)),
    }
    let new = crlf_to_lf(&edit.new_string);
    let new = if uses_crlf(text) { lf_to_crlf(&new) } else { new };
    let mut changed = String::with_capacity(text.len());
    let mut done = 0;
    for at in &found {
        changed.push_str(&text[done..plain.original_offset(*at)]);
        changed.push_str(&new);
        done = plain.original_offset(at + old.len());
    }
    changed.push_str(&text[done..]);
    Ok((changed, found.len()))
}

/// A text with `\n` for every line end, and the way back to the original.
struct NormalizedText {
    text: String,
    /// Where in `text` there was a `\r` before.
    cr_offsets: Vec<usize>,
}

impl NormalizedText {
    fn from_original(original: &str) -> Self {
        let mut text = String::with_capacity(original.len());
        let mut cr_offsets = Vec::new();
        let mut rest = original;
        while let Some(at) = rest.find("\r\n") {
            text.push_str(&rest[..at]);
            cr_offsets.push(text.len());
            rest = &rest[at + 1..];
        }
        text.push_str(rest);
        Self { text, cr_offsets }
    }

    fn original_offset(&self, at: usize) -> usize {
        at + self.cr_offsets.partition_point(|dropped| *dropped < at)
    }
}

fn crlf_to_lf(text: &str) -> String {
    text.replace("\r\n", "\n")
}

fn lf_to_crlf(text: &str) -> String {
    crlf_to_lf(text).replace('\n', "\r\n")
}

fn uses_crlf(text: &str) -> bool {
    let lines = text.matches('\n').count();
    lines > 0 && text.matches("\r\n").count() * 2 > lines
}

fn ambiguous_match_error(text: &str, found: &[usize], count: usize) -> String {
    let lines: Vec<String> =
        found.iter().take(OCCURRENCES_MAX).map(|at| line_number(text, *at).to_string()).collect();
    let more = if count > OCCURRENCES_MAX { ", …" } else { "" };
    format!(
        "old_string occurs {count} times (lines {}{more}); add lines around it until it is unique, or set replace_all",
        lines.join(", ")
    )
}

/// Says what may have been meant: the same words with other blanks.
fn no_match_error(text: &str, old: &str) -> String {
    let mut reason = "old_string does not occur in the file; it must match exactly".to_owned();
    let wanted = old.lines().map(str::trim).find(|line| !line.is_empty());
    if let Some(wanted) = wanted
        && let Some((index, line)) = text.lines().enumerate().find(|(_, line)| line.trim() == wanted)
    {
        let known = old.lines().any(|old| old == line);
        let what = if known { "what follows it differs" } else { "its blanks differ" };
        let _ =
            write!(reason, ". Its first line is like line {}, but {what}; read the file again", index + 1);
    }
    reason
}

fn line_number(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

#[cfg(test)]
mod tests;
