//! Interrupts: what a paused run asks a person. Raising and resolving them is the runtime's work.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::decision::Decisions;
use crate::ids::{InterruptId, RunId, ThreadId};

/// The payload that clients receive when a run pauses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InterruptPayload {
    /// Version of this shape.
    pub schema_version: u32,
    /// The wire name of the middleware that asks, such as `HandoffApprovalMiddleware`.
    pub middleware_source: String,
    /// The requested actions; each is answered by one decision.
    pub action_requests: Vec<ActionRequest>,
    /// Which decisions each action accepts: one for each request, in the same order.
    pub review_configs: Vec<ReviewConfig>,
    /// The folder in which the proposed calls are made once they are approved; `None` for questions that are not about
    /// calls, and for those of versions that did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
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
    /// Details that help a person decide and are not part of the action: the diff, warnings, the rule that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

/// The place of a sub-agent's question, which its parent asks in its stead. It is the entry `subagent` of
/// [`ActionRequest::details`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubagentInterruptRef {
    /// The parent's call of the sub-agent.
    pub call_id: String,
    /// The sub-agent's thread.
    pub thread_id: ThreadId,
    /// Its interrupt.
    pub interrupt_id: InterruptId,
}

/// The key of [`SubagentQuestion`] in the details.
const SUBAGENT_KEY: &str = "subagent";

impl ActionRequest {
    /// Returns where a sub-agent asked this; `None` for a question of the thread itself.
    pub fn subagent(&self) -> Option<SubagentInterruptRef> {
        SubagentInterruptRef::deserialize(self.details.as_ref()?.get(SUBAGENT_KEY)?).ok()
    }

    /// Notes where a sub-agent asked this.
    ///
    /// # Errors
    /// When the entry cannot be written as JSON.
    pub fn set_subagent(&mut self, question: &SubagentInterruptRef) -> serde_json::Result<()> {
        let details = self.details.get_or_insert_with(|| Value::Object(Map::new()));
        if let Some(details) = details.as_object_mut() {
            details.insert(SUBAGENT_KEY.to_owned(), serde_json::to_value(question)?);
        }
        Ok(())
    }
}

/// Which decisions an action accepts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewConfig {
    /// The action's name.
    pub action_name: String,
    /// The `type`s of decision it accepts.
    pub allowed_decisions: Vec<String>,
}

named_enum! {
    /// The status of an interrupt.
    pub enum InterruptStatus {
        /// Nobody has answered.
        Pending = "pending",
        /// Answered; the decisions are stored with it.
        Resolved = "resolved",
        /// Given up: the thread or the request went away.
        Withdrawn = "withdrawn",
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
    /// The payload for clients.
    pub payload: InterruptPayload,
    /// The status: pending or resolved.
    pub status: InterruptStatus,
    /// The answer, once there is one.
    pub decisions: Option<Decisions>,
    /// When it was raised.
    pub created_at: Timestamp,
    /// When it was answered.
    pub resolved_at: Option<Timestamp>,
}
