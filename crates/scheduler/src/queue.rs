//! The queues of the threads: for each busy thread, its active occupant and the entries that wait behind it. These are
//! plain values without I/O; `worker` executes the entries.

mod quota;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;
use protocol::{MultitaskStrategy, RunId, ThreadId};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

pub(crate) use self::quota::{Quota, QuotaLimits, QuotaPermit};
use crate::cancel::CancelAction;
use crate::limits::OVERTAKES_MAX;
use crate::streams::stream::RunStream;

/// The queues of all busy threads. A thread has a queue while something is active on it or waits for it.
#[derive(Debug, Default)]
pub(crate) struct ThreadQueues {
    by_thread: HashMap<ThreadId, ThreadQueue>,
    /// Set when the scheduler shuts down. It is never reset.
    is_closed: bool,
}

/// The queue of one thread.
#[derive(Debug)]
struct ThreadQueue {
    /// The active entry; `None` between two entries.
    occupancy: Option<Occupancy>,
    queued: VecDeque<QueuedWork>,
}

/// The active entry of a thread, with the means to stop it.
#[derive(Debug)]
pub(crate) struct Occupancy {
    /// The kind of the active entry.
    pub(crate) occupant: Occupant,
    /// Cancelling this token stops it.
    pub(crate) cancel: CancellationToken,
    /// The requested way to stop it. The first request wins.
    pub(crate) requested_stop: Option<CancelAction>,
}

/// The kind of work that is active on a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Occupant {
    /// A run of this process.
    Run(RunId),
    /// Work that excludes any run on the thread.
    Exclusive,
    /// Something in another process, for which this process waits.
    Remote,
}

/// An entry of a thread's queue. It holds its queue permit until it starts.
#[derive(Debug)]
pub(crate) enum QueuedWork {
    /// A run. Its request is in the journal.
    Run(Arc<RunStream>, QuotaPermit),
    /// Exclusive work.
    Exclusive(QueuedExclusive),
}

/// Exclusive work in a queue.
#[derive(Debug)]
pub(crate) struct QueuedExclusive {
    /// Passes the work the grant with which it may start.
    pub(crate) grant_sender: oneshot::Sender<ExclusiveGrant>,
    /// The position at which the work was added.
    pub(crate) position: QueuePosition,
    /// The age of the work.
    pub(crate) age: QueueAge,
    /// The queue permit of the entry.
    pub(crate) permit: QuotaPermit,
}

/// The age of queued work, which limits how many later runs come first. Work that is queued again keeps its age.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueueAge {
    /// The time at which the work was first added to the queue.
    pub(crate) queued_at: Timestamp,
    /// The number of later runs that were put before the work.
    overtakes: u32,
}

/// The right to work exclusively on a thread. Dropping it releases the thread.
#[derive(Debug)]
pub(crate) struct ExclusiveGrant {
    /// Cancelled when the work has to stop.
    pub(crate) cancel: CancellationToken,
    /// The age that the work has if it is queued again.
    pub(crate) age: QueueAge,
    /// Dropped when the work is done, which the queue's worker observes. Work that has to wait for another process
    /// sends its next queue entry instead.
    released: oneshot::Sender<QueuedWork>,
    /// Closed when the worker has released the thread.
    advanced: oneshot::Receiver<()>,
}

/// The worker's half of an [`ExclusiveGrant`].
#[derive(Debug)]
pub(crate) struct GrantCompletion {
    released: oneshot::Receiver<QueuedWork>,
    /// Dropped when the worker has released the thread.
    _advanced: oneshot::Sender<()>,
}

impl QueueAge {
    /// Returns the age of work that is first added to the queue at that time.
    pub(crate) const fn new(queued_at: Timestamp) -> Self {
        Self { queued_at, overtakes: 0 }
    }

    /// Returns whether no further run may come first.
    const fn is_due(self) -> bool {
        self.overtakes >= OVERTAKES_MAX
    }
}

impl QueuedWork {
    /// Returns whether the entry stays before a run that displaces the active one.
    fn precedes_displacing_run(&self) -> bool {
        match self {
            Self::Run(stream, _) => stream.queue_position == QueuePosition::Displacing,
            // Work at the front waits for the end of the displaced run and rolls it back.
            Self::Exclusive(exclusive) => {
                exclusive.position == QueuePosition::Front || exclusive.age.is_due()
            }
        }
    }

    /// Returns whether the entry is exclusive work that no further run may overtake.
    fn is_due(&self) -> bool {
        match self {
            Self::Run(..) => false,
            Self::Exclusive(exclusive) => exclusive.age.is_due(),
        }
    }

    /// Counts a run that was put before the entry, if the entry is exclusive work.
    fn count_overtake(&mut self) {
        match self {
            Self::Run(..) => {}
            Self::Exclusive(exclusive) => exclusive.age.overtakes += 1,
        }
    }
}

