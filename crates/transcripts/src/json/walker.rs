//! Streaming access to large JSON files. The walker splits a top-level object or array into pieces: selected members,
//! or the single elements of selected arrays. It finds only the start and end of a piece by its strings and brackets.
//! The caller decodes the piece and learns then if it is valid JSON.

use std::fs::File;
use std::io::{BufRead, BufReader, Result};

use memchr::memchr2;

use crate::error::Error;
use crate::json::{READ_BUFFER_BYTES, RECORD_BYTES_MAX};
use crate::sink_writer::SinkWriter;
use crate::source::TranscriptSource;

/// The caller's choice for a member of the top-level object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldSelector {
    /// The member is skipped without storing it.
    Skip,
    /// The value is one piece.
    Whole,
    /// Each element of the array is one piece. A value that is no array is one piece.
    Elements,
}

/// A piece of the file. `line` is the line on which the piece begins, counted from 1.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum JsonPiece {
    /// The value of a selected member.
    Member {
        /// The name of the member.
        key: String,
        /// The value, as in the file.
        bytes: Vec<u8>,
        line: u64,
    },
    /// An element of the top-level array or of a selected member.
    Element {
        /// The name of the member; empty for the top-level array.
        key: String,
        /// The element, as in the file.
        bytes: Vec<u8>,
        line: u64,
    },
    /// A part that cannot be read. The walk continues after it if its end is known.
    Damaged {
        /// The text for a problem report.
        reason: String,
        line: u64,
    },
    /// The end of the file, or of its readable part.
    End,
}

/// A walk over one JSON value, or over several values without separators.
pub(crate) struct JsonWalker<R> {
    reader: R,
    position: WalkPosition,
    /// The current line, counted from 1.
    line: u64,
    /// Number of bytes consumed so far.
    pub(crate) bytes: u64,
    /// Number of top-level values entered so far.
    pub(crate) values: u64,
}

/// The position of the walk between two pieces.
enum WalkPosition {
    /// Before a top-level value.
    Start,
    /// In the top-level object, before a member or its end.
    InObject,
    /// In the array of the member `key`, or in the top-level array if `key` is `None`.
    InArray { key: Option<String> },
    /// At the end, or after damage whose end is unknown.
    Done,
}

/// The outcome of reading one value.
enum ReadOutcome {
    /// The bytes of the value; empty if they were discarded.
    Whole(Vec<u8>),
    /// The value is longer than the limit; its length in bytes.
    TooLong(u64),
    /// The file ends inside the value.
    Truncated,
}

