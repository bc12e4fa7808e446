//! Bodies of the steps of a handoff.

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

/// The body of a `handoff_proposed` event: a draft is stored and waits for a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffProposed {
    /// The handoff.
    pub handoff_id: HandoffId,
    /// Which draft it is; 0 is the first.
    pub iteration: u32,
    /// SHA-256 of the text that is shown.
    pub summary_sha256: String,
}

/// The body of a `handoff_refined` event: another draft was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffRefined {
    /// The input of the next draft.
    #[serde(flatten)]
    pub request: DraftRequest,
    /// The handoff.
    pub handoff_id: HandoffId,
    /// The draft it is about.
    pub iteration: u32,
}

/// The input of another draft.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum DraftRequest {
    /// The person's feedback on the previous draft.
    Feedback {
        /// Their words.
        feedback: String,
    },
    /// The same again, by this model.
    Model {
        /// `provider/name`, or `extractive`; `None` for the model that is configured.
        model: Option<String>,
    },
}

/// The body of a `handoff_reverted` event: an earlier draft is shown again, as a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffReverted {
    /// The handoff.
    pub handoff_id: HandoffId,
    /// The new draft.
    pub iteration: u32,
    /// The draft whose text it has.
    pub reverted_to: u32,
}

/// The body of a `handoff_truncated` event: a summary was over its limit and was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffTruncated {
    /// The handoff.
    pub handoff_id: HandoffId,
    /// Tokens of the summary before, by estimate.
    pub tokens_before: u64,
    /// Tokens after.
    pub tokens_after: u64,
}

/// The body of a `handoff_accepted` event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffAccepted {
    /// The handoff.
    pub handoff_id: HandoffId,
    /// The draft that was accepted.
    pub iteration: u32,
    /// SHA-256 of its text.
    pub summary_sha256: String,
    /// The thread that continues.
    pub child_thread_id: ThreadId,
}

/// The body of a `handoff_declined` event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffDeclined {
    /// The handoff.
    pub handoff_id: HandoffId,
    /// Why, if the person said.
    pub message: Option<String>,
}

/// The body of a `handoff_previewed` event: the draft was shown and nothing else.
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
    /// Why.
    pub reason: String,
}

/// The body of a `handoff_expired` event: the handoff was given up unanswered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffExpired {
    /// The handoff.
    pub handoff_id: HandoffId,
}

/// The body of a `handoff_seeded` event: the child's block was written to agent.md, or could not be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffSeeded {
    /// The handoff.
    pub handoff_id: HandoffId,
    /// The file.
    pub file: PathBuf,
    /// Why it could not be written; the child has its summary all the same.
    pub error: Option<String>,
}

/// The body of a `handoff_cleaned` event: the block was cleared after the child's first complete turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffCleaned {
    /// The handoff.
    pub handoff_id: HandoffId,
}

/// The body of a `handoff_mirrored` event: the accepted summary was exported, or cannot be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffMirrored {
    /// The handoff.
    pub handoff_id: HandoffId,
    /// When it was accepted.
    pub accepted_at: Option<Timestamp>,
    /// Why the table does not take it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
