//! Events as lines that two journals of the same session share: without ids, times, and what belongs to one provider.

use std::collections::BTreeMap;

use protocol::Event;
use serde_json::{Map, Value};

/// Replaces ids by stable names.
#[derive(Default)]
struct IdAliases(BTreeMap<String, usize>);

/// Returns one line an event: its type, and its content with calls numbered in the order they appear.
pub fn event_lines(events: &[Event]) -> Vec<String> {
    let mut names = IdAliases::default();
    let line = |event: &Event| format!("{} {}", event.event_type, names.replace_ids(event.content_value()));
    events.iter().map(line).collect()
}

impl IdAliases {
    fn replace_ids(&mut self, value: Value) -> Value {
        match value {
            Value::Object(fields) => Value::Object(
                fields
                    .into_iter()
                    .filter_map(|(key, value)| self.plain_field(key, value))
                    .collect::<Map<_, _>>(),
            ),
            Value::Array(items) => {
                let items = items.into_iter().filter(|item| !is_of_one_provider(item));
                Value::Array(items.map(|item| self.replace_ids(item)).collect())
            }
            other => other,
        }
    }

    fn plain_field(&mut self, key: String, value: Value) -> Option<(String, Value)> {
        match (key.as_str(), &value) {
            (
                "model" | "provider" | "raw" | "thread_id" | "run_id" | "interrupt_ids" | "sha256"
                | "handoff_id",
                _,
            ) => None,
            // It differs with the length of ids and paths.
            ("estimated_tokens", _) => None,
            ("id" | "call_id", Value::String(id)) => {
                let next = self.0.len() + 1;
                let number = *self.0.entry(id.clone()).or_insert(next);
                Some((key, format!("call {number}").into()))
            }
            _ => Some((key, self.replace_ids(value))),
        }
    }
}

/// Returns whether it holds nothing but what one provider wants to have back.
fn is_of_one_provider(item: &Value) -> bool {
    item["type"] == "opaque" || (item["type"] == "thinking" && item["text"] == "")
}