/// A callback that receives the member name and the bytes of each selected piece.
pub(crate) type PieceHandler<'e> =
    dyn FnMut(&str, &[u8], &mut SinkWriter<'_>) -> std::result::Result<(), Error> + 'e;

/// Opens `source` and returns a walker at its start.
pub(crate) fn open_walker(
    source: &TranscriptSource,
) -> std::result::Result<JsonWalker<BufReader<File>>, Error> {
    Ok(JsonWalker::new(BufReader::with_capacity(READ_BUFFER_BYTES, source.open()?)))
}

/// Walks `source` and passes every piece that `select` chooses to `each`. Damaged pieces are reported and skipped.
///
/// Memory use depends on the longest selected piece.
///
/// # Errors
/// [`Error::Missing`], [`Error::Folder`] or [`Error::Io`] if the source cannot be read, and any error of `each`.
pub(crate) fn for_each_piece(
    source: &TranscriptSource,
    out: &mut SinkWriter<'_>,
    select: impl Fn(&str) -> FieldSelector,
    each: &mut PieceHandler<'_>,
) -> std::result::Result<(), Error> {
    let mut walk = open_walker(source)?;
    loop {
        let piece = walk.next_piece(&select).map_err(|error| source.io_error(error))?;
        if !deliver_piece(piece, out, each)? {
            return Ok(());
        }
        out.report_progress(walk.bytes);
    }
}

/// Walks `bytes`, which were read as one piece, like [`for_each_piece`]. Lines are counted from the current line of
/// `out`.
///
/// # Errors
/// Any error of `each`.
pub(crate) fn for_each_piece_in(
    bytes: &[u8],
    out: &mut SinkWriter<'_>,
    select: impl Fn(&str) -> FieldSelector,
    each: &mut PieceHandler<'_>,
) -> std::result::Result<(), Error> {
    let mut walk = JsonWalker::new(bytes);
    walk.line = out.line();
    // Reading from memory cannot fail.
    while let Ok(piece) = walk.next_piece(&select) {
        if !deliver_piece(piece, out, each)? {
            break;
        }
    }
    Ok(())
}

/// Returns the value of the first member `key` of the top-level object in `source`, or `None` if it has no such member.
/// Reads the file up to that member.
pub(crate) fn read_member(
    source: &TranscriptSource,
    key: &str,
) -> std::result::Result<Option<Vec<u8>>, Error> {
    let mut walk = open_walker(source)?;
    let select = |name: &str| if name == key { FieldSelector::Whole } else { FieldSelector::Skip };
    loop {
        match walk.next_piece(select).map_err(|error| source.io_error(error))? {
            JsonPiece::Member { bytes, .. } => return Ok(Some(bytes)),
            JsonPiece::End => return Ok(None),
            JsonPiece::Element { .. } | JsonPiece::Damaged { .. } => {}
        }
    }
}

/// Returns whether the top-level object in `source` has an array `key` with at least one element. Stops at that
/// element.
pub(crate) fn has_elements(source: &TranscriptSource, key: &str) -> std::result::Result<bool, Error> {
    let mut walk = open_walker(source)?;
    let select = |name: &str| if name == key { FieldSelector::Elements } else { FieldSelector::Skip };
    loop {
        match walk.next_piece(select).map_err(|error| source.io_error(error))? {
            JsonPiece::Element { key: member, .. } if member == key => return Ok(true),
            JsonPiece::Element { .. } | JsonPiece::End => return Ok(false),
            JsonPiece::Member { .. } | JsonPiece::Damaged { .. } => {}
        }
    }
}

/// Passes a piece to `each`, or reports it if it is damaged. Returns `false` at the end of the file.
fn deliver_piece(
    piece: JsonPiece,
    out: &mut SinkWriter<'_>,
    each: &mut PieceHandler<'_>,
) -> std::result::Result<bool, Error> {
    match piece {
        JsonPiece::End => return Ok(false),
        JsonPiece::Member { key, bytes, line } | JsonPiece::Element { key, bytes, line } => {
            out.set_line(line);
            each(&key, &bytes, out)?;
        }
        JsonPiece::Damaged { reason, line } => {
            out.set_line(line);
            out.report_problem(reason);
        }
    }
    Ok(true)
}

impl<R: BufRead> JsonWalker<R> {
    /// Returns a walker over the values in `reader`.
    pub(crate) const fn new(reader: R) -> Self {
        Self { reader, position: WalkPosition::Start, line: 1, bytes: 0, values: 0 }
    }

    /// Returns the next piece. `select` chooses the members of the top-level object by name.
    ///
    /// # Errors
    /// Any read error of the underlying reader. Damaged JSON is a [`JsonPiece::Damaged`].
    pub(crate) fn next_piece(&mut self, select: impl Fn(&str) -> FieldSelector) -> Result<JsonPiece> {
        loop {
            // Every step that can continue sets the position again, so damage leaves the walk at `Done`.
            let piece = match std::mem::replace(&mut self.position, WalkPosition::Done) {
                WalkPosition::Done => return Ok(JsonPiece::End),
                WalkPosition::Start => self.enter_value()?,
                WalkPosition::InObject => self.next_member(&select)?,
                WalkPosition::InArray { key } => self.next_element(key)?,
            };
            if let Some(piece) = piece {
                return Ok(piece);
            }
        }
    }

    /// Enters the next top-level value. Returns a piece only at the end of the file and for damage.
    fn enter_value(&mut self) -> Result<Option<JsonPiece>> {
        let mut first = self.peek_byte()?;
        // The bytes of a UTF-8 byte order mark.
        while matches!(first, Some(0xef | 0xbb | 0xbf)) {
            self.skip(1);
            first = self.peek_byte()?;
        }
        match first {
            Some(b'{') => self.position = WalkPosition::InObject,
            Some(b'[') => self.position = WalkPosition::InArray { key: None },
            Some(_) => {
                return Ok(Some(self.damaged_piece("skipped text that is neither an object nor an array")));
            }
            None => return Ok(Some(JsonPiece::End)),
        }
        self.skip(1);
        self.values += 1;
        Ok(None)
    }

    /// Reads the next member of the top-level object. Returns `None` after a comma, at the end of the object, after a
    /// skipped member and when it enters an array.
    fn next_member(&mut self, select: &impl Fn(&str) -> FieldSelector) -> Result<Option<JsonPiece>> {
        match self.peek_byte()? {
            Some(b',') => {
                self.skip(1);
                self.position = WalkPosition::InObject;
                return Ok(None);
            }
            Some(b'}') => {
                self.skip(1);
                self.position = WalkPosition::Start;
                return Ok(None);
            }
            Some(b'"') => {}
            Some(_) => {
                return Ok(Some(
                    self.damaged_piece("skipped the remaining text: a member name was expected"),
                ));
            }
            None => return Ok(Some(self.truncated_piece())),
        }
        let ReadOutcome::Whole(name) = self.read_value(ValueCapture::Bytes)? else {
            return Ok(Some(self.truncated_piece()));
        };
        let key = String::from_utf8_lossy(strip_quotes(&name)).into_owned();
        if self.peek_byte()? != Some(b':') {
            return Ok(Some(self.damaged_piece("skipped the remaining text: a colon was expected")));
        }
        self.skip(1);
        let is_array = self.peek_byte()? == Some(b'[');
        match select(&key) {
            FieldSelector::Elements if is_array => {
                self.skip(1);
                self.position = WalkPosition::InArray { key: Some(key) };
                Ok(None)
            }
            FieldSelector::Elements | FieldSelector::Whole => {
                let line = self.line;
                let outcome = self.read_value(ValueCapture::Bytes)?;
                Ok(Some(self.outcome_piece(outcome, WalkPosition::InObject, |bytes| JsonPiece::Member {
                    key,
                    bytes,
                    line,
                })))
            }
            FieldSelector::Skip => match self.read_value(ValueCapture::Discard)? {
                ReadOutcome::Truncated => Ok(Some(self.truncated_piece())),
                ReadOutcome::Whole(_) | ReadOutcome::TooLong(_) => {
                    self.position = WalkPosition::InObject;
                    Ok(None)
                }
            },
        }
    }

    /// Reads the next element of the current array. Returns `None` after a comma and at the end of the array.
    fn next_element(&mut self, key: Option<String>) -> Result<Option<JsonPiece>> {
        match self.peek_byte()? {
            Some(b',') => {
                self.skip(1);
                self.position = WalkPosition::InArray { key };
                Ok(None)
            }
            Some(b']') => {
                self.skip(1);
                self.position = if key.is_some() { WalkPosition::InObject } else { WalkPosition::Start };
                Ok(None)
            }
            Some(b'}' | b':') => {
                Ok(Some(self.damaged_piece("skipped the remaining text: an element was expected")))
            }
            None => Ok(Some(self.truncated_piece())),
            Some(_) => {
                let line = self.line;
                let outcome = self.read_value(ValueCapture::Bytes)?;
                let name = key.clone().unwrap_or_default();
                let next = WalkPosition::InArray { key };
                Ok(Some(self.outcome_piece(outcome, next, |bytes| JsonPiece::Element {
                    key: name,
                    bytes,
                    line,
                })))
            }
        }
    }

    /// Converts the outcome of reading a value to a piece and sets the position to `next`. After a truncated value the
    /// walk ends.
    fn outcome_piece(
        &mut self,
        outcome: ReadOutcome,
        next: WalkPosition,
        piece: impl FnOnce(Vec<u8>) -> JsonPiece,
    ) -> JsonPiece {
        match outcome {
            ReadOutcome::Truncated => self.truncated_piece(),
            ReadOutcome::TooLong(bytes) => {
                self.position = next;
                self.damaged_piece(&super::lines::record_too_long_text(bytes))
            }
            ReadOutcome::Whole(bytes) => {
                self.position = next;
                piece(bytes)
            }
        }
    }

    fn truncated_piece(&self) -> JsonPiece {
        self.damaged_piece("skipped a half-written record: the file ends in the middle")
    }

    fn damaged_piece(&self, reason: &str) -> JsonPiece {
        JsonPiece::Damaged { reason: reason.to_owned(), line: self.line }
    }

    /// Skips white space and returns the next byte without consuming it; `None` at the end of the file.
    fn peek_byte(&mut self) -> Result<Option<u8>> {
        loop {
            let chunk = self.reader.fill_buf()?;
            if chunk.is_empty() {
                return Ok(None);
            }
            let spaces = chunk.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            self.line += chunk[..spaces].iter().filter(|byte| **byte == b'\n').count() as u64;
            let next = chunk.get(spaces).copied();
            self.skip(spaces);
            if next.is_some() {
                return Ok(next);
            }
        }
    }

    /// Consumes `bytes` buffered bytes.
    fn skip(&mut self, bytes: usize) {
        self.reader.consume(bytes);
        self.bytes += bytes as u64;
    }

    /// Reads one whole value. `capture` selects if its bytes are stored or only skipped. The limit on the length of a
    /// record applies only to stored values.
    fn read_value(&mut self, capture: ValueCapture) -> Result<ReadOutcome> {
        let mut scanner = ValueScanner::default();
        let mut value = Vec::new();
        let mut length: u64 = 0;
        loop {
            let chunk = self.reader.fill_buf()?;
            if chunk.is_empty() {
                return Ok(ReadOutcome::Truncated);
            }
            let used = scanner.feed(chunk);
            length += used as u64;
            if capture == ValueCapture::Bytes && length <= RECORD_BYTES_MAX as u64 {
                value.extend_from_slice(&chunk[..used]);
            }
            self.skip(used);
            if scanner.is_done {
                break;
            }
        }
        self.line += scanner.newlines;
        if capture == ValueCapture::Bytes && length > RECORD_BYTES_MAX as u64 {
            return Ok(ReadOutcome::TooLong(length));
        }
        Ok(ReadOutcome::Whole(value))
    }
}

/// The use of the bytes of a value that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueCapture {
    /// The bytes are returned.
    Bytes,
    /// The bytes are skipped.
    Discard,
}

