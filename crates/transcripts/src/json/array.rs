//! Large JSON values, piece by piece: the members of its object and the elements of the arrays that the caller wants
//! singly. It finds where pieces begin and end; whether a piece is valid is found out by whoever decodes it.

use std::fs::File;
use std::io::{BufRead, BufReader, Result};

use memchr::memchr2;

use crate::error::Error;
use crate::json::{READ_BUFFER_BYTES, RECORD_BYTES_MAX};
use crate::output::Output;
use crate::source::Source;

/// What the caller wants of a member of the top object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    Skip,
    /// Its value in one piece.
    Whole,
    /// Its elements one after the other; in one piece when it is no array.
    Elements,
}

/// A piece of the value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
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
pub(crate) struct Walk<R> {
    reader: R,
    place: Place,
    line: u64,
    /// Bytes consumed so far.
    pub(crate) bytes: u64,
    /// How many top values have been begun.
    pub(crate) values: u64,
}

/// Where in the value the walk stands.
enum Place {
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
enum Taken {
    Whole(Vec<u8>),
    TooLong(u64),
    CutOff,
}

/// Receives the name and the bytes of each wanted piece.
pub(crate) type Each<'e> = dyn FnMut(&str, &[u8], &mut Output<'_>) -> std::result::Result<(), Error> + 'e;

pub(crate) fn open(source: &Source) -> std::result::Result<Walk<BufReader<File>>, Error> {
    Ok(Walk::new(BufReader::with_capacity(READ_BUFFER_BYTES, source.open()?)))
}

/// Walks `source` and gives every wanted piece to `each`; damaged ones are reported and skipped.
pub(crate) fn each(
    source: &Source,
    out: &mut Output<'_>,
    wants: impl Fn(&str) -> Wanted,
    each: &mut Each<'_>,
) -> std::result::Result<(), Error> {
    let mut walk = open(source)?;
    loop {
        let piece = walk.next(&wants).map_err(|error| source.io(error))?;
        if !hand_over(piece, out, each)? {
            return Ok(());
        }
        out.progress(walk.bytes);
    }
}

/// Walks `bytes`, a piece that was taken whole, like [`each`].
pub(crate) fn each_in(
    bytes: &[u8],
    out: &mut Output<'_>,
    wants: impl Fn(&str) -> Wanted,
    each: &mut Each<'_>,
) -> std::result::Result<(), Error> {
    let mut walk = Walk::new(bytes);
    walk.line = out.line();
    // Reading from memory cannot fail.
    while let Ok(piece) = walk.next(&wants) {
        if !hand_over(piece, out, each)? {
            break;
        }
    }
    Ok(())
}

/// Returns the first value of the member `key` of the top object in `source`.
pub(crate) fn member(source: &Source, key: &str) -> std::result::Result<Option<Vec<u8>>, Error> {
    let mut walk = open(source)?;
    let wants = |name: &str| if name == key { Wanted::Whole } else { Wanted::Skip };
    loop {
        match walk.next(wants).map_err(|error| source.io(error))? {
            Piece::Member { bytes, .. } => return Ok(Some(bytes)),
            Piece::End => return Ok(None),
            Piece::Element { .. } | Piece::Damaged { .. } => {}
        }
    }
}

/// Returns whether the top object in `source` has an array `key` with at least one element.
pub(crate) fn has_elements(source: &Source, key: &str) -> std::result::Result<bool, Error> {
    let mut walk = open(source)?;
    let wants = |name: &str| if name == key { Wanted::Elements } else { Wanted::Skip };
    loop {
        match walk.next(wants).map_err(|error| source.io(error))? {
            Piece::Element { key: found, .. } if found == key => return Ok(true),
            Piece::Element { .. } | Piece::End => return Ok(false),
            Piece::Member { .. } | Piece::Damaged { .. } => {}
        }
    }
}

