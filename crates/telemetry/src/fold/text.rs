//! What of an event's content goes into a span: small fields as they are, content with its secrets withheld.

use facts::redact;
use protocol::message::joined_text;
use protocol::{Block, Event, Message};
use serde::Serialize;
use serde_json::{Map, Value};

/// Characters of a text that metadata may hold.
const METADATA_CHARS_MAX: usize = 300;
/// Characters of what went in or came out that a span keeps.
const CONTENT_CHARS_MAX: usize = 20_000;

/// Returns those of the body's fields that are there, as metadata.
pub(super) fn chosen(body: &impl Serialize, keys: &[&str]) -> Map<String, Value> {
    let Ok(content) = serde_json::to_value(body) else { return Map::new() };
    keys.iter()
        .filter_map(|key| content.get(*key).and_then(kept).map(|value| ((*key).to_owned(), value)))
        .collect()
}

/// Returns every field that metadata can hold.
pub(super) fn small(fields: &Map<String, Value>) -> Map<String, Value> {
    fields.iter().filter_map(|(key, value)| kept(value).map(|value| (key.clone(), value))).collect()
}

/// Returns a text cut to what metadata holds, with its secrets withheld.
pub(super) fn brief(text: &str) -> String {
    let shown = redact(text);
    match shown.char_indices().nth(METADATA_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &shown[..end]),
        None => shown.into_owned(),
    }
}

/// Returns what a message says, as a span keeps it.
pub(super) fn said(event: &Event) -> Option<String> {
    let text = match event.message()? {
        Message::Human(message) => joined_text(&message.content),
        Message::Ai(message) => answer(&message.content),
        Message::Tool(message) => joined_text(&message.content),
    };
    (!text.is_empty()).then(|| content(&text))
}

/// Returns a text as a span keeps it.
pub(super) fn content(text: &str) -> String {
    let shown = redact(text);
    match shown.char_indices().nth(CONTENT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &shown[..end]),
        None => shown.into_owned(),
    }
}

/// Returns a value as a span keeps it: what is escaped in JSON no longer looks like a secret, so its texts are looked at before.
pub(super) fn json(value: &Value) -> String {
    content(&withheld(value).to_string())
}

fn withheld(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(redact(text).into_owned()),
        Value::Array(items) => items.iter().map(withheld).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (redact(key).into_owned(), withheld(value))).collect()
        }
        other => other.clone(),
    }
}

/// Returns an answer's words, and the calls it makes.
fn answer(blocks: &[Block]) -> String {
    let mut lines = vec![joined_text(blocks)];
    for block in blocks {
        if let Block::ToolCall { name, args, .. } = block {
            lines.push(format!("{name} {}", withheld(args)));
        }
    }
    lines.retain(|line| !line.is_empty());
    lines.join("\n")
}

/// Returns a value as metadata holds it: no null, nothing nested, no long text.
fn kept(value: &Value) -> Option<Value> {
    match value {
        Value::Bool(_) | Value::Number(_) => Some(value.clone()),
        Value::String(text) => Some(Value::String(brief(text))),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            Some(Value::Array(items.iter().filter_map(kept).collect()))
        }
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
