//! Follows the commits of this process and calls the hooks for them, after the commit.
//!
//! Each hook has its own bounded queue and worker, so it gets events in their order and does not wait for other hooks. An
//! event that does not fit into a full queue is reported as missed. `call` performs one call.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use journal::{
    CommitDetail, CommittedEvents, EventQuery, LocalCommitSubscription, Store, SupersededVisibility,
};
use parking_lot::Mutex;
use protocol::{Event, EventType, ParentKind, Seq, ThreadId};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use crate::call::UserHook;
use crate::payload::{HookEvent, HookPayload};

/// The name of the subscription to local commits. Only one subscriber of a store can have it.
const FEED_NAME: &str = "hooks";
/// Maximum calls queued for one hook.
const QUEUED_CALLS_MAX: usize = 1_000;
/// Maximum missed calls kept for [`HookDispatcher::take_missed`]. The log has all of them.
const MISSED_CALLS_MAX: usize = 20;
/// Time that the end of a program waits in addition to the longest timeout of a hook, so that the timeout of a running call
/// is recorded as such.
const END_GRACE: Duration = Duration::from_millis(500);
/// Maximum attempts to read the events of one commit.
const ATTEMPTS_MAX: u32 = 5;
/// Delay before failed reads are repeated.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The dispatcher of hook calls in one process. Dropping it stops following commits and cancels running calls.
#[derive(Debug)]
pub struct HookDispatcher {
    /// Requests to the follower to read all pending commits. It answers each when their calls are queued.
    flushes: mpsc::Sender<oneshot::Sender<()>>,
    /// Pending and missed calls, shared with the workers.
    tracker: Arc<HookCallTracker>,
    /// The longest timeout of a hook.
    timeout: Duration,
    /// The follower, and one worker for each hook.
    tasks: tokio::sync::Mutex<JoinSet<()>>,
}

/// A call of a hook that failed or was not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissedHookCall {
    /// The name of the hook.
    pub hook: String,
    /// The event that the hook did not get.
    pub event: HookEvent,
    /// The reason. It continues "failed to …".
    pub reason: String,
}

/// Keeps track of the calls that are pending and of those that were missed.
#[derive(Debug)]
struct HookCallTracker {
    /// The calls that are queued or running, by their number: the name of the hook, and the event.
    pending: watch::Sender<BTreeMap<u64, (String, HookEvent)>>,
    /// The missed calls that were not yet reported. At most [`MISSED_CALLS_MAX`].
    missed: Mutex<Vec<MissedHookCall>>,
}

impl HookDispatcher {
    /// Starts to call the hooks for the events that `store` commits from now on. Returns `None` if there are no hooks, or
    /// if the store already has a dispatcher.
    ///
    /// # Panics
    /// If it is not called within a Tokio runtime, on which it spawns its tasks.
    pub fn start(store: Arc<dyn Store>, hooks: &[Arc<UserHook>]) -> Option<Self> {
        if hooks.is_empty() {
            return None;
        }
        let feed = store.local_commits().subscribe(FEED_NAME, CommitDetail::Seqs)?;
        let tracker =
            Arc::new(HookCallTracker { pending: watch::Sender::default(), missed: Mutex::default() });
        let mut tasks = JoinSet::new();
        let queues = hooks.iter().map(|hook| HookQueue::start(hook, &tracker, &mut tasks)).collect();
        let (flushes, flush_requests) = mpsc::channel(1);
        let follower =
            HookFollower { store, feed, queues, tracker: Arc::clone(&tracker), retries: Vec::new() };
        tasks.spawn(follower.run(flush_requests));
        let timeout = hooks.iter().map(|hook| hook.timeout()).max().unwrap_or_default();
        Some(Self { flushes, tracker, timeout, tasks: tokio::sync::Mutex::new(tasks) })
    }

    /// Waits until the calls for everything committed so far have finished, then stops the dispatcher.
    ///
    /// The wait ends early when the longest timeout of a hook has passed, or when `cancel` completes. Calls that are pending
    /// then are cancelled, logged, and recorded as missed. The dispatcher makes no calls after this.
    pub async fn finish_calls(&self, cancel: impl Future<Output = ()>) {
        tokio::select! {
            () = self.wait_until_delivered() => {}
            () = tokio::time::sleep(self.timeout + END_GRACE) => {}
            () = cancel => {}
        }
        self.tasks.lock().await.shutdown().await;
        for (hook, event) in self.tracker.pending.send_replace(BTreeMap::new()).into_values() {
            tracing::warn!(
                hook,
                occasion = event.as_str(),
                "failed to deliver {} to the hook `{hook}` before the program ended",
                event.as_str()
            );
            self.tracker.record_missed(MissedHookCall {
                hook,
                event,
                reason: "finish the call before the program ended".to_owned(),
            });
        }
    }

