//! Large JSON values, piece by piece: the members of its object and the elements of the arrays that the caller wants
//! singly. It finds where pieces begin and end; whether a piece is valid is found out by whoever decodes it.

use std::fs::File;
use std::io::{BufRead, BufReader, Result};

use memchr::memchr2;

use crate::error::Error;
use crate::json::{READ_BUFFER_BYTES, RECORD_BYTES_MAX};
use crate::sink_writer::SinkWriter;
use crate::source::TranscriptSource;

/// The caller's choice for a member of the top object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldSelector {
    Skip,
    /// Its value in one piece.
    Whole,
    /// Its elements one after the other; in one piece when it is no array.
    Elements,
}

/// A piece of the value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum JsonPiece {
    /// The value of a wanted member.
    Member {
        key: String,
        bytes: Vec<u8>,
        line: u64,
    },
    /// An element of the top array or of a wanted member.
    Element {
        /// The name of the member; empty for the top array.
        key: String,
        bytes: Vec<u8>,
        line: u64,
    },
    /// Something that cannot be read; the walk goes on if more follows.
    Damaged {
        reason: String,
        line: u64,
    },
    End,
}

/// A walk over one JSON value, or over several that follow each other.
pub(crate) struct JsonWalker<R> {
    reader: R,
    position: WalkPosition,
    line: u64,
    /// Bytes consumed so far.
    pub(crate) bytes: u64,
    /// How many top values have been begun.
    pub(crate) values: u64,
}

/// Where in the value the walk stands.
enum WalkPosition {
    /// Before a top value.
    Start,
    InObject,
    /// In the array of a member, or in the top array when `key` is `None`.
    InArray {
        key: Option<String>,
    },
    /// Nothing that follows can be read.
    Done,
}

/// How reading one value ended.
enum ReadOutcome {
    Whole(Vec<u8>),
    TooLong(u64),
    Truncated,
}

