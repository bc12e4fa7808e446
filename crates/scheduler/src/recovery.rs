//! Recovery of the work that earlier or dead processes left: active runs are resumed, queued runs are queued again, and
//! decided activities are performed. The journal is scanned when a server starts and periodically after that, because
//! another process can die at any time.
//!
//! There are three kinds of scans. After a commit notification, orphaned runs are claimed ([`CLAIMS_MAX`] at most).
//! Every [`FULL_SCAN_INTERVAL`], the whole journal is scanned, streams expire, and pending webhooks are read. Every
//! [`TEMPORARY_CLEANUP_SCANS`] full scans, pending runs without a stream are queued again.

use futures::future::BoxFuture;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use agent::{AllThreadsSubscription, CancellationToken, FrameSender, ThreadFilter};
use protocol::{OwnerScope, ParentKind, Run, RunId, RunRequest, RunStatus, Thread, ThreadId};
use serde_json::{Map, json};

use crate::Result;
use crate::limits::{
    CLAIMS_FULL_SCAN_MAX, CLAIMS_MAX, FULL_SCAN_INTERVAL, SCAN_DEBOUNCE, TEMPORARY_CLEANUP_SCANS,
};
use crate::maintenance;
use crate::queue::{Admission, EnqueueOutcome, Occupancy, Occupant, QueuePosition, QueuedWork};
use crate::scheduler::Scheduler;
use crate::streams::stream::RunStream;
use crate::worker::ThreadOutcome;

/// Number of queued runs whose requests are read with one query.
const REQUESTS_PAGE_SIZE: usize = 64;

/// Maximum of temporary threads that one cleanup deletes; the next one deletes the others.
const TEMPORARY_THREADS_MAX: usize = 1_000;

/// The result of a scan of the journal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Active runs of dead processes that this process resumes.
    pub resumed: usize,
    /// Pending runs that this process queued, in their order.
    pub queued: usize,
    /// Active runs that another live process drives.
    pub remote: usize,
}

