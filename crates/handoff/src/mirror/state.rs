//! How the mirror is doing: when an attempt is made again, when it counts as degraded, and when that is told. Every process
//! sees the same state, which is kept in the journal. Nothing is read or written here.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// Attempts in a row that fail before the mirror counts as degraded.
pub(crate) const ATTEMPTS_MAX: u32 = 3;
/// What is waited for after the first failed attempt; it doubles, and after the last one nothing is waited for.
const PAUSE: Duration = Duration::from_secs(1);
/// How long it is known that a degraded mirror fails as before, without being noted again.
const KNOWN_FOR: SignedDuration = SignedDuration::from_secs(10);

protocol::named_enum! {
    /// Whether accepted summaries reach the mirror (`handoff_store_status`).
    pub enum MirrorStatus {
        /// There is no mirror.
        Off = "off",
        /// They do.
        Ok = "ok",
        /// They do not, and wait in the outbox.
        Degraded = "degraded",
    }
}

/// What is known of the attempts so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct State {
    /// Attempts in a row that failed.
    pub(crate) failures: u32,
    /// When the last of them did.
    pub(crate) failed_at: Option<Timestamp>,
    pub(crate) error: Option<String>,
    /// What to do about it.
    pub(crate) hint: Option<String>,
    /// When the last attempt succeeded.
    pub(crate) delivered_at: Option<Timestamp>,
    /// What was rejected last; it may have been taken since.
    pub(crate) rejected: Option<Rejected>,
}

/// A summary that was not taken because of what is in it, or that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// Its key in the outbox: the handoff, behind `@`, its owner and a slash where it is a user's.
    pub key: String,
    /// Why.
    pub reason: String,
}

/// Something that is told when it happens, and once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It is degraded from here on.
    Degraded,
    /// It works again.
    Recovered,
}

impl State {
    pub(crate) const fn status(&self) -> MirrorStatus {
        match self.failures >= ATTEMPTS_MAX {
            true => MirrorStatus::Degraded,
            false => MirrorStatus::Ok,
        }
    }

    /// Returns the state after an attempt that failed.
    pub(crate) fn failed(&self, error: String, hint: Option<String>, now: Timestamp) -> (Self, Option<Turn>) {
        let next = Self {
            failures: self.failures.saturating_add(1),
            failed_at: Some(now),
            error: Some(error),
            hint,
            delivered_at: self.delivered_at,
            rejected: self.rejected.clone(),
        };
        let turn = (self.status(), next.status());
        (next, (turn == (MirrorStatus::Ok, MirrorStatus::Degraded)).then_some(Turn::Degraded))
    }

    /// Returns the state after an attempt that succeeded.
    pub(crate) fn succeeded(&self, now: Timestamp) -> (Self, Option<Turn>) {
        let (delivered_at, rejected) = (Some(now), self.rejected.clone());
        let next = Self { delivered_at, rejected, ..Self::default() };
        (next, (self.status() == MirrorStatus::Degraded).then_some(Turn::Recovered))
    }

    /// Returns whether `next`, the state after another failure, says nothing that is not known: it need not be kept, for that
    /// would be a commit with each handoff while the mirror is away.
    pub(crate) fn says_as_much_as(&self, next: &Self) -> bool {
        let is_recent = |(last, now): (Timestamp, Timestamp)| now.duration_since(last) < KNOWN_FOR;
        self.status() == MirrorStatus::Degraded
            && self.error == next.error
            && self.failed_at.zip(next.failed_at).is_some_and(is_recent)
    }

    /// Returns how long to wait before the next attempt; `None` when there is none by itself, or nothing has failed.
    pub(crate) const fn pause(&self) -> Option<Duration> {
        match self.failures {
            1 => Some(PAUSE),
            2 => Some(PAUSE.saturating_mul(2)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn g16_three_attempts_wait_one_and_two_seconds_and_nothing_after_the_last() {
        let mut state = State::default();
        let mut seen = Vec::new();
        for second in 1..=5 {
            let (next, turn) = state.failed(format!("try {second}"), None, at(second));
            seen.push((next.pause().map(|pause| pause.as_secs()), next.status(), turn));
            state = next;
        }
        let (ok, degraded) = (MirrorStatus::Ok, MirrorStatus::Degraded);
        let expected = [
            (Some(1), ok, None),
            (Some(2), ok, None),
            (None, degraded, Some(Turn::Degraded)),
            (None, degraded, None),
            (None, degraded, None),
        ];
        assert_eq!(seen, expected);
        assert_eq!((state.error.as_deref(), state.failed_at), (Some("try 5"), Some(at(5))));
    }

    #[test]
    fn g16_of_a_degraded_mirror_the_same_failure_is_noted_once_in_ten_seconds() {
        let check = |failures: u32, error: &str, second: i64, expected: bool| {
            let state = State {
                failures,
                failed_at: Some(at(100)),
                error: Some("gone".to_owned()),
                ..State::default()
            };
            let (next, _) = state.failed(error.to_owned(), None, at(second));
            assert_eq!(state.says_as_much_as(&next), expected, "{failures} {error} {second}");
        };
        check(3, "gone", 109, true);
        check(3, "gone", 110, false);
        check(3, "denied", 101, false);
        check(2, "gone", 101, false);
    }

    #[test]
    fn g16_one_success_ends_a_row_of_failures_and_tells_so_only_when_it_was_degraded() {
        for failures in 0..5 {
            let state = State { failures, error: Some("gone".to_owned()), ..State::default() };
            let (next, turn) = state.succeeded(at(9));
            assert_eq!(next, State { delivered_at: Some(at(9)), ..State::default() });
            assert_eq!(turn, (failures >= 3).then_some(Turn::Recovered), "{failures}");
        }
    }

    #[test]
    fn a_state_of_a_later_version_is_read() {
        let read: State = serde_json::from_str(r#"{"failures":1,"later":true}"#).unwrap();
        assert_eq!(read.failures, 1);
    }
}
