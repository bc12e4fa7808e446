//! Scalars that other programs write in more than one type: an id as text or number, a time as text or milliseconds. A
//! value of a wrong type reads as absent, so that it never costs the record.

use std::fmt;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Above this, a number is milliseconds and not seconds: the year 2286 in seconds, 1970-04-26 in milliseconds.
const SECONDS_MAX: i64 = 10_000_000_000;

/// A JSON value reduced to what the loose readers need.
enum Scalar {
    Absent,
    Text(String),
    Integer(i64),
    Float(f64),
    Flag(bool),
}

/// Reads text, or a number or flag as text.
pub(crate) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(match deserializer.deserialize_any(ScalarVisitor)? {
        Scalar::Absent => None,
        Scalar::Text(text) => Some(text),
        Scalar::Integer(number) => Some(number.to_string()),
        Scalar::Float(number) => Some(number.to_string()),
        Scalar::Flag(flag) => Some(flag.to_string()),
    })
}

/// Reads a flag; anything else counts as not set.
pub(crate) fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(matches!(deserializer.deserialize_any(ScalarVisitor)?, Scalar::Flag(true)))
}

/// Reads a time written as text, seconds or milliseconds.
pub(crate) fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    Ok(match deserializer.deserialize_any(ScalarVisitor)? {
        Scalar::Text(text) => parse_time(&text),
        Scalar::Integer(number) => number_time(number),
        #[expect(clippy::cast_possible_truncation, reason = "a time out of range is no time either way")]
        Scalar::Float(number) if number.abs() > SECONDS_MAX as f64 => number_time(number as i64),
        #[expect(clippy::cast_possible_truncation, reason = "a time out of range is no time either way")]
        Scalar::Float(number) => Timestamp::from_millisecond((number * 1000.0) as i64).ok(),
        Scalar::Absent | Scalar::Flag(_) => None,
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

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_str<E>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Scalar, E> {
        Ok(Scalar::Text(text))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Scalar, E> {
        Ok(Scalar::Integer(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Scalar, E> {
        Ok(i64::try_from(number).map_or(Scalar::Text(number.to_string()), Scalar::Integer))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Scalar, E> {
        Ok(Scalar::Float(number))
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Scalar, E> {
        Ok(Scalar::Flag(flag))
    }

    fn visit_unit<E>(self) -> Result<Scalar, E> {
        Ok(Scalar::Absent)
    }

    fn visit_none<E>(self) -> Result<Scalar, E> {
        Ok(Scalar::Absent)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Scalar, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar::Absent)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Scalar, A::Error> {
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::Absent)
    }
}
