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
    /// Answer in the action's place: the agent reads this as its result, and the action is not done.
    Respond {
        /// The message that the agent receives.
        message: String,
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

impl Decisions {
    /// Reads what a client sends. Stored decisions may carry fields of a later version; in a request an unknown field
    /// is a misspelt one, and taking the rest would do something the person did not mean.
    ///
    /// # Errors
    /// One line that says what cannot be read, or which field is unknown.
    pub fn parse_request(json: &str) -> Result<Self, String> {
        let given: Value = serde_json::from_str(json).map_err(|error| error.to_string())?;
        let decisions: Self = serde_json::from_value(given.clone()).map_err(|error| error.to_string())?;
        let read = serde_json::to_value(&decisions).map_err(|error| error.to_string())?;
        match unknown_field(&given, &read) {
            Some(name) => Err(format!("unknown field `{name}`")),
            None => Ok(decisions),
        }
    }
}

/// Returns the first key that is in `given` and was not read.
fn unknown_field<'a>(given: &'a Value, read: &Value) -> Option<&'a str> {
    match (given, read) {
        (Value::Object(given), Value::Object(read)) => {
            given.iter().find_map(|(key, value)| match read.get(key) {
                Some(known) => unknown_field(value, known),
                // An explicit null says the same as leaving the field out.
                None if value.is_null() => None,
                None => Some(key.as_str()),
            })
        }
        (Value::Array(given), Value::Array(read)) => {
            given.iter().zip(read).find_map(|(value, known)| unknown_field(value, known))
        }
        _ => None,
    }
}

impl Decision {
    /// Returns the `type` the decision carries on the wire.
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::Approve { .. } => "approve",
            Self::Edit { .. } => "edit",
            Self::Reject { .. } => "reject",
            Self::Respond { .. } => "respond",
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
    fn g3_a_misspelt_field_of_a_request_is_refused() {
        let read = |json: &str| Decisions::parse_request(json);
        assert!(read(r#"{"decisions":[{"type":"approve","summary_sha256":"ab","args":null}]}"#).is_ok());
        assert!(read(r#"{"decisions":[{"type":"approve","args":{"summary_md":"x"}}]}"#).is_ok());
        assert_eq!(
            read(r#"{"decisions":[{"type":"approve","sha256":"ab"}]}"#).unwrap_err(),
            "unknown field `sha256`"
        );
        assert!(read(r#"{"decisions":[{"type":"reject","mesage":"no"}]}"#).is_err());
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
        check(r#"{"decisions":[{"type":"respond","message":"use the other file"}]}"#, true);
        check(r#"{"decisions":[{"type":"respond"}]}"#, false);
        check(r#"{"decisions":[{"type":"accept"}]}"#, false);
        check(r#"{"decisions":[{"type":"edit"}]}"#, false);
        check(r#"{"decisions":[{"type":"edit","edited_action":{"args":{}}}]}"#, false);
        check(r#"{"decisions":[{}]}"#, false);
        check(r#"{"decisions":{"type":"approve"}}"#, false);
        check(r#"[]"#, false);
    }
}