impl ExclusiveGrant {
    /// Returns a grant for work of that age that `cancel` stops, and the worker's half of it.
    pub(crate) fn new(cancel: CancellationToken, age: QueueAge) -> (Self, GrantCompletion) {
        let (release_sender, release_receiver) = oneshot::channel();
        let (advance_sender, advance_receiver) = oneshot::channel();
        (
            Self { cancel, age, released: release_sender, advanced: advance_receiver },
            GrantCompletion { released: release_receiver, _advanced: advance_sender },
        )
    }

    /// Returns the grant and waits until the worker has released the thread.
    pub(crate) async fn release(self) {
        drop(self.released);
        // No value is ever sent: the error means that the worker dropped its half.
        drop(self.advanced.await);
    }

    /// Returns the grant because the work has to wait for another process. `entry` takes its place in the queue. If the
    /// worker has stopped, the entry is dropped.
    pub(crate) fn requeue(self, entry: QueuedWork) {
        drop(self.released.send(entry));
    }
}

impl GrantCompletion {
    /// Waits until the grant is returned or dropped. Returns the next queue entry of work that has to wait for another
    /// process.
    pub(crate) async fn wait_released(&mut self) -> Option<QueuedWork> {
        (&mut self.released).await.ok()
    }
}

/// The position at which an entry is added to a thread's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueuePosition {
    /// Before every other entry.
    Front,
    /// Before the other entries, but behind earlier ones that displaced the active run, and behind exclusive work that
    /// runs have overtaken too often.
    Displacing,
    /// Behind every other entry.
    Back,
}

impl QueuePosition {
    /// Returns the position for a run with that strategy. A run that displaces the active one is next.
    pub(crate) const fn for_strategy(strategy: MultitaskStrategy) -> Self {
        match strategy {
            MultitaskStrategy::Interrupt | MultitaskStrategy::Rollback => Self::Displacing,
            MultitaskStrategy::Enqueue | MultitaskStrategy::Reject => Self::Back,
        }
    }
}

/// The entry of a thread's queue that starts next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextEntry {
    /// A run with its position.
    Run(RunId, QueuePosition),
    /// Exclusive work with its position and the time since which it is queued.
    Exclusive(QueuePosition, Timestamp),
}

/// The result of an attempt to occupy a thread at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The thread was free and is occupied by the caller from here on.
    Admitted,
    /// The thread has a queue already.
    Occupied,
    /// The scheduler shuts down.
    Closed,
}

/// The result of adding an entry to a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EnqueueOutcome {
    /// The queue exists and has a worker.
    Queued,
    /// The queue is new: the caller has to start a worker for it.
    QueueCreated,
    /// The scheduler shuts down; nothing was added.
    Closed,
}

/// The state of a queue after its active entry has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backlog {
    /// Entries are queued.
    Pending,
    /// No entry is queued, and the queue was removed.
    Empty,
}

impl Occupancy {
    /// Returns an occupancy without a stop request.
    pub(crate) const fn new(occupant: Occupant, cancel: CancellationToken) -> Self {
        Self { occupant, cancel, requested_stop: None }
    }
}

impl ThreadQueues {
    /// Occupies a thread that has no queue yet.
    pub(crate) fn admit(&mut self, thread_id: ThreadId, occupancy: Occupancy) -> Admission {
        if self.is_closed {
            return Admission::Closed;
        }
        match self.by_thread.entry(thread_id) {
            Entry::Occupied(_) => Admission::Occupied,
            Entry::Vacant(vacant) => {
                vacant.insert(ThreadQueue { occupancy: Some(occupancy), queued: VecDeque::new() });
                Admission::Admitted
            }
        }
    }

    /// Returns whether entries are queued for the thread.
    pub(crate) fn has_queued(&self, thread_id: ThreadId) -> bool {
        self.by_thread.get(&thread_id).is_some_and(|queue| !queue.queued.is_empty())
    }

    /// Returns whether the next entry of the thread's queue is a run.
    pub(crate) fn is_run_next(&self, thread_id: ThreadId) -> bool {
        let next = self.by_thread.get(&thread_id).and_then(|queue| queue.queued.front());
        matches!(next, Some(QueuedWork::Run(..)))
    }

    /// Returns the next entry of the thread's queue; `None` if nothing is queued.
    pub(crate) fn next_entry(&self, thread_id: ThreadId) -> Option<NextEntry> {
        Some(match self.by_thread.get(&thread_id)?.queued.front()? {
            QueuedWork::Run(stream, _) => NextEntry::Run(stream.run_id, stream.queue_position),
            QueuedWork::Exclusive(exclusive) => {
                NextEntry::Exclusive(exclusive.position, exclusive.age.queued_at)
            }
        })
    }

