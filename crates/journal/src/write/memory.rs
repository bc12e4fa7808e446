//! The data of writes about durable facts and about revisions of the notes in agent.md.

use jiff::Timestamp;
use protocol::{AssistantId, FactId, MessageRole, Seq, SummaryId, ThreadId};
use serde::{Deserialize, Serialize};

/// Maximum number of stored revisions of an agent's notes.
pub const NOTES_REVISIONS_MAX: u64 = 1_000;

/// The characters at the end of a text that are not compared.
const END_PUNCTUATION: [char; 12] = ['.', '!', '?', ',', ';', ':', '…', '。', '！', '？', '،', ' '];

/// A fact that a model proposes for agent.md, with the message that it quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactProposal {
    /// The id of the fact.
    pub fact_id: FactId,
    /// The agent. The source thread must belong to it.
    pub agent_id: AssistantId,
    /// The conversations that the fact is for.
    pub scope: FactScope,
    /// The kind of fact.
    pub kind: FactKind,
    /// The fact in one sentence.
    pub text: String,
    /// Words of the source message that state the fact.
    pub quote: String,
    /// The source message.
    pub source: FactSource,
    /// The summary that was stored in the same transaction.
    pub summary_id: SummaryId,
    /// The note of agent.md that the fact replaces, as it stands there.
    pub replaces: Option<String>,
    /// The time of the proposal.
    pub created_at: Timestamp,
}

/// The message that a fact quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FactSource {
    /// The thread.
    pub thread_id: ThreadId,
    /// The seq of the message.
    pub seq: Seq,
    /// The author of the message.
    pub role: MessageRole,
}

/// The conversations that a fact is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FactScope {
    /// Those in the project of the source thread; all conversations, if the thread has none.
    #[default]
    Project,
    /// All conversations of the agent.
    Personal,
}

/// The kind of a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FactKind {
    /// A wish of the person about the work.
    Preference,
    /// A decision that applies to later work.
    Decision,
    /// A property of the machine, the repository or the services.
    Environment,
    /// The name of a person or a thing.
    Name,
}

/// The state of a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FactState {
    /// It awaits review.
    Proposed,
    /// It is a note in agent.md.
    Accepted,
    /// It is a note in agent.md, in the words of a person.
    Edited,
    /// It was declined.
    Declined,
    /// It was a note in agent.md, and a later fact has replaced it.
    Superseded,
}

/// A change of the state of a fact.
///
/// An acceptance marks the note of the fact as pending, because agent.md is written after it. While the mark is there, a change
/// from the state to itself removes the mark, and a change back to [`FactState::Proposed`] undoes the acceptance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactDecision {
    /// The fact.
    pub fact_id: FactId,
    /// The expected state.
    pub from: FactState,
    /// The new state.
    pub to: FactState,
    /// The text of the note in agent.md; `None` keeps the recorded one.
    pub text: Option<String>,
    /// The time of the decision.
    pub at: Timestamp,
}

/// A state of the notes in agent.md to be recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotesRevisionRecord {
    /// The agent.
    pub agent_id: AssistantId,
    /// The reason for the change.
    pub cause: RevisionCause,
    /// The notes: the bytes of the file without the managed block.
    pub notes: Vec<u8>,
    /// The offset in the notes at which the managed block stood; `None` if there was no block.
    pub block_offset: Option<u64>,
    /// The time at which this state was found.
    pub at: Timestamp,
}

/// The reason for a change of the notes in agent.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RevisionCause {
    /// Another program, or a person with an editor, changed the file.
    Outside,
    /// A person asked to remember a note.
    Remember,
    /// The agent edited its notes.
    Tool,
    /// A person edited the file.
    Edit,
    /// A proposed fact was accepted.
    Fact,
    /// An earlier revision was restored.
    Restore,
}

impl FactKind {
    const ALL: [Self; 4] = [Self::Preference, Self::Decision, Self::Environment, Self::Name];

    /// Returns the name in JSON and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Preference => "preference",
            Self::Decision => "decision",
            Self::Environment => "environment",
            Self::Name => "name",
        }
    }

    /// Returns the kind with this name, or `None`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

impl FactState {
    const ALL: [Self; 5] = [Self::Proposed, Self::Accepted, Self::Edited, Self::Declined, Self::Superseded];

    /// Returns the name in JSON and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Proposed => "proposed",
            Self::Accepted => "accepted",
            Self::Edited => "edited",
            Self::Declined => "declined",
            Self::Superseded => "superseded",
        }
    }

    /// Returns the state with this name, or `None`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }

    /// Returns whether a fact in this state may change to the state `to`.
    pub const fn can_become(self, to: Self) -> bool {
        match self {
            Self::Proposed => matches!(to, Self::Accepted | Self::Edited | Self::Declined),
            Self::Accepted => matches!(to, Self::Accepted | Self::Proposed | Self::Superseded),
            Self::Edited => matches!(to, Self::Edited | Self::Proposed | Self::Superseded),
            Self::Declined | Self::Superseded => false,
        }
    }
}

impl RevisionCause {
    const ALL: [Self; 6] = [Self::Outside, Self::Remember, Self::Tool, Self::Edit, Self::Fact, Self::Restore];

    /// Returns the name in JSON and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Outside => "outside",
            Self::Remember => "remember",
            Self::Tool => "tool",
            Self::Edit => "edit",
            Self::Fact => "fact",
            Self::Restore => "restore",
        }
    }

    /// Returns the cause with this name, or `None`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.as_str() == name)
    }
}

/// Returns the form of a text by which facts, notes and quotes are compared: in lower case, with single blanks, and without
/// the punctuation at the end.
pub fn comparison_key(text: &str) -> String {
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    words.join(" ").trim_end_matches(END_PUNCTUATION).to_owned()
}
