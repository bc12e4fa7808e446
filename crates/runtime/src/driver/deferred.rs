//! Writes that are deferred to the next commit: an admission, or steps that an immediate node follows. Their
//! order is kept, so that the one transaction leaves the same rows as one transaction for each step would.

use journal::Write;
use protocol::{Checkpoint, CheckpointId, NewEvent, ThreadId};

use crate::step::Channels;
use crate::stream::frame::public_channels;

/// Writes for the next commit, and the notices to send once they are durable.
#[derive(Debug, Default)]
pub(crate) struct DeferredWrites {
    pub(super) writes: Vec<Write>,
    /// The writes of the transaction, in order.
    /// The notices of the steps among the writes, in order.
    pub(super) notices: Vec<StepNotice>,
    /// True if the writes include the admission of the run. Its transaction carries no fence, because there is no
    /// lease to check before the run's row exists.
    pub(super) is_admission: bool,
}

/// The notice of one deferred step.
#[derive(Debug)]
pub(crate) struct StepNotice {
    /// The index of the step's append among the appends of the transaction; it finds the sequence numbers of the
    /// step's events.
    pub(crate) append_index: usize,
    /// The data for the subscribers.
    pub(crate) update: StepUpdate,
}

/// The data that subscribers receive about a step once it is durable. Empty when the run has no subscribers.
#[derive(Debug, Default)]
pub(crate) struct StepUpdate {
    /// The events that the step appended.
    pub(crate) events: Vec<NewEvent>,
    /// The state after the step; `None` for an early commit.
    pub(crate) state: Option<StateSnapshot>,
}

/// The state of a run after a step, with the public channels only.
#[derive(Debug)]
pub(crate) struct StateSnapshot {
    /// The node that led to this state and the channels that it changed. `None` for the state at the start of a
    /// run.
    pub(crate) caused_by: Option<(String, Channels)>,
    /// The number of the step.
    pub(crate) step: u64,
    /// The checkpoint that holds the state.
    pub(crate) checkpoint_id: CheckpointId,
    /// The node to run next.
    pub(crate) next: Option<String>,
    /// The public channels of the state.
    pub(crate) channels: Channels,
}

impl StateSnapshot {
    /// Returns the state at the start of a run.
    pub(crate) fn initial(checkpoint: &Checkpoint) -> Self {
        Self {
            caused_by: None,
            step: checkpoint.step,
            checkpoint_id: checkpoint.checkpoint_id,
            next: checkpoint.next.clone(),
            channels: public_channels(&checkpoint.channels),
        }
    }
}

impl DeferredWrites {
    /// Returns the writes of an admission that becomes durable together with the first step.
    pub(crate) fn from_admission(writes: Vec<Write>) -> Self {
        let append_index = count_appends(&writes).saturating_sub(1);
        let notices = vec![StepNotice { append_index, update: StepUpdate::default() }];
        Self { writes, notices, is_admission: true }
    }

    /// Sets the state to publish with the admission. Does nothing if no notice is deferred.
    pub(crate) fn set_initial_state(&mut self, state: Option<StateSnapshot>) {
        if let Some(notice) = self.notices.first_mut() {
            notice.update.state = state;
        }
    }

    /// Returns whether no write is deferred.
    pub(crate) const fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Returns the deferred writes, in order.
    pub(crate) fn writes(&self) -> &[Write] {
        &self.writes
    }

    /// Adds a step: its rows, the append of its events, and then `trailing_writes`, which refer to these events:
    /// the step's questions and checkpoint.
    pub(crate) fn add_step(
        &mut self,
        mut writes: Vec<Write>,
        thread_id: ThreadId,
        events: Vec<NewEvent>,
        mut trailing_writes: Vec<Write>,
        update: StepUpdate,
    ) {
        self.writes.append(&mut writes);
        let append_index = count_appends(&self.writes);
        self.writes.push(Write::Append { thread_id, events });
        self.writes.append(&mut trailing_writes);
        self.notices.push(StepNotice { append_index, update });
    }
}

/// Returns the number of appends among the writes.
fn count_appends(writes: &[Write]) -> usize {
    writes.iter().filter(|write| matches!(write, Write::Append { .. })).count()
}
