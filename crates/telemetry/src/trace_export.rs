//! Following what this process commits: the spans that come of it are sent and counted. The journal is the buffer: however far behind this
//! falls, nothing waits for it, and it goes on from where it was.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use journal::{EventQuery, LocalCommitSubscription, Store, SupersededVisibility};
use model::prices::Prices;
use protocol::{EventType, ParentKind, Seq, ThreadId};
use tokio::sync::{mpsc, oneshot};

use crate::export::{Error, SpanSender};
use crate::fold::{SpanFold, ThreadOrigin, subagent_caller};
use crate::metrics::TelemetryMetrics;
use crate::settings::TracingSettings;
use crate::span::TraceSpan;

/// The name under which commits are followed.
const FEED_NAME: &str = "traces";
/// Events that are read at a time.
const READ_BATCH_EVENTS: usize = 200;
/// Spans of a thread that are remembered because this process may have written what ended them: two commits may be told in the other
/// order.
const UNCLAIMED_MAX: usize = 64;
/// Threads that are remembered where nothing is under way.
const IDLE_MAX: usize = 500;
/// Threads that are remembered at all; one that is forgotten is read again when something happens in it.
const THREADS_MAX: usize = 5_000;

/// The traces of one process on their way out. Dropped, it follows no more; what was handed over is sent still.
#[derive(Debug)]
pub struct TraceExport {
    sender: Option<Arc<SpanSender>>,
    flushes: mpsc::Sender<oneshot::Sender<()>>,
}

impl TraceExport {
    /// Begins to send what `store` commits from here on, where `settings` and the environment say; `None` when they say nowhere, or
    /// when somebody follows the store already. Called on an async runtime, it works there.
    ///
    /// # Errors
    /// When the address makes no sense.
    pub fn start(
        store: Arc<dyn Store>,
        settings: &TracingSettings,
        prices: &Prices,
    ) -> Result<Option<Self>, Error> {
        Ok(match start_sender(settings, prices)? {
            Some(sending) => Self::spawn_follower(store, Some(sending), None),
            None => None,
        })
    }

    /// The same for a server, which counts what it does wherever it is sent: an address that makes no sense is told in the log.
    pub fn start_with_metrics(
        store: Arc<dyn Store>,
        settings: &TracingSettings,
        prices: &Prices,
        counted: Arc<TelemetryMetrics>,
    ) -> Option<Self> {
        let sending = start_sender(settings, prices).unwrap_or_else(|error| {
            tracing::warn!("nothing is traced: failed to {error}");
            None
        });
        Self::spawn_follower(store, sending, Some(counted))
    }

    fn spawn_follower(
        store: Arc<dyn Store>,
        sending: Option<Arc<SpanSender>>,
        counted: Option<Arc<TelemetryMetrics>>,
    ) -> Option<Self> {
        let following = store.local_commits().subscribe(FEED_NAME)?;
        let follower = TraceFollower {
            store,
            feed: following,
            sender: sending.clone(),
            metrics: counted,
            threads: HashMap::new(),
        };
        let (flushes, asked) = mpsc::channel(1);
        tokio::spawn(follower.run(asked));
        Some(Self { sender: sending, flushes })
    }

    /// Sends what was committed until now, and returns when that is done, or after `wait_max`.
    pub async fn flush(&self, wait_max: Duration) {
        let (done, seen) = oneshot::channel();
        let looked = async {
            // A follower that is gone has nothing to look for.
            let _ = self.flushes.send(done).await;
            let _ = seen.await;
        };
        let begun = Instant::now();
        let _ = tokio::time::timeout(wait_max, looked).await;
        if let Some(sending) = &self.sender {
            sending.flush(wait_max.saturating_sub(begun.elapsed())).await;
        }
    }
}

/// Begins to send where the settings and the environment say, if they do.
fn start_sender(settings: &TracingSettings, prices: &Prices) -> Result<Option<Arc<SpanSender>>, Error> {
    let Some(target) = settings.target(&|name| std::env::var(name).ok()) else { return Ok(None) };
    Ok(Some(Arc::new(SpanSender::start(&target, prices.clone())?)))
}

/// Reads what was committed and makes spans of it.
struct TraceFollower {
    store: Arc<dyn Store>,
    feed: LocalCommitSubscription,
    sender: Option<Arc<SpanSender>>,
    metrics: Option<Arc<TelemetryMetrics>>,
    threads: HashMap<ThreadId, FollowedThread>,
}

/// A thread that is followed.
struct FollowedThread {
    fold: SpanFold,
    read_until: Seq,
    /// Spans that ended with an event that this process has not claimed as its own write; it may still claim it. Each
    /// with the seq of that event.
    unclaimed: VecDeque<(Seq, TraceSpan)>,
}

