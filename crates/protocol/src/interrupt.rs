//! Interrupts: the questions of a run that waits for a user's decision. The runtime raises and resolves them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::decision::Decisions;
use crate::ids::{InterruptId, RunId, ThreadId};

/// The payload that clients receive when a run is interrupted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InterruptPayload {
    /// Version of this shape ([`crate::SCHEMA_VERSION`]).
    pub schema_version: u32,
    /// The wire name of the middleware that raised the interrupt, such as `HandoffApprovalMiddleware`.
    pub middleware_source: String,
    /// The requested actions. The answer contains one decision for each, in this order.
    pub action_requests: Vec<ActionRequest>,
    /// The allowed decisions: one entry for each action request, in the same order.
    pub review_configs: Vec<ReviewConfig>,
    /// The folder in which the proposed tool calls are executed after approval; `None` for questions that are not
    /// about tool calls, and for payloads of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
}

impl InterruptPayload {
    /// Returns the allowed decisions of the action request at `index`; `None` if there is no such request or entry.
    ///
    /// Earlier versions stored one entry for each distinct action name. If the entry at `index` has another name, the
    /// first entry with the name of the request applies.
    pub fn review_config(&self, index: usize) -> Option<&ReviewConfig> {
        let name = &self.action_requests.get(index)?.name;
        let is_named = |config: &&ReviewConfig| config.action_name == *name;
        let at_index = self.review_configs.get(index).filter(is_named);
        at_index.or_else(|| self.review_configs.iter().find(is_named))
    }
}

/// One action about which the user decides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActionRequest {
    /// The action's name, such as `handoff_summary`.
    pub name: String,
    /// A description of the action in one sentence, for the user.
    pub description: String,
    /// The arguments of the action.
    pub args: Value,
    /// Details that help the user decide and are not part of the action: the diff, warnings, the rule that requires
    /// approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

/// A reference to the interrupt of a sub-agent, on whose behalf the parent thread asks the user. It is stored as the
/// entry `subagent` of [`ActionRequest::details`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubagentInterruptRef {
    /// The id of the parent's tool call that started the sub-agent.
    pub call_id: String,
    /// The sub-agent's thread.
    pub thread_id: ThreadId,
    /// The interrupt in the sub-agent's thread.
    pub interrupt_id: InterruptId,
}

/// The key of [`SubagentInterruptRef`] in [`ActionRequest::details`].
const SUBAGENT_KEY: &str = "subagent";

impl ActionRequest {
    /// Returns the sub-agent's interrupt that this request represents; `None` for a question of the thread itself.
    pub fn subagent(&self) -> Option<SubagentInterruptRef> {
        SubagentInterruptRef::deserialize(self.details.as_ref()?.get(SUBAGENT_KEY)?).ok()
    }

    /// Records the sub-agent's interrupt that this request represents. Details that are not a JSON object stay
    /// unchanged.
    ///
    /// # Errors
    /// Never in practice: the reference always has a JSON form.
    pub fn set_subagent(&mut self, question: &SubagentInterruptRef) -> serde_json::Result<()> {
        let details = self.details.get_or_insert_with(|| Value::Object(Map::new()));
        if let Some(details) = details.as_object_mut() {
            details.insert(SUBAGENT_KEY.to_owned(), serde_json::to_value(question)?);
        }
        Ok(())
    }
}

/// The decisions that an action allows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewConfig {
    /// The action's name.
    pub action_name: String,
    /// The allowed values of [`crate::Decision::type_name`].
    pub allowed_decisions: Vec<String>,
}

named_enum! {
    /// The status of an interrupt.
    pub enum InterruptStatus {
        /// The interrupt waits for an answer.
        Pending = "pending",
        /// The interrupt was answered; the decisions are stored with it.
        Resolved = "resolved",
        /// The interrupt was closed without an answer, for example because the user sent a message instead, or
        /// changed the state of the thread.
        Withdrawn = "withdrawn",
    }
}

/// A stored interrupt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interrupt {
    /// The interrupt's id.
    pub interrupt_id: InterruptId,
    /// The interrupted thread.
    pub thread_id: ThreadId,
    /// The run that raised the interrupt.
    pub run_id: RunId,
    /// The graph node that raised the interrupt. It receives the answer.
    pub node: String,
    /// The payload for clients.
    pub payload: InterruptPayload,
    /// The status of the interrupt.
    pub status: InterruptStatus,
    /// The answer; `None` unless the interrupt is resolved.
    pub decisions: Option<Decisions>,
    /// Time at which the interrupt was raised.
    pub created_at: Timestamp,
    /// Time of the answer.
    pub resolved_at: Option<Timestamp>,
}
