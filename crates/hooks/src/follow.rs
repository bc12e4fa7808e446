//! Following what this process commits, and telling the hooks of it, behind the work. Each hook has a queue of its own, so that it hears
//! things in their order and waits for no other; what does not fit into one is told of as missed. How a hook is called is another
//! file's.

use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use journal::view::branches::says_again;
use journal::{EventQuery, Following, Store, Superseded};
use protocol::{Event, EventType, ParentKind, Seq, ThreadId};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use crate::call::UserHook;
use crate::payload::{Occasion, Payload};

/// The name under which commits are followed.
const NAME: &str = "hooks";
/// What may wait for one hook.
const WAITING_MAX: usize = 1_000;
/// Failures that are kept for who asks; the log has them all.
const MISSED_MAX: usize = 20;
/// How long the end of a program waits beyond the time of a hook, to see what became of it.
const END_GRACE: Duration = Duration::from_millis(500);

/// The hooks of one process, and what they are to be told. Dropped, it follows no more, and calls that are under way are ended.
#[derive(Debug)]
pub struct Hooks {
    looks: mpsc::Sender<oneshot::Sender<()>>,
    told: Arc<Told>,
    /// How many calls are under way or wait.
    owed: watch::Receiver<usize>,
    time_max: Duration,
    _work: JoinSet<()>,
}

/// A hook that was not told of something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missed {
    /// The hook.
    pub hook: String,
    /// What it was to be told of.
    pub occasion: Occasion,
    /// Why it was not, behind “failed to”.
    pub reason: String,
}

/// What became of the calls.
#[derive(Debug)]
struct Told {
    owed: watch::Sender<usize>,
    missed: Mutex<Vec<Missed>>,
}

impl Hooks {
    /// Begins to tell the hooks of what `store` commits from here on; `None` when there are none, or when somebody tells them
    /// already. Called on an async runtime, it works there.
    pub fn begin(store: Arc<dyn Store>, hooks: &[Arc<UserHook>]) -> Option<Self> {
        if hooks.is_empty() {
            return None;
        }
        let following = store.commits().follow(NAME)?;
        let (owed, is_owed) = watch::channel(0);
        let told = Arc::new(Told { owed, missed: Mutex::default() });
        let mut work = JoinSet::new();
        let queues = hooks.iter().map(|hook| Queue::begin(hook, &told, &mut work)).collect();
        let (looks, asked) = mpsc::channel(1);
        work.spawn(Follower { store, following, queues, told: Arc::clone(&told) }.work(asked));
        let time_max = hooks.iter().map(|hook| hook.time_max()).max().unwrap_or_default();
        Some(Self { looks, told, owed: is_owed, time_max, _work: work })
    }

    /// Waits until the hooks were told of everything that was committed until now, for as long as the slowest of them may take; what was
    /// not told by then is missed.
    pub async fn finish(&self) {
        let all = async {
            let (done, seen) = oneshot::channel();
            // A follower that is gone has nothing to look for.
            let _ = self.looks.send(done).await;
            let _ = seen.await;
            let mut owed = self.owed.clone();
            let _ = owed.wait_for(|owed| *owed == 0).await;
        };
        if tokio::time::timeout(self.time_max + END_GRACE, all).await.is_err() {
            let left = *self.owed.borrow();
            tracing::warn!(left, "hooks were not told of {left} things before the end: they are too slow");
        }
    }