impl Scheduler {
    /// Verifies the newest events, recovers the work of earlier processes and starts the periodic scans. The runs continue in the background; their
    /// streams exist when this returns or soon after. Runs of live processes are left alone.
    ///
    /// # Errors
    /// [`crate::Error::Agent`] if the journal cannot be read.
    pub fn recover<'a>(self: &'a Arc<Self>) -> BoxFuture<'a, Result<RecoveryReport>> {
        agent::box_future(async move {
            // A file in which this finds damaged pages is not written to after that, so a server with it does not start.
            maintenance::verification::verify_newest_events(&self.system_agent, &self.verification).await;
            self.system_agent.runs().start_heartbeat().await?;
            let mut report = self.scan_journal().await?;
            report.queued += self.requeue_lost_runs().await?;
            self.schedule_summarize(&OwnerScope::Everyone);
            let scheduler = Arc::clone(self);
            self.tasks.spawn(async move { scheduler.finish_decided_work().await });
            self.tasks.spawn(run_recovery_loop(Arc::downgrade(self), self.closing.clone()));
            self.start_embedding();
            self.start_verification();
            Ok(report)
        })
    }

    /// Performs the activities that were decided before an earlier process ended, such as the acceptance of a handoff.
    async fn finish_decided_work(&self) {
        // A shutdown cancels nothing here: what is not performed by then is performed at the next start.
        let (no_frames, no_cancel) = (FrameSender::default(), CancellationToken::new());
        let performed = tokio::select! {
            () = self.halt.cancelled() => return,
            performed = self.system_agent.runs().sweep_idle_threads(&no_frames, &no_cancel) => performed,
        };
        if let Err(error) = performed {
            tracing::warn!(%error, "failed to perform the activities of earlier processes");
        }
        if let Err(error) = self.system_agent.handoffs().expire_overdue().await {
            tracing::warn!(%error, "failed to expire handoffs that were not decided in time");
        }
        self.clean_up_temporary_threads().await;
    }

    /// Deletes the temporary threads of earlier processes and logs failures.
    async fn clean_up_temporary_threads(&self) {
        let removed = tokio::select! {
            () = self.closing.cancelled() => return,
            removed = self.delete_temporary_threads() => removed,
        };
        if let Err(error) = removed {
            tracing::warn!(%error, "failed to delete the threads of temporary runs");
        }
    }

    /// Claims orphaned runs, ends the orphaned runs of sub-agents, and counts the runs of other processes.
    async fn scan_journal(self: &Arc<Self>) -> Result<RecoveryReport> {
        let mut report = self.claim_orphaned_runs(CLAIMS_FULL_SCAN_MAX).await?;
        for run in self.system_agent.runs().active_runs(None).await? {
            if self.streams.is_open(run.run_id) || self.system_agent.runs().is_own_run(&run) {
                continue;
            }
            match self.system_agent.runs().is_orphaned(&run) {
                false => report.remote += 1,
                true => drop(self.end_orphaned_subagent(run.thread_id).await?),
            }
        }
        Ok(report)
    }

    /// Queues runs again that are pending for this process although it has no stream of them.
    async fn requeue_lost_runs(self: &Arc<Self>) -> Result<usize> {
        let queued = self.system_agent.runs().queued_runs(None).await?;
        let is_lost =
            |run: &Run| self.system_agent.runs().is_own_run(run) && !self.streams.is_open(run.run_id);
        let lost = self.select_pending(queued.into_iter().filter(is_lost).collect()).await?;
        self.enqueue_recovered(lost).await
    }

    /// Claims the runs of dead processes, and drops queued runs that are no longer pending.
    async fn claim_orphaned_runs(self: &Arc<Self>, limit: usize) -> Result<RecoveryReport> {
        let mut report = RecoveryReport::default();
        self.drop_stale_queued_runs(limit).await?;
        let mut orphaned = self.system_agent.runs().unclaimed_runs(limit).await?;
        // If this process's heartbeat was late, its own runs look orphaned. Those with a stream are not.
        orphaned.retain(|run| !self.streams.is_open(run.run_id));
        let (running, pending): (Vec<Run>, Vec<Run>) =
            orphaned.into_iter().partition(|run| run.status == RunStatus::Running);
        for run in running {
            // A run whose folder is not on this machine is left to another process; its queue ends it once it is in the
            // way.
            let remote = Occupancy::new(Occupant::Remote, CancellationToken::new());
            if self.has_local_folder(&run).await
                && self.queues.lock().admit(run.thread_id, remote) == Admission::Admitted
            {
                report.resumed += 1;
                self.tasks.spawn(Arc::clone(self).drain_queue(run.thread_id, ThreadOutcome::Remote));
            }
        }
        if pending.is_empty() {
            return Ok(report);
        }
        // Another process may have more free permits for the queued runs.
        let room = match self.system_agent.runs().is_only_process().await? {
            true => pending.len(),
            false => self.permits.available_permits().min(pending.len()),
        };
        let claimable = pending.into_iter().take(room).map(|run| run.run_id).collect();
        let claimed = self.system_agent.runs().claim_runs(claimable).await?;
        self.takeovers.claimed_queued.fetch_add(claimed.len(), Ordering::Relaxed);
        report.queued = self.enqueue_recovered(claimed).await?;
        Ok(report)
    }

    /// Returns whether the folder of an interrupted run is on this machine; `false` if that cannot be read.
    async fn has_local_folder(&self, run: &Run) -> bool {
        let agent = self.agent(&OwnerScope::Owner(run.assistant_id.owner()));
        agent.runs().can_resume_here(run.thread_id).await.unwrap_or(false)
    }

    /// Removes runs from their queues that another process stopped or started. Checks at most `limit` threads, so that
    /// the cost of one scan is bounded; a run of an unchecked thread is detected when it is about to start.
    async fn drop_stale_queued_runs(self: &Arc<Self>, limit: usize) -> Result<()> {
        let queued_runs = self.queues.lock().queued_runs();
        let threads: HashSet<ThreadId> = queued_runs.iter().map(|(thread_id, _)| *thread_id).collect();
        let checked: HashSet<ThreadId> = threads.into_iter().take(limit).collect();
        let mut pending = HashSet::new();
        for thread_id in &checked {
            let queued = self.system_agent.runs().queued_runs(Some(*thread_id)).await?;
            pending.extend(queued.into_iter().map(|run| run.run_id));
        }
        let is_stale = |(thread_id, run_id): &(ThreadId, RunId)| {
            checked.contains(thread_id) && !pending.contains(run_id)
        };
        for (thread_id, run_id) in queued_runs.into_iter().filter(is_stale) {
            let removed = self.queues.lock().remove_run(thread_id, run_id);
            if let Some(QueuedWork::Run(stream, _)) = removed {
                let replay_state = self.publish_end(&self.agent(&stream.scope), &stream).await;
                self.end_stream(&stream, replay_state);
            }
        }
        Ok(())
    }

    /// Returns those of the runs that are still pending. They may have started and ended since they were read.
    async fn select_pending(&self, runs: Vec<Run>) -> Result<Vec<Run>> {
        let mut pending = Vec::new();
        for run in runs {
            let current = self.system_agent.runs().get(run.run_id).await?;
            pending.extend(current.filter(|current| current.status == RunStatus::Pending));
        }
        Ok(pending)
    }

    /// Returns whether the thread is a sub-agent's, which the run of its parent resumes. If the parent has no active
    /// run, ends the orphaned run of the sub-agent.
    async fn end_orphaned_subagent(&self, thread_id: ThreadId) -> Result<bool> {
        let Some(thread) = self.system_agent.threads().get(thread_id).await? else {
            return Ok(false);
        };
        let (Some(ParentKind::Subagent), Some(parent_id)) = (thread.parent_kind, thread.parent_id) else {
            return Ok(false);
        };
        if self.system_agent.runs().active_runs(Some(parent_id)).await?.is_empty()
            && let Err(error) = self.system_agent.runs().end_orphaned_run(thread_id).await
        {
            tracing::warn!(thread_id = %thread_id, %error, "failed to end the orphaned run of a sub-agent in thread {thread_id}");
        }
        Ok(true)
    }

    /// Queues runs of earlier processes on their threads in their original order; `runs` is sorted by age, oldest
    /// first. Their streams are kept even if that was not requested, because their readers lost their connections and
    /// will reconnect.
    async fn enqueue_recovered(self: &Arc<Self>, runs: Vec<Run>) -> Result<usize> {
        let mut by_thread: HashMap<ThreadId, VecDeque<Arc<RunStream>>> = HashMap::new();
        let empty_request = RunRequest::default();
        for page in runs.chunks(REQUESTS_PAGE_SIZE) {
            let ids: Vec<_> = page.iter().map(|run| run.run_id).collect();
            let requests = self.system_agent.runs().stored_requests(&ids).await?;
            for run in page {
                // A run that is gone meanwhile is detected when it is about to start.
                let stored = requests.iter().find(|(run_id, _)| *run_id == run.run_id);
                let request = stored.map_or(&empty_request, |(_, request)| request);
                let scope = OwnerScope::Owner(run.assistant_id.owner());
                let stream = RunStream::new_recovered(run.run_ref(), &scope, request);
                let queue = by_thread.entry(run.thread_id).or_default();
                // Runs that displaced the active one come first, in the order of their creation.
                let index = match stream.queue_position {
                    QueuePosition::Displacing => queue
                        .iter()
                        .take_while(|other| other.queue_position == QueuePosition::Displacing)
                        .count(),
                    QueuePosition::Front | QueuePosition::Back => queue.len(),
                };
                queue.insert(index, Arc::new(stream));
            }
        }
        let mut count = 0;
        for (thread_id, queue) in by_thread {
            count += queue.len();
            if self.enqueue_thread_runs(thread_id, queue) == EnqueueOutcome::Closed {
                break;
            }
        }
        Ok(count)
    }

    /// Adds runs to the end of the thread's queue.
    fn enqueue_thread_runs(
        self: &Arc<Self>,
        thread_id: ThreadId,
        queue: VecDeque<Arc<RunStream>>,
    ) -> EnqueueOutcome {
        let mut first = None;
        for stream in queue {
            self.streams.open(&stream);
            let queue_permit = self.queue_quota.acquire_over_limit(&stream.scope);
            let enqueued = self.queues.lock().enqueue(
                thread_id,
                QueuedWork::Run(Arc::clone(&stream), queue_permit),
                QueuePosition::Back,
            );
            if enqueued == EnqueueOutcome::Closed {
                self.streams.discard(&stream);
                return EnqueueOutcome::Closed;
            }
            first.get_or_insert(enqueued);
        }
        // The worker of a new queue starts after all runs are in it.
        if first == Some(EnqueueOutcome::QueueCreated) {
            self.tasks.spawn(Arc::clone(self).drain_queue(thread_id, ThreadOutcome::Pending));
        }
        first.unwrap_or(EnqueueOutcome::Queued)
    }

    /// Deletes the threads of temporary runs whose process ended before it could delete them.
    async fn delete_temporary_threads(&self) -> Result<()> {
        let runs = self.system_agent.runs();
        let metadata = Map::from_iter([(Thread::TEMPORARY_KEY.to_owned(), json!({}))]);
        let filter =
            ThreadFilter { metadata, ..ThreadFilter::for_scope(OwnerScope::Everyone, TEMPORARY_THREADS_MAX) };
        // Another process may still keep the stream of a run that ended recently.
        let is_only_process = runs.is_only_process().await?;
        let ended_long_ago = |run: &Run| {
            let elapsed = SystemTime::now().duration_since(run.updated_at.into());
            elapsed.is_ok_and(|elapsed| elapsed >= FULL_SCAN_INTERVAL * TEMPORARY_CLEANUP_SCANS)
        };
        for thread in self.system_agent.threads().list(filter).await? {
            let run_id = thread
                .metadata
                .get(Thread::TEMPORARY_KEY)
                .and_then(|mark| mark["run_id"].as_str()?.parse().ok());
            let Some(run_id) = run_id else { continue };
            // Clients can set any metadata of their threads, so only the run's stored request decides.
            let is_temporary = runs.stored_request(run_id).await?.is_some_and(|request| request.temporary);
            let run = runs.get(run_id).await?;
            let is_over = run.is_some_and(|run| {
                run.thread_id == thread.thread_id
                    && !run.status.is_active()
                    && (is_only_process || ended_long_ago(&run))
            });
            if !is_temporary || !is_over || self.streams.needs_thread(run_id) {
                continue;
            }
            let agent = self.agent(&OwnerScope::Owner(thread.assistant_id.owner()));
            // The webhook's body is made from the thread.
            if agent.runs().pending_webhook(run_id).await?.is_none() {
                maintenance::remove_thread(&agent, thread.thread_id).await;
            }
        }
        Ok(())
    }

    /// Removes streams whose retention has expired, and deletes the temporary threads that were kept for them.
    fn expire_streams(self: &Arc<Self>) {
        for stream in self.streams.expire(Instant::now()) {
            self.remove_temporary_thread(&stream);
        }
    }
}

