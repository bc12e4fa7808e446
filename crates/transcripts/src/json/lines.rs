//! JSON Lines: one line at a time, split on `\n` only, each decoded into the records it holds. What a record means is
//! the caller's business.

use std::io::{BufRead, BufReader};

use memchr::memchr;
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::json::record::{decode, is_blank};
use crate::json::{READ_BUFFER_BYTES, RECORD_BYTES_MAX};
use crate::output::Output;
use crate::source::Source;

/// Reads every record of `source` in order and gives it to `each`; damaged ones are reported and skipped.
pub(crate) fn read<T: DeserializeOwned>(
    source: &Source,
    out: &mut Output<'_>,
    mut each: impl FnMut(T, &mut Output<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    read_raw(source, out, |line, out| decode(line, out, &mut each))
}

/// Reads every line of `source` that is not blank and gives its bytes to `each`.
pub(crate) fn read_raw(
    source: &Source,
    out: &mut Output<'_>,
    mut each: impl FnMut(&[u8], &mut Output<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut lines = Lines::new(BufReader::with_capacity(READ_BUFFER_BYTES, source.open()?));
    loop {
        match lines.next().map_err(|error| source.io(error))? {
            Line::End => return Ok(()),
            Line::TooLong { bytes } => {
                out.at_line(lines.number);
                out.problem(too_long(bytes));
            }
            Line::Whole(line) => {
                if !is_blank(&line) {
                    out.at_line(lines.number);
                    each(&line, out)?;
                }
                lines.give_back(line);
            }
        }
        out.progress(lines.bytes);
    }
}

/// Returns the report on a record over [`RECORD_BYTES_MAX`].
pub(crate) fn too_long(bytes: u64) -> String {
    format!("skipped a record of {bytes} bytes: over the limit of {RECORD_BYTES_MAX}")
}

/// A reader of lines that reuses one buffer.
pub(crate) struct Lines<R> {
    reader: R,
    buffer: Vec<u8>,
    /// The number of the line last returned, from 1.
    pub(crate) number: u64,
    /// Bytes consumed so far.
    pub(crate) bytes: u64,
}

/// What [`Lines::next`] found.
pub(crate) enum Line {
    /// A line without its `\n`; hand it back with [`Lines::give_back`].
    Whole(Vec<u8>),
    /// A line over the limit; it was skipped.
    TooLong {
        bytes: u64,
    },
    End,
}

impl<R: BufRead> Lines<R> {
    /// Returns the lines of `reader`.
    pub(crate) const fn new(reader: R) -> Self {
        Self { reader, buffer: Vec::new(), number: 0, bytes: 0 }
    }

    pub(crate) fn next(&mut self) -> std::io::Result<Line> {
        let mut line = std::mem::take(&mut self.buffer);
        line.clear();
        let mut length: u64 = 0;
        loop {
            let available = match self.reader.fill_buf() {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            if available.is_empty() && length == 0 {
                return Ok(Line::End);
            }
            let end = memchr(b'\n', available);
            let part = &available[..end.unwrap_or(available.len())];
            length += part.len() as u64;
            if length <= RECORD_BYTES_MAX as u64 {
                line.extend_from_slice(part);
            }
            let used = part.len() + usize::from(end.is_some());
            let done = end.is_some() || available.is_empty();
            self.reader.consume(used);
            self.bytes += used as u64;
            if done {
                break;
            }
        }
        self.number += 1;
        if length > RECORD_BYTES_MAX as u64 {
            return Ok(Line::TooLong { bytes: length });
        }
        Ok(Line::Whole(line))
    }

    /// Takes a line back to reuse its memory.
    pub(crate) fn give_back(&mut self, line: Vec<u8>) {
        self.buffer = line;
    }
}
