//! The mirror: a copy of accepted summaries in PostgreSQL, for analysis (contract §9). What is to be mirrored is in the
//! journal's outbox since the transaction of its acceptance; here it is sent, behind everything else.
//!
//! Nothing waits for it and nothing fails with it: while it cannot be written it is degraded, and what waits is sent at the
//! next handoff, at the next start, or by [`Mirror::flush`]. Several processes may send the same row.

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

use deliver::Courier;
pub use deliver::Delivered;
pub use error::Error;
pub(crate) use rows::enqueue;
pub use rows::{MIRROR_KIND, decided_at, follow_deletion};
pub use settings::Settings;
pub use state::{MirrorStatus, Rejected};
pub use table::Rows;

/// The mirror, as this process has it. Clones are the same one.
#[derive(Clone)]
pub struct Mirror {
    /// All of the journal.
    store: Arc<dyn Store>,
    /// `None` where there is no mirror.
    worker: Option<Arc<Worker>>,
}

/// What is known of the mirror without asking its database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MirrorReport {
    /// Whether summaries reach it.
    pub status: MirrorStatus,
    /// Where it is, without the password.
    pub location: Option<String>,
    /// How many summaries wait.
    pub waiting: u64,
    /// Since when the oldest of them waits.
    pub oldest: Option<Timestamp>,
    /// When one was sent last.
    pub last_success: Option<Timestamp>,
    /// Why the last attempt failed; nothing when it succeeded.
    pub last_error: Option<String>,
    /// When that was.
    pub last_error_at: Option<Timestamp>,
    /// What to do about it.
    pub hint: Option<String>,
    /// The summary that was rejected last, as long as it waits.
    pub rejected: Option<Rejected>,
}

/// The work behind.
struct Worker {
    courier: Courier,
    work: Mutex<Work>,
    phase: watch::Sender<Phase>,
    /// Whether what an earlier process left was begun with.
    is_started: AtomicBool,
}

#[derive(Default)]
struct Work {
    task: Option<JoinHandle<()>>,
    /// Whether something is to be sent that the task may have looked past.
    is_due_again: bool,
}

/// What the work is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing: nothing waits, or it is degraded.
    Resting,
    Sending,
    /// It waits before the next attempt.
    Pausing,
}

impl Mirror {
    /// Returns the mirror that the settings name, fed from all of the journal; nothing is connected yet. `main` is the
    /// database that everything is kept in, if that is PostgreSQL: it has the mirror too unless the settings say otherwise.
    ///
    /// # Errors
    /// When the URL cannot be understood.
    pub fn new(settings: &Settings, main: Option<&str>, store: Arc<dyn Store>) -> Result<Self, Error> {
        let worker = settings.target(main)?.map(|target| {
            Arc::new(Worker {
                courier: Courier::new(Arc::clone(&store), target, settings.pool()),
                work: Mutex::default(),
                phase: watch::Sender::new(Phase::Resting),
                is_started: AtomicBool::new(false),
            })
        });
        Ok(Self { store, worker })
    }

    /// Has what waits sent, behind this call, and again after what is being sent. It needs a runtime.
    pub fn begin(&self) {
        let Some(worker) = &self.worker else { return };
        worker.is_started.store(true, Ordering::Relaxed);
        Worker::begin(worker);
    }

    /// Has what an earlier process left sent, behind this call; only the first call does anything.
    pub fn start(&self) {
        let Some(worker) = &self.worker else { return };
        if !worker.is_started.swap(true, Ordering::Relaxed) {
            Worker::begin(worker);
        }
    }

    /// Waits until nothing is being sent, `within` at most: for a process that is about to end. A pause before another
    /// attempt is not waited for.
    pub async fn rest(&self, within: Duration) {
        let Some(worker) = &self.worker else { return };
        let mut phase = worker.phase.subscribe();
        let rested = phase.wait_for(|phase| *phase != Phase::Sending);
        // What is not sent by then waits in the outbox.
        let _ = tokio::time::timeout(within, rested).await;
    }

