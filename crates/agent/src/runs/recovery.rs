//! Recovery: resuming or ending the runs that exited processes left behind, performing their pending
//! activities, and stopping runs of other processes.

use futures::future::BoxFuture;
use std::sync::Arc;

use jiff::Timestamp;
use model::ChatModel;
use protocol::{AssistantId, Checkpoint, OwnerScope, Run, RunId, RunStatus, ThreadId};
use runtime::{
    AdmittedRun, Driver, Frame, FrameSender, LeaseHolder, RunAdmission, RunEnd, RunStart, TakeoverReason,
};
use tokio_util::sync::CancellationToken;

use crate::RunService;
use crate::agent::Agent;
use crate::assembly::RunPurpose;
use crate::{Error, ErrorClass, Result, RunError};

/// The failure text of a run whose process exited and that cannot be resumed.
const PROCESS_LOST_REASON: &str = "its process ended before it was done";

/// The threads that a sweep includes.
#[derive(Clone, Copy)]
enum SweepScope {
    /// All threads, including those with orphaned runs.
    Orphaned,
    /// Threads without an active run.
    Idle,
    /// Threads whose pending activities belong to a decision that was made, including those with orphaned runs.
    Decided,
}

impl<'a> RunService<'a> {
    /// Performs the pending activities of all threads, such as an acceptance, that a process decided and did
    /// not finish before it exited. Runs that are alive in another process are skipped. A thread that fails
    /// is reported in a notice, and its activities stay pending.
    ///
    /// # Errors
    /// Fails if the journal cannot be read.
    pub fn sweep_all_threads(
        self,
        frames: &'a FrameSender,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.sweep_threads(SweepScope::Orphaned, frames, cancel))
    }

    /// Performs the pending activities of all threads without an active run. Callers use it that resume
    /// orphaned runs themselves.
    ///
    /// # Errors
    /// Fails if the journal cannot be read.
    pub fn sweep_idle_threads(
        self,
        frames: &'a FrameSender,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.sweep_threads(SweepScope::Idle, frames, cancel))
    }

    /// Performs what decisions left to do whose process exited: an acceptance is completed. Nothing is drafted. Commands use it
    /// that only list or show.
    ///
    /// # Errors
    /// Fails if the journal cannot be read.
    pub fn complete_decisions(
        self,
        frames: &'a FrameSender,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.sweep_threads(SweepScope::Decided, frames, cancel))
    }

    /// Performs the pending activities of the threads in the scope.
    async fn sweep_threads(
        self,
        scope: SweepScope,
        frames: &FrameSender,
        cancel: &CancellationToken,
    ) -> Result<()> {
        if !matches!(scope, SweepScope::Decided) {
            self.agent.mirror.send_leftovers();
        }
        for checkpoint in self.agent.store.unfinished_checkpoints().await? {
            let thread_id = checkpoint.thread_id;
            // Work that calls a model is skipped. It resumes when a user opens the thread, and a turn then
            // uses that person's permission rules.
            match RunPurpose::from_node(checkpoint.next.as_deref(), Some(&checkpoint.channels)) {
                RunPurpose::Turn | RunPurpose::Compaction => continue,
                RunPurpose::Handoff | RunPurpose::Discard if matches!(scope, SweepScope::Decided) => continue,
                RunPurpose::Handoff | RunPurpose::PendingActivities | RunPurpose::Discard => {}
            }
            let outcome = match scope {
                SweepScope::Orphaned | SweepScope::Decided => {
                    self.recover(thread_id, &FrameSender::default(), cancel).await
                }
                SweepScope::Idle => self.finish_idle_thread(thread_id, cancel).await,
            };
            match outcome {
                Ok(_) => {}
                Err(error) if error.class() == ErrorClass::Conflict => {}
                Err(error) => {
                    let text = format!("failed to finish pending work in thread {thread_id}: {error}");
                    frames.send(Frame::Notice { text });
                }
            }
        }
        Ok(())
    }

