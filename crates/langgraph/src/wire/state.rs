//! States, checkpoints, tasks and interrupts as clients read them.

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

/// A state of a thread, at its head or at a point of its past.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ThreadState {
    /// The whole of it, `messages` included.
    pub values: StateValues,
    /// The nodes that would be executed next; none when nothing is to be done.
    pub next: Vec<String>,
    /// The next tasks, with their questions.
    pub tasks: Vec<ThreadTask>,
    /// How it came about.
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Value>,
    /// When it was written.
    pub created_at: Option<String>,
    /// Its point.
    pub checkpoint: Option<Checkpoint>,
    /// The point before.
    pub parent_checkpoint: Option<Checkpoint>,
    /// The pending interrupts.
    pub interrupts: Vec<Interrupt>,
    /// The id of its point, once more.
    #[serde(rename = "checkpoint_id")]
    pub point: Option<String>,
    /// The id of the point before, once more.
    pub parent_checkpoint_id: Option<String>,
}

/// Names a point of a thread's past.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Checkpoint {
    /// The thread.
    #[schema(value_type = String, format = Uuid)]
    pub thread_id: ThreadId,
    /// Which graph within: `""`, the outermost.
    pub checkpoint_ns: &'static str,
    /// The point.
    #[serde(rename = "checkpoint_id")]
    pub point: String,
    /// Those of the graphs within.
    #[schema(value_type = Option<Object>)]
    pub checkpoint_map: Option<Value>,
}

/// A node that is to be executed, or that asks.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct ThreadTask {
    /// Its id, the same whenever the point is read.
    #[schema(format = "uuid")]
    pub id: String,
    /// The node.
    pub name: String,
    /// Where in the graph it is.
    pub path: Vec<String>,
    /// How it failed.
    pub error: Option<String>,
    /// The questions of the task.
    pub interrupts: Vec<Interrupt>,
    /// Its own point.
    #[schema(value_type = Option<Object>)]
    pub checkpoint: Option<Value>,
    /// Its own state.
    #[schema(value_type = Option<Object>)]
    pub state: Option<Value>,
    /// The result of the task.
    #[schema(value_type = Option<Object>)]
    pub result: Option<Value>,
}

/// A pending interrupt. It has exactly these two fields, because clients unpack it into a type of their own.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Interrupt {
    /// 32 lowercase hex digits.
    #[schema(pattern = "^[0-9a-f]{32}$")]
    pub id: String,
    /// The question.
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

/// The values of a state. Messages are written as they were made once; a long thread is put together, not made again.
#[derive(Debug, Clone)]
pub(crate) struct StateValues {
    thread_id: ThreadId,
    messages: Option<Vec<Arc<StateMessage>>>,
    channels: Map<String, Value>,
    interrupts: Vec<Interrupt>,
}

impl StateValues {
    /// Returns the values of a state.
    pub fn from_state(thread_id: ThreadId, state: &ThreadSnapshot) -> Self {
        let (messages, channels) = (Some(state.messages.clone()), state.channels.clone());
        Self { thread_id, messages, channels, interrupts: Vec::new() }
    }

    /// Returns the values of a thread in which nothing happened.
    pub fn empty(thread_id: ThreadId) -> Self {
        Self { thread_id, messages: None, channels: Map::new(), interrupts: Vec::new() }
    }

    /// Adds what waits for an answer as `__interrupt__`, as results tell it.
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

/// Writes the values of a state: the messages, what else it holds, and what waits for an answer, if anything does.
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

/// Messages, each written as it was made once.
pub(crate) struct MessageList<'a> {
    /// The thread they are of.
    pub thread_id: ThreadId,
    /// The messages, in order.
    pub messages: &'a [Arc<StateMessage>],
}

impl Serialize for MessageList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer
            .collect_seq(self.messages.iter().map(|one| &**message::render_message(self.thread_id, one)))
    }
}

impl PartialSchema for StateValues {
    fn schema() -> RefOr<Schema> {
        any_object()
    }
}

impl ToSchema for StateValues {}

impl Checkpoint {
    /// Returns the name of a point.
    pub fn new(thread_id: ThreadId, point: &str) -> Self {
        Self { thread_id, checkpoint_ns: "", point: point.to_owned(), checkpoint_map: None }
    }
}

impl ThreadState {
    /// Returns a state as clients read it; `None` is that of a thread in which nothing happened.
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

/// Returns what wrote a state, by its name.
pub(crate) const fn checkpoint_source(state: &ThreadSnapshot) -> &'static str {
    match state.origin {
        StateOrigin::Input => "input",
        StateOrigin::Step => "loop",
        StateOrigin::Change => "update",
        StateOrigin::Rewind => "fork",
    }
}

/// Returns what wrote a state and where it stands, with what the client noted about the run.
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

/// Returns the metadata without what a client claimed that is the server's to say.
fn public_metadata(thread_id: ThreadId, state: &ThreadSnapshot) -> Map<String, Value> {
    const OURS: [&str; 3] = ["graph_id", "assistant_id", "created_by"];
    let told = checkpoint_metadata(thread_id, state).into_iter();
    told.filter(|(key, _)| !OURS.contains(&key.as_str())).collect()
}

/// Returns the places that would come next.
fn next_nodes(state: &ThreadSnapshot) -> Vec<String> {
    match state.origin {
        StateOrigin::Input => vec![START_NODE.to_owned()],
        StateOrigin::Step | StateOrigin::Change | StateOrigin::Rewind => state.next.clone(),
    }
}

/// Returns the id of the task that `node` has at a point: a UUID, the same on every request.
pub(crate) fn task_id(point: CheckpointId, node: &str) -> String {
    Uuid::new_v5(&point.uuid(), node.as_bytes()).hyphenated().to_string()
}

/// Returns what is to be done at a point: a task for each node that comes next, with what it asks.
pub(crate) fn pending_tasks(state: &ThreadSnapshot) -> Vec<ThreadTask> {
    let task = |name: &String| ThreadTask {
        id: task_id(state.checkpoint_id, name),
        name: name.clone(),
        path: vec!["__pregel_pull".to_owned(), name.clone()],
        error: state.error.clone(),
        interrupts: state.interrupts.iter().filter(|one| one.node == *name).map(Interrupt::from).collect(),
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
    fn the_metadata_of_a_state_says_what_wrote_it_whatever_a_client_noted() {
        let (thread_id, run_id) = (ThreadId::generate(), RunId::generate());
        let noted = json!({"tag": "x", "step": "mine", "graph_id": "other"});
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
                run_metadata: noted.as_object().unwrap().clone(),
            };
            let told = ThreadState::from_state(thread_id, Some(&state));
            let expected = json!({
                "tag": "x", "step": -1, "source": source, "thread_id": thread_id, "parents": {}, "run_id": run_id,
            });
            assert_eq!(
                (told.metadata, told.next),
                (Some(expected), next.into_iter().map(str::to_owned).collect())
            );
        }
    }

    #[test]
    fn the_id_of_a_task_is_a_uuid_that_follows_from_the_point_and_the_node() {
        let (one, other) = (CheckpointId::generate(), CheckpointId::generate());
        let id = task_id(one, "tools");
        assert!(Uuid::try_parse(&id).is_ok());
        assert_eq!(id, task_id(one, "tools"));
        assert_ne!(id, task_id(one, "model"));
        assert_ne!(id, task_id(other, "tools"));
    }
}
