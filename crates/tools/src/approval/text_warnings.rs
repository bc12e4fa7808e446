//! Text that a person is to judge, made so that it cannot look like something else: characters that reorder or hide text
//! are written out, and those that look like others are pointed at. What the text does is not known here.

use std::sync::LazyLock;

use regex::Regex;
use serde::Serialize;
use unicode_security::MixedScript;
use unicode_security::confusable_detection::skeleton;

/// The most warnings of one text.
const WARNINGS_MAX: usize = 20;

/// Something about a text that a person could overlook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct TextWarning {
    kind: TextWarningKind,
    /// Which text: `command`, `path`, `diff` or `argument`.
    place: &'static str,
    /// The line in it, from 1; 0 for the whole.
    line: usize,
    /// The character in the line, from 1.
    column: usize,
    /// The character's code point, such as `U+202E`.
    #[serde(skip_serializing_if = "Option::is_none")]
    code_point: Option<String>,
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum TextWarningKind {
    /// A control that changes the order in which text is shown.
    Bidi,
    /// A character that is not shown.
    Invisible,
    /// A character that looks like another.
    LookAlike,
    /// A word of several scripts.
    MixedScripts,
    /// Text far behind blanks.
    Blanks,
    /// Not all of it is shown.
    Abridged,
}

/// Blanks or empty lines behind which text is easily overlooked.
static BLANKS_PATTERN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"[^\S\n]{40,}\S|(?:[^\S\n]*\n){10,}[^\S\n]*\S")
        .expect("the pattern is a constant that the tests compile")
});

impl TextWarning {
    /// Returns the warning that a text is too long to be shown as a whole.
    pub fn for_truncation(bytes: usize) -> Self {
        let text = format!("only the beginning and the end of {bytes} bytes are shown");
        Self { kind: TextWarningKind::Abridged, place: "detail", line: 0, column: 0, code_point: None, text }
    }
}

/// Returns the text with every character that hides or reorders others written as `⟨U+202E⟩`.
pub(super) fn escape_hidden_characters(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut before = None;
    for c in text.chars() {
        match hidden_character_kind(c, before) {
            Some(_) => shown.push_str(&format!("⟨{}⟩", code_point(c))),
            None => shown.push(c),
        }
        before = Some(c);
    }
    shown
}

/// Returns what a person could overlook in the text.
pub(super) fn find_warnings(place: &'static str, text: &str) -> Vec<TextWarning> {
    let mut found = Vec::new();
    for (index, line) in text.split('\n').enumerate() {
        // A return at the end of a line is a line end.
        let line = line.strip_suffix('\r').unwrap_or(line);
        if !line.is_ascii() || line.chars().any(char::is_control) {
            check_line(place, index + 1, line, &mut found);
        }
        if found.len() >= WARNINGS_MAX {
            break;
        }
    }
    if place == "command"
        && let Some(blanks) = BLANKS_PATTERN.find(text)
    {
        let before = &text[..blanks.end()];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count();
        let text = "there is more behind a stretch of blanks".to_owned();
        found.insert(
            0,
            TextWarning { kind: TextWarningKind::Blanks, place, line, column, code_point: None, text },
        );
    }
    found.truncate(WARNINGS_MAX);
    found
}

fn check_line(place: &'static str, line: usize, text: &str, found: &mut Vec<TextWarning>) {
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
                found.push(warn(kind, column, c, text));
            }
            word.clear();
            match hidden_character_kind(c, before) {
                Some(TextWarningKind::Bidi) => {
                    let text = "a control that changes the order in which the text is shown".to_owned();
                    found.push(warn(TextWarningKind::Bidi, column, c, text));
                }
                Some(kind) => found.push(warn(kind, column, c, "a character that is not shown".to_owned())),
                None => {
                    if let Some(other) = ascii_lookalike(c).filter(|_| place != "diff") {
                        found.push(warn(
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

/// Returns what is odd about a word: letters of several scripts, or of another one that reads like Latin.
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

/// Returns the ASCII character that a sign or blank looks like.
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

/// Returns how a character hides text; `None` for one that is shown.
fn hidden_character_kind(c: char, before: Option<char>) -> Option<TextWarningKind> {
    // Between pictures they make one picture of several.
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

fn code_point(c: char) -> String {
    format!("U+{:04X}", u32::from(c))
}

#[cfg(test)]
mod tests;
