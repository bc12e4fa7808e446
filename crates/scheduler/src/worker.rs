//! The worker of a thread's queue: one task for each busy thread. It starts the entries in order, drives each to its
//! end, and waits for what another process does on the thread.

pub(crate) mod exclusive;
mod start_order;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use agent::{Agent, ErrorClass, Replay, ReplayStatus, StartedRun, TakeoverGap};
use futures::FutureExt;
use protocol::{FailureKind, OwnerScope, Run, RunFailure, RunRef, RunStatus, ThreadId};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::cancel::CancelAction;
use crate::limits::{ATTEMPTS_MAX, CONFLICTS_MAX, POLL_INTERVAL, RECHECK_DELAY};
use crate::queue::{Backlog, ExclusiveGrant, Occupant, QueueAge, QueuedExclusive, QueuedWork, QuotaPermit};
use crate::scheduler::Scheduler;
use crate::streams::stream::RunStream;

/// The failure message of a run that panicked.
const PANIC_MESSAGE: &str = "the run ended early because the program panicked";

/// The state of a thread after the work on it has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThreadOutcome {
    /// Nothing is queued; the queue was removed.
    Drained,
    /// Entries are queued.
    Pending,
    /// Another process works on the thread, or its state is unknown. The queue is reserved for it.
    Remote,
    /// The scheduler shuts down; the worker stops.
    Halted,
}

/// How much of a run's end its readers have received, for a run that is not driven here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplayState {
    /// They received the final status.
    Ended,
    /// They received nothing: the run continues in another process, or its state is unknown.
    Unknown,
}

impl Scheduler {
    /// Executes the entries of the thread's queue until it is empty.
    pub(crate) async fn drain_queue(self: Arc<Self>, thread_id: ThreadId, mut outcome: ThreadOutcome) {
        loop {
            match outcome {
                ThreadOutcome::Drained | ThreadOutcome::Halted => return,
                ThreadOutcome::Remote => {
                    outcome = self.wait_for_remote(thread_id).await;
                    continue;
                }
                ThreadOutcome::Pending => {}
            }
            // Exclusive work needs no permit, because it may be there to stop a run that holds one.
            let is_run = self.queues.lock().is_run_next(thread_id);
            let permit = match is_run {
                true => match Arc::clone(&self.permits).acquire_owned().await {
                    Ok(permit) => Some(permit),
                    // The scheduler shuts down.
                    Err(_) => return,
                },
                false => None,
            };
            let next = self.queues.lock().dequeue(thread_id);
            outcome = match (next, permit) {
                (None, _) => ThreadOutcome::Drained,
                // The run came to the front after the check above.
                (Some(run @ QueuedWork::Run(..)), None) => {
                    let mut queues = self.queues.lock();
                    queues.vacate(thread_id);
                    queues.requeue_front(thread_id, run);
                    ThreadOutcome::Pending
                }
                (Some(QueuedWork::Run(stream, queue_permit)), Some(permit)) => {
                    let starting = self.begin_queued(stream, queue_permit, permit);
                    match AssertUnwindSafe(starting).catch_unwind().await {
                        Ok(outcome) => outcome,
                        Err(_) => self.handle_begin_panic(thread_id).await,
                    }
                }
                (Some(QueuedWork::Exclusive(exclusive)), _) => {
                    let QueuedExclusive { grant_sender, age, permit: queue_permit, .. } = exclusive;
                    drop(queue_permit);
                    self.grant_exclusive(thread_id, grant_sender, age).await
                }
            };
        }
    }

    /// Fails a run that panicked before it was driven. If that is impossible, reserves its thread until its state is
    /// known. The other runs continue.
    pub(crate) async fn handle_begin_panic(self: &Arc<Self>, thread_id: ThreadId) -> ThreadOutcome {
        tracing::error!(thread_id = %thread_id, "failed to begin a run on thread {thread_id}: it panicked");
        let occupant = self.queues.lock().occupant(thread_id);
        if let Some(Occupant::Run(run_id)) = occupant
            && let Some(stream) = self.streams.local_stream(run_id)
        {
            let agent = self.agent(&stream.scope);
            return self.fail_panicked_run(&agent, &stream).await;
        }
        self.queues.lock().hold_for_remote(thread_id, None);
        ThreadOutcome::Remote
    }

