//! A moment in the past, as a person names it: a date, a time, or how long ago. The present comes in as an argument.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// A moment in the past. Without an offset it is in UTC, as everything that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    At(Timestamp),
    /// That time of the present day.
    Today(Time),
    /// That long before the present.
    Ago(SignedDuration),
}

impl When {
    /// Reads it.
    ///
    /// # Errors
    /// When it is none; the text says what can be written.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let at = |moment: DateTime| moment.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp());
        let found = span(text)
            .map(Self::Ago)
            .or_else(|| text.parse::<Timestamp>().ok().map(Self::At))
            .or_else(|| {
                text.parse::<Date>()
                    .ok()
                    .and_then(|date| at(date.into()))
                    .map(Self::At)
                    .filter(|_| text.len() == 10)
            })
            .or_else(|| text.parse::<DateTime>().ok().and_then(at).map(Self::At))
            .or_else(|| text.parse::<Time>().ok().map(Self::Today));
        found.ok_or_else(|| {
            format!("`{text}` is no time; write 2026-03-01, 2026-03-01T09:30, 09:30, or 30m, 12h, 7d, 2w")
        })
    }

    /// Returns the moment, seen from `now`.
    pub(crate) fn seen_from(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Today(time) => {
                let today = now.to_zoned(TimeZone::UTC).date().to_datetime(time);
                today.to_zoned(TimeZone::UTC).map_or(now, |zoned| zoned.timestamp())
            }
            // What would be before the beginning of time is everything.
            Self::Ago(span) => now.checked_sub(span).unwrap_or(Timestamp::MIN),
        }
    }
}

/// Reads a number with its unit.
fn span(text: &str) -> Option<SignedDuration> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let hours: i64 = match unit {
        "m" | "min" => return Some(SignedDuration::from_mins(number.parse::<u32>().ok()?.into())),
        "h" => 1,
        "d" => 24,
        "w" => 7 * 24,
        _ => return None,
    };
    Some(SignedDuration::from_hours(i64::from(number.parse::<u32>().ok()?) * hours))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_date_a_time_or_how_long_ago() {
        let now: Timestamp = "2026-11-22T10:00:00Z".parse().unwrap();
        let check = |text: &str, expected: Option<&str>| {
            let seen = When::read(text).ok().map(|when| when.seen_from(now).to_string());
            assert_eq!(seen.as_deref(), expected, "{text}");
        };
        check("2026-03-01", Some("2026-03-01T00:00:00Z"));
        check("2026-03-01T09:30", Some("2026-03-01T09:30:00Z"));
        check("2026-03-01 09:30", Some("2026-03-01T09:30:00Z"));
        check("2026-03-01T09:30:00+02:00", Some("2026-03-01T07:30:00Z"));
        check("09:30", Some("2026-11-22T09:30:00Z"));
        check("30m", Some("2026-11-22T09:30:00Z"));
        check("12h", Some("2026-11-21T22:00:00Z"));
        check("7d", Some("2026-11-15T10:00:00Z"));
        check("2w", Some("2026-11-08T10:00:00Z"));
        for wrong in ["", "7", "d", "7y", "-7d", "yesterday", "2026-13-01", "99999999999d", "2026-02-30"] {
            check(wrong, None);
        }
        check("4000000000w", Some("-009999-01-02T01:59:59Z"));
    }
}
