//! Following what this process commits, and telling the hooks of it, behind the work. Each hook has a queue of its own, so that it hears
//! things in their order and waits for no other; what does not fit into one is told of as missed. How a hook is called is another
//! file's.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use journal::{EventQuery, Following, Store, Superseded};
use parking_lot::Mutex;
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
/// How often what cannot be read is tried, and how long after one attempt the next one is made.
const ATTEMPTS_MAX: u32 = 5;
const PAUSE: Duration = Duration::from_secs(1);

/// The hooks of one process, and what they are to be told. Dropped, it follows no more, and calls that are under way are ended.
#[derive(Debug)]
pub struct Hooks {
    looks: mpsc::Sender<oneshot::Sender<()>>,
    told: Arc<Told>,
    time_max: Duration,
    work: tokio::sync::Mutex<JoinSet<()>>,
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
    /// The calls that are under way or wait, in their order.
    owed: watch::Sender<BTreeMap<u64, (String, Occasion)>>,
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
        let told = Arc::new(Told { owed: watch::Sender::default(), missed: Mutex::default() });
        let mut work = JoinSet::new();
        let queues = hooks.iter().map(|hook| Queue::begin(hook, &told, &mut work)).collect();
        let (looks, asked) = mpsc::channel(1);
        let follower = Follower { store, following, queues, told: Arc::clone(&told), unread: Vec::new() };
        work.spawn(follower.work(asked));
        let time_max = hooks.iter().map(|hook| hook.time_max()).max().unwrap_or_default();
        Some(Self { looks, told, time_max, work: tokio::sync::Mutex::new(work) })
    }

    /// Waits until the hooks were told of everything that was committed until now, for as long as the slowest of them may take and no
    /// longer than until `given_up`. What they were not told by then is missed, and what is under way is ended: they are told nothing any more.
    pub async fn finish(&self, given_up: impl Future<Output = ()>) {
        tokio::select! {
            () = self.all_told() => {}
            () = tokio::time::sleep(self.time_max + END_GRACE) => {}
            () = given_up => {}
        }
        self.work.lock().await.shutdown().await;
        for (hook, occasion) in self.told.owed.send_replace(BTreeMap::new()).into_values() {
            tracing::warn!(
                hook,
                occasion = occasion.as_str(),
                "failed to tell the hook `{hook}` of {} before the program ended",
                occasion.as_str()
            );
            self.told.missed(Missed {
                hook,
                occasion,
                reason: "tell it before the program ended".to_owned(),
            });
        }
    }

    async fn all_told(&self) {
        let (done, seen) = oneshot::channel();
        // A follower that is gone has nothing to look for.
        let _ = self.looks.send(done).await;
        let _ = seen.await;
        let mut owed = self.told.owed.subscribe();
        let _ = owed.wait_for(BTreeMap::is_empty).await;
    }

    /// Returns how many calls are under way or wait.
    pub fn owed(&self) -> usize {
        self.told.owed.borrow().len()
    }

    /// Returns what hooks were not told of since the last call.
    pub fn missed(&self) -> Vec<Missed> {
        std::mem::take(&mut *self.told.missed.lock())
    }
}

impl Told {
    /// Notes that a hook is to be told, and returns the number of the call.
    fn begun(&self, hook: &UserHook, occasion: Occasion) -> u64 {
        let mut number = 0;
        self.owed.send_modify(|owed| {
            number = owed.last_key_value().map_or(0, |(last, _)| last + 1);
            owed.insert(number, (hook.name().to_owned(), occasion));
        });
        number
    }

    fn ended(&self, number: u64) {
        self.owed.send_modify(|owed| {
            owed.remove(&number);
        });
    }

    /// Keeps what a hook was not told, for who asks.
    fn missed(&self, missed: Missed) {
        let mut all = self.missed.lock();
        if all.len() < MISSED_MAX {
            all.push(missed);
        }
    }

    /// The same, of something that is known, which the log is told too.
    fn failed(&self, hook: &UserHook, payload: &Payload, reason: String) {
        let (name, occasion) = (hook.name(), payload.hook);
        tracing::warn!(
            hook = name,
            occasion = occasion.as_str(),
            thread_id = %payload.thread_id,
            run_id = payload.run_id.map(tracing::field::display),
            "failed to tell the hook `{name}` of {}: failed to {reason}", occasion.as_str()
        );
        self.missed(Missed { hook: name.to_owned(), occasion, reason });
    }
}

