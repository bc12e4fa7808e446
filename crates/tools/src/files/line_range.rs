//! Lines of a text with their numbers, bounded, never holding more of the text than is shown. Where the text comes
//! from is not known here.

use std::borrow::Cow;
use std::io::{self, BufRead};

use model::tokens::floor_grapheme_boundary;
use tokio_util::sync::CancellationToken;

use crate::truncation::{LINE_CHARS_MAX, OUTPUT_BYTES_MAX, truncate_line};

/// The most lines shown by one call.
pub(super) const LINES_MAX: u64 = 2_000;

/// Which lines.
#[derive(Debug, Clone, Copy)]
pub(super) struct LineRange {
    /// The number of the first, from 1.
    pub offset: u64,
    /// How many, at most [`LINES_MAX`].
    pub limit: u64,
}

/// The result of reading a range of lines.
#[derive(Debug)]
pub(super) struct LinePage {
    /// The lines, numbered; ends with a line that says when there are more.
    pub text: String,
    /// How many lines were passed, shown or not, from the first.
    pub lines: u64,
    /// True if the end of the text was reached.
    pub is_end_reached: bool,
}

impl LineRange {
    /// Returns the range a call asks for.
    pub fn from_options(offset: Option<u64>, limit: Option<u64>) -> Self {
        Self { offset: offset.unwrap_or(1).max(1), limit: limit.unwrap_or(LINES_MAX).clamp(1, LINES_MAX) }
    }
}

/// Returns the lines of the range.
///
/// # Errors
/// When the text cannot be read; [`io::ErrorKind::Interrupted`] when the call was cancelled.
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
            let shown = truncate_line(&String::from_utf8_lossy(&line), LINE_CHARS_MAX);
            text.push_str(&format!("{number:>6}\t{shown}\n"));
        }
        if number.is_multiple_of(4096) && cancel.is_cancelled() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        number += 1;
    }
    Ok(LinePage { text, lines: number - 1, is_end_reached: true })
}

/// Returns `text` with every line that is too long to be shown broken into lines that are not, so that all of it can be
/// read. The same text always breaks at the same places.
pub(super) fn wrap_long_lines(text: &str) -> Cow<'_, str> {
    if text.split('\n').all(|line| line.len() <= LINE_CHARS_MAX) {
        return Cow::Borrowed(text);
    }
    let mut folded = String::with_capacity(text.len() + text.len() / LINE_CHARS_MAX);
    for line in text.split_inclusive('\n') {
        let mut rest = line;
        while let Some((at, _)) =
            rest.char_indices().nth(LINE_CHARS_MAX).filter(|(at, _)| !is_line_end(&rest[*at..]))
        {
            // A cluster of more characters than a line has is broken all the same.
            let end = match floor_grapheme_boundary(rest, at) {
                0 => at,
                end => end,
            };
            folded.push_str(&rest[..end]);
            folded.push('\n');
            rest = &rest[end..];
        }
        folded.push_str(rest);
    }
    Cow::Owned(folded)
}

fn is_line_end(rest: &str) -> bool {
    matches!(rest, "\n" | "\r\n")
}

/// Reads one line without its ending, keeping only what may be shown of it; returns false at the end of the text.
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
        // Four bytes make a character at most; one more shows that there is more.
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
    fn a_line_too_long_to_be_shown_is_broken_and_nothing_is_lost() {
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
            let folded = wrap_long_lines(&text);
            assert_eq!(folded.lines().count(), lines, "{} bytes", text.len());
            assert!(folded.lines().all(|line| line.chars().count() <= LINE_CHARS_MAX));
            assert!(folded.replace('\n', "") == text.replace('\n', ""));
            assert!(lines == 2 || folded.lines().all(|line| !line.starts_with('\u{200d}')));
            assert!(wrap_long_lines(&folded) == folded);
        }
    }
}
