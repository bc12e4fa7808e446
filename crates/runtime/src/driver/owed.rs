//! What is to become durable with the next commit: an admission, or steps that were followed at once by another. Kept in
//! order, so that the transaction that takes it all leaves the same rows as one transaction each would.

use journal::Write;
use protocol::{Checkpoint, CheckpointId, NewEvent, ThreadId};

use crate::step::Channels;

/// Writes that wait for the next commit, and what is told once they are durable.
#[derive(Debug, Default)]
pub(crate) struct Owed {
    pub(super) writes: Vec<Write>,
    /// What is told of the steps among them.
    pub(super) parts: Vec<Part>,
    /// Whether the run itself is among them: no lease can be checked before it is there.
    pub(super) is_admission: bool,
}

/// One step among the writes.
#[derive(Debug)]
pub(crate) struct Part {
    /// Which of the transaction's appends holds its events.
    pub(crate) append: usize,
    /// What is told of it.
    pub(crate) told: Told,
}

/// What is told of a step, if anybody listens.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// Its events.
    pub(crate) events: Vec<NewEvent>,
    /// The state it leads to.
    pub(crate) state: Option<State>,
}

/// A step's end, as a client is told it.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) node: String,
    pub(crate) step: u64,
    pub(crate) changed: Channels,
    pub(crate) checkpoint_id: CheckpointId,
    pub(crate) next: Option<String>,
    pub(crate) channels: Channels,
}

impl Owed {
    /// Returns an admission that becomes durable with the first step.
    pub(crate) fn admission(writes: Vec<Write>) -> Self {
        let append = appends(&writes).saturating_sub(1);
        let parts = vec![Part { append, told: Told::default() }];
        Self { writes, parts, is_admission: true }
    }

    /// Returns whether there is nothing.
    pub(crate) const fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Returns the writes so far.
    pub(crate) fn writes(&self) -> &[Write] {
        &self.writes
    }

    /// Adds rows, the thread's events and its checkpoint, in that order.
    pub(crate) fn add(
        &mut self,
        mut writes: Vec<Write>,
        (thread_id, events): (ThreadId, Vec<NewEvent>),
        checkpoint: Option<Checkpoint>,
        told: Told,
    ) {
        self.writes.append(&mut writes);
        let append = appends(&self.writes);
        self.writes.push(Write::Append { thread_id, events });
        self.writes.extend(checkpoint.map(Write::PutCheckpoint));
        self.parts.push(Part { append, told });
    }
}

fn appends(writes: &[Write]) -> usize {
    writes.iter().filter(|write| matches!(write, Write::Append { .. })).count()
}
