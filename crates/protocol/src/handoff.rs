//! The stored rows of a handoff and its proposals. The `handoff` crate defines the legal transitions between statuses.

use jiff::Timestamp;
use serde::ser::SerializeStruct as _;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use self::summary::HandoffSummary;
use crate::ids::{AssistantId, HandoffId, RunId, ThreadId};

pub mod carried_facts;
pub mod continuity;
pub mod summary;

named_enum! {
    /// The status of a handoff. Names are those of the column and of JSON.
    pub enum HandoffStatus {
        /// The handoff was requested; no proposal has been drafted.
        Requested = "requested",
        /// The proposal of the current iteration is being drafted.
        Drafting = "drafting",
        /// A stored proposal waits for the user's decision.
        AwaitingDecision = "awaiting_decision",
        /// A proposal was accepted and the child thread exists.
        Accepted = "accepted",
        /// The child's summary block is written to `agent.md`.
        Seeded = "seeded",
        /// The child's first turn is complete and the summary block is cleared.
        Cleaned = "cleaned",
        /// The user declined the handoff.
        Declined = "declined",
        /// The handoff was a preview: the proposal was displayed and nothing else happened.
        Previewed = "previewed",
        /// The handoff failed.
        Failed = "failed",
        /// The handoff expired without a decision.
        Expired = "expired",
    }
}

impl HandoffStatus {
    /// Returns the outcome of the handoff in one word, for clients: `pending`, `accepted`, or the name of the status.
    /// The statuses after an acceptance are one outcome, because the progress of the summary block is irrelevant to
    /// the decision.
    pub const fn outcome(self) -> &'static str {
        match self {
            Self::Requested | Self::Drafting | Self::AwaitingDecision => "pending",
            Self::Accepted | Self::Seeded | Self::Cleaned => "accepted",
            Self::Declined | Self::Previewed | Self::Failed | Self::Expired => self.as_str(),
        }
    }

    /// Returns true if the handoff waits for a draft or a decision. A parent thread has at most one pending handoff.
    pub const fn is_pending(self) -> bool {
        matches!(self, Self::Requested | Self::Drafting | Self::AwaitingDecision)
    }
}

/// A stored handoff.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Handoff {
    /// The handoff's id, the same in all iterations. It is the idempotency key of the acceptance.
    pub handoff_id: HandoffId,
    /// The assistant of the parent and the child thread.
    pub assistant_id: AssistantId,
    /// The thread that is summarized.
    pub parent_thread_id: ThreadId,
    /// The child thread. Its id is chosen at the request, so that a repeated acceptance creates the same thread. The
    /// thread exists from [`HandoffStatus::Accepted`] on.
    pub child_thread_id: ThreadId,
    /// The status of the handoff.
    pub status: HandoffStatus,
    /// The number of the proposal that is being drafted, is shown or was accepted; 0 is the first.
    pub iteration: u32,
    /// The goal of the child thread, if the user gave one.
    pub goal: Option<String>,
    /// The run that drafts the proposals and asks for the decision.
    pub run_id: Option<RunId>,
    /// The limits and flags of the request.
    pub options: Value,
    /// Lowercase hex SHA-256 of the accepted summary.
    pub accepted_sha256: Option<String>,
    /// The reason for a failure, for a refusal, or for a summary block that could not be written.
    pub note: Option<String>,
    /// Time of the request.
    pub created_at: Timestamp,
    /// Time of the last change of the status.
    pub updated_at: Timestamp,
}

/// A stored proposal. An accepted edit is stored as another proposal, so that the child always receives the text of a
/// stored proposal. Its JSON contains the package twice: as `package_md`, and as `summary_md` for readers of version 1.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Proposal {
    /// The handoff it belongs to.
    pub handoff_id: HandoffId,
    /// The number of the proposal; 0 is the first.
    pub iteration: u32,
    /// The structured summary.
    pub summary_json: HandoffSummary,
    /// The rendered package: the summary and the carried facts. The user reviews, the journal stores and the child receives
    /// exactly these bytes.
    // Both versions have this name, so reading needs only it.
    #[serde(rename = "summary_md")]
    pub package_md: String,
    /// Lowercase hex SHA-256 of `package_md`.
    pub summary_sha256: String,
    /// The feedback from which this proposal was drafted; `None` for the first.
    pub feedback: Option<String>,
    /// Time at which the proposal was stored.
    pub created_at: Timestamp,
}

impl Serialize for Proposal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut json = serializer.serialize_struct("Proposal", 8)?;
        json.serialize_field("handoff_id", &self.handoff_id)?;
        json.serialize_field("iteration", &self.iteration)?;
        json.serialize_field("summary_json", &self.summary_json)?;
        json.serialize_field("package_md", &self.package_md)?;
        json.serialize_field("summary_md", &self.package_md)?;
        json.serialize_field("summary_sha256", &self.summary_sha256)?;
        json.serialize_field("feedback", &self.feedback)?;
        json.serialize_field("created_at", &self.created_at)?;
        json.end()
    }
}
