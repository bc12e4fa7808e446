//! Bodies of the lifecycle events of a run: counters, ids and reasons, never the text of messages.

use serde::{Deserialize, Serialize};

use crate::event::names::stored_enum;
use crate::ids::InterruptId;
use crate::run::RunStatus;
use crate::run::failure::RunFailure;

stored_enum! {
    /// The way in which a run came to be executed.
    #[derive(Default)]
    pub enum RunStartKind {
        /// The run was admitted and starts.
        #[default]
        Admitted = "admitted",
        /// The run resumes the thread with an answer to a question of an earlier run.
        Resumed = "resumed",
        /// This process took the run over from a process that exited or released it.
        TakenOver = "taken over",
        /// The run ended in the transaction that admitted it: there was nothing to do, or the request was invalid.
        EndedImmediately = "ended at once",
    }
}

/// The body of a `run_started` event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStarted {
    /// The way in which the run came to be executed.
    #[serde(default)]
    pub how: RunStartKind,
    /// `provider/name` of the run's model; `None` if the run calls no model.
    pub model: Option<String>,
}

/// The body of a `run_stop_requested` event. It has no fields, because the event's `run_id` names the run to stop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStopRequested {}

/// The body of a `run_interrupted` event: the run needs a decision, or it reached a breakpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunInterrupted {
    /// The pending interrupts; empty at a breakpoint.
    #[serde(default)]
    pub interrupt_ids: Vec<InterruptId>,
    /// The names of the requested actions.
    #[serde(default)]
    pub actions: Vec<String>,
    /// The node with which the graph resumes; `None` in events of earlier versions.
    pub next: Option<String>,
}

/// The body of a `run_ended` event: the run ended without a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnded {
    /// The final status of the run.
    pub status: RunStatus,
    /// Number of steps that the run executed.
    #[serde(default)]
    pub steps: u64,
}

/// The body of a `run_failed` event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFailed {
    /// The failure. Its fields are stored next to `steps`.
    #[serde(flatten)]
    pub failure: RunFailure,
    /// Number of steps that the run executed; 0 if an earlier version did not store it.
    #[serde(default)]
    pub steps: u64,
}
