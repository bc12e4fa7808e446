//! A cache of the threads, runs and handoffs that are in a scope. It needs no invalidation for changes of owners, because
//! owners never change.

use std::collections::HashSet;
use std::hash::Hash;

use parking_lot::Mutex;
use protocol::{HandoffId, RunId, ThreadId};

/// Maximum number of cached ids of each kind. When it is reached, the cache is cleared.
const CACHED_IDS_MAX: usize = 10_000;

/// Ids of threads, runs and handoffs that are known to be in the scope.
#[derive(Default)]
pub(super) struct ScopeCache {
    /// The threads.
    threads: Mutex<HashSet<ThreadId>>,
    /// The runs.
    runs: Mutex<HashSet<RunId>>,
    /// The handoffs.
    handoffs: Mutex<HashSet<HandoffId>>,
}

impl ScopeCache {
    /// Returns whether a thread is cached.
    pub(super) fn has_thread(&self, thread_id: ThreadId) -> bool {
        contains_id(&self.threads, thread_id)
    }

    /// Adds a thread.
    pub(super) fn add_thread(&self, thread_id: ThreadId) {
        insert_id(&self.threads, thread_id);
    }

    /// Returns whether a run is cached.
    pub(super) fn has_run(&self, run_id: RunId) -> bool {
        contains_id(&self.runs, run_id)
    }

    /// Adds a run.
    pub(super) fn add_run(&self, run_id: RunId) {
        insert_id(&self.runs, run_id);
    }

    /// Removes a run, because it was deleted.
    pub(super) fn remove_run(&self, run_id: RunId) {
        self.runs.lock().remove(&run_id);
    }

    /// Returns whether a handoff is cached.
    pub(super) fn has_handoff(&self, handoff_id: HandoffId) -> bool {
        contains_id(&self.handoffs, handoff_id)
    }

    /// Adds a handoff.
    pub(super) fn add_handoff(&self, handoff_id: HandoffId) {
        insert_id(&self.handoffs, handoff_id);
    }

    /// Removes a handoff, because it was deleted.
    pub(super) fn remove_handoff(&self, handoff_id: HandoffId) {
        self.handoffs.lock().remove(&handoff_id);
    }
}

/// Returns whether the set contains an id.
fn contains_id<T: Eq + Hash>(ids: &Mutex<HashSet<T>>, id: T) -> bool {
    ids.lock().contains(&id)
}

/// Adds an id, and clears the set first if it is full.
fn insert_id<T: Eq + Hash>(ids: &Mutex<HashSet<T>>, id: T) {
    let mut ids = ids.lock();
    if ids.len() >= CACHED_IDS_MAX {
        ids.clear();
    }
    ids.insert(id);
}
