//! Reads how a client changes the state of a thread: `values`, and `as_node`.

use agent::{Continuation, Error, Result, StateChange, ThreadError};
use jiff::Timestamp;
use protocol::{CheckpointId, ThreadId};
use serde_json::{Map, Value};

use super::MESSAGES;
use super::messages::{Destination, messages_in};
use crate::wire::graph::{END, START};

/// As which node a point is written once more.
const COPY: &str = "__copy__";

/// Reads a change of the thread's state at `point`, or at its head.
///
/// # Errors
/// [`ThreadError::StateChange`] with what cannot be read.
pub fn read_change(
    thread_id: ThreadId,
    values: Option<Map<String, Value>>,
    as_node: Option<&str>,
    point: Option<CheckpointId>,
) -> Result<StateChange> {
    let refused = |reason: String| Error::from(ThreadError::StateChange { thread_id, reason });
    let mut channels = values.unwrap_or_default();
    if let Some(node @ (END | COPY)) = as_node
        && !channels.is_empty()
    {
        return Err(refused(format!("as `{node}` nothing can be put in")));
    }
    let continuation = match as_node {
        None => Continuation::Unchanged,
        Some(START) => Continuation::AtEntry,
        Some(END) => Continuation::Idle,
        Some(COPY) => Continuation::Copied,
        Some(node) => Continuation::After(node.to_owned()),
    };
    let messages = channels.shift_remove(MESSAGES).unwrap_or_default();
    let to = Destination { thread_id, at: Timestamp::now() };
    let messages = messages_in(&messages, Some(to)).map_err(|fault| refused(fault.to_string()))?;
    Ok(StateChange { messages, channels, continuation, point })
}
