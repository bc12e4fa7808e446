//! The registry of all run streams: those of queued and active runs, and those of ended runs that are kept for a while.
//! Kept streams are limited by time and bytes. The oldest kept streams are evicted first, then the buffers that slow
//! readers of other ended streams still hold.
//!
//! A stream is *open* while its run is queued or active. After the end of the run it is *retained* if the request asked
//! for a resumable stream or a reader of its thread may still want it; otherwise it is removed. A removed stream that
//! still has readers is *draining*: it can be read to its end, but no new reader finds it.

pub(crate) mod exclusive;
pub(crate) mod remote;
pub(crate) mod run_reader;
pub(crate) mod stream;
pub(crate) mod thread_reader;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use protocol::{OwnerScope, RunId, ThreadId};
use tokio::sync::{broadcast, watch};

use self::stream::{DriverLocation, RunStream};
use crate::limits::{STREAM_FIXED_BYTES, SchedulerLimits, THREAD_READER_LAG_MAX};

/// The streams of all runs of this process.
#[derive(Debug)]
pub(crate) struct StreamRegistry {
    table: Mutex<StreamTable>,
    /// Time for which an ended stream is kept.
    retention: Duration,
    /// Maximum bytes of all ended streams, kept or draining.
    bytes_max: usize,
}

/// The state of the registry.
#[derive(Debug, Default)]
struct StreamTable {
    by_run: HashMap<RunId, Arc<RunStream>>,
    /// Threads that have a stream or a reader. The key contains the owner, so that no reader sees the runs of another
    /// owner.
    by_thread: HashMap<ScopedThread, ThreadStreams>,
    /// Ended streams that are kept, oldest first.
    retained: VecDeque<RetainedStream>,
    retained_bytes: usize,
    /// Ended streams that are not kept but still have readers, oldest first.
    draining: VecDeque<Weak<RunStream>>,
    draining_bytes: usize,
    /// Temporary runs whose threads this process still needs.
    temporary_runs: HashSet<RunId>,
}

/// A thread, in the scope of its owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ScopedThread {
    pub(crate) thread_id: ThreadId,
    pub(crate) scope: OwnerScope,
}

/// The streams and readers of one thread.
#[derive(Debug, Default)]
struct ThreadStreams {
    /// Runs that have started, in order.
    runs: VecDeque<RunId>,
    /// Sends each run that starts to the thread's readers; `None` without readers.
    started_runs: Option<broadcast::Sender<RunId>>,
    /// Notifies the readers of changes that are not part of a run's stream.
    changes: watch::Sender<()>,
    /// Number of the thread's readers.
    readers: usize,
    /// Runs that were sent to the readers, or had ended before the first reader subscribed.
    announced: HashSet<RunId>,
}

/// The initial state of a reader of a thread.
#[derive(Debug)]
pub(crate) struct ThreadRunSubscription {
    /// The runs that have a stream.
    pub(crate) runs: VecDeque<RunId>,
    /// Receives each run that starts later.
    pub(crate) started_runs: broadcast::Receiver<RunId>,
    /// Receives changes that are not part of a run's stream.
    pub(crate) changes: watch::Receiver<()>,
    /// `Yes` if the thread had no reader before.
    pub(crate) first_subscriber: FirstSubscriber,
}

/// Distinguishes the first subscriber of a thread from later ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstSubscriber {
    Yes,
    No,
}

/// An ended stream that is kept. The reference is weak, because `by_run` owns the stream.
#[derive(Debug)]
struct RetainedStream {
    stream: Weak<RunStream>,
    since: Instant,
}

impl StreamRegistry {
    /// Returns an empty registry with the limits' retention.
    pub(crate) fn new(limits: &SchedulerLimits) -> Self {
        let (retention, bytes_max) = (limits.retention, limits.retained_bytes_max);
        Self { table: Mutex::default(), retention, bytes_max }
    }

    /// Adds the stream of a queued or starting run. An earlier stream of the run is closed; its readers continue with
    /// this one.
    pub(crate) fn open(&self, stream: &Arc<RunStream>) {
        let mut table = self.table.lock();
        let previous = table.by_run.insert(stream.run_id, Arc::clone(stream));
        if stream.is_temporary {
            table.temporary_runs.insert(stream.run_id);
        }
        drop(table);
        previous.inspect(|previous| previous.closed.cancel());
    }