    /// Performs the pending work of a thread as its owner, unless a run is active on it.
    async fn finish_idle_thread(
        self,
        thread_id: ThreadId,
        cancel: &CancellationToken,
    ) -> Result<Option<RunEnd>> {
        let agent = self.agent.scoped_to_thread_owner(thread_id).await?;
        match agent.store.active_runs(Some(thread_id)).await?.is_empty() {
            true => agent.runs().finish_pending_work(thread_id, &FrameSender::default(), cancel).await,
            false => Ok(None),
        }
    }
}

impl Agent {
    /// Returns the agent of the thread's owner.
    async fn scoped_to_thread_owner(&self, thread_id: ThreadId) -> Result<Self> {
        let owner = self.thread(thread_id).await?.assistant_id.owner();
        Ok(self.scoped(OwnerScope::Owner(owner)))
    }
}

impl<'a> RunService<'a> {
    /// Resumes the orphaned run of the thread, and performs pending work. Steps that were stored are not
    /// repeated. A run that needs a model is ended if none is configured.
    ///
    /// # Errors
    /// [`journal::Error::Busy`] if the run is alive in another process; [`RunError::WorkspaceGone`] if a
    /// turn's folder does not exist here. Also fails if the journal fails.
    pub fn recover(
        self,
        thread_id: ThreadId,
        frames: &'a FrameSender,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Option<RunEnd>>> {
        journal::box_future(async move {
            if self.agent.scope == OwnerScope::Everyone {
                let agent = self.agent.scoped_to_thread_owner(thread_id).await?;
                return Box::pin(agent.runs().recover(thread_id, frames, cancel)).await;
            }
            if let Some(run) = self.agent.store.active_runs(Some(thread_id)).await?.into_iter().next() {
                let reason = TakeoverReason::LeaseExpired(self.agent.leases.lease_end_time(&run).await?);
                return self.take_over_run(&run, reason, frames, cancel).await;
            }
            self.finish_pending_work(thread_id, frames, cancel).await
        })
    }

    /// Performs the pending work of a thread without an active run: its activities, or the resumption of a
    /// run whose questions were all answered.
    async fn finish_pending_work(
        self,
        thread_id: ThreadId,
        frames: &FrameSender,
        cancel: &CancellationToken,
    ) -> Result<Option<RunEnd>> {
        match self.agent.store.checkpoint(thread_id).await? {
            Some(checkpoint) if !checkpoint.activities.is_empty() => {
                let start = RunStart {
                    channels: RunPurpose::PendingActivities.entry_channels(),
                    ..RunStart::default()
                };
                Ok(Some(self.run_prepared(thread_id, start, frames, cancel).await?))
            }
            Some(checkpoint) => self.resume_answered(&checkpoint, frames, cancel).await,
            None => Ok(None),
        }
    }

    /// Resumes a run that this process has claimed. `run` is the row before the claim. Steps that were stored
    /// are not repeated.
    ///
    /// # Errors
    /// Fails as [`RunService::recover`] does.
    pub fn continue_claimed_run(
        self,
        run: &'a Run,
        frames: &'a FrameSender,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Option<RunEnd>>> {
        Box::pin(self.take_over_run(run, TakeoverReason::Claimed, frames, cancel))
    }