/// A scanner that finds the end of one JSON value in a sequence of chunks. It tracks only strings and brackets.
#[derive(Default)]
struct ValueScanner {
    /// Number of open brackets.
    depth: u64,
    /// True inside a string.
    in_string: bool,
    /// True if the last byte inside the string was a backslash.
    escaped: bool,
    /// True after the first byte of the value.
    has_started: bool,
    /// True when the end of the value was found.
    is_done: bool,
    /// Number of line ends inside the value.
    newlines: u64,
}

impl ValueScanner {
    /// Scans the next chunk and returns the number of its bytes that belong to the value. Sets `is_done` at the end of
    /// the value.
    fn feed(&mut self, chunk: &[u8]) -> usize {
        let mut index = 0;
        while index < chunk.len() && !self.is_done {
            if self.in_string {
                index += self.feed_string(&chunk[index..]);
                continue;
            }
            match chunk[index] {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' if self.depth == 0 => {
                    self.is_done = true;
                    return index;
                }
                b'}' | b']' => {
                    self.depth -= 1;
                    self.is_done = self.depth == 0;
                }
                b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' if self.depth == 0 && self.has_started => {
                    self.is_done = true;
                    return index;
                }
                b'\n' => self.newlines += 1,
                _ => {}
            }
            self.has_started = true;
            index += 1;
        }
        index
    }

    /// Scans bytes inside a string and returns the number of bytes used: up to the next quote, backslash or the end.
    fn feed_string(&mut self, chunk: &[u8]) -> usize {
        if std::mem::take(&mut self.escaped) {
            return 1;
        }
        match memchr2(b'"', b'\\', chunk) {
            None => chunk.len(),
            Some(index) if chunk[index] == b'\\' => {
                self.escaped = true;
                index + 1
            }
            Some(index) => {
                self.in_string = false;
                self.is_done = self.depth == 0;
                index + 1
            }
        }
    }
}