/// What one hook is to be told.
struct Queue {
    hook: Arc<UserHook>,
    waiting: mpsc::Sender<(u64, Arc<Payload>)>,
}

impl Queue {
    fn begin(hook: &Arc<UserHook>, told: &Arc<Told>, work: &mut JoinSet<()>) -> Self {
        let (waiting, mut next) = mpsc::channel::<(u64, Arc<Payload>)>(WAITING_MAX);
        let (of, told) = (Arc::clone(hook), Arc::clone(told));
        work.spawn(async move {
            while let Some((number, payload)) = next.recv().await {
                if let Err(failed) = of.call(&payload).await {
                    told.failed(&of, &payload, failed.to_string());
                }
                told.ended(number);
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
    /// What could not be read yet, and how often it was tried.
    unread: Vec<(ThreadId, RangeInclusive<Seq>, u32)>,
}

impl Follower {
    async fn work(mut self, mut looks: mpsc::Receiver<oneshot::Sender<()>>) {
        loop {
            let has_more = !self.unread.is_empty();
            tokio::select! {
                threads = self.following.next() => self.look(threads).await,
                () = tokio::time::sleep(PAUSE), if has_more => self.look(Vec::new()).await,
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

    async fn look(&mut self, threads: Vec<(ThreadId, Vec<RangeInclusive<Seq>>)>) {
        let again = std::mem::take(&mut self.unread);
        let new = threads
            .into_iter()
            .flat_map(|(thread_id, all)| all.into_iter().map(move |seqs| (thread_id, seqs, 0)));
        for (thread_id, seqs, attempts) in again.into_iter().chain(new) {
            match self.read(thread_id, &seqs).await {
                Ok(payloads) => payloads.into_iter().for_each(|payload| self.tell(payload)),
                Err(_) if attempts + 1 < ATTEMPTS_MAX => self.unread.push((thread_id, seqs, attempts + 1)),
                Err(error) => tracing::warn!(
                    thread_id = %thread_id, %error,
                    "failed to read what hooks are to be told of thread {thread_id}: they were not told"
                ),
            }
        }
    }

    /// Returns what hooks are to be told of a stretch of a thread.
    async fn read(&self, thread_id: ThreadId, seqs: &RangeInclusive<Seq>) -> journal::Result<Vec<Payload>> {
        let events = self.events(thread_id, seqs).await?;
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
            payloads.extend(Payload::after(&*self.store, &thread, event).await?);
        }
        Ok(payloads)
    }

    /// Returns the events of the stretch that some hook is told of.
    async fn events(&self, thread_id: ThreadId, seqs: &RangeInclusive<Seq>) -> journal::Result<Vec<Event>> {
        let is_wanted = |kind: &EventType| {
            let occasion = Occasion::of(*kind);
            occasion.is_some_and(|occasion| self.queues.iter().any(|queue| queue.hook.is_for(occasion)))
        };
        let types: Vec<EventType> = EventType::ALL.iter().copied().filter(is_wanted).collect();
        let mut found = Vec::new();
        let mut after = seqs.start() - 1;
        // Without a type all events would be meant.
        while !types.is_empty() {
            let query = EventQuery {
                types: types.clone(),
                superseded: Superseded::Shown,
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
    fn tell(&self, payload: Payload) {
        let payload = Arc::new(payload);
        for queue in self.queues.iter().filter(|queue| queue.hook.is_for(payload.hook)) {
            let number = self.told.begun(&queue.hook, payload.hook);
            let Err(refused) = queue.waiting.try_send((number, Arc::clone(&payload))) else { continue };
            self.told.ended(number);
            let reason = match refused {
                mpsc::error::TrySendError::Full(_) => format!("keep up: {WAITING_MAX} things wait for it"),
                mpsc::error::TrySendError::Closed(_) => "call it: an earlier call broke".to_owned(),
            };
            self.told.failed(&queue.hook, &payload, reason);
        }
    }
}
