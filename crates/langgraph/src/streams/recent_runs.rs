//! The newest runs of a thread, and which of them a client has missed. A client has missed a run that ended while it
//! was not connected, if the frames of the run are no longer available. The stream of the thread replays such runs
//! from the journal.

use agent::RunFilter;
use protocol::{Event, EventType, Run, RunId, RunStatus, Seq, ThreadId};

use crate::caller::Caller;
use crate::error::ApiError;

/// Maximum number of runs that are read. Older runs count as ended.
const RUNS_MAX: usize = 64;

/// The newest runs of a thread at one point in time, newest first.
pub(crate) struct RecentRuns(Vec<Run>);

impl RecentRuns {
    /// Reads the newest runs of the thread.
    ///
    /// # Errors
    /// Fails if the journal does.
    pub(crate) async fn fetch(caller: &Caller, thread_id: ThreadId) -> Result<Self, ApiError> {
        let filter = RunFilter { thread_id: Some(thread_id), limit: RUNS_MAX, ..RunFilter::default() };
        Ok(Self(caller.agent.runs().list(filter).await?))
    }

    /// Returns the runs that had ended, newest first.
    pub(crate) fn ended_runs(&self) -> impl Iterator<Item = RunId> {
        self.0.iter().filter(|run| !run.status.is_active()).map(|run| run.run_id)
    }

    /// Returns whether the run had ended. A run that is older than all runs that were read counts as ended.
    pub(crate) fn has_ended(&self, run_id: RunId) -> bool {
        match self.0.iter().find(|run| run.run_id == run_id) {
            Some(run) => !run.status.is_active(),
            None => self.0.len() == RUNS_MAX && self.0.last().is_some_and(|oldest| run_id < oldest.run_id),
        }
    }

    /// Returns whether a client that has received all events up to `received` has missed a run: an ended run with
    /// later events whose frames are not available.
    ///
    /// Runs do not end in the order of their creation, so that all of them are checked, with one or two queries each.
    /// If the client has received none of the runs that were read, it may have missed older ones, and the result is
    /// true.
    ///
    /// # Errors
    /// Fails if the journal does.
    pub(crate) async fn has_missed(&self, caller: &Caller, received: Seq) -> Result<bool, ApiError> {
        let mut has_received_one = false;
        for run in self.0.iter().filter(|run| !run.status.is_active()) {
            match first_event_after(caller, run, received).await? {
                None => has_received_one |= run.status != RunStatus::Cancelled,
                Some(_) if caller.server.scheduler.run_reader(run.run_id, None).is_some() => {}
                // A run that was cancelled before it started has only this event, and nothing that could be missed.
                Some(first) if run.status == RunStatus::Cancelled && is_run_end(&first) => {
                    let first_of_run = first_event_after(caller, run, 0).await?;
                    if first_of_run.is_some_and(|event| event.seq != first.seq) {
                        return Ok(true);
                    }
                }
                Some(_) => return Ok(true),
            }
        }
        Ok(!has_received_one && self.0.len() == RUNS_MAX)
    }

    /// Returns the ended runs with events after `received`, each with the `seq` of the first of these events. Costs
    /// one query for each ended run.
    ///
    /// # Errors
    /// Fails if the journal does.
    pub(crate) async fn ended_after(
        &self,
        caller: &Caller,
        received: Seq,
    ) -> Result<Vec<(Seq, RunId)>, ApiError> {
        let mut ended = Vec::new();
        for run in self.0.iter().filter(|run| !run.status.is_active()) {
            let first = first_event_after(caller, run, received).await?;
            ended.extend(first.map(|event| (event.seq, run.run_id)));
        }
        Ok(ended)
    }
}

/// Returns the first event of the run after `after`.
async fn first_event_after(caller: &Caller, run: &Run, after: Seq) -> Result<Option<Event>, ApiError> {
    Ok(caller.agent.threads().run_events(run.run_ref(), after, 1).await?.pop())
}

/// Returns whether the event ends a run.
fn is_run_end(event: &Event) -> bool {
    event.event_type == EventType::RunEnded.as_str()
}
