//! Cancelling a run, wherever it is: queued, active in this process or in another one, or left by a dead process. The
//! call returns when the run has stopped.
//!
//! A queued run is ended in the journal and removed from its queue. An active run gets a durable stop request, which
//! its process applies at the run's next step; in this process, the run's token is cancelled in addition. For a run of
//! another process, exclusive work at the front of the thread's queue waits for the end, so that a rollback cannot
//! overlap with the next run.

use futures::future::BoxFuture;
use std::sync::Arc;

use agent::{Agent, CancellationToken, FrameSender, ThreadSubscription};
use jiff::Timestamp;
use protocol::{OwnerScope, Run, RunId, RunRef, RunStatus, ThreadId};
use tokio::sync::oneshot;

use crate::Result;
use crate::error::Error;
use crate::limits::POLL_INTERVAL;
use crate::queue::{
    EnqueueOutcome, Occupant, QueueAge, QueuePosition, QueuedExclusive, QueuedWork, ThreadQueues,
};
use crate::scheduler::Scheduler;
use crate::streams::stream::RunStream;
use crate::worker::ThreadOutcome;

/// How a cancelled run is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelAction {
    /// The run ends, and its events are kept.
    Interrupt,
    /// The run is rolled back and forgotten.
    Rollback,
}

impl Scheduler {
    /// Cancels a run and waits until it has stopped. If several callers cancel one run, the first one decides on the
    /// action, and all of them return when the run has stopped. A queued run ends without having started.
    ///
    /// # Errors
    /// [`Error::UnknownRun`]; [`Error::Ended`] if the run had ended before, or if `action` is a rollback and an earlier
    /// caller interrupted the run; [`Error::ShuttingDown`]; [`Error::Agent`] if the journal fails.
    pub fn cancel_run<'a>(
        self: &'a Arc<Self>,
        scope: &'a OwnerScope,
        thread_id: ThreadId,
        run_id: RunId,
        action: CancelAction,
    ) -> BoxFuture<'a, Result<()>> {
        agent::box_future(async move {
            let agent = self.agent(scope);
            // Another caller may stop the run before this call has read it.
            let was_open = self.streams.is_open(run_id);
            let mut is_requested = false;
            loop {
                let run = match self.find_run(&agent, thread_id, run_id).await {
                    // The run was rolled back, by this call or another one.
                    Err(Error::UnknownRun { .. }) if is_requested => return Ok(()),
                    result => result?,
                };
                match run.status {
                    RunStatus::Pending => {
                        if self.cancel_queued(&agent, &run, action).await? {
                            return Ok(());
                        }
                    }
                    RunStatus::Running => self.stop_running(&agent, run, action).await?,
                    RunStatus::Success
                    | RunStatus::Error
                    | RunStatus::Interrupted
                    | RunStatus::Timeout
                    | RunStatus::Cancelled => {
                        let is_done = (is_requested || was_open) && action == CancelAction::Interrupt;
                        let ended = Error::Ended { run_id, status: run.status };
                        return if is_done { Ok(()) } else { Err(ended) };
                    }
                }
                is_requested = true;
            }
        })
    }

    /// Waits for the end of a run and returns its row. Cancel safe.
    ///
    /// # Errors
    /// [`Error::UnknownRun`], also if the run is rolled back meanwhile; [`Error::ShuttingDown`]; [`Error::Agent`] if
    /// the journal fails.
    pub fn join_run<'a>(
        self: &'a Arc<Self>,
        scope: &'a OwnerScope,
        thread_id: ThreadId,
        run_id: RunId,
    ) -> BoxFuture<'a, Result<Run>> {
        agent::box_future(async move {
            let agent = self.agent(scope);
            let mut commits = agent.threads().subscribe_thread_commits(thread_id);
            loop {
                let run = self.find_run(&agent, thread_id, run_id).await?;
                if !run.status.is_active() {
                    return Ok(run);
                }
                match self.streams.get(run_id) {
                    Some(stream) if !stream.closed.is_cancelled() => stream.closed.cancelled().await,
                    // Another process drives the run.
                    Some(_) | None => self.wait_for_commit(&mut commits).await?,
                }
                if self.closing.is_cancelled() && self.streams.get(run_id).is_none() {
                    return Err(Error::ShuttingDown);
                }
            }
        })
    }

    /// Returns the run if it belongs to the thread.
    async fn find_run(&self, agent: &Agent, thread_id: ThreadId, run_id: RunId) -> Result<Run> {
        let run = agent.runs().get(run_id).await?;
        let run = run.filter(|run| run.thread_id == thread_id);
        run.ok_or(Error::UnknownRun { thread_id, run_id })
    }

    /// Cancels a queued run. Returns `false` if the run was no longer queued.
    async fn cancel_queued(self: &Arc<Self>, agent: &Agent, run: &Run, action: CancelAction) -> Result<bool> {
        let (thread_id, run_id) = (run.thread_id, run.run_id);
        match agent.runs().cancel_queued_run(run_id).await {
            Ok(true) => {}
            // The run started, and may already have been rolled back.
            Ok(false) | Err(agent::Error::Run(agent::RunError::Unknown(_))) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        let entry = self.queues.lock().remove_run(thread_id, run_id);
        let stream = self.streams.local_stream(run_id);
        match (entry, &stream) {
            (Some(entry), Some(stream)) => {
                drop(entry);
                let replay_state = self.publish_end(agent, stream).await;
                self.end_stream(stream, replay_state);
            }
            // Its worker was about to start it, and will find that it cannot.
            (None, Some(stream)) => stream.closed.cancelled().await,
            (Some(_) | None, None) => {}
        }
        if action == CancelAction::Rollback {
            ignore_unknown_run(agent.runs().forget_run(run_id).await)?;
            self.forget_stream(run_id);
        }
        Ok(true)
    }

    /// Requests the stop of an active run, in whatever process it is driven. Returns whether the run is the active
    /// entry of a queue in this process. The request is durable before the caller gets a response, so that a crash does
    /// not lose it.
    async fn request_stop(&self, agent: &Agent, run: RunRef, action: CancelAction) -> Result<bool> {
        // Recorded first, because the run may stop as soon as the journal has the request.
        let token = self.queues.lock().mark_stop(run.thread_id, Occupant::Run(run.run_id), action);
        let requested = agent.runs().stop_run(run.run_id).await;
        let is_local = token.inspect(CancellationToken::cancel).is_some();
        match requested {
            Ok(_) | Err(agent::Error::Run(agent::RunError::Unknown(_))) => Ok(is_local),
            Err(error) => Err(error.into()),
        }
    }

    /// Requests the stop of an active run and waits until it may have stopped.
    async fn stop_running(
        self: &Arc<Self>,
        agent: &Arc<Agent>,
        run: Run,
        action: CancelAction,
    ) -> Result<()> {
        let (thread_id, run_id) = (run.thread_id, run.run_id);
        let is_local = self.request_stop(agent, run.run_ref(), action).await?;
        let stream = self.streams.local_stream(run_id);
        if let Some(stream) = stream.filter(|stream| is_local || !stream.closed.is_cancelled()) {
            // A handoff or a compaction is a run too, and the token of its stream stops it. For a run that has ended
            // already, the cancellation has no effect.
            stream.cancel.cancel();
            stream.closed.cancelled().await;
            return Ok(());
        }
        // If another run is active here, this run has ended, or the other one is about to be put back.
        let local_occupant = self.queues.lock().occupant(thread_id);
        if let Some(Occupant::Run(_)) = local_occupant {
            return self.wait_poll_interval().await;
        }
        match self.find_run(agent, thread_id, run_id).await {
            Ok(run) if run.status == RunStatus::Running => {}
            Ok(_) | Err(Error::UnknownRun { .. }) => return Ok(()),
            Err(error) => return Err(error),
        }
        let (agent, scope) = (Arc::clone(agent), OwnerScope::Owner(run.assistant_id.owner()));
        let work = move |_| async move { wait_until_ended(&agent, run, action).await };
        // Acquired above the limit, because a full queue must not prevent a cancellation.
        let queue_permit = self.queue_quota.acquire_over_limit(&scope);
        self.run_exclusive_at(&scope, thread_id, queue_permit, QueuePosition::Front, work).await?
    }

    /// Stops a run and returns when the stop is certain: a queued run has ended, and an active one has a durable stop
    /// request and stops in the background.
    ///
    /// # Errors
    /// [`Error::Agent`] if the journal fails.
    pub fn stop_run<'a>(
        self: &'a Arc<Self>,
        scope: &'a OwnerScope,
        run: &'a Run,
        action: CancelAction,
    ) -> BoxFuture<'a, Result<()>> {
        agent::box_future(async move {
            let agent = self.agent(scope);
            if run.status == RunStatus::Pending && self.cancel_queued(&agent, run, action).await? {
                return Ok(());
            }
            if !self.request_stop(&agent, run.run_ref(), action).await? {
                self.stop_detached(scope, run.run_ref(), action);
            }
            Ok(())
        })
    }

    /// Cancels a run in the background because its client disconnected.
    pub(crate) fn cancel_detached(self: &Arc<Self>, stream: &RunStream, action: CancelAction) {
        let run = stream.run_ref();
        let is_stopped = self.queues.lock().request_stop(run.thread_id, Occupant::Run(run.run_id), action);
        if !is_stopped && !self.closing.is_cancelled() {
            self.stop_detached(&stream.scope, run, action);
        }
    }

    /// Cancels a run in a background task, which a shutdown waits for like for a run.
    pub(crate) fn stop_detached(self: &Arc<Self>, scope: &OwnerScope, run: RunRef, action: CancelAction) {
        let (scheduler, scope) = (Arc::clone(self), scope.clone());
        let RunRef { thread_id, run_id } = run;
        self.spawn_background(async move {
            let stopped = tokio::select! {
                () = scheduler.halt.cancelled() => return,
                stopped = scheduler.cancel_run(&scope, thread_id, run_id, action) => stopped,
            };
            match stopped {
                Ok(()) | Err(Error::Ended { .. } | Error::UnknownRun { .. } | Error::ShuttingDown) => {}
                Err(error) => tracing::warn!(run_id = %run_id, %error, "failed to cancel run {run_id}"),
            }
        });
    }

    /// Queues the rollback of another process's run before every other entry of its thread.
    pub(crate) fn enqueue_rollback(
        self: &Arc<Self>,
        queues: &mut ThreadQueues,
        agent: &Arc<Agent>,
        run: Run,
    ) {
        let (grant_sender, grant_receiver) = oneshot::channel();
        let queue_permit = self.queue_quota.acquire_over_limit(&OwnerScope::Owner(run.assistant_id.owner()));
        let (position, age) = (QueuePosition::Front, QueueAge::new(Timestamp::now()));
        let entry = QueuedExclusive { grant_sender, position, age, permit: queue_permit };
        let enqueued = queues.enqueue(run.thread_id, QueuedWork::Exclusive(entry), position);
        if enqueued == EnqueueOutcome::QueueCreated {
            let worker = Arc::clone(self).drain_queue(run.thread_id, ThreadOutcome::Pending);
            self.tasks.spawn(worker);
        }
        let (agent, halt) = (Arc::clone(agent), self.halt.clone());
        self.tasks.spawn(async move {
            let Ok(grant) = grant_receiver.await else { return };
            let run_id = run.run_id;
            let rolled_back = tokio::select! {
                () = halt.cancelled() => return,
                rolled_back = wait_until_ended(&agent, run, CancelAction::Rollback) => rolled_back,
            };
            if let Err(error) = rolled_back {
                tracing::warn!(run_id = %run_id, %error, "failed to roll back run {run_id}");
            }
            drop(grant);
        });
    }

    /// Waits for a commit on the thread, for one poll interval at most.
    async fn wait_for_commit(&self, commits: &mut ThreadSubscription) -> Result<()> {
        tokio::select! {
            () = commits.changed() => Ok(()),
            entry = self.wait_poll_interval() => entry,
        }
    }

    /// Waits for one poll interval; fails when the scheduler shuts down.
    async fn wait_poll_interval(&self) -> Result<()> {
        tokio::select! {
            () = tokio::time::sleep(POLL_INTERVAL) => Ok(()),
            () = self.closing.cancelled() => Err(Error::ShuttingDown),
        }
    }
}

