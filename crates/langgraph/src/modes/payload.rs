//! The payloads of events in the modes `messages`, `tasks`, `checkpoints`, `debug` and `custom`, in LangGraph's shapes.

use agent::ThreadSnapshot;
use jiff::Timestamp;
use protocol::ThreadId;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::streams::item::ItemSource;
use crate::wire;

/// The outcome of a step.
#[derive(Debug, Clone, Copy)]
pub(super) struct TaskResult<'a> {
    /// The message of the failure; `None` if the step succeeded or was interrupted.
    pub(super) error: Option<&'a str>,
    /// The channels that the step wrote. Empty after a failure or an interrupt.
    pub(super) result: &'a Map<String, Value>,
    /// The interrupts that the step raised.
    pub(super) interrupts: &'a [wire::Interrupt],
}

/// Returns the metadata that accompanies the messages of a step: the metadata that the client gave to the run,
/// overwritten by the run, the thread, the assistant, the node and the namespace. It is computed once per step,
/// because each delta of a message is sent with it.
pub(super) fn message_metadata<'a>(source: &ItemSource<'a>) -> &'a RawValue {
    let ItemSource { origin, step, .. } = *source;
    step.message_metadata.get_or_init(|| {
        let separator = if origin.namespace.is_empty() { "" } else { "|" };
        let namespace = format!("{}{separator}{}:{}", origin.namespace, step.node, origin.task_id(step));
        let mut metadata = origin.metadata.clone();
        let server_fields = json!({
            "run_id": origin.run_id, "thread_id": origin.thread_id, "graph_id": origin.graph_id,
            "assistant_id": origin.assistant_id, "run_attempt": 1,
            "langgraph_node": step.node, "langgraph_step": step.number,
            "langgraph_triggers": [trigger_name(&step.node)], "langgraph_path": ["__pregel_pull", step.node],
            "langgraph_checkpoint_ns": namespace, "checkpoint_ns": namespace,
        });
        if let Value::Object(server_fields) = server_fields {
            metadata.extend(server_fields);
        }
        if !origin.tags.is_empty() {
            metadata.insert("tags".to_owned(), json!(origin.tags));
        }
        let raw = serde_json::value::to_raw_value(&metadata).expect("a map of JSON values is JSON");
        raw.into()
    })
}

/// Returns the payload for the start of a step. `input` is the state with which the step starts.
pub(super) fn task_started_payload(source: &ItemSource<'_>, input: &impl Serialize) -> Value {
    let ItemSource { origin, step, .. } = source;
    json!({
        "id": origin.task_id(step), "name": step.node, "input": input,
        "triggers": [trigger_name(&step.node)], "metadata": {},
    })
}

/// Returns the payload for the end of a step.
pub(super) fn task_ended_payload(source: &ItemSource<'_>, outcome: &TaskResult<'_>) -> Value {
    let ItemSource { origin, step, .. } = source;
    json!({
        "id": origin.task_id(step), "name": step.node, "error": outcome.error,
        "result": outcome.result, "interrupts": outcome.interrupts,
    })
}

/// Returns the envelope of the mode `debug` around a payload of a step or checkpoint. `kind` is `task`, `task_result`
/// or `checkpoint`.
pub(super) fn debug_payload(kind: &str, step: i64, time: Timestamp, payload: &Value) -> Value {
    json!({"step": step, "timestamp": wire::timestamp(time), "type": kind, "payload": payload})
}

/// Returns the payload for a checkpoint: the thread state of the API, with the checkpoints in LangGraph's `config`
/// form in addition.
pub(super) fn checkpoint_payload(thread_id: ThreadId, state: &ThreadSnapshot) -> Value {
    let state = wire::state::ThreadState::from_state(thread_id, Some(state));
    let mut state = serde_json::to_value(state).unwrap_or_default();
    let config = |checkpoint: &Value| match checkpoint {
        Value::Null => Value::Null,
        checkpoint => json!({"configurable": checkpoint}),
    };
    let (checkpoint, parent) = (state["checkpoint"].take(), state["parent_checkpoint"].take());
    json!({
        "config": config(&checkpoint), "parent_config": config(&parent),
        "values": state["values"].take(), "metadata": state["metadata"].take(),
        "next": state["next"].take(), "tasks": state["tasks"].take(),
        "checkpoint": checkpoint, "parent_checkpoint": parent,
    })
}

/// Returns the payload of a custom event: the fields of `payload` with the event's name as `type`. A payload that is
/// no object becomes the field `value`.
pub(super) fn custom_payload(name: &str, payload: &Value) -> Value {
    let mut event = Map::from_iter([("type".to_owned(), Value::from(name))]);
    match payload {
        Value::Object(fields) => {
            event.extend(fields.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        other => drop(event.insert("value".to_owned(), other.clone())),
    }
    Value::Object(event)
}

/// Returns the name of the channel that triggers a node in LangGraph.
fn trigger_name(node: &str) -> String {
    format!("branch:to:{node}")
}
