//! Parsing of a model's answer: strictly, then once more after repairs that need no guess, then validation as a record.
//!
//! The caller decides what to do when an answer is rejected.

use facts::formatting::count_content_words;
use model::is_error_text;
use protocol::{AiMessage, CondensedSummary};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::record;

/// The minimum number of content words in a record.
const CONTENT_WORDS_MIN: usize = 2;
/// The maximum number of entries, besides the goal, of a record that is rejected because an entry reads like an error
/// or a refusal. A longer record may mention an error.
const ERROR_ENTRIES_MAX: usize = 1;

// The doc of this type is part of the JSON schema that the provider gets, so it is part of the prompt.
/// The shape a model is asked to answer in.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SummaryResponse {
    goal: String,
    constraints: Vec<String>,
    progress: Vec<String>,
    decisions: Vec<String>,
    files: Vec<String>,
    errors: Vec<String>,
    pending: Vec<String>,
    next_step: String,
}

/// Returns the JSON schema of an answer.
pub(super) fn response_schema() -> Value {
    schemars::schema_for!(SummaryResponse).to_value()
}

/// Returns the record in an answer, with normalized entries.
///
/// # Errors
///
/// A clause that says why the answer is not a record of at most `tokens_max` tokens.
pub(super) fn parse_response(answer: AiMessage, tokens_max: u64) -> Result<CondensedSummary, String> {
    let text = model::answer_text(answer).map_err(|error| error.to_string())?;
    let parsed = serde_json::from_str(&text).or_else(|error| repair_json(&text).ok_or(error));
    let parsed: SummaryResponse = parsed.map_err(|error| format!("it is not the JSON asked for: {error}"))?;
    validate_record(parsed, tokens_max)
}

/// Returns the first JSON object in the text, if it has a goal or progress.
///
/// Text around the object, such as a code fence, and unknown fields are ignored. A string in place of a list becomes
/// a list of one entry, and a missing field becomes an empty one.
fn repair_json(text: &str) -> Option<SummaryResponse> {
    let objects = text.match_indices('{').filter_map(|(start, _)| {
        let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
        values.next()?.ok()
    });
    // The outermost object starts before the objects inside it, so it comes first.
    let object = objects.take(1).find(|object| object.get("goal").or(object.get("progress")).is_some())?;
    let single = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let list = |key: &str| match object.get(key) {
        Some(Value::Array(entries)) => {
            entries.iter().map(|entry| entry.as_str().map(str::to_owned)).collect::<Option<Vec<String>>>()
        }
        Some(Value::String(entry)) => Some(vec![entry.clone()]),
        Some(Value::Null) | None => Some(Vec::new()),
        Some(Value::Bool(_) | Value::Number(_) | Value::Object(_)) => None,
    };
    Some(SummaryResponse {
        goal: single("goal"),
        constraints: list("constraints")?,
        progress: list("progress")?,
        decisions: list("decisions")?,
        files: list("files")?,
        errors: list("errors")?,
        pending: list("pending")?,
        next_step: single("next_step"),
    })
}

/// Normalizes a parsed answer and checks that it is a record: not empty, not an error text, and not too long.
fn validate_record(parsed: SummaryResponse, tokens_max: u64) -> Result<CondensedSummary, String> {
    let record = record::normalize_record(CondensedSummary {
        goal: parsed.goal,
        constraints: parsed.constraints,
        progress: parsed.progress,
        decisions: parsed.decisions,
        files: parsed.files,
        errors: parsed.errors,
        user_messages: Vec::new(),
        pending: parsed.pending,
        next_step: parsed.next_step,
    });
    let entries = record_entries(&record);
    if entries.iter().map(|text| count_content_words(text)).sum::<usize>() < CONTENT_WORDS_MIN {
        return Err("it says nothing".to_owned());
    }
    if entries.len() <= ERROR_ENTRIES_MAX + 1 && entries.iter().any(|text| is_error_text(text)) {
        return Err("it is an error or a refusal and no record".to_owned());
    }
    let size = record::estimate_tokens(&record);
    if size > tokens_max {
        return Err(format!("it is too long: {size} tokens where {tokens_max} are allowed"));
    }
    Ok(record)
}

/// Returns all non-blank entries of a record, including the goal and the next step.
fn record_entries(record: &CondensedSummary) -> Vec<&str> {
    let lists = [
        &record.constraints,
        &record.progress,
        &record.decisions,
        &record.files,
        &record.errors,
        &record.pending,
    ];
    let entries = lists.into_iter().flatten().map(String::as_str);
    [record.goal.as_str(), record.next_step.as_str()]
        .into_iter()
        .chain(entries)
        .filter(|text| !text.trim().is_empty())
        .collect()
}

#[cfg(test)]
mod tests;
