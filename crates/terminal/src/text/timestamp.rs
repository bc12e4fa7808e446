//! When something was, as a person reads it: one way everywhere. It knows no clock.

use jiff::Timestamp;

/// Returns the day and the minute, in UTC.
pub fn format_minute(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_told_to_the_minute() {
        assert_eq!(format_minute("2026-11-21T10:02:59.5Z".parse().unwrap()), "2026-11-21 10:02");
    }
}
