//! The runs of a thread that ended while a client was not connected, and whether frames of them are still available. Runs
//! without frames are replayed from the journal by the follower of the thread.

use agent::RunFilter;
use protocol::{Event, EventType, Run, RunId, RunStatus, Seq, ThreadId};

use crate::caller::Caller;
use crate::error::ApiError;

/// Runs that are looked at; of those before it is only known that they are over.
const RUNS_MAX: usize = 64;

/// The newest runs of a thread as they stood at one moment, newest first.
pub(crate) struct RecentRuns(Vec<Run>);

impl RecentRuns {
    /// Returns them.
    ///
    /// # Errors
    /// When the journal fails.
    pub(crate) async fn fetch(caller: &Caller, thread_id: ThreadId) -> Result<Self, ApiError> {
        let filter = RunFilter { thread_id: Some(thread_id), limit: RUNS_MAX, ..RunFilter::default() };
        Ok(Self(caller.agent.runs().list(filter).await?))
    }

    /// Returns those that had ended, newest first.
    pub(crate) fn ended_runs(&self) -> impl Iterator<Item = RunId> {
        self.0.iter().filter(|run| !run.status.is_active()).map(|run| run.run_id)
    }

    /// Returns whether the run had ended.
    pub(crate) fn has_ended(&self, run_id: RunId) -> bool {
        match self.0.iter().find(|run| run.run_id == run_id) {
            Some(run) => !run.status.is_active(),
            None => self.0.len() == RUNS_MAX && self.0.last().is_some_and(|oldest| run_id < oldest.run_id),
        }
    }

    /// Returns whether one had ended behind `had` whose frames are kept no more, or never were. They end in another order
    /// than they were made in, so that every one is looked at.
    ///
    /// # Errors
    /// When the journal fails.
    pub(crate) async fn has_missed(&self, caller: &Caller, had: Seq) -> Result<bool, ApiError> {
        let mut has_had_one = false;
        for run in self.0.iter().filter(|run| !run.status.is_active()) {
            match first_event_after(caller, run, had).await? {
                None => has_had_one |= run.status != RunStatus::Cancelled,
                Some(_) if caller.server.scheduler.run_reader(run.run_id, None).is_some() => {}
                // One that was stopped before it began did nothing that could be missed.
                Some(first) if run.status == RunStatus::Cancelled && is_run_end(&first) => {
                    let begin = first_event_after(caller, run, 0).await?;
                    if begin.is_some_and(|begin| begin.seq != first.seq) {
                        return Ok(true);
                    }
                }
                Some(_) => return Ok(true),
            }
        }
        Ok(!has_had_one && self.0.len() == RUNS_MAX)
    }

    /// Returns those that had ended behind `had`, each with the place of what it did first there.
    ///
    /// # Errors
    /// When the journal fails.
    pub(crate) async fn ended_after(&self, caller: &Caller, had: Seq) -> Result<Vec<(Seq, RunId)>, ApiError> {
        let mut behind = Vec::new();
        for run in self.0.iter().filter(|run| !run.status.is_active()) {
            behind.extend(first_event_after(caller, run, had).await?.map(|first| (first.seq, run.run_id)));
        }
        Ok(behind)
    }
}

async fn first_event_after(caller: &Caller, run: &Run, had: Seq) -> Result<Option<Event>, ApiError> {
    Ok(caller.agent.threads().run_events(run.run_ref(), had, 1).await?.pop())
}

fn is_run_end(event: &Event) -> bool {
    event.event_type == EventType::RunEnded.as_str()
}
