//! A cache of values that are constant for all requests of a run. Entries are evicted least recently used first
//! and can be computed again.

use std::collections::{BTreeMap, HashMap};

use parking_lot::Mutex;
use protocol::RunRef;

/// Maximum number of cached runs: the highest number of concurrent runs, with their sub-agents.
const RUNS_MAX: usize = 1_024;

/// Maximum total size of the cached values in bytes. The newest value is kept even if it alone is larger.
const BYTES_MAX: usize = 1 << 20;

/// A least-recently-used cache with one value per run.
pub(crate) struct RunCache<T> {
    state: Mutex<RunCacheState<T>>,
}

/// The entries of a cache, with two indexes.
struct RunCacheState<T> {
    runs: HashMap<RunRef, RunCacheEntry<T>>,
    /// The runs, ordered by their last use.
    by_last_use: BTreeMap<u64, RunRef>,
    /// Number of uses so far; serves as the clock of `by_last_use`.
    use_count: u64,
    /// Total size of the values in bytes.
    bytes: usize,
}

/// A cached value.
struct RunCacheEntry<T> {
    value: T,
    /// The size that the caller stated.
    bytes: usize,
    /// The key of the entry in `by_last_use`.
    last_use: u64,
}

impl<T> Default for RunCache<T> {
    fn default() -> Self {
        let state =
            RunCacheState { runs: HashMap::new(), by_last_use: BTreeMap::new(), use_count: 0, bytes: 0 };
        Self { state: Mutex::new(state) }
    }
}

impl<T: Clone> RunCache<T> {
    /// Returns the run's value, and marks the run as recently used. The cost is logarithmic in the number of runs.
    pub(crate) fn get(&self, run: RunRef) -> Option<T> {
        let mut state = self.state.lock();
        let RunCacheEntry { value, bytes, .. } = state.take_entry(run)?;
        state.put_entry(run, value.clone(), bytes);
        Some(value)
    }

    /// Caches the run's value, which takes `bytes` bytes, and evicts the least recently used runs beyond the
    /// limits.
    pub(crate) fn insert(&self, run: RunRef, value: T, bytes: usize) {
        let mut state = self.state.lock();
        state.take_entry(run);
        state.put_entry(run, value, bytes);
        while state.runs.len() > 1 && (state.runs.len() > RUNS_MAX || state.bytes > BYTES_MAX) {
            let Some((_, oldest)) = state.by_last_use.first_key_value() else { break };
            let oldest = *oldest;
            state.take_entry(oldest);
        }
    }
}

impl<T> RunCacheState<T> {
    /// Adds an entry as the most recently used. The run must have none.
    fn put_entry(&mut self, run: RunRef, value: T, bytes: usize) {
        self.use_count += 1;
        self.by_last_use.insert(self.use_count, run);
        self.bytes += bytes;
        self.runs.insert(run, RunCacheEntry { value, bytes, last_use: self.use_count });
    }

    /// Removes the run's entry from the cache and its indexes.
    fn take_entry(&mut self, run: RunRef) -> Option<RunCacheEntry<T>> {
        let entry = self.runs.remove(&run)?;
        self.by_last_use.remove(&entry.last_use);
        self.bytes -= entry.bytes;
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use protocol::{RunId, ThreadId};

    use super::*;

    fn run() -> RunRef {
        RunRef { thread_id: ThreadId::generate(), run_id: RunId::generate() }
    }

    #[test]
    fn the_least_recently_used_run_is_evicted_first() {
        let cache = RunCache::default();
        let (active, unused) = (run(), run());
        cache.insert(unused, 0, 1);
        cache.insert(active, 1, 1);
        for _ in 0..2 * RUNS_MAX {
            cache.insert(run(), 2, 1);
            assert_eq!(cache.get(active), Some(1));
        }
        assert_eq!(cache.get(unused), None, "the unused run is evicted");
        assert_eq!(cache.get(RunRef { run_id: RunId::generate(), ..active }), None);
        let state = cache.state.lock();
        assert_eq!((state.runs.len(), state.by_last_use.len(), state.bytes), (RUNS_MAX, RUNS_MAX, RUNS_MAX));
    }

    #[test]
    fn only_the_newest_value_may_exceed_the_byte_limit() {
        let cache = RunCache::default();
        let runs: Vec<_> = (0..6).map(|_| run()).collect();
        for (number, run) in runs[..5].iter().enumerate() {
            cache.insert(*run, number, BYTES_MAX / 4);
        }
        assert_eq!(cache.get(runs[0]), None);
        assert_eq!(cache.get(runs[1]), Some(1));
        cache.insert(runs[5], 5, 2 * BYTES_MAX);
        let remaining: Vec<_> = runs.iter().filter_map(|run| cache.get(*run)).collect();
        assert_eq!(remaining, [5]);
    }
}
