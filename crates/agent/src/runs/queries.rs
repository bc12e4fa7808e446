//! Queries about runs: their rows, the stored requests of clients, and frames of runs that another process
//! drives. All of them fail only if the journal does.

use futures::future::BoxFuture;
use journal::RunFilter;
use protocol::{Run, RunId, RunRequest, ThreadId};
use runtime::{FrameSender, Replay, ReplayStatus};

use crate::Result;
use crate::RunService;

impl<'a> RunService<'a> {
    /// Returns the run with that id; `None` if it does not exist or belongs to another owner.
    ///
    /// # Errors
    /// Fails only if the journal does, as all queries here.
    pub fn get(self, run_id: RunId) -> BoxFuture<'a, Result<Option<Run>>> {
        journal::box_future(async move { Ok(self.agent.store.run(run_id).await?) })
    }

    /// Returns a page of the runs that match the filter, newest first.
    pub fn list(self, filter: RunFilter) -> BoxFuture<'a, Result<Vec<Run>>> {
        journal::box_future(async move { Ok(self.agent.store.runs(filter).await?) })
    }

    /// Returns the active runs, of one thread or of all.
    pub fn active_runs(self, thread_id: Option<ThreadId>) -> BoxFuture<'a, Result<Vec<Run>>> {
        journal::box_future(async move { Ok(self.agent.store.active_runs(thread_id).await?) })
    }

    /// Returns the queued runs, of one thread or of all, in the order of their arrival.
    pub fn queued_runs(self, thread_id: Option<ThreadId>) -> BoxFuture<'a, Result<Vec<Run>>> {
        journal::box_future(async move { Ok(self.agent.store.queued_runs(thread_id).await?) })
    }

    /// Returns the client's request for a run; `None` for a run of the terminal, and for one that does not
    /// exist.
    pub fn stored_request(self, run_id: RunId) -> BoxFuture<'a, Result<Option<RunRequest>>> {
        journal::box_future(async move {
            Ok(self.stored_requests(&[run_id]).await?.pop().map(|(_, request)| request))
        })
    }

    /// Returns the stored requests of at most [`journal::PAGE_ROWS_MAX`] runs, in the order of `run_ids`.
    pub fn stored_requests(self, run_ids: &'a [RunId]) -> BoxFuture<'a, Result<Vec<(RunId, RunRequest)>>> {
        journal::box_future(async move { Ok(self.agent.store.run_requests(run_ids).await?) })
    }

    /// Sends the frames of a run that became durable since the last call, as [`Replay::send_new_frames`]
    /// does.
    pub fn replay_frames(
        self,
        replay: &'a mut Replay,
        frames: &'a FrameSender,
    ) -> BoxFuture<'a, Result<ReplayStatus>> {
        journal::box_future(async move { Ok(replay.send_new_frames(&*self.agent.store, frames).await?) })
    }
}
