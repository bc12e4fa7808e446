//! The streams of all runs: those that wait and work, and those that have ended and are kept for a while. Bounded by time
//! and by bytes; the oldest go first, and then what slow readers still hold of others.

pub(crate) mod elsewhere;
pub(crate) mod live;
pub(crate) mod shown;
pub(crate) mod stream;
pub(crate) mod thread;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use protocol::{RunId, Scope, ThreadId};
use tokio::sync::{broadcast, watch};

use self::stream::{Driven, Stream};
use crate::limits::{Limits, STREAM_FIXED_BYTES, THREAD_RUNS_BEHIND_MAX};

/// The streams of all runs of this process.
#[derive(Debug)]
pub(crate) struct Streams {
    registry: Mutex<Registry>,
    retention: Duration,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct Registry {
    by_run: HashMap<RunId, Arc<Stream>>,
    /// Threads that have a stream, or a reader over runs; of each owner, so that nobody follows what is not theirs.
    by_thread: HashMap<ScopedThread, OfThread>,
    /// Those that are kept after their end, oldest first.
    kept: VecDeque<Kept>,
    kept_bytes: usize,
    /// Those that have ended, are kept no longer, and are still read; oldest first.
    read: VecDeque<Weak<Stream>>,
    read_bytes: usize,
    /// The runs whose threads are to last no longer than they and their readers, and do still.
    temporary: HashSet<RunId>,
}

/// A thread, as the owner of that scope sees it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ScopedThread {
    pub(crate) thread_id: ThreadId,
    pub(crate) scope: Scope,
}

#[derive(Debug, Default)]
struct OfThread {
    /// Its runs that began, in order.
    runs: VecDeque<RunId>,
    /// Tells readers over runs of each run that begins.
    begun: Option<broadcast::Sender<RunId>>,
    /// Tells them that something may have been stored that no run tells of, however often.
    changed: watch::Sender<()>,
    /// Readers over runs.
    readers: usize,
    /// The runs they were told of, or that were over when the first of them came.
    told: HashSet<RunId>,
}

/// What a reader over the runs of a thread begins with.
#[derive(Debug)]
pub(crate) struct Following {
    /// The runs that there are streams of.
    pub(crate) runs: VecDeque<RunId>,
    /// Tells of those that begin from here on.
    pub(crate) begun: broadcast::Receiver<RunId>,
    /// Tells that something may have been stored beside runs.
    pub(crate) changed: watch::Receiver<()>,
    /// Whether nobody else follows the thread.
    pub(crate) is_first: IsFirst,
}

/// Whether a reader over runs is the first of its thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IsFirst {
    Yes,
    No,
}

#[derive(Debug)]
struct Kept {
    stream: Weak<Stream>,
    since: Instant,
}

impl Streams {
    /// Returns no streams.
    pub(crate) fn new(limits: &Limits) -> Self {
        let (retention, bytes_max) = (limits.retention, limits.retained_bytes_max);
        Self { registry: Mutex::default(), retention, bytes_max }
    }

    /// Adds the stream of a run that waits here or is about to begin. Who reads of it in another stream goes on with this one.
    pub(crate) fn open(&self, stream: &Arc<Stream>) {
        let mut registry = self.registry.lock();
        let before = registry.by_run.insert(stream.run_id, Arc::clone(stream));
        if stream.is_temporary {
            registry.temporary.insert(stream.run_id);
        }
        drop(registry);
        before.inspect(|before| before.closed.cancel());
    }

    /// Adds the stream of a run that works in another process, unless there is one of it; returns the one there is.
    pub(crate) fn open_elsewhere(&self, stream: &Arc<Stream>) -> Arc<Stream> {
        let mut registry = self.registry.lock();
        Arc::clone(registry.by_run.entry(stream.run_id).or_insert_with(|| Arc::clone(stream)))
    }

    /// Returns whether this process still needs the thread of a run that is to last no longer than the run.
    pub(crate) fn needs_thread(&self, run_id: RunId) -> bool {
        self.registry.lock().temporary.contains(&run_id)
    }

    /// Lets go of the thread of such a run; says whether it was needed until now.
    pub(crate) fn let_go_of_thread(&self, run_id: RunId) -> bool {
        self.registry.lock().temporary.remove(&run_id)
    }

    /// Tells those who follow the thread that the run has begun. Its stream is kept for them after its end.
    pub(crate) fn begun(&self, stream: &Stream) {
        let mut registry = self.registry.lock();
        let of_thread = registry.by_thread.entry(whose(stream)).or_default();
        if !of_thread.runs.contains(&stream.run_id) {
            of_thread.runs.push_back(stream.run_id);
        }
        let Some(begun) = &of_thread.begun else { return };
        stream.keep();
        // Who was told of it before goes on with it by themselves.
        if of_thread.told.insert(stream.run_id) {
            // Nobody may be left who listens.
            let _ = begun.send(stream.run_id);
        }
    }

