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
    let mut sequences = SequenceSkipper::default();
    while let Some(c) = remaining.chars().next() {
        remaining = &remaining[c.len_utf8()..];
        match c {
            ESCAPE => remaining = sequences.skip_escape(remaining),
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

/// Skips the escape sequences of one text, from its beginning to its end.
#[derive(Debug, Default)]
struct SequenceSkipper {
    /// True after a control string without an end. No later one has an end either, so none is searched again: a text of
    /// many beginnings would be read to its end for each of them.
    has_unterminated_string: bool,
}

impl SequenceSkipper {
    /// Returns the text after an escape sequence; `text` begins after its ESC.
    fn skip_escape<'t>(&mut self, text: &'t str) -> &'t str {
        let Some(c) = text.chars().next() else { return text };
        let after = &text[c.len_utf8()..];
        match c {
            '[' => skip_control_sequence(after),
            ']' | 'P' | 'X' | '^' | '_' => self.skip_string(after),
            ' '..='/' => skip_intermediates(after),
            '0'..='~' => after,
            _ => text,
        }
    }

    /// Returns the text after a control string, such as the title of the window. If the string is not terminated, nothing
    /// is skipped, because otherwise the remaining text would disappear.
    fn skip_string<'t>(&mut self, text: &'t str) -> &'t str {
        if self.has_unterminated_string {
            return text;
        }
        match string_end(text) {
            Some(end) => &text[end..],
            None => {
                self.has_unterminated_string = true;
                text
            }
        }
    }
}

/// Returns the offset behind the first terminator of a control string. One search finds all kinds of terminators, because
/// a search for each kind would read a text to its end that has only one of them.
fn string_end(text: &str) -> Option<usize> {
    text.char_indices().find_map(|(index, c)| match c {
        '\u{7}' | '\u{9c}' => Some(index + c.len_utf8()),
        ESCAPE if text[index + 1..].starts_with('\\') => Some(index + 2),
        _ => None,
    })
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

    /// A search for the end of every control string, to the end of the text, would take hours.
    #[test]
    fn k5_many_control_strings_are_skipped_in_proportion_to_the_text() {
        let count = 1 << 20;
        assert_eq!(sanitize(&"\u{1b}]x".repeat(count)).len(), count);
        assert_eq!(sanitize(&"\u{1b}]x\u{7}".repeat(count)), "");
        assert_eq!(sanitize(&"\u{1b}]8;;\u{1b}\\y".repeat(count)).len(), count);
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
