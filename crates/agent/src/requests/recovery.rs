//! Recovery: going on with what processes that are gone have left, or ending it; and stopping runs of other processes.

use std::sync::Arc;

use jiff::Timestamp;
use model::ChatModel;
use protocol::{AssistantId, Checkpoint, Run, RunId, RunStatus, Scope, ThreadId};
use runtime::{Admission, Admitted, Driver, Frame, Frames, Lease, RunEnd, Start, Taken};
use tokio_util::sync::CancellationToken;

use crate::agent::Agent;
use crate::agent::services::RunService;
use crate::assembly::Purpose;
use crate::{Class, Error, Result, RunError};

/// How a run ends that was cut off and that nobody can go on with.
const LEFT: &str = "its process ended before it was done";

/// Which threads a sweep goes through.
#[derive(Clone, Copy)]
enum Swept {
    /// Those of runs that were cut off, too.
    CutOff,
    /// Those on which no run is.
    AtRest,
}

impl RunService<'_> {
    /// Does what runs of any thread had decided and not done when their process ended, such as an acceptance. Runs
    /// that live elsewhere are left to themselves, and what cannot be done is told and stays to be done.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn sweep(self, frames: &Frames, cancel: &CancellationToken) -> Result<()> {
        self.sweep_through(Swept::CutOff, frames, cancel).await
    }

    /// Does the same for threads that are at rest: runs that were cut off are gone on with by whoever calls this.
    ///
    /// # Errors
    /// As for [`Self::sweep`].
    pub async fn sweep_at_rest(self, frames: &Frames, cancel: &CancellationToken) -> Result<()> {
        self.sweep_through(Swept::AtRest, frames, cancel).await
    }

    async fn sweep_through(self, swept: Swept, frames: &Frames, cancel: &CancellationToken) -> Result<()> {
        self.agent.mirror.start();
        for checkpoint in self.agent.store.unfinished_checkpoints().await? {
            let thread_id = checkpoint.thread_id;
            // What asks a model goes on when somebody opens its thread; a turn with that person's rules.
            match Purpose::at(checkpoint.next.as_deref(), Some(&checkpoint.channels)) {
                Purpose::Turn | Purpose::Compaction => continue,
                Purpose::Handoff | Purpose::Rest | Purpose::Drop => {}
            }
            let done = match swept {
                Swept::CutOff => self.recover(thread_id, &Frames::default(), cancel).await,
                Swept::AtRest => self.finish_at_rest(thread_id, cancel).await,
            };
            match done {
                Ok(_) => {}
                Err(error) if error.class() == Class::Conflict => {}
                Err(error) => {
                    let text = format!("failed to finish what was begun in thread {thread_id}: {error}");
                    frames.send(Frame::Notice { text });
                }
            }
        }
        Ok(())
    }

    async fn finish_at_rest(self, thread_id: ThreadId, cancel: &CancellationToken) -> Result<Option<RunEnd>> {
        let agent = self.agent.of_whom(thread_id).await?;
        match agent.store.active_runs(Some(thread_id)).await?.is_empty() {
            true => agent.runs().finish(thread_id, &Frames::default(), cancel).await,
            false => Ok(None),
        }
    }
}

impl Agent {
    /// Returns the agent that reads and writes as whoever the thread belongs to.
    async fn of_whom(&self, thread_id: ThreadId) -> Result<Self> {
        let owner = self.thread(thread_id).await?.assistant_id.owner();
        Ok(self.scoped(Scope::Owner(owner)))
    }
}

