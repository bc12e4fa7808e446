//! Threads: one conversation each. Listing, naming and forking them is done by the rooms above.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ids::{AssistantId, HandoffId, ThreadId};

/// One stored thread, with the counters that make a list cheap.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Thread {
    /// Its id.
    pub thread_id: ThreadId,
    /// The assistant that works in it.
    pub assistant_id: AssistantId,
    /// The thread it came from, if any.
    pub parent_id: Option<ThreadId>,
    /// How it came from its parent.
    pub parent_kind: Option<ParentKind>,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Whether something runs or waits in it.
    pub status: ThreadStatus,
    /// Notes about it; `handoff` and `last_handoff` are reserved.
    pub metadata: Map<String, Value>,
    /// The beginning of the first thing a person said in it.
    pub first_prompt: Option<String>,
    /// Events of category `message`.
    pub message_count: u64,
    /// The highest seq handed out.
    pub last_seq: u64,
    /// When it was created.
    pub created_at: Timestamp,
    /// When something last happened in it.
    pub updated_at: Timestamp,
}

/// How a thread came from its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ParentKind {
    /// A reviewed summary was passed on; the thread began blank.
    Handoff,
    /// The transcript was copied.
    Fork,
    /// A task was given to a sub-agent; its thread is listed only for who asks.
    Subagent,
}

impl ParentKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Handoff, Self::Fork, Self::Subagent];

    /// Returns the stored name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Handoff => "handoff",
            Self::Fork => "fork",
            Self::Subagent => "subagent",
        }
    }

    /// Returns the kind of that stored name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// Whether something runs or waits in a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ThreadStatus {
    /// Nothing runs.
    Idle,
    /// A run is active.
    Busy,
    /// A run waits for a decision.
    Interrupted,
    /// The last run failed.
    Error,
}

impl ThreadStatus {
    /// Every status.
    pub const ALL: [Self; 4] = [Self::Idle, Self::Busy, Self::Interrupted, Self::Error];

    /// Returns the stored name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Busy => "busy",
            Self::Interrupted => "interrupted",
            Self::Error => "error",
        }
    }

    /// Returns the status of that stored name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }
}

/// What both threads of a handoff carry in `metadata.handoff`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandoffMark {
    /// The handoff.
    pub handoff_id: HandoffId,
    /// The parent.
    pub source_thread_id: ThreadId,
    /// The child.
    pub child_thread_id: ThreadId,
    /// In the child: its first complete turn is still to come.
    pub pending: bool,
    /// In the child: the block is still to be cleared.
    pub cleanup_required: bool,
    /// When the handoff was asked for.
    pub created_at: Timestamp,
    /// When the block was cleared.
    pub last_cleanup_at: Option<Timestamp>,
}

impl HandoffMark {
    /// The metadata key it is stored under.
    pub const KEY: &'static str = "handoff";
    /// The metadata key of the parent's newest accepted handoff, kept for audit.
    pub const LAST_KEY: &'static str = "last_handoff";
}

/// The metadata key of the name of the assistant that works in a thread.
const GRAPH_KEY: &str = "graph_id";
/// The metadata key of its id on the wire.
const ASSISTANT_KEY: &str = "assistant_id";

impl Thread {
    /// Returns a thread in which nothing has happened.
    pub fn blank(thread_id: ThreadId, assistant_id: AssistantId, created_at: Timestamp) -> Self {
        Self {
            thread_id,
            assistant_id,
            parent_id: None,
            parent_kind: None,
            name: None,
            status: ThreadStatus::Idle,
            metadata: Map::new(),
            first_prompt: None,
            message_count: 0,
            last_seq: 0,
            created_at,
            updated_at: created_at,
        }
    }

    /// Returns what says in the metadata which assistant works in the thread, as far as it is not said there: clients look
    /// for threads by it.
    pub fn stamp(&self) -> Map<String, Value> {
        let stamp = [
            (GRAPH_KEY, self.assistant_id.name().to_owned()),
            (ASSISTANT_KEY, self.assistant_id.wire_id().hyphenated().to_string()),
        ];
        let is_said = |key: &str, value: &str| self.metadata.get(key).and_then(Value::as_str) == Some(value);
        let unsaid = stamp.into_iter().filter(|(key, value)| !is_said(key, value));
        unsaid.map(|(key, value)| (key.to_owned(), value.into())).collect()
    }

    /// Returns the thread with that in its metadata.
    #[must_use]
    pub fn stamped(mut self) -> Self {
        let stamp = self.stamp();
        self.metadata.extend(stamp);
        self
    }

    /// Returns the handoff mark in the metadata, if there is a readable one.
    pub fn handoff(&self) -> Option<HandoffMark> {
        self.metadata.get(HandoffMark::KEY).and_then(|value| serde_json::from_value(value.clone()).ok())
    }
}