    /// Waits until the follower has queued the calls for all commits so far, and then until no call is pending.
    async fn wait_until_delivered(&self) {
        let (done, flushed) = oneshot::channel();
        // Both fail only if the follower has stopped. Then there is nothing left to queue.
        let _ = self.flushes.send(done).await;
        let _ = flushed.await;
        let mut pending = self.tracker.pending.subscribe();
        let _ = pending.wait_for(BTreeMap::is_empty).await;
    }

    /// Returns the number of calls that are queued or running.
    pub fn pending_calls(&self) -> usize {
        self.tracker.pending.borrow().len()
    }

    /// Removes and returns the missed calls since the last call of this function, at most 20. Later ones are only logged.
    pub fn take_missed(&self) -> Vec<MissedHookCall> {
        std::mem::take(&mut *self.tracker.missed.lock())
    }
}

impl HookCallTracker {
    /// Adds a pending call and returns its number, which is above those of all pending calls.
    fn register_call(&self, hook: &UserHook, event: HookEvent) -> u64 {
        let mut number = 0;
        self.pending.send_modify(|pending| {
            number = pending.last_key_value().map_or(0, |(last, _)| last + 1);
            pending.insert(number, (hook.name().to_owned(), event));
        });
        number
    }

    /// Removes a pending call.
    fn finish_call(&self, number: u64) {
        self.pending.send_modify(|pending| {
            pending.remove(&number);
        });
    }

    /// Records a missed call for [`HookDispatcher::take_missed`], unless it has too many already.
    fn record_missed(&self, call: MissedHookCall) {
        let mut missed = self.missed.lock();
        if missed.len() < MISSED_CALLS_MAX {
            missed.push(call);
        }
    }

    /// Logs a failed call and records it as missed. `reason` continues "failed to …".
    fn record_failure(&self, hook: &UserHook, payload: &HookPayload, reason: String) {
        let (name, event) = (hook.name(), payload.hook);
        tracing::warn!(
            hook = name,
            occasion = event.as_str(),
            thread_id = %payload.thread_id,
            run_id = payload.run_id.map(tracing::field::display),
            "failed to deliver {} to the hook `{name}`: failed to {reason}", event.as_str()
        );
        self.record_missed(MissedHookCall { hook: name.to_owned(), event, reason });
    }
}

/// The queue of one hook.
struct HookQueue {
    hook: Arc<UserHook>,
    /// Sends the number and the payload of a call to the worker.
    sender: mpsc::Sender<(u64, Arc<HookPayload>)>,
}

impl HookQueue {
    /// Creates the queue of a hook, and spawns the worker that makes its calls one after the other.
    fn start(hook: &Arc<UserHook>, tracker: &Arc<HookCallTracker>, tasks: &mut JoinSet<()>) -> Self {
        let (sender, mut receiver) = mpsc::channel::<(u64, Arc<HookPayload>)>(QUEUED_CALLS_MAX);
        let (worker_hook, tracker) = (Arc::clone(hook), Arc::clone(tracker));
        tasks.spawn(async move {
            while let Some((number, payload)) = receiver.recv().await {
                if let Err(error) = worker_hook.call_hook(&payload).await {
                    tracker.record_failure(&worker_hook, &payload, error.to_string());
                }
                tracker.finish_call(number);
            }
        });
        Self { hook: Arc::clone(hook), sender }
    }
}

/// The task that reads committed events and queues the calls for them.
struct HookFollower {
    store: Arc<dyn Store>,
    /// The commits of this process.
    feed: LocalCommitSubscription,
    queues: Vec<HookQueue>,
    tracker: Arc<HookCallTracker>,
    /// Ranges of events that could not be read yet, with the number of failed attempts.
    retries: Vec<(ThreadId, RangeInclusive<Seq>, u32)>,
}

