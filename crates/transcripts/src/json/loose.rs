//! Scalars that other programs write in more than one type: an id as text or number, a time as text or milliseconds. A
//! value of a wrong type reads as absent, so that it never costs the record.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Above this, a number is milliseconds and not seconds: the year 2286 in seconds, 1970-04-26 in milliseconds.
const SECONDS_MAX: i64 = 10_000_000_000;

/// Reads text, or a number or flag as text.
pub(crate) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => Some(text),
        Value::Bool(flag) => Some(flag.to_string()),
        // A whole number that is written as a fraction is the same text as the whole number.
        Value::Number(number) if number.is_f64() => number.as_f64().map(|number| number.to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    })
}

/// Reads a flag; anything else counts as not set.
pub(crate) fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(Value::deserialize(deserializer)? == Value::Bool(true))
}

/// Reads a time written as text, seconds or milliseconds.
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

/// Returns the time in `text`: RFC 3339, or a date and time without a zone, which counts as UTC.
pub(crate) fn parse_time(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    text.parse().ok().or_else(|| {
        text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
    })
}

/// Returns the time of a number of seconds or milliseconds.
fn number_time(number: i64) -> Option<Timestamp> {
    match number {
        0 => None,
        _ if number.unsigned_abs() > SECONDS_MAX.unsigned_abs() => Timestamp::from_millisecond(number).ok(),
        _ => Timestamp::from_second(number).ok(),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a time out of range is no time either way")]
fn fraction_time(number: f64) -> Option<Timestamp> {
    match number.abs() > SECONDS_MAX as f64 {
        true => number_time(number as i64),
        false => Timestamp::from_millisecond((number * 1000.0) as i64).ok(),
    }
}
