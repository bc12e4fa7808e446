//! From bytes to typed records: several glued objects, repairable characters, half-written ends. It reports what it
//! cannot read and never fails for it.

use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Deserializer;

use crate::error::Error;
use crate::json::repair::{RepairedJson, repair_json};
use crate::sink_writer::SinkWriter;

/// Decodes the records in `bytes` and gives each to `each`.
pub(crate) fn decode_records<T: DeserializeOwned>(
    bytes: &[u8],
    out: &mut SinkWriter<'_>,
    each: &mut impl FnMut(T, &mut SinkWriter<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    decode_with(repair_json, bytes, out, each)
}

/// Decodes the records in `bytes`; what `repair` returns was repaired once and is not repaired again.
fn decode_with<T: DeserializeOwned>(
    repair: fn(&[u8]) -> Option<RepairedJson>,
    bytes: &[u8],
    out: &mut SinkWriter<'_>,
    each: &mut impl FnMut(T, &mut SinkWriter<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut rest = trim_start(bytes);
    while !rest.is_empty() {
        let mut values = Deserializer::from_slice(rest).into_iter::<T>();
        match values.next() {
            None => return Ok(()),
            Some(Ok(record)) => {
                let end = values.byte_offset();
                each(record, out)?;
                rest = trim_start(&rest[end..]);
            }
            Some(Err(error)) => match repair(rest) {
                Some(repaired) => {
                    out.report_problem(repaired.reason);
                    return decode_with(|_| None, &repaired.bytes, out, each);
                }
                None => rest = trim_start(skip_damaged(rest, &error, out)),
            },
        }
    }
    Ok(())
}

/// Decodes one record and returns it; `None`, with a report, when it cannot be read.
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

/// Returns whether there is nothing but white space.
pub(crate) fn is_blank(bytes: &[u8]) -> bool {
    trim_start(bytes).is_empty()
}

/// Reports the record at the start of `rest` and returns what follows it; nothing when its end cannot be found.
fn skip_damaged<'b>(rest: &'b [u8], error: &serde_json::Error, out: &mut SinkWriter<'_>) -> &'b [u8] {
    let mut values = Deserializer::from_slice(rest).into_iter::<IgnoredAny>();
    if let Some(Ok(_)) = values.next() {
        out.report_problem(format!("skipped a record of an unexpected shape: {}", decode_error_text(error)));
        return &rest[values.byte_offset()..];
    }
    let reason = if error.is_eof() {
        "skipped a half-written record: it ends in the middle".to_owned()
    } else {
        format!("skipped what is not JSON: {}", decode_error_text(error))
    };
    out.report_problem(reason);
    &[]
}

/// Returns what is wrong with a record, without the parser's line number: it counts within the record and would be
/// taken for the file's.
fn decode_error_text(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    what.to_owned()
}

/// Returns `bytes` without leading white space, commas between glued records and a byte order mark.
fn trim_start(bytes: &[u8]) -> &[u8] {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let start = bytes.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b','));
    start.map_or(&[], |start| &bytes[start..])
}
