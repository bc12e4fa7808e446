//! Reading runs: their rows, what clients asked them for, and what the journal tells of those that another process drives.

use journal::RunFilter;
use protocol::{Run, RunId, RunRequest, ThreadId};
use runtime::{Frames, Retelling, Retold};

use crate::Result;
use crate::agent::services::RunService;

impl RunService<'_> {
    /// Returns the run with that id; `None` if there is none.
    ///
    /// # Errors
    /// When the journal fails, as for all reads here.
    pub async fn get(self, run_id: RunId) -> Result<Option<Run>> {
        Ok(self.agent.store.run(run_id).await?)
    }

    /// Returns a page of runs, newest first.
    pub async fn list(self, filter: RunFilter) -> Result<Vec<Run>> {
        Ok(self.agent.store.runs(filter).await?)
    }

    /// Returns the runs that are running, of one thread or of all.
    pub async fn active(self, thread_id: Option<ThreadId>) -> Result<Vec<Run>> {
        Ok(self.agent.store.active_runs(thread_id).await?)
    }

    /// Returns the queued runs, of one thread or of all, in the order of their arrival.
    pub async fn queued(self, thread_id: Option<ThreadId>) -> Result<Vec<Run>> {
        Ok(self.agent.store.queued_runs(thread_id).await?)
    }

    /// Returns what a client asked the run for; `None` for a run of the terminal, or one that does not exist.
    pub async fn request(self, run_id: RunId) -> Result<Option<RunRequest>> {
        Ok(self.requests(&[run_id]).await?.pop().map(|(_, request)| request))
    }

    /// Returns the stored requests of at most [`journal::PAGE_ROWS_MAX`] runs, in the order of `run_ids`.
    pub async fn requests(self, run_ids: &[RunId]) -> Result<Vec<(RunId, RunRequest)>> {
        Ok(self.agent.store.run_requests(run_ids).await?)
    }

    /// Sends the frames of a run that became durable since the last call, as [`Retelling::tell`] does.
    pub async fn retell(self, retelling: &mut Retelling, frames: &Frames) -> Result<Retold> {
        Ok(retelling.tell(&*self.agent.store, frames).await?)
    }
}
