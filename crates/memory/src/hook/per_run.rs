//! What was worked out for a run and stays the same for all of its requests, kept until other runs need the room. It is
//! worked out again then; what it is, is not known here.

use std::collections::{BTreeMap, HashMap};

use parking_lot::Mutex;
use protocol::RunRef;

/// The most runs that are remembered: as many as may work at the same time, and their sub-agents.
const RUNS_MAX: usize = 1_024;

/// The most bytes that are remembered, all runs together but for the newest.
const BYTES_MAX: usize = 1 << 20;

/// What was worked out for the runs that asked last.
pub(crate) struct PerRun<T> {
    kept: Mutex<Kept<T>>,
}

struct Kept<T> {
    runs: HashMap<RunRef, Entry<T>>,
    /// The runs by when they asked last.
    by_age: BTreeMap<u64, RunRef>,
    /// How often was asked so far.
    asked: u64,
    bytes: usize,
}

struct Entry<T> {
    worked_out: T,
    bytes: usize,
    asked: u64,
}

impl<T> Default for PerRun<T> {
    fn default() -> Self {
        let kept = Kept { runs: HashMap::new(), by_age: BTreeMap::new(), asked: 0, bytes: 0 };
        Self { kept: Mutex::new(kept) }
    }
}

impl<T: Clone> PerRun<T> {
    /// Returns what was worked out for the run.
    pub(crate) fn get(&self, run: RunRef) -> Option<T> {
        let mut kept = self.kept.lock();
        let Entry { worked_out, bytes, .. } = kept.take(run)?;
        kept.put(run, worked_out.clone(), bytes);
        Some(worked_out)
    }

    /// Keeps what was worked out for the run, which is of so many bytes.
    pub(crate) fn keep(&self, run: RunRef, worked_out: T, bytes: usize) {
        let mut kept = self.kept.lock();
        kept.take(run);
        kept.put(run, worked_out, bytes);
        while kept.runs.len() > 1 && (kept.runs.len() > RUNS_MAX || kept.bytes > BYTES_MAX) {
            let Some((_, oldest)) = kept.by_age.first_key_value() else { break };
            let oldest = *oldest;
            kept.take(oldest);
        }
    }
}

impl<T> Kept<T> {
    fn put(&mut self, run: RunRef, worked_out: T, bytes: usize) {
        self.asked += 1;
        self.by_age.insert(self.asked, run);
        self.bytes += bytes;
        self.runs.insert(run, Entry { worked_out, bytes, asked: self.asked });
    }

    fn take(&mut self, run: RunRef) -> Option<Entry<T>> {
        let entry = self.runs.remove(&run)?;
        self.by_age.remove(&entry.asked);
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
        let kept = PerRun::default();
        let (long, silent) = (run(), run());
        kept.keep(silent, 0, 1);
        kept.keep(long, 1, 1);
        for _ in 0..2 * RUNS_MAX {
            kept.keep(run(), 2, 1);
            assert_eq!(kept.get(long), Some(1));
        }
        assert_eq!(kept.get(silent), None, "it is worked out again");
        assert_eq!(kept.get(RunRef { run_id: RunId::generate(), ..long }), None);
        let kept = kept.kept.lock();
        assert_eq!((kept.runs.len(), kept.by_age.len(), kept.bytes), (RUNS_MAX, RUNS_MAX, RUNS_MAX));
    }

    #[test]
    fn no_more_bytes_are_kept_than_the_limit_but_for_the_newest() {
        let kept = PerRun::default();
        let runs: Vec<_> = (0..6).map(|_| run()).collect();
        for (at, run) in runs[..5].iter().enumerate() {
            kept.keep(*run, at, BYTES_MAX / 4);
        }
        assert_eq!(kept.get(runs[0]), None);
        assert_eq!(kept.get(runs[1]), Some(1));
        kept.keep(runs[5], 5, 2 * BYTES_MAX);
        let left: Vec<_> = runs.iter().filter_map(|run| kept.get(*run)).collect();
        assert_eq!(left, [5]);
    }
}
