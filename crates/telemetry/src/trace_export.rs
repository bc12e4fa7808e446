//! Follows the commits of this process, and exports and counts the spans that they finish.
//!
//! The journal is the buffer. The follower reads from it, at its own pace, the events that the feed has not kept, so a slow
//! collector never delays a commit, and no event is lost while the process lives. Each process exports only spans that one
//! of its own events finished, so that processes sharing a store do not export a span twice.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use journal::{
    CommitDetail, CommittedEvents, EventQuery, LocalCommitSubscription, Store, SupersededVisibility,
};
use model::prices::Prices;
use protocol::{EventType, ParentKind, Seq, ThreadId};
use tokio::sync::{mpsc, oneshot};

use crate::export::{Error, SpanSender};
use crate::fold::{SpanFold, ThreadOrigin, subagent_caller};
use crate::metrics::TelemetryMetrics;
use crate::settings::TracingSettings;
use crate::span::TraceSpan;

/// The name of the subscription to local commits. Only one subscriber of a store can have it.
const FEED_NAME: &str = "traces";
/// Number of events read in one query.
const READ_BATCH_EVENTS: usize = 200;
/// Maximum unclaimed spans kept for each thread. Notifications of two commits can arrive in reverse order, so an event can
/// be read before the feed reports it as this process's own.
const UNCLAIMED_MAX: usize = 64;
/// Number of followed threads above which threads without work in progress are dropped from memory.
const IDLE_MAX: usize = 500;
/// Maximum threads in memory. Above it, all are dropped; a dropped thread is loaded again at its next commit.
const THREADS_MAX: usize = 5_000;

/// The trace export of one process. Dropping it stops following commits; spans that are already queued are still sent.
#[derive(Debug)]
pub struct TraceExport {
    /// Sends spans; `None` if they are only counted.
    sender: Option<Arc<SpanSender>>,
    /// Requests to the follower to read all pending commits. It answers each when it has done so.
    flushes: mpsc::Sender<oneshot::Sender<()>>,
}

impl TraceExport {
    /// Starts to export the spans of commits of `store` from now on, to the target in `settings` and the environment.
    /// Returns `None` if there is no target, or if the store already has a trace export.
    ///
    /// # Errors
    /// If the endpoint or a header is invalid.
    ///
    /// # Panics
    /// If it is not called within a Tokio runtime, on which it spawns its task.
    pub fn start(
        store: Arc<dyn Store>,
        settings: &TracingSettings,
        prices: &Prices,
    ) -> Result<Option<Self>, Error> {
        Ok(match start_sender(settings, prices)? {
            Some(sender) => Self::spawn_follower(store, Some(sender), None),
            None => None,
        })
    }

    /// Starts to count spans in `metrics`, and to export them if there is a target. Servers use this. An invalid target is
    /// logged and does not stop the counting. Returns `None` if the store already has a trace export.
    ///
    /// # Panics
    /// If it is not called within a Tokio runtime, on which it spawns its task.
    pub fn start_with_metrics(
        store: Arc<dyn Store>,
        settings: &TracingSettings,
        prices: &Prices,
        metrics: Arc<TelemetryMetrics>,
    ) -> Option<Self> {
        let sender = start_sender(settings, prices).unwrap_or_else(|error| {
            tracing::warn!("no traces are exported: failed to {error}");
            None
        });
        Self::spawn_follower(store, sender, Some(metrics))
    }

    /// Spawns the task that follows the commits. Returns `None` if the subscription is taken.
    fn spawn_follower(
        store: Arc<dyn Store>,
        sender: Option<Arc<SpanSender>>,
        metrics: Option<Arc<TelemetryMetrics>>,
    ) -> Option<Self> {
        let feed = store.local_commits().subscribe(FEED_NAME, CommitDetail::Events)?;
        let follower =
            TraceFollower { store, feed, sender: sender.clone(), metrics, threads: HashMap::new() };
        let (flushes, flush_requests) = mpsc::channel(1);
        tokio::spawn(follower.run(flush_requests));
        Some(Self { sender, flushes })
    }

