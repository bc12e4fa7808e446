//! The one format of points in time. This file reads no clock.

use jiff::Timestamp;

/// Returns the date, hour and minute in UTC, such as `2025-03-01 14:05`.
pub fn format_minute(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_in_time_is_shown_to_the_minute() {
        assert_eq!(format_minute("2026-11-21T10:02:59.5Z".parse().unwrap()), "2026-11-21 10:02");
    }
}
