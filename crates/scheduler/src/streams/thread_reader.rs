//! A reader of a thread: it returns one run after the other, first those whose streams exist, then each run that
//! starts, until it is dropped.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use protocol::{OwnerScope, RunId, ThreadId};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::watch;

use crate::scheduler::Scheduler;
use crate::streams::run_reader::RunReader;
use crate::streams::{FirstSubscriber, ScopedThread, ThreadRunSubscription};

/// A reader of the runs of a thread. The thread does not have to exist yet.
#[derive(Debug)]
pub struct ThreadReader {
    scheduler: Weak<Scheduler>,
    thread: ScopedThread,
    /// Runs that had a stream when the reader was created, oldest first.
    existing_runs: VecDeque<RunId>,
    /// Receives each run that starts later.
    started_runs: Receiver<RunId>,
    changes: watch::Receiver<()>,
}

/// An item that a [`ThreadReader`] returns.
#[derive(Debug)]
pub enum ThreadItem {
    /// A run, from its beginning. Read it to its end before you request the next item.
    Run(RunReader),
    /// Runs started and ended, and their streams are gone. Their events are in the journal.
    Gap,
}

/// A subscription to changes of a thread that are not part of a run's stream, such as a new name or a rewind. The
/// changes themselves are in the journal.
#[derive(Debug, Clone)]
pub struct ThreadChanges(watch::Receiver<()>);

impl ThreadChanges {
    /// Waits for a change since the last call; several changes are reported once. Never returns after the last reader
    /// of the thread was dropped. Cancel safe.
    pub async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending().await
        }
    }
}

impl ThreadReader {
    /// Returns a reader of the runs that have a stream, and of each run that starts later.
    pub(crate) fn subscribe(scheduler: &Arc<Scheduler>, scope: &OwnerScope, thread_id: ThreadId) -> Self {
        let ThreadRunSubscription { runs, started_runs, changes, first_subscriber } =
            scheduler.streams.subscribe(scope, thread_id);
        if first_subscriber == FirstSubscriber::Yes {
            scheduler.spawn_thread_poller(scope, thread_id);
        }
        Self {
            scheduler: Arc::downgrade(scheduler),
            thread: ScopedThread { thread_id, scope: scope.clone() },
            existing_runs: runs,
            started_runs,
            changes,
        }
    }

    /// Returns a subscription to changes that are not part of a run's stream.
    pub fn changes(&self) -> ThreadChanges {
        ThreadChanges(self.changes.clone())
    }

    /// Waits for the next run; returns `None` when the server shuts down. Cancel safe.
    pub async fn next(&mut self) -> Option<ThreadItem> {
        if let Some(item) = self.next_existing() {
            return Some(item);
        }
        let stopping = self.scheduler.upgrade()?.closing.clone();
        let started = tokio::select! {
            started = self.started_runs.recv() => started,
            () = stopping.cancelled() => return None,
        };
        match started {
            Ok(run_id) => Some(self.open_run(run_id).map_or(ThreadItem::Gap, ThreadItem::Run)),
            Err(RecvError::Lagged(_)) => Some(ThreadItem::Gap),
            Err(RecvError::Closed) => None,
        }
    }

    /// Returns the next run if it has started already.
    pub fn try_next(&mut self) -> Option<ThreadItem> {
        if let Some(item) = self.next_existing() {
            return Some(item);
        }
        match self.started_runs.try_recv() {
            Ok(run_id) => Some(self.open_run(run_id).map_or(ThreadItem::Gap, ThreadItem::Run)),
            Err(TryRecvError::Lagged(_)) => Some(ThreadItem::Gap),
            Err(TryRecvError::Empty | TryRecvError::Closed) => None,
        }
    }

    /// Drops the runs that ended before this reader was created. An active run is still read from its beginning.
    #[must_use]
    pub fn skip_ended(mut self) -> Self {
        if let Some(scheduler) = self.scheduler.upgrade() {
            let is_active = |run_id: &RunId| {
                scheduler.streams.get(*run_id).is_some_and(|stream| !stream.closed.is_cancelled())
            };
            self.existing_runs.retain(is_active);
        }
        self
    }

    /// Returns the next run that existed when the reader was created, and skips those whose streams are gone by now.
    fn next_existing(&mut self) -> Option<ThreadItem> {
        while let Some(run_id) = self.existing_runs.pop_front() {
            if let Some(reader) = self.open_run(run_id) {
                return Some(ThreadItem::Run(reader));
            }
        }
        None
    }

    /// Returns a reader of the run; `None` if its stream is gone.
    fn open_run(&self, run_id: RunId) -> Option<RunReader> {
        let stream = self.scheduler.upgrade()?.streams.get(run_id)?;
        RunReader::open(stream, None, Weak::clone(&self.scheduler))
    }
}

impl Drop for ThreadReader {
    fn drop(&mut self) {
        if let Some(scheduler) = self.scheduler.upgrade() {
            scheduler.streams.unsubscribe(&self.thread);
        }
    }
}
