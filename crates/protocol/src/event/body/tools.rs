//! Bodies of decisions about tool calls, and of what a sub-agent came to.

use serde::{Deserialize, Serialize};

use crate::event::names::stored_enum;
use crate::ids::ThreadId;
use crate::message::Usage;
use crate::run::RunStatus;

stored_enum! {
    /// The decision about a tool call.
    pub enum ToolCallDecision {
        /// It is made as it was proposed.
        Approve = "approve",
        /// It is made with other arguments.
        Edit = "edit",
        /// A rule or policy refuses it.
        Deny = "deny",
        /// A person declined it.
        Reject = "reject",
        /// A person answered in the tool's place.
        Respond = "respond",
    }
}

/// The body of a `tool_call_decided` event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCallDecided {
    /// The call.
    pub call_id: String,
    /// The tool's name.
    pub tool: String,
    /// The decision.
    pub decision: ToolCallDecision,
    /// The author of the decision, such as `person` or `rule`.
    pub by: String,
    /// The rule or policy that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

/// The body of a `subagent_ended` event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubagentEnded {
    /// The call that gave it its task.
    pub call_id: String,
    /// The thread it worked in.
    pub thread_id: ThreadId,
    /// How its last run ended.
    pub status: RunStatus,
    /// Tokens of that run.
    #[serde(default)]
    pub usage: Usage,
    /// `provider/name` of its model.
    pub model: Option<String>,
}
