//! The handoff summary: what is shown, stored and injected. Rendering, checking and cutting it are rules of the
//! `handoff` room.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::event::Seq;
use crate::ids::{AssistantId, HandoffId, RunId, ThreadId};

/// A drafted or accepted summary (`summary_json`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HandoffSummary {
    /// Version of this shape.
    pub schema_version: u32,
    /// The handoff it belongs to; the same through all iterations.
    pub handoff_id: HandoffId,
    /// The assistant whose work moves on.
    pub assistant_id: AssistantId,
    /// The thread it summarises.
    pub parent_thread_id: ThreadId,
    /// The thread it seeds; `null` until it is accepted.
    pub child_thread_id: Option<ThreadId>,
    /// At most 120 characters (grapheme clusters).
    pub title: String,
    /// At most 200 characters (grapheme clusters).
    pub tldr: String,
    /// 3–7 items, in the order of [`SummaryItemKind`].
    pub body: Vec<SummaryItem>,
    /// `provider/name` of the model that wrote it, or `extractive`.
    pub model: String,
    /// The run the draft was made in.
    pub model_run_id: Option<RunId>,
    /// Tokens the drafting call used; 0 for an extract.
    pub tokens_used: u64,
    /// 0 for the first proposal.
    pub iteration: u32,
    /// When the handoff's first proposal was made; the same through all iterations.
    pub created_at: Timestamp,
    /// Which events the summary covers, and how.
    pub coverage: Coverage,
    /// Facts computed without a model.
    pub carry_over: CarryOver,
}

/// One item of a summary's body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SummaryItem {
    /// The kind of statement that the item makes about the work.
    pub kind: SummaryItemKind,
    /// One or more plain sentences.
    pub text: String,
    /// The seqs of the events it rests on.
    #[serde(default)]
    pub refs: Vec<Seq>,
    /// False when it names something that the covered messages do not contain.
    #[serde(default = "verified")]
    pub verified: bool,
    /// The names in it that the covered messages do not contain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unfound: Vec<String>,
}

impl SummaryItem {
    /// The note after an item that names something its source does not contain.
    pub const UNVERIFIED: &str = " (unverified)";
}

const fn verified() -> bool {
    true
}

/// The kinds of items, in the order they are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SummaryItemKind {
    /// The person's objective.
    Objective,
    /// Finished work.
    Progress,
    /// Decisions, and the person's standing instructions.
    Decision,
    /// Open work.
    NextStep,
    /// Blockers.
    Blocker,
    /// Files, commands and references the work rests on.
    Artifact,
}

impl SummaryItemKind {
    /// Every kind, in order.
    pub const ALL: [Self; 6] =
        [Self::Objective, Self::Progress, Self::Decision, Self::NextStep, Self::Blocker, Self::Artifact];
}

/// Inclusive range of seqs.
pub type SeqRange = (Seq, Seq);

/// Which events a summary covers: the four lists are disjoint and together are `first_seq..=last_seq`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// The first event that was read.
    pub first_seq: Seq,
    /// The last event that was read.
    pub last_seq: Seq,
    /// Ranges whose text reached the summariser whole.
    pub verbatim: Vec<SeqRange>,
    /// Ranges that reached it condensed (one line a call, a ledger entry, a chunk's summary).
    pub summarized: Vec<SeqRange>,
    /// Ranges that reached it shortened.
    pub truncated: Vec<SeqRange>,
    /// Ranges that did not reach it: hidden notes, and what did not fit.
    pub excluded: Vec<SeqRange>,
    /// How many of the positions are messages; the others are what Segue noted of runs, and always excluded.
    #[serde(default)]
    pub messages: u64,
}

/// Facts that are carried over whatever the model wrote.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CarryOver {
    /// The last thing the person asked for, verbatim up to a limit.
    pub last_user_request: Option<String>,
    /// True if the conversation shows an answer to that request; `None` when there was no request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_request_answered: Option<bool>,
    /// The newest state of the task list.
    #[serde(default)]
    pub todos: Vec<TodoItem>,
    /// Files that were read, most recent first.
    #[serde(default)]
    pub files_read: Vec<String>,
    /// Files that were written, most recent first.
    #[serde(default)]
    pub files_modified: Vec<String>,
    /// Commands that were run, most used first.
    #[serde(default)]
    pub commands: Vec<String>,
    /// Errors that nothing after them resolved, most recent first.
    #[serde(default)]
    pub errors: Vec<String>,
    /// Skills that were loaded, most recent first; what they say is read again when it is needed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<String>,
    /// Tasks delegated to sub-agents, most recent first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delegations: Vec<String>,
    /// The state of the files the summary's items name, looked at when it was drafted for a goal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub referenced_files: Vec<ReferencedFile>,
    /// Fields of a later version, kept.
    #[serde(flatten)]
    pub more: serde_json::Map<String, Value>,
}

/// A file a summary refers to, as it was in the thread's folder when the summary was drafted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReferencedFile {
    /// Its path, as the conversation names it.
    pub path: String,
    /// True if the file existed when it was checked.
    pub exists: bool,
    /// Lowercase hex SHA-256 of its bytes; `None` when it was not there, no file, or too large to be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// One entry of a task list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TodoItem {
    /// The text of the task.
    pub text: String,
    /// The status of the task.
    pub status: TodoStatus,
}

/// The status of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Not begun.
    Pending,
    /// Begun.
    InProgress,
    /// Done.
    Completed,
}
