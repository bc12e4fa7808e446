//! Leases of runs: the identity and lease duration of this process ([`LeaseHolder`]), and the background task
//! that renews the lease of a run while the run is driven ([`LeaseGuard`]). The journal decides which process may
//! take over a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use journal::{FencingToken, RunPatch, Store, StoreScope, Transaction, Write};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio::time::error::Elapsed;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::Error;

/// The default lease duration in seconds: the time without a renewal after which another process may take over a
/// run.
pub const LEASE_SECONDS: u32 = 30;

/// The number of renewals within one lease duration. With three, a lease survives two failed renewals.
const RENEWALS_PER_LEASE: u32 = 3;

/// The delay before a failed renewal is tried again.
const RENEWAL_RETRY_DELAY: Duration = Duration::from_millis(500);

/// The time limit of a renewal that starts after the lease has expired.
const LATE_RENEWAL_TIMEOUT: Duration = Duration::from_secs(5);

/// The time limit for asking the journal which process holds a lost run.
const OWNER_LOOKUP_TIMEOUT: Duration = Duration::from_secs(1);

/// The identity of this process as a holder of leases, and the duration of its leases. Clones share one clock
/// offset.
#[derive(Debug, Clone)]
pub struct LeaseHolder {
    /// The name of the process in the rows of runs.
    owner: Arc<str>,
    /// The duration of a lease.
    length: Duration,
    /// Microseconds by which the journal's clock is ahead of this machine's clock; negative if it is behind.
    clock_offset: Arc<AtomicI64>,
}

impl LeaseHolder {
    /// Returns the lease holder for a process of that name, with leases of the given duration.
    pub fn new(owner: impl Into<Arc<str>>, length: Duration) -> Self {
        Self { owner: owner.into(), length, clock_offset: Arc::default() }
    }

    /// Returns the name of the process.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// Returns the interval between two renewals of a lease.
    pub fn renewal_interval(&self) -> Duration {
        self.length / RENEWALS_PER_LEASE
    }

    /// Returns the present by the clock that all processes with this journal share. Until
    /// [`Self::synchronize_clock`] is called, this is the clock of this machine.
    pub fn now(&self) -> Timestamp {
        let offset = SignedDuration::from_micros(self.clock_offset.load(Ordering::Relaxed));
        Timestamp::now().saturating_add(offset).unwrap_or(Timestamp::MAX)
    }

    /// Returns the end of a lease that starts or is renewed now.
    pub fn lease_end(&self) -> Timestamp {
        self.now().saturating_add(self.length).unwrap_or(Timestamp::MAX)
    }

    /// Sets the clock offset so that the shared clock shows `now` at present. A process that takes leases does
    /// this before the first one, and each renewal repeats it, because clocks drift.
    pub fn synchronize_clock(&self, now: Timestamp) {
        let offset = now.duration_since(Timestamp::now()).as_micros();
        self.clock_offset.store(i64::try_from(offset).unwrap_or_default(), Ordering::Relaxed);
    }
}

impl From<&str> for LeaseHolder {
    /// Creates a lease holder of that name with the default duration, [`LEASE_SECONDS`].
    fn from(owner: &str) -> Self {
        Self::new(owner, Duration::from_secs(u64::from(LEASE_SECONDS)))
    }
}

/// A guard of a run's lease. A background task renews the lease; renewing stops when the guard is dropped.
/// Dropping it does not end the lease in the journal.
#[derive(Debug)]
pub(crate) struct LeaseGuard {
    /// Cancelled when another process has taken over the run, or may do so because the lease expired before it
    /// could be renewed.
    pub(crate) lost: CancellationToken,
    /// The time at which the last successful renewal was started.
    renewed_at: Arc<Mutex<Instant>>,
    /// Stops the background task when the guard is dropped.
    _stop_on_drop: DropGuard,
}

impl LeaseGuard {
    /// Starts to renew the lease of a run that was just admitted or taken over.
    pub(crate) fn start(store: &Arc<dyn Store>, fence: FencingToken, lease: &LeaseHolder) -> Self {
        let (lost, stopped) = (CancellationToken::new(), CancellationToken::new());
        let renewed_at = Arc::new(Mutex::new(Instant::now()));
        let renewal = LeaseRenewal {
            store: Arc::clone(store),
            fence,
            lease: lease.clone(),
            renewed_at: Arc::clone(&renewed_at),
        };
        let (lost_in_task, stopped_in_task) = (lost.clone(), stopped.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = stopped_in_task.cancelled() => {}
                () = renewal.renew_until_lost() => lost_in_task.cancel(),
            }
        });
        Self { lost, renewed_at, _stop_on_drop: stopped.drop_guard() }
    }

    /// Records that another commit, started at `started_at`, has renewed the lease. The next renewal is then due
    /// later.
    pub(crate) fn note_renewal(&self, started_at: Instant) {
        *self.renewed_at.lock() = started_at;
    }
}

