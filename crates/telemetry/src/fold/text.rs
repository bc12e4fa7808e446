//! The content of events in spans: small fields as they are, content with secrets redacted.

use facts::redact;
use protocol::message::joined_text;
use protocol::{ContentBlock, Event, Message};
use serde::Serialize;
use serde_json::{Map, Value};

/// Characters of a text that metadata may hold.
const METADATA_CHARS_MAX: usize = 300;
/// Characters of what went in or came out that a span keeps.
const CONTENT_CHARS_MAX: usize = 20_000;

/// Returns those of the body's fields that are there, as metadata.
pub(super) fn select_fields(body: &impl Serialize, keys: &[&str]) -> Map<String, Value> {
    let Ok(content) = serde_json::to_value(body) else { return Map::new() };
    keys.iter()
        .filter_map(|key| content.get(*key).and_then(metadata_value).map(|value| ((*key).to_owned(), value)))
        .collect()
}

/// Returns every field that metadata can hold.
pub(super) fn small_fields(fields: &Map<String, Value>) -> Map<String, Value> {
    fields.iter().filter_map(|(key, value)| metadata_value(value).map(|value| (key.clone(), value))).collect()
}

/// Returns a text cut to what metadata holds, with its secrets withheld.
pub(super) fn brief_text(text: &str) -> String {
    let shown = redact(text);
    match shown.char_indices().nth(METADATA_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &shown[..end]),
        None => shown.into_owned(),
    }
}

/// Returns what a message says, as a span keeps it.
pub(super) fn message_text(event: &Event) -> Option<String> {
    let text = match event.message()? {
        Message::Human(message) => joined_text(&message.content),
        Message::Ai(message) => answer_text(&message.content),
        Message::Tool(message) => joined_text(&message.content),
    };
    (!text.is_empty()).then(|| content_text(&text))
}

/// Returns a text as a span keeps it.
pub(super) fn content_text(text: &str) -> String {
    let shown = redact(text);
    match shown.char_indices().nth(CONTENT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &shown[..end]),
        None => shown.into_owned(),
    }
}

/// Returns a value as a span keeps it: what is escaped in JSON no longer looks like a secret, so its texts are looked at before.
pub(super) fn json_text(value: &Value) -> String {
    content_text(&redact_value(value).to_string())
}

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

/// Returns an answer's words, and the calls it makes.
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

/// Returns a value as metadata holds it: no null, nothing nested, no long text.
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
