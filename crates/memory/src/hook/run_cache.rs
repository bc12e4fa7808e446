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

struct RunCacheState<T> {
    runs: HashMap<RunRef, RunCacheEntry<T>>,
    /// The runs, ordered by their last use.
    by_last_use: BTreeMap<u64, RunRef>,
    /// Number of uses so far; serves as the clock of `by_last_use`.
    use_count: u64,
    bytes: usize,
}

struct RunCacheEntry<T> {
    value: T,
    bytes: usize,
    last_use: u64,
}

impl<T> Default for RunCache<T> {
    fn default() -> Self {
        let kept =
            RunCacheState { runs: HashMap::new(), by_last_use: BTreeMap::new(), use_count: 0, bytes: 0 };
        Self { state: Mutex::new(kept) }
    }
}

impl<T: Clone> RunCache<T> {
    /// Returns the run's value, and marks the run as recently used.
    pub(crate) fn get(&self, run: RunRef) -> Option<T> {
        let mut kept = self.state.lock();
        let RunCacheEntry { value: worked_out, bytes, .. } = kept.take_entry(run)?;
        kept.put_entry(run, worked_out.clone(), bytes);
        Some(worked_out)
    }

    /// Caches the run's value, which takes `bytes` bytes, and evicts the least recently used runs beyond the
    /// limits.
    pub(crate) fn insert(&self, run: RunRef, worked_out: T, bytes: usize) {
        let mut kept = self.state.lock();
        kept.take_entry(run);
        kept.put_entry(run, worked_out, bytes);
        while kept.runs.len() > 1 && (kept.runs.len() > RUNS_MAX || kept.bytes > BYTES_MAX) {
            let Some((_, oldest)) = kept.by_last_use.first_key_value() else { break };
            let oldest = *oldest;
            kept.take_entry(oldest);
        }
    }
}

impl<T> RunCacheState<T> {
    fn put_entry(&mut self, run: RunRef, worked_out: T, bytes: usize) {
        self.use_count += 1;
        self.by_last_use.insert(self.use_count, run);
        self.bytes += bytes;
        self.runs.insert(run, RunCacheEntry { value: worked_out, bytes, last_use: self.use_count });
    }

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
    fn what_a_run_was_told_is_kept_while_it_asks_and_others_begin() {
        let kept = RunCache::default();
        let (long, silent) = (run(), run());
        kept.insert(silent, 0, 1);
        kept.insert(long, 1, 1);
        for _ in 0..2 * RUNS_MAX {
            kept.insert(run(), 2, 1);
            assert_eq!(kept.get(long), Some(1));
        }
        assert_eq!(kept.get(silent), None, "it is worked out again");
        assert_eq!(kept.get(RunRef { run_id: RunId::generate(), ..long }), None);
        let kept = kept.state.lock();
        assert_eq!((kept.runs.len(), kept.by_last_use.len(), kept.bytes), (RUNS_MAX, RUNS_MAX, RUNS_MAX));
    }

    #[test]
    fn no_more_bytes_are_kept_than_the_limit_but_for_the_newest() {
        let kept = RunCache::default();
        let runs: Vec<_> = (0..6).map(|_| run()).collect();
        for (at, run) in runs[..5].iter().enumerate() {
            kept.insert(*run, at, BYTES_MAX / 4);
        }
        assert_eq!(kept.get(runs[0]), None);
        assert_eq!(kept.get(runs[1]), Some(1));
        kept.insert(runs[5], 5, 2 * BYTES_MAX);
        let left: Vec<_> = runs.iter().filter_map(|run| kept.get(*run)).collect();
        assert_eq!(left, [5]);
    }
}
