//! Exclusive work: changes of a thread that must not overlap with a run, such as drafting or deciding a handoff, a
//! compaction, or a state update. It is queued behind the active run, and later runs are queued behind it.
//!
//! The queue belongs to this process. A run of another process is noticed when the journal refuses a change because of
//! it. The change is then queued again and waits for the end of that run like a queued run.

use std::sync::Arc;

use agent::{CancellationToken, FrameSender, FrameSubscription};
use jiff::Timestamp;
use protocol::{OwnerScope, ParentKind, ThreadId};
use tokio::sync::oneshot;

use crate::Result;
use crate::error::Error;
use crate::limits::CONFLICTS_MAX;
use crate::queue::{
    EnqueueOutcome, ExclusiveGrant, QueueAge, QueuePosition, QueuedExclusive, QueuedWork, QuotaPermit,
};
use crate::scheduler::Scheduler;
use crate::streams::ScopedThread;
use crate::streams::exclusive::ExclusiveStreams;
use crate::worker::ThreadOutcome;

/// The context that exclusive work receives when it starts.
#[derive(Debug)]
pub struct ExclusiveContext {
    /// Cancelled when the work has to stop, for example because a new run displaces it.
    pub cancel: CancellationToken,
    /// The sender for the frames of the work.
    pub frames: FrameSender,
}

/// One attempt of exclusive work, from its grant to its end.
struct Attempt {
    thread: ScopedThread,
    grant: ExclusiveGrant,
    /// The frames that the work sends.
    frames: FrameSubscription,
}

/// The end of an attempt to change a thread.
enum AttemptEnd<T> {
    /// The change has this result.
    Done(agent::Result<T>),
    /// The change met a run of another process and is queued again. The receiver gets its next grant.
    Requeued(oneshot::Receiver<ExclusiveGrant>),
}

impl Attempt {
    /// Returns the attempt and the context for the work.
    fn new(thread: ScopedThread, grant: ExclusiveGrant) -> (Self, ExclusiveContext) {
        let (sender, frames) = FrameSender::channel();
        let context = ExclusiveContext { cancel: grant.cancel.clone(), frames: sender };
        (Self { thread, grant, frames }, context)
    }
}

impl Scheduler {
    /// Executes `work` while nothing else of this process is active on the thread, and returns its result. Runs that
    /// send frames through the context get streams, which the readers of the thread see.
    ///
    /// Dropping the returned future removes work that is still queued. Work that has started continues to its end.
    ///
    /// # Errors
    /// [`Error::QueueFull`] and [`Error::ShuttingDown`]; [`Error::Aborted`] if the work panicked. Errors of the work
    /// itself are part of `T`.
    pub async fn run_exclusive<T, F>(
        self: &Arc<Self>,
        scope: &OwnerScope,
        thread_id: ThreadId,
        work: impl FnOnce(ExclusiveContext) -> F + Send + 'static,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let queue_permit = self.queue_quota.acquire(scope)?;
        self.run_exclusive_at(scope, thread_id, queue_permit, QueuePosition::Back, work).await
    }

    /// Executes exclusive work with a queue permit that was acquired beforehand, from that position of the queue.
    pub(crate) async fn run_exclusive_at<T, F>(
        self: &Arc<Self>,
        scope: &OwnerScope,
        thread_id: ThreadId,
        queue_permit: QuotaPermit,
        position: QueuePosition,
        work: impl FnOnce(ExclusiveContext) -> F + Send + 'static,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let grant = self.enqueue_exclusive(thread_id, queue_permit, position)?;
        let grant = grant.await.map_err(|_| Error::ShuttingDown)?;
        let (attempt, context) = Attempt::new(ScopedThread { thread_id, scope: scope.clone() }, grant);
        let (scheduler, work) = (Arc::clone(self), work(context));
        let task = self.tasks.spawn(async move {
            let Attempt { thread, grant, frames } = attempt;
            let mut streams = ExclusiveStreams::new(&scheduler, thread.clone(), grant.cancel.clone());
            let result = scheduler.publish_until_halted(&mut streams, frames, work).await;
            scheduler.release_grant(&thread, grant).await;
            result
        });
        task.await.map_err(|_| Error::Aborted)?.ok_or(Error::ShuttingDown)
    }

