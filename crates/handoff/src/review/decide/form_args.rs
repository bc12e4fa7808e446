//! Normalization of edits from clients that show an interrupt as a generic form. Such a client sends back every
//! argument, edited or not, and sends JSON values as text.
//!
//! The result has the shape that contract §6 defines. Validation is done by the caller.

use std::borrow::Cow;

use runtime::DecisionRejection;
use serde_json::{Map, Value};

/// Returns the arguments of an edit in the shape of the contract.
///
/// A `summary_json` that was sent as text is parsed. Empty `feedback` is removed if all arguments were sent back,
/// because the person left that field of the form empty. If only some arguments were sent, empty feedback stays and
/// is rejected later.
///
/// # Errors
///
/// [`DecisionRejection::Invalid`] when the text of `summary_json` is not JSON.
pub(super) fn normalize_args(
    args: &Map<String, Value>,
) -> Result<Cow<'_, Map<String, Value>>, DecisionRejection> {
    let mut args = Cow::Borrowed(args);
    if let Some(Value::String(text)) = args.get("summary_json") {
        let json: Value = serde_json::from_str(text).map_err(|error| {
            DecisionRejection::Invalid(format!("`summary_json` cannot be read as JSON: {error}"))
        })?;
        args.to_mut().insert("summary_json".to_owned(), json);
    }
    let is_empty_feedback =
        args.get("feedback").and_then(Value::as_str).is_some_and(|text| text.trim().is_empty());
    if is_empty_feedback && has_all_arguments(&args) {
        args.to_mut().remove("feedback");
    }
    Ok(args)
}

/// Returns whether the client sent back all arguments, which include the text in both forms.
fn has_all_arguments(args: &Map<String, Value>) -> bool {
    ["summary_md", "summary_json", "handoff_id"].iter().all(|key| args.contains_key(*key))
}