/// Receives the name and the bytes of each wanted piece.
pub(crate) type PieceHandler<'e> =
    dyn FnMut(&str, &[u8], &mut SinkWriter<'_>) -> std::result::Result<(), Error> + 'e;

pub(crate) fn open_walker(
    source: &TranscriptSource,
) -> std::result::Result<JsonWalker<BufReader<File>>, Error> {
    Ok(JsonWalker::new(BufReader::with_capacity(READ_BUFFER_BYTES, source.open()?)))
}

/// Walks `source` and gives every wanted piece to `each`; damaged ones are reported and skipped.
pub(crate) fn for_each_piece(
    source: &TranscriptSource,
    out: &mut SinkWriter<'_>,
    wants: impl Fn(&str) -> FieldSelector,
    each: &mut PieceHandler<'_>,
) -> std::result::Result<(), Error> {
    let mut walk = open_walker(source)?;
    loop {
        let piece = walk.next_piece(&wants).map_err(|error| source.io_error(error))?;
        if !deliver_piece(piece, out, each)? {
            return Ok(());
        }
        out.report_progress(walk.bytes);
    }
}

/// Walks `bytes`, a piece that was taken whole, like [`each`].
pub(crate) fn for_each_piece_in(
    bytes: &[u8],
    out: &mut SinkWriter<'_>,
    wants: impl Fn(&str) -> FieldSelector,
    each: &mut PieceHandler<'_>,
) -> std::result::Result<(), Error> {
    let mut walk = JsonWalker::new(bytes);
    walk.line = out.line();
    // Reading from memory cannot fail.
    while let Ok(piece) = walk.next_piece(&wants) {
        if !deliver_piece(piece, out, each)? {
            break;
        }
    }
    Ok(())
}

/// Returns the first value of the member `key` of the top object in `source`.
pub(crate) fn read_member(
    source: &TranscriptSource,
    key: &str,
) -> std::result::Result<Option<Vec<u8>>, Error> {
    let mut walk = open_walker(source)?;
    let wants = |name: &str| if name == key { FieldSelector::Whole } else { FieldSelector::Skip };
    loop {
        match walk.next_piece(wants).map_err(|error| source.io_error(error))? {
            JsonPiece::Member { bytes, .. } => return Ok(Some(bytes)),
            JsonPiece::End => return Ok(None),
            JsonPiece::Element { .. } | JsonPiece::Damaged { .. } => {}
        }
    }
}

/// Returns whether the top object in `source` has an array `key` with at least one element.
pub(crate) fn has_elements(source: &TranscriptSource, key: &str) -> std::result::Result<bool, Error> {
    let mut walk = open_walker(source)?;
    let wants = |name: &str| if name == key { FieldSelector::Elements } else { FieldSelector::Skip };
    loop {
        match walk.next_piece(wants).map_err(|error| source.io_error(error))? {
            JsonPiece::Element { key: found, .. } if found == key => return Ok(true),
            JsonPiece::Element { .. } | JsonPiece::End => return Ok(false),
            JsonPiece::Member { .. } | JsonPiece::Damaged { .. } => {}
        }
    }
}

/// Gives a piece to `each`, or its damage to the report; returns whether more may follow.
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
    /// Returns a walk over the values in `reader`.
    pub(crate) const fn new(reader: R) -> Self {
        Self { reader, position: WalkPosition::Start, line: 1, bytes: 0, values: 0 }
    }

    /// Returns the next piece; `wants` says which members of the top object are wanted.
    pub(crate) fn next_piece(&mut self, wants: impl Fn(&str) -> FieldSelector) -> Result<JsonPiece> {
        loop {
            let found = match std::mem::replace(&mut self.position, WalkPosition::Done) {
                WalkPosition::Done => return Ok(JsonPiece::End),
                WalkPosition::Start => self.enter_value()?,
                WalkPosition::InObject => self.next_member(&wants)?,
                WalkPosition::InArray { key } => self.next_element(key)?,
            };
            if let Some(piece) = found {
                return Ok(piece);
            }
        }
    }

    /// Enters the top value.
    fn enter_value(&mut self) -> Result<Option<JsonPiece>> {
        let mut first = self.peek_byte()?;
        // A byte order mark.
        while matches!(first, Some(0xef | 0xbb | 0xbf)) {
            self.skip(1);
            first = self.peek_byte()?;
        }
        match first {
            Some(b'{') => self.position = WalkPosition::InObject,
            Some(b'[') => self.position = WalkPosition::InArray { key: None },
            Some(_) => return Ok(Some(self.damaged_piece("skipped what is neither an object nor an array"))),
            None => return Ok(Some(JsonPiece::End)),
        }
        self.skip(1);
        self.values += 1;
        Ok(None)
    }

    /// Reads the next member of the top object.
    fn next_member(&mut self, wants: &impl Fn(&str) -> FieldSelector) -> Result<Option<JsonPiece>> {
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
            Some(_) => return Ok(Some(self.damaged_piece("skipped the rest: a name was expected"))),
            None => return Ok(Some(self.truncated_piece())),
        }
        let ReadOutcome::Whole(name) = self.read_value(ValueCapture::Bytes)? else {
            return Ok(Some(self.truncated_piece()));
        };
        let key = String::from_utf8_lossy(strip_quotes(&name)).into_owned();
        if self.peek_byte()? != Some(b':') {
            return Ok(Some(self.damaged_piece("skipped the rest: a colon was expected")));
        }
        self.skip(1);
        let is_array = self.peek_byte()? == Some(b'[');
        match wants(&key) {
            FieldSelector::Elements if is_array => {
                self.skip(1);
                self.position = WalkPosition::InArray { key: Some(key) };
                Ok(None)
            }
            FieldSelector::Elements | FieldSelector::Whole => {
                let line = self.line;
                let taken = self.read_value(ValueCapture::Bytes)?;
                Ok(Some(self.outcome_piece(taken, WalkPosition::InObject, |bytes| JsonPiece::Member {
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

    /// Reads the next element of the array the walk is in.
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
            Some(b'}' | b':') => Ok(Some(self.damaged_piece("skipped the rest: an element was expected"))),
            None => Ok(Some(self.truncated_piece())),
            Some(_) => {
                let line = self.line;
                let taken = self.read_value(ValueCapture::Bytes)?;
                let name = key.clone().unwrap_or_default();
                let place = WalkPosition::InArray { key };
                Ok(Some(self.outcome_piece(taken, place, |bytes| JsonPiece::Element {
                    key: name,
                    bytes,
                    line,
                })))
            }
        }
    }

    /// Turns a taken value into a piece and goes on at `place`.
    fn outcome_piece(
        &mut self,
        taken: ReadOutcome,
        place: WalkPosition,
        piece: impl FnOnce(Vec<u8>) -> JsonPiece,
    ) -> JsonPiece {
        match taken {
            ReadOutcome::Truncated => self.truncated_piece(),
            ReadOutcome::TooLong(bytes) => {
                self.position = place;
                self.damaged_piece(&super::lines::record_too_long_text(bytes))
            }
            ReadOutcome::Whole(bytes) => {
                self.position = place;
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

    /// Returns the next byte that is not white space, without taking it.
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

    fn skip(&mut self, bytes: usize) {
        self.reader.consume(bytes);
        self.bytes += bytes as u64;
    }

    /// Takes one whole value.
    fn read_value(&mut self, keep: ValueCapture) -> Result<ReadOutcome> {
        let mut scan = ValueScanner::default();
        let mut value = Vec::new();
        let mut length: u64 = 0;
        loop {
            let chunk = self.reader.fill_buf()?;
            if chunk.is_empty() {
                return Ok(ReadOutcome::Truncated);
            }
            let used = scan.feed(chunk);
            length += used as u64;
            if keep == ValueCapture::Bytes && length <= RECORD_BYTES_MAX as u64 {
                value.extend_from_slice(&chunk[..used]);
            }
            self.skip(used);
            if scan.is_done {
                break;
            }
        }
        self.line += scan.newlines;
        if keep == ValueCapture::Bytes && length > RECORD_BYTES_MAX as u64 {
            return Ok(ReadOutcome::TooLong(length));
        }
        Ok(ReadOutcome::Whole(value))
    }
}

/// Selects whether the bytes of a value are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueCapture {
    Bytes,
    Discard,
}

/// Finds the end of one JSON value in chunks.
#[derive(Default)]
struct ValueScanner {
    depth: u64,
    in_string: bool,
    escaped: bool,
    has_started: bool,
    is_done: bool,
    newlines: u64,
}

impl ValueScanner {
    /// Looks at the next bytes and returns how many belong to the value; sets `done` at its end.
    fn feed(&mut self, chunk: &[u8]) -> usize {
        let mut at = 0;
        while at < chunk.len() && !self.is_done {
            if self.in_string {
                at += self.feed_string(&chunk[at..]);
                continue;
            }
            match chunk[at] {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' if self.depth == 0 => {
                    self.is_done = true;
                    return at;
                }
                b'}' | b']' => {
                    self.depth -= 1;
                    self.is_done = self.depth == 0;
                }
                b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' if self.depth == 0 && self.has_started => {
                    self.is_done = true;
                    return at;
                }
                b'\n' => self.newlines += 1,
                _ => {}
            }
            self.has_started = true;
            at += 1;
        }
        at
    }

    /// Looks at bytes inside a string and returns how many were used.
    fn feed_string(&mut self, chunk: &[u8]) -> usize {
        if std::mem::take(&mut self.escaped) {
            return 1;
        }
        match memchr2(b'"', b'\\', chunk) {
            None => chunk.len(),
            Some(at) if chunk[at] == b'\\' => {
                self.escaped = true;
                at + 1
            }
            Some(at) => {
                self.in_string = false;
                self.is_done = self.depth == 0;
                at + 1
            }
        }
    }
}

/// Returns a JSON string without its quotes; escapes in names are not read, none of the wanted names has any.
fn strip_quotes(name: &[u8]) -> &[u8] {
    name.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the pieces of `json`, wanting `list` element by element and `whole` in one piece, read in buffers of any
    /// size.
    fn check(json: &str, expected: &[&str]) {
        for capacity in [1, 2, 3, 7, 4096] {
            let mut walk = JsonWalker::new(BufReader::with_capacity(capacity, json.as_bytes()));
            let mut found = Vec::new();
            loop {
                let wants = |key: &str| match key {
                    "list" => FieldSelector::Elements,
                    "whole" => FieldSelector::Whole,
                    _ => FieldSelector::Skip,
                };
                match walk.next_piece(wants).unwrap() {
                    JsonPiece::End => break,
                    JsonPiece::Damaged { line, .. } => found.push(format!("damaged {line}")),
                    JsonPiece::Member { key, bytes, line } | JsonPiece::Element { key, bytes, line } => {
                        found.push(format!("{line} {key} {}", String::from_utf8(bytes).unwrap()));
                    }
                }
            }
            assert_eq!(found, expected, "{json} in buffers of {capacity}");
        }
    }

    #[test]
    fn pieces_are_found_wherever_the_buffer_ends() {
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
    fn damage_keeps_what_came_before() {
        check("[1,{\"a\":", &["1  1", "damaged 1"]);
        check("[1,\n", &["1  1", "damaged 2"]);
        check("[1}2]", &["1  1", "damaged 1"]);
        check("{\"list\":[1", &["damaged 1"]);
        check("{list:[1]}", &["damaged 1"]);
        check("{\"list\" [1]}", &["damaged 1"]);
        check("text", &["damaged 1"]);
    }
}
