//! [`Scheduler`]: the state that all runs of a server share, the cached agents of their owners, and the shutdown.

use futures::future::BoxFuture;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agent::{Agent, CancellationToken};
use parking_lot::Mutex;
use protocol::{OwnerScope, RunId, ThreadId};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use crate::create::answers::AnswerLocks;
use crate::limits::{CACHED_AGENTS_MAX, SchedulerLimits};
use crate::maintenance::SummarizeQueue;
use crate::maintenance::verification::VerificationCounters;
use crate::queue::{Quota, QuotaLimits, ThreadQueues};
use crate::streams::run_reader::{RunReader, StreamPosition};
use crate::streams::thread_reader::ThreadReader;
use crate::streams::{ScopedThread, StreamRegistry};
use crate::webhooks::WebhookQueue;
use crate::webhooks::target::WebhookTargetPolicy;

/// Current numbers of the scheduler, for the metrics of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchedulerMetrics {
    /// Threads on which a run or exclusive work is active.
    pub busy_threads: usize,
    /// Runs and pieces of exclusive work that are queued.
    pub queued: usize,
    /// Runs of other processes that readers in this process follow at the moment.
    pub followed_remote: usize,
    /// Runs that this process took over from dead processes since it started.
    pub taken_over: usize,
    /// Queued runs that this process claimed from dead processes since it started.
    pub claimed_queued: usize,
    /// Runs that other processes took over from this one since it started.
    pub lost_runs: usize,
    /// Stored events that this process has verified in the background since it started.
    pub verified_events: usize,
    /// Damaged events that the latest verification has found.
    pub damaged_events: usize,
}

/// Counters of the runs that processes take over from each other. They only increase.
#[derive(Debug, Default)]
pub(crate) struct TakeoverCounters {
    /// Active runs that this process took over.
    pub(crate) taken_over: AtomicUsize,
    /// Queued runs that this process claimed.
    pub(crate) claimed_queued: AtomicUsize,
    /// Runs that another process took over from this one.
    pub(crate) lost_runs: AtomicUsize,
}

/// The scheduler of a server: it decides which run works and which one is queued.
pub struct Scheduler {
    /// The agent for work that belongs to no single owner, such as recovery. Its scope is every owner.
    pub(crate) system_agent: Agent,
    /// Agents by scope; at most [`CACHED_AGENTS_MAX`] plus those in use.
    agents: Mutex<HashMap<OwnerScope, Arc<Agent>>>,
    pub(crate) queues: Mutex<ThreadQueues>,
    /// Limits the number of queued runs and exclusive work, in total and for each owner.
    pub(crate) queue_quota: Arc<Quota>,
    pub(crate) streams: StreamRegistry,
    pub(crate) answer_locks: AnswerLocks,
    /// Owners whose memory is to be summarized in the background.
    pub(crate) summarize_queue: Mutex<SummarizeQueue>,
    pub(crate) webhooks: WebhookQueue,
    pub(crate) webhook_policy: WebhookTargetPolicy,
    pub(crate) takeovers: TakeoverCounters,
    /// The numbers of the verification of stored events.
    pub(crate) verification: Arc<VerificationCounters>,
    /// Permits to drive a run, granted in the order of the requests.
    pub(crate) permits: Arc<Semaphore>,
    /// All tasks that drive a run or work in the background for one.
    pub(crate) tasks: TaskTracker,
    /// Cancelled when a shutdown begins: nothing new starts, and active runs stop at their next durable step.
    pub(crate) closing: CancellationToken,
    /// Cancelled when the grace period of a shutdown is over: work that is still active is dropped.
    pub(crate) halt: CancellationToken,
}

impl std::fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scheduler").finish_non_exhaustive()
    }
}

impl Scheduler {
    /// Returns a scheduler over the agent's journal. It starts no run before [`Self::create_run`] or [`Self::recover`]
    /// is called.
    pub fn new(agent: Agent, limits: SchedulerLimits) -> Arc<Self> {
        let closing = CancellationToken::new();
        Arc::new(Self {
            system_agent: agent.scoped(OwnerScope::Everyone).with_halt_token(closing.clone()),
            agents: Mutex::default(),
            queues: Mutex::default(),
            queue_quota: Quota::new(QuotaLimits {
                global: limits.queue_max,
                per_owner: limits.queue_per_user_max,
            }),
            streams: StreamRegistry::new(&limits),
            answer_locks: AnswerLocks::default(),
            summarize_queue: Mutex::default(),
            webhooks: WebhookQueue::default(),
            webhook_policy: limits.webhook_targets,
            takeovers: TakeoverCounters::default(),
            verification: Arc::default(),
            permits: Arc::new(Semaphore::new(limits.runs_max.clamp(1, Semaphore::MAX_PERMITS))),
            tasks: TaskTracker::new(),
            closing,
            halt: CancellationToken::new(),
        })
    }