    /// Ends the stream of a run whose rows are final. It is kept if it is to be, else it goes at once. Returns those that
    /// were kept, and had to go for it.
    pub(crate) fn close(&self, stream: &Arc<Stream>, now: Instant) -> Vec<Arc<Stream>> {
        if stream.closed.is_cancelled() {
            return Vec::new();
        }
        let mut registry = self.registry.lock();
        if stream.is_kept() {
            let bytes = bytes(stream);
            stream.counted.store(bytes, Ordering::Relaxed);
            registry.kept_bytes += bytes;
            registry.kept.push_back(Kept { stream: Arc::downgrade(stream), since: now });
        } else {
            registry.forget_this(stream);
        }
        let gone = registry.purge(self.bytes_max, |_| false);
        drop(registry);
        stream.closed.cancel();
        gone
    }

    /// Removes a stream that came to nothing, or went on in another process.
    pub(crate) fn discard(&self, stream: &Stream) {
        let mut registry = self.registry.lock();
        registry.temporary.remove(&stream.run_id);
        registry.forget_this(stream);
        drop(registry);
        stream.closed.cancel();
    }

    /// Ends every stream, without more ado: the process stops.
    pub(crate) fn close_all(&self) {
        let all = std::mem::take(&mut *self.registry.lock());
        all.by_run.values().for_each(|stream| stream.closed.cancel());
    }

    /// Returns the run's stream, if it waits, works or is kept.
    pub(crate) fn get(&self, run_id: RunId) -> Option<Arc<Stream>> {
        self.registry.lock().by_run.get(&run_id).cloned()
    }

    /// Returns whether there is a stream of the run that has not ended: it waits or works here.
    pub(crate) fn is_open(&self, run_id: RunId) -> bool {
        self.here(run_id).is_some_and(|stream| !stream.closed.is_cancelled())
    }

    /// Returns the stream of a run that waits or works here, or did and is kept.
    pub(crate) fn here(&self, run_id: RunId) -> Option<Arc<Stream>> {
        self.get(run_id).filter(|stream| stream.driven == Driven::Here)
    }

    /// Returns what a reader over the runs of the thread begins with.
    pub(crate) fn follow(&self, scope: &Scope, thread_id: ThreadId) -> Following {
        let mut registry = self.registry.lock();
        let of_thread =
            registry.by_thread.entry(ScopedThread { thread_id, scope: scope.clone() }).or_default();
        of_thread.readers += 1;
        let is_first = if of_thread.readers == 1 { IsFirst::Yes } else { IsFirst::No };
        of_thread.told.extend(&of_thread.runs);
        let begun = of_thread.begun.get_or_insert_with(|| broadcast::Sender::new(THREAD_RUNS_BEHIND_MAX));
        let begun = begun.subscribe();
        let (changed, runs) = (of_thread.changed.subscribe(), of_thread.runs.clone());
        // Those that work stay for this reader.
        for run_id in &runs {
            registry.by_run.get(run_id).into_iter().for_each(|stream| stream.keep());
        }
        Following { runs, begun, changed, is_first }
    }

    /// Tells those who follow the thread that something may have been stored that no run tells of.
    pub(crate) fn changed(&self, whose: &ScopedThread) {
        if let Some(of_thread) = self.registry.lock().by_thread.get(whose) {
            of_thread.changed.send_replace(());
        }
    }

    /// Lets go of what nobody follows any more. Each reader over runs of a thread calls it as it leaves.
    pub(crate) fn unfollow(&self, whose: &ScopedThread) {
        let mut registry = self.registry.lock();
        if let Some(of_thread) = registry.by_thread.get_mut(whose) {
            of_thread.readers = of_thread.readers.saturating_sub(1);
            if of_thread.readers == 0 {
                of_thread.begun = None;
                of_thread.told.clear();
            }
            if of_thread.begun.is_none() && of_thread.runs.is_empty() {
                registry.by_thread.remove(whose);
            }
        }
    }

    /// Returns whether somebody follows the thread.
    pub(crate) fn is_followed(&self, whose: &ScopedThread) -> bool {
        self.registry.lock().by_thread.get(whose).is_some_and(|of_thread| of_thread.readers > 0)
    }

    /// Returns those of the runs that the readers of the thread were not told of.
    pub(crate) fn untold(&self, whose: &ScopedThread, runs: Vec<RunId>) -> Vec<RunId> {
        let registry = self.registry.lock();
        let told = registry.by_thread.get(whose).map(|of_thread| &of_thread.told);
        runs.into_iter().filter(|run_id| told.is_some_and(|told| !told.contains(run_id))).collect()
    }

    /// Notes that these runs of the thread are over, so that its readers are not told of them.
    pub(crate) fn pass(&self, whose: &ScopedThread, runs: impl Iterator<Item = RunId>) {
        if let Some(of_thread) = self.registry.lock().by_thread.get_mut(whose) {
            of_thread.told.extend(runs);
        }
    }

