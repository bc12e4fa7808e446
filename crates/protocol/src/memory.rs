//! Tiered memory: the turns of an assistant, the summaries that stand for old ones, and what is kept under a name. When
//! turns become a summary, and how it is written, are rules of the `memory` room.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::event::Seq;
use crate::ids::{AssistantId, SummaryId, ThreadId};
use crate::message::Usage;

/// A row of `medium_term_memory`: what stands for old turns of an assistant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MediumTermSummary {
    /// Names it; time-ordered.
    pub id: SummaryId,
    /// The assistant that the messages belong to.
    pub agent_id: AssistantId,
    /// The summary, without secrets.
    pub summary_text: String,
    /// The lowest index of its turns.
    pub turn_range_start: u64,
    /// The highest index of its turns. Turns in between may belong to another summary, or to none.
    pub turn_range_end: u64,
    /// When it was stored.
    pub created_at: Timestamp,
}

/// A row of `turn_log`: what a person or a model said in plain words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedMessage {
    /// The assistant that the message belongs to.
    pub agent_id: AssistantId,
    /// The thread it was said in.
    pub thread_id: ThreadId,
    /// Its index among the turns of the assistant, from 1, in the order they were stored.
    pub turn_index: u64,
    /// The speaker.
    pub role: MessageRole,
    /// The words.
    pub content: String,
    /// When it was said.
    pub created_at: Timestamp,
    /// True if a summary replaces the message in the context, or a rewind removed it from there.
    #[serde(rename = "archived")]
    pub is_archived: bool,
    /// Its event.
    pub seq: Seq,
    /// The summary that stands for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary_id: Option<SummaryId>,
}

/// The speaker of a plain message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MessageRole {
    /// A person.
    User,
    /// A model.
    Assistant,
}

/// The content of a `turns_archived` event: a summary stands for turns of this thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnsArchived {
    /// Version of this shape.
    pub schema_version: u32,
    /// The row of `medium_term_memory`; several threads may share one.
    pub summary_id: SummaryId,
    /// Why.
    pub reason: ArchiveReason,
    /// The first event of this thread that left the context with them.
    pub first_seq: Seq,
    /// The last one.
    pub last_seq: Seq,
    /// Where the thread's context begins at the earliest since then; `None` when something older is still in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_from: Option<Seq>,
    /// How many turns of this thread the summary stands for.
    pub turn_count: u64,
    /// The lowest index of all its turns.
    pub turn_range_start: u64,
    /// The highest index of all its turns.
    pub turn_range_end: u64,
    /// The summary.
    pub summary: String,
    /// `provider/name` of the model that wrote it, or `extractive`.
    pub model: String,
    /// Secrets that were withheld from it.
    #[serde(default)]
    pub withheld: u64,
    /// Tokens that the model calls took.
    #[serde(default)]
    pub usage: Usage,
    /// The compaction that had condensed the turns before: its marker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marker_seq: Option<Seq>,
}

/// The content of a `turns_restored` event: summaries are gone, and turns that had left the context for them are in it
/// again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnsRestored {
    /// The `turns_archived` events of this thread that no longer count.
    pub archived_seqs: Vec<Seq>,
}

/// Why turns became a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ArchiveReason {
    /// The thread was over the budget of its short-term tier: they leave the context.
    Budget,
    /// A compaction had condensed them: the context has its summary, and this changes nothing in it.
    Compaction,
    /// Somebody asked for it: they leave the context.
    Request,
}

impl ArchiveReason {
    /// Returns whether the turns leave the context by it.
    pub const fn is_removed_from_context(self) -> bool {
        match self {
            Self::Budget | Self::Request => true,
            Self::Compaction => false,
        }
    }
}

/// Something kept under a name, for agents and clients: the store of the Agent Server API.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredItem {
    /// Where it is: labels from the widest to the narrowest, such as `["users", "ada"]`.
    pub namespace: Vec<String>,
    /// Its name there.
    pub key: String,
    /// The stored value.
    pub value: Map<String, Value>,
    /// When the name was first used.
    pub created_at: Timestamp,
    /// When it was last put.
    pub updated_at: Timestamp,
}
