//! The mirror: the export of accepted summaries to a PostgreSQL table, for analysis (contract §9).
//!
//! The transaction of an acceptance adds an item to the journal's outbox. A background task of each process sends the
//! pending items to the table.
//!
//! No handoff waits for the mirror or fails because of it. While the database cannot be written, the mirror is
//! *degraded*, and the pending items are sent at the next handoff, at the next start, or by [`SummaryMirror::flush`].
//! Several processes may send the same row; the upsert makes that harmless.

mod deliver;
mod error;
mod rows;
mod settings;
mod state;
mod table;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use journal::Store;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use deliver::MirrorDelivery;
use deliver::MirrorSender;
pub use error::Error;
pub(crate) use rows::enqueue_write;
pub use rows::{MIRROR_KIND, decided_at, deletion_writes};
pub use settings::MirrorSettings;
pub use state::{MirrorStatus, RejectedSummary};
pub use table::MirrorRowCounts;

/// The handle to the mirror in this process. Clones share the same worker.
#[derive(Clone)]
pub struct SummaryMirror {
    /// The store of all users' data, which holds the outbox.
    store: Arc<dyn Store>,
    /// The background worker; `None` when no mirror is configured.
    worker: Option<Arc<MirrorWorker>>,
}

/// The state of the mirror as far as the journal records it, without a query to the mirror's database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MirrorReport {
    /// The status of the mirror.
    pub status: MirrorStatus,
    /// The host and database of the mirror, without the password.
    pub location: Option<String>,
    /// The number of items in the outbox.
    pub waiting: u64,
    /// The time at which the oldest of them was added.
    pub oldest: Option<Timestamp>,
    /// The time of the last successful attempt.
    pub last_success: Option<Timestamp>,
    /// The error of the last attempt; `None` when it succeeded.
    pub last_error: Option<String>,
    /// The time of that error.
    pub last_error_at: Option<Timestamp>,
    /// The advice for that error.
    pub hint: Option<String>,
    /// The summary that the database rejected last, while it is still in the outbox.
    pub rejected: Option<RejectedSummary>,
}

/// The background worker of a process.
struct MirrorWorker {
    /// The sender that performs the attempts.
    sender: MirrorSender,
    /// The running task, if there is one.
    task: Mutex<WorkerTask>,
    /// The present phase, for callers that wait until the worker is idle.
    phase: watch::Sender<WorkerPhase>,
    /// True if the worker has been started in this process. The first start also sends items of earlier processes.
    is_started: AtomicBool,
}

/// The task of the worker.
#[derive(Default)]
struct WorkerTask {
    /// The running or finished task.
    handle: Option<JoinHandle<()>>,
    /// True if the task has to query the outbox again, because an item may have been added after its last query.
    needs_rerun: bool,
}

/// The phase of the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WorkerPhase {
    /// No task is running: the outbox is empty, or the mirror is degraded.
    Idle,
    /// The task is sending items.
    Sending,
    /// The task waits before the next attempt.
    BackingOff,
}

impl SummaryMirror {
    /// Returns the mirror that `settings` describe. No connection is opened yet.
    ///
    /// `main` is the URL of the journal's database if that is PostgreSQL; the mirror is in the same database unless the
    /// settings name another one or turn it off. `store` has to give access to the data of all users.
    ///
    /// # Errors
    ///
    /// When the URL cannot be parsed.
    pub fn new(settings: &MirrorSettings, main: Option<&str>, store: Arc<dyn Store>) -> Result<Self, Error> {
        let worker = settings.target(main)?.map(|target| {
            Arc::new(MirrorWorker {
                sender: MirrorSender::new(Arc::clone(&store), target, settings.pool_settings()),
                task: Mutex::default(),
                phase: watch::Sender::new(WorkerPhase::Idle),
                is_started: AtomicBool::new(false),
            })
        });
        Ok(Self { store, worker })
    }

    /// Starts sending the pending items in the background. If a task is running already, it queries the outbox once
    /// more before it ends.
    ///
    /// Must be called within a Tokio runtime.
    pub fn send_pending(&self) {
        let Some(worker) = &self.worker else { return };
        worker.is_started.store(true, Ordering::Relaxed);
        MirrorWorker::start_or_rerun(worker);
    }

    /// Starts sending the items that earlier processes left, in the background. Only the first start in a process has
    /// an effect: after it, or after [`SummaryMirror::send_pending`], the call does nothing.
    pub fn send_leftovers(&self) {
        let Some(worker) = &self.worker else { return };
        if !worker.is_started.swap(true, Ordering::Relaxed) {
            MirrorWorker::start_or_rerun(worker);
        }
    }

    /// Waits until no items are being sent, for at most `within`. A process calls it before it exits.
    ///
    /// It does not wait for a worker that is backing off before another attempt. Dropping the future is harmless.
    pub async fn wait_until_idle(&self, within: Duration) {
        let Some(worker) = &self.worker else { return };
        let mut phase = worker.phase.subscribe();
        let idle = phase.wait_for(|phase| *phase != WorkerPhase::Sending);
        // Items that are not sent by then stay in the outbox.
        let _ = tokio::time::timeout(within, idle).await;
    }

