//! Reads how a client changes the state of a thread: `values`, and `as_node`.

use agent::{Continuation, Error, Result, StateChange, ThreadError};
use jiff::Timestamp;
use protocol::{CheckpointId, ThreadId};
use serde_json::{Map, Value};

use super::MESSAGES_KEY;
use super::messages::{MessageDestination, read_messages};
use crate::wire::graph::{END_NODE, START_NODE};

/// As which node a point is written once more.
const COPY_NODE: &str = "__copy__";

/// Reads a change of the thread's state at `point`, or at its head.
///
/// # Errors
/// [`ThreadError::InvalidStateChange`] with what cannot be read.
pub fn read_state_update(
    thread_id: ThreadId,
    values: Option<Map<String, Value>>,
    as_node: Option<&str>,
    point: Option<CheckpointId>,
) -> Result<StateChange> {
    let refused = |reason: String| Error::from(ThreadError::InvalidStateChange { thread_id, reason });
    let mut channels = values.unwrap_or_default();
    if let Some(node @ (END_NODE | COPY_NODE)) = as_node
        && !channels.is_empty()
    {
        return Err(refused(format!("as `{node}` nothing can be put in")));
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
    let messages = read_messages(&messages, Some(to)).map_err(|fault| refused(fault.to_string()))?;
    Ok(StateChange { messages, channels, continuation, point })
}
