//! The doctor's check of the database: first its structure and its rows, then all events, batch by batch, so that the
//! progress can be shown and the check can be stopped. It changes nothing.

use journal::{DamageReport, HealthCheckDepth, StoreHealth, VerificationPosition};
use runtime::{Frame, FrameSender};
use tokio_util::sync::CancellationToken;

use super::{CheckStatus, DoctorCheck};
use crate::AdminService;

/// Number of events that are verified at once.
const BATCH_EVENTS: usize = 500;

impl AdminService<'_> {
    /// Checks the integrity of the database, and compares all events with their checksums. The duration grows with its size.
    /// Sends progress frames, and returns `None` if it was cancelled.
    pub(super) async fn database_check(
        self,
        frames: &FrameSender,
        cancel: &CancellationToken,
    ) -> Option<DoctorCheck> {
        frames.send(Frame::Progress { what: "check the database".to_owned(), done: 0, total: None });
        let health = tokio::select! {
            biased;
            () = cancel.cancelled() => return None,
            health = self.agent.store.health(HealthCheckDepth::Tables) => health,
        };
        let mut health = match health {
            Ok(health) => health,
            Err(error) => return Some(failed_check(&error)),
        };
        let mut report = DamageReport::default();
        let mut position = Some(VerificationPosition::OLDEST);
        while let Some(current) = position {
            let (what, total) = ("verify the events".to_owned(), Some(health.events));
            frames.send(Frame::Progress { what, done: report.events, total });
            let batch = tokio::select! {
                biased;
                () = cancel.cancelled() => return None,
                batch = self.agent.journal.verify_events(current, BATCH_EVENTS) => batch,
            };
            match batch {
                Ok(batch) => {
                    report.add_batch(&batch);
                    position = batch.next;
                }
                // The damage of the file is among the problems already.
                Err(error) if error.is_corruption() && !health.problems.is_empty() => break,
                Err(error) => return Some(failed_check(&error)),
            }
        }
        health.problems.extend(report.problems());
        health.unchecked_events = report.unchecked;
        Some(self.describe_health(&health))
    }

    /// Returns the result of a check that could read the database.
    fn describe_health(self, health: &StoreHealth) -> DoctorCheck {
        if !health.problems.is_empty() {
            let hint = match self.connection_metrics() {
                None => format!("copy {} away before anything else writes to it", health.location),
                Some(_) => {
                    "`segue db backup` saves what can be read, before anything else writes to it".to_owned()
                }
            };
            return DoctorCheck::new("database", CheckStatus::Fail, health.problems.join("; "))
                .with_hint(hint);
        }
        let unchecked = match health.unchecked_events {
            0 => String::new(),
            count => format!(" ({count} without a checksum, from an earlier version)"),
        };
        let detail = format!(
            "{}: schema {}, threads: {}, events: {}{unchecked}, bytes: {}",
            health.location, health.schema_version, health.threads, health.events, health.bytes
        );
        DoctorCheck::new("database", CheckStatus::Ok, detail)
    }
}

/// Returns the result of a check that could not read the database.
fn failed_check(error: &journal::Error) -> DoctorCheck {
    DoctorCheck::new("database", CheckStatus::Fail, error.to_string())
}
