//! States, checkpoints, tasks and interrupts on the wire.

use std::sync::Arc;

use agent::{StateMessage, StateOrigin, ThreadSnapshot};
use protocol::{CheckpointId, ThreadId};
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema, ToSchema};
use uuid::Uuid;

use super::graph::START_NODE;
use super::{any_object, message, timestamp};

/// The state of a thread at a checkpoint.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ThreadState {
    /// The values of the channels, including `messages`.
    pub values: StateValues,
    /// The nodes that would run next. Empty if the thread is idle.
    pub next: Vec<String>,
    /// The tasks of these nodes, with their interrupts.
    pub tasks: Vec<ThreadTask>,
    /// The origin of the checkpoint: `source`, `step`, the run, and the run's metadata. `null` for an empty thread.
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Value>,
    /// The creation time of the checkpoint.
    pub created_at: Option<String>,
    /// The checkpoint.
    pub checkpoint: Option<Checkpoint>,
    /// The checkpoint before it on its branch.
    pub parent_checkpoint: Option<Checkpoint>,
    /// The pending interrupts of all tasks.
    pub interrupts: Vec<Interrupt>,
    /// The id of `checkpoint`, for older clients.
    #[serde(rename = "checkpoint_id")]
    pub point: Option<String>,
    /// The id of `parent_checkpoint`, for older clients.
    pub parent_checkpoint_id: Option<String>,
}

/// A reference to a checkpoint of a thread.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Checkpoint {
    /// The thread.
    #[schema(value_type = String, format = Uuid)]
    pub thread_id: ThreadId,
    /// The namespace of the subgraph. Always empty, which means the root graph.
    pub checkpoint_ns: &'static str,
    /// The id of the checkpoint.
    #[serde(rename = "checkpoint_id")]
    pub point: String,
    /// The checkpoints of subgraphs. Always `null`.
    #[schema(value_type = Option<Object>)]
    pub checkpoint_map: Option<Value>,
}

/// A node that runs next, or that has raised an interrupt.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct ThreadTask {
    /// The id of the task. It is the same each time the checkpoint is read.
    #[schema(format = "uuid")]
    pub id: String,
    /// The name of the node.
    pub name: String,
    /// The path of the task in the graph, in the form of LangGraph.
    pub path: Vec<String>,
    /// The failure of the run that ended there.
    pub error: Option<String>,
    /// The interrupts that the task raised.
    pub interrupts: Vec<Interrupt>,
    /// The checkpoint of a subgraph. Always `null`.
    #[schema(value_type = Option<Object>)]
    pub checkpoint: Option<Value>,
    /// The state of a subgraph. Always `null`.
    #[schema(value_type = Option<Object>)]
    pub state: Option<Value>,
    /// The result of the task. Always `null`, because the task has not finished.
    #[schema(value_type = Option<Object>)]
    pub result: Option<Value>,
}

/// A pending interrupt. It has exactly these two fields, because clients unpack it into a type of their own.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Interrupt {
    /// The id: 32 lowercase hex digits.
    #[schema(pattern = "^[0-9a-f]{32}$")]
    pub id: String,
    /// The payload: the actions to decide on, and the decisions that are allowed.
    pub value: Value,
}

impl From<&protocol::Interrupt> for Interrupt {
    fn from(interrupt: &protocol::Interrupt) -> Self {
        let mut payload = interrupt.payload.clone();
        agent::show_assistant_name(&mut payload);
        let value = serde_json::to_value(payload).expect("a payload with text keys is always JSON");
        Self { id: interrupt.interrupt_id.to_string(), value }
    }
}

/// The values of a state. The JSON of each message is cached in the message, so that serializing a long thread copies
/// the messages instead of rendering them.
#[derive(Debug, Clone)]
pub(crate) struct StateValues {
    thread_id: ThreadId,
    /// The messages in order; `None` leaves out the channel, for a thread without a checkpoint.
    messages: Option<Vec<Arc<StateMessage>>>,
    channels: Map<String, Value>,
    interrupts: Vec<Interrupt>,
}

impl StateValues {
    /// Returns the values of a state, without `__interrupt__`.
    pub fn from_state(thread_id: ThreadId, state: &ThreadSnapshot) -> Self {
        let (messages, channels) = (Some(state.messages.clone()), state.channels.clone());
        Self { thread_id, messages, channels, interrupts: Vec::new() }
    }

