//! Why a run could not be taken, joined or stopped. A run that fails is no error: its end says so.

use std::time::Duration;

use protocol::{RunId, RunStatus, ThreadId};

use crate::webhooks::target::Refusal;

/// A refused or failed call.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// As many runs wait as may, of this owner or in all.
    #[error("take another run: too many wait already")]
    Full {
        /// When it is worth trying again.
        retry_after: Duration,
    },
    /// The server stops; nothing new begins.
    #[error("take another run: the server is stopping")]
    ShuttingDown,
    /// Something works on the thread, and the request would rather be refused than wait.
    #[error("start a run on thread {thread_id}: it is already running a task")]
    Busy {
        /// The thread.
        thread_id: ThreadId,
    },
    /// The thread has no such run.
    #[error("find run {run_id} in thread {thread_id}")]
    UnknownRun {
        /// The thread.
        thread_id: ThreadId,
        /// What was given.
        run_id: RunId,
    },
    /// The address that is to be told of the run's end must not be.
    #[error("use the webhook: {0}")]
    Webhook(#[from] Refusal),
    /// The run came to its end before.
    #[error("stop run {run_id}: it has ended: {}", status.as_str())]
    Ended {
        /// The run.
        run_id: RunId,
        /// How it ended.
        status: RunStatus,
    },
    /// The task of the call came to an end of its own: a fault of ours, or the server went down in the middle.
    #[error("finish the call: it was cut off")]
    CutOff,
    /// The agent failed.
    #[error(transparent)]
    Agent(#[from] agent::Error),
}