    /// Adds the stream of a run in another process unless the run has a stream, and returns the registered one.
    pub(crate) fn open_remote(&self, stream: &Arc<RunStream>) -> Arc<RunStream> {
        let mut table = self.table.lock();
        Arc::clone(table.by_run.entry(stream.run_id).or_insert_with(|| Arc::clone(stream)))
    }

    /// Returns whether this process still needs the thread of a temporary run.
    pub(crate) fn needs_thread(&self, run_id: RunId) -> bool {
        self.table.lock().temporary_runs.contains(&run_id)
    }

    /// Marks the thread of a temporary run as no longer needed; returns whether it was needed.
    pub(crate) fn release_thread(&self, run_id: RunId) -> bool {
        self.table.lock().temporary_runs.remove(&run_id)
    }

    /// Announces the start of a run to the thread's readers. If there are any, the stream is kept for them after its
    /// end.
    pub(crate) fn publish_start(&self, stream: &RunStream) {
        let mut table = self.table.lock();
        let thread_streams = table.by_thread.entry(scoped_thread(stream)).or_default();
        if !thread_streams.runs.contains(&stream.run_id) {
            thread_streams.runs.push_back(stream.run_id);
        }
        let Some(started) = &thread_streams.started_runs else { return };
        stream.retain();
        // Readers that know the run already continue with the new stream by themselves.
        if thread_streams.announced.insert(stream.run_id) {
            // An error only means that no receiver is left.
            let _ = started.send(stream.run_id);
        }
    }

    /// Ends the stream of a run whose rows are final. It is kept if its retention was requested, and removed otherwise.
    /// Returns the kept streams that were evicted for it.
    pub(crate) fn close(&self, stream: &Arc<RunStream>, now: Instant) -> Vec<Arc<RunStream>> {
        if stream.closed.is_cancelled() {
            return Vec::new();
        }
        let mut table = self.table.lock();
        if stream.is_retained() {
            let bytes = stream_bytes(stream);
            stream.retained_bytes.store(bytes, Ordering::Relaxed);
            table.retained_bytes += bytes;
            table.retained.push_back(RetainedStream { stream: Arc::downgrade(stream), since: now });
        } else {
            table.forget_if_current(stream);
        }
        let evicted = table.evict(self.bytes_max, |_| false);
        drop(table);
        stream.closed.cancel();
        evicted
    }

    /// Removes the stream of a run that did not start, or that continues in another process.
    pub(crate) fn discard(&self, stream: &RunStream) {
        let mut table = self.table.lock();
        table.temporary_runs.remove(&stream.run_id);
        table.forget_if_current(stream);
        drop(table);
        stream.closed.cancel();
    }

    /// Closes and removes every stream, because the process exits.
    pub(crate) fn close_all(&self) {
        let all = std::mem::take(&mut *self.table.lock());
        all.by_run.values().for_each(|stream| stream.closed.cancel());
    }

    /// Returns the stream of a queued, active or kept run.
    pub(crate) fn get(&self, run_id: RunId) -> Option<Arc<RunStream>> {
        self.table.lock().by_run.get(&run_id).cloned()
    }

    /// Returns whether the run is queued or active in this process.
    pub(crate) fn is_open(&self, run_id: RunId) -> bool {
        self.local_stream(run_id).is_some_and(|stream| !stream.closed.is_cancelled())
    }

    /// Returns the run's stream if this process drives the run, will do so, or did so.
    pub(crate) fn local_stream(&self, run_id: RunId) -> Option<Arc<RunStream>> {
        self.get(run_id).filter(|stream| stream.driver == DriverLocation::Local)
    }