    /// Takes over a run and drives it from its checkpoint. Ends it instead if the graph that can be built
    /// here has no node to resume at.
    async fn take_over_run(
        self,
        run: &Run,
        reason: TakeoverReason,
        frames: &FrameSender,
        cancel: &CancellationToken,
    ) -> Result<Option<RunEnd>> {
        let thread_id = run.thread_id;
        let selected = self.agent.models.open_selected();
        let before = self.agent.store.checkpoint(thread_id).await?;
        let next = before.as_ref().and_then(|point| point.next.as_deref());
        let purpose = RunPurpose::for_resume(next, before.as_ref());
        let agent =
            self.agent.with_workspace(&self.agent.resume_workspace(thread_id, before.as_ref()).await?);
        let model = match purpose {
            RunPurpose::Turn => selected?,
            RunPurpose::Handoff
            | RunPurpose::Compaction
            | RunPurpose::PendingActivities
            | RunPurpose::Discard => selected.unwrap_or(None),
        };
        let mut driver = agent.driver(&run.assistant_id, model.as_ref(), purpose).await?;
        self.reapply_bounds(&mut driver, run.run_id).await?;
        if next.is_some_and(|next| driver.graph.get(next).is_none()) {
            self.end_taken_over_run(run, reason).await?;
            return Ok(None);
        }
        let reclaimed = runtime::take_over_run(&*self.agent.store, run, &driver.lease, reason).await;
        let admitted = match reclaimed {
            // The run ended between being read and being taken over.
            Err(runtime::Error::Journal(journal::Error::Fenced { status, .. })) if !status.is_active() => {
                return Ok(None);
            }
            reclaimed => reclaimed?,
        };
        self.drive_recovered(&driver, admitted, frames, cancel).await.map(Some)
    }

    /// Drives a resumed run, and completes the draft of a handoff if it was cancelled before the drafting
    /// node.
    async fn drive_recovered(
        self,
        driver: &Driver,
        admitted: AdmittedRun,
        frames: &FrameSender,
        cancel: &CancellationToken,
    ) -> Result<RunEnd> {
        let thread_id = admitted.checkpoint.thread_id;
        let end = self.drive(driver, admitted, frames, cancel).await?;
        self.agent.handoffs().finish_cancelled_draft(thread_id, &end, frames).await?;
        Ok(end)
    }

    /// Ends an orphaned run without resuming it.
    async fn end_taken_over_run(self, run: &Run, reason: TakeoverReason) -> Result<()> {
        let lease = self.agent.leases.lease().await?;
        match reason {
            TakeoverReason::Claimed => {
                runtime::fail_run(&*self.agent.store, run, lease.owner(), PROCESS_LOST_REASON, lease.now())
                    .await?
            }
            TakeoverReason::LeaseExpired(now) => {
                runtime::abandon_run(&*self.agent.store, run, lease, now).await?
            }
        }
        Ok(())
    }

    /// Recovers the thread before another run starts in it. A turn whose folder does not exist here is ended,
    /// because its calls must not be made in another folder.
    ///
    /// # Errors
    /// Fails as [`Self::recover`] does, except for [`RunError::WorkspaceGone`].
    pub fn recover_before_run(
        self,
        thread_id: ThreadId,
        frames: &'a FrameSender,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Option<RunEnd>>> {
        journal::box_future(async move {
            match self.recover(thread_id, frames, cancel).await {
                Err(Error::Run(RunError::WorkspaceGone { .. })) => {
                    self.end_orphaned_run(thread_id).await.map(|()| None)
                }
                recovered => recovered,
            }
        })
    }

    /// Resumes a run whose questions were all answered by a process that exited before it could resume it.
    async fn resume_answered(
        self,
        checkpoint: &Checkpoint,
        frames: &FrameSender,
        cancel: &CancellationToken,
    ) -> Result<Option<RunEnd>> {
        let Some(interrupt) = runtime::find_answered_interrupt(&*self.agent.store, checkpoint).await? else {
            return Ok(None);
        };
        let (thread_id, model) = (checkpoint.thread_id, self.agent.models.open_if_usable());
        let purpose = RunPurpose::for_resume(Some(&interrupt.node), Some(checkpoint));
        let agent =
            self.agent.with_workspace(&self.agent.resume_workspace(thread_id, Some(checkpoint)).await?);
        let assistant_id = self.agent.thread(thread_id).await?.assistant_id;
        let driver = agent.driver(&assistant_id, model.as_ref(), purpose).await?;
        if driver.graph.get(&interrupt.node).is_none() {
            return Ok(None);
        }
        let admission = recovery_admission(thread_id, assistant_id, model.as_ref(), &driver.lease);
        match runtime::resume_answered(&*self.agent.store, &admission, &interrupt).await? {
            Some(admitted) => self.drive_recovered(&driver, admitted, frames, cancel).await.map(Some),
            None => Ok(None),
        }
    }

