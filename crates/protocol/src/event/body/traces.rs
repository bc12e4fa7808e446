//! Bodies of what a run did behind the conversation: internal model calls, and the texts it was given.

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::event::names::stored_enum;
use crate::ids::HandoffId;
use crate::message::Usage;

stored_enum! {
    /// The purpose of an internal model call.
    pub enum ModelCallPurpose {
        /// The draft of a handoff's summary.
        HandoffSummary = "handoff_summary",
        /// The summary of a compaction.
        Compaction = "compaction",
        /// The summary of old turns.
        Transfer = "transfer",
    }
}

/// The body of a `model_called` event: a model call that is no part of the conversation.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ModelCalled {
    /// The purpose of the call.
    pub purpose: ModelCallPurpose,
    /// The handoff it drafted for.
    pub handoff_id: Option<HandoffId>,
    /// `provider/name` of the model.
    pub model: Option<String>,
    /// Tokens it took.
    pub usage: Option<Usage>,
    /// SHA-256 of the prompt's instructions.
    pub prompt_sha256: Option<String>,
    /// Why its answer could not be used. A draft's call stores this as `error`, every other as `problem`.
    #[serde(default, alias = "error")]
    pub problem: Option<String>,
    /// How a trace shows the draft it was made for.
    pub trace: Option<DraftTrace>,
}

impl Serialize for ModelCalled {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("purpose", &self.purpose)?;
        if let Some(handoff_id) = &self.handoff_id {
            map.serialize_entry("handoff_id", handoff_id)?;
        }
        map.serialize_entry("model", &self.model)?;
        map.serialize_entry("usage", &self.usage)?;
        map.serialize_entry("prompt_sha256", &self.prompt_sha256)?;
        let problem = if self.purpose == ModelCallPurpose::HandoffSummary { "error" } else { "problem" };
        map.serialize_entry(problem, &self.problem)?;
        if let Some(trace) = &self.trace {
            map.serialize_entry("trace", trace)?;
        }
        map.end()
    }
}

/// How a trace shows one draft of a handoff's summary.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DraftTrace {
    /// Its name.
    pub name: String,
    /// Metadata of the span.
    pub metadata: Map<String, Value>,
    /// Its tags.
    pub tags: Vec<String>,
}

impl DraftTrace {
    /// Returns the iteration of the handoff that the draft belongs to.
    pub fn iteration(&self) -> Option<u64> {
        self.metadata.get("handoff_iteration").and_then(Value::as_u64)
    }
}

/// The body of a `memory_read` event: the instructions and memory a run was given, by hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryRead {
    /// The texts, in the order in which they were given.
    pub sources: Vec<MemorySource>,
}

/// A text that a run was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemorySource {
    /// The name of the text: `agent.md`, `current_thread_summary`, or the name of a prompt file.
    pub name: String,
    /// Lowercase hex SHA-256 of its bytes.
    pub sha256: String,
}