    /// Sends what waits, with as many attempts as the mirror's state allows, and tells after each batch how much was sent.
    /// Without a mirror nothing is sent.
    ///
    /// # Errors
    /// What the last attempt failed with.
    pub async fn flush(&self, told: &mut (dyn FnMut(u64) + Send)) -> Result<Delivered, Error> {
        let Some(worker) = &self.worker else { return Ok(Delivered::default()) };
        loop {
            let failed = match worker.courier.deliver(told).await {
                Ok(delivered) => {
                    worker.courier.check().await?;
                    return Ok(delivered);
                }
                Err(error) => error,
            };
            match worker.courier.pause().await? {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(failed),
            }
        }
    }

    /// Counts the rows of the mirror's table; `None` where there is no mirror. It changes nothing about the state, and makes
    /// the table when it is missing.
    ///
    /// # Errors
    /// When the database cannot be reached or used.
    pub async fn rows(&self) -> Result<Option<Rows>, Error> {
        match &self.worker {
            Some(worker) => worker.courier.rows().await.map(Some),
            None => Ok(None),
        }
    }

    /// Returns whether summaries reach it. Only the journal is read.
    pub async fn status(&self) -> Result<MirrorStatus, Error> {
        match &self.worker {
            Some(worker) => Ok(worker.courier.state().await?.status()),
            None => Ok(MirrorStatus::Off),
        }
    }

    /// Returns what is known of it. Only the journal is read.
    pub async fn report(&self) -> Result<MirrorReport, Error> {
        let (waiting, oldest) = self.waiting().await?;
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
        let state = worker.courier.state().await?;
        Ok(MirrorReport {
            status: state.status(),
            location: Some(worker.courier.location()),
            waiting,
            oldest,
            last_success: state.delivered_at,
            last_error: state.error,
            last_error_at: state.failed_at,
            hint: state.hint,
            rejected: worker.courier.still_rejected(state.rejected).await?,
        })
    }

    /// Returns how its connections are used; `None` while there are none.
    pub fn connections(&self) -> Option<postgres::Figures> {
        self.worker.as_ref()?.courier.figures()
    }

    /// Returns how many items wait, and since when the oldest does.
    async fn waiting(&self) -> Result<(u64, Option<Timestamp>), Error> {
        Ok(self.store.outbox_waiting(MIRROR_KIND, None).await?)
    }
}

impl Worker {
    fn begin(self: &Arc<Self>) {
        let mut work = self.work.lock();
        if work.task.as_ref().is_some_and(|task| !task.is_finished()) {
            work.is_due_again = true;
            return;
        }
        work.is_due_again = false;
        self.phase.send_replace(Phase::Sending);
        work.task = Some(tokio::spawn(Arc::clone(self).work_off()));
    }

    /// Sends what waits until nothing does, or it cannot be sent.
    async fn work_off(self: Arc<Self>) {
        loop {
            let pause = match self.courier.deliver(&mut |_| {}).await {
                Ok(_) => None,
                Err(Error::Journal(error)) => {
                    tracing::warn!(%error, "failed to mirror accepted handoffs: {error}");
                    None
                }
                // The courier told of it if that was called for.
                Err(_) => self.courier.pause().await.unwrap_or(None),
            };
            match pause {
                Some(pause) => {
                    self.phase.send_replace(Phase::Pausing);
                    tokio::time::sleep(pause).await;
                }
                None if self.has_ended() => return,
                None => {}
            }
            self.phase.send_replace(Phase::Sending);
        }
    }

    /// Ends the work, unless something became due meanwhile.
    fn has_ended(&self) -> bool {
        let mut work = self.work.lock();
        if std::mem::take(&mut work.is_due_again) {
            return false;
        }
        work.task = None;
        self.phase.send_replace(Phase::Resting);
        true
    }
}
