//! The stored rows of a handoff and its proposals. Which status may follow which is a rule of the `handoff` room.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::summary::HandoffSummary;
use crate::ids::{AssistantId, HandoffId, RunId, ThreadId};

pub mod summary;

named_enum! {
    /// Where a handoff stands.
    pub enum HandoffStatus {
        /// Asked for; nothing has been drafted.
        Requested = "requested",
        /// A draft of the current iteration is being made.
        Drafting = "drafting",
        /// A stored proposal waits for a person.
        AwaitingDecision = "awaiting_decision",
        /// Accepted: the child thread exists.
        Accepted = "accepted",
        /// The child's block is written.
        Seeded = "seeded",
        /// The child's first turn is complete and the block is cleared.
        Cleaned = "cleaned",
        /// A person said no.
        Declined = "declined",
        /// Shown, and nothing else.
        Previewed = "previewed",
        /// It could not be completed.
        Failed = "failed",
        /// Nobody answered.
        Expired = "expired",
    }
}

impl HandoffStatus {
    /// Returns what became of the handoff, in a word: whether the block of an accepted one is written or cleared again is no
    /// matter to a decision.
    pub const fn outcome(self) -> &'static str {
        match self {
            Self::Requested | Self::Drafting | Self::AwaitingDecision => "pending",
            Self::Accepted | Self::Seeded | Self::Cleaned => "accepted",
            Self::Declined | Self::Previewed | Self::Failed | Self::Expired => self.as_str(),
        }
    }

    /// Returns whether the handoff still waits for a draft or a decision; a parent thread has one such at most.
    pub const fn is_pending(self) -> bool {
        matches!(self, Self::Requested | Self::Drafting | Self::AwaitingDecision)
    }
}

/// One stored handoff.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Handoff {
    /// Its id, the same through all iterations; the idempotency key of its acceptance.
    pub handoff_id: HandoffId,
    /// The assistant whose work moves on.
    pub assistant_id: AssistantId,
    /// The thread that is handed off.
    pub parent_thread_id: ThreadId,
    /// The thread it seeds, chosen at the request so that an acceptance can be repeated; it exists from
    /// [`HandoffStatus::Accepted`] on.
    pub child_thread_id: ThreadId,
    /// Where it stands.
    pub status: HandoffStatus,
    /// The iteration being drafted, shown or accepted; 0 for the first.
    pub iteration: u32,
    /// The goal of the next thread, if the person gave one.
    pub goal: Option<String>,
    /// The run that carries it.
    pub run_id: Option<RunId>,
    /// How it was asked for: limits and flags, as the request gave them.
    pub options: Value,
    /// The hash of what was accepted.
    pub accepted_sha256: Option<String>,
    /// Why it failed, was declined or could not write the block.
    pub note: Option<String>,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When its status last changed.
    pub updated_at: Timestamp,
}

/// One stored proposal. An accepted edit is stored as one more, so that what is injected is always a proposal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proposal {
    /// The handoff it belongs to.
    pub handoff_id: HandoffId,
    /// 0 for the first.
    pub iteration: u32,
    /// The structured summary.
    pub summary_json: HandoffSummary,
    /// The rendered summary. People read, the journal stores and the child receives exactly these bytes.
    pub summary_md: String,
    /// Lowercase hex SHA-256 of `summary_md`.
    pub summary_sha256: String,
    /// The feedback that led to it; `None` for the first.
    pub feedback: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
}
