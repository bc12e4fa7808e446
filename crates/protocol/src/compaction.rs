//! The stored shapes of compaction: a summary that replaces older messages in the model's context, large tool results
//! that are clipped, and the events that undo or report a failed compaction. The `compaction` crate decides when to
//! compact and how to write the summary.

use serde::{Deserialize, Serialize};

use crate::event::Seq;
use crate::handoff::carried_facts::CarriedFacts;
use crate::message::Usage;

/// The content of a `middleware:summarize` event, the boundary of a compaction. From this event on, the model is sent
/// [`Compaction::summary`] in place of the compacted messages. The journal keeps those messages unchanged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compaction {
    /// Version of this shape ([`crate::SCHEMA_VERSION`]).
    pub schema_version: u32,
    /// The cause of the compaction.
    pub trigger: CompactionTrigger,
    /// The first event that the summary replaces.
    pub first_seq: Seq,
    /// The last event that the summary replaces (inclusive). Later messages are sent verbatim.
    pub last_seq: Seq,
    /// Number of messages that were in the context before this compaction and that the summary replaces. An earlier
    /// summary does not count as a message.
    pub replaced_count: u64,
    /// Number of messages that are still sent verbatim.
    pub kept_count: u64,
    /// Estimated tokens of the whole next request before the compaction.
    pub tokens_before: u64,
    /// Estimated tokens of the whole next request after the compaction.
    pub tokens_after: u64,
    /// `provider/name` of the model that wrote the summary, or `extractive` for an offline summary.
    pub model: String,
    /// The summary as Markdown, rendered from `sections` and `carried`. Users see and the model receives this text.
    pub summary: String,
    /// The sections of the summary. The next compaction updates them instead of starting from nothing.
    pub sections: CondensedSummary,
    /// Facts computed without a model over all events that this and earlier compactions cover.
    #[serde(rename = "carry_over")]
    pub carried: CarriedFacts,
    /// The event of the user's last request if the summary replaces it. The request is sent verbatim after the summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_request_seq: Option<Seq>,
    /// The `middleware:summarize` event of the earlier compaction whose summary this one updates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_seq: Option<Seq>,
    /// The focus that the user asked for, such as a topic to preserve in detail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus: Option<String>,
    /// Duration of the compaction in milliseconds.
    pub duration_ms: u64,
    /// The step of the run in which the compaction happened.
    #[serde(default)]
    pub step: u64,
    /// Tokens used by the model calls that wrote the summary.
    #[serde(default)]
    pub usage: Usage,
    /// Lowercase hex SHA-256 of the prompt's instructions; `None` for an offline summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_sha256: Option<String>,
}

named_enum! {
    /// The cause of a compaction.
    pub enum CompactionTrigger {
        /// The estimated size of the request reached the configured threshold.
        Auto = "auto",
        /// The user or the agent requested it.
        Manual = "manual",
        /// The provider refused the request as too large.
        Overflow = "overflow",
    }
}

/// The sections of a compaction summary. Each entry of a list is one or two plain sentences.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CondensedSummary {
    /// The user's goal.
    pub goal: String,
    /// Rules and preferences that the user stated.
    #[serde(default)]
    pub constraints: Vec<String>,
    /// Finished work.
    #[serde(default)]
    pub progress: Vec<String>,
    /// Decisions with their reasons.
    #[serde(default)]
    pub decisions: Vec<String>,
    /// Relevant files, each with its content or its change.
    #[serde(default)]
    pub files: Vec<String>,
    /// Errors, each with its resolution.
    #[serde(default)]
    pub errors: Vec<String>,
    /// The user's requests, one entry per message.
    #[serde(default)]
    pub user_messages: Vec<String>,
    /// Open work.
    #[serde(default)]
    pub pending: Vec<String>,
    /// The next step.
    #[serde(default)]
    pub next_step: String,
}

/// The content of a `tool_result_clipped` event. From this event on, the model is sent a shortened form of a large
/// tool result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClippedResult {
    /// The `tool_message` event whose text is shortened.
    pub seq: Seq,
    /// The id of the tool call that produced the result.
    pub call_id: String,
    /// Lowercase hex SHA-256 of the whole text, which names the thread's artifact that stores it.
    pub sha256: String,
    /// Size of the whole text in bytes.
    pub bytes: u64,
    /// The replacement text in requests: the beginning and end of the result, and a reference to the artifact with
    /// the whole text.
    pub text: String,
}

/// The content of a `compaction_undone` event. From this event on, the model is again sent the messages that the
/// compaction had replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactionUndone {
    /// The `middleware:summarize` event of the compaction that is undone.
    pub marker_seq: Seq,
    /// The `tool_result_clipped` events of this compaction. They no longer apply, so the results are sent whole
    /// again. Earlier versions did not store them.
    #[serde(default)]
    pub clip_seqs: Vec<Seq>,
}

/// The content of a `compaction_failed` event: a compaction was attempted and the context is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactionFailed {
    /// The cause of the attempt.
    pub trigger: CompactionTrigger,
    /// The reason for the failure, in one line for users.
    pub reason: String,
    /// The hook or user that refused the compaction, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vetoed_by: Option<String>,
}
