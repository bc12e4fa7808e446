//! The payloads of the modes for messages, steps and checkpoints.

use agent::ThreadSnapshot;
use jiff::Timestamp;
use protocol::ThreadId;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::streams::item::ItemSource;
use crate::wire;

/// How a step ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct TaskResult<'a> {
    pub(super) error: Option<&'a str>,
    pub(super) result: &'a Map<String, Value>,
    pub(super) interrupts: &'a [wire::Interrupt],
}

/// Returns what is sent with the messages of a step: the client's own notes, and where the messages come from.
pub(super) fn message_metadata<'a>(source: &ItemSource<'a>) -> &'a RawValue {
    let ItemSource { origin: about, step, .. } = *source;
    step.message_metadata.get_or_init(|| {
        let divided = if about.namespace.is_empty() { "" } else { "|" };
        let namespace = format!("{}{divided}{}:{}", about.namespace, step.node, about.task_id(step));
        let mut metadata = about.metadata.clone();
        let own = json!({
            "run_id": about.run_id, "thread_id": about.thread_id, "graph_id": about.graph_id,
            "assistant_id": about.assistant_id, "run_attempt": 1,
            "langgraph_node": step.node, "langgraph_step": step.number,
            "langgraph_triggers": [trigger_name(&step.node)], "langgraph_path": ["__pregel_pull", step.node],
            "langgraph_checkpoint_ns": namespace, "checkpoint_ns": namespace,
        });
        if let Value::Object(own) = own {
            metadata.extend(own);
        }
        if !about.tags.is_empty() {
            metadata.insert("tags".to_owned(), json!(about.tags));
        }
        let raw = serde_json::value::to_raw_value(&metadata).expect("a map of JSON values is JSON");
        raw.into()
    })
}

/// Returns what is sent of a step that begins.
pub(super) fn task_started_payload(source: &ItemSource<'_>, input: &impl Serialize) -> Value {
    let ItemSource { origin: about, step, .. } = source;
    json!({
        "id": about.task_id(step), "name": step.node, "input": input,
        "triggers": [trigger_name(&step.node)], "metadata": {},
    })
}

/// Returns what is sent of a step that ended.
pub(super) fn task_ended_payload(source: &ItemSource<'_>, ended: &TaskResult<'_>) -> Value {
    let ItemSource { origin: about, step, .. } = source;
    json!({
        "id": about.task_id(step), "name": step.node, "error": ended.error,
        "result": ended.result, "interrupts": ended.interrupts,
    })
}

/// Puts what is sent of a step or a point into the envelope of the mode `debug`.
pub(super) fn debug_payload(kind: &str, step: i64, at: Timestamp, payload: &Value) -> Value {
    json!({"step": step, "timestamp": wire::timestamp(at), "type": kind, "payload": payload})
}

/// Returns what is sent of a point of the thread's past.
pub(super) fn checkpoint_payload(thread_id: ThreadId, state: &ThreadSnapshot) -> Value {
    let state = wire::state::ThreadState::from_state(thread_id, Some(state));
    let mut state = serde_json::to_value(state).unwrap_or_default();
    let config = |checkpoint: &Value| match checkpoint {
        Value::Null => Value::Null,
        given => json!({"configurable": given}),
    };
    let (checkpoint, parent) = (state["checkpoint"].take(), state["parent_checkpoint"].take());
    json!({
        "config": config(&checkpoint), "parent_config": config(&parent),
        "values": state["values"].take(), "metadata": state["metadata"].take(),
        "next": state["next"].take(), "tasks": state["tasks"].take(),
        "checkpoint": checkpoint, "parent_checkpoint": parent,
    })
}

/// Returns what a tool or hook tells, marked with what it is.
pub(super) fn custom_payload(name: &str, payload: &Value) -> Value {
    let mut marked = Map::from_iter([("type".to_owned(), Value::from(name))]);
    match payload {
        Value::Object(fields) => {
            marked.extend(fields.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        other => drop(marked.insert("value".to_owned(), other.clone())),
    }
    Value::Object(marked)
}

fn trigger_name(node: &str) -> String {
    format!("branch:to:{node}")
}
