//! [`Dispatch`] itself: what the runs of a server share, the agents of their owners, and how it all stops.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agent::{Agent, CancellationToken};
use parking_lot::Mutex;
use protocol::{RunId, Scope, ThreadId};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use crate::limits::{AGENTS_MAX, Limits};
use crate::line::{Lines, Places, PlacesMax};
use crate::settle::Settling;
use crate::streams::live::{Live, StreamPosition};
use crate::streams::thread::ThreadLive;
use crate::streams::{ScopedThread, Streams};
use crate::webhooks::Webhooks;
use crate::webhooks::target::WebhookTargets;

/// How much there is at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    /// Threads on which a run or something exclusive works.
    pub working: usize,
    /// Runs and exclusive pieces of work that wait.
    pub waiting: usize,
    /// Runs of other processes that are followed here at the moment.
    pub followed: usize,
    /// Runs that were taken over from processes that were gone, so far.
    pub taken_over: usize,
    /// Runs that waited for processes that were gone, and were taken from them, so far.
    pub taken_in: usize,
    /// Runs that other processes took over from this one, so far.
    pub lost: usize,
}

/// What is counted of what processes take from each other.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) taken_over: AtomicUsize,
    pub(crate) taken_in: AtomicUsize,
    pub(crate) lost: AtomicUsize,
}

/// The runs of a server: which waits and which works.
pub struct Dispatch {
    /// For work that belongs to nobody, such as recovery.
    pub(crate) everyone: Agent,
    agents: Mutex<HashMap<Scope, Arc<Agent>>>,
    pub(crate) lines: Mutex<Lines>,
    pub(crate) places: Arc<Places>,
    pub(crate) streams: Streams,
    pub(crate) settling: Mutex<Settling>,
    pub(crate) webhooks: Webhooks,
    pub(crate) webhook_targets: WebhookTargets,
    pub(crate) counts: Counts,
    /// Leave to work, first come, first served.
    pub(crate) permits: Arc<Semaphore>,
    /// Everything that drives a run or works behind one.
    pub(crate) tasks: TaskTracker,
    /// Cancelled when nothing is to begin any more, and what works is to stop at its next durable step.
    pub(crate) closing: CancellationToken,
    /// Cancelled when what still works is dropped.
    pub(crate) halt: CancellationToken,
}

impl std::fmt::Debug for Dispatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dispatch").finish_non_exhaustive()
    }
}

impl Dispatch {
    /// Returns a dispatch over the agent's journal. Nothing begins before it is asked for, or before [`Self::recover`].
    pub fn new(agent: Agent, limits: Limits) -> Arc<Self> {
        let closing = CancellationToken::new();
        Arc::new(Self {
            everyone: agent.scoped(Scope::Everyone).halted_by(closing.clone()),
            agents: Mutex::default(),
            lines: Mutex::default(),
            places: Places::new(PlacesMax { all: limits.queue_max, owner: limits.queue_per_user_max }),
            streams: Streams::new(&limits),
            settling: Mutex::default(),
            webhooks: Webhooks::default(),
            webhook_targets: limits.webhook_targets,
            counts: Counts::default(),
            permits: Arc::new(Semaphore::new(limits.runs_max.clamp(1, Semaphore::MAX_PERMITS))),
            tasks: TaskTracker::new(),
            closing,
            halt: CancellationToken::new(),
        })
    }

    /// Returns the agent of that scope.
    pub fn agent(&self, scope: &Scope) -> Arc<Agent> {
        let mut agents = self.agents.lock();
        if let Some(agent) = agents.get(scope) {
            return Arc::clone(agent);
        }
        if agents.len() >= AGENTS_MAX {
            // Those that nobody uses at the moment are made again when they are asked for.
            agents.retain(|_, agent| Arc::strong_count(agent) > 1);
        }
        let agent = Arc::new(self.everyone.scoped(scope.clone()));
        agents.insert(scope.clone(), Arc::clone(&agent));
        agent
    }

    /// Returns a reader of a run that waits, works, or has ended and is kept: of everything from the run's beginning, or
    /// from the frame at `after`, which is read again. `None` when there is no such stream. What can no longer be told is
    /// the reader's first item, a gap.
    ///
    /// Whose run it is has been looked at by the caller, who knows its thread.
    pub fn live(self: &Arc<Self>, run_id: RunId, after: Option<StreamPosition>) -> Option<Live> {
        Live::of(self.streams.get(run_id)?, after, Arc::downgrade(self))
    }

    /// Returns a reader of a thread over its runs: of those whose streams are kept, and of each that begins.
    pub fn thread_live(self: &Arc<Self>, scope: &Scope, thread_id: ThreadId) -> ThreadLive {
        ThreadLive::of(self, scope, thread_id)
    }

    /// Tells those who follow the thread that something was stored that no run tells of.
    pub fn tell_changed(&self, scope: &Scope, thread_id: ThreadId) {
        self.streams.changed(&ScopedThread { thread_id, scope: scope.clone() });
    }

    /// Lets go of the streams that are kept of a thread: it was removed, and whoever makes one of the same id begins anew.
    pub fn forget_streams(&self, scope: &Scope, thread_id: ThreadId) {
        self.streams.forget(&ScopedThread { thread_id, scope: scope.clone() });
    }

    /// Lets go of the stream that is kept of a run that has ended: it was taken back or forgotten, and there is nothing
    /// any more that the stream could be of.
    pub fn forget_stream(self: &Arc<Self>, run_id: RunId) {
        if let Some(stream) = self.streams.forget_run(run_id) {
            stream.let_go();
            self.remove_spent(&stream);
        }
    }

    /// Returns how much there is at the moment, for whoever watches the server.
    pub fn figures(&self) -> Figures {
        let (working, waiting) = self.lines.lock().counts();
        let read = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        let Counts { taken_over, taken_in, lost } = &self.counts;
        Figures {
            working,
            waiting,
            followed: self.streams.followed(),
            taken_over: read(taken_over),
            taken_in: read(taken_in),
            lost: read(lost),
        }
    }

    /// Lets nothing begin any more and gives what works until `grace` has passed to reach a durable step; then stops driving
    /// it. No run is ended by this: another process, or the next one, goes on with each that worked as soon as it has reached
    /// that step, and begins at once those that waited. Nothing is written when it returns. It may be called again, also while it works: with another grace, the shorter one holds.
    pub async fn shutdown(&self, grace: Duration) {
        self.lines.lock().close();
        self.permits.close();
        self.closing.cancel();
        self.tasks.close();
        if let Err(error) = self.everyone.runs().release_queued().await {
            tracing::warn!(%error, "failed to give up what waits");
        }
        if tokio::time::timeout(grace, self.tasks.wait()).await.is_err() {
            self.halt.cancel();
            self.tasks.wait().await;
        }
        self.halt.cancel();
        self.streams.close_all();
        if let Err(error) = self.everyone.runs().farewell().await {
            tracing::warn!(%error, "failed to tell other processes that this one goes");
        }
    }
}
