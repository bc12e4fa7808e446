//! Threads: one conversation each. Listing, naming and forking them is done by the rooms above.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ids::{AssistantId, HandoffId, ThreadId};
use crate::run::RunStatus;

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
    /// The status: idle, busy, interrupted or failed.
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

named_enum! {
    /// How a thread came from its parent.
    pub enum ParentKind {
        /// A reviewed summary was passed on; the thread began blank.
        Handoff = "handoff",
        /// The transcript was copied.
        Fork = "fork",
        /// A task was given to a sub-agent; its thread is listed only for who asks.
        Subagent = "subagent",
    }
}

named_enum! {
    /// The status of a thread.
    pub enum ThreadStatus {
        /// Nothing runs.
        Idle = "idle",
        /// A run is active.
        Busy = "busy",
        /// A run waits for a decision.
        Interrupted = "interrupted",
        /// The last run failed.
        Error = "error",
    }
}

named_enum! {
    /// A thread's state as lists show it to a person. The Agent Server protocol has [`ThreadStatus`] instead, which does not
    /// tell a thread that waits for an answer from one that was stopped.
    pub enum ThreadState {
        /// A run is active or queued.
        Running = "running",
        /// The thread waits for an answer.
        NeedsInput = "needs_you",
        /// The turn is not over, and nothing is pending: a person stopped its run, or withdrew the question by a change of the state.
        Stopped = "stopped",
        /// Nothing runs and nothing is pending.
        Idle = "idle",
        /// The last run failed.
        Error = "error",
    }
}

/// The stored facts that a thread's state follows from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadStateInputs {
    /// The stored status.
    pub status: ThreadStatus,
    /// The status of the run that wrote the newest checkpoint; `None` when the thread has none.
    pub last_run: Option<RunStatus>,
    /// True if an interrupt is pending; the question of a handoff is one.
    pub has_pending_interrupt: bool,
}

impl ThreadState {
    /// Derives the state. This is the only place that does.
    ///
    /// An interrupted thread without a pending interrupt stands at a breakpoint of a client, who is to resume it, where its last
    /// run says so. Otherwise a person stopped the run, deleted it, or changed the state behind it.
    pub const fn derive(facts: ThreadStateInputs) -> Self {
        match facts.status {
            ThreadStatus::Busy => Self::Running,
            ThreadStatus::Idle => Self::Idle,
            ThreadStatus::Error => Self::Error,
            ThreadStatus::Interrupted => {
                let is_at_breakpoint = matches!(facts.last_run, Some(RunStatus::Interrupted));
                if is_at_breakpoint || facts.has_pending_interrupt { Self::NeedsInput } else { Self::Stopped }
            }
        }
    }

    /// Returns the stored status of every thread in this state.
    pub const fn status(self) -> ThreadStatus {
        match self {
            Self::Running => ThreadStatus::Busy,
            Self::NeedsInput | Self::Stopped => ThreadStatus::Interrupted,
            Self::Idle => ThreadStatus::Idle,
            Self::Error => ThreadStatus::Error,
        }
    }
}

/// The value of `metadata.handoff` in both threads of a handoff.
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
    pub fn missing_assistant_metadata(&self) -> Map<String, Value> {
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
    pub fn with_assistant_metadata(mut self) -> Self {
        let stamp = self.missing_assistant_metadata();
        self.metadata.extend(stamp);
        self
    }

    /// Returns the handoff mark in the metadata, if there is a readable one.
    pub fn handoff_mark(&self) -> Option<HandoffMark> {
        self.metadata.get(HandoffMark::KEY).and_then(|value| serde_json::from_value(value.clone()).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_thread_needs_nobody_unless_something_asks() {
        let state = |status, last_run, has_pending_interrupt| {
            ThreadState::derive(ThreadStateInputs { status, last_run, has_pending_interrupt })
        };
        let (cancelled, asked) = (Some(RunStatus::Cancelled), Some(RunStatus::Interrupted));
        assert_eq!(state(ThreadStatus::Interrupted, cancelled, false), ThreadState::Stopped);
        assert_eq!(state(ThreadStatus::Interrupted, cancelled, true), ThreadState::NeedsInput);
        assert_eq!(state(ThreadStatus::Interrupted, asked, true), ThreadState::NeedsInput);
        assert_eq!(state(ThreadStatus::Interrupted, asked, false), ThreadState::NeedsInput, "a breakpoint");
        assert_eq!(state(ThreadStatus::Interrupted, None, false), ThreadState::Stopped, "a changed state");
        assert_eq!(state(ThreadStatus::Interrupted, None, true), ThreadState::NeedsInput);
        for (status, expected) in [
            (ThreadStatus::Busy, ThreadState::Running),
            (ThreadStatus::Idle, ThreadState::Idle),
            (ThreadStatus::Error, ThreadState::Error),
        ] {
            assert_eq!(state(status, cancelled, false), expected);
        }
        for state in ThreadState::ALL {
            assert_eq!(ThreadState::from_name(state.as_str()), Some(state));
            assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
        }
    }
}