    /// Sends the spans of everything committed so far. Returns when they were sent, when sending failed, or after
    /// `wait_max`.
    pub async fn flush(&self, wait_max: Duration) {
        let (done, flushed) = oneshot::channel();
        let read_commits = async {
            // Both fail only if the follower has stopped. Then there is nothing left to read.
            let _ = self.flushes.send(done).await;
            let _ = flushed.await;
        };
        let start = Instant::now();
        let _ = tokio::time::timeout(wait_max, read_commits).await;
        if let Some(sender) = &self.sender {
            sender.flush(wait_max.saturating_sub(start.elapsed())).await;
        }
    }
}

/// Starts the sender for the target in the settings and the environment. Returns `None` if there is no target.
fn start_sender(settings: &TracingSettings, prices: &Prices) -> Result<Option<Arc<SpanSender>>, Error> {
    let Some(target) = settings.target(&|name| std::env::var(name).ok()) else { return Ok(None) };
    Ok(Some(Arc::new(SpanSender::start(&target, prices.clone())?)))
}

/// The task that reads committed events and makes spans of them.
struct TraceFollower {
    store: Arc<dyn Store>,
    /// The commits of this process.
    feed: LocalCommitSubscription,
    sender: Option<Arc<SpanSender>>,
    metrics: Option<Arc<TelemetryMetrics>>,
    /// The threads in memory. At most about [`THREADS_MAX`].
    threads: HashMap<ThreadId, FollowedThread>,
}

/// The state of a followed thread.
struct FollowedThread {
    fold: SpanFold,
    /// `seq` of the last event that was applied.
    read_until: Seq,
    /// Spans that were finished by an event that the feed has not reported as written by this process, each with the `seq`
    /// of that event. The report may still come.
    unclaimed: VecDeque<(Seq, TraceSpan)>,
}

impl FollowedThread {
    /// Removes and returns the unclaimed spans whose final event is now known to be written by this process.
    fn take_claimed(&mut self, is_own: &impl Fn(Seq) -> bool) -> Vec<TraceSpan> {
        let unclaimed = std::mem::take(&mut self.unclaimed);
        let (own, others): (Vec<_>, Vec<_>) = unclaimed.into_iter().partition(|(seq, _)| is_own(*seq));
        self.unclaimed = others.into();
        own.into_iter().map(|(_, span)| span).collect()
    }
}

impl TraceFollower {
    /// Reads commits until the export is dropped, which closes the channel of flush requests.
    async fn run(mut self, mut flush_requests: mpsc::Receiver<oneshot::Sender<()>>) {
        loop {
            tokio::select! {
                threads = self.feed.next_batch() => self.read_commits(threads).await,
                request = flush_requests.recv() => {
                    let Some(done) = request else { return };
                    let threads = self.feed.take_pending();
                    self.read_commits(threads).await;
                    // Fails if the requester has stopped waiting.
                    let _ = done.send(());
                }
            }
        }
    }

    /// Reads the threads with new commits. A thread that cannot be read is logged and tried again at its next commit.
    async fn read_commits(&mut self, threads: Vec<(ThreadId, CommittedEvents)>) {
        for (thread_id, own) in threads {
            if let Err(error) = self.read_thread(thread_id, &own).await {
                tracing::warn!(
                    thread_id = %thread_id, %error,
                    "failed to read the events of thread {thread_id} for tracing; `segue trace` shows them"
                );
            }
        }
        if self.threads.len() > IDLE_MAX {
            self.threads.retain(|_, thread| !thread.fold.is_idle());
        }
        if self.threads.len() > THREADS_MAX {
            // Most of these runs never end here: another process took them over, or their thread was deleted.
            self.threads.clear();
        }
    }

