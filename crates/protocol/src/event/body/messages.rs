//! Bodies of messages, and of what an imported session holds beside them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::EventBody;
use crate::event::RawJson;
use crate::event::catalog::EventType;
pub use crate::message::{AiMessage, HumanMessage, ToolMessage};

/// A message as it is stored: with the tag of [`crate::Message`] before its fields.
#[derive(Serialize)]
struct TaggedMessage<'a, T> {
    #[serde(rename = "type")]
    tag: &'static str,
    #[serde(flatten)]
    message: &'a T,
}

fn tagged_json(tag: &'static str, message: &impl Serialize) -> serde_json::Result<RawJson> {
    serde_json::value::to_raw_value(&TaggedMessage { tag, message })
}

impl EventBody for HumanMessage {
    const TYPE: EventType = EventType::HumanMessage;

    fn to_stored_json(&self) -> serde_json::Result<RawJson> {
        tagged_json("human", self)
    }
}

impl EventBody for AiMessage {
    const TYPE: EventType = EventType::AiMessage;

    fn to_stored_json(&self) -> serde_json::Result<RawJson> {
        tagged_json("ai", self)
    }
}

impl EventBody for ToolMessage {
    const TYPE: EventType = EventType::ToolMessage;

    fn to_stored_json(&self) -> serde_json::Result<RawJson> {
        tagged_json("tool", self)
    }
}

/// The body of an `imported_note` event: text that the harness of an imported session injected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedNote {
    /// The role it was injected under, such as `system`.
    pub role: String,
    /// The text.
    pub text: String,
}

/// The body of an `imported_boundary` event: the imported session's own agent compacted here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImportedBoundary {
    /// One line for people.
    #[serde(default)]
    pub label: String,
    /// The session's own record of it.
    #[serde(default)]
    pub details: Value,
}

/// The body of an `imported_summary` event: the summary that the imported session's agent wrote at a boundary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedSummary {
    /// The summary.
    pub text: String,
}
