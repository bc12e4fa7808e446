//! Exclusive work: changes of a thread that must not overlap with a run, such as drafting or deciding a handoff, a
//! compaction, or a state update. It is queued behind the active run, and later runs are queued behind it.

use std::sync::Arc;

use agent::{CancellationToken, FrameSender};
use protocol::{OwnerScope, ThreadId};
use tokio::sync::oneshot;

use crate::Result;
use crate::error::Error;
use crate::queue::{EnqueueOutcome, QueuePosition, QueuedWork, QuotaPermit};
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
        let (grant_sender, grant_receiver) = oneshot::channel();
        let enqueued = self.queues.lock().enqueue(
            thread_id,
            QueuedWork::Exclusive(grant_sender, position, queue_permit),
            position,
        );
        match enqueued {
            EnqueueOutcome::Queued => {}
            EnqueueOutcome::QueueCreated => {
                let worker = Arc::clone(self).drain_queue(thread_id, ThreadOutcome::Pending);
                self.tasks.spawn(worker);
            }
            EnqueueOutcome::Closed => return Err(Error::ShuttingDown),
        }
        // The worker drops the sender without a grant when the scheduler shuts down.
        let grant = grant_receiver.await.map_err(|_| Error::ShuttingDown)?;
        let (scheduler, scope) = (Arc::clone(self), scope.clone());
        let task = self.tasks.spawn(async move {
            let (frames, frame_receiver) = FrameSender::channel();
            let future = work(ExclusiveContext { cancel: grant.cancel.clone(), frames });
            let thread = ScopedThread { thread_id, scope };
            let mut streams = ExclusiveStreams::new(&scheduler, thread.clone(), grant.cancel.clone());
            let result = tokio::select! {
                biased;
                () = scheduler.halt.cancelled() => None,
                result = streams.publish_during(frame_receiver, future) => Some(result),
            };
            // The thread is released before the caller gets its response, so that its next request is not refused as
            // busy.
            grant.release().await;
            scheduler.streams.notify_changed(&thread);
            result
        });
        task.await.map_err(|_| Error::Aborted)?.ok_or(Error::ShuttingDown)
    }
}
