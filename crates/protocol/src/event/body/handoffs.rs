//! Bodies of handoff events. In each, `handoff_id` names the handoff and `iteration` the proposal, from 0.

use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ids::{HandoffId, ThreadId};

/// The body of a `handoff_requested` event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffRequested {
    /// The handoff.
    pub handoff_id: HandoffId,
    /// The goal of the next thread, if one was given.
    pub goal: Option<String>,
    /// The origin of the request: `user` or `agent`.
    pub initiated_by: String,
}

/// The body of a `handoff_proposed` event: a proposal was stored and waits for a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffProposed {
    /// The handoff.
    pub handoff_id: HandoffId,
    /// The number of the proposal; 0 is the first.
    pub iteration: u32,
    /// Lowercase hex SHA-256 of the rendered summary that the user sees.
    pub summary_sha256: String,
}

/// The body of a `handoff_refined` event: the user requested another draft.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffRefined {
    /// The input of the next draft.
    #[serde(flatten)]
    pub request: DraftRequest,
    /// The handoff.
    pub handoff_id: HandoffId,
    /// The proposal that the user refined.
    pub iteration: u32,
}

/// The input for another draft of a handoff summary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum DraftRequest {
    /// The user's feedback on the previous proposal.
    Feedback {
        /// The text of the feedback.
        feedback: String,
    },
    /// A draft that also covers the messages after the previous proposal, and keeps the user's changes to it.
    NewerMessages {
        /// Number of messages after the range that the previous proposal covers.
        newer_messages: u64,
    },
    /// A draft without feedback, by another model.
    Model {
        /// `provider/name`, or `extractive` for an offline summary; `None` for the configured model.
        model: Option<String>,
    },
}

/// The body of a `handoff_edited` event: the user's own text was stored as a new proposal, which nobody has accepted yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffEdited {
    /// The handoff.
    pub handoff_id: HandoffId,
    /// The number of the new proposal.
    pub iteration: u32,
}

/// The body of a `handoff_reverted` event: an earlier proposal was stored again as a new proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffReverted {
    /// The handoff.
    pub handoff_id: HandoffId,
    /// The number of the new proposal.
    pub iteration: u32,
    /// The number of the earlier proposal that has the same text.
    pub reverted_to: u32,
}

/// The body of a `handoff_truncated` event: a summary exceeded its token limit and was truncated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffTruncated {
    /// The handoff.
    pub handoff_id: HandoffId,
    /// Estimated tokens of the summary before it was truncated.
    pub tokens_before: u64,
    /// Estimated tokens of the truncated summary.
    pub tokens_after: u64,
}

/// The body of a `handoff_accepted` event: a proposal was accepted and the child thread exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffAccepted {
    /// The handoff.
    pub handoff_id: HandoffId,
    /// The accepted proposal.
    pub iteration: u32,
    /// Lowercase hex SHA-256 of the accepted summary.
    pub summary_sha256: String,
    /// The child thread, which continues the work.
    pub child_thread_id: ThreadId,
    /// The title of the summary, which is the name of the child thread; `None` if an earlier version stored the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// The body of a `handoff_merged` event: a further handoff was accepted into the thread, which another one had created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffMerged {
    /// The handoff.
    pub handoff_id: HandoffId,
    /// The thread that was handed off.
    pub parent_thread_id: ThreadId,
    /// Lowercase hex SHA-256 of the accepted summary.
    pub summary_sha256: String,
    /// The title of the summary.
    pub title: String,
}

/// The body of a `handoff_declined` event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffDeclined {
    /// The handoff.
    pub handoff_id: HandoffId,
    /// The user's reason, if one was given.
    pub message: Option<String>,
}

/// The body of a `handoff_previewed` event: the proposal was displayed and nothing else happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffPreviewed {
    /// The handoff.
    pub handoff_id: HandoffId,
}

/// The body of a `handoff_failed` event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffFailed {
    /// The handoff.
    pub handoff_id: HandoffId,
    /// The reason for the failure, in one line.
    pub reason: String,
}

/// The body of a `handoff_expired` event: the pending handoff was closed without a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffExpired {
    /// The handoff.
    pub handoff_id: HandoffId,
}

/// The body of a `handoff_seeded` event: the child's summary block was written to `agent.md`, or writing it failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffSeeded {
    /// The handoff.
    pub handoff_id: HandoffId,
    /// The path of the `agent.md` file.
    pub file: PathBuf,
    /// The error if writing failed. The child has its summary in any case, because the journal stores it.
    pub error: Option<String>,
}

/// The body of a `handoff_cleaned` event: the summary block was cleared after the child's first complete turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffCleaned {
    /// The handoff.
    pub handoff_id: HandoffId,
}

/// The body of a `handoff_mirrored` event: the accepted summary was exported to the user's table, or the table
/// refused it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffMirrored {
    /// The handoff.
    pub handoff_id: HandoffId,
    /// Time of the acceptance.
    pub accepted_at: Option<Timestamp>,
    /// The database error if the table refused the row; `None` if it was exported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
