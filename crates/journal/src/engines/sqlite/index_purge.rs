//! The schedule of the purge of deleted texts: the times at which the writer removes rows that deletions of threads have left,
//! then terms of deleted rows from the search index, and then the deleted texts from the write-ahead log. The steps themselves
//! are in `tables::threads::purges` and `tables::search`. The caller passes the time.

use std::time::{Duration, Instant};

use super::wal::LogCheckpoint;
use crate::tables::search::PurgeState;

/// Time between a deletion and the first step of the purge, so that one purge covers several deletions.
const PURGE_DELAY: Duration = Duration::from_secs(1);
/// Time without a job after which the writer counts as idle.
const QUIET_TIME: Duration = Duration::from_millis(20);
/// Time between two steps while the writer is never idle.
const BUSY_STEP_INTERVAL: Duration = Duration::from_secs(1);
/// Time between a complete purge and the next poll for deletions of other processes.
const POLL_INTERVAL: Duration = Duration::from_secs(300);
/// Maximum pause of an idle writer after a step, as a multiple of the time that the step took. The pauses of a purge grow up
/// to it, so that texts that are deleted again and again do not occupy an idle process.
const PAUSE_FACTOR_MAX: u32 = 20;
/// Time between a deletion and the checkpoint that empties the write-ahead log, so that one checkpoint covers many deletions. It
/// waits until the index is purged.
const CHECKPOINT_DELAY: Duration = Duration::from_secs(10);
/// Time between a step or a checkpoint that failed and the next one.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);

/// The schedule of the purge.
#[derive(Debug)]
pub(super) struct PurgeSchedule {
    /// The next step. It only reads if nothing is left to be purged.
    next_step: NextStep,
    /// `true` if this process has deleted texts since the last complete purge.
    has_deletions: bool,
    /// The pause after the next step, as a multiple of the time that the step takes. It grows with each step, and is halved
    /// by each complete purge.
    pause_factor: u32,
    /// The time of the next checkpoint; `None` if the log contains no text that this process has deleted.
    checkpoint: Option<Instant>,
}

/// The times of the next step.
#[derive(Debug, Clone, Copy)]
struct NextStep {
    /// The time of the step if the writer is idle.
    if_idle: Instant,
    /// The time of the step if the writer is busy.
    if_busy: Instant,
}

impl PurgeSchedule {
    /// Returns the schedule of a process that starts. An earlier process may have ended before its purge was complete.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            next_step: NextStep::after(now, PURGE_DELAY),
            has_deletions: false,
            pause_factor: 0,
            checkpoint: None,
        }
    }

    /// Schedules a purge after a deletion, unless an earlier step is scheduled.
    pub(super) fn request(&mut self, now: Instant) {
        self.has_deletions = true;
        self.checkpoint.get_or_insert(now + CHECKPOINT_DELAY);
        let first = NextStep::after(now, PURGE_DELAY);
        if first.if_idle < self.next_step.if_idle {
            self.next_step = first;
        }
    }

    /// Postpones the next step after a job, because more jobs often follow at once.
    pub(super) fn postpone(&mut self, now: Instant) {
        self.next_step.if_idle = self.next_step.if_idle.max(now + QUIET_TIME);
    }

    /// Returns the time until which the writer can wait for a job.
    pub(super) fn next_time(&self) -> Instant {
        self.next_checkpoint().map_or(self.next_step(), |checkpoint| checkpoint.min(self.next_step()))
    }

    /// Returns the time of the next step.
    pub(super) fn next_step(&self) -> Instant {
        self.next_step.if_idle.min(self.next_step.if_busy)
    }

    /// Returns the time of the next checkpoint; `None` before the index is purged and without deleted texts in the log.
    pub(super) fn next_checkpoint(&self) -> Option<Instant> {
        self.checkpoint.filter(|_| !self.has_deletions)
    }

    /// Schedules the next checkpoint if this one left deleted texts in the log.
    pub(super) fn finish_checkpoint(&mut self, outcome: LogCheckpoint, now: Instant) {
        self.checkpoint = match outcome {
            LogCheckpoint::Emptied => None,
            LogCheckpoint::InUse => Some(now + RETRY_INTERVAL),
        };
    }

    /// Returns whether the log may contain texts that this process has deleted.
    pub(super) const fn has_logged_deletions(&self) -> bool {
        self.checkpoint.is_some()
    }

    /// Schedules the step that follows a step with this result, which took `duration` and ended at `now`.
    pub(super) fn finish_step(&mut self, state: PurgeState, duration: Duration, now: Instant) {
        match state {
            PurgeState::Complete => {
                let next_step = NextStep::after(now, POLL_INTERVAL);
                self.next_step = next_step;
                self.has_deletions = false;
                self.pause_factor /= 2;
            }
            PurgeState::Incomplete => {
                let pause = duration * self.pause_factor;
                self.pause_factor = (self.pause_factor + 1).min(PAUSE_FACTOR_MAX);
                let if_idle = self.next_step.if_idle.max(now + pause);
                self.next_step = NextStep { if_idle, if_busy: (now + BUSY_STEP_INTERVAL).max(now + pause) };
            }
        }
    }

    /// Schedules the step that follows a step that failed.
    pub(super) fn retry_step(&mut self, now: Instant) {
        self.next_step = NextStep::after(now, RETRY_INTERVAL);
    }

    /// Returns whether this process has deleted texts whose terms may still be in the file.
    pub(super) const fn has_deletions(&self) -> bool {
        self.has_deletions
    }
}