/// Scans for orphaned runs after commit notifications, and periodically the whole journal, until the scheduler is
/// dropped or shuts down.
async fn run_recovery_loop(scheduler: Weak<Scheduler>, closing: CancellationToken) {
    let Some(mut recovery_loop) = scheduler.upgrade().map(|scheduler| RecoveryLoop::new(&scheduler)) else {
        return;
    };
    loop {
        let next_scan = recovery_loop.next_scan_at();
        let is_due = tokio::select! {
            () = recovery_loop.commits.changed() => false,
            () = tokio::time::sleep_until(next_scan) => true,
            () = closing.cancelled() => return,
        };
        if !is_due {
            tokio::select! {
                () = tokio::time::sleep(SCAN_DEBOUNCE) => {}
                () = closing.cancelled() => return,
            }
        }
        let Some(scheduler) = scheduler.upgrade() else { return };
        recovery_loop.scan(&scheduler).await;
    }
}

/// The schedule of the recovery scans.
struct RecoveryLoop {
    commits: AllThreadsSubscription,
    /// The heartbeat interval: how long it takes until a dead process can be detected.
    heartbeat: Duration,
    /// The time of the last full scan, which finds what no notification reports.
    last_full_scan: Instant,
    /// The time of the last rare scan, for states that hardly ever occur.
    last_rare_scan: Instant,
    temporary_cleanup: TemporaryCleanup,
}