    /// Returns the values of a thread without a checkpoint.
    pub fn empty(thread_id: ThreadId) -> Self {
        Self { thread_id, messages: None, channels: Map::new(), interrupts: Vec::new() }
    }

    /// Adds the pending interrupts as `__interrupt__`, as the result of a run contains them.
    #[must_use]
    pub fn with_interrupts(self, interrupts: Vec<Interrupt>) -> Self {
        Self { interrupts, ..self }
    }
}

impl Serialize for StateValues {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let messages = self.messages.as_deref();
        let messages = messages.map(|messages| MessageList { thread_id: self.thread_id, messages });
        serialize_values(serializer, messages.as_ref(), &self.channels, &self.interrupts)
    }
}

/// Serializes the values of a state: the messages, the other channels, and `__interrupt__` if there are interrupts.
pub(crate) fn serialize_values<S: Serializer>(
    serializer: S,
    messages: Option<&impl Serialize>,
    channels: &Map<String, Value>,
    interrupts: &[Interrupt],
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    if let Some(messages) = messages {
        map.serialize_entry("messages", messages)?;
    }
    for (name, value) in channels {
        map.serialize_entry(name, value)?;
    }
    if !interrupts.is_empty() {
        map.serialize_entry("__interrupt__", interrupts)?;
    }
    map.end()
}

/// A list of messages that serializes the cached JSON of each.
pub(crate) struct MessageList<'a> {
    /// The thread of the messages.
    pub thread_id: ThreadId,
    /// The messages, in order.
    pub messages: &'a [Arc<StateMessage>],
}

impl Serialize for MessageList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer
            .collect_seq(self.messages.iter().map(|item| &**message::render_message(self.thread_id, item)))
    }
}

impl PartialSchema for StateValues {
    fn schema() -> RefOr<Schema> {
        any_object()
    }
}

impl ToSchema for StateValues {}

impl Checkpoint {
    /// Returns a reference to the checkpoint with the id `point`.
    pub fn new(thread_id: ThreadId, point: &str) -> Self {
        Self { thread_id, checkpoint_ns: "", point: point.to_owned(), checkpoint_map: None }
    }
}

impl ThreadState {
    /// Returns a state; `None` is the state of a thread without a checkpoint.
    pub fn from_state(thread_id: ThreadId, state: Option<&ThreadSnapshot>) -> Self {
        let Some(state) = state else { return Self::empty(thread_id) };
        Self {
            values: StateValues::from_state(thread_id, state),
            next: next_nodes(state),
            tasks: pending_tasks(state),
            metadata: Some(Value::Object(public_metadata(thread_id, state))),
            created_at: Some(timestamp(state.created_at)),
            checkpoint: Some(Checkpoint::new(thread_id, &state.checkpoint_id.to_string())),
            parent_checkpoint: state.parent_id.map(|id| Checkpoint::new(thread_id, &id.to_string())),
            interrupts: state.interrupts.iter().map(Interrupt::from).collect(),
            point: Some(state.checkpoint_id.to_string()),
            parent_checkpoint_id: state.parent_id.map(|id| id.to_string()),
        }
    }

    /// Returns the state of a thread without a checkpoint.
    fn empty(thread_id: ThreadId) -> Self {
        Self {
            values: StateValues::empty(thread_id),
            next: Vec::new(),
            tasks: Vec::new(),
            metadata: None,
            created_at: None,
            checkpoint: None,
            parent_checkpoint: None,
            interrupts: Vec::new(),
            point: None,
            parent_checkpoint_id: None,
        }
    }
}

/// Returns the origin of a state as LangGraph's `source`.
pub(crate) const fn checkpoint_source(state: &ThreadSnapshot) -> &'static str {
    match state.origin {
        StateOrigin::Input => "input",
        StateOrigin::Step => "loop",
        StateOrigin::Change => "update",
        StateOrigin::Rewind => "fork",
    }
}