    /// Requests that the thread's active run stops, in whatever process it runs. Returns whether there was
    /// one. The run stops at its next poll of the journal, about a second later.
    ///
    /// # Errors
    /// Fails if the thread does not exist, or if the journal fails.
    pub fn stop_thread(self, thread_id: ThreadId) -> BoxFuture<'a, Result<bool>> {
        journal::box_future(async move {
            self.agent.thread(thread_id).await?;
            match self.agent.store.active_runs(Some(thread_id)).await?.into_iter().next() {
                Some(run) => self.stop_run(run.run_id).await,
                None => Ok(false),
            }
        })
    }

    /// Requests that this run stops, as [`RunService::stop_thread`] does for the active run of a thread.
    /// Returns whether it was active.
    ///
    /// # Errors
    /// [`RunError::Unknown`] if the run does not exist; otherwise fails only if the journal does.
    pub fn stop_run(self, run_id: RunId) -> BoxFuture<'a, Result<bool>> {
        journal::box_future(async move {
            let stopped = runtime::request_stop(&*self.agent.store, run_id, Timestamp::now()).await;
            match stopped {
                Err(runtime::Error::Journal(journal::Error::NotFound { .. })) => {
                    Err(RunError::Unknown(run_id.to_string()).into())
                }
                stopped => Ok(stopped?.is_active()),
            }
        })
    }

    /// Ends the active run of the thread without resuming it, if its process has exited.
    ///
    /// # Errors
    /// [`journal::Error::Busy`] if the process may be alive; otherwise fails only if the journal does.
    pub fn end_orphaned_run(self, thread_id: ThreadId) -> BoxFuture<'a, Result<()>> {
        journal::box_future(async move {
            if let Some(run) = self.agent.store.active_runs(Some(thread_id)).await?.into_iter().next() {
                let now = self.agent.leases.lease_end_time(&run).await?;
                runtime::abandon_run(&*self.agent.store, &run, self.agent.leases.lease().await?, now).await?;
            }
            Ok(())
        })
    }

    /// Ends a run of this process that is no longer driven because of a defect. Returns whether it was still
    /// running or queued. A queued run ends as failed before it starts.
    ///
    /// # Errors
    /// Fails if the run does not exist, or if the journal fails.
    pub fn fail_run(self, run_id: RunId, reason: &'a str) -> BoxFuture<'a, Result<bool>> {
        journal::box_future(async move {
            let run = self.existing_run(run_id).await?;
            match run.status {
                RunStatus::Running => {
                    let now = Timestamp::now();
                    runtime::fail_run(
                        &*self.agent.store,
                        &run,
                        self.agent.leases.process_name().await?,
                        reason,
                        now,
                    )
                    .await?;
                    Ok(true)
                }
                RunStatus::Pending => self.end_queued_run(run_id, RunStatus::Error, reason).await,
                RunStatus::Success
                | RunStatus::Error
                | RunStatus::Interrupted
                | RunStatus::Timeout
                | RunStatus::Cancelled => Ok(false),
            }
        })
    }
}

/// Returns the admission of a new run that resumes the thread with the lease of this process.
fn recovery_admission(
    thread_id: ThreadId,
    assistant_id: AssistantId,
    model: Option<&Arc<dyn ChatModel>>,
    lease: &LeaseHolder,
) -> RunAdmission {
    RunAdmission {
        run_id: RunId::generate(),
        thread_id,
        assistant_id,
        model: model.map(|model| model.name().to_string()),
        lease: lease.clone(),
        now: Timestamp::now(),
        origin: runtime::AdmissionSource::New,
        durability: Default::default(),
    }
}
