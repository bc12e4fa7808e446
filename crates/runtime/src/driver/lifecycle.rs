//! Lifecycle events of runs. They are built here only, for every process and service that starts or ends a run.

use jiff::Timestamp;
use protocol::event::body::{
    RunEnded, RunFailed, RunInterrupted, RunStartKind, RunStarted, RunStopRequested,
};
use protocol::{NewEvent, RunFailure, RunId, RunStatus};

/// The builder of a run's lifecycle events.
#[derive(Debug, Clone, Copy)]
pub struct RunEvents {
    /// The run that the events are about.
    pub run_id: RunId,
    /// The time of the events.
    pub at: Timestamp,
}

impl RunEvents {
    /// Returns the event that records the start of the run, or that a process continues it. `model` is the
    /// `provider/name` of the run's model, if it uses one.
    ///
    /// # Errors
    /// Fails when the event cannot be serialized as JSON.
    pub fn started_event(self, how: RunStartKind, model: Option<String>) -> serde_json::Result<NewEvent> {
        Ok(NewEvent::from_body(&RunStarted { how, model }, self.at)?.with_run(self.run_id))
    }

    /// Returns the event that requests the run to stop.
    ///
    /// # Errors
    /// As [`RunEvents::started_event`].
    pub fn stop_requested_event(self) -> serde_json::Result<NewEvent> {
        Ok(NewEvent::from_body(&RunStopRequested {}, self.at)?.with_run(self.run_id))
    }

    /// Returns the event that records the questions or the breakpoint for which the run was interrupted.
    ///
    /// # Errors
    /// As [`RunEvents::started_event`].
    pub fn interrupted_event(self, interruption: &RunInterrupted) -> serde_json::Result<NewEvent> {
        Ok(NewEvent::from_body(interruption, self.at)?.with_run(self.run_id))
    }

    /// Returns the event that records the end of a run that did not fail, after `steps` steps.
    ///
    /// # Errors
    /// As [`RunEvents::started_event`].
    pub fn ended_event(self, status: RunStatus, steps: u64) -> serde_json::Result<NewEvent> {
        Ok(NewEvent::from_body(&RunEnded { status, steps }, self.at)?.with_run(self.run_id))
    }

    /// Returns the event that records the failure of the run after `steps` steps.
    ///
    /// # Errors
    /// As [`RunEvents::started_event`].
    pub fn failed_event(self, failure: RunFailure, steps: u64) -> serde_json::Result<NewEvent> {
        Ok(NewEvent::from_body(&RunFailed { failure, steps }, self.at)?.with_run(self.run_id))
    }
}
