//! The order in which the queued runs of several processes start on a thread. Runs that displace the active one come
//! first, then the order is that of their creation. Exclusive work has no row in the journal, so other processes do not
//! know it. It lets those of their runs start that were queued before it and precede all runs of its own queue. It waits
//! for no later ones, because a process that is sent one run after the other would delay it for ever.

use jiff::Timestamp;
use protocol::{Run, RunId, RunRef, ThreadId};

use crate::queue::{NextEntry, QueuePosition};
use crate::scheduler::Scheduler;

impl Scheduler {
    /// Returns whether a queued run of another process comes before the next entry of this process's queue.
    pub(crate) async fn is_next_outranked(&self, thread_id: ThreadId) -> bool {
        let next = self.queues.lock().next_entry(thread_id);
        match next {
            Some(NextEntry::Run(run_id, position)) => {
                self.is_outranked(RunRef { thread_id, run_id }, position).await
            }
            Some(NextEntry::Exclusive(QueuePosition::Back, queued_at)) => {
                self.is_work_outranked(thread_id, queued_at).await
            }
            // Work at the front waits for the run that it cancels.
            Some(NextEntry::Exclusive(QueuePosition::Front | QueuePosition::Displacing, _)) | None => false,
        }
    }

    /// Returns whether a queued run of another process comes before this run.
    pub(crate) async fn is_outranked(&self, run: RunRef, position: QueuePosition) -> bool {
        let RunRef { thread_id, run_id } = run;
        // If the journal cannot be read, the run cannot start either.
        let Ok(queued) = self.system_agent.runs().queued_runs(Some(thread_id)).await else { return false };
        let own = queued.iter().find(|run| run.run_id == run_id).map(|run| start_rank(run, position));
        let others =
            queued.into_iter().filter(|run| run.run_id != run_id && !self.streams.is_open(run.run_id));
        self.read_positions(others.collect()).await.iter().any(|(other, other_position)| match &own {
            Some(own) => start_rank(other, *other_position) < *own,
            // Its row is not stored yet, so it is the last one of its kind.
            None => position_rank(*other_position) <= position_rank(position),
        })
    }

    /// Returns whether a queued run of another process comes before exclusive work, which is queued since that time, and
    /// before all queued runs of this process.
    ///
    /// A run of another process that comes after one of them waits for this process, so nothing here may wait for it.
    async fn is_work_outranked(&self, thread_id: ThreadId, queued_at: Timestamp) -> bool {
        // If the journal cannot be read, exclusive work fails with that error.
        let Ok(queued) = self.system_agent.runs().queued_runs(Some(thread_id)).await else { return false };
        let (own, others): (Vec<Run>, Vec<Run>) =
            queued.into_iter().partition(|run| self.streams.is_open(run.run_id));
        let own_rank = |run: &Run| Some(start_rank(run, self.streams.get(run.run_id)?.queue_position));
        let first_own = own.iter().filter_map(own_rank).min();
        self.read_positions(others).await.iter().any(|(other, position)| {
            precedes_work(*position, other.created_at, queued_at)
                && first_own.as_ref().is_none_or(|first_own| start_rank(other, *position) < *first_own)
        })
    }

    /// Returns the runs with the queue positions of their stored requests; nothing if the journal cannot be read.
    async fn read_positions(&self, runs: Vec<Run>) -> Vec<(Run, QueuePosition)> {
        if runs.is_empty() {
            return Vec::new();
        }
        let ids: Vec<RunId> = runs.iter().map(|run| run.run_id).collect();
        let Ok(requests) = self.system_agent.runs().stored_requests(&ids).await else { return Vec::new() };
        let position = |run: &Run| {
            let stored = requests.iter().find(|(run_id, _)| *run_id == run.run_id);
            stored.map_or(QueuePosition::Back, |(_, request)| {
                QueuePosition::for_strategy(request.multitask_strategy)
            })
        };
        let positions: Vec<QueuePosition> = runs.iter().map(position).collect();
        runs.into_iter().zip(positions).collect()
    }
}

/// Returns the rank of a queued run. Runs with a lower rank start first.
fn start_rank(run: &Run, position: QueuePosition) -> impl Ord + use<> {
    (position_rank(position), run.created_at, run.run_id)
}

/// Returns whether a run that was created at that time comes before exclusive work that is queued since `queued_at`.
fn precedes_work(position: QueuePosition, created_at: Timestamp, queued_at: Timestamp) -> bool {
    (position_rank(position), created_at) < (position_rank(QueuePosition::Back), queued_at)
}

/// Returns the rank of a position, which precedes the order of creation.
fn position_rank(position: QueuePosition) -> u8 {
    if position == QueuePosition::Displacing { 0 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_waits_for_runs_that_were_queued_before_it_or_displace_the_active_one() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        for (position, created, is_first) in [
            (QueuePosition::Back, 9, true),
            (QueuePosition::Back, 10, false),
            (QueuePosition::Back, 11, false),
            (QueuePosition::Displacing, 9, true),
            (QueuePosition::Displacing, 11, true),
        ] {
            assert_eq!(precedes_work(position, at(created), at(10)), is_first, "{position:?} {created}");
        }
    }
}
