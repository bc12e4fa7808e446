//! Queries for durable facts and for revisions of the notes in agent.md, and their results.

use jiff::Timestamp;
use protocol::{AssistantId, FactId, MessageRole, Seq, SummaryId, ThreadId};

use super::ProjectScope;
use crate::{FactKind, FactState, RevisionCause};

/// A query for a page of an agent's facts, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactQuery {
    /// The agent.
    pub agent_id: AssistantId,
    /// Only facts that conversations in this scope see: those of the project, and those of no project.
    pub project: ProjectScope,
    /// Only facts in one of these states; empty means any.
    pub states: Vec<FactState>,
    /// Only facts whose id begins with this text. Hyphens and case are ignored.
    pub id_prefix: String,
    /// Only accepted facts whose note is not known to stand in agent.md yet.
    pub is_note_pending: bool,
    /// Number of facts to skip.
    pub offset: usize,
    /// Maximum number of facts, from 1 to [`crate::PAGE_ROWS_MAX`].
    pub limit: usize,
}

impl FactQuery {
    /// Returns a query for the first page of all facts of an agent.
    pub const fn for_agent(agent_id: AssistantId) -> Self {
        Self {
            agent_id,
            project: ProjectScope::Any,
            states: Vec::new(),
            id_prefix: String::new(),
            is_note_pending: false,
            offset: 0,
            limit: crate::PAGE_ROWS_MAX,
        }
    }
}

/// A fact that a model proposed, and the decision on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryFact {
    /// The id of the fact.
    pub fact_id: FactId,
    /// The agent.
    pub agent_id: AssistantId,
    /// The path of the project whose conversations the fact is for; `None` for all conversations.
    pub project: Option<String>,
    /// The kind of fact.
    pub kind: FactKind,
    /// The fact as the model proposed it.
    pub text: String,
    /// Words of the source message; empty if its thread was deleted.
    pub quote: String,
    /// The thread of the source message; `None` if it was deleted.
    pub thread_id: Option<ThreadId>,
    /// The seq of the source message.
    pub seq: Seq,
    /// The author of the source message.
    pub role: MessageRole,
    /// The summary with which the fact was proposed.
    pub summary_id: SummaryId,
    /// The note of agent.md that the fact replaces, as it stood there.
    pub replaces: Option<String>,
    /// The state.
    pub state: FactState,
    /// The text of the note in agent.md, if there was one.
    pub decided_text: Option<String>,
    /// True from the acceptance of the fact until its note stands in agent.md.
    pub is_note_pending: bool,
    /// The time of the last decision.
    pub decided_at: Option<Timestamp>,
    /// The time of the proposal.
    pub created_at: Timestamp,
}

/// A query for a page of the revisions of an agent's notes, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotesRevisionQuery {
    /// The agent.
    pub agent_id: AssistantId,
    /// Only revisions before this number.
    pub before: Option<u64>,
    /// Maximum number of revisions, from 1 to [`crate::PAGE_ROWS_MAX`].
    pub limit: usize,
}

/// A recorded state of the notes in agent.md.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotesRevision {
    /// The number of the revision among those of the agent, from 1.
    pub number: u64,
    /// The reason for the change.
    pub cause: RevisionCause,
    /// The lower-case hex SHA-256 of the notes.
    pub sha256: String,
    /// The notes: the bytes of the file without the managed block.
    pub notes: Vec<u8>,
    /// The offset in the notes at which the managed block stood; `None` if there was no block.
    pub block_offset: Option<u64>,
    /// The time at which this state was recorded.
    pub created_at: Timestamp,
}
