//! Threads. A thread is one conversation. The crates that depend on this one list, name and fork threads.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ids::{AssistantId, HandoffId, ThreadId};
use crate::run::RunStatus;

/// A stored thread, with counters that allow listing threads without reading their events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Thread {
    /// The thread's id.
    pub thread_id: ThreadId,
    /// The assistant that works in it.
    pub assistant_id: AssistantId,
    /// The parent thread, if it has one.
    pub parent_id: Option<ThreadId>,
    /// The relation to the parent; `None` if there is no parent.
    pub parent_kind: Option<ParentKind>,
    /// The thread's name, if it has one.
    pub name: Option<String>,
    /// The status of the thread.
    pub status: ThreadStatus,
    /// Metadata of clients. The keys `handoff` and `last_handoff` are reserved for [`HandoffMark`], and
    /// `incomplete_import` for [`IncompleteImport`].
    pub metadata: Map<String, Value>,
    /// The beginning of the user's first message in the thread.
    pub first_prompt: Option<String>,
    /// Number of events of category `message`.
    pub message_count: u64,
    /// The seq of the newest event; 0 if there is none.
    pub last_seq: u64,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// The project whose memory the thread shares: the path of the main worktree of its repository, or of its folder.
    /// `None` is no project: the thread is personal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
}

impl Thread {
    /// The metadata key of a thread that exists for one run only and is deleted after it: `{"run_id": …}`. Its messages are
    /// not indexed for searches, except for those that name the thread.
    pub const TEMPORARY_KEY: &str = "temporary";
}

named_enum! {
    /// The relation of a thread to its parent.
    pub enum ParentKind {
        /// The thread started blank, with a reviewed summary of the parent.
        Handoff = "handoff",
        /// The thread started with a copy of the parent's transcript.
        Fork = "fork",
        /// The thread of a sub-agent of the parent. Lists contain it only on request.
        Subagent = "subagent",
    }
}

named_enum! {
    /// The status of a thread.
    pub enum ThreadStatus {
        /// No run is active.
        Idle = "idle",
        /// A run is active.
        Busy = "busy",
        /// The last run was interrupted or stopped, and its turn is not complete.
        Interrupted = "interrupted",
        /// The last run failed.
        Error = "error",
    }
}

named_enum! {
    /// The state of a thread as the user sees it in lists. The Agent Server protocol uses [`ThreadStatus`] instead,
    /// which does not distinguish a thread that waits for an answer from one that was stopped.
    pub enum ThreadState {
        /// A run is active or queued.
        Running = "running",
        /// The thread waits for an answer.
        NeedsInput = "needs_you",
        /// The turn is not complete, and nothing is pending: a user stopped its run, or closed the question by a
        /// change of the state.
        Stopped = "stopped",
        /// No run is active and nothing is pending.
        Idle = "idle",
        /// The last run failed.
        Error = "error",
    }
}

/// The stored values from which [`ThreadState`] is derived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadStateInputs {
    /// The stored status.
    pub status: ThreadStatus,
    /// The status of the run that wrote the newest checkpoint; `None` if the thread has no checkpoint or the run was
    /// deleted.
    pub last_run: Option<RunStatus>,
    /// True if an interrupt is pending, including that of a handoff.
    pub has_pending_interrupt: bool,
}

