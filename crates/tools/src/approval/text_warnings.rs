//! Protection against misleading text in approval requests.
//!
//! Characters that reorder or hide text are escaped, and characters and words that look like others get a warning, so
//! that a command or diff cannot look different from what it is. The meaning of the text is not analyzed.

use std::sync::LazyLock;

use regex::Regex;
use serde::Serialize;
use unicode_security::MixedScript;
use unicode_security::confusable_detection::skeleton;

use crate::truncation::truncate_line;

/// Maximum number of warnings about one text.
const WARNINGS_MAX: usize = 20;
/// Maximum number of characters of the model's reason that are shown.
const REASON_CHARS_MAX: usize = 300;

/// A warning about a detail of a text that a reviewer could overlook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct TextWarning {
    kind: TextWarningKind,
    /// The checked text: `command`, `path`, `diff` or `argument`; `detail` for a truncation.
    place: &'static str,
    /// Line number, counted from 1; 0 for a warning about the whole text.
    line: usize,
    /// Position of the character in the line, counted from 1; 0 for a warning about the whole text.
    column: usize,
    /// The character's code point, such as `U+202E`.
    #[serde(skip_serializing_if = "Option::is_none")]
    code_point: Option<String>,
    /// The warning as a sentence for the reviewer.
    text: String,
}

/// The kind of a warning. The names are part of the wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum TextWarningKind {
    /// A bidirectional control character, which changes the order in which text is displayed.
    Bidi,
    /// A character without a visible form.
    Invisible,
    /// A character or word that looks like another in ASCII.
    LookAlike,
    /// A word with letters of several scripts.
    MixedScripts,
    /// Text after a long stretch of blanks or empty lines.
    Blanks,
    /// The text is truncated.
    Abridged,
    /// The command would run outside the sandbox.
    OutsideSandbox,
}

/// Matches text after at least 40 blanks or 10 empty lines, where it is easily overlooked.
static BLANKS_PATTERN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"[^\S\n]{40,}\S|(?:[^\S\n]*\n){10,}[^\S\n]*\S")
        .expect("the pattern is a constant that the tests compile")
});

impl TextWarning {
    /// Returns the warning that a text of `bytes` bytes is too long to be shown as a whole.
    pub fn for_truncation(bytes: usize) -> Self {
        let text = format!("only the beginning and the end of {bytes} bytes are shown");
        Self { kind: TextWarningKind::Abridged, place: "detail", line: 0, column: 0, code_point: None, text }
    }

    /// Returns the warning that a command would run outside the sandbox, for the reason that the model states.
    pub fn for_outside_sandbox(reason: &str) -> Self {
        let reason = truncate_line(&escape_hidden_characters(reason.trim()), REASON_CHARS_MAX);
        let text = format!("runs outside the sandbox, with all your rights; the model's reason: {reason}");
        let kind = TextWarningKind::OutsideSandbox;
        Self { kind, place: "command", line: 0, column: 0, code_point: None, text }
    }
}

/// Returns the text with every invisible or reordering character replaced by its code point, such as `⟨U+202E⟩`.
pub(super) fn escape_hidden_characters(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut before = None;
    for c in text.chars() {
        match hidden_character_kind(c, before) {
            Some(_) => escaped.push_str(&format!("⟨{}⟩", code_point(c))),
            None => escaped.push(c),
        }
        before = Some(c);
    }
    escaped
}

/// Returns warnings about a text, at most [`WARNINGS_MAX`]. `place` names the text: `command`, `path`, `diff` or
/// `argument`. Lookalikes are not reported in a diff, because code and prose in other scripts are common there.
pub(super) fn find_warnings(place: &'static str, text: &str) -> Vec<TextWarning> {
    let mut warnings = Vec::new();
    for (index, line) in text.split('\n').enumerate() {
        // A carriage return at the end of a line belongs to the line ending.
        let line = line.strip_suffix('\r').unwrap_or(line);
        if !line.is_ascii() || line.chars().any(char::is_control) {
            check_line(place, index + 1, line, &mut warnings);
        }
        if warnings.len() >= WARNINGS_MAX {
            break;
        }
    }
    if place == "command"
        && let Some(blanks) = BLANKS_PATTERN.find(text)
    {
        let before = &text[..blanks.end()];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count();
        let text = "the command continues after a long stretch of blanks".to_owned();
        warnings.insert(
            0,
            TextWarning { kind: TextWarningKind::Blanks, place, line, column, code_point: None, text },
        );
    }
    warnings.truncate(WARNINGS_MAX);
    warnings
}

