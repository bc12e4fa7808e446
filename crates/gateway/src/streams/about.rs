//! What every event of a run says of where it comes from: the run, its thread, its assistant, the step. Nothing here
//! changes while the run works, but the step.

use std::sync::Arc;

use agent::{State, Within};
use jiff::Timestamp;
use protocol::{CheckpointId, RunId, ThreadId};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// The run that is told of.
#[derive(Debug, Clone)]
pub(crate) struct About {
    pub(crate) thread_id: ThreadId,
    pub(crate) run_id: RunId,
    /// Where within the run what is told happens: nothing at its root, otherwise the calls that lead there, divided by `|`.
    pub(crate) namespace: Arc<str>,
    /// The call whose sub-agent is told of.
    pub(crate) call_id: Option<String>,
    /// The thread with the messages: the run's, or the sub-agent's.
    pub(crate) held_in: ThreadId,
    /// The assistant's plain name.
    pub(crate) graph_id: String,
    /// The assistant's id on the wire.
    pub(crate) assistant_id: String,
    /// The notes of the client about the run.
    pub(crate) metadata: Map<String, Value>,
    /// The tags of the client.
    pub(crate) tags: Vec<String>,
    /// Whether the client wants to see what sub-agents do.
    pub(crate) subgraphs: Subgraphs,
}

/// Whether what happens in sub-agents is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subgraphs {
    Told,
    LeftOut,
}

/// The step that is under way.
#[derive(Debug, Clone, Default)]
pub(crate) struct Step {
    pub(crate) node: String,
    pub(crate) number: u64,
    /// The point that it begins at, where that is known.
    pub(crate) after: Option<CheckpointId>,
}

impl About {
    /// Returns what is said of what the sub-agent does.
    pub(crate) fn within(&self, within: &Within) -> Self {
        let Within { call_id, thread_id, .. } = within;
        let divided = if self.namespace.is_empty() { "" } else { "|" };
        Self {
            namespace: format!("{}{divided}tools:{call_id}", self.namespace).into(),
            call_id: Some(call_id.clone()),
            held_in: *thread_id,
            ..self.clone()
        }
    }

    /// Returns the id of the step's task: that of the state at the point where it begins.
    pub(crate) fn task_id(&self, step: &Step) -> String {
        match step.after {
            Some(point) => agent::task_id(point, &step.node),
            None => {
                let name = format!("{}:{}", step.number, step.node);
                Uuid::new_v5(&self.run_id.uuid(), name.as_bytes()).hyphenated().to_string()
            }
        }
    }

    /// Returns what is told beside a message: the client's own notes, and where the message comes from.
    pub(crate) fn of_message(&self, step: &Step) -> Arc<RawValue> {
        let divided = if self.namespace.is_empty() { "" } else { "|" };
        let namespace = format!("{}{divided}{}:{}", self.namespace, step.node, self.task_id(step));
        let mut told = self.metadata.clone();
        let own = json!({
            "run_id": self.run_id, "thread_id": self.thread_id, "graph_id": self.graph_id,
            "assistant_id": self.assistant_id, "run_attempt": 1,
            "langgraph_node": step.node, "langgraph_step": step.number,
            "langgraph_triggers": [trigger(&step.node)], "langgraph_path": ["__pregel_pull", step.node],
            "langgraph_checkpoint_ns": namespace, "checkpoint_ns": namespace,
        });
        if let Value::Object(own) = own {
            told.extend(own);
        }
        if !self.tags.is_empty() {
            told.insert("tags".to_owned(), json!(self.tags));
        }
        let raw = serde_json::value::to_raw_value(&told).expect("a map of JSON values is JSON");
        Arc::from(raw)
    }

    /// Returns what is told of a step that begins.
    pub(crate) fn task_began(&self, step: &Step, input: &impl serde::Serialize) -> Value {
        json!({
            "id": self.task_id(step), "name": step.node, "input": input,
            "triggers": [trigger(&step.node)], "metadata": {},
        })
    }

    /// Returns what is told of a step that ended.
    pub(crate) fn task_ended(&self, step: &Step, ended: &TaskEnd<'_>) -> Value {
        json!({
            "id": self.task_id(step), "name": step.node, "error": ended.error,
            "result": ended.result, "interrupts": ended.interrupts,
        })
    }
}

/// How a step ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TaskEnd<'a> {
    pub(crate) error: Option<&'a str>,
    pub(crate) result: &'a Map<String, Value>,
    pub(crate) interrupts: &'a [crate::wire::Interrupt],
}

/// Puts what is told of a step or a point into the envelope of the mode `debug`.
pub(crate) fn debug(kind: &str, step: i64, at: Timestamp, payload: &Value) -> Value {
    json!({"step": step, "timestamp": crate::wire::timestamp(at), "type": kind, "payload": payload})
}

/// Returns what is told of a point of the thread's past.
pub(crate) fn point(thread_id: ThreadId, state: &State) -> Value {
    let told = crate::wire::state::ThreadState::of(thread_id, Some(state));
    let mut told = serde_json::to_value(told).unwrap_or_default();
    let config = |checkpoint: &Value| match checkpoint {
        Value::Null => Value::Null,
        given => json!({"configurable": given}),
    };
    let (checkpoint, parent) = (told["checkpoint"].take(), told["parent_checkpoint"].take());
    json!({
        "config": config(&checkpoint), "parent_config": config(&parent),
        "values": told["values"].take(), "metadata": told["metadata"].take(),
        "next": told["next"].take(), "tasks": told["tasks"].take(),
        "checkpoint": checkpoint, "parent_checkpoint": parent,
    })
}

fn trigger(node: &str) -> String {
    format!("branch:to:{node}")
}
