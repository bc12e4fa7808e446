//! Decisions: what a client answers to an interrupt. The shapes are checked here; what a decision does is a rule
//! of the room that asked.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The answer to an interrupt: exactly one decision per action request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decisions {
    /// One decision per action request, in their order.
    pub decisions: Vec<Decision>,
}

/// One decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Decision {
    /// Accept, as shown or with the person's own text.
    Approve {
        /// Replacements for what was shown (`summary_md`, `title`).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        args: Option<Map<String, Value>>,
        /// The hash of what the person saw; refused when it is not the current proposal's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary_sha256: Option<String>,
    },
    /// Change what was proposed: new content is accepted as it is, `feedback` asks for another draft.
    Edit {
        /// The action with its changed arguments.
        edited_action: EditedAction,
    },
    /// Decline.
    Reject {
        /// Why, for the record and for the agent that asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// Seen; do nothing.
    Preview {},
}

/// An action with changed arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EditedAction {
    /// The action's name.
    pub name: String,
    /// Its changed arguments.
    pub args: Map<String, Value>,
}

impl Decision {
    /// Returns the `type` the decision carries on the wire.
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::Approve { .. } => "approve",
            Self::Edit { .. } => "edit",
            Self::Reject { .. } => "reject",
            Self::Preview {} => "preview",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, reads: bool) {
        assert_eq!(serde_json::from_str::<Decisions>(json).is_ok(), reads, "{json}");
    }

    #[test]
    fn g3_only_known_decisions_with_their_fields_are_read() {
        check(r#"{"decisions":[{"type":"approve"}]}"#, true);
        check(r#"{"decisions":[{"type":"approve","summary_sha256":"ab"}]}"#, true);
        check(r#"{"decisions":[{"type":"approve","args":{"summary_md":"x","title":"y"}}]}"#, true);
        check(
            r#"{"decisions":[{"type":"edit","edited_action":{"name":"handoff_summary","args":{"feedback":"x"}}}]}"#,
            true,
        );
        check(r#"{"decisions":[{"type":"reject"}]}"#, true);
        check(r#"{"decisions":[{"type":"reject","message":"no"}]}"#, true);
        check(r#"{"decisions":[{"type":"preview"}]}"#, true);
        check(r#"{"decisions":[{"type":"accept"}]}"#, false);
        check(r#"{"decisions":[{"type":"edit"}]}"#, false);
        check(r#"{"decisions":[{"type":"edit","edited_action":{"args":{}}}]}"#, false);
        check(r#"{"decisions":[{}]}"#, false);
        check(r#"{"decisions":{"type":"approve"}}"#, false);
        check(r#"[]"#, false);
    }
}