    /// Returns whether a run is queued for the thread.
    pub(crate) fn has_queued_run(&self, thread_id: ThreadId) -> bool {
        let entries = self.by_thread.get(&thread_id).map(|queue| &queue.queued);
        entries.is_some_and(|entries| entries.iter().any(|entry| matches!(entry, QueuedWork::Run(..))))
    }

    /// Returns all queued runs with their threads.
    pub(crate) fn queued_runs(&self) -> Vec<(ThreadId, RunId)> {
        let run = |entry: &QueuedWork| match entry {
            QueuedWork::Run(stream, _) => Some((stream.thread_id, stream.run_id)),
            QueuedWork::Exclusive(..) => None,
        };
        self.by_thread.values().flat_map(|queue| queue.queued.iter().filter_map(run)).collect()
    }

    /// Returns the number of threads with an active entry, and the number of queued entries.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let occupancy = self.by_thread.values().filter(|queue| queue.occupancy.is_some()).count();
        (occupancy, self.by_thread.values().map(|queue| queue.queued.len()).sum())
    }

    /// Adds an entry to the thread's queue and creates the queue if there is none.
    pub(crate) fn enqueue(
        &mut self,
        thread_id: ThreadId,
        entry: QueuedWork,
        position: QueuePosition,
    ) -> EnqueueOutcome {
        if self.is_closed {
            return EnqueueOutcome::Closed;
        }
        match self.by_thread.entry(thread_id) {
            Entry::Occupied(mut queue) => {
                queue.get_mut().enqueue(entry, position);
                EnqueueOutcome::Queued
            }
            Entry::Vacant(vacant) => {
                vacant.insert(ThreadQueue { occupancy: None, queued: VecDeque::from([entry]) });
                EnqueueOutcome::QueueCreated
            }
        }
    }

    /// Removes the next entry from the thread's queue and marks it as active. Removes the queue if there is no entry.
    pub(crate) fn dequeue(&mut self, thread_id: ThreadId) -> Option<QueuedWork> {
        let queue = self.by_thread.get_mut(&thread_id)?;
        if self.is_closed {
            self.by_thread.remove(&thread_id);
            return None;
        }
        while let Some(entry) = queue.queued.pop_front() {
            let occupancy = match &entry {
                QueuedWork::Run(stream, _) => {
                    Occupancy::new(Occupant::Run(stream.run_id), stream.cancel.clone())
                }
                // The caller that requested this work is gone.
                QueuedWork::Exclusive(exclusive) if exclusive.grant_sender.is_closed() => continue,
                QueuedWork::Exclusive(..) => Occupancy::new(Occupant::Exclusive, CancellationToken::new()),
            };
            queue.occupancy = Some(occupancy);
            return Some(entry);
        }
        self.by_thread.remove(&thread_id);
        None
    }

    /// Reserves the thread while another process works on it, and puts the entry that could not start back to the
    /// front. A stop request for the previous occupant is kept.
    pub(crate) fn hold_for_remote(&mut self, thread_id: ThreadId, entry: Option<QueuedWork>) {
        if let Some(queue) = self.by_thread.get_mut(&thread_id) {
            entry.into_iter().for_each(|entry| queue.enqueue(entry, QueuePosition::Front));
            let stop = queue.occupancy.take().and_then(|occupancy| occupancy.requested_stop);
            let remote = Occupancy::new(Occupant::Remote, CancellationToken::new());
            queue.occupancy = Some(Occupancy { requested_stop: stop, ..remote });
        }
    }

    /// Puts exclusive work back that met a run of another process, and reserves the thread for that process. Runs that
    /// displaced the active one meanwhile come first, unless too many have overtaken the work. If the queues are closed,
    /// the entry is dropped, which its caller observes.
    pub(crate) fn requeue_behind_remote(&mut self, thread_id: ThreadId, entry: QueuedWork) {
        if self.is_closed {
            return;
        }
        if let Some(queue) = self.by_thread.get_mut(&thread_id) {
            let position = if entry.is_due() { QueuePosition::Front } else { QueuePosition::Displacing };
            queue.enqueue(entry, position);
        }
        self.hold_for_remote(thread_id, None);
    }

    /// Puts an entry that cannot start yet back to the front.
    pub(crate) fn requeue_front(&mut self, thread_id: ThreadId, entry: QueuedWork) {
        if let Some(queue) = self.by_thread.get_mut(&thread_id) {
            queue.enqueue(entry, QueuePosition::Front);
        }
    }

    /// Removes a queued run from the thread's queue.
    pub(crate) fn remove_run(&mut self, thread_id: ThreadId, run_id: RunId) -> Option<QueuedWork> {
        let queue = self.by_thread.get_mut(&thread_id)?;
        let is_run =
            |entry: &QueuedWork| matches!(entry, QueuedWork::Run(stream, _) if stream.run_id == run_id);
        let index = queue.queued.iter().position(is_run)?;
        queue.queued.remove(index)
    }

    /// Returns the active occupant of the thread.
    pub(crate) fn occupant(&self, thread_id: ThreadId) -> Option<Occupant> {
        self.by_thread.get(&thread_id)?.occupancy.as_ref().map(|occupancy| occupancy.occupant)
    }

    /// Returns the token that stops the active work on the thread.
    pub(crate) fn cancel_token(&self, thread_id: ThreadId) -> CancellationToken {
        let occupancy = self.by_thread.get(&thread_id).and_then(|queue| queue.occupancy.as_ref());
        occupancy.map(|occupancy| occupancy.cancel.clone()).unwrap_or_default()
    }

    /// Replaces the remote occupant of a thread by a run that this process took over. An earlier stop request is
    /// applied to the run.
    pub(crate) fn occupy_with_run(&mut self, thread_id: ThreadId, stream: &RunStream) {
        if let Some(queue) = self.by_thread.get_mut(&thread_id) {
            let stop = queue.occupancy.take().and_then(|occupancy| occupancy.requested_stop);
            if stop.is_some() {
                stream.cancel.cancel();
            }
            let local = Occupancy::new(Occupant::Run(stream.run_id), stream.cancel.clone());
            queue.occupancy = Some(Occupancy { requested_stop: stop, ..local });
        }
    }

    /// Records how the active work is to be stopped if it is `occupant`, and returns its cancellation token.
    pub(crate) fn mark_stop(
        &mut self,
        thread_id: ThreadId,
        occupant: Occupant,
        action: CancelAction,
    ) -> Option<CancellationToken> {
        let queue = self.by_thread.get_mut(&thread_id)?;
        let occupancy = queue.occupancy.as_mut().filter(|occupancy| occupancy.occupant == occupant)?;
        occupancy.requested_stop.get_or_insert(action);
        Some(occupancy.cancel.clone())
    }

    /// Stops the active work on the thread if it is `occupant`, and returns whether it was.
    pub(crate) fn request_stop(
        &mut self,
        thread_id: ThreadId,
        occupant: Occupant,
        action: CancelAction,
    ) -> bool {
        self.mark_stop(thread_id, occupant, action).inspect(CancellationToken::cancel).is_some()
    }

    /// Marks the active entry as ended and returns the requested way to stop it. Later stop requests have no effect.
    pub(crate) fn vacate(&mut self, thread_id: ThreadId) -> Option<CancelAction> {
        self.by_thread.get_mut(&thread_id)?.occupancy.take()?.requested_stop
    }

    /// Releases the thread. Its queue is kept while entries are queued.
    pub(crate) fn release(&mut self, thread_id: ThreadId) -> Backlog {
        match self.by_thread.get_mut(&thread_id) {
            Some(queue) if !queue.queued.is_empty() && !self.is_closed => {
                queue.occupancy = None;
                Backlog::Pending
            }
            Some(_) => {
                self.by_thread.remove(&thread_id);
                Backlog::Empty
            }
            None => Backlog::Empty,
        }
    }

    /// Closes all queues: nothing is added or started any more. Queued entries are dropped, because the journal has
    /// them.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
        for queue in self.by_thread.values_mut() {
            queue.queued.clear();
        }
    }

    /// Returns whether the queues are closed.
    pub(crate) const fn is_closed(&self) -> bool {
        self.is_closed
    }
}

