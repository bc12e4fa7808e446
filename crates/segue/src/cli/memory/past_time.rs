//! Points in time in the past, as a person types them: a date, a time, or an age. The current time is passed in as an
//! argument.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// A point in time in the past. Without an offset it is in UTC, like all times that Segue shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PastTime {
    /// A date, or a date with a time.
    Instant(Timestamp),
    /// A time of the current day.
    TimeToday(Time),
    /// A duration before the current time.
    Ago(SignedDuration),
}

impl PastTime {
    /// Parses a date, a date with a time, a time, or a duration such as `12h`.
    ///
    /// # Errors
    /// Fails if the text is none of these; the error says what to write instead.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let in_utc = |time: DateTime| time.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp());
        let parsed = parse_span(text)
            .map(Self::Ago)
            .or_else(|| text.parse::<Timestamp>().ok().map(Self::Instant))
            .or_else(|| {
                text.parse::<Date>()
                    .ok()
                    .and_then(|date| in_utc(date.into()))
                    .map(Self::Instant)
                    .filter(|_| text.len() == 10)
            })
            .or_else(|| text.parse::<DateTime>().ok().and_then(in_utc).map(Self::Instant))
            .or_else(|| text.parse::<Time>().ok().map(Self::TimeToday));
        parsed.ok_or_else(|| {
            format!(
                "`{text}` is not a valid time; write 2026-03-01, 2026-03-01T09:30, 09:30, or 30m, 12h, 7d, 2w"
            )
        })
    }

    /// Returns the point in time, relative to `now`.
    pub(crate) fn resolve(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Instant(instant) => instant,
            Self::TimeToday(time) => {
                let today = now.to_zoned(TimeZone::UTC).date().to_datetime(time);
                today.to_zoned(TimeZone::UTC).map_or(now, |zoned| zoned.timestamp())
            }
            // A duration that reaches before the first representable time includes everything.
            Self::Ago(span) => now.checked_sub(span).unwrap_or(Timestamp::MIN),
        }
    }
}

/// Parses a number with the unit m, min, h, d or w.
fn parse_span(text: &str) -> Option<SignedDuration> {
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
    fn a_past_time_is_a_date_a_time_or_an_age() {
        let now: Timestamp = "2026-11-22T10:00:00Z".parse().unwrap();
        let check = |text: &str, expected: Option<&str>| {
            let resolved = PastTime::parse(text).ok().map(|when| when.resolve(now).to_string());
            assert_eq!(resolved.as_deref(), expected, "{text}");
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
        for invalid in ["", "7", "d", "7y", "-7d", "yesterday", "2026-13-01", "99999999999d", "2026-02-30"] {
            check(invalid, None);
        }
        check("4000000000w", Some("-009999-01-02T01:59:59Z"));
    }
}
