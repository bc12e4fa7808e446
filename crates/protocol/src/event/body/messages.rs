//! Bodies of message events, and of the notes, boundaries and summaries of an imported session.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::EventBody;
use crate::event::RawJson;
use crate::event::catalog::EventType;
pub use crate::message::{AiMessage, HumanMessage, ToolMessage};

/// The stored form of a message: its fields after the tag that [`crate::Message`] reads.
#[derive(Serialize)]
struct TaggedMessage<'a, T> {
    #[serde(rename = "type")]
    tag: &'static str,
    #[serde(flatten)]
    message: &'a T,
}

/// Serializes `message` with `"type": tag` as its first field.
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
    /// The role under which the text was injected, such as `system`.
    pub role: String,
    /// The text.
    pub text: String,
}

/// The body of an `imported_boundary` event: the agent of the imported session compacted its context here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImportedBoundary {
    /// One line for the user.
    #[serde(default)]
    pub label: String,
    /// The session's own record of the compaction, in that harness's format.
    #[serde(default)]
    pub details: Value,
}

/// The body of an `imported_summary` event: the summary that the agent of the imported session wrote at a compaction
/// boundary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedSummary {
    /// The text of the summary.
    pub text: String,
}
