//! JSON Lines: reading of one line at a time and decoding of the records in it. Lines end at `\n` only, because JSON
//! strings may contain other Unicode line separators. The caller interprets the records.

use std::io::{BufRead, BufReader};

use memchr::memchr;
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::json::record::{decode_records, is_blank};
use crate::json::{READ_BUFFER_BYTES, RECORD_BYTES_MAX};
use crate::sink_writer::SinkWriter;
use crate::source::TranscriptSource;

/// Reads every record of `source` in order and passes it to `each`. Damaged records are reported and skipped.
///
/// # Errors
/// [`Error::Missing`], [`Error::Folder`] or [`Error::Io`] if the source cannot be read, and any error of `each`.
pub(crate) fn read_records<T: DeserializeOwned>(
    source: &TranscriptSource,
    out: &mut SinkWriter<'_>,
    mut each: impl FnMut(T, &mut SinkWriter<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    read_lines(source, out, |line, out| decode_records(line, out, &mut each))
}

/// Reads every line of `source` that is not blank and passes its bytes to `each`. A line over the limit is reported and
/// skipped.
///
/// # Errors
/// [`Error::Missing`], [`Error::Folder`] or [`Error::Io`] if the source cannot be read, and any error of `each`.
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

/// Returns the text of the problem for a record of `bytes` bytes, which is over [`RECORD_BYTES_MAX`].
pub(crate) fn record_too_long_text(bytes: u64) -> String {
    format!("skipped a record of {bytes} bytes: over the limit of {RECORD_BYTES_MAX}")
}

/// A reader of lines that reuses one buffer.
pub(crate) struct JsonLineReader<R> {
    reader: R,
    /// The buffer for the next line.
    buffer: Vec<u8>,
    /// The number of the last line that was returned, counted from 1; 0 before the first.
    pub(crate) number: u64,
    /// Number of bytes consumed so far: the offset of the next line.
    pub(crate) bytes: u64,
}

/// The outcome of [`JsonLineReader::next_line`].
pub(crate) enum LineReadOutcome {
    /// A line without its `\n`. Pass it to [`JsonLineReader::recycle_buffer`] after use.
    Whole(Vec<u8>),
    /// A line over the limit, which was skipped.
    TooLong {
        /// The length of the line in bytes.
        bytes: u64,
    },
    /// The end of the file.
    End,
}

impl<R: BufRead> JsonLineReader<R> {
    /// Returns a line reader over `reader`.
    pub(crate) const fn new(reader: R) -> Self {
        Self { reader, buffer: Vec::new(), number: 0, bytes: 0 }
    }

    /// Reads the next line. The last line needs no `\n`. Interrupted reads are repeated.
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

    /// Stores a used line, so that the next call reuses its memory.
    pub(crate) fn recycle_buffer(&mut self, line: Vec<u8>) {
        self.buffer = line;
    }
}
