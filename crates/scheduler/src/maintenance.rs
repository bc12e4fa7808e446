//! Background work of the scheduler: it summarizes the memory of owners, with one worker for each owner, and deletes
//! temporary threads. `verification` verifies stored events. No run waits for any of it. Work that is dropped half-way stays in the journal's outbox.

pub(crate) mod verification;

use std::collections::{HashSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use agent::{Agent, FrameSender};
use futures::FutureExt;
use protocol::{OwnerScope, ThreadId};

use crate::limits::{SUMMARIZE_INTERVAL, SUMMARIZE_QUEUE_MAX, SUMMARIZE_WORKERS_MAX};
use crate::scheduler::Scheduler;
use crate::streams::stream::RunStream;

/// The owners whose memory has to be summarized or is being summarized.
#[derive(Debug, Default)]
pub(crate) struct SummarizeQueue {
    /// Owners with pending work, in order.
    due: VecDeque<OwnerScope>,
    /// The same owners as in `due`, for lookups in constant time.
    queued: HashSet<OwnerScope>,
    /// Owners that a worker is summarizing at the moment.
    in_progress: HashSet<OwnerScope>,
    /// Number of workers, at most [`SUMMARIZE_WORKERS_MAX`].
    workers: usize,
}

/// The decision whether another worker has to be started.
#[derive(Debug, PartialEq, Eq)]
enum WorkerDemand {
    /// The existing workers are enough.
    Satisfied,
    /// One more worker has to be started.
    OneMore,
}

impl SummarizeQueue {
    /// Adds an owner unless it is queued or the queue is full.
    fn enqueue(&mut self, scope: &OwnerScope) -> WorkerDemand {
        if self.queued.len() >= SUMMARIZE_QUEUE_MAX || self.queued.contains(scope) {
            return WorkerDemand::Satisfied;
        }
        self.queued.insert(scope.clone());
        self.due.push_back(scope.clone());
        if self.workers >= SUMMARIZE_WORKERS_MAX {
            return WorkerDemand::Satisfied;
        }
        self.workers += 1;
        WorkerDemand::OneMore
    }

    /// Removes the next owner that no worker is summarizing. Without one, the calling worker has to stop.
    fn dequeue(&mut self) -> Option<OwnerScope> {
        let index = self.due.iter().position(|scope| !self.in_progress.contains(scope));
        let Some(scope) = index.and_then(|index| self.due.remove(index)) else {
            self.workers = self.workers.saturating_sub(1);
            return None;
        };
        self.queued.remove(&scope);
        self.in_progress.insert(scope.clone());
        Some(scope)
    }

    /// Marks the owner's memory as summarized.
    fn finish(&mut self, scope: &OwnerScope) {
        self.in_progress.remove(scope);
    }
}

impl Scheduler {
    /// Schedules summarizing for the owner's memory.
    pub(crate) fn schedule_summarize(self: &Arc<Self>, scope: &OwnerScope) {
        if self.summarize_queue.lock().enqueue(scope) == WorkerDemand::OneMore {
            let scheduler = Arc::clone(self);
            self.spawn_background(async move { scheduler.summarize_due_owners().await });
        }
    }

    /// Summarizes one owner after the other until the queue is empty or the scheduler shuts down.
    async fn summarize_due_owners(&self) {
        loop {
            // With more owners in the queue the pause is shorter, so that each is reached within one interval.
            let pause = SUMMARIZE_INTERVAL
                / u32::try_from(self.summarize_queue.lock().due.len().max(1)).unwrap_or(u32::MAX);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.closing.cancelled() => return,
            }
            let Some(scope) = self.summarize_queue.lock().dequeue() else { return };
            let summarized = AssertUnwindSafe(self.summarize_owner(&scope)).catch_unwind();
            tokio::select! {
                summarized = summarized => if summarized.is_err() {
                    tracing::warn!("failed to summarize the memory that is due: the worker panicked");
                },
                () = self.halt.cancelled() => return,
            }
            self.summarize_queue.lock().finish(&scope);
        }
    }

    /// Summarizes what is due in the owner's memory and logs failures.
    async fn summarize_owner(&self, scope: &OwnerScope) {
        let tiering = match self.agent(scope).memory().tiering_worker() {
            Ok(tiering) => tiering,
            Err(error) => return tracing::warn!(%error, "failed to summarize the memory that is due"),
        };
        if let Err(error) = tiering.summarize_queue(&FrameSender::default(), &self.closing).await {
            tracing::warn!(%error, "failed to summarize the memory that is due");
        }
    }

    /// Starts to embed new messages in the background, until the scheduler shuts down.
    pub(crate) fn start_embedding(&self) {
        let (agent, closing) = (self.system_agent.clone(), self.closing.clone());
        self.spawn_background(async move { agent.memory().keep_embedding(closing).await });
    }

    /// Starts to verify stored events in the background, until the scheduler shuts down.
    pub(crate) fn start_verification(&self) {
        let (agent, closing) = (self.system_agent.clone(), self.closing.clone());
        let counters = Arc::clone(&self.verification);
        self.spawn_background(async move { verification::verify_events(agent, &counters, closing).await });
    }

    /// Ends the stream of a run whose rows are final, and schedules the run's webhook.
    pub(crate) fn close_stream(self: &Arc<Self>, stream: &Arc<RunStream>) {
        let evicted = self.streams.close(stream, Instant::now());
        if stream.has_webhook {
            self.enqueue_webhook(stream.run_id, &stream.scope);
        }
        evicted.iter().chain([stream]).for_each(|stream| self.remove_temporary_thread(stream));
    }

    /// Deletes the thread of a temporary run after the run and its last reader have ended.
    pub(crate) fn remove_temporary_thread(self: &Arc<Self>, stream: &RunStream) {
        let is_disposable = stream.is_thread_disposable() && !self.closing.is_cancelled();
        if !is_disposable || !self.streams.release_thread(stream.run_id) {
            return;
        }
        let (agent, run_id, thread_id) = (self.agent(&stream.scope), stream.run_id, stream.thread_id);
        self.forget_streams(&stream.scope, thread_id);
        let has_webhook = stream.has_webhook;
        self.spawn_background(async move {
            // The webhook's body is made from the thread, so the thread is deleted after the delivery.
            if !has_webhook || matches!(agent.runs().pending_webhook(run_id).await, Ok(None)) {
                remove_thread(&agent, thread_id).await;
            }
        });
    }

    /// Spawns a task that a shutdown waits for. Outside a Tokio runtime, which happens only while the process exits,
    /// the work is dropped.
    pub(crate) fn spawn_background(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            self.tasks.spawn_on(work, &runtime);
        }
    }
}

