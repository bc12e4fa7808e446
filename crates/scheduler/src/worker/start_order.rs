//! The order in which the queued runs of several processes start on a thread. Runs that displace the active one come
//! first, then the order is that of their creation. Exclusive work has no row in the journal, so other processes do not
//! know it. It lets those of their runs start that precede all runs of its own queue.

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
            Some(NextEntry::Exclusive(QueuePosition::Back)) => self.is_queue_outranked(thread_id).await,
            // Work at the front waits for the run that it cancels.
            Some(NextEntry::Exclusive(QueuePosition::Front | QueuePosition::Displacing)) | None => false,
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

    /// Returns whether a queued run of another process comes before all queued runs of this one.
    ///
    /// A run of another process that comes after one of them waits for this process, so nothing here may wait for it.
    async fn is_queue_outranked(&self, thread_id: ThreadId) -> bool {
        // If the journal cannot be read, exclusive work fails with that error.
        let Ok(queued) = self.system_agent.runs().queued_runs(Some(thread_id)).await else { return false };
        let (own, others): (Vec<Run>, Vec<Run>) =
            queued.into_iter().partition(|run| self.streams.is_open(run.run_id));
        let own_rank = |run: &Run| Some(start_rank(run, self.streams.get(run.run_id)?.queue_position));
        let first_own = own.iter().filter_map(own_rank).min();
        self.read_positions(others).await.iter().any(|(other, position)| {
            first_own.as_ref().is_none_or(|first_own| start_rank(other, *position) < *first_own)
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

/// Returns the rank of a position, which precedes the order of creation.
fn position_rank(position: QueuePosition) -> u8 {
    if position == QueuePosition::Displacing { 0 } else { 1 }
}