/// The state of the second cleanup of temporary threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TemporaryCleanup {
    Pending,
    Done,
}

impl RecoveryLoop {
    /// Returns a schedule whose scans begin now.
    fn new(scheduler: &Scheduler) -> Self {
        let (commits, heartbeat) = (
            scheduler.system_agent.threads().subscribe_commits(),
            scheduler.system_agent.runs().heartbeat_interval(),
        );
        let now = Instant::now();
        Self {
            commits,
            heartbeat,
            last_full_scan: now,
            last_rare_scan: now,
            temporary_cleanup: TemporaryCleanup::Pending,
        }
    }

    /// Returns the time of the next scan if no notification arrives before.
    fn next_scan_at(&self) -> tokio::time::Instant {
        let next_scan = Instant::now() + self.heartbeat;
        tokio::time::Instant::from_std(next_scan.min(self.last_full_scan + FULL_SCAN_INTERVAL))
    }

    /// Performs the scan that is due and logs failures.
    async fn scan(&mut self, scheduler: &Arc<Scheduler>) {
        let is_full_scan = self.last_full_scan.elapsed() >= FULL_SCAN_INTERVAL;
        let scanned = match is_full_scan {
            true => scheduler.scan_journal().await,
            false => scheduler.claim_orphaned_runs(CLAIMS_MAX).await,
        };
        if let Err(error) = scanned {
            tracing::warn!(%error, "failed to scan for orphaned runs");
        }
        if !is_full_scan {
            return;
        }
        self.last_full_scan = Instant::now();
        scheduler.expire_streams();
        scheduler.scan_webhooks().await;
        if self.last_rare_scan.elapsed() < FULL_SCAN_INTERVAL * TEMPORARY_CLEANUP_SCANS {
            return;
        }
        self.last_rare_scan = Instant::now();
        if let Err(error) = scheduler.requeue_lost_runs().await {
            tracing::warn!(%error, "failed to scan for lost queued runs");
        }
        if std::mem::replace(&mut self.temporary_cleanup, TemporaryCleanup::Done) == TemporaryCleanup::Pending
        {
            scheduler.clean_up_temporary_threads().await;
        }
    }
}
