//! Bodies of events about decisions on tool calls, and about the end of a sub-agent.

use serde::{Deserialize, Serialize};

use crate::event::names::stored_enum;
use crate::ids::ThreadId;
use crate::message::Usage;
use crate::run::RunStatus;

stored_enum! {
    /// The decision about a tool call.
    pub enum ToolCallDecision {
        /// The call is executed as proposed.
        Approve = "approve",
        /// The call is executed with changed arguments.
        Edit = "edit",
        /// A rule or policy refused the call.
        Deny = "deny",
        /// A user declined the call.
        Reject = "reject",
        /// A user answered in place of the tool; the call is not executed.
        Respond = "respond",
    }
}

/// The body of a `tool_call_decided` event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCallDecided {
    /// The id of the call.
    pub call_id: String,
    /// The tool's name.
    pub tool: String,
    /// The decision.
    pub decision: ToolCallDecision,
    /// The author of the decision, such as `person` or `rule`.
    pub by: String,
    /// The rule or policy that decided; `None` if a user decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

/// The body of a `subagent_ended` event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubagentEnded {
    /// The id of the parent's tool call that gave the task.
    pub call_id: String,
    /// The sub-agent's thread.
    pub thread_id: ThreadId,
    /// The final status of the sub-agent's last run.
    pub status: RunStatus,
    /// Tokens used by that run.
    #[serde(default)]
    pub usage: Usage,
    /// `provider/name` of the sub-agent's model, if known.
    pub model: Option<String>,
}