/// Deletes the thread of a temporary run; a thread that is already gone is not an error.
pub(crate) async fn remove_thread(agent: &Agent, thread_id: ThreadId) {
    match agent.threads().delete(thread_id).await {
        Ok(()) | Err(agent::Error::Thread(agent::ThreadError::Unknown(_))) => {}
        Err(error) => {
            tracing::warn!(thread_id = %thread_id, %error, "failed to delete thread {thread_id} of a temporary run");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> OwnerScope {
        OwnerScope::Owner(Some(name.parse().unwrap()))
    }

    #[test]
    fn f10_each_owner_has_one_worker_at_a_time_and_no_work_is_lost() {
        let mut queue = SummarizeQueue::default();
        assert_eq!(queue.enqueue(&owner("a")), WorkerDemand::OneMore);
        assert_eq!(queue.enqueue(&owner("a")), WorkerDemand::Satisfied, "the owner is queued already");
        assert_eq!(queue.dequeue(), Some(owner("a")));
        assert_eq!(queue.enqueue(&owner("a")), WorkerDemand::OneMore, "there is new work");
        assert_eq!(queue.dequeue(), None, "the active worker handles it");
        queue.finish(&owner("a"));
        assert_eq!(queue.dequeue(), Some(owner("a")));
        queue.finish(&owner("a"));
        assert_eq!((queue.dequeue(), queue.workers), (None, 0));
    }

    #[test]
    fn the_queue_and_its_workers_are_bounded() {
        let mut queue = SummarizeQueue::default();
        let workers = (0..SUMMARIZE_QUEUE_MAX + 10)
            .filter(|n| queue.enqueue(&owner(&format!("u{n}"))) == WorkerDemand::OneMore);
        assert_eq!(workers.count(), SUMMARIZE_WORKERS_MAX);
        assert_eq!(queue.due.len(), SUMMARIZE_QUEUE_MAX);
    }
}