    /// Removes the stream of a run that is no more, if it has ended; returns it.
    pub(crate) fn forget_run(&self, run_id: RunId) -> Option<Arc<Stream>> {
        let mut registry = self.registry.lock();
        let has_ended = registry.by_run.get(&run_id)?.closed.is_cancelled();
        has_ended.then(|| registry.forget(run_id)).flatten()
    }

    /// Removes those of the thread that have ended.
    pub(crate) fn forget(&self, whose: &ScopedThread) {
        let mut registry = self.registry.lock();
        let runs = registry.by_thread.get(whose).map(|of_thread| of_thread.runs.clone()).unwrap_or_default();
        for run_id in runs {
            if registry.by_run.get(&run_id).is_some_and(|stream| stream.closed.is_cancelled()) {
                registry.forget(run_id);
            }
        }
    }

    /// Removes what was kept long enough; returns it.
    pub(crate) fn expire(&self, now: Instant) -> Vec<Arc<Stream>> {
        let retention = self.retention;
        self.registry.lock().purge(self.bytes_max, |since| now.saturating_duration_since(since) >= retention)
    }

    /// Returns how many runs of other processes are followed.
    pub(crate) fn followed(&self) -> usize {
        let registry = self.registry.lock();
        let is_followed =
            |stream: &&Arc<Stream>| stream.driven == Driven::Elsewhere && !stream.closed.is_cancelled();
        registry.by_run.values().filter(is_followed).count()
    }

    /// Returns how many streams are held, and the bytes of those that have ended.
    #[cfg(test)]
    pub(crate) fn held(&self) -> (usize, usize) {
        let registry = self.registry.lock();
        (registry.by_run.len(), registry.kept_bytes)
    }
}

impl Registry {
    /// Removes the stream, unless another one has taken its place.
    fn forget_this(&mut self, stream: &Stream) {
        if self.by_run.get(&stream.run_id).is_some_and(|there| std::ptr::eq(Arc::as_ptr(there), stream)) {
            self.forget(stream.run_id);
        }
    }

    fn forget(&mut self, run_id: RunId) -> Option<Arc<Stream>> {
        let stream = self.by_run.remove(&run_id)?;
        self.kept_bytes = self.kept_bytes.saturating_sub(stream.counted.swap(0, Ordering::Relaxed));
        if stream.is_read() {
            self.read_bytes += bytes(&stream);
            self.read.push_back(Arc::downgrade(&stream));
        }
        let whose = whose(&stream);
        if let Some(of_thread) = self.by_thread.get_mut(&whose) {
            of_thread.runs.retain(|other| *other != run_id);
            if of_thread.runs.is_empty() && of_thread.begun.is_none() {
                self.by_thread.remove(&whose);
            }
        }
        Some(stream)
    }

    fn purge(&mut self, bytes_max: usize, is_old: impl Fn(Instant) -> bool) -> Vec<Arc<Stream>> {
        let mut gone = Vec::new();
        loop {
            let is_over = self.is_over(bytes_max);
            if !is_over && !self.kept.front().is_some_and(|oldest| is_old(oldest.since)) {
                return gone;
            }
            // Slow readers do not have the streams of everybody else removed.
            let are_readers_first = is_over && self.read_bytes > bytes_max / 2 && !self.read.is_empty();
            let oldest = if are_readers_first { None } else { self.kept.pop_front() };
            match oldest {
                Some(oldest) => gone.extend(self.expel(&oldest.stream)),
                // Whoever reads it is told that the rest is lost here, and finds it in the journal.
                None => match self.read.pop_front().and_then(|slow| slow.upgrade()) {
                    Some(slow) => slow.frames.clear(),
                    None if self.read.is_empty() => return gone,
                    None => {}
                },
            }
        }
    }

    /// Removes a stream that was kept, unless it has gone before.
    fn expel(&mut self, kept: &Weak<Stream>) -> Option<Arc<Stream>> {
        let kept = kept.upgrade()?;
        let is_there = self.by_run.get(&kept.run_id).is_some_and(|stream| Arc::ptr_eq(stream, &kept));
        let gone = is_there.then(|| self.forget(kept.run_id)).flatten()?;
        gone.let_go();
        Some(gone)
    }

    /// Returns whether those that have ended hold more than they may.
    fn is_over(&mut self, bytes_max: usize) -> bool {
        if self.kept_bytes + self.read_bytes <= bytes_max {
            return false;
        }
        // Those whose readers went away meanwhile hold nothing.
        self.read.retain(|stream| stream.strong_count() > 0);
        let held = self.read.iter().filter_map(Weak::upgrade);
        self.read_bytes = held.map(|stream| bytes(&stream)).sum();
        self.kept_bytes + self.read_bytes > bytes_max
    }
}

/// Returns what a stream takes that has ended.
fn bytes(stream: &Stream) -> usize {
    STREAM_FIXED_BYTES + stream.frames.bytes()
}

fn whose(stream: &Stream) -> ScopedThread {
    ScopedThread { thread_id: stream.thread_id, scope: stream.scope.clone() }
}

#[cfg(test)]
mod tests;
