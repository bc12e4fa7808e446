//! Verification of stored events, so that damage of the disk is noticed before the data is needed: of the newest events when
//! a server starts, because a crash damages these first, and of all events in the background. The latter is slow on purpose
//! and stops with the scheduler. Nothing is changed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agent::{Agent, CancellationToken, VerificationPosition};
use tokio::time::Instant;

/// Number of events that are read at once.
const BATCH_EVENTS: usize = 500;
/// The pause after each batch. With it, a thousand events are read each second, at less than one percent of a core.
const BATCH_PAUSE: Duration = Duration::from_millis(500);
/// The pause before the first pass, so that the start of a server is not slowed down.
const START_PAUSE: Duration = Duration::from_secs(60);
/// The shortest time from the start of a pass to that of the next.
const PASS_INTERVAL: Duration = Duration::from_hours(24);
/// Number of the newest events that are verified when a server starts.
const NEWEST_EVENTS_MAX: u64 = 256;
/// Number of the newest events that are read at once.
const NEWEST_BATCH_EVENTS: usize = 32;
/// The time after which no further batch of the newest events is read, so that a slow disk does not delay the start.
const NEWEST_TIME_MAX: Duration = Duration::from_millis(20);
/// Maximum number of damaged events of a pass that are logged one by one.
const LOGGED_EVENTS_MAX: usize = 100;

/// The numbers of the verification, for the metrics of a server.
#[derive(Debug, Default)]
pub(crate) struct VerificationCounters {
    /// Number of events that this process has verified.
    pub(crate) verified: AtomicUsize,
    /// Number of damaged events that the latest pass has found, at first among the newest events. During a pass it does not
    /// fall.
    pub(crate) damaged: AtomicUsize,
}

/// Verifies the newest events. It takes a few milliseconds. Failures and damage are logged.
pub(crate) async fn verify_newest_events(agent: &Agent, counters: &VerificationCounters) {
    let start = Instant::now();
    let mut pass = VerificationPass::new(agent, counters, VerificationPosition::NEWEST);
    while pass.verify_batch(NEWEST_BATCH_EVENTS).await == PassState::Unfinished {
        if pass.verified >= NEWEST_EVENTS_MAX || start.elapsed() >= NEWEST_TIME_MAX {
            return;
        }
    }
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
            () = verify_all_events(&agent, counters) => {}
            () = cancel.cancelled() => return,
        }
        pause = PASS_INTERVAL.saturating_sub(start.elapsed());
    }
}

/// Verifies each event once.
async fn verify_all_events(agent: &Agent, counters: &VerificationCounters) {
    let mut pass = VerificationPass::new(agent, counters, VerificationPosition::OLDEST);
    loop {
        match pass.verify_batch(BATCH_EVENTS).await {
            PassState::Unfinished => tokio::time::sleep(BATCH_PAUSE).await,
            PassState::Finished => break,
            PassState::Failed => return,
        }
    }
    counters.damaged.store(pass.damaged, Ordering::Relaxed);
}

/// The state of a pass after a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PassState {
    /// There are more events.
    Unfinished,
    /// All events are verified.
    Finished,
    /// The events cannot be read.
    Failed,
}

/// A pass over stored events.
struct VerificationPass<'a> {
    /// The agent of the journal.
    agent: &'a Agent,
    /// The numbers for the metrics.
    counters: &'a VerificationCounters,
    /// The position from which the next batch is verified.
    position: VerificationPosition,
    /// Number of verified events.
    verified: u64,
    /// Number of damaged events among them.
    damaged: usize,
}

impl<'a> VerificationPass<'a> {
    /// Returns a pass that has verified no event.
    const fn new(
        agent: &'a Agent,
        counters: &'a VerificationCounters,
        position: VerificationPosition,
    ) -> Self {
        Self { agent, counters, position, verified: 0, damaged: 0 }
    }

    /// Verifies the next `limit` events. Logs damaged ones and a failure.
    async fn verify_batch(&mut self, limit: usize) -> PassState {
        let batch = match self.agent.admin().verify_events(self.position, limit).await {
            Ok(batch) => batch,
            Err(error) => {
                tracing::error!(%error, position = ?self.position, "failed to verify the stored events");
                return PassState::Failed;
            }
        };
        for event in &batch.damaged {
            if self.damaged < LOGGED_EVENTS_MAX {
                tracing::error!(
                    thread.id = %event.thread_id, seq = event.seq,
                    "event {} of thread {} is damaged in the database", event.seq, event.thread_id
                );
            }
            self.damaged += 1;
        }
        self.verified += batch.events;
        let verified = usize::try_from(batch.events).unwrap_or(usize::MAX);
        self.counters.verified.fetch_add(verified, Ordering::Relaxed);
        self.counters.damaged.fetch_max(self.damaged, Ordering::Relaxed);
        match batch.next {
            Some(next) => {
                self.position = next;
                PassState::Unfinished
            }
            None => PassState::Finished,
        }
    }
}
