//! Deserializers for scalars that other programs write in more than one type: an id as text or number, a time as text
//! or as milliseconds. A value of any other type is read as absent, so that it never makes its record unreadable.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Largest number that is read as seconds; a larger number is milliseconds. The limit is the year 2286 in seconds and
/// 1970-04-26 in milliseconds.
const SECONDS_MAX: i64 = 10_000_000_000;

/// Reads a string; numbers and booleans are converted to text.
pub(crate) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => Some(text),
        Value::Bool(flag) => Some(flag.to_string()),
        // `1.0` and `1` must give the same id, so the fraction of a whole number is dropped.
        Value::Number(number) if number.is_f64() => number.as_f64().map(|number| number.to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    })
}

/// Reads a boolean; any other value is `false`.
pub(crate) fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(Value::deserialize(deserializer)? == Value::Bool(true))
}

/// Reads a time that is a string, or a number of seconds or milliseconds since the Unix epoch.
pub(crate) fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => parse_time(&text),
        Value::Number(number) => match number.as_i64() {
            Some(number) => number_time(number),
            None => number.as_f64().and_then(fraction_time),
        },
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    })
}

/// Parses a time in RFC 3339 form, or a date and time without a time zone, which is taken as UTC.
pub(crate) fn parse_time(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    text.parse().ok().or_else(|| {
        text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
    })
}

/// Returns the time of a number of seconds or milliseconds. Zero is read as absent.
fn number_time(number: i64) -> Option<Timestamp> {
    match number {
        0 => None,
        _ if number.unsigned_abs() > SECONDS_MAX.unsigned_abs() => Timestamp::from_millisecond(number).ok(),
        _ => Timestamp::from_second(number).ok(),
    }
}

/// Returns the time of a fractional number of seconds or milliseconds, in whole milliseconds.
#[expect(clippy::cast_possible_truncation, reason = "a time out of range is absent, truncated or not")]
fn fraction_time(number: f64) -> Option<Timestamp> {
    match number.abs() > SECONDS_MAX as f64 {
        true => number_time(number as i64),
        false => Timestamp::from_millisecond((number * 1000.0) as i64).ok(),
    }
}
