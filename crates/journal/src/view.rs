//! Views: what the events add up to. A view is computed, never stored, and two views cannot damage each other.

pub mod context;
mod history;
pub(crate) mod page;

use protocol::{Event, Seq, ThreadId};
use serde_json::Value;

pub use context::context;
pub use history::{
    BoundaryEntry, CallHeader, HistoryEntry, HistoryItem, SummaryMarker, UndoneEntry, history,
};

/// Returns whether the event happened beside the conversation, in a sub-agent.
fn is_side(event: &Event) -> bool {
    event.metadata.as_ref().is_some_and(|raw| {
        raw.get().contains("\"side\"")
            && event.metadata_value().get("side").and_then(Value::as_bool) == Some(true)
    })
}

/// Returns the id of a message that has none of its own: a UUIDv5 of its place (contract §11).
pub fn message_id(thread_id: ThreadId, seq: Seq) -> String {
    uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_URL, format!("{thread_id}:{seq}").as_bytes()).to_string()
}

#[cfg(test)]
mod tests;
