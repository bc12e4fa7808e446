//! The state of the mirror: consecutive failures, retry delays, and the transitions to and from *degraded*.
//!
//! The state is stored in the journal, so that all processes share it. The functions here are pure.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// The number of consecutive failures after which the mirror is degraded.
pub(crate) const DEGRADED_AFTER_FAILURES: u32 = 3;
/// The delay after the first failed attempt. It doubles after the second one; after the third there is no automatic
/// attempt.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// The interval in which the same failure of a degraded mirror is not recorded again.
const FAILURE_NOTE_INTERVAL: SignedDuration = SignedDuration::from_secs(10);

protocol::named_enum! {
    /// The status of the mirror (`handoff_store_status`).
    pub enum MirrorStatus {
        /// No mirror is configured.
        Off = "off",
        /// Accepted summaries reach the mirror.
        Ok = "ok",
        /// Accepted summaries do not reach the mirror and wait in the outbox.
        Degraded = "degraded",
    }
}

/// The record of the attempts so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct MirrorState {
    /// The number of consecutive failed attempts.
    pub(crate) failures: u32,
    /// The time of the last failure, if the last attempt failed.
    pub(crate) failed_at: Option<Timestamp>,
    /// The error of the last attempt, if it failed.
    pub(crate) error: Option<String>,
    /// The advice for that error.
    pub(crate) hint: Option<String>,
    /// The time of the last success.
    pub(crate) delivered_at: Option<Timestamp>,
    /// The summary that was rejected last. It may have been sent since.
    pub(crate) rejected: Option<RejectedSummary>,
}

/// A summary whose row the database rejected because of its content, or that the journal cannot read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RejectedSummary {
    /// The key of its outbox item: the handoff's id, preceded by `@OWNER/` when it belongs to a user.
    pub key: String,
    /// The reason.
    pub reason: String,
}

/// A change of the mirror's status. It is logged once, when it happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatusChange {
    /// The mirror has become degraded.
    Degraded,
    /// The mirror works again.
    Recovered,
}

impl MirrorState {
    /// Returns the status that follows from the number of failures.
    pub(crate) const fn status(&self) -> MirrorStatus {
        match self.failures >= DEGRADED_AFTER_FAILURES {
            true => MirrorStatus::Degraded,
            false => MirrorStatus::Ok,
        }
    }

    /// Returns the state after a failed attempt, and the change of status if there is one.
    pub(crate) fn after_failure(
        &self,
        error: String,
        hint: Option<String>,
        now: Timestamp,
    ) -> (Self, Option<StatusChange>) {
        let next = Self {
            failures: self.failures.saturating_add(1),
            failed_at: Some(now),
            error: Some(error),
            hint,
            delivered_at: self.delivered_at,
            rejected: self.rejected.clone(),
        };
        let statuses = (self.status(), next.status());
        (next, (statuses == (MirrorStatus::Ok, MirrorStatus::Degraded)).then_some(StatusChange::Degraded))
    }

    /// Returns the state after a successful attempt, and the change of status if there is one.
    pub(crate) fn after_success(&self, now: Timestamp) -> (Self, Option<StatusChange>) {
        let (delivered_at, rejected) = (Some(now), self.rejected.clone());
        let next = Self { delivered_at, rejected, ..Self::default() };
        (next, (self.status() == MirrorStatus::Degraded).then_some(StatusChange::Recovered))
    }

    /// Returns whether `next`, the state after another failure, adds no information: the mirror was degraded already
    /// and failed the same way less than [`FAILURE_NOTE_INTERVAL`] ago. Such a state is not stored, because otherwise
    /// every handoff would cause a commit while the database is unreachable.
    pub(crate) fn is_same_failure(&self, next: &Self) -> bool {
        let is_recent =
            |(last, now): (Timestamp, Timestamp)| now.duration_since(last) < FAILURE_NOTE_INTERVAL;
        self.status() == MirrorStatus::Degraded
            && self.error == next.error
            && self.failed_at.zip(next.failed_at).is_some_and(is_recent)
    }

    /// Returns the delay before the next automatic attempt; `None` when nothing has failed or all attempts are used up.
    pub(crate) const fn retry_delay(&self) -> Option<Duration> {
        match self.failures {
            1 => Some(RETRY_DELAY),
            2 => Some(RETRY_DELAY.saturating_mul(2)),
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
    fn g16_the_delays_between_three_attempts_are_one_and_two_seconds() {
        let mut state = MirrorState::default();
        let mut observed = Vec::new();
        for second in 1..=5 {
            let (next, change) = state.after_failure(format!("try {second}"), None, at(second));
            observed.push((next.retry_delay().map(|delay| delay.as_secs()), next.status(), change));
            state = next;
        }
        let (ok, degraded) = (MirrorStatus::Ok, MirrorStatus::Degraded);
        let expected = [
            (Some(1), ok, None),
            (Some(2), ok, None),
            (None, degraded, Some(StatusChange::Degraded)),
            (None, degraded, None),
            (None, degraded, None),
        ];
        assert_eq!(observed, expected);
        assert_eq!((state.error.as_deref(), state.failed_at), (Some("try 5"), Some(at(5))));
    }

    #[test]
    fn g16_the_same_failure_of_a_degraded_mirror_is_recorded_once_in_ten_seconds() {
        let check = |failures: u32, error: &str, second: i64, expected: bool| {
            let state = MirrorState {
                failures,
                failed_at: Some(at(100)),
                error: Some("gone".to_owned()),
                ..MirrorState::default()
            };
            let (next, _) = state.after_failure(error.to_owned(), None, at(second));
            assert_eq!(state.is_same_failure(&next), expected, "{failures} {error} {second}");
        };
        check(3, "gone", 109, true);
        check(3, "gone", 110, false);
        check(3, "denied", 101, false);
        check(2, "gone", 101, false);
    }

    #[test]
    fn g16_one_success_resets_the_failures_and_is_a_recovery_only_if_the_mirror_was_degraded() {
        for failures in 0..5 {
            let state = MirrorState { failures, error: Some("gone".to_owned()), ..MirrorState::default() };
            let (next, change) = state.after_success(at(9));
            assert_eq!(next, MirrorState { delivered_at: Some(at(9)), ..MirrorState::default() });
            assert_eq!(change, (failures >= 3).then_some(StatusChange::Recovered), "{failures}");
        }
    }

    #[test]
    fn unknown_fields_of_a_later_version_are_ignored() {
        let read: MirrorState = serde_json::from_str(r#"{"failures":1,"later":true}"#).unwrap();
        assert_eq!(read.failures, 1);
    }
}
