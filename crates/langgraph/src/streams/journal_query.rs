//! Queries of the journal that a frame needs before it can be translated. The translator requests them; they are executed
//! here.

use std::sync::Arc;

use agent::{Agent, StateMessage, StateOrigin, ThreadSnapshot};
use protocol::{CheckpointId, Event, RunRef, Seq, ThreadId};

/// Events that are stored as a run is admitted, at most.
const ADMISSION_EVENTS_MAX: usize = 100;

/// A query that must be answered before a frame can be translated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JournalQuery {
    /// Nothing.
    Nothing,
    /// The messages that were in sight of the thread when this was the last event.
    Messages(ThreadId, Seq),
    /// The state at this point, and the one before anything was put in, if the point is the first of a run that was given
    /// something.
    Checkpoints(ThreadId, CheckpointId),
    /// The events up to this one that were stored as the run was admitted: no frame has them.
    Admission(RunRef, Seq),
}

/// The answer to a query.
#[derive(Debug)]
pub(crate) enum JournalReply {
    /// Nothing.
    Nothing,
    /// The messages.
    Messages(Vec<Arc<StateMessage>>),
    /// The point, and the one before what was put in.
    Checkpoints(Box<CheckpointStates>),
    /// The events.
    Admission(Vec<Event>),
}

/// A point, and what stands before it.
#[derive(Debug)]
pub(crate) struct CheckpointStates {
    /// The state at it.
    pub(crate) state: ThreadSnapshot,
    /// The state before what was put in, if the point is the first with that.
    pub(crate) input: Option<ThreadSnapshot>,
}

impl JournalQuery {
    /// Reads it.
    ///
    /// # Errors
    /// When the journal fails, or the thread is gone.
    pub(crate) async fn fetch(self, agent: &Agent) -> agent::Result<JournalReply> {
        Ok(match self {
            Self::Nothing => JournalReply::Nothing,
            Self::Messages(thread_id, seq) => {
                JournalReply::Messages(agent.threads().messages_at(thread_id, seq).await?)
            }
            Self::Admission(run, until) => {
                let mut admitted = agent.threads().run_events(run, 0, ADMISSION_EVENTS_MAX).await?;
                admitted.retain(|event| event.seq <= until);
                JournalReply::Admission(admitted)
            }
            Self::Checkpoints(thread_id, id) => {
                let state = agent.threads().state_at(thread_id, id).await?;
                let before = match state.parent_id {
                    Some(parent) => Some(agent.threads().state_at(thread_id, parent).await?),
                    None => None,
                };
                let input = before.filter(|before| before.origin == StateOrigin::Input);
                JournalReply::Checkpoints(Box::new(CheckpointStates { state, input }))
            }
        })
    }
}
