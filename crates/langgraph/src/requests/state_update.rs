//! Parses a client's update of a thread's state: `values` and `as_node`. The update is planned and committed by
//! `agent`.

use agent::{Continuation, Error, Result, StateChange, ThreadError};
use jiff::Timestamp;
use protocol::{CheckpointId, ThreadId};
use serde_json::{Map, Value};

use super::MESSAGES_KEY;
use super::messages::{MessageDestination, read_messages};
use crate::wire::graph::{END_NODE, START_NODE};

/// The value of `as_node` that requests a copy of the checkpoint.
const COPY_NODE: &str = "__copy__";

/// Parses an update of the thread's state at the checkpoint `point`; `None` means the current one.
///
/// `values` are the channels to set; the channel `messages` is parsed like the messages of a run's input. `as_node`
/// is the node after which the thread continues; without it, the next node stays the same.
///
/// # Errors
/// [`ThreadError::InvalidStateChange`] if a message is malformed, or if there are values although `as_node` is
/// `__end__` or `__copy__`.
pub fn read_state_update(
    thread_id: ThreadId,
    values: Option<Map<String, Value>>,
    as_node: Option<&str>,
    point: Option<CheckpointId>,
) -> Result<StateChange> {
    let invalid = |reason: String| Error::from(ThreadError::InvalidStateChange { thread_id, reason });
    let mut channels = values.unwrap_or_default();
    if let Some(node @ (END_NODE | COPY_NODE)) = as_node
        && !channels.is_empty()
    {
        return Err(invalid(format!("`values` must be empty if `as_node` is `{node}`")));
    }
    let continuation = match as_node {
        None => Continuation::Unchanged,
        Some(START_NODE) => Continuation::AtEntry,
        Some(END_NODE) => Continuation::Idle,
        Some(COPY_NODE) => Continuation::Copy,
        Some(node) => Continuation::After(node.to_owned()),
    };
    let messages = channels.shift_remove(MESSAGES_KEY).unwrap_or_default();
    let to = MessageDestination { thread_id, received_at: Timestamp::now() };
    let messages = read_messages(&messages, Some(to)).map_err(|error| invalid(error.to_string()))?;
    Ok(StateChange { messages, channels, continuation, point })
}
