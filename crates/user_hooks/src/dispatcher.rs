//! Following what this process commits, and telling the hooks of it, behind the work. Each hook has a queue of its own, so that it hears
//! things in their order and waits for no other; what does not fit into one is told of as missed. How a hook is called is another
//! file's.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use journal::{EventQuery, LocalCommitSubscription, Store, SupersededVisibility};
use parking_lot::Mutex;
use protocol::{Event, EventType, ParentKind, Seq, ThreadId};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use crate::call::UserHook;
use crate::payload::{HookEvent, HookPayload};

/// The name under which commits are followed.
const FEED_NAME: &str = "hooks";
/// The most calls that are queued for one hook.
const QUEUED_CALLS_MAX: usize = 1_000;
/// Failures that are kept for who asks; the log has them all.
const MISSED_CALLS_MAX: usize = 20;
/// How long the end of a program waits beyond the time of a hook, to see what became of it.
const END_GRACE: Duration = Duration::from_millis(500);
/// How often what cannot be read is tried, and how long after one attempt the next one is made.
const ATTEMPTS_MAX: u32 = 5;
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The hooks of one process, and what they are to be told. Dropped, it follows no more, and calls that are under way are ended.
#[derive(Debug)]
pub struct HookDispatcher {
    flushes: mpsc::Sender<oneshot::Sender<()>>,
    tracker: Arc<HookCallTracker>,
    timeout: Duration,
    tasks: tokio::sync::Mutex<JoinSet<()>>,
}

/// A hook that was not told of something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissedHookCall {
    /// The hook.
    pub hook: String,
    /// The event that was not reported.
    pub event: HookEvent,
    /// Why it was not, behind “failed to”.
    pub reason: String,
}

/// Counters of the outcomes of calls.
#[derive(Debug)]
struct HookCallTracker {
    /// The calls that are under way or wait, in their order.
    pending: watch::Sender<BTreeMap<u64, (String, HookEvent)>>,
    missed: Mutex<Vec<MissedHookCall>>,
}

impl HookDispatcher {
    /// Begins to tell the hooks of what `store` commits from here on; `None` when there are none, or when somebody tells them
    /// already. Called on an async runtime, it works there.
    pub fn start(store: Arc<dyn Store>, hooks: &[Arc<UserHook>]) -> Option<Self> {
        if hooks.is_empty() {
            return None;
        }
        let following = store.local_commits().subscribe(FEED_NAME)?;
        let told = Arc::new(HookCallTracker { pending: watch::Sender::default(), missed: Mutex::default() });
        let mut work = JoinSet::new();
        let queues = hooks.iter().map(|hook| HookQueue::start(hook, &told, &mut work)).collect();
        let (looks, asked) = mpsc::channel(1);
        let follower =
            HookFollower { store, feed: following, queues, tracker: Arc::clone(&told), retries: Vec::new() };
        work.spawn(follower.run(asked));
        let time_max = hooks.iter().map(|hook| hook.timeout()).max().unwrap_or_default();
        Some(Self { flushes: looks, tracker: told, timeout: time_max, tasks: tokio::sync::Mutex::new(work) })
    }

    /// Waits until the hooks were told of everything that was committed until now, for as long as the slowest of them may take and no
    /// longer than until `given_up`. What they were not told by then is missed, and what is under way is ended: they are told nothing any more.
    pub async fn finish_calls(&self, given_up: impl Future<Output = ()>) {
        tokio::select! {
            () = self.wait_until_delivered() => {}
            () = tokio::time::sleep(self.timeout + END_GRACE) => {}
            () = given_up => {}
        }
        self.tasks.lock().await.shutdown().await;
        for (hook, occasion) in self.tracker.pending.send_replace(BTreeMap::new()).into_values() {
            tracing::warn!(
                hook,
                occasion = occasion.as_str(),
                "failed to deliver {} to the hook `{hook}` before the program ended",
                occasion.as_str()
            );
            self.tracker.record_missed(MissedHookCall {
                hook,
                event: occasion,
                reason: "finish the call before the program ended".to_owned(),
            });
        }
    }

    async fn wait_until_delivered(&self) {
        let (done, seen) = oneshot::channel();
        // A follower that is gone has nothing to look for.
        let _ = self.flushes.send(done).await;
        let _ = seen.await;
        let mut owed = self.tracker.pending.subscribe();
        let _ = owed.wait_for(BTreeMap::is_empty).await;
    }

    /// Returns how many calls are under way or wait.
    pub fn pending_calls(&self) -> usize {
        self.tracker.pending.borrow().len()
    }

    /// Returns what hooks were not told of since the last call.
    pub fn take_missed(&self) -> Vec<MissedHookCall> {
        std::mem::take(&mut *self.tracker.missed.lock())
    }
}

impl HookCallTracker {
    /// Notes that a hook is to be told, and returns the number of the call.
    fn register_call(&self, hook: &UserHook, occasion: HookEvent) -> u64 {
        let mut number = 0;
        self.pending.send_modify(|owed| {
            number = owed.last_key_value().map_or(0, |(last, _)| last + 1);
            owed.insert(number, (hook.name().to_owned(), occasion));
        });
        number
    }

    fn finish_call(&self, number: u64) {
        self.pending.send_modify(|owed| {
            owed.remove(&number);
        });
    }

    /// Keeps what a hook was not told, for who asks.
    fn record_missed(&self, missed: MissedHookCall) {
        let mut all = self.missed.lock();
        if all.len() < MISSED_CALLS_MAX {
            all.push(missed);
        }
    }

