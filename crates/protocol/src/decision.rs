//! Decisions: a client's answer to an interrupt. This module checks the shape only; the crate that raised the
//! interrupt decides the effect of a decision.

mod unique_keys;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use self::unique_keys::UniqueKeys;

/// The answer to an interrupt: exactly one decision for each action request. The number is checked by the crate that
/// raised the interrupt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(expecting = "an object with the array `decisions`")]
pub struct Decisions {
    /// The decisions, in the order of the action requests.
    pub decisions: Vec<Decision>,
}

/// The decision about one action request. [`crate::ReviewConfig`] lists the kinds that an action allows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Decision {
    /// Performs the action as shown or, for a handoff, with the user's own text.
    Approve {
        /// Replacements for displayed values (`summary_md`, `title`).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        args: Option<Map<String, Value>>,
        /// Lowercase hex SHA-256 of the summary that the user saw. The decision is refused if it differs from the
        /// hash of the current proposal.
        #[serde(default, deserialize_with = "read_present_text", skip_serializing_if = "Option::is_none")]
        summary_sha256: Option<String>,
    },
    /// Changes the proposed action. New content is accepted without another review; the argument `feedback` requests
    /// another draft of a handoff.
    Edit {
        /// The action with its changed arguments.
        edited_action: EditedAction,
    },
    /// Declines the action.
    Reject {
        /// The reason. It is stored, and the agent that requested the action receives it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// Answers in place of the action. The agent receives the message as the action's result, and the action is not
    /// performed.
    Respond {
        /// The message that the agent receives.
        message: String,
    },
    /// Confirms that the user saw a preview; has no effect.
    Preview {},
    /// Leaves the action undecided, while other actions of the same interrupt are decided. A new interrupt asks about
    /// the deferred actions.
    Defer {},
}

/// Reads a field that may be absent, but not `null`: a client that lost the hash has not seen the text.
fn read_present_text<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    String::deserialize(deserializer).map(Some)
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
    /// Parses the decisions of a client's request and refuses unknown and duplicate fields.
    ///
    /// The plain `Deserialize` form ignores unknown fields, because stored decisions may have fields of a later
    /// version. In a request an unknown field is a misspelled one; ignoring it could perform an action that the user
    /// did not intend.
    ///
    /// # Errors
    /// Returns one line of at most [`REASON_CHARS_MAX`] characters that names the JSON error, or the unknown or duplicate
    /// field.
    pub fn parse_request(json: &str) -> Result<Self, String> {
        let reason = |error: serde_json::Error| reason_line(&error.to_string());
        let UniqueKeys(given) = serde_json::from_str(json).map_err(reason)?;
        let decisions: Self = serde_json::from_value(given.clone()).map_err(reason)?;
        let read = serde_json::to_value(&decisions).map_err(reason)?;
        match unknown_field(&given, &read) {
            Some(name) => Err(reason_line(&format!("unknown field `{name}`"))),
            None => Ok(decisions),
        }
    }
}

/// The most characters of the reason for which a request is refused.
pub const REASON_CHARS_MAX: usize = 300;

/// Returns the beginning of a reason, without line breaks and other control characters: it may quote names and values of
/// the request.
fn reason_line(reason: &str) -> String {
    let printable = reason.chars().map(|c| if c.is_control() { ' ' } else { c });
    printable.take(REASON_CHARS_MAX).collect()
}