    /// Sends all pending items, with as many attempts as the mirror's state allows. `on_progress` is called after each
    /// batch with the number of items sent so far. Without a mirror nothing is sent.
    ///
    /// If the future is dropped, the items that were not sent stay in the outbox.
    ///
    /// # Errors
    ///
    /// The error of the last attempt.
    pub async fn flush(&self, on_progress: &mut (dyn FnMut(u64) + Send)) -> Result<MirrorDelivery, Error> {
        let Some(worker) = &self.worker else { return Ok(MirrorDelivery::default()) };
        loop {
            let error = match worker.sender.send_pending(on_progress).await {
                Ok(delivery) => {
                    worker.sender.probe_database().await?;
                    return Ok(delivery);
                }
                Err(error) => error,
            };
            match worker.sender.retry_delay().await? {
                Some(delay) => tokio::time::sleep(delay).await,
                None => return Err(error),
            }
        }
    }

    /// Returns the number of rows in the mirror's table; `None` when no mirror is configured.
    ///
    /// The table is created if it is missing. The recorded state of the mirror does not change.
    ///
    /// # Errors
    ///
    /// When the database cannot be reached or the table cannot be used.
    pub async fn count_rows(&self) -> Result<Option<MirrorRowCounts>, Error> {
        match &self.worker {
            Some(worker) => worker.sender.count_rows().await.map(Some),
            None => Ok(None),
        }
    }

    /// Returns whether summaries reach the mirror. Only the journal is read.
    ///
    /// # Errors
    ///
    /// When the journal cannot be read.
    pub async fn status(&self) -> Result<MirrorStatus, Error> {
        match &self.worker {
            Some(worker) => Ok(worker.sender.read_state().await?.status()),
            None => Ok(MirrorStatus::Off),
        }
    }

    /// Returns the recorded state of the mirror. Only the journal is read.
    ///
    /// # Errors
    ///
    /// When the journal cannot be read.
    pub async fn report(&self) -> Result<MirrorReport, Error> {
        let (waiting, oldest) = self.pending_items().await?;
        let Some(worker) = &self.worker else {
            return Ok(MirrorReport {
                status: MirrorStatus::Off,
                location: None,
                waiting,
                oldest,
                last_success: None,
                last_error: None,
                last_error_at: None,
                hint: None,
                rejected: None,
            });
        };
        let state = worker.sender.read_state().await?;
        Ok(MirrorReport {
            status: state.status(),
            location: Some(worker.sender.location()),
            waiting,
            oldest,
            last_success: state.delivered_at,
            last_error: state.error,
            last_error_at: state.failed_at,
            hint: state.hint,
            rejected: worker.sender.current_rejection(state.rejected).await?,
        })
    }

    /// Returns the statistics of the mirror's connection pool; `None` while no pool is open.
    pub fn pool_metrics(&self) -> Option<postgres::PoolStatistics> {
        self.worker.as_ref()?.sender.pool_metrics()
    }

    /// Returns the number of pending items and the time at which the oldest was added.
    async fn pending_items(&self) -> Result<(u64, Option<Timestamp>), Error> {
        Ok(self.store.outbox_backlog(MIRROR_KIND, None).await?)
    }
}

impl MirrorWorker {
    /// Starts the task, or makes the running one query the outbox once more.
    fn start_or_rerun(self: &Arc<Self>) {
        let mut task = self.task.lock();
        if task.handle.as_ref().is_some_and(|handle| !handle.is_finished()) {
            task.needs_rerun = true;
            return;
        }
        task.needs_rerun = false;
        self.phase.send_replace(WorkerPhase::Sending);
        task.handle = Some(tokio::spawn(Arc::clone(self).drain_outbox()));
    }

    /// Sends pending items until the outbox is empty or the mirror is degraded.
    async fn drain_outbox(self: Arc<Self>) {
        loop {
            let delay = match self.sender.send_pending(&mut |_| {}).await {
                Ok(_) => None,
                Err(Error::Journal(error)) => {
                    tracing::warn!(%error, "failed to mirror accepted handoffs: {error}");
                    None
                }
                // The sender has logged the failure if it changed the mirror's status.
                Err(_) => self.sender.retry_delay().await.unwrap_or(None),
            };
            match delay {
                Some(delay) => {
                    self.phase.send_replace(WorkerPhase::BackingOff);
                    tokio::time::sleep(delay).await;
                }
                None if self.finish_if_idle() => return,
                None => {}
            }
            self.phase.send_replace(WorkerPhase::Sending);
        }
    }

    /// Ends the task, unless a rerun was requested meanwhile. Returns whether it ended.
    ///
    /// The check and the end happen under one lock, so that an item added at the same time is not missed.
    fn finish_if_idle(&self) -> bool {
        let mut task = self.task.lock();
        if std::mem::take(&mut task.needs_rerun) {
            return false;
        }
        task.handle = None;
        self.phase.send_replace(WorkerPhase::Idle);
        true
    }
}