    /// Subscribes a reader to the runs of a thread.
    pub(crate) fn subscribe(&self, scope: &OwnerScope, thread_id: ThreadId) -> ThreadRunSubscription {
        let mut table = self.table.lock();
        let thread_streams =
            table.by_thread.entry(ScopedThread { thread_id, scope: scope.clone() }).or_default();
        thread_streams.readers += 1;
        let first_subscriber =
            if thread_streams.readers == 1 { FirstSubscriber::Yes } else { FirstSubscriber::No };
        thread_streams.announced.extend(&thread_streams.runs);
        let started =
            thread_streams.started_runs.get_or_insert_with(|| broadcast::Sender::new(THREAD_READER_LAG_MAX));
        let started = started.subscribe();
        let (changes, runs) = (thread_streams.changes.subscribe(), thread_streams.runs.clone());
        // Open streams are kept after their end for this reader.
        for run_id in &runs {
            table.by_run.get(run_id).into_iter().for_each(|stream| stream.retain());
        }
        ThreadRunSubscription { runs, started_runs: started, changes, first_subscriber }
    }

    /// Notifies the thread's readers of a change that is not part of a run's stream.
    pub(crate) fn notify_changed(&self, thread: &ScopedThread) {
        if let Some(thread_streams) = self.table.lock().by_thread.get(thread) {
            thread_streams.changes.send_replace(());
        }
    }

    /// Removes a reader of the thread, and the thread's entry if nothing else needs it. Each reader calls it when
    /// dropped.
    pub(crate) fn unsubscribe(&self, thread: &ScopedThread) {
        let mut table = self.table.lock();
        if let Some(thread_streams) = table.by_thread.get_mut(thread) {
            thread_streams.readers = thread_streams.readers.saturating_sub(1);
            if thread_streams.readers == 0 {
                thread_streams.started_runs = None;
                thread_streams.announced.clear();
            }
            if thread_streams.started_runs.is_none() && thread_streams.runs.is_empty() {
                table.by_thread.remove(thread);
            }
        }
    }

    /// Returns whether the thread has readers.
    pub(crate) fn has_subscribers(&self, thread: &ScopedThread) -> bool {
        self.table.lock().by_thread.get(thread).is_some_and(|thread_streams| thread_streams.readers > 0)
    }

    /// Returns those of the runs that were not announced to the thread's readers.
    pub(crate) fn select_unannounced(&self, thread: &ScopedThread, runs: Vec<RunId>) -> Vec<RunId> {
        let table = self.table.lock();
        let announced = table.by_thread.get(thread).map(|thread_streams| &thread_streams.announced);
        runs.into_iter()
            .filter(|run_id| announced.is_some_and(|announced| !announced.contains(run_id)))
            .collect()
    }

    /// Marks ended runs as announced, so that they are not sent to the thread's readers.
    pub(crate) fn mark_announced(&self, thread: &ScopedThread, runs: impl Iterator<Item = RunId>) {
        if let Some(thread_streams) = self.table.lock().by_thread.get_mut(thread) {
            thread_streams.announced.extend(runs);
        }
    }

    /// Removes and returns the ended stream of a run whose row is gone.
    pub(crate) fn forget_run(&self, run_id: RunId) -> Option<Arc<RunStream>> {
        let mut table = self.table.lock();
        let has_ended = table.by_run.get(&run_id)?.closed.is_cancelled();
        has_ended.then(|| table.remove_stream(run_id)).flatten()
    }

    /// Removes the ended streams of a thread.
    pub(crate) fn forget_thread(&self, thread: &ScopedThread) {
        let mut table = self.table.lock();
        let runs =
            table.by_thread.get(thread).map(|thread_streams| thread_streams.runs.clone()).unwrap_or_default();
        for run_id in runs {
            if table.by_run.get(&run_id).is_some_and(|stream| stream.closed.is_cancelled()) {
                table.remove_stream(run_id);
            }
        }
    }

    /// Removes and returns the streams whose retention has expired.
    pub(crate) fn expire(&self, now: Instant) -> Vec<Arc<RunStream>> {
        let retention = self.retention;
        self.table.lock().evict(self.bytes_max, |since| now.saturating_duration_since(since) >= retention)
    }

    /// Returns the number of followed runs of other processes.
    pub(crate) fn remote_count(&self) -> usize {
        let table = self.table.lock();
        let is_followed = |stream: &&Arc<RunStream>| {
            stream.driver == DriverLocation::Remote && !stream.closed.is_cancelled()
        };
        table.by_run.values().filter(is_followed).count()
    }

