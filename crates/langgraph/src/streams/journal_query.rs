//! The journal queries whose results the translator needs for a frame. The translator is pure: it returns the query
//! for a frame, and the follower of the run executes it here and supplies the result.

use std::sync::Arc;

use agent::{Agent, StateMessage, StateOrigin, ThreadSnapshot};
use protocol::{CheckpointId, Event, RunRef, Seq, ThreadId};

/// Maximum number of events that are read for the admission of a run.
const ADMISSION_EVENTS_MAX: usize = 100;

/// A query whose result is needed before a frame can be translated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JournalQuery {
    /// No data is needed.
    Nothing,
    /// The messages that were visible in the thread when this was its last event.
    Messages(ThreadId, Seq),
    /// The state at this checkpoint, and the state before the input, if the checkpoint is the first one after an input.
    Checkpoints(ThreadId, CheckpointId),
    /// The events of the run up to this one, which were stored with its admission. There are no frames for them.
    Admission(RunRef, Seq),
}

/// The result of a query.
#[derive(Debug)]
pub(crate) enum JournalReply {
    /// No data was needed.
    Nothing,
    /// The messages, in order.
    Messages(Vec<Arc<StateMessage>>),
    /// The state at the checkpoint, and the one before the input.
    Checkpoints(Box<CheckpointStates>),
    /// The events, in order.
    Admission(Vec<Event>),
}

/// The state at a checkpoint, and the state before the input that led to it.
#[derive(Debug)]
pub(crate) struct CheckpointStates {
    /// The state at the checkpoint.
    pub(crate) state: ThreadSnapshot,
    /// The state before the input; `None` if the checkpoint is not the first one after an input.
    pub(crate) input: Option<ThreadSnapshot>,
}

impl JournalQuery {
    /// Executes the query.
    ///
    /// # Errors
    /// Fails if the journal does, or if the thread or the checkpoint was removed meanwhile.
    pub(crate) async fn fetch(self, agent: &Agent) -> agent::Result<JournalReply> {
        Ok(match self {
            Self::Nothing => JournalReply::Nothing,
            Self::Messages(thread_id, seq) => {
                JournalReply::Messages(agent.threads().messages_at(thread_id, seq).await?)
            }
            Self::Admission(run, last_seq) => {
                let mut events = agent.threads().run_events(run, 0, ADMISSION_EVENTS_MAX).await?;
                events.retain(|event| event.seq <= last_seq);
                JournalReply::Admission(events)
            }
            Self::Checkpoints(thread_id, id) => {
                let state = agent.threads().state_at(thread_id, id).await?;
                let parent = match state.parent_id {
                    Some(parent) => Some(agent.threads().state_at(thread_id, parent).await?),
                    None => None,
                };
                let input = parent.filter(|parent| parent.origin == StateOrigin::Input);
                JournalReply::Checkpoints(Box::new(CheckpointStates { state, input }))
            }
        })
    }
}