/// The background task that renews a lease.
struct LeaseRenewal {
    store: Arc<dyn Store>,
    fence: FencingToken,
    lease: LeaseHolder,
    renewed_at: Arc<Mutex<Instant>>,
}

impl LeaseRenewal {
    /// Renews the lease at every interval. Returns when the lease is lost: another process holds it, or it
    /// expired and another process that reaches the journal may take it.
    async fn renew_until_lost(self) {
        let mut due = self.next_renewal();
        loop {
            tokio::time::sleep_until(due).await;
            due = self.next_renewal();
            let started_at = Instant::now();
            if due > started_at {
                continue;
            }
            match self.renew_before_end(started_at).await {
                Ok(Ok(())) => {
                    *self.renewed_at.lock() = started_at;
                    due = self.next_renewal();
                }
                Ok(Err(journal::Error::Fenced { .. })) => return,
                // The journal is a file of this machine: while it cannot be written, no other process can take
                // the lease.
                Ok(Err(_)) if self.store.store_scope() == StoreScope::ThisHost => {
                    due = Instant::now() + RENEWAL_RETRY_DELAY
                }
                Ok(Err(_)) | Err(_) => {
                    due = Instant::now() + RENEWAL_RETRY_DELAY;
                    if due >= self.lease_end() {
                        tokio::time::sleep_until(self.lease_end()).await;
                    }
                    // From here on, another process that reaches the journal may take over the run.
                    if self.lease_end() <= Instant::now() {
                        return;
                    }
                }
            }
        }
    }

    /// Renews the lease, but waits no longer than until its end. After a pause of this process that outlasted the
    /// lease, the renewal gets [`LATE_RENEWAL_TIMEOUT`], so that the process learns whether another one has the
    /// run. There is no time limit for a journal in a file of this machine.
    async fn renew_before_end(&self, started_at: Instant) -> Result<journal::Result<()>, Elapsed> {
        if self.store.store_scope() == StoreScope::ThisHost {
            return Ok(self.renew_lease().await);
        }
        let end = self.lease_end();
        let deadline = if started_at < end { end } else { started_at + LATE_RENEWAL_TIMEOUT };
        tokio::time::timeout_at(deadline, self.renew_lease()).await
    }

    /// Returns the time at which the lease ends, by the monotonic clock of this process.
    fn lease_end(&self) -> Instant {
        *self.renewed_at.lock() + self.lease.length
    }

    /// Returns the time at which the next renewal is due.
    fn next_renewal(&self) -> Instant {
        *self.renewed_at.lock() + self.lease.renewal_interval()
    }

    /// Renews the lease once and synchronizes the clock.
    async fn renew_lease(&self) -> journal::Result<()> {
        self.lease.synchronize_clock(self.store.current_time().await?);
        let patch = RunPatch { lease_until: Some(self.lease.lease_end()), ..RunPatch::default() };
        let writes = vec![Write::UpdateRun { run_id: self.fence.run_id, patch }];
        self.store.commit(Transaction { fence: Some(self.fence.clone()), writes }).await.map(drop)
    }
}

/// Returns the error for a run whose lease this process has lost: [`journal::Error::Fenced`] if another process
/// has the run or it has ended, otherwise [`Error::LeaseExpired`], also when the journal cannot be asked in time.
pub(crate) async fn lease_loss_error(store: &dyn Store, fence: FencingToken) -> Error {
    let run_id = fence.run_id;
    let Ok(Ok(run)) = tokio::time::timeout(OWNER_LOOKUP_TIMEOUT, store.run(run_id)).await else {
        return Error::LeaseExpired { run_id };
    };
    let (status, owner) = match run {
        Some(run) => (run.status, run.lease_owner.unwrap_or_default()),
        None => (protocol::RunStatus::Cancelled, String::new()),
    };
    match status == protocol::RunStatus::Running && owner == fence.owner {
        true => Error::LeaseExpired { run_id },
        false => journal::Error::Fenced { run_id, status, owner }.into(),
    }
}
