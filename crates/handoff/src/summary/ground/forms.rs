//! The forms in which text may hold a name (escaped in JSON, quoted in a shell, emphasised in Markdown, with Windows
//! separators), and whether a hit is a name of its own there or a part of a longer one.

use super::names::Sort;
use crate::summary::render::without_hidden;

/// Calls `look` with every form of `text` that may hold what the text itself does not, until it returns true.
pub(super) fn each(text: &str, mut look: impl FnMut(&str) -> bool) {
    if marked(text, &mut look) || text.is_ascii() {
        return;
    }
    let visible = without_hidden(text);
    if !look(&visible) {
        marked(&visible, &mut look);
    }
}

fn marked(text: &str, look: &mut impl FnMut(&str) -> bool) -> bool {
    let has_slash = text.contains('\\');
    let has_marks =
        has_slash || text.contains(['"', '\'', '`', '*']) || text.contains("//") || text.contains("/./");
    has_marks && look(&bare(text)) || has_slash && look(&slashed(text))
}

/// Returns `text` without quotes, asterisks and backslashes, its escapes resolved, its paths clean, on one line.
pub(super) fn bare(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\\' => {
                while rest.next_if_eq(&'\\').is_some() {}
                match rest.peek() {
                    Some('n' | 't' | 'r') => {
                        rest.next();
                        push(&mut out, ' ');
                    }
                    Some('u') => {
                        let escaped: String = rest.clone().skip(1).take(4).collect();
                        let decoded = u32::from_str_radix(&escaped, 16).ok().and_then(char::from_u32);
                        if let Some(decoded) = decoded.filter(|_| escaped.len() == 4) {
                            rest.nth(4);
                            push(&mut out, decoded);
                        }
                    }
                    Some(_) | None => {}
                }
            }
            '"' | '\'' | '`' | '*' => {}
            c => push(&mut out, c),
        }
    }
    out
}

/// Returns `text` with every run of backslashes as one slash.
fn slashed(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        push(&mut out, if c == '\\' { '/' } else { c });
    }
    out
}

/// Adds a character; white space is one space, and repeated slashes and `/./` one slash.
fn push(out: &mut String, c: char) {
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

/// Returns whether a name of this sort may begin at `start`.
pub(super) fn begins(text: &str, start: usize, sort: Sort) -> bool {
    let bytes = text.as_bytes();
    let before = |distance: usize| start.checked_sub(distance).map_or(b' ', |at| bytes[at]);
    let first = bytes.get(start).copied().unwrap_or(b' ');
    if first == b'-' {
        return before(1) != b'-' && !before(1).is_ascii_alphanumeric();
    }
    if !first.is_ascii_alphanumeric() && first != b'_' {
        return true;
    }
    let glued = |byte: u8| byte.is_ascii_alphanumeric();
    match before(1) {
        // The letter of an escaped line break, or of a version.
        b'n' | b't' | b'r' if before(2) == b'\\' => true,
        b'v' | b'V' if first.is_ascii_digit() => !glued(before(2)) && before(2) != b'_',
        byte if glued(byte) => false,
        // Underscores around a word are emphasis, inside one they join.
        b'_' => !bytes[..start].iter().rev().find(|byte| **byte != b'_').is_some_and(|byte| glued(*byte)),
        b'-' if sort == Sort::Path => !glued(before(2)),
        b'.' if sort == Sort::Path => !glued(before(2)),
        b'.' | b',' if sort == Sort::Number => !before(2).is_ascii_digit(),
        _ => true,
    }
}

/// Returns whether a name of this sort may end at `end`.
pub(super) fn ends(text: &str, end: usize, sort: Sort) -> bool {
    let bytes = text.as_bytes();
    let after = |distance: usize| bytes.get(end + distance).copied().unwrap_or(b' ');
    let last = end.checked_sub(1).map_or(b' ', |at| bytes[at]);
    if !last.is_ascii_alphanumeric() && last != b'_' {
        return true;
    }
    let glued = |byte: u8| byte.is_ascii_alphanumeric();
    match after(0) {
        byte if sort == Sort::Hash && byte.is_ascii_hexdigit() => true,
        byte if glued(byte) => false,
        b'_' => !bytes[end..].iter().find(|byte| **byte != b'_').is_some_and(|byte| glued(*byte)),
        b'-' | b'.' if sort == Sort::Path => !glued(after(1)),
        b'.' | b',' if sort == Sort::Number => !after(1).is_ascii_digit(),
        _ => true,
    }
}