    /// Returns what hooks were not told of since the last call.
    pub fn missed(&self) -> Vec<Missed> {
        std::mem::take(&mut *self.told.missed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Told {
    fn begun(&self) {
        self.owed.send_modify(|owed| *owed += 1);
    }

    fn ended(&self) {
        self.owed.send_modify(|owed| *owed = owed.saturating_sub(1));
    }

    /// Tells of a hook that did not hear: once in the log, and to who asks.
    fn missed(&self, hook: &UserHook, payload: &Payload, reason: String) {
        let (name, occasion) = (hook.name(), payload.hook);
        tracing::warn!(
            hook = name, occasion = occasion.as_str(), thread_id = %payload.thread_id,
            run_id = payload.run_id.map(tracing::field::display),
            "failed to tell the hook `{name}` of {}: failed to {reason}", occasion.as_str()
        );
        let mut missed = self.missed.lock().unwrap_or_else(PoisonError::into_inner);
        if missed.len() < MISSED_MAX {
            missed.push(Missed { hook: name.to_owned(), occasion, reason });
        }
    }
}

/// What one hook is to be told.
struct Queue {
    hook: Arc<UserHook>,
    waiting: mpsc::Sender<Arc<Payload>>,
}

impl Queue {
    fn begin(hook: &Arc<UserHook>, told: &Arc<Told>, work: &mut JoinSet<()>) -> Self {
        let (waiting, mut next) = mpsc::channel::<Arc<Payload>>(WAITING_MAX);
        let (of, told) = (Arc::clone(hook), Arc::clone(told));
        work.spawn(async move {
            while let Some(payload) = next.recv().await {
                if let Err(failed) = of.call(&payload).await {
                    told.missed(&of, &payload, failed.to_string());
                }
                told.ended();
            }
        });
        Self { hook: Arc::clone(hook), waiting }
    }
}

/// Reads what was committed, and tells the hooks.
struct Follower {
    store: Arc<dyn Store>,
    following: Following,
    queues: Vec<Queue>,
    told: Arc<Told>,
}

impl Follower {
    async fn work(mut self, mut looks: mpsc::Receiver<oneshot::Sender<()>>) {
        loop {
            tokio::select! {
                threads = self.following.next() => self.look(threads).await,
                look = looks.recv() => {
                    let Some(done) = look else { return };
                    let threads = self.following.waiting();
                    self.look(threads).await;
                    // Whoever asked may have had enough of waiting.
                    let _ = done.send(());
                }
            }
        }
    }

    async fn look(&self, threads: Vec<(ThreadId, Vec<RangeInclusive<Seq>>)>) {
        for (thread_id, stretches) in threads {
            for seqs in stretches {
                if let Err(error) = self.read(thread_id, seqs).await {
                    tracing::warn!(
                        thread_id = %thread_id, %error,
                        "failed to read what hooks are to be told of thread {thread_id}: they were not told"
                    );
                }
            }
        }
    }

    async fn read(&self, thread_id: ThreadId, seqs: RangeInclusive<Seq>) -> journal::Result<()> {
        let mut told_of = Vec::new();
        let mut after = seqs.start() - 1;
        loop {
            let query = EventQuery {
                types: kinds(),
                superseded: Superseded::Shown,
                ..EventQuery::after(after, journal::PAGE_ROWS_MAX)
            };
            let page = self.store.events(thread_id, query).await?;
            let is_last = page.last().is_none_or(|last| last.seq >= *seqs.end());
            after = page.last().map_or(after, |last| last.seq);
            for event in page.into_iter().filter(|event| seqs.contains(&event.seq)) {
                match event.kind() {
                    // What stands before the beginning of a fork are copies of what happened elsewhere.
                    Some(EventType::ThreadCreated) => told_of.clear(),
                    _ if says_again(event.metadata.as_ref()) => {}
                    _ => told_of.push(event),
                }
            }
            if is_last {
                break;
            }
        }
        self.tell(thread_id, &told_of).await
    }

    async fn tell(&self, thread_id: ThreadId, events: &[Event]) -> journal::Result<()> {
        if events.is_empty() {
            return Ok(());
        }
        let Some(thread) = self.store.thread(thread_id).await? else { return Ok(()) };
        // What a sub-agent does is a part of the run that called it.
        if thread.parent_kind == Some(ParentKind::Subagent) {
            return Ok(());
        }
        for event in events {
            let occasion = event.kind().and_then(Occasion::of);
            let is_wanted = |queue: &Queue| occasion.is_some_and(|occasion| queue.hook.is_for(occasion));
            if !self.queues.iter().any(is_wanted) {
                continue;
            }
            let Some(payload) = Payload::after(&*self.store, &thread, event).await? else { continue };
            let payload = Arc::new(payload);
            for queue in self.queues.iter().filter(|queue| is_wanted(queue)) {
                self.told.begun();
                if queue.waiting.try_send(Arc::clone(&payload)).is_err() {
                    self.told.ended();
                    let reason = format!("keep up: {WAITING_MAX} things wait for it");
                    self.told.missed(&queue.hook, &payload, reason);
                }
            }
        }
        Ok(())
    }
}

/// Returns the events hooks are told of, and the one that says that what stands before it is not of this thread.
fn kinds() -> Vec<EventType> {
    let of_hooks = EventType::ALL.iter().copied().filter(|kind| Occasion::of(*kind).is_some());
    of_hooks.chain([EventType::ThreadCreated]).collect()
}
