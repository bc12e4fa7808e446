//! What can go wrong between a client and a run. A failing run is not an error: it is a [`crate::RunEnd`].

use protocol::{InterruptId, InterruptStatus, RunId};

use crate::graph::channel::ChannelError;

/// Why an answer to an interrupt cannot be taken; the interrupt stays pending.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// Not exactly one decision per action.
    #[error("{given} decisions were given for {expected} actions")]
    Count {
        /// How many were given.
        given: usize,
        /// How many actions wait.
        expected: usize,
    },
    /// The type of decision is not among those the action allows.
    #[error("`{given}` is not allowed for {action}; allowed: {}", allowed.join(", "))]
    NotAllowed {
        /// The decision's type.
        given: String,
        /// The action.
        action: String,
        /// What it allows.
        allowed: Vec<String>,
    },
    /// The decision's own fields cannot be used.
    #[error("{0}")]
    Invalid(String),
    /// The decision names something that is no longer current.
    #[error("{0}")]
    Stale(String),
    /// The question was answered or withdrawn before, and nothing waits for the decision.
    #[error("the question is {} already", .0.as_str())]
    NotPending(InterruptStatus),
}

/// A run that could not be admitted, resumed or driven.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] journal::Error),
    /// The answer was refused.
    #[error("take that decision: {rejection}")]
    Rejected {
        /// The interrupt.
        interrupt_id: InterruptId,
        /// Why.
        rejection: Rejection,
    },
    /// Another run came and went between looking at the thread and admitting this one; nothing was written, and it may be
    /// tried again.
    #[error("begin a run: another one came and went meanwhile")]
    Outrun,
    /// The process is about to end: the run has come to the end of a step, and goes on in the next process.
    #[error("go on with the run: the program is about to end")]
    Halted,
    /// Nobody could say in time that this process works on the run: another one may have it. It is as it was stored last, and
    /// whoever reaches the journal goes on with it.
    #[error("go on with run {run_id}: its lease ended before the journal could be written")]
    LeaseEnded {
        /// The run.
        run_id: RunId,
    },
    /// The thread's state cannot be read, so nothing was begun; a new message sets a question aside.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// A step could not be written as JSON.
    #[error("write a step as JSON")]
    Json(#[from] serde_json::Error),
}
