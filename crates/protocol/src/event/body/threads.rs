//! Bodies of events about a thread as a whole: its creation, name, folder, and rewinds.

use serde::{Deserialize, Serialize};

use crate::event::Seq;
use crate::ids::{CheckpointId, HandoffId, RunId, ThreadId};

/// The body of a `thread_created` event: the origin of the thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "origin", rename_all = "lowercase")]
pub enum ThreadCreated {
    /// A new, empty thread.
    New,
    /// A copy of another thread's transcript.
    Fork {
        /// The copied thread.
        parent_thread_id: Option<ThreadId>,
        /// The last copied event (inclusive); `None` if all were copied.
        until: Option<Seq>,
    },
    /// A child thread that continues another thread with a reviewed summary.
    Handoff {
        /// The accepted handoff.
        handoff_id: HandoffId,
        /// The parent thread.
        parent_thread_id: ThreadId,
    },
    /// The thread of a sub-agent, created by a tool call.
    Subagent {
        /// The run that made the call; `None` in events of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run_id: Option<RunId>,
        /// The id of the tool call.
        call_id: String,
    },
    /// An origin that only a later version knows.
    #[serde(other)]
    Other,
}

/// The body of a `thread_renamed` event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadRenamed {
    /// The new name.
    pub name: String,
    /// The name before; `None` if the thread had none, or if an earlier version stored the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
}

/// The body of a `thread_rehomed` event: the thread was moved to another workspace folder. Later tool calls are
/// proposed in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadRehomed {
    /// The previous folder; `None` if it is unknown.
    pub from: Option<String>,
    /// The new folder.
    pub to: String,
}

/// The body of a `thread_rewound` event: a user rewound the thread to an earlier point. The journal keeps the later
/// events, but history and context no longer show them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadRewound {
    /// The last event that stays visible (inclusive).
    pub keep_seq: Seq,
    /// Number of messages that are no longer shown.
    #[serde(default)]
    pub superseded: u64,
    /// The checkpoint to which the thread was rewound, if the request named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_id: Option<CheckpointId>,
}