/// Gives a piece to `each`, or its damage to the report; returns whether more may follow.
fn hand_over(piece: Piece, out: &mut Output<'_>, each: &mut Each<'_>) -> std::result::Result<bool, Error> {
    match piece {
        Piece::End => return Ok(false),
        Piece::Member { key, bytes, line } | Piece::Element { key, bytes, line } => {
            out.at_line(line);
            each(&key, &bytes, out)?;
        }
        Piece::Damaged { reason, line } => {
            out.at_line(line);
            out.problem(reason);
        }
    }
    Ok(true)
}

impl<R: BufRead> Walk<R> {
    /// Returns a walk over the values in `reader`.
    pub(crate) const fn new(reader: R) -> Self {
        Self { reader, place: Place::Start, line: 1, bytes: 0, values: 0 }
    }

    /// Returns the next piece; `wants` says which members of the top object are wanted.
    pub(crate) fn next(&mut self, wants: impl Fn(&str) -> Wanted) -> Result<Piece> {
        loop {
            let found = match std::mem::replace(&mut self.place, Place::Done) {
                Place::Done => return Ok(Piece::End),
                Place::Start => self.start()?,
                Place::InObject => self.member(&wants)?,
                Place::InArray { key } => self.element(key)?,
            };
            if let Some(piece) = found {
                return Ok(piece);
            }
        }
    }

    /// Enters the top value.
    fn start(&mut self) -> Result<Option<Piece>> {
        let mut first = self.peek()?;
        // A byte order mark.
        while matches!(first, Some(0xef | 0xbb | 0xbf)) {
            self.skip(1);
            first = self.peek()?;
        }
        match first {
            Some(b'{') => self.place = Place::InObject,
            Some(b'[') => self.place = Place::InArray { key: None },
            Some(_) => return Ok(Some(self.damaged("skipped what is neither an object nor an array"))),
            None => return Ok(Some(Piece::End)),
        }
        self.skip(1);
        self.values += 1;
        Ok(None)
    }

    /// Reads the next member of the top object.
    fn member(&mut self, wants: &impl Fn(&str) -> Wanted) -> Result<Option<Piece>> {
        match self.peek()? {
            Some(b',') => {
                self.skip(1);
                self.place = Place::InObject;
                return Ok(None);
            }
            Some(b'}') => {
                self.skip(1);
                self.place = Place::Start;
                return Ok(None);
            }
            Some(b'"') => {}
            Some(_) => return Ok(Some(self.damaged("skipped the rest: a name was expected"))),
            None => return Ok(Some(self.cut_off())),
        }
        let Taken::Whole(name) = self.take(Keep::Bytes)? else { return Ok(Some(self.cut_off())) };
        let key = String::from_utf8_lossy(unquoted(&name)).into_owned();
        if self.peek()? != Some(b':') {
            return Ok(Some(self.damaged("skipped the rest: a colon was expected")));
        }
        self.skip(1);
        let is_array = self.peek()? == Some(b'[');
        match wants(&key) {
            Wanted::Elements if is_array => {
                self.skip(1);
                self.place = Place::InArray { key: Some(key) };
                Ok(None)
            }
            Wanted::Elements | Wanted::Whole => {
                let line = self.line;
                let taken = self.take(Keep::Bytes)?;
                Ok(Some(self.finish(taken, Place::InObject, |bytes| Piece::Member { key, bytes, line })))
            }
            Wanted::Skip => match self.take(Keep::Nothing)? {
                Taken::CutOff => Ok(Some(self.cut_off())),
                Taken::Whole(_) | Taken::TooLong(_) => {
                    self.place = Place::InObject;
                    Ok(None)
                }
            },
        }
    }

    /// Reads the next element of the array the walk is in.
    fn element(&mut self, key: Option<String>) -> Result<Option<Piece>> {
        match self.peek()? {
            Some(b',') => {
                self.skip(1);
                self.place = Place::InArray { key };
                Ok(None)
            }
            Some(b']') => {
                self.skip(1);
                self.place = if key.is_some() { Place::InObject } else { Place::Start };
                Ok(None)
            }
            Some(b'}' | b':') => Ok(Some(self.damaged("skipped the rest: an element was expected"))),
            None => Ok(Some(self.cut_off())),
            Some(_) => {
                let line = self.line;
                let taken = self.take(Keep::Bytes)?;
                let name = key.clone().unwrap_or_default();
                let place = Place::InArray { key };
                Ok(Some(self.finish(taken, place, |bytes| Piece::Element { key: name, bytes, line })))
            }
        }
    }

