//! A cache of values that the hooks of a run or a thread use again and again. Entries are evicted least recently used first
//! and can be computed again.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use parking_lot::Mutex;

/// Maximum number of entries: the highest number of concurrent runs, with their sub-agents.
const ENTRIES_MAX: usize = 1_024;

/// Maximum total size of the cached values in bytes. The newest value is kept even if it alone is larger.
const BYTES_MAX: usize = 1 << 20;

/// A least-recently-used cache.
pub(crate) struct LruCache<K, T> {
    state: Mutex<LruCacheState<K, T>>,
}

/// The entries of a cache, with two indexes.
struct LruCacheState<K, T> {
    entries: HashMap<K, LruCacheEntry<T>>,
    /// The keys, ordered by their last use.
    by_last_use: BTreeMap<u64, K>,
    /// Number of uses so far; serves as the clock of `by_last_use`.
    use_count: u64,
    /// Total size of the values in bytes.
    bytes: usize,
}

/// A cached value.
struct LruCacheEntry<T> {
    value: T,
    /// The size that the caller stated.
    bytes: usize,
    /// The key of the entry in `by_last_use`.
    last_use: u64,
}

impl<K, T> Default for LruCache<K, T> {
    fn default() -> Self {
        let state =
            LruCacheState { entries: HashMap::new(), by_last_use: BTreeMap::new(), use_count: 0, bytes: 0 };
        Self { state: Mutex::new(state) }
    }
}

impl<K: Copy + Eq + Hash, T: Clone> LruCache<K, T> {
    /// Returns the value of a key, and marks it as recently used. The cost is logarithmic in the number of entries.
    pub(crate) fn get(&self, key: K) -> Option<T> {
        let mut state = self.state.lock();
        let LruCacheEntry { value, bytes, .. } = state.take_entry(key)?;
        state.put_entry(key, value.clone(), bytes);
        Some(value)
    }

    /// Caches the value of a key, which takes `bytes` bytes, and evicts the least recently used entries beyond the
    /// limits.
    pub(crate) fn insert(&self, key: K, value: T, bytes: usize) {
        let mut state = self.state.lock();
        state.take_entry(key);
        state.put_entry(key, value, bytes);
        while state.entries.len() > 1 && (state.entries.len() > ENTRIES_MAX || state.bytes > BYTES_MAX) {
            let Some((_, oldest)) = state.by_last_use.first_key_value() else { break };
            let oldest = *oldest;
            state.take_entry(oldest);
        }
    }
}

impl<K: Copy + Eq + Hash, T> LruCacheState<K, T> {
    /// Adds an entry as the most recently used. The key must have none.
    fn put_entry(&mut self, key: K, value: T, bytes: usize) {
        self.use_count += 1;
        self.by_last_use.insert(self.use_count, key);
        self.bytes += bytes;
        self.entries.insert(key, LruCacheEntry { value, bytes, last_use: self.use_count });
    }

    /// Removes the entry of a key from the cache and its indexes.
    fn take_entry(&mut self, key: K) -> Option<LruCacheEntry<T>> {
        let entry = self.entries.remove(&key)?;
        self.by_last_use.remove(&entry.last_use);
        self.bytes -= entry.bytes;
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use protocol::{RunId, RunRef, ThreadId};

    use super::*;

    fn run() -> RunRef {
        RunRef { thread_id: ThreadId::generate(), run_id: RunId::generate() }
    }

    #[test]
    fn the_least_recently_used_run_is_evicted_first() {
        let cache = LruCache::default();
        let (active, unused) = (run(), run());
        cache.insert(unused, 0, 1);
        cache.insert(active, 1, 1);
        for _ in 0..2 * ENTRIES_MAX {
            cache.insert(run(), 2, 1);
            assert_eq!(cache.get(active), Some(1));
        }
        assert_eq!(cache.get(unused), None, "the unused run is evicted");
        assert_eq!(cache.get(RunRef { run_id: RunId::generate(), ..active }), None);
        let state = cache.state.lock();
        assert_eq!(
            (state.entries.len(), state.by_last_use.len(), state.bytes),
            (ENTRIES_MAX, ENTRIES_MAX, ENTRIES_MAX)
        );
    }

    #[test]
    fn only_the_newest_value_may_exceed_the_byte_limit() {
        let cache = LruCache::default();
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
