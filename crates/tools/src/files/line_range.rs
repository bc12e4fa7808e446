//! Reading a range of numbered lines from a text. Memory is bounded by the output limit, whatever the size of the text.
//! The source of the text is the caller's concern.

use std::borrow::Cow;
use std::io::{self, BufRead};

use model::tokens::floor_grapheme_boundary;
use tokio_util::sync::CancellationToken;

use crate::truncation::{LINE_CHARS_MAX, OUTPUT_BYTES_MAX, truncate_line};

/// Maximum number of lines that one call returns.
pub(super) const LINES_MAX: u64 = 2_000;

/// A range of lines.
#[derive(Debug, Clone, Copy)]
pub(super) struct LineRange {
    /// Number of the first line, counted from 1.
    pub offset: u64,
    /// Number of lines, at most [`LINES_MAX`].
    pub limit: u64,
}

/// The result of reading a range of lines.
#[derive(Debug)]
pub(super) struct LinePage {
    /// The lines with their numbers. If the text continues, the last line gives the next offset.
    pub text: String,
    /// Number of lines read from the beginning of the text, including lines before the range.
    pub lines: u64,
    /// True if the end of the text was reached.
    pub is_end_reached: bool,
}

impl LineRange {
    /// Returns the range of a call. Missing values become the first line and [`LINES_MAX`]; others are clamped.
    pub fn from_options(offset: Option<u64>, limit: Option<u64>) -> Self {
        Self { offset: offset.unwrap_or(1).max(1), limit: limit.unwrap_or(LINES_MAX).clamp(1, LINES_MAX) }
    }
}

/// Reads the lines of the range, at most about [`OUTPUT_BYTES_MAX`] bytes. The cost is proportional to the length of
/// the text up to the end of the range. A byte order mark at the beginning is dropped.
///
/// # Errors
/// Returns the error of reading, or [`io::ErrorKind::Interrupted`] if the call was cancelled (checked every 4,096 lines).
pub(super) fn read_page(
    reader: &mut impl BufRead,
    range: LineRange,
    cancel: &CancellationToken,
) -> io::Result<LinePage> {
    let last = range.offset.saturating_add(range.limit);
    let mut text = String::new();
    let mut line = Vec::new();
    let mut number = 1;
    while read_line(reader, &mut line)? {
        if number >= last || text.len() > OUTPUT_BYTES_MAX {
            text.push_str(&format!("[there is more; continue with offset {number}]\n"));
            return Ok(LinePage { text, lines: number - 1, is_end_reached: false });
        }
        if number == 1 && line.starts_with(b"\xef\xbb\xbf") {
            line.drain(..3);
        }
        if number >= range.offset {
            let content = truncate_line(&String::from_utf8_lossy(&line), LINE_CHARS_MAX);
            text.push_str(&format!("{number:>6}\t{content}\n"));
        }
        if number.is_multiple_of(4096) && cancel.is_cancelled() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        number += 1;
    }
    Ok(LinePage { text, lines: number - 1, is_end_reached: true })
}

/// Breaks every line longer than [`LINE_CHARS_MAX`] characters into shorter ones, so that no part of a line is cut when
/// the text is shown. Lines break between grapheme clusters where possible. The same text always breaks at the same
/// offsets, so line numbers stay valid from call to call.
pub(super) fn wrap_long_lines(text: &str) -> Cow<'_, str> {
    if text.split('\n').all(|line| line.len() <= LINE_CHARS_MAX) {
        return Cow::Borrowed(text);
    }
    let mut wrapped = String::with_capacity(text.len() + text.len() / LINE_CHARS_MAX);
    for line in text.split_inclusive('\n') {
        let mut remaining = line;
        while let Some((limit, _)) = remaining
            .char_indices()
            .nth(LINE_CHARS_MAX)
            .filter(|(limit, _)| !is_line_end(&remaining[*limit..]))
        {
            // A grapheme cluster longer than a whole line is broken too.
            let end = match floor_grapheme_boundary(remaining, limit) {
                0 => limit,
                end => end,
            };
            wrapped.push_str(&remaining[..end]);
            wrapped.push('\n');
            remaining = &remaining[end..];
        }
        wrapped.push_str(remaining);
    }
    Cow::Owned(wrapped)
}

/// Returns whether `text` is exactly one line ending.
fn is_line_end(text: &str) -> bool {
    matches!(text, "\n" | "\r\n")
}

/// Reads one line without its ending into `line`, and returns false at the end of the text. Of a longer line, only the
/// bytes that can be shown are kept; the others are read and discarded.
fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let mut read_any = false;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(read_any);
        }
        read_any = true;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let part = &buffer[..end.unwrap_or(buffer.len())];
        // A character has at most four bytes. Room for one more character shows that the line was longer.
        let room = (LINE_CHARS_MAX * 4 + 4).saturating_sub(line.len());
        line.extend_from_slice(&part[..part.len().min(room)]);
        let used = part.len() + usize::from(end.is_some());
        reader.consume(used);
        if end.is_some() {
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_wrapped_without_losing_text() {
        let family = "👨\u{200d}👩\u{200d}👧";
        for (text, lines) in [
            ("a\nb\n".to_owned(), 2),
            ("x".repeat(LINE_CHARS_MAX), 1),
            (format!("{}\n", "é".repeat(LINE_CHARS_MAX)), 1),
            ("é".repeat(LINE_CHARS_MAX + 1), 2),
            (format!("a\n{}\nb", "x".repeat(LINE_CHARS_MAX * 3)), 5),
            (family.repeat(LINE_CHARS_MAX), 5),
            ("\u{301}".repeat(LINE_CHARS_MAX * 2), 2),
        ] {
            let wrapped = wrap_long_lines(&text);
            assert_eq!(wrapped.lines().count(), lines, "{} bytes", text.len());
            assert!(wrapped.lines().all(|line| line.chars().count() <= LINE_CHARS_MAX));
            assert!(wrapped.replace('\n', "") == text.replace('\n', ""));
            assert!(lines == 2 || wrapped.lines().all(|line| !line.starts_with('\u{200d}')));
            assert!(wrap_long_lines(&wrapped) == wrapped);
        }
    }
}
