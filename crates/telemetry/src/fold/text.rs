//! Converts the content of events into values of spans: short metadata, and longer input and output. All texts are redacted
//! (M16).

use protocol::message::joined_text;
use protocol::{ContentBlock, Event, Message};
use secrets::redact;
use serde::Serialize;
use serde_json::{Map, Value};

/// Maximum characters of a text in metadata.
const METADATA_CHARS_MAX: usize = 300;
/// Maximum characters of a span's input or output.
const CONTENT_CHARS_MAX: usize = 20_000;

/// Returns the fields of an event body with these keys as metadata. Fields that are missing or that metadata cannot contain
/// are left out.
pub(super) fn select_fields(body: &impl Serialize, keys: &[&str]) -> Map<String, Value> {
    let Ok(content) = serde_json::to_value(body) else { return Map::new() };
    keys.iter()
        .filter_map(|key| content.get(*key).and_then(metadata_value).map(|value| ((*key).to_owned(), value)))
        .collect()
}

/// Returns the fields that metadata can contain.
pub(super) fn small_fields(fields: &Map<String, Value>) -> Map<String, Value> {
    fields.iter().filter_map(|(key, value)| metadata_value(value).map(|value| (key.clone(), value))).collect()
}

/// Returns a text redacted and cut to [`METADATA_CHARS_MAX`] characters.
pub(super) fn brief_text(text: &str) -> String {
    let redacted = redact(text);
    match redacted.char_indices().nth(METADATA_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &redacted[..end]),
        None => redacted.into_owned(),
    }
}

/// Returns the text of a message event as span content. For an answer, this includes its tool calls. Returns `None` if
/// there is no text.
pub(super) fn message_text(event: &Event) -> Option<String> {
    let text = match event.message()? {
        Message::Human(message) => joined_text(&message.content),
        Message::Ai(message) => answer_text(&message.content),
        Message::Tool(message) => joined_text(&message.content),
    };
    (!text.is_empty()).then(|| content_text(&text))
}

/// Returns a text redacted and cut to [`CONTENT_CHARS_MAX`] characters.
pub(super) fn content_text(text: &str) -> String {
    let redacted = redact(text);
    match redacted.char_indices().nth(CONTENT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &redacted[..end]),
        None => redacted.into_owned(),
    }
}

/// Returns a JSON value as span content. Its strings are redacted before serialization, because JSON escapes can hide a
/// secret from the patterns.
pub(super) fn json_text(value: &Value) -> String {
    content_text(&redact_value(value).to_string())
}

/// Returns the value with all strings and object keys redacted.
fn redact_value(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(redact(text).into_owned()),
        Value::Array(items) => items.iter().map(redact_value).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (redact(key).into_owned(), redact_value(value))).collect()
        }
        other => other.clone(),
    }
}

/// Returns the text of an answer, followed by one line with name and arguments for each tool call.
fn answer_text(blocks: &[ContentBlock]) -> String {
    let mut lines = vec![joined_text(blocks)];
    for block in blocks {
        if let ContentBlock::ToolCall { name, args, .. } = block {
            lines.push(format!("{name} {}", redact_value(args)));
        }
    }
    lines.retain(|line| !line.is_empty());
    lines.join("\n")
}

/// Returns a value as metadata, or `None` if it is null or nested. Texts are redacted and cut. An array of strings counts as
/// flat.
fn metadata_value(value: &Value) -> Option<Value> {
    match value {
        Value::Bool(_) | Value::Number(_) => Some(value.clone()),
        Value::String(text) => Some(Value::String(brief_text(text))),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            Some(Value::Array(items.iter().filter_map(metadata_value).collect()))
        }
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