    /// Returns the number of streams, and the bytes of the kept ones.
    #[cfg(test)]
    pub(crate) fn retained_totals(&self) -> (usize, usize) {
        let table = self.table.lock();
        (table.by_run.len(), table.retained_bytes)
    }
}

impl StreamTable {
    /// Removes the stream unless a newer one of the same run replaced it.
    fn forget_if_current(&mut self, stream: &RunStream) {
        if self.by_run.get(&stream.run_id).is_some_and(|current| std::ptr::eq(Arc::as_ptr(current), stream)) {
            self.remove_stream(stream.run_id);
        }
    }

    /// Removes the run's stream from all indexes. If it has readers, its buffer is counted as draining.
    fn remove_stream(&mut self, run_id: RunId) -> Option<Arc<RunStream>> {
        let stream = self.by_run.remove(&run_id)?;
        self.retained_bytes =
            self.retained_bytes.saturating_sub(stream.retained_bytes.swap(0, Ordering::Relaxed));
        if stream.has_readers() {
            self.draining_bytes += stream_bytes(&stream);
            self.draining.push_back(Arc::downgrade(&stream));
        }
        let thread = scoped_thread(&stream);
        if let Some(thread_streams) = self.by_thread.get_mut(&thread) {
            thread_streams.runs.retain(|other| *other != run_id);
            if thread_streams.runs.is_empty() && thread_streams.started_runs.is_none() {
                self.by_thread.remove(&thread);
            }
        }
        Some(stream)
    }

    /// Removes kept streams that are old, and as many others as necessary to get below the limit. Returns the removed
    /// ones.
    fn evict(&mut self, bytes_max: usize, is_old: impl Fn(Instant) -> bool) -> Vec<Arc<RunStream>> {
        let mut evicted = Vec::new();
        loop {
            let is_over_limit = self.exceeds_limit(bytes_max);
            if !is_over_limit && !self.retained.front().is_some_and(|oldest| is_old(oldest.since)) {
                return evicted;
            }
            // Slow readers must not cause the eviction of other clients' streams.
            let drain_first =
                is_over_limit && self.draining_bytes > bytes_max / 2 && !self.draining.is_empty();
            let oldest = if drain_first { None } else { self.retained.pop_front() };
            match oldest {
                Some(oldest) => evicted.extend(self.evict_stream(&oldest.stream)),
                // Its readers receive a gap and find the events in the journal.
                None => match self.draining.pop_front().and_then(|slow| slow.upgrade()) {
                    Some(slow) => slow.frames.clear(),
                    None if self.draining.is_empty() => return evicted,
                    None => {}
                },
            }
        }
    }

    /// Removes a kept stream unless it is gone already.
    fn evict_stream(&mut self, stream: &Weak<RunStream>) -> Option<Arc<RunStream>> {
        let stream = stream.upgrade()?;
        let is_current = self.by_run.get(&stream.run_id).is_some_and(|current| Arc::ptr_eq(current, &stream));
        let evicted = is_current.then(|| self.remove_stream(stream.run_id)).flatten()?;
        evicted.stop_retaining();
        Some(evicted)
    }

    /// Returns whether the ended streams hold more bytes than allowed.
    fn exceeds_limit(&mut self, bytes_max: usize) -> bool {
        if self.retained_bytes + self.draining_bytes <= bytes_max {
            return false;
        }
        // Streams without readers have been dropped and hold nothing.
        self.draining.retain(|stream| stream.strong_count() > 0);
        let remaining = self.draining.iter().filter_map(Weak::upgrade);
        self.draining_bytes = remaining.map(|stream| stream_bytes(&stream)).sum();
        self.retained_bytes + self.draining_bytes > bytes_max
    }
}

/// Returns the bytes that an ended stream holds.
fn stream_bytes(stream: &RunStream) -> usize {
    STREAM_FIXED_BYTES + stream.frames.buffered_bytes()
}

/// Returns the stream's thread in the scope of its owner.
fn scoped_thread(stream: &RunStream) -> ScopedThread {
    ScopedThread { thread_id: stream.thread_id, scope: stream.scope.clone() }
}

#[cfg(test)]
mod tests;
