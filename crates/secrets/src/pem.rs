//! The extent of a private key in PEM form, of which a rule has found the first line or the last.

use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem;
use regex::bytes::Regex;

use crate::shape::looks_scrambled;

/// The minimum length of a run of Base64 by which a body with quotes is a key: quotes also stand around the first line
/// in code that only looks for keys.
const RUN_BYTES_MIN: usize = 40;
/// The maximum length of a key before its last line, in bytes.
const CUT_BYTES_MAX: usize = 16 << 10;
/// The maximum length of the last line of a key, in bytes.
const LAST_LINE_BYTES_MAX: usize = 100;

/// Returns the end of the key whose first line ends at `header_end`, or `None` if no body follows. A key whose end was
/// cut off ends with its last line of Base64.
pub fn key_end(text: &str, header_end: usize) -> Option<usize> {
    let rest = &text[header_end..];
    // A body has no two hyphens in a row, so that a search from each of many first lines stays linear.
    let body_end = memmem::find(rest.as_bytes(), b"--").unwrap_or(rest.len());
    let body = &rest[..body_end];
    let last_line = &rest[body_end..];
    if last_line.starts_with("-----END") && is_body(body) {
        let line = &last_line.as_bytes()[..last_line.len().min(LAST_LINE_BYTES_MAX)];
        let end = memmem::find(&line[8..], b"-----").map_or(8, |position| 8 + position + 5);
        return Some(header_end + body_end + end);
    }
    cut_body_end(body).or_else(|| flat_body_end(body)).map(|end| header_end + end)
}

/// Returns the end of the body of a key whose first line is `first`. Further lines have the length of the first; a shorter one
/// ends the body: it completes the Base64, or is a cut line. Each line may begin with the sign before the first, as in a diff.
pub fn body_end(text: &str, first: Range<usize>) -> usize {
    let before = text[..first.start].trim_end_matches([' ', '\t']);
    let sign = before.chars().next_back().filter(|c| matches!(c, '+' | '>' | '|'));
    let width = first.len();
    let (mut end, mut total) = (first.end, width);
    while let Some(start) = line_start(&text[end..]) {
        let line = &text[end + start..];
        let signed = sign.and_then(|sign| line.strip_prefix(sign)).unwrap_or(line);
        let signed = signed.trim_start_matches([' ', '\t']);
        let length = signed.find(|c| !is_base64(c)).unwrap_or(signed.len());
        total += length;
        let is_ended = !signed[length..].starts_with([' ', ':', '.', ',', '-', '_', '(']);
        let is_complete = total % 4 == 0 || looks_scrambled(&signed[..length]);
        let is_last = length < width && length > 0 && is_complete;
        if length != width && !is_last || !is_ended {
            break;
        }
        end += start + (line.len() - signed.len()) + length;
        if is_last {
            break;
        }
    }
    if end > first.end { end } else { end + flat_body_end(&text[end..]).unwrap_or(0) }
}

/// The minimum length of the first line of a key whose line breaks became spaces, in bytes.
const FLAT_LINE_BYTES_MIN: usize = 32;
/// The minimum length of its further lines, in bytes.
const FLAT_REST_BYTES_MIN: usize = 16;

/// Returns the end of a key whose line breaks became spaces and whose end was cut off; `None` if `body` begins with no line of
/// Base64.
fn flat_body_end(body: &str) -> Option<usize> {
    let mut end = None;
    let mut position = 0;
    loop {
        let rest = &body[position..];
        let blanks = rest.len() - rest.trim_start_matches(' ').len();
        let line = &rest[blanks..];
        let length = line.find(|c| !is_base64(c)).unwrap_or(line.len());
        let is_line = match end {
            None => length >= FLAT_LINE_BYTES_MIN && looks_scrambled(&line[..length]),
            Some(_) => length >= FLAT_REST_BYTES_MIN,
        };
        if !is_line || blanks == 0 {
            return end;
        }
        position += blanks + length;
        end = Some(position);
    }
}

/// The lines of Base64 at the end of a text. Between them stand line breaks, also escaped ones as in JSON, with the quotes
/// and signs of code, of a diff or of numbered lines.
static CUT_LINES: LazyLock<Regex> = LazyLock::new(|| {
    let line_break =
        r#"(?:["',+ ]{0,4}(?:\r?\n|(?:\\+r)?\\+n)(?:\s|["'>|,]|\+ ?|\d{1,6}(?:\t|\xe2\x86\x92|[:|] ?))*)"#;
    let line = "[A-Za-z0-9+/]{16,}={0,2}";
    let pattern = format!(
        "(?-u)(?:{line}(?:{line_break}{line})*(?:{line_break}=?[A-Za-z0-9+/]{{2,}}={{0,2}}){{0,2}}|(?:[A-Za-z0-9+/]{{40,}} )+[A-Za-z0-9+/]{{2,}}={{0,2}}){line_break}? ?\\z"
    );
    Regex::new(&pattern).expect("the pattern is a constant that the tests compile")
});

/// Returns the start of the key whose last line begins at `end_line`, or `None` if no lines of Base64 stand before it.
/// The first line was cut off.
pub fn cut_key_start(text: &str, end_line: usize) -> Option<usize> {
    let limit = end_line.saturating_sub(CUT_BYTES_MAX);
    let bytes = &text.as_bytes()[limit..end_line];
    // The lines contain no two hyphens, so that a search from each of many last lines stays linear.
    let start = memmem::rfind(bytes, b"--").map_or(0, |position| position + 2);
    let lines = CUT_LINES.find(&bytes[start..])?;
    let is_random = |run: &[u8]| std::str::from_utf8(run).is_ok_and(looks_scrambled);
    let has_key = lines.as_bytes().split(|byte| !is_base64(char::from(*byte))).any(is_random);
    has_key.then_some(limit + start + lines.start())
}

/// Returns whether `body` is that of a key, and not code between two constants.
fn is_body(body: &str) -> bool {
    let is_quoted = body.contains(['"', '\'', '`', '(', ')', '{', '}', '<', '>']);
    !body.trim().is_empty()
        && (!is_quoted || body.split(|c| !is_base64(c)).any(|run| run.len() >= RUN_BYTES_MIN))
}

/// Returns the end of the lines of Base64 and of header fields with which `body` begins.
fn cut_body_end(body: &str) -> Option<usize> {
    let mut position = 0;
    let mut end = None;
    while let Some(start) = line_start(&body[position..]) {
        let line = &body[position + start..];
        let base64 = line.find(|c| !is_base64(c)).unwrap_or(line.len());
        let field = line.find(['\n', '\\']).unwrap_or(line.len());
        position += start;
        if base64 >= 4 && !line[base64..].starts_with([' ', ':']) {
            position += base64;
            end = Some(position);
        } else if line[..field].contains(": ") {
            position += field;
        } else if base64 > 0 || field > 0 {
            break;
        }
    }
    end
}

/// Returns the offset behind the line break with which `text` begins. The break may be escaped, as in JSON.
fn line_start(text: &str) -> Option<usize> {
    let trimmed = text.trim_start_matches([' ', '\t', '\r']);
    let breaks = ["\n", r"\r\n", r"\n"];
    let found = breaks.iter().find(|line_break| trimmed.starts_with(**line_break))?;
    let behind = &trimmed[found.len()..];
    Some(text.len() - behind.trim_start_matches([' ', '\t']).len())
}

/// Returns whether a character belongs to Base64.
fn is_base64(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=')
}