    /// Drives a started run to its end and releases its thread.
    pub(crate) async fn drive_run(
        self: &Arc<Self>,
        agent: &Agent,
        started: StartedRun,
        stream: &Arc<RunStream>,
        permit: OwnedSemaphorePermit,
    ) -> ThreadOutcome {
        let driving = agent.runs().drive_started(started, &stream.frames, &stream.cancel);
        let ended = tokio::select! {
            biased;
            ended = AssertUnwindSafe(driving).catch_unwind() => ended,
            () = self.halt.cancelled() => return ThreadOutcome::Halted,
        };
        drop(permit);
        let problem = match ended {
            Ok(Ok(_)) => return self.finish_run(agent, stream).await,
            Ok(Err(error)) if error.is_halted() => return ThreadOutcome::Halted,
            Ok(Err(error)) => {
                self.count_lost_run(&error);
                format!("failed to {error}")
            }
            Err(_) => return self.fail_panicked_run(agent, stream).await,
        };
        let (run_id, thread_id) = (stream.run_id, stream.thread_id);
        tracing::warn!(run_id = %run_id, thread_id = %thread_id, "run {run_id} stopped before its end: {problem}");
        self.resolve_failed_run(agent, stream, problem).await
    }

    /// Counts a run that another process took over.
    fn count_lost_run(&self, error: &agent::Error) {
        if error.class() == ErrorClass::Conflict {
            self.takeovers.lost_runs.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Fails a run that panicked, at once. No other run is affected.
    async fn fail_panicked_run(self: &Arc<Self>, agent: &Agent, stream: &Arc<RunStream>) -> ThreadOutcome {
        let (run_id, thread_id) = (stream.run_id, stream.thread_id);
        tracing::error!(run_id = %run_id, thread_id = %thread_id, "run {run_id} panicked");
        match agent.runs().fail_run(run_id, PANIC_MESSAGE).await {
            Ok(_) => self.finish_undriven(agent, stream).await,
            Err(error) => {
                tracing::warn!(run_id = %run_id, %error, "failed to end run {run_id}, which panicked");
                self.resolve_failed_run(agent, stream, PANIC_MESSAGE.to_owned()).await
            }
        }
    }

    /// Determines the state of a run whose driver failed: the journal may have failed, or another process took the run
    /// over.
    async fn resolve_failed_run(
        self: &Arc<Self>,
        agent: &Agent,
        stream: &Arc<RunStream>,
        problem: String,
    ) -> ThreadOutcome {
        match agent.runs().get(stream.run_id).await {
            Ok(Some(run)) if !run.status.is_active() => return self.finish_remote(agent, stream).await,
            // The run never became durable.
            Ok(None) => {
                stream.publish_end(RunStatus::Error, Some(RunFailure::new(FailureKind::Internal, problem)));
                return self.finish_run(agent, stream).await;
            }
            // The run was pending, and its start is not durable. If it cannot be failed either, a later scan starts it.
            Ok(Some(run)) if run.status == RunStatus::Pending => {
                if let Err(error) = agent.runs().fail_run(stream.run_id, &problem).await {
                    tracing::warn!(run_id = %stream.run_id, %error, "failed to end run {}, which cannot begin", stream.run_id);
                }
                return self.finish_unstarted(agent, stream).await;
            }
            // Its row says that it is running: it continues from its checkpoint, here or in another process.
            Ok(Some(_)) | Err(_) => {}
        }
        self.hold_thread(stream)
    }

    /// Releases the thread of an ended run: rolls the run back if that was requested, lets the next entry start, and
    /// ends the stream. The rows are final before a reader sees the end.
    async fn finish_run(self: &Arc<Self>, agent: &Agent, stream: &Arc<RunStream>) -> ThreadOutcome {
        let (run_id, thread_id) = (stream.run_id, stream.thread_id);
        let requested_stop = self.queues.lock().vacate(thread_id);
        if requested_stop == Some(CancelAction::Rollback) {
            match agent.runs().roll_back_run(run_id).await {
                // The content of the stream no longer exists.
                Ok(()) => stream.stop_retaining(),
                Err(error) => tracing::warn!(run_id = %run_id, %error, "failed to roll back run {run_id}"),
            }
        }
        let outcome = self.release_thread(thread_id);
        self.close_stream(stream);
        self.schedule_summarize(&stream.scope);
        outcome
    }

    /// Starts a run that was queued.
    async fn begin_queued(
        self: &Arc<Self>,
        stream: Arc<RunStream>,
        queue_permit: QuotaPermit,
        permit: OwnedSemaphorePermit,
    ) -> ThreadOutcome {
        let agent = self.agent(&stream.scope);
        let (run_id, thread_id) = (stream.run_id, stream.thread_id);
        if self.is_outranked(stream.run_ref(), stream.queue_position).await {
            return self.requeue_behind_remote(&agent, stream, queue_permit).await;
        }
        let mut attempts = 0;
        let error = loop {
            let started = match agent.runs().stored_request(run_id).await {
                Ok(Some(request)) => {
                    agent.runs().begin_queued(run_id, thread_id, &request, &stream.frames).await
                }
                // The run was cancelled and forgotten.
                Ok(None) => return self.finish_unstarted(&agent, &stream).await,
                Err(error) => Err(error),
            };
            match started {
                Ok(started) => {
                    drop(queue_permit);
                    self.streams.publish_start(&stream);
                    return self.drive_run(&agent, started, &stream, permit).await;
                }
                Err(error) if error.has_lost_race() => {
                    if !self.is_pending(&agent, &stream).await {
                        return self.finish_unstarted(&agent, &stream).await;
                    }
                    if self.count_conflict(&agent, &stream).await > CONFLICTS_MAX {
                        break error;
                    }
                    return self.requeue_behind_remote(&agent, stream, queue_permit).await;
                }
                Err(error) if error.class() == ErrorClass::Store && attempts < ATTEMPTS_MAX => {
                    attempts += 1;
                    if self.pause_before_retry().await.is_break() {
                        return ThreadOutcome::Halted;
                    }
                }
                Err(error) => break error,
            }
        };
        tracing::warn!(run_id = %run_id, thread_id = %thread_id, %error, "failed to start run {run_id}, which was queued");
        // A run that cannot start must not stay pending for ever.
        let problem = format!("failed to {error}");
        if let Err(error) = agent.runs().fail_run(run_id, &problem).await {
            tracing::warn!(run_id = %run_id, %error, "failed to end run {run_id}, which cannot start");
        }
        self.finish_unstarted(&agent, &stream).await
    }

    /// Puts a run back to the front of its queue while another process works on its thread, unless it was stopped
    /// meanwhile.
    async fn requeue_behind_remote(
        self: &Arc<Self>,
        agent: &Agent,
        stream: Arc<RunStream>,
        queue_permit: QuotaPermit,
    ) -> ThreadOutcome {
        let requested_stop = {
            let mut queues = self.queues.lock();
            let requested_stop = queues.vacate(stream.thread_id);
            if requested_stop.is_none() {
                queues.hold_for_remote(stream.thread_id, Some(QueuedWork::Run(stream, queue_permit)));
                return ThreadOutcome::Remote;
            }
            requested_stop
        };
        self.finish_stopped(agent, &stream, requested_stop).await
    }

    /// Returns how many times the run has lost the race for its thread since the thread's last `seq` changed.
    async fn count_conflict(&self, agent: &Agent, stream: &RunStream) -> u32 {
        let newest = match agent.threads().get(stream.thread_id).await {
            Ok(thread) => thread.map_or(0, |thread| thread.last_seq),
            // Unknown; the count continues.
            Err(_) => stream.conflict_seq.load(Ordering::Relaxed),
        };
        if stream.conflict_seq.swap(newest, Ordering::Relaxed) != newest {
            stream.conflicts.store(0, Ordering::Relaxed);
        }
        stream.conflicts.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Ends a run that was stopped before it started.
    pub(crate) async fn finish_stopped(
        self: &Arc<Self>,
        agent: &Agent,
        stream: &Arc<RunStream>,
        requested_stop: Option<CancelAction>,
    ) -> ThreadOutcome {
        let run_id = stream.run_id;
        if let Err(error) = agent.runs().cancel_queued_run(run_id).await {
            tracing::warn!(run_id = %run_id, %error, "failed to cancel run {run_id}, which is queued");
        }
        let replay_state = self.publish_end(agent, stream).await;
        if requested_stop == Some(CancelAction::Rollback)
            && let Err(error) = agent.runs().forget_run(run_id).await
        {
            tracing::warn!(run_id = %run_id, %error, "failed to forget run {run_id}");
        }
        let outcome = self.release_thread(stream.thread_id);
        self.end_stream(stream, replay_state);
        outcome
    }

    /// Returns whether the run's row says that it is pending.
    async fn is_pending(&self, agent: &Agent, stream: &RunStream) -> bool {
        match agent.runs().get(stream.run_id).await {
            Ok(row) => row.is_some_and(|run| run.status == RunStatus::Pending),
            // Unknown; the run is tried again.
            Err(_) => true,
        }
    }

    /// Releases the thread of a run that does not start here although it is next: it was cancelled, or another process
    /// took it over. It is not rolled back, even if that was requested.
    async fn finish_unstarted(self: &Arc<Self>, agent: &Agent, stream: &Arc<RunStream>) -> ThreadOutcome {
        let replay_state = self.publish_end(agent, stream).await;
        let outcome = self.release_thread(stream.thread_id);
        self.end_stream(stream, replay_state);
        outcome
    }

    /// Ends the stream of a run that is not driven here.
    pub(crate) fn end_stream(self: &Arc<Self>, stream: &Arc<RunStream>, replay_state: ReplayState) {
        match replay_state {
            ReplayState::Ended => self.close_stream(stream),
            ReplayState::Unknown => self.streams.discard(stream),
        }
    }

    /// Releases the thread of a started run that ended without its driver. If its state cannot be read, the thread is
    /// reserved.
    async fn finish_undriven(self: &Arc<Self>, agent: &Agent, stream: &Arc<RunStream>) -> ThreadOutcome {
        match self.publish_end(agent, stream).await {
            ReplayState::Ended => self.finish_run(agent, stream).await,
            ReplayState::Unknown => self.hold_thread(stream),
        }
    }

    /// Releases the thread of a run that another process ended. This stream lacks what was done there; its readers
    /// continue with a replay of the journal.
    async fn finish_remote(self: &Arc<Self>, agent: &Agent, stream: &Arc<RunStream>) -> ThreadOutcome {
        self.streams.discard(stream);
        self.finish_run(agent, stream).await
    }

    /// Sends the run's final status to its readers if no driver did.
    pub(crate) async fn publish_end(&self, agent: &Agent, stream: &RunStream) -> ReplayState {
        match agent.runs().get(stream.run_id).await {
            Ok(Some(run)) if !run.status.is_active() => stream.publish_end(run.status, run.failure),
            Ok(None) => stream
                .publish_end(RunStatus::Cancelled, RunFailure::from_stored_text(RunStatus::Cancelled, None)),
            Ok(Some(_)) | Err(_) => return ReplayState::Unknown,
        }
        ReplayState::Ended
    }

    /// Passes the grant to exclusive work and waits until it is returned. If the work has to wait for another process,
    /// reserves the thread for that process.
    async fn grant_exclusive(
        &self,
        thread_id: ThreadId,
        grant_sender: oneshot::Sender<ExclusiveGrant>,
        age: QueueAge,
    ) -> ThreadOutcome {
        let (grant, mut completion) = ExclusiveGrant::new(self.queues.lock().cancel_token(thread_id), age);
        let requeued = match grant_sender.send(grant) {
            Ok(()) => completion.wait_released().await,
            // The caller is gone.
            Err(_) => None,
        };
        let Some(entry) = requeued else { return self.release_thread(thread_id) };
        self.queues.lock().requeue_behind_remote(thread_id, entry);
        ThreadOutcome::Remote
    }

    /// Waits until no other process works on the thread or has to go first. Resumes a run whose process is gone here.
    async fn wait_for_remote(self: &Arc<Self>, thread_id: ThreadId) -> ThreadOutcome {
        let mut commits = self.system_agent.threads().subscribe_thread_commits(thread_id);
        let (mut attempts, mut polls, mut failures) = (0, 0, 0);
        loop {
            polls += 1;
            let mut pause = POLL_INTERVAL;
            match self.system_agent.runs().active_runs(Some(thread_id)).await {
                Ok(runs) => match runs.into_iter().next() {
                    // The active run ended between two polls. The pause avoids a busy loop.
                    None if polls == 1 => pause = RECHECK_DELAY,
                    None if self.is_next_outranked(thread_id).await => {}
                    None => break,
                    Some(run) if self.is_orphaned(&run) => {
                        attempts += 1;
                        match self.resume_run(run, attempts).await {
                            ThreadOutcome::Remote => {}
                            outcome => return outcome,
                        }
                    }
                    // Its own process resumes it, and nothing waits for it here.
                    Some(run)
                        if !self.system_agent.runs().is_own_run(&run)
                            && !self.queues.lock().has_queued(thread_id) =>
                    {
                        break;
                    }
                    Some(_) => {}
                },
                Err(error) => {
                    failures += 1;
                    if failures > ATTEMPTS_MAX {
                        tracing::warn!(thread_id = %thread_id, %error, "failed to read which run is active on thread {thread_id}");
                        break;
                    }
                }
            }
            tokio::select! {
                () = commits.changed() => {}
                () = tokio::time::sleep(pause) => {}
                () = self.closing.cancelled() => return ThreadOutcome::Halted,
            }
        }
        self.release_thread(thread_id)
    }

    /// Returns whether no process drives the run: its process is gone, or it is this one, which has no open stream of
    /// it.
    fn is_orphaned(&self, run: &Run) -> bool {
        let is_lost = || self.system_agent.runs().is_own_run(run) && !self.streams.is_open(run.run_id);
        self.system_agent.runs().is_orphaned(run) || is_lost()
    }

    /// Resumes a run whose process is gone, on a thread that is reserved for it. Readers of its stream see the
    /// continuation.
    pub(crate) async fn resume_run(self: &Arc<Self>, run: Run, attempts: u32) -> ThreadOutcome {
        let scope = OwnerScope::Owner(run.assistant_id.owner());
        let agent = self.agent(&scope);
        let (run_id, thread_id) = (run.run_id, run.thread_id);
        match agent.runs().can_resume_here(thread_id).await {
            Ok(true) => {}
            Ok(false) => return self.skip_foreign_run(&agent, run).await,
            Err(error) => {
                tracing::warn!(run_id = %run_id, %error, "failed to read the folder in which run {run_id} started")
            }
        }
        let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await else {
            return ThreadOutcome::Halted;
        };
        let Some(run) = self.claim_run(run).await else { return ThreadOutcome::Remote };
        let Ok(Some(thread)) = agent.threads().get(thread_id).await else { return ThreadOutcome::Remote };
        let request = agent.runs().stored_request(run_id).await.ok().flatten().unwrap_or_default();
        let stream = Arc::new(RunStream::new_recovered(RunRef { thread_id, run_id }, &scope, &request));
        // Positions of stored frames are the same in every process, so readers of other streams can continue with this
        // one.
        let mut replay = Replay::new(thread_id, run_id);
        match agent.runs().replay_frames(&mut replay, &stream.frames).await {
            Ok(ReplayStatus::Partial) => {}
            // The run has ended meanwhile.
            Ok(ReplayStatus::Complete) => return ThreadOutcome::Remote,
            Err(error) => {
                tracing::warn!(run_id = %run_id, %error, "failed to replay run {run_id} from the journal");
                return ThreadOutcome::Remote;
            }
        }
        let takeover_gap = TakeoverGap { after: replay.last_position(), until: thread.last_seq + 1 };
        stream.record_replay(&replay, Some(takeover_gap));
        self.queues.lock().occupy_with_run(thread_id, &stream);
        self.streams.open(&stream);
        self.streams.publish_start(&stream);
        let resuming = agent.runs().continue_claimed_run(&run, &stream.frames, &stream.cancel);
        let ended = tokio::select! {
            biased;
            ended = AssertUnwindSafe(resuming).catch_unwind() => ended,
            () = self.halt.cancelled() => return ThreadOutcome::Halted,
        };
        drop(permit);
        let problem = match ended {
            Ok(Ok(Some(position))) if position.run_id == run_id => {
                return self.finish_run(&agent, &stream).await;
            }
            // It ended before it could be taken over, or this version cannot resume it.
            Ok(Ok(_)) => return self.finish_remote(&agent, &stream).await,
            Ok(Err(error)) if error.is_halted() => return ThreadOutcome::Halted,
            Ok(Err(error)) if error.class() == ErrorClass::Conflict => {
                self.count_lost_run(&error);
                return self.hold_thread(&stream);
            }
            Ok(Err(error)) if error.is_lease_expired() => return self.hold_thread(&stream),
            Ok(Err(error)) => error.to_string(),
            Err(_) => return self.fail_panicked_run(&agent, &stream).await,
        };
        tracing::warn!(run_id = %run_id, thread_id = %thread_id, "failed to resume run {run_id}: {problem}");
        if attempts < ATTEMPTS_MAX {
            return self.hold_thread(&stream);
        }
        if let Err(error) = agent.runs().fail_run(run_id, &format!("failed to {problem}")).await {
            tracing::warn!(run_id = %run_id, %error, "failed to end run {run_id}, which cannot be resumed");
        }
        self.finish_undriven(&agent, &stream).await
    }

    /// Claims a run that no process drives and returns it unchanged; `None` if another process was faster.
    async fn claim_run(&self, run: Run) -> Option<Run> {
        if self.system_agent.runs().is_own_run(&run) {
            return Some(run);
        }
        match self.system_agent.runs().claim_runs(vec![run.run_id]).await {
            Ok(claimed) => {
                self.takeovers.taken_over.fetch_add(claimed.len(), Ordering::Relaxed);
                claimed.into_iter().next()
            }
            Err(error) => {
                tracing::warn!(run_id = %run.run_id, %error, "failed to take over run {}", run.run_id);
                None
            }
        }
    }

    /// Handles a run that started in a folder which is not on this machine: leaves it to another process, or ends it if
    /// it blocks the thread's queue.
    async fn skip_foreign_run(&self, agent: &Agent, run: Run) -> ThreadOutcome {
        let (run_id, thread_id) = (run.run_id, run.thread_id);
        if !self.queues.lock().has_queued(thread_id) {
            return self.release_thread(thread_id);
        }
        if let Err(error) = agent.runs().end_orphaned_run(thread_id).await {
            tracing::warn!(run_id = %run_id, %error, "failed to end run {run_id}, which started in a folder of another machine");
        }
        ThreadOutcome::Remote
    }

    /// Reserves the thread of a run that is no longer driven here until its state is known.
    fn hold_thread(&self, stream: &RunStream) -> ThreadOutcome {
        self.streams.discard(stream);
        self.queues.lock().hold_for_remote(stream.thread_id, None);
        ThreadOutcome::Remote
    }

    /// Releases a thread on which nothing is active.
    pub(crate) fn release_thread(&self, thread_id: ThreadId) -> ThreadOutcome {
        let mut queues = self.queues.lock();
        queues.vacate(thread_id);
        match queues.release(thread_id) {
            Backlog::Pending => ThreadOutcome::Pending,
            Backlog::Empty => ThreadOutcome::Drained,
        }
    }

    /// Waits before a retry; returns `Break` when the scheduler shuts down.
    async fn pause_before_retry(&self) -> std::ops::ControlFlow<()> {
        tokio::select! {
            () = tokio::time::sleep(POLL_INTERVAL) => std::ops::ControlFlow::Continue(()),
            () = self.closing.cancelled() => std::ops::ControlFlow::Break(()),
        }
    }
}
