//! Interrupts: what a paused run asks a person. Raising and resolving them is the runtime's work.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::decision::Decisions;
use crate::ids::{InterruptId, RunId, ThreadId};

/// What a client is shown when a run pauses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InterruptPayload {
    /// Version of this shape.
    pub schema_version: u32,
    /// The wire name of the middleware that asks, such as `HandoffApprovalMiddleware`.
    pub middleware_source: String,
    /// What is to be decided; one decision answers each.
    pub action_requests: Vec<ActionRequest>,
    /// Which decisions each action accepts: one for each request, in the same order.
    pub review_configs: Vec<ReviewConfig>,
}

impl InterruptPayload {
    /// Returns which decisions the request at that place accepts. Questions that were stored with one for each name of an
    /// action are read by the name.
    pub fn review_config(&self, at: usize) -> Option<&ReviewConfig> {
        let name = &self.action_requests.get(at)?.name;
        let is_named = |config: &&ReviewConfig| config.action_name == *name;
        let own = self.review_configs.get(at).filter(is_named);
        own.or_else(|| self.review_configs.iter().find(is_named))
    }
}

/// One thing to decide.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActionRequest {
    /// The action's name, such as `handoff_summary`.
    pub name: String,
    /// One sentence for people.
    pub description: String,
    /// The action's own arguments.
    pub args: Value,
    /// What helps a person decide and is not part of the action: the diff, warnings, the rule that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

/// Which decisions an action accepts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewConfig {
    /// The action's name.
    pub action_name: String,
    /// The `type`s of decision it accepts.
    pub allowed_decisions: Vec<String>,
}

/// Whether an interrupt still waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InterruptStatus {
    /// Nobody has answered.
    Pending,
    /// Answered; the decisions are stored with it.
    Resolved,
    /// Given up: the thread or the request went away.
    Withdrawn,
}

impl InterruptStatus {
    /// Returns the stored name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Resolved => "resolved",
            Self::Withdrawn => "withdrawn",
        }
    }
}

/// One stored interrupt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interrupt {
    /// Its id, the same wherever it is shown.
    pub interrupt_id: InterruptId,
    /// The paused thread.
    pub thread_id: ThreadId,
    /// The run that raised it.
    pub run_id: RunId,
    /// The node that raised it and reads the answer.
    pub node: String,
    /// What a client is shown.
    pub payload: InterruptPayload,
    /// Whether it still waits.
    pub status: InterruptStatus,
    /// The answer, once there is one.
    pub decisions: Option<Decisions>,
    /// When it was raised.
    pub created_at: Timestamp,
    /// When it was answered.
    pub resolved_at: Option<Timestamp>,
}