/// Returns the first key of `given`, at any depth, that is missing in `read`, the JSON of the parsed value.
fn unknown_field<'a>(given: &'a Value, read: &Value) -> Option<&'a str> {
    match (given, read) {
        (Value::Object(given), Value::Object(read)) => {
            given.iter().find_map(|(key, value)| match read.get(key) {
                Some(known) => unknown_field(value, known),
                // An explicit `null` means the same as an absent field.
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

/// The arguments of an edit that accepts the shown text with a change.
const PARTIAL_EDIT_ARGS: [&str; 2] = ["title", "pending_approvals"];
/// The arguments of an edit that contains the whole text, saves it, or requests another draft.
const OTHER_EDIT_ARGS: [&str; 8] =
    ["summary_json", "summary_md", "package_md", "save_draft", "add", "feedback", "revert_to", "redraft"];

impl Decision {
    /// The argument with the hash of the summary that the person saw.
    pub const SUMMARY_HASH_ARG: &str = "summary_sha256";

    /// Returns the value of the decision's `type` field on the wire.
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::Approve { .. } => "approve",
            Self::Edit { .. } => "edit",
            Self::Reject { .. } => "reject",
            Self::Respond { .. } => "respond",
            Self::Preview {} => "preview",
            Self::Defer {} => "defer",
        }
    }

    /// Returns true if the decision accepts what was shown, or a part of it, and names no hash of it.
    ///
    /// An edit with a whole text is bound to that text, and a redraft accepts nothing.
    pub fn is_unbound_acceptance(&self) -> bool {
        let has_hash =
            |args: &Map<String, Value>| args.get(Self::SUMMARY_HASH_ARG).is_some_and(Value::is_string);
        match self {
            Self::Approve { args, summary_sha256: None } => !args.as_ref().is_some_and(has_hash),
            Self::Edit { edited_action } => {
                let args = &edited_action.args;
                let has_any = |names: &[&str]| names.iter().any(|name| args.contains_key(*name));
                has_any(&PARTIAL_EDIT_ARGS) && !has_any(&OTHER_EDIT_ARGS) && !has_hash(args)
            }
            Self::Approve { .. }
            | Self::Reject { .. }
            | Self::Respond { .. }
            | Self::Preview {}
            | Self::Defer {} => false,
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
    fn g3_a_field_with_two_values_is_refused() {
        for json in [
            r#"{"decisions":[{"type":"reject"}],"decisions":[{"type":"approve"}]}"#,
            r#"{"decisions":[{"type":"reject","type":"approve"}]}"#,
            r#"{"decisions":[{"type":"approve","args":{"summary_md":"a","summary_md":"b"}}]}"#,
        ] {
            let refusal = Decisions::parse_request(json).unwrap_err();
            assert!(refusal.starts_with("duplicate field `"), "{refusal}");
        }
    }

    #[test]
    fn g3_the_reason_of_a_refusal_is_one_short_line() {
        for json in [
            format!(r#"{{"decisions":[{{"type":"{}"}}]}}"#, "x".repeat(5_000)),
            r#"{"decisions":[{"type":"a\nb\u001b[31m"}]}"#.to_owned(),
            r#"{"decisions":[{"type":"reject","a\nb":1}]}"#.to_owned(),
            r#"{"decisions":[{"type":"reject","a\nb":1,"a\nb":1}]}"#.to_owned(),
        ] {
            let refusal = Decisions::parse_request(&json).unwrap_err();
            assert!(refusal.chars().count() <= REASON_CHARS_MAX, "{refusal}");
            assert!(!refusal.contains(char::is_control), "{refusal:?}");
        }
    }

    #[test]
    fn g3_only_known_decisions_with_their_fields_are_read() {
        check(r#"{"decisions":[{"type":"approve"}]}"#, true);
        check(r#"{"decisions":[{"type":"approve","summary_sha256":"ab"}]}"#, true);
        check(r#"{"decisions":[{"type":"approve","summary_sha256":null}]}"#, false);
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
        check(r#"{"decisions":[{"type":"approve"},{"type":"defer"}]}"#, true);
        check(r#"{"decisions":[{"type":"approve"},null]}"#, false);
        check(r#"{"decisions":[{"type":"accept"}]}"#, false);
        check(r#"{"decisions":[{"type":"edit"}]}"#, false);
        check(r#"{"decisions":[{"type":"edit","edited_action":{"args":{}}}]}"#, false);
        check(r#"{"decisions":[{}]}"#, false);
        check(r#"{"decisions":{"type":"approve"}}"#, false);
        check(r#"[]"#, false);
    }
}