    /// Changes a thread: executes `change` like [`Self::run_exclusive`], and again if a run of another process
    /// blocked it.
    ///
    /// If the journal refuses the change because of such a run, the change is queued again at the front. It is executed
    /// when that run has ended and the runs have started that other processes had queued before the change and before the
    /// runs of this process. Later runs of other processes do not know of the change and may still start first. If that
    /// process dies, the run is taken over as for a queued run. A change that has started a run of its own is not
    /// repeated, and neither is one on the thread of a sub-agent, which belongs to a run of the parent.
    ///
    /// Dropping the returned future removes a change that is queued. A change that is being executed continues.
    ///
    /// # Errors
    /// Those of [`Self::run_exclusive`]; [`Error::Agent`] if the change fails, also if runs of other processes came
    /// first 64 times.
    pub async fn change_thread<T, F>(
        self: &Arc<Self>,
        scope: &OwnerScope,
        thread_id: ThreadId,
        change: impl Fn(ExclusiveContext) -> F + Send + 'static,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = agent::Result<T>> + Send + 'static,
    {
        let queue_permit = self.queue_quota.acquire(scope)?;
        self.change_thread_with_permit(scope, thread_id, queue_permit, change).await
    }

    /// Changes a thread with a queue permit that was acquired beforehand.
    pub(crate) async fn change_thread_with_permit<T, F>(
        self: &Arc<Self>,
        scope: &OwnerScope,
        thread_id: ThreadId,
        queue_permit: QuotaPermit,
        change: impl Fn(ExclusiveContext) -> F + Send + 'static,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = agent::Result<T>> + Send + 'static,
    {
        let mut next_grant = self.enqueue_exclusive(thread_id, queue_permit, QueuePosition::Back)?;
        let mut conflicts = 0;
        loop {
            let grant = next_grant.await.map_err(|_| Error::ShuttingDown)?;
            let (attempt, context) = Attempt::new(ScopedThread { thread_id, scope: scope.clone() }, grant);
            let attempt = Arc::clone(self).attempt_change(attempt, change(context), conflicts);
            let ended = self.tasks.spawn(attempt).await.map_err(|_| Error::Aborted)?;
            match ended.ok_or(Error::ShuttingDown)? {
                AttemptEnd::Done(result) => return Ok(result?),
                AttemptEnd::Requeued(grant_receiver) => next_grant = grant_receiver,
            }
            conflicts += 1;
        }
    }

    /// Executes a change that was refused `conflicts` times before. Returns `None` if the scheduler is halted.
    async fn attempt_change<T>(
        self: Arc<Self>,
        attempt: Attempt,
        change: impl Future<Output = agent::Result<T>> + Send,
        conflicts: u32,
    ) -> Option<AttemptEnd<T>> {
        let Attempt { thread, grant, frames } = attempt;
        let mut streams = ExclusiveStreams::new(&self, thread.clone(), grant.cancel.clone());
        let result = self.publish_until_halted(&mut streams, frames, change).await;
        if let Some(Err(error)) = &result
            && conflicts < CONFLICTS_MAX
            && !streams.has_started_run()
            && self.is_blocked_remotely(&thread, error).await
        {
            let (grant_sender, grant_receiver) = oneshot::channel();
            // Acquired above the limit, because the change was admitted before.
            let queue_permit = self.queue_quota.acquire_over_limit(&thread.scope);
            let entry = QueuedExclusive {
                grant_sender,
                position: QueuePosition::Back,
                age: grant.age,
                permit: queue_permit,
            };
            grant.requeue(QueuedWork::Exclusive(entry));
            return Some(AttemptEnd::Requeued(grant_receiver));
        }
        self.release_grant(&thread, grant).await;
        result.map(AttemptEnd::Done)
    }

    /// Returns whether the journal refused a change because of a run of another process, for whose end this process can
    /// wait.
    async fn is_blocked_remotely(&self, thread: &ScopedThread, error: &agent::Error) -> bool {
        let Some(blocking) = error.blocking_run().filter(|run| run.thread_id == thread.thread_id) else {
            return false;
        };
        let runs = self.system_agent.runs();
        let is_remote = match runs.get(blocking.run_id).await {
            Ok(run) => run.is_none_or(|run| !runs.is_own_run(&run)),
            Err(_) => false,
        };
        // The thread is read last, because few changes get here.
        is_remote
            && match self.system_agent.threads().get(thread.thread_id).await {
                Ok(row) => row.is_some_and(|row| row.parent_kind != Some(ParentKind::Subagent)),
                Err(_) => false,
            }
    }

    /// Adds exclusive work to the thread's queue. The returned receiver gets the grant to start. Its sender is dropped
    /// without a grant when the scheduler shuts down.
    fn enqueue_exclusive(
        self: &Arc<Self>,
        thread_id: ThreadId,
        queue_permit: QuotaPermit,
        position: QueuePosition,
    ) -> Result<oneshot::Receiver<ExclusiveGrant>> {
        let (grant_sender, grant_receiver) = oneshot::channel();
        let age = QueueAge::new(Timestamp::now());
        let entry = QueuedExclusive { grant_sender, position, age, permit: queue_permit };
        let enqueued = self.queues.lock().enqueue(thread_id, QueuedWork::Exclusive(entry), position);
        match enqueued {
            EnqueueOutcome::Queued => {}
            EnqueueOutcome::QueueCreated => {
                let worker = Arc::clone(self).drain_queue(thread_id, ThreadOutcome::Pending);
                self.tasks.spawn(worker);
            }
            EnqueueOutcome::Closed => return Err(Error::ShuttingDown),
        }
        Ok(grant_receiver)
    }

    /// Executes granted work and publishes its frames. Returns `None` if the scheduler is halted before the work ends.
    async fn publish_until_halted<T>(
        &self,
        streams: &mut ExclusiveStreams,
        frames: FrameSubscription,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        tokio::select! {
            biased;
            () = self.halt.cancelled() => None,
            result = streams.publish_during(frames, work) => Some(result),
        }
    }

    /// Releases the thread before the caller gets its response, so that its next request is not refused as busy.
    async fn release_grant(&self, thread: &ScopedThread, grant: ExclusiveGrant) {
        grant.release().await;
        self.streams.notify_changed(thread);
    }
}