/// Adds the warnings about one line: about each of its words, and about each character between words.
fn check_line(place: &'static str, line: usize, text: &str, warnings: &mut Vec<TextWarning>) {
    let warn = |kind, column, c: char, text: String| {
        let code_point = code_point(c);
        let text = format!("{code_point} at {line}:{column} of the {place}: {text}");
        TextWarning { kind, place, line, column, code_point: Some(code_point), text }
    };
    let mut word: Vec<(usize, char)> = Vec::new();
    let mut before = None;
    for (index, c) in text.chars().chain(['\n']).enumerate() {
        let column = index + 1;
        if c.is_alphanumeric() || c == '_' {
            word.push((column, c));
        } else {
            if let Some((kind, (column, c), text)) = check_word(place, &word) {
                warnings.push(warn(kind, column, c, text));
            }
            word.clear();
            match hidden_character_kind(c, before) {
                Some(TextWarningKind::Bidi) => {
                    let text = "a control that changes the order in which the text is shown".to_owned();
                    warnings.push(warn(TextWarningKind::Bidi, column, c, text));
                }
                Some(kind) => {
                    warnings.push(warn(kind, column, c, "a character that is not shown".to_owned()))
                }
                None => {
                    if let Some(other) = ascii_lookalike(c).filter(|_| place != "diff") {
                        warnings.push(warn(
                            TextWarningKind::LookAlike,
                            column,
                            c,
                            format!("{c} looks like {other:?}"),
                        ));
                    }
                }
            }
        }
        before = Some(c);
    }
}

/// Returns a warning about a word with letters of several scripts, or of another script that looks like Latin letters.
/// The middle value is the first non-ASCII character with its column.
fn check_word(place: &str, word: &[(usize, char)]) -> Option<(TextWarningKind, (usize, char), String)> {
    let foreign = *word.iter().find(|(_, c)| !c.is_ascii())?;
    let text: String = word.iter().map(|(_, c)| *c).collect();
    if !text.as_str().is_single_script() {
        return Some((TextWarningKind::MixedScripts, foreign, format!("the word {text} mixes scripts")));
    }
    let like: String = skeleton(&text).collect();
    if place != "diff" && like.is_ascii() && like.chars().all(char::is_alphanumeric) {
        return Some((TextWarningKind::LookAlike, foreign, format!("the word {text} looks like {like}")));
    }
    None
}

/// Returns the ASCII character that a non-ASCII punctuation character or blank looks like.
fn ascii_lookalike(c: char) -> Option<String> {
    if c.is_ascii() {
        return None;
    }
    if c.is_whitespace() {
        return Some(" ".to_owned());
    }
    let like: String = skeleton(c.encode_utf8(&mut [0; 4])).collect();
    (like.len() == 1 && like.is_ascii()).then_some(like)
}

/// Returns the kind of a character that is invisible or reorders text, or `None` for a visible one. `before` is the
/// character before it.
fn hidden_character_kind(c: char, before: Option<char>) -> Option<TextWarningKind> {
    // After an emoji, a joiner or a variation selector is part of an emoji sequence.
    let joins_pictures = before.is_some_and(|before| !before.is_ascii() && !before.is_alphanumeric());
    match c {
        '\n' | '\t' => None,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            Some(TextWarningKind::Bidi)
        }
        '\u{200d}' | '\u{fe0f}' if joins_pictures => None,
        '\u{ad}'
        | '\u{34f}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200d}'
        | '\u{2028}'
        | '\u{2029}'
        | '\u{2060}'..='\u{2065}'
        | '\u{206a}'..='\u{206f}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}' => Some(TextWarningKind::Invisible),
        c if c.is_control() => Some(TextWarningKind::Invisible),
        _ => None,
    }
}

/// Returns the code point in the notation `U+202E`.
fn code_point(c: char) -> String {
    format!("U+{:04X}", u32::from(c))
}

#[cfg(test)]
mod tests;
