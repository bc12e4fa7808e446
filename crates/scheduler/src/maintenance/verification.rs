//! Verification of stored events in the background, so that damage of the disk is noticed before the data is needed.
//! It is slow on purpose, changes nothing, and stops with the scheduler.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agent::{Agent, CancellationToken};
use tokio::time::Instant;

/// Number of events that are read at once.
const BATCH_EVENTS: usize = 500;
/// The pause after each batch. With it, a thousand events are read each second, at less than one percent of a core.
const BATCH_PAUSE: Duration = Duration::from_millis(500);
/// The pause before the first pass, so that the start of a server is not slowed down.
const START_PAUSE: Duration = Duration::from_secs(60);
/// The shortest time from the start of a pass to that of the next.
const PASS_INTERVAL: Duration = Duration::from_hours(24);
/// Maximum number of damaged events of a pass that are logged one by one.
const LOGGED_EVENTS_MAX: usize = 100;

/// The numbers of the verification, for the metrics of a server.
#[derive(Debug, Default)]
pub(crate) struct VerificationCounters {
    /// Number of events that this process has verified.
    pub(crate) verified: AtomicUsize,
    /// Number of damaged events that the latest pass has found. During a pass it does not fall.
    pub(crate) damaged: AtomicUsize,
}

/// Verifies all events again and again until `cancel` is cancelled. Failures and damage are logged.
pub(super) async fn verify_events(agent: Agent, counters: &VerificationCounters, cancel: CancellationToken) {
    let mut pause = START_PAUSE;
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = cancel.cancelled() => return,
        }
        let start = Instant::now();
        tokio::select! {
            () = perform_pass(&agent, counters) => {}
            () = cancel.cancelled() => return,
        }
        pause = PASS_INTERVAL.saturating_sub(start.elapsed());
    }
}

/// Verifies each event once.
async fn perform_pass(agent: &Agent, counters: &VerificationCounters) {
    let (mut position, mut damaged) = (0, 0);
    loop {
        let batch = match agent.admin().verify_events(position, BATCH_EVENTS).await {
            Ok(batch) => batch,
            Err(error) => {
                tracing::error!(%error, position, "failed to verify the stored events");
                return;
            }
        };
        for event in &batch.damaged {
            if damaged < LOGGED_EVENTS_MAX {
                tracing::error!(
                    thread.id = %event.thread_id, seq = event.seq,
                    "event {} of thread {} is damaged in the database", event.seq, event.thread_id
                );
            }
            damaged += 1;
        }
        counters.verified.fetch_add(usize::try_from(batch.events).unwrap_or(usize::MAX), Ordering::Relaxed);
        counters.damaged.fetch_max(damaged, Ordering::Relaxed);
        match batch.next {
            Some(next) => position = next,
            None => break,
        }
        tokio::time::sleep(BATCH_PAUSE).await;
    }
    counters.damaged.store(damaged, Ordering::Relaxed);
}