    /// Reads a thread up to the last event that this process wrote, and sends and counts the spans that end. `own` are the
    /// events that this process wrote.
    async fn read_thread(
        &mut self,
        thread_id: ThreadId,
        own: &CommittedEvents,
    ) -> Result<(), journal::Error> {
        let (Some(first), Some(last)) = (own.ranges.first(), own.ranges.last()) else { return Ok(()) };
        let (first, last) = (*first.start(), *last.end());
        let thread = match self.threads.entry(thread_id) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(load_thread(&*self.store, thread_id, first).await?),
        };
        let is_own = |seq: Seq| own.ranges.iter().any(|seqs| seqs.contains(&seq));
        let mut finished = thread.take_claimed(&is_own);
        loop {
            let page = match own.events_after(thread.read_until) {
                Some(events) => events.to_vec(),
                None => {
                    let query = events_after(thread.read_until, READ_BATCH_EVENTS);
                    self.store.events(thread_id, query).await?.into_iter().map(Arc::new).collect()
                }
            };
            for event in page.iter().take_while(|event| event.seq <= last) {
                thread.fold.apply_event(event);
                thread.read_until = event.seq;
                let spans = thread.fold.take_finished();
                // A span that another process's event finishes is exported by that process.
                match is_own(event.seq) {
                    true => finished.extend(spans),
                    false => thread.unclaimed.extend(spans.into_iter().map(|span| (event.seq, span))),
                }
            }
            let excess = thread.unclaimed.len().saturating_sub(UNCLAIMED_MAX);
            thread.unclaimed.drain(..excess);
            for span in finished.drain(..) {
                if let Some(metrics) = &self.metrics {
                    metrics.record_span(&span);
                }
                if let Some(sender) = &self.sender {
                    sender.send_span(&span);
                }
            }
            if page.len() < READ_BATCH_EVENTS || thread.read_until >= last {
                return Ok(());
            }
        }
    }
}

/// Loads the state of a thread before the event `first`: how the run before it ended, and the run in progress. Earlier runs
/// are not needed, so their events are not read.
async fn load_thread(
    store: &dyn Store,
    thread_id: ThreadId,
    first: Seq,
) -> Result<FollowedThread, journal::Error> {
    if first == 1 {
        let fold = SpanFold::new(load_origin(store, thread_id).await?);
        return Ok(FollowedThread { fold, read_until: 0, unclaimed: VecDeque::new() });
    }
    let mut fold = load_fold(store, thread_id, first).await?;
    let next = store.events(thread_id, events_after(first - 1, READ_BATCH_EVENTS)).await?;
    if let Some(run_id) = next.iter().find_map(|event| event.run_id) {
        let mut after = 0;
        loop {
            let page = store.run_events(thread_id, run_id, after, READ_BATCH_EVENTS).await?;
            page.iter().take_while(|event| event.seq < first).for_each(|event| fold.apply_event(event));
            match page.last() {
                Some(last) if last.seq < first => after = last.seq,
                _ => break,
            }
        }
    }
    // The process that wrote these events has exported the spans they finished.
    fold.take_finished();
    Ok(FollowedThread { fold, read_until: first - 1, unclaimed: VecDeque::new() })
}

/// Loads a fold of a thread that has seen how the last run before `seq` ended. A run that resumes after an interrupt is
/// then linked to it.
///
/// # Errors
/// If the store cannot be read.
pub async fn load_fold(store: &dyn Store, thread_id: ThreadId, seq: Seq) -> Result<SpanFold, journal::Error> {
    let mut fold = SpanFold::new(load_origin(store, thread_id).await?);
    let ends = vec![EventType::RunInterrupted, EventType::RunEnded, EventType::RunFailed];
    let before = EventQuery { after: None, before: Some(seq), types: ends, ..events_after(0, 1) };
    store.events(thread_id, before).await?.iter().for_each(|event| fold.apply_event(event));
    fold.take_finished();
    Ok(fold)
}

/// Loads the origin of a thread. For a sub-agent's thread, this includes the tool call that started the sub-agent.
pub(crate) async fn load_origin(
    store: &dyn Store,
    thread_id: ThreadId,
) -> Result<ThreadOrigin, journal::Error> {
    let thread = store.thread(thread_id).await?;
    let assistant_id = thread.as_ref().map(|thread| thread.assistant_id.to_string()).unwrap_or_default();
    let is_subagent = thread.is_some_and(|thread| thread.parent_kind == Some(ParentKind::Subagent));
    let mut created = None;
    if is_subagent {
        let query = EventQuery { types: vec![EventType::ThreadCreated], ..EventQuery::after(0, 1) };
        created = store.events(thread_id, query).await?.pop();
    }
    Ok(ThreadOrigin { thread_id, assistant_id, caller: created.as_ref().and_then(subagent_caller) })
}

/// Returns a query for the events after `seq`, including those that a rewind has hidden since.
fn events_after(seq: Seq, limit: usize) -> EventQuery {
    EventQuery { superseded: SupersededVisibility::Shown, ..EventQuery::after(seq, limit) }
}
