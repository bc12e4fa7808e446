//! Events as text lines that are equal for two runs of the same session: ids are replaced by numbers, and times and
//! provider-specific fields are removed.

use std::collections::BTreeMap;

use protocol::Event;
use serde_json::{Map, Value};

/// The number of each id, in order of first appearance.
#[derive(Default)]
struct IdAliases(BTreeMap<String, usize>);

/// Returns one line for each event: its type, and its content with tool calls numbered in order of first appearance.
pub fn event_lines(events: &[Event]) -> Vec<String> {
    let mut aliases = IdAliases::default();
    let line = |event: &Event| format!("{} {}", event.event_type, aliases.replace_ids(event.content_value()));
    events.iter().map(line).collect()
}

impl IdAliases {
    /// Returns the value with numbered ids, and without fields and items that differ between runs.
    fn replace_ids(&mut self, value: Value) -> Value {
        match value {
            Value::Object(fields) => Value::Object(
                fields
                    .into_iter()
                    .filter_map(|(key, value)| self.plain_field(key, value))
                    .collect::<Map<_, _>>(),
            ),
            Value::Array(items) => {
                let items = items.into_iter().filter(|item| !is_provider_specific(item));
                Value::Array(items.map(|item| self.replace_ids(item)).collect())
            }
            other => other,
        }
    }

    /// Returns a field with numbered ids, or `None` if its value differs between runs.
    fn plain_field(&mut self, key: String, value: Value) -> Option<(String, Value)> {
        match (key.as_str(), &value) {
            (
                "model" | "provider" | "raw" | "thread_id" | "run_id" | "interrupt_ids" | "sha256"
                | "handoff_id",
                _,
            ) => None,
            // The estimate depends on the lengths of ids and paths.
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

/// Returns whether a content block only carries data that one provider expects back in the next request.
fn is_provider_specific(item: &Value) -> bool {
    item["type"] == "opaque" || (item["type"] == "thinking" && item["text"] == "")
}
