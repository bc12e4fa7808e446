//! Decoding of bytes to typed records. The bytes may hold several records without a separator, invalid characters and a
//! half-written end. Damage is reported as a problem and never returned as an error.

use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Deserializer;

use crate::error::Error;
use crate::json::repair::{RepairedJson, repair_json};
use crate::sink_writer::SinkWriter;

/// Decodes all records in `bytes` and passes them to `each` in order.
///
/// If a record cannot be decoded, the remaining bytes are repaired once. Without a possible repair the record is
/// reported and skipped. Takes time in proportion to the length of `bytes`.
///
/// # Errors
/// Any error of `each`.
pub(crate) fn decode_records<T: DeserializeOwned>(
    bytes: &[u8],
    out: &mut SinkWriter<'_>,
    each: &mut impl FnMut(T, &mut SinkWriter<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    decode_with(repair_json, bytes, out, each)
}

/// Decodes all records in `bytes` with `repair` for the first record that fails. Repaired bytes are decoded without a
/// further repair, so the recursion is one level deep.
fn decode_with<T: DeserializeOwned>(
    repair: fn(&[u8]) -> Option<RepairedJson>,
    bytes: &[u8],
    out: &mut SinkWriter<'_>,
    each: &mut impl FnMut(T, &mut SinkWriter<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut repair = repair;
    let mut remaining = trim_start(bytes);
    while !remaining.is_empty() {
        let mut values = Deserializer::from_slice(remaining).into_iter::<T>();
        match values.next() {
            None => return Ok(()),
            Some(Ok(record)) => {
                let end = values.byte_offset();
                each(record, out)?;
                remaining = trim_start(&remaining[end..]);
            }
            Some(Err(error)) => match repair(remaining) {
                Some(repaired) => {
                    out.report_problem(repaired.reason);
                    return decode_with(|_| None, &repaired.bytes, out, each);
                }
                None => {
                    // Without a repairable character here, there is none in the records behind this one either.
                    repair = |_| None;
                    remaining = trim_start(skip_damaged(remaining, &error, out));
                }
            },
        }
    }
    Ok(())
}

/// Decodes `bytes` as one record, after a repair if necessary. Returns `None` and reports a problem if that fails.
pub(crate) fn decode_one<T: DeserializeOwned>(bytes: &[u8], out: &mut SinkWriter<'_>) -> Option<T> {
    let error = match serde_json::from_slice(bytes) {
        Ok(record) => return Some(record),
        Err(error) => error,
    };
    if let Some(repaired) = repair_json(bytes) {
        out.report_problem(repaired.reason);
        if let Ok(record) = serde_json::from_slice(&repaired.bytes) {
            return Some(record);
        }
    }
    out.report_problem(format!("skipped a damaged record: {}", decode_error_text(&error)));
    None
}

/// Returns whether `bytes` contain only white space and commas.
pub(crate) fn is_blank(bytes: &[u8]) -> bool {
    trim_start(bytes).is_empty()
}

/// Reports the record at the start of `bytes` as damaged and returns the bytes after it.
///
/// A record that is valid JSON of another shape has a known end. Otherwise the end is unknown, and the result is empty.
fn skip_damaged<'b>(bytes: &'b [u8], error: &serde_json::Error, out: &mut SinkWriter<'_>) -> &'b [u8] {
    let mut values = Deserializer::from_slice(bytes).into_iter::<IgnoredAny>();
    if let Some(Ok(_)) = values.next() {
        out.report_problem(format!("skipped a record of an unexpected shape: {}", decode_error_text(error)));
        return &bytes[values.byte_offset()..];
    }
    let reason = if error.is_eof() {
        "skipped a half-written record: it ends in the middle".to_owned()
    } else {
        format!("skipped text that is not JSON: {}", decode_error_text(error))
    };
    out.report_problem(reason);
    &[]
}

/// Returns the text of a decode error without the parser's line number. That number counts lines of the record, and
/// readers would take it for a line of the file.
fn decode_error_text(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let description = text.rsplit_once(" at line ").map_or(text.as_str(), |(description, _)| description);
    description.to_owned()
}

/// Returns `bytes` without a leading byte order mark, white space and commas between records.
fn trim_start(bytes: &[u8]) -> &[u8] {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let start = bytes.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b','));
    start.map_or(&[], |start| &bytes[start..])
}