impl HookFollower {
    /// Reads commits until the dispatcher is dropped, which closes the channel of flush requests.
    async fn run(mut self, mut flush_requests: mpsc::Receiver<oneshot::Sender<()>>) {
        loop {
            let has_retries = !self.retries.is_empty();
            tokio::select! {
                threads = self.feed.next_batch() => self.read_commits(threads).await,
                () = tokio::time::sleep(RETRY_DELAY), if has_retries => self.read_commits(Vec::new()).await,
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

    /// Reads the committed ranges and those that failed before, and queues the calls for their events. A range that fails
    /// again is retried later; after [`ATTEMPTS_MAX`] attempts it is logged and dropped.
    async fn read_commits(&mut self, threads: Vec<(ThreadId, CommittedEvents)>) {
        let retries = std::mem::take(&mut self.retries);
        let new = threads.into_iter().flat_map(|(thread_id, commits)| {
            commits.ranges.into_iter().map(move |seqs| (thread_id, seqs, 0))
        });
        for (thread_id, seqs, attempts) in retries.into_iter().chain(new) {
            match self.read_payloads(thread_id, &seqs).await {
                Ok(payloads) => payloads.into_iter().for_each(|payload| self.enqueue(payload)),
                Err(_) if attempts + 1 < ATTEMPTS_MAX => self.retries.push((thread_id, seqs, attempts + 1)),
                Err(error) => tracing::warn!(
                    thread_id = %thread_id, %error,
                    "failed to read the events of thread {thread_id} for hooks; the hooks were not called"
                ),
            }
        }
    }

    /// Returns the payloads for the events of a range, in order. A thread that was deleted has none.
    async fn read_payloads(
        &self,
        thread_id: ThreadId,
        seqs: &RangeInclusive<Seq>,
    ) -> journal::Result<Vec<HookPayload>> {
        let events = self.read_events(thread_id, seqs).await?;
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let Some(thread) = self.store.thread(thread_id).await? else { return Ok(Vec::new()) };
        // The events of a sub-agent belong to the run that called it, so they call no hooks.
        if thread.parent_kind == Some(ParentKind::Subagent) {
            return Ok(Vec::new());
        }
        let mut payloads = Vec::new();
        for event in &events {
            payloads.extend(HookPayload::from_event(&*self.store, &thread, event).await?);
        }
        Ok(payloads)
    }

    /// Returns the events of a range that at least one hook subscribes to, without events that repeat an earlier one. The
    /// range is read in pages.
    async fn read_events(
        &self,
        thread_id: ThreadId,
        seqs: &RangeInclusive<Seq>,
    ) -> journal::Result<Vec<Event>> {
        let has_subscriber = |kind: &EventType| {
            HookEvent::from_event_type(*kind)
                .is_some_and(|event| self.queues.iter().any(|queue| queue.hook.is_subscribed_to(event)))
        };
        let types: Vec<EventType> = EventType::ALL.iter().copied().filter(has_subscriber).collect();
        let mut events = Vec::new();
        let mut after = seqs.start() - 1;
        // A query without types would return events of all types.
        while !types.is_empty() {
            let query = EventQuery {
                types: types.clone(),
                superseded: SupersededVisibility::Shown,
                ..EventQuery::after(after, journal::PAGE_ROWS_MAX)
            };
            let page = self.store.events(thread_id, query).await?;
            let is_last =
                page.len() < journal::PAGE_ROWS_MAX || page.last().is_none_or(|last| last.seq >= *seqs.end());
            after = page.last().map_or(after, |last| last.seq);
            let in_range = page.into_iter().filter(|event| seqs.contains(&event.seq));
            events.extend(in_range.filter(|event| event.parsed_metadata().again.is_none()));
            if is_last {
                break;
            }
        }
        Ok(events)
    }

    /// Queues the payload for each hook that subscribes to its event. Never waits: if a queue is full, the call is missed.
    fn enqueue(&self, payload: HookPayload) {
        let payload = Arc::new(payload);
        for queue in self.queues.iter().filter(|queue| queue.hook.is_subscribed_to(payload.hook)) {
            let number = self.tracker.register_call(&queue.hook, payload.hook);
            let Err(error) = queue.sender.try_send((number, Arc::clone(&payload))) else { continue };
            self.tracker.finish_call(number);
            let reason = match error {
                mpsc::error::TrySendError::Full(_) => {
                    format!("queue the call: {QUEUED_CALLS_MAX} calls are already queued")
                }
                mpsc::error::TrySendError::Closed(_) => {
                    "queue the call: an earlier call ended the hook's worker".to_owned()
                }
            };
            self.tracker.record_failure(&queue.hook, &payload, reason);
        }
    }
}
