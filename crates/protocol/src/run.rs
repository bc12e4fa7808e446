//! Runs and checkpoints. A run is one execution of the graph on a thread; a checkpoint is a point from which it can
//! resume.

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
    /// The status of a run. Names are those of the Agent Server protocol.
    pub enum RunStatus {
        /// The run is admitted and has not started.
        Pending = "pending",
        /// The run is executing. A thread has at most one running run.
        Running = "running",
        /// The run ended and the graph is idle.
        Success = "success",
        /// The run failed; [`Run::failure`] has the reason.
        Error = "error",
        /// The run ended with a question or at a breakpoint. A later run resumes the thread.
        Interrupted = "interrupted",
        /// The run reached its time limit or step limit.
        Timeout = "timeout",
        /// A user stopped the run.
        Cancelled = "cancelled",
    }
}

impl RunStatus {
    /// Returns true if the run has not ended.
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Pending | Self::Running)
    }
}

/// A stored run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The run's id.
    pub run_id: RunId,
    /// The thread on which the run executes.
    pub thread_id: ThreadId,
    /// The assistant that executes the run.
    pub assistant_id: AssistantId,
    /// The status of the run.
    pub status: RunStatus,
    /// `provider/name` of the model at admission; `None` if the run calls none.
    pub model: Option<String>,
    /// The reason why the run did not succeed; `None` if it succeeded, was interrupted or has not ended.
    pub failure: Option<RunFailure>,
    /// The unique name of the process that holds the run's lease. No other process writes for the run until the lease
    /// expires.
    pub lease_owner: Option<String>,
    /// Time at which the lease expires unless it is renewed.
    pub lease_until: Option<Timestamp>,
    /// Tokens of all model calls of the run.
    pub usage: Usage,
    /// Time of the admission.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
}

/// The address of a run: its thread and its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RunRef {
    /// The thread.
    pub thread_id: ThreadId,
    /// The run.
    pub run_id: RunId,
}

impl Run {
    /// Returns the address of the run.
    pub const fn run_ref(&self) -> RunRef {
        RunRef { thread_id: self.thread_id, run_id: self.run_id }
    }
}

/// A stored checkpoint: the point after a step, from which the graph can resume. It is small, because the journal
/// stores the messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The checkpoint's id.
    pub checkpoint_id: CheckpointId,
    /// The thread.
    pub thread_id: ThreadId,
    /// The run that wrote the checkpoint.
    pub run_id: RunId,
    /// Number of steps that the run had completed; 0 is the admission.
    pub step: u64,
    /// The thread's last event at the time of the checkpoint. The thread's state is the projection of the events up
    /// to this one.
    pub head_seq: Seq,
    /// The node to execute next; `None` if the graph is idle.
    pub next: Option<String>,
    /// The graph's state channels without messages. Channels whose name begins with `_` are internal and never sent
    /// to clients.
    pub channels: Map<String, Value>,
    /// Activities that were decided and are not yet confirmed, in order of execution.
    pub activities: Vec<PendingActivity>,
    /// The origin of the checkpoint.
    #[serde(default)]
    pub source: CheckpointSource,
    /// Time at which the checkpoint was written.
    pub created_at: Timestamp,
}

named_enum! {
    /// The origin of a checkpoint.
    #[derive(Default)]
    pub enum CheckpointSource {
        /// A step of a run, or its admission.
        #[default]
        Loop = "loop",
        /// A client's change of the state between runs.
        Update = "update",
        /// A rewind of the thread to an earlier point, from which later runs continue. It is not listed as a point of
        /// the thread's past.
        Rewind = "rewind",
    }
}

/// A point of a thread's past to which the thread can be rewound. The events up to `head_seq` had happened at that
/// point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointEntry {
    /// The checkpoint that was written after the step.
    pub checkpoint_id: CheckpointId,
    /// The run that executed the step.
    pub run_id: RunId,
    /// Number of steps that the run had completed; 0 is the admission.
    pub step: u64,
    /// The thread's last event at the time of the checkpoint.
    pub head_seq: Seq,
    /// The node to execute next; `None` if the graph was idle.
    pub next: Option<String>,
    /// The origin of the checkpoint.
    #[serde(default)]
    pub source: CheckpointSource,
    /// The first input message, if this is the admission of a run with input messages.
    pub input_seq: Option<Seq>,
    /// The number of the point on its branch: the input of the first run is -1, and each later point is one higher.
    #[serde(default)]
    pub number: i64,
    /// Time at which the checkpoint was written.
    pub created_at: Timestamp,
}

/// A named side effect that a step decided and that is performed after the step's commit. It must be idempotent,
/// because a crash repeats it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PendingActivity {
    /// The name under which the activity is registered, such as `accept_handoff`.
    pub name: String,
    /// The arguments of the activity, whose shape the activity defines.
    pub args: Value,
}
