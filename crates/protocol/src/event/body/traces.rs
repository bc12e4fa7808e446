//! Bodies of trace events: internal model calls, and the memory that a run was given. They are not part of the
//! conversation.

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::Seq;
use crate::event::names::stored_enum;
use crate::handoff::continuity::ContinuityReport;
use crate::ids::HandoffId;
use crate::message::Usage;

stored_enum! {
    /// The purpose of an internal model call.
    pub enum ModelCallPurpose {
        /// Drafts a handoff summary.
        HandoffSummary = "handoff_summary",
        /// Answers questions from a handoff summary alone, before it is accepted.
        HandoffProbe = "handoff_probe",
        /// Summarizes a part of a conversation that is too long for one drafting call.
        HandoffPart = "handoff_part",
        /// Writes the summary of a compaction.
        Compaction = "compaction",
        /// Writes a medium-term memory summary of old messages.
        Transfer = "transfer",
    }
}

/// The body of a `model_called` event: a model call that is not part of the conversation.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ModelCalled {
    /// The purpose of the call.
    pub purpose: ModelCallPurpose,
    /// The handoff whose summary was drafted or probed.
    pub handoff_id: Option<HandoffId>,
    /// `provider/name` of the called model.
    pub model: Option<String>,
    /// Tokens used, if the provider reported them.
    pub usage: Option<Usage>,
    /// Lowercase hex SHA-256 of the prompt's instructions.
    pub prompt_sha256: Option<String>,
    /// The reason why the response could not be used. A call that drafts a handoff summary stores it as `error`,
    /// every other call as `problem`.
    #[serde(default, alias = "error")]
    pub problem: Option<String>,
    /// The name, metadata and tags of the draft's trace span.
    pub trace: Option<DraftTrace>,
    /// The report of a call that probed a handoff summary.
    #[serde(default)]
    pub continuity: Option<ContinuityReport>,
    /// The part of the conversation that the call summarized.
    #[serde(default)]
    pub part: Option<SummarizedPart>,
}

/// A part of a conversation with its summary. It is stored with the call that wrote it, so that no later draft pays for
/// it again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SummarizedPart {
    /// The seq of the first message.
    pub first_seq: Seq,
    /// The seq of the last message, inclusive.
    pub last_seq: Seq,
    /// The summary, one line for each fact; empty if the response could not be used.
    pub summary: String,
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
        if let Some(report) = &self.continuity {
            map.serialize_entry("continuity", report)?;
        }
        if let Some(part) = &self.part {
            map.serialize_entry("part", part)?;
        }
        map.end()
    }
}

/// The trace span of one draft of a handoff summary.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DraftTrace {
    /// The name of the span.
    pub name: String,
    /// The metadata of the span, such as `handoff_iteration`.
    pub metadata: Map<String, Value>,
    /// The tags of the span.
    pub tags: Vec<String>,
}

impl DraftTrace {
    /// Returns the number of the proposal for which the draft was made; `None` if the metadata does not contain it.
    pub fn iteration(&self) -> Option<u64> {
        self.metadata.get("handoff_iteration").and_then(Value::as_u64)
    }
}

/// The body of a `memory_read` event: the instructions and memory that a run was given, by hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryRead {
    /// The texts, in their order in the system prompt.
    pub sources: Vec<MemorySource>,
}

/// One text that a run was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemorySource {
    /// The name of the text: `agent.md`, `current_thread_summary`, or the name of a prompt file.
    pub name: String,
    /// Lowercase hex SHA-256 of the text's bytes.
    pub sha256: String,
}