impl NextStep {
    /// Returns the times of a first step after a delay.
    fn after(now: Instant, delay: Duration) -> Self {
        Self { if_idle: now + delay, if_busy: now + delay + BUSY_STEP_INTERVAL }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of steps of a purge in these tests.
    const STEPS: usize = 3;

    /// Returns the times of the steps after a deletion at 0 ms, for a writer with a job at each of these times.
    fn step_times(jobs: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let start = Instant::now();
        let mut schedule = PurgeSchedule::new(start);
        schedule.finish_step(PurgeState::Complete, Duration::ZERO, start);
        assert_eq!((schedule.next_step(), schedule.has_deletions()), (start + POLL_INTERVAL, false));
        schedule.request(start);
        let mut jobs = jobs.into_iter().peekable();
        let mut steps = Vec::new();
        while steps.len() < STEPS {
            let next = u64::try_from((schedule.next_step() - start).as_millis()).unwrap();
            if let Some(job) = jobs.next_if(|job| *job < next) {
                schedule.postpone(start + Duration::from_millis(job));
                continue;
            }
            assert!(schedule.has_deletions());
            steps.push(next);
            let state = if steps.len() < STEPS { PurgeState::Incomplete } else { PurgeState::Complete };
            schedule.finish_step(state, Duration::ZERO, start + Duration::from_millis(next));
        }
        assert!(!schedule.has_deletions());
        steps
    }

    #[test]
    fn an_idle_writer_purges_without_a_pause() {
        assert_eq!(step_times([]), [1_000, 1_000, 1_000]);
        assert_eq!(step_times([10, 500]), [1_000, 1_000, 1_000]);
        assert_eq!(step_times([990, 1_005]), [1_025, 1_025, 1_025]);
    }

    #[test]
    fn a_busy_writer_purges_once_a_second() {
        assert_eq!(step_times((0..10_000).step_by(10)), [2_000, 3_000, 4_000]);
    }

    #[test]
    fn the_log_is_emptied_after_the_purge_and_again_if_it_was_in_use() {
        let start = Instant::now();
        let mut schedule = PurgeSchedule::new(start);
        assert!(!schedule.has_logged_deletions());
        schedule.request(start);
        let later = start + Duration::from_secs(15);
        schedule.request(later);
        assert_eq!((schedule.next_checkpoint(), schedule.has_logged_deletions()), (None, true));
        schedule.finish_step(PurgeState::Complete, Duration::ZERO, later);
        assert_eq!(
            schedule.next_time(),
            start + CHECKPOINT_DELAY,
            "the checkpoint of the first deletion covers both"
        );
        schedule.finish_checkpoint(LogCheckpoint::InUse, later);
        assert_eq!(schedule.next_time(), later + RETRY_INTERVAL);
        schedule.finish_checkpoint(LogCheckpoint::Emptied, later);
        assert_eq!((schedule.next_time(), schedule.has_logged_deletions()), (later + POLL_INTERVAL, false));
    }

    #[test]
    fn a_purge_that_does_not_end_takes_a_twentieth_of_the_time_of_an_idle_writer() {
        let (start, step) = (Instant::now(), Duration::from_millis(5));
        let mut schedule = PurgeSchedule::new(start);
        schedule.request(start);
        let mut working = Duration::ZERO;
        let mut now = start;
        for number in 0..1_000 {
            now = now.max(schedule.next_step()) + step;
            working += step;
            // A deletion during every step, and a complete purge now and then.
            schedule.request(now);
            let state = if number % 40 == 39 { PurgeState::Complete } else { PurgeState::Incomplete };
            schedule.finish_step(state, step, now);
            schedule.request(now);
        }
        assert!(working * 15 < now - start, "{working:?} of {:?}", now - start);
    }

    #[test]
    fn a_step_that_failed_is_repeated_and_its_deletion_is_not_forgotten() {
        let start = Instant::now();
        let mut schedule = PurgeSchedule::new(start);
        schedule.request(start);
        schedule.retry_step(start);
        assert_eq!((schedule.next_step(), schedule.has_deletions()), (start + RETRY_INTERVAL, true));
    }
}
