//! The origin of a stream item: the run or sub-agent that produced it, the thread, the assistant, and the current step.
//! Only the step changes while the run is active.

use std::sync::{Arc, OnceLock};

use agent::SubagentFrame;
use protocol::{CheckpointId, RunId, ThreadId};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::wire::state::task_id;

/// The run, or the sub-agent of a run, that produces stream items.
#[derive(Debug, Clone)]
pub(crate) struct RunOrigin {
    pub(crate) thread_id: ThreadId,
    pub(crate) run_id: RunId,
    /// The LangGraph namespace. It is empty for the run itself. For a sub-agent it is the path of the tool calls that
    /// started it and its ancestors, such as `tools:c1|tools:c2`.
    pub(crate) namespace: Arc<str>,
    /// The tool call that started the sub-agent; `None` for the run itself.
    pub(crate) call_id: Option<String>,
    /// The thread that contains the messages: the thread of the run, or the thread of the sub-agent.
    pub(crate) message_thread_id: ThreadId,
    /// The name of the assistant, without its owner.
    pub(crate) graph_id: String,
    /// The id of the assistant on the wire, a UUID.
    pub(crate) assistant_id: String,
    /// The metadata that the client gave to the run.
    pub(crate) metadata: Map<String, Value>,
    /// The tags that the client gave to the run.
    pub(crate) tags: Vec<String>,
    /// The client's choice to receive items of sub-agents or not.
    pub(crate) subgraphs: SubgraphStreaming,
}

/// Selects whether items of sub-agents are streamed. The LangGraph API calls a sub-agent a subgraph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SubgraphStreaming {
    Included,
    Excluded,
}

/// The step that is running.
#[derive(Debug, Clone, Default)]
pub(crate) struct CurrentStep {
    /// The node of the step; empty before the first step.
    pub(crate) node: String,
    /// The number of the step within the run.
    pub(crate) number: u64,
    /// The checkpoint at which the step starts; `None` if it is unknown.
    pub(crate) start_checkpoint: Option<CheckpointId>,
    /// True if the event for the start of the step was sent. It is sent together with the first effect of the step, so
    /// that clients do not see steps without an effect.
    pub(crate) is_announced: bool,
    /// The metadata that is sent with the messages of the step, as JSON. It is computed on first use.
    pub(crate) message_metadata: OnceLock<Arc<RawValue>>,
}

impl RunOrigin {
    /// Returns whether this origin is the run itself, and not one of its sub-agents.
    pub(crate) const fn is_root(&self) -> bool {
        self.call_id.is_none()
    }

    /// Returns the origin of the items of the frame's sub-agent.
    pub(crate) fn for_subagent(&self, frame: &SubagentFrame) -> Self {
        let SubagentFrame { call_id, thread_id, .. } = frame;
        let separator = if self.namespace.is_empty() { "" } else { "|" };
        Self {
            namespace: format!("{}{separator}tools:{call_id}", self.namespace).into(),
            call_id: Some(call_id.clone()),
            message_thread_id: *thread_id,
            ..self.clone()
        }
    }

    /// Returns the id of the step's task. It equals the task id in the state of the checkpoint at which the step
    /// starts; if that checkpoint is unknown, the id is derived from the run and the step.
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
