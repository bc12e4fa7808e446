//! Leases: the name under which this process works on runs, for how long others leave these to it, and the task that says so
//! again while a run works. Who may take a run over is decided where that is written.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use journal::{Fence, Reach, RunPatch, Store, Transaction, Write};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio::time::error::Elapsed;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::Error;

/// How long a run may stay silent before another process may take it over, unless set.
pub const LEASE_SECONDS: u32 = 30;

/// Renewals within the length of a lease: so many may be late but one.
const RENEWALS: u32 = 3;

/// How long it waits until a renewal that failed is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// How long a renewal may take that comes after the lease has ended.
const LATE: Duration = Duration::from_secs(5);

/// How long the journal may take to answer who has a run that is lost here.
const ANSWER: Duration = Duration::from_secs(1);

/// The name of a process in leases, and how it holds runs. Clones share one clock.
#[derive(Debug, Clone)]
pub struct Lease {
    owner: Arc<str>,
    length: Duration,
    /// Microseconds by which the clock that all go by is ahead of the one of this machine.
    ahead: Arc<AtomicI64>,
}

impl Lease {
    /// Returns the leases of a process of that name, which others leave to it for `length` at a time.
    pub fn new(owner: impl Into<Arc<str>>, length: Duration) -> Self {
        Self { owner: owner.into(), length, ahead: Arc::default() }
    }

    /// Returns the name of the process.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// Returns how often a lease is renewed.
    pub fn renewal(&self) -> Duration {
        self.length / RENEWALS
    }

    /// Returns the present by the clock that all who share the journal go by, as far as it is known.
    pub fn now(&self) -> Timestamp {
        let ahead = SignedDuration::from_micros(self.ahead.load(Ordering::Relaxed));
        Timestamp::now().saturating_add(ahead).unwrap_or(Timestamp::MAX)
    }

    /// Returns when a lease ends that begins or is renewed now.
    pub fn until(&self) -> Timestamp {
        self.now().saturating_add(self.length).unwrap_or(Timestamp::MAX)
    }

    /// Notes what that clock shows at the present; whoever takes leases does so before the first one, and again and again.
    pub fn set_clock(&self, now: Timestamp) {
        let ahead = now.duration_since(Timestamp::now()).as_micros();
        self.ahead.store(i64::try_from(ahead).unwrap_or_default(), Ordering::Relaxed);
    }
}

impl From<&str> for Lease {
    fn from(owner: &str) -> Self {
        Self::new(owner, Duration::from_secs(u64::from(LEASE_SECONDS)))
    }
}

/// A run's lease while the run works; it is renewed, on a task of its own, until this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    /// Cancelled when another process has the run, or may have it: its lease ended before anybody could renew it.
    pub(crate) lost: CancellationToken,
    renewed: Arc<Mutex<Instant>>,
    _until_dropped: DropGuard,
}

impl Held {
    /// Holds a run that was admitted or taken over just now.
    pub(crate) fn begin(store: &Arc<dyn Store>, fence: Fence, lease: &Lease) -> Self {
        let (lost, over) = (CancellationToken::new(), CancellationToken::new());
        let renewed = Arc::new(Mutex::new(Instant::now()));
        let renewing =
            Renewing { store: Arc::clone(store), fence, lease: lease.clone(), renewed: Arc::clone(&renewed) };
        let (lost_too, over_too) = (lost.clone(), over.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = over_too.cancelled() => {}
                () = renewing.until_it_is_lost() => lost_too.cancel(),
            }
        });
        Self { lost, renewed, _until_dropped: over.drop_guard() }
    }

    /// Notes that the lease was renewed with something else that was begun to be written at that time.
    pub(crate) fn was_renewed(&self, at: Instant) {
        *self.renewed.lock() = at;
    }
}

struct Renewing {
    store: Arc<dyn Store>,
    fence: Fence,
    lease: Lease,
    renewed: Arc<Mutex<Instant>>,
}

impl Renewing {
    async fn until_it_is_lost(self) {
        let mut due = self.due();
        loop {
            tokio::time::sleep_until(due).await;
            due = self.due();
            let asked = Instant::now();
            if due > asked {
                continue;
            }
            match self.renew_in_time(asked).await {
                Ok(Ok(())) => {
                    *self.renewed.lock() = asked;
                    due = self.due();
                }
                Ok(Err(journal::Error::Fenced { .. })) => return,
                // While a file cannot be written, nobody can take a lease either.
                Ok(Err(_)) if self.store.reach() == Reach::Machine => due = Instant::now() + RETRY,
                Ok(Err(_)) | Err(_) => {
                    due = Instant::now() + RETRY;
                    if due >= self.end() {
                        tokio::time::sleep_until(self.end()).await;
                    }
                    // Whoever reaches the journal may take it from here on.
                    if self.end() <= Instant::now() {
                        return;
                    }
                }
            }
        }
    }

    /// Renews it as long as it lasts. Who was paused for longer than that finds out whether another process has the run.
    async fn renew_in_time(&self, asked: Instant) -> Result<journal::Result<()>, Elapsed> {
        if self.store.reach() == Reach::Machine {
            return Ok(self.renew().await);
        }
        let end = self.end();
        let patience = if asked < end { end } else { asked + LATE };
        tokio::time::timeout_at(patience, self.renew()).await
    }

    fn end(&self) -> Instant {
        *self.renewed.lock() + self.lease.length
    }

    fn due(&self) -> Instant {
        *self.renewed.lock() + self.lease.renewal()
    }

    async fn renew(&self) -> journal::Result<()> {
        self.lease.set_clock(self.store.clock().await?);
        let patch = RunPatch { lease_until: Some(self.lease.until()), ..RunPatch::default() };
        let writes = vec![Write::UpdateRun { run_id: self.fence.run_id, patch }];
        self.store.commit(Transaction { fence: Some(self.fence.clone()), writes }).await.map(drop)
    }
}

/// Returns what says that another process has the run, that it has ended, or, where that cannot be found out or is not so, that
/// this process has it no more.
pub(crate) async fn lost(store: &dyn Store, fence: Fence) -> Error {
    let run_id = fence.run_id;
    let Ok(Ok(run)) = tokio::time::timeout(ANSWER, store.run(run_id)).await else {
        return Error::LeaseEnded { run_id };
    };
    let (status, owner) = match run {
        Some(run) => (run.status, run.lease_owner.unwrap_or_default()),
        None => (protocol::RunStatus::Cancelled, String::new()),
    };
    match status == protocol::RunStatus::Running && owner == fence.owner {
        true => Error::LeaseEnded { run_id },
        false => journal::Error::Fenced { run_id, status, owner }.into(),
    }
}
