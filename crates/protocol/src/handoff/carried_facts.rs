//! The facts that a handoff or a compaction carries over: extracted without a model, independently of the text of the summary.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::event::Seq;
use crate::memory::MessageRole;

/// Facts that are computed without a model and carried over to the summary, independently of the model's text.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct CarriedFacts {
    /// True if the Markdown of the proposal contains these facts, so that they are shown, hashed, stored and injected with
    /// it. False for a compaction, and for a proposal of an older version, beside whose Markdown they were injected.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_in_markdown: bool,
    /// The purpose of the child thread, if the user gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    /// The user's last request, verbatim up to a length limit.
    pub last_user_request: Option<String>,
    /// True if the conversation shows that the request was answered, false if it shows that something is left to do;
    /// `None` if it shows neither, or there was no request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_request_answered: Option<bool>,
    /// The user's standing rules, in the order in which they were stated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
    /// The newest state of the task list.
    #[serde(default)]
    pub todos: Vec<TodoItem>,
    /// The files of the work.
    #[serde(default)]
    pub files: CarriedFiles,
    /// The commands, files, references and identifiers that the next turns will probably need, the likeliest first.
    #[serde(default)]
    pub in_use: Vec<String>,
    /// Commands that were run, most used first.
    #[serde(default)]
    pub commands: Vec<String>,
    /// Unresolved errors, most recent first.
    #[serde(default)]
    pub errors: Vec<String>,
    /// Names of loaded skills, most recent first. Their text is not carried over; the agent loads it again if it is
    /// needed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<String>,
    /// Tasks delegated to sub-agents, most recent first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delegations: Vec<String>,
    /// Tool calls of the thread that wait for the user's approval, each with its arguments on one line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending_approvals: Vec<String>,
    /// The pins of the thread. They are rendered whole, and the child thread gets them as its own pins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<PinnedText>,
    /// The state of the files that the summary's items name. It is recorded if the summary was drafted for a goal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub referenced_files: Vec<ReferencedFile>,
    /// Lines of entries that the Markdown contains whole, although they exceed the limits of its lists. The user added them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub whole_entries: Vec<String>,
    /// Fields of a later version, preserved on rewriting.
    #[serde(flatten)]
    pub more: serde_json::Map<String, Value>,
}

/// The files of a conversation, each in one list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CarriedFiles {
    /// Files that were written and still exist, most recent first.
    #[serde(default)]
    pub changed: Vec<String>,
    /// Files that were only read, most recent first.
    #[serde(default)]
    pub read: Vec<String>,
    /// Files that the conversation found and deleted, most recent first.
    #[serde(default)]
    pub deleted: Vec<String>,
}

impl CarriedFacts {
    /// Moves the fields of version 1 from the unknown fields to those that replaced them.
    ///
    /// # Errors
    ///
    /// When such a field is no list of texts.
    fn convert_version_1(&mut self) -> Result<(), serde_json::Error> {
        let Self { files, more, .. } = self;
        for (name, list) in [("files_read", &mut files.read), ("files_modified", &mut files.changed)] {
            if let Some(entries) = more.remove(name) {
                list.extend(serde_json::from_value::<Vec<String>>(entries)?);
            }
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for CarriedFacts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut facts = Self::deserialize(deserializer)?;
        facts.convert_version_1().map_err(D::Error::custom)?;
        Ok(facts)
    }
}

impl Serialize for CarriedFacts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

/// A standing rule of the user, which remains valid after the request that it was stated in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// The rule verbatim: whole sentences, including the sentences that continue it.
    pub text: String,
    /// The events that state the rule, in ascending order.
    #[serde(default)]
    pub refs: Vec<Seq>,
}

/// A pin of the parent thread. It becomes a pin of the child thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinnedText {
    /// The pinned text verbatim, in which secrets are redacted. The Markdown contains it on one line.
    pub text: String,
    /// The author of the text.
    pub author: MessageRole,
    /// The event of the message that the pin quotes, if it quotes one.
    #[serde(default)]
    pub refs: Vec<Seq>,
}

/// The state of a file that a summary names, in the thread's folder at the time of the draft.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReferencedFile {
    /// The path as written in the conversation.
    pub path: String,
    /// True if the file existed at the time of the draft.
    pub exists: bool,
    /// Lowercase hex SHA-256 of the file's bytes; `None` if it did not exist, is not a regular file, or is too large
    /// to hash.
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
    /// Not started.
    Pending,
    /// In progress.
    InProgress,
    /// Done.
    Completed,
}