impl ThreadState {
    /// Derives the state. No other code derives it, so that all lists agree.
    ///
    /// If an interrupted thread has no pending interrupt and its last run has the status `interrupted`, the run
    /// stopped at a breakpoint, and the client is expected to resume it. With another last status, a user stopped or
    /// deleted the run, or changed the state after it.
    pub const fn derive(inputs: ThreadStateInputs) -> Self {
        match inputs.status {
            ThreadStatus::Busy => Self::Running,
            ThreadStatus::Idle => Self::Idle,
            ThreadStatus::Error => Self::Error,
            ThreadStatus::Interrupted => {
                let is_at_breakpoint = matches!(inputs.last_run, Some(RunStatus::Interrupted));
                if is_at_breakpoint || inputs.has_pending_interrupt {
                    Self::NeedsInput
                } else {
                    Self::Stopped
                }
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
    /// The parent thread.
    pub source_thread_id: ThreadId,
    /// The child thread.
    pub child_thread_id: ThreadId,
    /// In the child: true until its first turn is complete.
    pub pending: bool,
    /// In the child: true until its summary block is cleared.
    pub cleanup_required: bool,
    /// Time of the handoff request.
    pub created_at: Timestamp,
    /// Time at which the summary block was cleared.
    pub last_cleanup_at: Option<Timestamp>,
}

impl HandoffMark {
    /// The metadata key of the mark.
    pub const KEY: &'static str = "handoff";
    /// The metadata key of the parent's newest accepted handoff, which is kept for audits.
    pub const LAST_KEY: &'static str = "last_handoff";
}

/// The value of `metadata.incomplete_import` in a thread that has only the beginning of an imported session, because the
/// import was interrupted. The import that completes the thread removes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncompleteImport {
    /// The absolute path of the session; `None` if it was uploaded or read from standard input.
    pub path: Option<String>,
    /// Number of messages of the session that are stored.
    pub messages: u64,
    /// Number of messages of the session; `None` if they could not be counted.
    pub messages_total: Option<u64>,
    /// The thread into which a later import read the whole session, because this one was continued here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole_thread_id: Option<ThreadId>,
}

impl IncompleteImport {
    /// The metadata key of the mark.
    pub const KEY: &'static str = "incomplete_import";
}

/// The metadata key of the assistant's name.
const GRAPH_KEY: &str = "graph_id";
/// The metadata key of the assistant's id on the wire ([`AssistantId::wire_id`]).
const ASSISTANT_KEY: &str = "assistant_id";

impl Thread {
    /// Returns an idle thread without events, name and parent.
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
            project: None,
        }
    }

    /// Returns the metadata entries that identify the thread's assistant and are missing or outdated in the metadata.
    /// Clients of the Agent Server protocol search threads by them.
    pub fn missing_assistant_metadata(&self) -> Map<String, Value> {
        let expected = [
            (GRAPH_KEY, self.assistant_id.name().to_owned()),
            (ASSISTANT_KEY, self.assistant_id.wire_id().hyphenated().to_string()),
        ];
        let is_present =
            |key: &str, value: &str| self.metadata.get(key).and_then(Value::as_str) == Some(value);
        let missing = expected.into_iter().filter(|(key, value)| !is_present(key, value));
        missing.map(|(key, value)| (key.to_owned(), value.into())).collect()
    }

    /// Returns the thread with the entries of [`Thread::missing_assistant_metadata`] in its metadata.
    #[must_use]
    pub fn with_assistant_metadata(mut self) -> Self {
        let missing = self.missing_assistant_metadata();
        self.metadata.extend(missing);
        self
    }

    /// Returns the handoff mark in the metadata; `None` if it is absent or cannot be parsed.
    pub fn handoff_mark(&self) -> Option<HandoffMark> {
        self.metadata.get(HandoffMark::KEY).and_then(|value| serde_json::from_value(value.clone()).ok())
    }

    /// Returns the mark of an incomplete import in the metadata; `None` if it is absent or cannot be parsed.
    pub fn incomplete_import(&self) -> Option<IncompleteImport> {
        self.metadata.get(IncompleteImport::KEY).and_then(|value| serde_json::from_value(value.clone()).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_thread_needs_input_only_if_an_interrupt_is_pending() {
        let state = |status, last_run, has_pending_interrupt| {
            ThreadState::derive(ThreadStateInputs { status, last_run, has_pending_interrupt })
        };
        let (cancelled, interrupted) = (Some(RunStatus::Cancelled), Some(RunStatus::Interrupted));
        assert_eq!(state(ThreadStatus::Interrupted, cancelled, false), ThreadState::Stopped);
        assert_eq!(state(ThreadStatus::Interrupted, cancelled, true), ThreadState::NeedsInput);
        assert_eq!(state(ThreadStatus::Interrupted, interrupted, true), ThreadState::NeedsInput);
        assert_eq!(
            state(ThreadStatus::Interrupted, interrupted, false),
            ThreadState::NeedsInput,
            "a breakpoint"
        );
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
