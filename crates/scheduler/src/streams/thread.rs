//! One reader of a thread: run after run, those that are kept and those that begin later, as long as the reader stays.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use protocol::{RunId, Scope, ThreadId};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::watch;

use crate::dispatch::Dispatch;
use crate::streams::live::Live;
use crate::streams::{Following, IsFirst, ScopedThread};

/// A reader of a thread over its runs. The thread need not exist yet.
#[derive(Debug)]
pub struct ThreadLive {
    dispatch: Weak<Dispatch>,
    whose: ScopedThread,
    /// Runs that there were streams of when the reader came.
    before: VecDeque<RunId>,
    begun: Receiver<RunId>,
    changed: watch::Receiver<()>,
}

/// What a reader of a thread is given.
#[derive(Debug)]
pub enum ThreadItem {
    /// A run, from its beginning. It is read to its end before the next one is asked for.
    Run(Live),
    /// Runs came and went, and their streams are gone. What they did is in the journal.
    Gap,
}

/// Tells that something may have been stored on a thread that no run tells of: a name, what somebody took back. It is in the
/// journal.
#[derive(Debug, Clone)]
pub struct Changes(watch::Receiver<()>);

impl Changes {
    /// Returns when that happened since the last call, however often; never again once nobody follows the thread.
    pub async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending().await
        }
    }
}

impl ThreadLive {
    /// Returns a reader of the runs that there are streams of, and of every one that begins.
    pub(crate) fn of(dispatch: &Arc<Dispatch>, scope: &Scope, thread_id: ThreadId) -> Self {
        let Following { runs, begun, changed, is_first } = dispatch.streams.follow(scope, thread_id);
        if is_first == IsFirst::Yes {
            dispatch.watch_thread(scope, thread_id);
        }
        Self {
            dispatch: Arc::downgrade(dispatch),
            whose: ScopedThread { thread_id, scope: scope.clone() },
            before: runs,
            begun,
            changed,
        }
    }

    /// Returns what tells of what no run tells.
    pub fn changes(&self) -> Changes {
        Changes(self.changed.clone())
    }

    /// Returns the next run, once there is one; `None` when the server stops.
    pub async fn next(&mut self) -> Option<ThreadItem> {
        if let Some(item) = self.kept_before() {
            return Some(item);
        }
        let stopping = self.dispatch.upgrade()?.closing.clone();
        let begun = tokio::select! {
            begun = self.begun.recv() => begun,
            () = stopping.cancelled() => return None,
        };
        match begun {
            Ok(run_id) => Some(self.open(run_id).map_or(ThreadItem::Gap, ThreadItem::Run)),
            Err(RecvError::Lagged(_)) => Some(ThreadItem::Gap),
            Err(RecvError::Closed) => None,
        }
    }

    /// Returns the next run if it has begun already.
    pub fn try_next(&mut self) -> Option<ThreadItem> {
        if let Some(item) = self.kept_before() {
            return Some(item);
        }
        match self.begun.try_recv() {
            Ok(run_id) => Some(self.open(run_id).map_or(ThreadItem::Gap, ThreadItem::Run)),
            Err(TryRecvError::Lagged(_)) => Some(ThreadItem::Gap),
            Err(TryRecvError::Empty | TryRecvError::Closed) => None,
        }
    }

    /// Forgets the runs that ended before this reader came; one that works is read from its beginning.
    #[must_use]
    pub fn from_now(mut self) -> Self {
        if let Some(dispatch) = self.dispatch.upgrade() {
            let works = |run_id: &RunId| {
                dispatch.streams.get(*run_id).is_some_and(|stream| !stream.closed.is_cancelled())
            };
            self.before.retain(works);
        }
        self
    }

    /// Returns the next of the runs there were; those that are gone by now are passed over.
    fn kept_before(&mut self) -> Option<ThreadItem> {
        while let Some(run_id) = self.before.pop_front() {
            if let Some(live) = self.open(run_id) {
                return Some(ThreadItem::Run(live));
            }
        }
        None
    }

    /// Returns a reader of the run; `None` when its stream was not kept long enough.
    fn open(&self, run_id: RunId) -> Option<Live> {
        let stream = self.dispatch.upgrade()?.streams.get(run_id)?;
        Live::of(stream, None, Weak::clone(&self.dispatch))
    }
}

impl Drop for ThreadLive {
    fn drop(&mut self) {
        if let Some(dispatch) = self.dispatch.upgrade() {
            dispatch.streams.unfollow(&self.whose);
        }
    }
}