/// Returns the metadata of a checkpoint: the metadata that the client gave to the run, overwritten by `source`, `step`,
/// `thread_id`, `parents` and `run_id`.
pub(crate) fn checkpoint_metadata(thread_id: ThreadId, state: &ThreadSnapshot) -> Map<String, Value> {
    let mut metadata = state.run_metadata.clone();
    metadata.extend(Map::from_iter([
        ("source".to_owned(), checkpoint_source(state).into()),
        ("step".to_owned(), state.number.into()),
        ("thread_id".to_owned(), thread_id.to_string().into()),
        ("parents".to_owned(), json!({})),
    ]));
    metadata.extend(state.run_id.map(|run_id| ("run_id".to_owned(), run_id.to_string().into())));
    metadata
}

/// Returns the metadata of a checkpoint without the keys that only the server sets, which a client may have claimed.
fn public_metadata(thread_id: ThreadId, state: &ThreadSnapshot) -> Map<String, Value> {
    const SERVER_KEYS: [&str; 3] = ["graph_id", "assistant_id", "created_by"];
    let metadata = checkpoint_metadata(thread_id, state).into_iter();
    metadata.filter(|(key, _)| !SERVER_KEYS.contains(&key.as_str())).collect()
}

/// Returns the nodes that would run next. Before an input, that is the entry of the graph.
fn next_nodes(state: &ThreadSnapshot) -> Vec<String> {
    match state.origin {
        StateOrigin::Input => vec![START_NODE.to_owned()],
        StateOrigin::Step | StateOrigin::Change | StateOrigin::Rewind => state.next.clone(),
    }
}

/// Returns the id of the task of `node` at a checkpoint: a version 5 UUID, so that it is the same for every request.
pub(crate) fn task_id(point: CheckpointId, node: &str) -> String {
    Uuid::new_v5(&point.uuid(), node.as_bytes()).hyphenated().to_string()
}

/// Returns a task for each node that runs next at a checkpoint, with the interrupts that the node raised.
pub(crate) fn pending_tasks(state: &ThreadSnapshot) -> Vec<ThreadTask> {
    let task = |name: &String| ThreadTask {
        id: task_id(state.checkpoint_id, name),
        name: name.clone(),
        path: vec!["__pregel_pull".to_owned(), name.clone()],
        error: state.error.clone(),
        interrupts: state
            .interrupts
            .iter()
            .filter(|interrupt| interrupt.node == *name)
            .map(Interrupt::from)
            .collect(),
        checkpoint: None,
        state: None,
        result: None,
    };
    next_nodes(state).iter().map(task).collect()
}

#[cfg(test)]
mod tests {
    use agent::ThreadSnapshot;
    use jiff::Timestamp;
    use protocol::RunId;

    use super::*;

    #[test]
    fn a_client_cannot_override_the_origin_in_the_metadata_of_a_state() {
        let (thread_id, run_id) = (ThreadId::generate(), RunId::generate());
        let client_metadata = json!({"tag": "x", "step": "mine", "graph_id": "other"});
        for (origin, source, next) in [
            (StateOrigin::Input, "input", vec!["__start__"]),
            (StateOrigin::Step, "loop", vec!["model"]),
            (StateOrigin::Change, "update", vec!["model"]),
            (StateOrigin::Rewind, "fork", vec!["model"]),
        ] {
            let state = ThreadSnapshot {
                checkpoint_id: CheckpointId::generate(),
                parent_id: None,
                origin,
                number: -1,
                run_id: Some(run_id),
                next: vec!["model".to_owned()],
                messages: Vec::new(),
                channels: Map::new(),
                interrupts: Vec::new(),
                error: None,
                created_at: Timestamp::UNIX_EPOCH,
                run_metadata: client_metadata.as_object().unwrap().clone(),
            };
            let wire = ThreadState::from_state(thread_id, Some(&state));
            let expected = json!({
                "tag": "x", "step": -1, "source": source, "thread_id": thread_id, "parents": {}, "run_id": run_id,
            });
            assert_eq!(
                (wire.metadata, wire.next),
                (Some(expected), next.into_iter().map(str::to_owned).collect())
            );
        }
    }

    #[test]
    fn a_task_id_is_a_uuid_derived_from_the_checkpoint_and_the_node() {
        let (first, second) = (CheckpointId::generate(), CheckpointId::generate());
        let id = task_id(first, "tools");
        assert!(Uuid::try_parse(&id).is_ok());
        assert_eq!(id, task_id(first, "tools"));
        assert_ne!(id, task_id(first, "model"));
        assert_ne!(id, task_id(second, "tools"));
    }
}
