//! Compaction: what is stored when a stretch of a conversation is condensed for the model. When that happens and how it
//! is told are rules of the `compaction` room.

use serde::{Deserialize, Serialize};

use crate::event::Seq;
use crate::handoff::summary::CarryOver;
use crate::message::Usage;

/// The content of a `middleware:summarize` event. The messages it stands for stay in the journal as they are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compaction {
    /// Version of this shape.
    pub schema_version: u32,
    /// Why it happened.
    pub trigger: CompactionTrigger,
    /// The first event that is condensed.
    pub first_seq: Seq,
    /// The last event that is condensed: what follows it is sent as it is.
    pub last_seq: Seq,
    /// Messages that were sent until then and are condensed here; an earlier summary is none.
    pub replaced_count: u64,
    /// Messages that are still sent as they are.
    pub kept_count: u64,
    /// Tokens of the next request before, everything in it counted, by estimate.
    pub tokens_before: u64,
    /// Tokens of the next request after.
    pub tokens_after: u64,
    /// `provider/name` of the model that wrote the summary, or `extractive`.
    pub model: String,
    /// The summary, rendered from `sections` and `carry_over`: what people are shown, and what the model is sent.
    pub summary: String,
    /// The summary in its parts; the next compaction goes on from them.
    pub sections: CondensedSummary,
    /// Facts computed without a model, over everything that is condensed so far.
    pub carry_over: CarryOver,
    /// The person's last request when it is among what is condensed: it is sent verbatim behind the summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_request_seq: Option<Seq>,
    /// The marker whose summary was brought up to date here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_seq: Option<Seq>,
    /// The focus that the person asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus: Option<String>,
    /// Milliseconds it took.
    pub duration_ms: u64,
    /// The step of its run.
    #[serde(default)]
    pub step: u64,
    /// Tokens that the summary's own model calls took.
    #[serde(default)]
    pub usage: Usage,
    /// SHA-256 of the prompt's instructions; absent for an extract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_sha256: Option<String>,
}

named_enum! {
    /// Why a conversation was condensed.
    pub enum CompactionTrigger {
        /// It had grown to a configured size.
        Auto = "auto",
        /// A person, or the agent, asked for it.
        Manual = "manual",
        /// The provider refused the request as too large.
        Overflow = "overflow",
    }
}

/// A condensed stretch of conversation in its parts. Each entry is one or two plain sentences.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CondensedSummary {
    /// The person's goal.
    pub goal: String,
    /// Rules and wishes the person gave.
    #[serde(default)]
    pub constraints: Vec<String>,
    /// Finished work.
    #[serde(default)]
    pub progress: Vec<String>,
    /// Decisions with their reasons.
    #[serde(default)]
    pub decisions: Vec<String>,
    /// Files that matter, and what is in them or was changed.
    #[serde(default)]
    pub files: Vec<String>,
    /// Errors, and what resolved them.
    #[serde(default)]
    pub errors: Vec<String>,
    /// The person's requests, one entry per message.
    #[serde(default)]
    pub user_messages: Vec<String>,
    /// Open work.
    #[serde(default)]
    pub pending: Vec<String>,
    /// The next step.
    #[serde(default)]
    pub next_step: String,
}

/// The content of a `tool_result_clipped` event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClippedResult {
    /// The event of the result.
    pub seq: Seq,
    /// The call it is the result of.
    pub call_id: String,
    /// The artifact of the thread that holds the whole text.
    pub sha256: String,
    /// Bytes of the whole text.
    pub bytes: u64,
    /// The text that replaces it in requests: both ends, and where the whole can be read.
    pub text: String,
}

/// The content of a `compaction_undone` event: from here on everything is sent again that the marker stood for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactionUndone {
    /// The marker that is taken back.
    pub marker_seq: Seq,
    /// The results that were clipped with it, and are sent whole again: the events that said so.
    #[serde(default)]
    pub clip_seqs: Vec<Seq>,
}

/// The content of a `compaction_failed` event: nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactionFailed {
    /// Why it was to happen.
    pub trigger: CompactionTrigger,
    /// Why it did not, in words.
    pub reason: String,
    /// The hook or person that refused the compaction, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vetoed_by: Option<String>,
}