    /// The same, of something that is known, which the log is told too.
    fn record_failure(&self, hook: &UserHook, payload: &HookPayload, reason: String) {
        let (name, occasion) = (hook.name(), payload.hook);
        tracing::warn!(
            hook = name,
            occasion = occasion.as_str(),
            thread_id = %payload.thread_id,
            run_id = payload.run_id.map(tracing::field::display),
            "failed to deliver {} to the hook `{name}`: failed to {reason}", occasion.as_str()
        );
        self.record_missed(MissedHookCall { hook: name.to_owned(), event: occasion, reason });
    }
}

/// The queue of one hook.
struct HookQueue {
    hook: Arc<UserHook>,
    sender: mpsc::Sender<(u64, Arc<HookPayload>)>,
}

impl HookQueue {
    fn start(hook: &Arc<UserHook>, told: &Arc<HookCallTracker>, work: &mut JoinSet<()>) -> Self {
        let (sender, mut next) = mpsc::channel::<(u64, Arc<HookPayload>)>(QUEUED_CALLS_MAX);
        let (of, told) = (Arc::clone(hook), Arc::clone(told));
        work.spawn(async move {
            while let Some((number, payload)) = next.recv().await {
                if let Err(failed) = of.call_hook(&payload).await {
                    told.record_failure(&of, &payload, failed.to_string());
                }
                told.finish_call(number);
            }
        });
        Self { hook: Arc::clone(hook), sender }
    }
}

/// Reads what was committed, and tells the hooks.
struct HookFollower {
    store: Arc<dyn Store>,
    feed: LocalCommitSubscription,
    queues: Vec<HookQueue>,
    tracker: Arc<HookCallTracker>,
    /// Ranges of events that could not be read yet, with the number of attempts.
    retries: Vec<(ThreadId, RangeInclusive<Seq>, u32)>,
}

impl HookFollower {
    async fn run(mut self, mut looks: mpsc::Receiver<oneshot::Sender<()>>) {
        loop {
            let has_more = !self.retries.is_empty();
            tokio::select! {
                threads = self.feed.next_batch() => self.read_commits(threads).await,
                () = tokio::time::sleep(RETRY_DELAY), if has_more => self.read_commits(Vec::new()).await,
                look = looks.recv() => {
                    let Some(done) = look else { return };
                    let threads = self.feed.take_pending();
                    self.read_commits(threads).await;
                    // Whoever asked may have had enough of waiting.
                    let _ = done.send(());
                }
            }
        }
    }

    async fn read_commits(&mut self, threads: Vec<(ThreadId, Vec<RangeInclusive<Seq>>)>) {
        let again = std::mem::take(&mut self.retries);
        let new = threads
            .into_iter()
            .flat_map(|(thread_id, all)| all.into_iter().map(move |seqs| (thread_id, seqs, 0)));
        for (thread_id, seqs, attempts) in again.into_iter().chain(new) {
            match self.read_payloads(thread_id, &seqs).await {
                Ok(payloads) => payloads.into_iter().for_each(|payload| self.enqueue(payload)),
                Err(_) if attempts + 1 < ATTEMPTS_MAX => self.retries.push((thread_id, seqs, attempts + 1)),
                Err(error) => tracing::warn!(
                    thread_id = %thread_id, %error,
                    "failed to read what hooks are to be told of thread {thread_id}: they were not told"
                ),
            }
        }
    }

    /// Returns what hooks are to be told of a stretch of a thread.
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
        // What a sub-agent does is a part of the run that called it.
        if thread.parent_kind == Some(ParentKind::Subagent) {
            return Ok(Vec::new());
        }
        let mut payloads = Vec::new();
        for event in &events {
            payloads.extend(HookPayload::from_event(&*self.store, &thread, event).await?);
        }
        Ok(payloads)
    }

    /// Returns the events of the stretch that some hook is told of.
    async fn read_events(
        &self,
        thread_id: ThreadId,
        seqs: &RangeInclusive<Seq>,
    ) -> journal::Result<Vec<Event>> {
        let is_wanted = |kind: &EventType| {
            let occasion = HookEvent::from_event_type(*kind);
            occasion
                .is_some_and(|occasion| self.queues.iter().any(|queue| queue.hook.is_subscribed_to(occasion)))
        };
        let types: Vec<EventType> = EventType::ALL.iter().copied().filter(is_wanted).collect();
        let mut found = Vec::new();
        let mut after = seqs.start() - 1;
        // Without a type all events would be meant.
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
            let own = page.into_iter().filter(|event| seqs.contains(&event.seq));
            found.extend(own.filter(|event| event.parsed_metadata().again.is_none()));
            if is_last {
                break;
            }
        }
        Ok(found)
    }

    /// Puts it into the queues of the hooks it is for.
    fn enqueue(&self, payload: HookPayload) {
        let payload = Arc::new(payload);
        for queue in self.queues.iter().filter(|queue| queue.hook.is_subscribed_to(payload.hook)) {
            let number = self.tracker.register_call(&queue.hook, payload.hook);
            let Err(refused) = queue.sender.try_send((number, Arc::clone(&payload))) else { continue };
            self.tracker.finish_call(number);
            let reason = match refused {
                mpsc::error::TrySendError::Full(_) => {
                    format!("keep up: {QUEUED_CALLS_MAX} things wait for it")
                }
                mpsc::error::TrySendError::Closed(_) => "call it: an earlier call broke".to_owned(),
            };
            self.tracker.record_failure(&queue.hook, &payload, reason);
        }
    }
}
