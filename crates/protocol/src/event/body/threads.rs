//! Bodies of what happens to a thread as a whole.

use serde::{Deserialize, Serialize};

use crate::event::Seq;
use crate::ids::{CheckpointId, HandoffId, RunId, ThreadId};

/// The body of a `thread_created` event: where the thread comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "origin", rename_all = "lowercase")]
pub enum ThreadCreated {
    /// It began empty.
    New,
    /// It began as a copy of another thread.
    Fork {
        /// The thread that was copied.
        parent_thread_id: Option<ThreadId>,
        /// The last event that was copied; `None` when all were.
        until: Option<Seq>,
    },
    /// It continues another thread with a summary.
    Handoff {
        /// The accepted handoff.
        handoff_id: HandoffId,
        /// The thread that handed over.
        parent_thread_id: ThreadId,
    },
    /// A tool call began it for a sub-agent.
    Subagent {
        /// The run that made the call; earlier versions did not store it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run_id: Option<RunId>,
        /// The call.
        call_id: String,
    },
    /// An origin that this version does not know.
    #[serde(other)]
    Other,
}

/// The body of a `thread_renamed` event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadRenamed {
    /// The new name.
    pub name: String,
}

/// The body of a `thread_rehomed` event: the thread moved to another folder, in which its calls are proposed from then on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadRehomed {
    /// The folder before; `None` when it is not known.
    pub from: Option<String>,
    /// The folder from then on.
    pub to: String,
}

/// The body of a `thread_rewound` event: the thread went back to an earlier point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadRewound {
    /// The last event that stays visible.
    pub keep_seq: Seq,
    /// How many messages are no longer shown.
    #[serde(default)]
    pub superseded: u64,
    /// The checkpoint that was gone back to, where one was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_id: Option<CheckpointId>,
}