impl RunService<'_> {
    /// Goes on where a run of the thread was cut off by a crash, and does what it left to do. Nothing that was
    /// stored is done again. A run that waits for a model where none is configured is ended.
    ///
    /// # Errors
    /// [`journal::Error::Busy`] when the run is alive in another process.
    pub async fn recover(
        self,
        thread_id: ThreadId,
        frames: &Frames,
        cancel: &CancellationToken,
    ) -> Result<Option<RunEnd>> {
        if self.agent.scope == Scope::Everyone {
            let agent = self.agent.of_whom(thread_id).await?;
            return Box::pin(agent.runs().recover(thread_id, frames, cancel)).await;
        }
        if let Some(run) = self.agent.store.active_runs(Some(thread_id)).await?.into_iter().next() {
            let ended = Taken::Ended(self.agent.leases.ended(&run).await?);
            return self.take_over(&run, ended, frames, cancel).await;
        }
        self.finish(thread_id, frames, cancel).await
    }

    /// Does what a thread that is at rest was left to do.
    async fn finish(
        self,
        thread_id: ThreadId,
        frames: &Frames,
        cancel: &CancellationToken,
    ) -> Result<Option<RunEnd>> {
        match self.agent.store.checkpoint(thread_id).await? {
            Some(checkpoint) if !checkpoint.activities.is_empty() => {
                let start = Start { channels: Purpose::Rest.channels(), ..Start::default() };
                Ok(Some(self.run_prepared(thread_id, start, frames, cancel).await?))
            }
            Some(checkpoint) => self.begin_answered(&checkpoint, frames, cancel).await,
            None => Ok(None),
        }
    }

    /// Goes on with a run that this process has claimed, as it was before that. Nothing that was stored is done again.
    ///
    /// # Errors
    /// As for [`RunService::recover`].
    pub async fn go_on(
        self,
        run: &Run,
        frames: &Frames,
        cancel: &CancellationToken,
    ) -> Result<Option<RunEnd>> {
        self.take_over(run, Taken::Claimed, frames, cancel).await
    }

    async fn take_over(
        self,
        run: &Run,
        taken: Taken,
        frames: &Frames,
        cancel: &CancellationToken,
    ) -> Result<Option<RunEnd>> {
        let thread_id = run.thread_id;
        let opened = self.agent.models.open();
        let before = self.agent.store.checkpoint(thread_id).await?;
        let next = before.as_ref().and_then(|point| point.next.as_deref());
        let purpose = Purpose::to_go_on(next, before.as_ref());
        let agent =
            self.agent.in_workspace(&self.agent.workspace_to_go_on(thread_id, before.as_ref()).await?);
        let model = match purpose {
            Purpose::Turn => opened?,
            Purpose::Handoff | Purpose::Compaction | Purpose::Rest | Purpose::Drop => opened.unwrap_or(None),
        };
        let mut driver = agent.driver(&run.assistant_id, model.as_ref(), purpose).await?;
        self.bind_again(&mut driver, run.run_id).await?;
        if next.is_some_and(|next| driver.graph.get(next).is_none()) {
            self.end_taken(run, taken).await?;
            return Ok(None);
        }
        let reclaimed = runtime::reclaim(&*self.agent.store, run, &driver.lease, taken).await;
        let admitted = match reclaimed {
            // It came to its end between being read and being taken over.
            Err(runtime::Error::Journal(journal::Error::Fenced { status, .. })) if !status.is_active() => {
                return Ok(None);
            }
            reclaimed => reclaimed?,
        };
        self.drive_on(&driver, admitted, frames, cancel).await.map(Some)
    }

    /// Drives a run that goes on, and ends the draft of a handoff that it was stopped before.
    async fn drive_on(
        self,
        driver: &Driver,
        admitted: Admitted,
        frames: &Frames,
        cancel: &CancellationToken,
    ) -> Result<RunEnd> {
        let thread_id = admitted.checkpoint.thread_id;
        let end = self.drive(driver, admitted, frames, cancel).await?;
        self.agent.handoffs().end_stopped(thread_id, &end, frames).await?;
        Ok(end)
    }

    /// Ends a run that was cut off, without going on with it.
    async fn end_taken(self, run: &Run, taken: Taken) -> Result<()> {
        let lease = self.agent.leases.lease().await?;
        match taken {
            Taken::Claimed => {
                runtime::fail(&*self.agent.store, run, lease.owner(), LEFT, lease.now()).await?
            }
            Taken::Ended(now) => runtime::give_up(&*self.agent.store, run, lease, now).await?,
        }
        Ok(())
    }

    /// Recovers the thread before something else begins in it. A turn whose folder does not exist here is
    /// ended: what it was about to do there is not done elsewhere.
    ///
    /// # Errors
    /// As for [`Self::recover`].
    pub async fn take_up(
        self,
        thread_id: ThreadId,
        frames: &Frames,
        cancel: &CancellationToken,
    ) -> Result<Option<RunEnd>> {
        match self.recover(thread_id, frames, cancel).await {
            Err(Error::Run(RunError::WorkspaceGone { .. })) => {
                self.end_cut_off(thread_id).await.map(|()| None)
            }
            recovered => recovered,
        }
    }

    /// Goes on with a run whose questions were all answered by a process that ended before it could.
    async fn begin_answered(
        self,
        checkpoint: &Checkpoint,
        frames: &Frames,
        cancel: &CancellationToken,
    ) -> Result<Option<RunEnd>> {
        let Some(asked) = runtime::answered(&*self.agent.store, checkpoint).await? else { return Ok(None) };
        let (thread_id, model) = (checkpoint.thread_id, self.agent.models.usable());
        let purpose = Purpose::to_go_on(Some(&asked.node), Some(checkpoint));
        let agent =
            self.agent.in_workspace(&self.agent.workspace_to_go_on(thread_id, Some(checkpoint)).await?);
        let assistant_id = self.agent.thread(thread_id).await?.assistant_id;
        let driver = agent.driver(&assistant_id, model.as_ref(), purpose).await?;
        if driver.graph.get(&asked.node).is_none() {
            return Ok(None);
        }
        let admission = admission(thread_id, assistant_id, model.as_ref(), &driver.lease);
        match runtime::begin_answered(&*self.agent.store, &admission, &asked).await? {
            Some(admitted) => self.drive_on(&driver, admitted, frames, cancel).await.map(Some),
            None => Ok(None),
        }
    }

    /// Asks the thread's run to stop, in whatever process it works; says whether there was one. It stops at its next
    /// look into the journal, about a second later.
    ///
    /// # Errors
    /// When the thread does not exist, or the journal fails.
    pub async fn stop(self, thread_id: ThreadId) -> Result<bool> {
        self.agent.thread(thread_id).await?;
        match self.agent.store.active_runs(Some(thread_id)).await?.into_iter().next() {
            Some(run) => self.stop_run(run.run_id).await,
            None => Ok(false),
        }
    }

    /// Asks this run to stop as [`RunService::stop`] does, and no other; says whether it was under way.
    ///
    /// # Errors
    /// When there is no such run, or the journal fails.
    pub async fn stop_run(self, run_id: RunId) -> Result<bool> {
        let asked = runtime::request_stop(&*self.agent.store, run_id, Timestamp::now()).await;
        match asked {
            Err(runtime::Error::Journal(journal::Error::NotFound { .. })) => {
                Err(RunError::Unknown(run_id.to_string()).into())
            }
            asked => Ok(asked?.is_active()),
        }
    }

    /// Ends a run of the thread whose process is gone, without going on with it.
    ///
    /// # Errors
    /// [`journal::Error::Busy`] when its process may live; when the journal fails.
    pub async fn end_cut_off(self, thread_id: ThreadId) -> Result<()> {
        if let Some(run) = self.agent.store.active_runs(Some(thread_id)).await?.into_iter().next() {
            let now = self.agent.leases.ended(&run).await?;
            runtime::give_up(&*self.agent.store, &run, self.agent.leases.lease().await?, now).await?;
        }
        Ok(())
    }

    /// Ends a run of this process that nobody drives any more because of a fault of ours; says whether it was working. One
    /// that had not begun is ended as one that waits.
    ///
    /// # Errors
    /// When there is no such run, or the journal fails.
    pub async fn fail(self, run_id: RunId, why: &str) -> Result<bool> {
        let run = self.known_run(run_id).await?;
        match run.status {
            RunStatus::Running => {
                let now = Timestamp::now();
                runtime::fail(&*self.agent.store, &run, self.agent.leases.name().await?, why, now).await?;
                Ok(true)
            }
            RunStatus::Pending => self.end_queued(run_id, RunStatus::Error, why).await,
            RunStatus::Success
            | RunStatus::Error
            | RunStatus::Interrupted
            | RunStatus::Timeout
            | RunStatus::Cancelled => Ok(false),
        }
    }
}

/// Returns the admission of a new run of `owner`.
fn admission(
    thread_id: ThreadId,
    assistant_id: AssistantId,
    model: Option<&Arc<dyn ChatModel>>,
    lease: &Lease,
) -> Admission {
    Admission {
        run_id: RunId::generate(),
        thread_id,
        assistant_id,
        model: model.map(|model| model.name().to_string()),
        lease: lease.clone(),
        now: Timestamp::now(),
        origin: runtime::Origin::New,
        durability: Default::default(),
    }
}
