//! Sanitizing of text from models, transcripts and files, so that it cannot control the terminal or hide a part of
//! itself. This file does not shorten or wrap text.

use std::borrow::Cow;
use std::path::Path;

/// The character that starts an escape sequence.
const ESCAPE: char = '\u{1b}';

/// Returns `text` without control characters, escape sequences, and characters that reorder or hide text. Newlines
/// stay, and a tab becomes four spaces. Borrows `text` if nothing has to be removed.
pub fn sanitize(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut remaining = text;
    while let Some(c) = remaining.chars().next() {
        remaining = &remaining[c.len_utf8()..];
        match c {
            ESCAPE => remaining = skip_escape(remaining),
            '\u{9b}' => remaining = skip_control_sequence(remaining),
            '\t' => out.push_str("    "),
            '\u{2028}' | '\u{2029}' | '\u{85}' => out.push('\n'),
            c if is_unsafe(c) => {}
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Returns `text` with its unsafe characters made visible, such as `‹U+202E›`, for a reviewer who has to decide on the
/// text. Newlines stay, and a tab becomes four spaces.
pub fn reveal_unsafe(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => out.push_str("    "),
            c if is_unsafe(c) => out.push_str(&format!("‹U+{:04X}›", u32::from(c))),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Returns `text` sanitized like [`sanitize`] does, on one line: runs of blanks and newlines become one space.
pub fn sanitize_line(text: &str) -> String {
    let text = sanitize(text);
    let mut out = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

/// Returns a path sanitized like [`sanitize`] does, on one line. Runs of blanks stay, so that the path can be copied.
/// Bytes that are not UTF-8 are shown as U+FFFD.
pub fn sanitize_path(path: &Path) -> String {
    sanitize(&path.display().to_string()).replace('\n', " ")
}

/// Returns whether a character can control the terminal, or reorder or hide text.
/// A newline is safe; a tab is not, because its width depends on the column.
pub(super) fn is_unsafe(c: char) -> bool {
    match c {
        '\n' => false,
        // Embeddings, overrides and isolates of the writing direction, line separators, and tag characters.
        '\u{202a}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}'
        | '\u{2028}'
        | '\u{2029}'
        | '\u{feff}'
        | '\u{e0000}'..='\u{e007f}' => true,
        c => c.is_control(),
    }
}

/// Returns the text after an escape sequence; `text` begins after its ESC.
fn skip_escape(text: &str) -> &str {
    let Some(c) = text.chars().next() else { return text };
    let after = &text[c.len_utf8()..];
    match c {
        '[' => skip_control_sequence(after),
        ']' | 'P' | 'X' | '^' | '_' => skip_string(after),
        ' '..='/' => skip_intermediates(after),
        '0'..='~' => after,
        _ => text,
    }
}

/// Returns the text after a control sequence (CSI): parameter and intermediate bytes, then one final byte. `text`
/// begins after the introducer.
fn skip_control_sequence(text: &str) -> &str {
    let body = text.trim_start_matches(|c: char| ('\u{20}'..='\u{3f}').contains(&c));
    body.strip_prefix(|c: char| ('\u{40}'..='\u{7e}').contains(&c)).unwrap_or(body)
}

/// Returns the text after an escape sequence with intermediate bytes, such as the selection of a character set.
fn skip_intermediates(text: &str) -> &str {
    let body = text.trim_start_matches(|c: char| (' '..='/').contains(&c));
    body.strip_prefix(|c: char| ('0'..='~').contains(&c)).unwrap_or(body)
}

/// Returns the text after a control string, such as the title of the window. If the string is not terminated, nothing
/// is skipped, because otherwise the remaining text would disappear.
fn skip_string(text: &str) -> &str {
    let terminators = ["\u{7}", "\u{1b}\\", "\u{9c}"];
    let ends = terminators.iter().filter_map(|terminator| Some(text.find(terminator)? + terminator.len()));
    ends.min().map_or(text, |end| &text[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the sanitized form of a text.
    fn check(text: &str, expected: &str) {
        assert_eq!(sanitize(text), expected, "{text:?}");
    }

    /// The cases are the kinds of sequences in ECMA-48 and the characters of Unicode that change the order or the
    /// visibility of text.
    #[test]
    fn k5_text_cannot_move_the_cursor_recolour_rename_or_reorder() {
        check("plain é 漢字 👩‍👩‍👧", "plain é 漢字 👩‍👩‍👧");
        check("a\nb", "a\nb");
        check("a\tb", "a    b");
        check("\u{1b}[31mred\u{1b}[0m", "red");
        check("\u{1b}[2J\u{1b}[1;1Hgone", "gone");
        check("\u{1b}]0;title\u{7}x", "x");
        check("\u{1b}]8;;http://evil\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link");
        check("\u{1b}]52;c;unterminated text", "52;c;unterminated text");
        check("\u{1b}Pq#0\u{1b}\\x", "x");
        check("\u{9b}31mx", "x");
        check("\u{1b}(Bx\u{1b}cy\u{1b}", "xy");
        check("a\rb\u{8}c\u{7}\u{0}\u{7f}", "abc");
        check("user\u{202e}txt.exe\u{202c}\u{2066}\u{e0041}", "usertxt.exe");
        check("a\u{2028}b\u{85}c", "a\nb\nc");
    }

    #[test]
    fn k5_unsafe_characters_are_made_visible() {
        assert_eq!(reveal_unsafe("rm \u{202e}txt\t\u{1b}[2J\n"), "rm ‹U+202E›txt    ‹U+001B›[2J\n");
        assert_eq!(reveal_unsafe("plain\n"), "plain\n");
    }

    #[test]
    fn k5_a_path_is_one_safe_line_and_keeps_its_blanks() {
        let check =
            |path: &str, expected: &str| assert_eq!(sanitize_path(Path::new(path)), expected, "{path:?}");
        check("/a  b/c.jsonl", "/a  b/c.jsonl");
        check("/a\nb/\u{1b}[2J\u{1b}]0;x\u{7}c", "/a b/c");
    }

    #[test]
    fn one_line_has_no_newline_and_no_runs_of_blanks() {
        assert_eq!(sanitize_line("  a\n\n b\t\tc "), "a b c");
    }
}
