//! What is to become durable with the next commit: an admission, or steps that were followed at once by another. Kept in
//! order, so that the transaction that takes it all leaves the same rows as one transaction each would.

use journal::Write;
use protocol::{Checkpoint, CheckpointId, NewEvent, ThreadId};

use crate::step::Channels;
use crate::stream::frame::public;

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
    pub(crate) told: Told,
}

/// What is told of a step, if anybody listens.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) events: Vec<NewEvent>,
    pub(crate) state: Option<State>,
}

/// A state, as a client is told it.
#[derive(Debug)]
pub(crate) struct State {
    /// The node that led to it, and what that changed; `None` for what a run begins with.
    pub(crate) done: Option<(String, Channels)>,
    pub(crate) step: u64,
    pub(crate) checkpoint_id: CheckpointId,
    pub(crate) next: Option<String>,
    pub(crate) channels: Channels,
}

impl State {
    /// Returns what a run begins with.
    pub(crate) fn first(checkpoint: &Checkpoint) -> Self {
        Self {
            done: None,
            step: checkpoint.step,
            checkpoint_id: checkpoint.checkpoint_id,
            next: checkpoint.next.clone(),
            channels: public(&checkpoint.channels),
        }
    }
}

impl Owed {
    /// Returns an admission that becomes durable with the first step.
    pub(crate) fn admission(writes: Vec<Write>) -> Self {
        let append = appends(&writes).saturating_sub(1);
        let parts = vec![Part { append, told: Told::default() }];
        Self { writes, parts, is_admission: true }
    }

    /// Adds what is told of an admission once it is durable.
    pub(crate) fn begins_with(&mut self, state: Option<State>) {
        if let Some(part) = self.parts.first_mut() {
            part.told.state = state;
        }
    }

    /// Returns whether there is nothing.
    pub(crate) const fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Returns the writes so far.
    pub(crate) fn writes(&self) -> &[Write] {
        &self.writes
    }

    /// Adds rows, the thread's events, and what is placed behind these, its questions and its checkpoint, in that order.
    pub(crate) fn add(
        &mut self,
        mut writes: Vec<Write>,
        thread_id: ThreadId,
        events: Vec<NewEvent>,
        mut points: Vec<Write>,
        told: Told,
    ) {
        self.writes.append(&mut writes);
        let append = appends(&self.writes);
        self.writes.push(Write::Append { thread_id, events });
        self.writes.append(&mut points);
        self.parts.push(Part { append, told });
    }
}

fn appends(writes: &[Write]) -> usize {
    writes.iter().filter(|write| matches!(write, Write::Append { .. })).count()
}