    /// Returns the agent for that scope, from the cache if possible.
    pub fn agent(&self, scope: &OwnerScope) -> Arc<Agent> {
        let mut agents = self.agents.lock();
        if let Some(agent) = agents.get(scope) {
            return Arc::clone(agent);
        }
        if agents.len() >= CACHED_AGENTS_MAX {
            // An agent that is not in use is cheap to create again.
            agents.retain(|_, agent| Arc::strong_count(agent) > 1);
        }
        let agent = Arc::new(self.system_agent.scoped(scope.clone()));
        agents.insert(scope.clone(), Arc::clone(&agent));
        agent
    }

    /// Returns a reader of a run that is queued or active here, or that has ended and whose stream is kept. It reads
    /// from the run's beginning, or from the frame at `after`, which is repeated. Returns `None` if there is no such
    /// stream. If frames before the requested position are gone, the reader's first item is a gap.
    ///
    /// The caller has to check that the client may read this run.
    pub fn run_reader(self: &Arc<Self>, run_id: RunId, after: Option<StreamPosition>) -> Option<RunReader> {
        RunReader::open(self.streams.get(run_id)?, after, Arc::downgrade(self))
    }

    /// Returns a reader of all runs of a thread: those whose streams are kept or open, and each run that starts later.
    pub fn thread_reader(self: &Arc<Self>, scope: &OwnerScope, thread_id: ThreadId) -> ThreadReader {
        ThreadReader::subscribe(self, scope, thread_id)
    }

    /// Notifies the readers of a thread that something was stored which is not part of a run's stream.
    pub fn notify_changed(&self, scope: &OwnerScope, thread_id: ThreadId) {
        self.streams.notify_changed(&ScopedThread { thread_id, scope: scope.clone() });
    }

    /// Removes the kept streams of a thread that was deleted. A new thread with the same id then starts without them.
    pub fn forget_streams(&self, scope: &OwnerScope, thread_id: ThreadId) {
        self.streams.forget_thread(&ScopedThread { thread_id, scope: scope.clone() });
    }

    /// Removes the kept stream of an ended run that was rolled back or forgotten, because its content no longer exists.
    pub fn forget_stream(self: &Arc<Self>, run_id: RunId) {
        if let Some(stream) = self.streams.forget_run(run_id) {
            stream.stop_retaining();
            self.remove_temporary_thread(&stream);
        }
    }

    /// Returns the current numbers, for the metrics of a server.
    pub fn metrics(&self) -> SchedulerMetrics {
        let (busy, queued) = self.queues.lock().counts();
        let read = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        let TakeoverCounters { taken_over, claimed_queued, lost_runs } = &self.takeovers;
        let VerificationCounters { verified, damaged } = &*self.verification;
        SchedulerMetrics {
            busy_threads: busy,
            queued,
            followed_remote: self.streams.remote_count(),
            taken_over: read(taken_over),
            claimed_queued: read(claimed_queued),
            lost_runs: read(lost_runs),
            verified_events: read(verified),
            damaged_events: read(damaged),
        }
    }

    /// Shuts the scheduler down. Nothing new starts; active runs get until `grace` has passed to reach a durable step
    /// and are dropped after that. No run is ended by this. Another process, or the next start of this one, resumes
    /// each active run as soon as it has reached that step and can start the queued runs at once. When this returns,
    /// nothing is written any more.
    ///
    /// It may be called again, also concurrently: the shortest grace period holds.
    pub fn shutdown<'a>(&'a self, grace: Duration) -> BoxFuture<'a, ()> {
        agent::box_future(async move {
            self.queues.lock().close();
            self.permits.close();
            self.closing.cancel();
            self.tasks.close();
            if let Err(error) = self.system_agent.runs().release_queued_runs().await {
                tracing::warn!(%error, "failed to release the queued runs");
            }
            if tokio::time::timeout(grace, self.tasks.wait()).await.is_err() {
                self.halt.cancel();
                self.tasks.wait().await;
            }
            self.halt.cancel();
            self.streams.close_all();
            if let Err(error) = self.system_agent.runs().stop_heartbeat().await {
                tracing::warn!(%error, "failed to tell other processes that this one stops");
            }
        })
    }
}
