//! Runs and checkpoints: one execution of the graph, and the points where it can resume.

pub mod failure;
pub mod feedback;
pub mod request;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::event::Seq;
use crate::ids::{AssistantId, CheckpointId, RunId, ThreadId};
use crate::message::Usage;
use failure::RunFailure;

named_enum! {
    /// Where a run stands.
    pub enum RunStatus {
        /// Admitted, not started.
        Pending = "pending",
        /// Executing; a thread has one such at most.
        Running = "running",
        /// The graph is idle.
        Success = "success",
        /// It failed; `error` says how.
        Error = "error",
        /// It waits for a decision.
        Interrupted = "interrupted",
        /// It reached its limit of time or steps.
        Timeout = "timeout",
        /// A person stopped it.
        Cancelled = "cancelled",
    }
}

impl RunStatus {
    /// Returns whether the run still executes or will.
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Pending | Self::Running)
    }
}

/// One stored run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Its id.
    pub run_id: RunId,
    /// The thread it runs on.
    pub thread_id: ThreadId,
    /// The assistant that runs.
    pub assistant_id: AssistantId,
    /// Where it stands.
    pub status: RunStatus,
    /// `provider/name` of the model it was admitted with.
    pub model: Option<String>,
    /// Why it did not succeed; `None` when it did, or has not ended.
    pub failure: Option<RunFailure>,
    /// The process that executes the run, by a name that is unique to it. No other process writes for the run until the lease expires.
    pub lease_owner: Option<String>,
    /// When the lease ends unless it is renewed.
    pub lease_until: Option<Timestamp>,
    /// Tokens of all its model calls.
    pub usage: Usage,
    /// When it was admitted.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// A run and the thread it runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RunRef {
    /// The thread.
    pub thread_id: ThreadId,
    /// The run.
    pub run_id: RunId,
}

impl Run {
    /// Returns its id with its thread's.
    pub const fn run_ref(&self) -> RunRef {
        RunRef { thread_id: self.thread_id, run_id: self.run_id }
    }
}

/// A resumable point: small, because messages live in the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Its id.
    pub checkpoint_id: CheckpointId,
    /// The thread.
    pub thread_id: ThreadId,
    /// The run that wrote it.
    pub run_id: RunId,
    /// Steps of the run so far; 0 is the admission.
    pub step: u64,
    /// The journal's position when it was written: the state is a view up to here.
    pub head_seq: Seq,
    /// The node to execute next; `None` when the graph is idle.
    pub next: Option<String>,
    /// The graph's small state channels; keys that begin with `_` never leave the process.
    pub channels: Map<String, Value>,
    /// Activities that were decided and not yet confirmed, in order.
    pub activities: Vec<PendingActivity>,
    /// The origin of the checkpoint.
    #[serde(default)]
    pub source: CheckpointSource,
    /// When it was written.
    pub created_at: Timestamp,
}

named_enum! {
    /// The origin of a checkpoint.
    #[derive(Default)]
    pub enum CheckpointSource {
        /// A step of a run, or its admission.
        #[default]
        Loop = "loop",
        /// A client changed the state between runs.
        Update = "update",
        /// The thread went back to an earlier point; what follows goes on from there. It is no point of the thread's past
        /// itself.
        Rewind = "rewind",
    }
}

/// One step of a thread's past, as a point one can go back to: the events up to `head_seq` are what had happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointEntry {
    /// The checkpoint that was written after the step.
    pub checkpoint_id: CheckpointId,
    /// The run.
    pub run_id: RunId,
    /// Steps of the run so far; 0 is the admission.
    pub step: u64,
    /// The journal's position when it was written.
    pub head_seq: Seq,
    /// The node that was to be executed next; `None` when the graph was idle.
    pub next: Option<String>,
    /// The origin of the checkpoint.
    #[serde(default)]
    pub source: CheckpointSource,
    /// The first message that came in with it, where it is the admission of a run that brought any.
    pub input_seq: Option<Seq>,
    /// Its number along the branch it is on: the input of the first run is -1, and each later point is one higher.
    #[serde(default)]
    pub number: i64,
    /// When it was written.
    pub created_at: Timestamp,
}

/// A named side effect that was decided with a step and is performed after its commit; safe to repeat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PendingActivity {
    /// The registered name, such as `accept_handoff`.
    pub name: String,
    /// The action that is requested.
    pub args: Value,
}
