//! Tiered memory: the logged messages of an assistant, the medium-term summaries that replace old messages in the
//! context, the pins of a thread, and the named items of the store. The `memory` crate decides when messages are
//! summarized and how.

pub mod pins;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::event::Seq;
use crate::ids::{AssistantId, SummaryId, ThreadId};
use crate::message::Usage;

/// A row of `medium_term_memory`: the summary of old messages of an assistant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MediumTermSummary {
    /// The summary's id, which is ordered by time.
    pub id: SummaryId,
    /// The assistant that the messages belong to.
    pub agent_id: AssistantId,
    /// The text of the summary, in which secrets are redacted.
    pub summary_text: String,
    /// The lowest [`LoggedMessage::turn_index`] of the summarized messages.
    pub turn_range_start: u64,
    /// The highest index of the summarized messages. Messages in between may belong to another summary or to none.
    pub turn_range_end: u64,
    /// Time at which the summary was stored.
    pub created_at: Timestamp,
}

/// A row of `turn_log`: the plain text of a message of the user or the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedMessage {
    /// The assistant that the message belongs to.
    pub agent_id: AssistantId,
    /// The thread of the message.
    pub thread_id: ThreadId,
    /// The index of the message among all logged messages of the assistant, from 1, in the order of storing.
    pub turn_index: u64,
    /// The author of the message.
    pub role: MessageRole,
    /// The text of the message.
    pub content: String,
    /// Time of the message.
    pub created_at: Timestamp,
    /// True if a summary replaces the message in the context, or a rewind removed it from there.
    #[serde(rename = "archived")]
    pub is_archived: bool,
    /// The event of the message in its thread.
    pub seq: Seq,
    /// The summary that includes the message, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary_id: Option<SummaryId>,
}

/// The author of a logged message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MessageRole {
    /// The user.
    User,
    /// The model.
    Assistant,
}

/// The content of a `turns_archived` event: a medium-term summary represents messages of this thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnsArchived {
    /// Version of this shape ([`crate::SCHEMA_VERSION`]).
    pub schema_version: u32,
    /// The row of `medium_term_memory`. Several threads of an assistant may share one.
    pub summary_id: SummaryId,
    /// The reason for the summary.
    pub reason: ArchiveReason,
    /// The first event of the archived range of this thread.
    pub first_seq: Seq,
    /// The last event of the archived range (inclusive). If the reason removes messages from the context, those of
    /// the range are removed.
    pub last_seq: Seq,
    /// The event at which the thread's context starts after the removal, at the earliest; `None` if the context still
    /// contains older messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_from: Option<Seq>,
    /// Number of messages of this thread that the summary covers.
    pub turn_count: u64,
    /// The lowest [`LoggedMessage::turn_index`] of all messages of the summary.
    pub turn_range_start: u64,
    /// The highest index of all messages of the summary.
    pub turn_range_end: u64,
    /// The text of the summary.
    pub summary: String,
    /// `provider/name` of the model that wrote the summary, or `extractive` for an offline summary.
    pub model: String,
    /// Number of secrets that were redacted in the summary.
    #[serde(default)]
    pub withheld: u64,
    /// Tokens used by the model calls.
    #[serde(default)]
    pub usage: Usage,
    /// The `middleware:summarize` event of the compaction that had already replaced the messages, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marker_seq: Option<Seq>,
}

/// The content of a `turns_restored` event: medium-term summaries were deleted, and the messages that they had
/// replaced are in the context again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnsRestored {
    /// The `turns_archived` events of this thread that no longer apply.
    pub archived_seqs: Vec<Seq>,
}

/// The reason why messages were summarized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ArchiveReason {
    /// The thread exceeded the budget of its short-term tier. The messages are removed from the context.
    Budget,
    /// A compaction had already replaced the messages with its own summary. The context does not change.
    Compaction,
    /// A user requested it. The messages are removed from the context.
    Request,
}

impl ArchiveReason {
    /// Returns true if messages that are archived for this reason are removed from the context.
    pub const fn is_removed_from_context(self) -> bool {
        match self {
            Self::Budget | Self::Request => true,
            Self::Compaction => false,
        }
    }
}

/// A named item of the store that agents and clients share (the store of the Agent Server API).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredItem {
    /// The item's namespace: labels from the widest to the narrowest, such as `["users", "ada"]`.
    pub namespace: Vec<String>,
    /// The item's name in that namespace.
    pub key: String,
    /// The stored value.
    pub value: Map<String, Value>,
    /// Time of the first write under this name.
    pub created_at: Timestamp,
    /// Time of the last write.
    pub updated_at: Timestamp,
}