impl FollowedThread {
    /// Returns what was read before this process said that it wrote it.
    fn take_claimed(&mut self, is_own: &impl Fn(Seq) -> bool) -> Vec<TraceSpan> {
        let all = std::mem::take(&mut self.unclaimed);
        let (own, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|(seq, _)| is_own(*seq));
        self.unclaimed = others.into();
        own.into_iter().map(|(_, span)| span).collect()
    }
}

impl TraceFollower {
    async fn run(mut self, mut flushes: mpsc::Receiver<oneshot::Sender<()>>) {
        loop {
            tokio::select! {
                threads = self.feed.next_batch() => self.read_commits(threads).await,
                flush = flushes.recv() => {
                    let Some(done) = flush else { return };
                    let threads = self.feed.take_pending();
                    self.read_commits(threads).await;
                    // Whoever asked may have had enough of waiting.
                    let _ = done.send(());
                }
            }
        }
    }

    async fn read_commits(&mut self, threads: Vec<(ThreadId, Vec<RangeInclusive<Seq>>)>) {
        for (thread_id, own) in threads {
            if let Err(error) = self.read_thread(thread_id, &own).await {
                tracing::warn!(
                    thread_id = %thread_id, %error,
                    "failed to read what is to be traced of thread {thread_id}: `segue trace` shows it"
                );
            }
        }
        if self.threads.len() > IDLE_MAX {
            self.threads.retain(|_, known| !known.fold.is_idle());
        }
        if self.threads.len() > THREADS_MAX {
            // Runs whose end nobody tells of here: another process went on with them, or their thread is gone.
            self.threads.clear();
        }
    }

    /// Reads a thread up to where this process wrote last; `own` are the stretches it wrote.
    async fn read_thread(
        &mut self,
        thread_id: ThreadId,
        own: &[RangeInclusive<Seq>],
    ) -> Result<(), journal::Error> {
        let (Some(first), Some(last)) = (own.first(), own.last()) else { return Ok(()) };
        let (first, last) = (*first.start(), *last.end());
        let known = match self.threads.entry(thread_id) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(load_thread(&*self.store, thread_id, first).await?),
        };
        let is_own = |seq: Seq| own.iter().any(|seqs| seqs.contains(&seq));
        let mut ended = known.take_claimed(&is_own);
        loop {
            let page =
                self.store.events(thread_id, events_after(known.read_until, READ_BATCH_EVENTS)).await?;
            for event in page.iter().take_while(|event| event.seq <= last) {
                known.fold.apply_event(event);
                known.read_until = event.seq;
                let spans = known.fold.take_finished();
                // What ended elsewhere is what another process did, and told of.
                match is_own(event.seq) {
                    true => ended.extend(spans),
                    false => known.unclaimed.extend(spans.into_iter().map(|span| (event.seq, span))),
                }
            }
            let excess = known.unclaimed.len().saturating_sub(UNCLAIMED_MAX);
            known.unclaimed.drain(..excess);
            for span in ended.drain(..) {
                if let Some(counted) = &self.metrics {
                    counted.record_span(&span);
                }
                if let Some(sending) = &self.sender {
                    sending.send_span(&span);
                }
            }
            if page.len() < READ_BATCH_EVENTS || known.read_until >= last {
                return Ok(());
            }
        }
    }
}

/// Returns a thread as it was before `first`, as far as what follows goes on from it: the question that was asked last, and the
/// run that is under way.
async fn load_thread(
    store: &dyn Store,
    thread_id: ThreadId,
    first: Seq,
) -> Result<FollowedThread, journal::Error> {
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
    // Whoever wrote it has sent what ended by then.
    fold.take_finished();
    Ok(FollowedThread { fold, read_until: first - 1, unclaimed: VecDeque::new() })
}

/// Returns a fold of a thread that knows how the run before `seq` ended, so that one that goes on after a question is linked to it.
pub async fn load_fold(store: &dyn Store, thread_id: ThreadId, seq: Seq) -> Result<SpanFold, journal::Error> {
    let mut fold = SpanFold::new(load_origin(store, thread_id).await?);
    let ends = vec![EventType::RunInterrupted, EventType::RunEnded, EventType::RunFailed];
    let before = EventQuery { after: None, before: Some(seq), types: ends, ..events_after(0, 1) };
    store.events(thread_id, before).await?.iter().for_each(|event| fold.apply_event(event));
    fold.take_finished();
    Ok(fold)
}

/// Returns where the runs of a thread belong: those of a sub-agent to the call that began it.
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

/// Returns a query for everything after `seq`, what was taken back since included.
fn events_after(seq: Seq, limit: usize) -> EventQuery {
    EventQuery { superseded: SupersededVisibility::Shown, ..EventQuery::after(seq, limit) }
}
