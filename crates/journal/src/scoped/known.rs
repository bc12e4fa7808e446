//! Which threads and runs were found to be in a scope, so that they are not looked up again. Whose they are never changes.

use std::collections::HashSet;
use std::hash::Hash;

use parking_lot::Mutex;
use protocol::{RunId, ThreadId};

/// The most ids of a kind that are remembered; then all are forgotten.
const KNOWN_MAX: usize = 10_000;

/// Ids that were found to be in the scope.
#[derive(Default)]
pub(super) struct Known {
    threads: Mutex<HashSet<ThreadId>>,
    runs: Mutex<HashSet<RunId>>,
}

impl Known {
    pub(super) fn has_thread(&self, thread_id: ThreadId) -> bool {
        has(&self.threads, thread_id)
    }

    pub(super) fn add_thread(&self, thread_id: ThreadId) {
        add(&self.threads, thread_id);
    }

    pub(super) fn has_run(&self, run_id: RunId) -> bool {
        has(&self.runs, run_id)
    }

    pub(super) fn add_run(&self, run_id: RunId) {
        add(&self.runs, run_id);
    }

    pub(super) fn forget_run(&self, run_id: RunId) {
        self.runs.lock().remove(&run_id);
    }
}

fn has<T: Eq + Hash>(ids: &Mutex<HashSet<T>>, id: T) -> bool {
    ids.lock().contains(&id)
}

fn add<T: Eq + Hash>(ids: &Mutex<HashSet<T>>, id: T) {
    let mut ids = ids.lock();
    if ids.len() >= KNOWN_MAX {
        ids.clear();
    }
    ids.insert(id);
}
