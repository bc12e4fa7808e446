//! The forms in which a text may contain a name (escaped in JSON, quoted in a shell, emphasized in Markdown, with
//! Windows separators), and the rules that decide whether a match is a whole name or a part of a longer one.

use super::names::NameClass;
use crate::summary::render::strip_hidden;

/// Calls `search` with each form of `text` that may contain a name the text itself does not, until it returns true.
pub(super) fn search_forms(text: &str, mut search: impl FnMut(&str) -> bool) {
    if search_unmarked_forms(text, &mut search) || text.is_ascii() {
        return;
    }
    let visible = strip_hidden(text);
    if !search(&visible) {
        search_unmarked_forms(&visible, &mut search);
    }
}

/// Calls `search` with the text without markup and with the text with slashes for backslashes, as far as they differ
/// from it. Returns whether a call returned true.
fn search_unmarked_forms(text: &str, search: &mut impl FnMut(&str) -> bool) -> bool {
    let has_backslash = text.contains('\\');
    let has_marks =
        has_backslash || text.contains(['"', '\'', '`', '*']) || text.contains("//") || text.contains("/./");
    has_marks && search(&strip_markup(text)) || has_backslash && search(&normalize_slashes(text))
}

/// Returns `text` on one line, without quotes, asterisks and backslashes, with escapes resolved and paths normalized.
pub(super) fn strip_markup(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                while chars.next_if_eq(&'\\').is_some() {}
                match chars.peek() {
                    Some('n' | 't' | 'r') => {
                        chars.next();
                        push_normalized(&mut out, ' ');
                    }
                    Some('u') => {
                        let escaped: String = chars.clone().skip(1).take(4).collect();
                        let decoded = u32::from_str_radix(&escaped, 16).ok().and_then(char::from_u32);
                        if let Some(decoded) = decoded.filter(|_| escaped.len() == 4) {
                            chars.nth(4);
                            push_normalized(&mut out, decoded);
                        }
                    }
                    Some(_) | None => {}
                }
            }
            '"' | '\'' | '`' | '*' => {}
            c => push_normalized(&mut out, c),
        }
    }
    out
}

/// Returns `text` with one slash for each run of backslashes.
fn normalize_slashes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        push_normalized(&mut out, if c == '\\' { '/' } else { c });
    }
    out
}

/// Appends a character to a normalized text: a run of white space becomes one space, and repeated slashes and `/./`
/// become one slash.
fn push_normalized(out: &mut String, c: char) {
    match c {
        c if c.is_whitespace() => {
            if !out.ends_with(' ') {
                out.push(' ');
            }
        }
        '/' if out.ends_with("/.") => {
            out.pop();
        }
        '/' if out.ends_with('/') => {}
        c => out.push(c),
    }
}

/// Returns whether a whole name of this class may start at the byte offset `start`, judged by the characters before it.
pub(super) fn can_begin_at(text: &str, start: usize, class: NameClass) -> bool {
    let bytes = text.as_bytes();
    let before = |distance: usize| start.checked_sub(distance).map_or(b' ', |index| bytes[index]);
    let first = bytes.get(start).copied().unwrap_or(b' ');
    if first == b'-' {
        return before(1) != b'-' && !before(1).is_ascii_alphanumeric();
    }
    if !first.is_ascii_alphanumeric() && first != b'_' {
        return true;
    }
    let joins = |byte: u8| byte.is_ascii_alphanumeric();
    match before(1) {
        // The letter belongs to an escaped line break, or is the `v` of a version.
        b'n' | b't' | b'r' if before(2) == b'\\' => true,
        b'v' | b'V' if first.is_ascii_digit() => !joins(before(2)) && before(2) != b'_',
        byte if joins(byte) => false,
        // Underscores around a word are emphasis; inside a word they are a part of it.
        b'_' => !bytes[..start].iter().rev().find(|byte| **byte != b'_').is_some_and(|byte| joins(*byte)),
        b'-' if class == NameClass::Path => !joins(before(2)),
        b'.' if class == NameClass::Path => !joins(before(2)),
        b'.' | b',' if class == NameClass::Number => !before(2).is_ascii_digit(),
        _ => true,
    }
}

/// Returns whether a whole name of this class may end at the byte offset `end`, judged by the characters after it.
pub(super) fn can_end_at(text: &str, end: usize, class: NameClass) -> bool {
    let bytes = text.as_bytes();
    let after = |distance: usize| bytes.get(end + distance).copied().unwrap_or(b' ');
    let last = end.checked_sub(1).map_or(b' ', |index| bytes[index]);
    if !last.is_ascii_alphanumeric() && last != b'_' {
        return true;
    }
    let joins = |byte: u8| byte.is_ascii_alphanumeric();
    match after(0) {
        byte if class == NameClass::Hash && byte.is_ascii_hexdigit() => true,
        byte if joins(byte) => false,
        b'_' => !bytes[end..].iter().find(|byte| **byte != b'_').is_some_and(|byte| joins(*byte)),
        b'-' | b'.' if class == NameClass::Path => !joins(after(1)),
        b'.' | b',' if class == NameClass::Number => !after(1).is_ascii_digit(),
        _ => true,
    }
}
