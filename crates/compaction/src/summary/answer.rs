//! Reads what a model answered: strictly, once more after repairs that need no guess, and then checks that it is a record
//! at all. What stands in place of a record that is none is decided elsewhere.

use facts::phrase::weight;
use model::is_error;
use protocol::{AiMessage, CondensedSummary};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::record;

/// Words that carry meaning of which a record has at least so many.
const WEIGHT_MIN: usize = 2;
/// Entries up to which a record that reads like an error or a refusal is one.
const ENTRIES_OF_AN_ERROR: usize = 1;

/// The shape a model is asked to answer in.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Answer {
    goal: String,
    constraints: Vec<String>,
    progress: Vec<String>,
    decisions: Vec<String>,
    files: Vec<String>,
    errors: Vec<String>,
    pending: Vec<String>,
    next_step: String,
}

/// Returns the schema of that shape.
pub(super) fn schema() -> Value {
    schemars::schema_for!(Answer).to_value()
}

/// Returns the record that a model wrote; the error says in a few words why there is none.
pub(super) fn read(answer: AiMessage, tokens_max: u64) -> Result<CondensedSummary, String> {
    let text = model::said(answer).map_err(|why| why.to_string())?;
    let parsed = serde_json::from_str(&text).or_else(|error| repaired(&text).ok_or(error));
    let parsed: Answer = parsed.map_err(|error| format!("it is not the JSON asked for: {error}"))?;
    check(parsed, tokens_max)
}

/// Returns the first object in the text that has one of the fields: without what stands around it, such as a code fence,
/// without fields nobody asked for, an entry alone as a list of one, and a field that is missing as an empty one.
fn repaired(text: &str) -> Option<Answer> {
    let objects = text.match_indices('{').filter_map(|(at, _)| {
        let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
        values.next()?.ok()
    });
    // An object inside another one begins later: the outermost comes first.
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
    Some(Answer {
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

fn check(parsed: Answer, tokens_max: u64) -> Result<CondensedSummary, String> {
    let record = record::settled(CondensedSummary {
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
    let said = entries(&record);
    if said.iter().map(|text| weight(text)).sum::<usize>() < WEIGHT_MIN {
        return Err("it says nothing".to_owned());
    }
    if said.len() <= ENTRIES_OF_AN_ERROR + 1 && said.iter().any(|text| is_error(text)) {
        return Err("it is an error or a refusal and no record".to_owned());
    }
    let size = record::size(&record);
    if size > tokens_max {
        return Err(format!("it is too long: {size} tokens where {tokens_max} are allowed"));
    }
    Ok(record)
}

/// Returns everything a record says.
fn entries(record: &CondensedSummary) -> Vec<&str> {
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
