//! Bodies of the life of a run: counters, ids and reasons, never what was said.

use serde::{Deserialize, Serialize};

use crate::event::names::stored_enum;
use crate::ids::InterruptId;
use crate::run::RunStatus;
use crate::run::failure::RunFailure;

stored_enum! {
    /// How a run came to be executed.
    #[derive(Default)]
    pub enum RunStartKind {
        /// It was admitted.
        #[default]
        Admitted = "admitted",
        /// It continues with an answer to what an earlier run asked.
        Resumed = "resumed",
        /// This process took it over from one that is gone, or released it.
        TakenOver = "taken over",
        /// It ended with its admission: there was nothing to do, or the request could not be met.
        EndedImmediately = "ended at once",
    }
}

/// The body of a `run_started` event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStarted {
    /// How it came to be executed.
    #[serde(default)]
    pub how: RunStartKind,
    /// `provider/name` of its model; `None` when it calls none.
    pub model: Option<String>,
}

/// The body of a `run_stop_requested` event. It is empty: the event's run is the one that is to stop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStopRequested {}

/// The body of a `run_interrupted` event: the run stopped to ask a person.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunInterrupted {
    /// The pending questions; empty when the run stopped at a breakpoint.
    #[serde(default)]
    pub interrupt_ids: Vec<InterruptId>,
    /// The names of the actions that it asks about.
    #[serde(default)]
    pub actions: Vec<String>,
    /// The node it continues with; earlier versions did not store it.
    pub next: Option<String>,
}

/// The body of a `run_ended` event: the run ended otherwise than by a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnded {
    /// Its last status.
    pub status: RunStatus,
    /// Steps it took.
    #[serde(default)]
    pub steps: u64,
}

/// The body of a `run_failed` event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFailed {
    /// Why.
    #[serde(flatten)]
    pub failure: RunFailure,
    /// Steps it took; earlier versions did not always store it.
    #[serde(default)]
    pub steps: u64,
}
