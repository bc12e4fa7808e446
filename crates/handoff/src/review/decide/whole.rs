//! Answers of clients that know nothing of handoffs: their forms send back every argument that was shown, edited or not,
//! and what is no text as text. This finds what the person changed, in the contract's own terms; it judges nothing.

use std::borrow::Cow;

use runtime::Rejection;
use serde_json::{Map, Value};

/// Returns the arguments of an edit as the contract has them.
///
/// JSON that became text is JSON again, and where the whole question comes back, a feedback that was left empty is none.
/// Arguments that hold only some of it stay as they are: there an empty feedback is one.
pub(super) fn in_contract(args: &Map<String, Value>) -> Result<Cow<'_, Map<String, Value>>, Rejection> {
    let mut args = Cow::Borrowed(args);
    if let Some(Value::String(text)) = args.get("summary_json") {
        let json: Value = serde_json::from_str(text)
            .map_err(|error| Rejection::Invalid(format!("`summary_json` cannot be read as JSON: {error}")))?;
        args.to_mut().insert("summary_json".to_owned(), json);
    }
    let says_nothing =
        args.get("feedback").and_then(Value::as_str).is_some_and(|text| text.trim().is_empty());
    if says_nothing && is_whole(&args) {
        args.to_mut().remove("feedback");
    }
    Ok(args)
}

/// Returns whether everything came back: the text in both its forms.
fn is_whole(args: &Map<String, Value>) -> bool {
    ["summary_md", "summary_json", "handoff_id"].iter().all(|key| args.contains_key(*key))
}