impl ThreadQueue {
    /// Inserts the entry at that position. Costs O(n) in the queue's length for [`QueuePosition::Displacing`].
    fn enqueue(&mut self, entry: QueuedWork, position: QueuePosition) {
        match position {
            QueuePosition::Front => self.queued.push_front(entry),
            QueuePosition::Displacing => self.insert_displacing(entry),
            QueuePosition::Back => self.queued.push_back(entry),
        }
    }

    /// Inserts an entry behind those that displaced the active run. A run overtakes the exclusive work behind that
    /// point, except work that [`OVERTAKES_MAX`] runs have overtaken: this work is moved before the run.
    ///
    /// The run itself is never moved behind other runs. Its place among the runs of all processes follows from the
    /// journal, and runs of other processes may wait for it.
    fn insert_displacing(&mut self, entry: QueuedWork) {
        let index = self.queued.iter().take_while(|entry| entry.precedes_displacing_run()).count();
        let mut overtaken = self.queued.split_off(index);
        if let QueuedWork::Run(..) = &entry {
            let (due, others): (VecDeque<_>, VecDeque<_>) =
                overtaken.into_iter().partition(QueuedWork::is_due);
            self.queued.extend(due);
            overtaken = others;
            overtaken.iter_mut().for_each(QueuedWork::count_overtake);
        }
        self.queued.push_back(entry);
        self.queued.append(&mut overtaken);
    }
}

#[cfg(test)]
mod tests;
