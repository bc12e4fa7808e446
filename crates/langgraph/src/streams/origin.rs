//! The origin of every item of a run: the run, its thread, its assistant and the step. Only the step changes while the
//! run is active.

use std::sync::{Arc, OnceLock};

use agent::SubagentFrame;
use protocol::{CheckpointId, RunId, ThreadId};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::wire::state::task_id;

/// The run that is told of.
#[derive(Debug, Clone)]
pub(crate) struct RunOrigin {
    pub(crate) thread_id: ThreadId,
    pub(crate) run_id: RunId,
    /// Where within the run what is told happens: nothing at its root, otherwise the calls that lead there, divided by `|`.
    pub(crate) namespace: Arc<str>,
    /// The call whose sub-agent is told of.
    pub(crate) call_id: Option<String>,
    /// The thread with the messages: the run's, or the sub-agent's.
    pub(crate) message_thread_id: ThreadId,
    /// The assistant's plain name.
    pub(crate) graph_id: String,
    /// The assistant's id on the wire.
    pub(crate) assistant_id: String,
    /// The notes of the client about the run.
    pub(crate) metadata: Map<String, Value>,
    /// The tags of the client.
    pub(crate) tags: Vec<String>,
    /// Selects whether the client receives items of sub-agents.
    pub(crate) subgraphs: SubgraphStreaming,
}

/// Selects whether items of sub-agents are streamed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SubgraphStreaming {
    Included,
    Excluded,
}

/// The step that is under way.
#[derive(Debug, Clone, Default)]
pub(crate) struct CurrentStep {
    pub(crate) node: String,
    pub(crate) number: u64,
    /// The point that it begins at, where that is known.
    pub(crate) start_checkpoint: Option<CheckpointId>,
    /// True if the step was announced; a step without effect is not.
    pub(crate) is_announced: bool,
    /// The metadata of each of its messages, computed on first use.
    pub(crate) message_metadata: OnceLock<Arc<RawValue>>,
}

impl RunOrigin {
    /// Returns whether this is the run itself, and none of its sub-agents.
    pub(crate) const fn is_root(&self) -> bool {
        self.call_id.is_none()
    }

    /// Returns what is said of what the sub-agent does.
    pub(crate) fn for_subagent(&self, within: &SubagentFrame) -> Self {
        let SubagentFrame { call_id, thread_id, .. } = within;
        let divided = if self.namespace.is_empty() { "" } else { "|" };
        Self {
            namespace: format!("{}{divided}tools:{call_id}", self.namespace).into(),
            call_id: Some(call_id.clone()),
            message_thread_id: *thread_id,
            ..self.clone()
        }
    }

    /// Returns the id of the step's task: that of the state at the point where it begins.
    pub(crate) fn task_id(&self, step: &CurrentStep) -> String {
        match step.start_checkpoint {
            Some(point) => task_id(point, &step.node),
            None => {
                let name = format!("{}:{}", step.number, step.node);
                Uuid::new_v5(&self.run_id.uuid(), name.as_bytes()).hyphenated().to_string()
            }
        }
    }
}