/// Waits until another process has ended a run with a stop request, and rolls the run back if `action` says so. Ends a
/// run whose process is gone.
async fn wait_until_ended(agent: &Agent, run: Run, action: CancelAction) -> Result<()> {
    let mut commits = agent.threads().subscribe_thread_commits(run.thread_id);
    loop {
        let current = agent.runs().get(run.run_id).await?;
        let Some(current) = current.filter(|current| current.status.is_active()) else { break };
        if agent.runs().is_orphaned(&current) {
            let stopped = CancellationToken::new();
            stopped.cancel();
            match agent.runs().recover(run.thread_id, &FrameSender::default(), &stopped).await {
                Err(error) if error.class() != agent::ErrorClass::Conflict => return Err(error.into()),
                Ok(_) => continue,
                Err(_) => {}
            }
        }
        tokio::select! {
            () = commits.changed() => {}
            () = tokio::time::sleep(POLL_INTERVAL) => {}
        }
    }
    if action == CancelAction::Rollback {
        ignore_unknown_run(agent.runs().roll_back_run(run.run_id).await)?;
    }
    Ok(())
}

/// Treats an unknown run as a success: another caller has rolled it back already.
fn ignore_unknown_run(result: agent::Result<()>) -> agent::Result<()> {
    match result {
        Err(agent::Error::Run(agent::RunError::Unknown(_))) => Ok(()),
        result => result,
    }
}
