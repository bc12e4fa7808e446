//! Lifecycle events of runs: the one place that builds them, whoever begins or ends the run.

use jiff::Timestamp;
use protocol::event::body::{
    RunBeginning, RunEnded, RunFailed, RunInterrupted, RunStarted, RunStopRequested,
};
use protocol::{NewEvent, RunFailure, RunId, RunStatus};

/// Builds the lifecycle events of a run.
#[derive(Debug, Clone, Copy)]
pub struct RunEvents {
    /// The run.
    pub run_id: RunId,
    /// When it happens.
    pub at: Timestamp,
}

impl RunEvents {
    /// Returns the event with which a run begins, or continues.
    ///
    /// # Errors
    /// When it cannot be written as JSON; neither can the other events.
    pub fn started(self, how: RunBeginning, model: Option<String>) -> serde_json::Result<NewEvent> {
        Ok(NewEvent::of(&RunStarted { how, model }, self.at)?.in_run(self.run_id))
    }

    /// Returns the event that asks the run to stop.
    ///
    /// # Errors
    /// As [`RunEvents::started`].
    pub fn stop_requested(self) -> serde_json::Result<NewEvent> {
        Ok(NewEvent::of(&RunStopRequested {}, self.at)?.in_run(self.run_id))
    }

    /// Returns the event that says what the run waits for.
    ///
    /// # Errors
    /// As [`RunEvents::started`].
    pub fn interrupted(self, waits_for: &RunInterrupted) -> serde_json::Result<NewEvent> {
        Ok(NewEvent::of(waits_for, self.at)?.in_run(self.run_id))
    }

    /// Returns the event of a run that ended otherwise than by a failure.
    ///
    /// # Errors
    /// As [`RunEvents::started`].
    pub fn ended(self, status: RunStatus, steps: u64) -> serde_json::Result<NewEvent> {
        Ok(NewEvent::of(&RunEnded { status, steps }, self.at)?.in_run(self.run_id))
    }

    /// Returns the event of a run that failed.
    ///
    /// # Errors
    /// As [`RunEvents::started`].
    pub fn failed(self, failure: RunFailure, steps: u64) -> serde_json::Result<NewEvent> {
        Ok(NewEvent::of(&RunFailed { failure, steps }, self.at)?.in_run(self.run_id))
    }
}