/// Returns a JSON string without its quotes. Escapes are not decoded, because no selected member name contains one.
fn strip_quotes(name: &[u8]) -> &[u8] {
    name.strip_prefix(b"\"").and_then(|inner| inner.strip_suffix(b"\"")).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the pieces of `json` with several buffer sizes. The member `list` is selected by element and `whole` as
    /// one piece.
    fn check(json: &str, expected: &[&str]) {
        for capacity in [1, 2, 3, 7, 4096] {
            let mut walk = JsonWalker::new(BufReader::with_capacity(capacity, json.as_bytes()));
            let mut pieces = Vec::new();
            loop {
                let select = |key: &str| match key {
                    "list" => FieldSelector::Elements,
                    "whole" => FieldSelector::Whole,
                    _ => FieldSelector::Skip,
                };
                match walk.next_piece(select).unwrap() {
                    JsonPiece::End => break,
                    JsonPiece::Damaged { line, .. } => pieces.push(format!("damaged {line}")),
                    JsonPiece::Member { key, bytes, line } | JsonPiece::Element { key, bytes, line } => {
                        pieces.push(format!("{line} {key} {}", String::from_utf8(bytes).unwrap()));
                    }
                }
            }
            assert_eq!(pieces, expected, "{json} in buffers of {capacity}");
        }
    }

    #[test]
    fn pieces_do_not_depend_on_the_buffer_size() {
        check("[]", &[]);
        check("", &[]);
        check("[1, \"a\\\"]\" ,{\"b\":[2]}\n,[3]]", &["1  1", "1  \"a\\\"]\"", "1  {\"b\":[2]}", "2  [3]"]);
        check(
            "{\"x\":{\"list\":[1]},\n\"list\":[1,\n2],\"whole\":7}",
            &["2 list 1", "3 list 2", "3 whole 7"],
        );
        check("{\"list\":null,\"whole\":{}}", &["1 list null", "1 whole {}"]);
        check("[1]\n[2]", &["1  1", "2  2"]);
    }

    #[test]
    fn pieces_before_damage_are_returned() {
        check("[1,{\"a\":", &["1  1", "damaged 1"]);
        check("[1,\n", &["1  1", "damaged 2"]);
        check("[1}2]", &["1  1", "damaged 1"]);
        check("{\"list\":[1", &["damaged 1"]);
        check("{list:[1]}", &["damaged 1"]);
        check("{\"list\" [1]}", &["damaged 1"]);
        check("text", &["damaged 1"]);
    }
}
