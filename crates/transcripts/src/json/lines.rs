//! JSON Lines: one line at a time, split on `\n` only, each decoded into the records it holds. What a record means is
//! the caller's business.

use std::io::{BufRead, BufReader};

use memchr::memchr;
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::json::record::{decode_records, is_blank};
use crate::json::{READ_BUFFER_BYTES, RECORD_BYTES_MAX};
use crate::sink_writer::SinkWriter;
use crate::source::TranscriptSource;

/// Reads every record of `source` in order and gives it to `each`; damaged ones are reported and skipped.
pub(crate) fn read_records<T: DeserializeOwned>(
    source: &TranscriptSource,
    out: &mut SinkWriter<'_>,
    mut each: impl FnMut(T, &mut SinkWriter<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    read_lines(source, out, |line, out| decode_records(line, out, &mut each))
}

/// Reads every line of `source` that is not blank and gives its bytes to `each`.
pub(crate) fn read_lines(
    source: &TranscriptSource,
    out: &mut SinkWriter<'_>,
    mut each: impl FnMut(&[u8], &mut SinkWriter<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut lines = JsonLineReader::new(BufReader::with_capacity(READ_BUFFER_BYTES, source.open()?));
    loop {
        match lines.next_line().map_err(|error| source.io_error(error))? {
            LineReadOutcome::End => return Ok(()),
            LineReadOutcome::TooLong { bytes } => {
                out.set_line(lines.number);
                out.report_problem(record_too_long_text(bytes));
            }
            LineReadOutcome::Whole(line) => {
                if !is_blank(&line) {
                    out.set_line(lines.number);
                    each(&line, out)?;
                }
                lines.recycle_buffer(line);
            }
        }
        out.report_progress(lines.bytes);
    }
}

/// Returns the report on a record over [`RECORD_BYTES_MAX`].
pub(crate) fn record_too_long_text(bytes: u64) -> String {
    format!("skipped a record of {bytes} bytes: over the limit of {RECORD_BYTES_MAX}")
}

/// A reader of lines that reuses one buffer.
pub(crate) struct JsonLineReader<R> {
    reader: R,
    buffer: Vec<u8>,
    /// The number of the line last returned, from 1.
    pub(crate) number: u64,
    /// Bytes consumed so far.
    pub(crate) bytes: u64,
}

/// The outcome of [`Lines::next`].
pub(crate) enum LineReadOutcome {
    /// A line without its `\n`; hand it back with [`Lines::give_back`].
    Whole(Vec<u8>),
    /// A line over the limit; it was skipped.
    TooLong {
        bytes: u64,
    },
    End,
}

impl<R: BufRead> JsonLineReader<R> {
    /// Returns the lines of `reader`.
    pub(crate) const fn new(reader: R) -> Self {
        Self { reader, buffer: Vec::new(), number: 0, bytes: 0 }
    }

    pub(crate) fn next_line(&mut self) -> std::io::Result<LineReadOutcome> {
        let mut line = std::mem::take(&mut self.buffer);
        line.clear();
        let mut length: u64 = 0;
        loop {
            let available = match self.reader.fill_buf() {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            if available.is_empty() && length == 0 {
                return Ok(LineReadOutcome::End);
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
            return Ok(LineReadOutcome::TooLong { bytes: length });
        }
        Ok(LineReadOutcome::Whole(line))
    }

    /// Takes a line back to reuse its memory.
    pub(crate) fn recycle_buffer(&mut self, line: Vec<u8>) {
        self.buffer = line;
    }
}
