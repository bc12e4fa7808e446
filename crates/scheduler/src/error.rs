//! The errors of the scheduler: why a run could not be accepted, joined or cancelled. A run that fails is not such an
//! error; its final status says that it failed.

use std::time::Duration;

use protocol::{RunId, RunStatus, ThreadId};

use crate::webhooks::target::WebhookTargetError;

/// A refused or failed call of the scheduler.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The queue limit is reached, for this owner or in total.
    #[error("queue the run: too many runs are queued already")]
    QueueFull {
        /// After which time the client should try again.
        retry_after: Duration,
    },
    /// The server shuts down and accepts nothing new.
    #[error("accept the run: the server is shutting down")]
    ShuttingDown,
    /// The thread is busy, and the request's `multitask_strategy` is `reject`.
    #[error("start a run on thread {thread_id}: it is already running a task")]
    Busy {
        /// The busy thread.
        thread_id: ThreadId,
    },
    /// The thread has no run with that id.
    #[error("find run {run_id} in thread {thread_id}")]
    UnknownRun {
        /// The thread that was searched.
        thread_id: ThreadId,
        /// The requested run.
        run_id: RunId,
    },
    /// The webhook's target is not allowed or cannot be reached.
    #[error("use the webhook: {0}")]
    Webhook(#[from] WebhookTargetError),
    /// The run had already ended, so that it cannot be cancelled.
    #[error("cancel run {run_id}: it has already ended with status {}", status.as_str())]
    Ended {
        /// The run.
        run_id: RunId,
        /// The status with which it ended.
        status: RunStatus,
    },
    /// The task of the call ended before it had a result: it panicked, or the server was halted meanwhile.
    #[error("finish the request: its task was aborted")]
    Aborted,
    /// The agent's services failed.
    #[error(transparent)]
    Agent(#[from] agent::Error),
}