    /// Turns a taken value into a piece and goes on at `place`.
    fn finish(&mut self, taken: Taken, place: Place, piece: impl FnOnce(Vec<u8>) -> Piece) -> Piece {
        match taken {
            Taken::CutOff => self.cut_off(),
            Taken::TooLong(bytes) => {
                self.place = place;
                self.damaged(&super::lines::too_long(bytes))
            }
            Taken::Whole(bytes) => {
                self.place = place;
                piece(bytes)
            }
        }
    }

    fn cut_off(&self) -> Piece {
        self.damaged("skipped a half-written record: the file ends in the middle")
    }

    fn damaged(&self, reason: &str) -> Piece {
        Piece::Damaged { reason: reason.to_owned(), line: self.line }
    }

    /// Returns the next byte that is not white space, without taking it.
    fn peek(&mut self) -> Result<Option<u8>> {
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
    fn take(&mut self, keep: Keep) -> Result<Taken> {
        let mut scan = Scan::default();
        let mut value = Vec::new();
        let mut length: u64 = 0;
        loop {
            let chunk = self.reader.fill_buf()?;
            if chunk.is_empty() {
                return Ok(Taken::CutOff);
            }
            let used = scan.feed(chunk);
            length += used as u64;
            if keep == Keep::Bytes && length <= RECORD_BYTES_MAX as u64 {
                value.extend_from_slice(&chunk[..used]);
            }
            self.skip(used);
            if scan.done {
                break;
            }
        }
        self.line += scan.lines;
        if keep == Keep::Bytes && length > RECORD_BYTES_MAX as u64 {
            return Ok(Taken::TooLong(length));
        }
        Ok(Taken::Whole(value))
    }
}

/// Whether the bytes of a value are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keep {
    Bytes,
    Nothing,
}

/// Finds the end of one JSON value in chunks.
#[derive(Default)]
struct Scan {
    depth: u64,
    in_string: bool,
    escaped: bool,
    started: bool,
    done: bool,
    lines: u64,
}

impl Scan {
    /// Looks at the next bytes and returns how many belong to the value; sets `done` at its end.
    fn feed(&mut self, chunk: &[u8]) -> usize {
        let mut at = 0;
        while at < chunk.len() && !self.done {
            if self.in_string {
                at += self.feed_string(&chunk[at..]);
                continue;
            }
            match chunk[at] {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' if self.depth == 0 => {
                    self.done = true;
                    return at;
                }
                b'}' | b']' => {
                    self.depth -= 1;
                    self.done = self.depth == 0;
                }
                b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' if self.depth == 0 && self.started => {
                    self.done = true;
                    return at;
                }
                b'\n' => self.lines += 1,
                _ => {}
            }
            self.started = true;
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
                self.done = self.depth == 0;
                at + 1
            }
        }
    }
}

/// Returns a JSON string without its quotes; escapes in names are not read, none of the wanted names has any.
fn unquoted(name: &[u8]) -> &[u8] {
    name.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the pieces of `json`, wanting `list` element by element and `whole` in one piece, read in buffers of any
    /// size.
    fn check(json: &str, expected: &[&str]) {
        for capacity in [1, 2, 3, 7, 4096] {
            let mut walk = Walk::new(BufReader::with_capacity(capacity, json.as_bytes()));
            let mut found = Vec::new();
            loop {
                let wants = |key: &str| match key {
                    "list" => Wanted::Elements,
                    "whole" => Wanted::Whole,
                    _ => Wanted::Skip,
                };
                match walk.next(wants).unwrap() {
                    Piece::End => break,
                    Piece::Damaged { line, .. } => found.push(format!("damaged {line}")),
                    Piece::Member { key, bytes, line } | Piece::Element { key, bytes, line } => {
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
