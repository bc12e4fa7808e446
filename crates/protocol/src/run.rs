//! Runs and checkpoints: one execution of the graph, and the points where it can resume.

pub mod feedback;
pub mod request;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::event::Seq;
use crate::ids::{AssistantId, CheckpointId, RunId, ThreadId};
use crate::message::Usage;

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunStatus {
    /// Admitted, not started.
    Pending,
    /// Executing; a thread has one such at most.
    Running,
    /// The graph is idle.
    Success,
    /// It failed; `error` says how.
    Error,
    /// It waits for a decision.
    Interrupted,
    /// It reached its limit of time or steps.
    Timeout,
    /// A person stopped it.
    Cancelled,
}

impl RunStatus {
    /// Every status.
    pub const ALL: [Self; 7] = [
        Self::Pending,
        Self::Running,
        Self::Success,
        Self::Error,
        Self::Interrupted,
        Self::Timeout,
        Self::Cancelled,
    ];

    /// Returns the stored name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Success => "success",
            Self::Error => "error",
            Self::Interrupted => "interrupted",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns the status of that stored name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }

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
    /// Why it ended as it did, for `error`, `timeout` and `cancelled`.
    pub error: Option<String>,
    /// Who executes it: a name unique to a process. Others must not write for it while the lease lasts.
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
    /// What wrote it.
    #[serde(default)]
    pub source: CheckpointSource,
    /// When it was written.
    pub created_at: Timestamp,
}

/// What wrote a checkpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckpointSource {
    /// A step of a run, or its admission.
    #[default]
    Loop,
    /// A client changed the state between runs.
    Update,
    /// The thread went back to an earlier point; what follows goes on from there. It is no point of the thread's past
    /// itself.
    Rewind,
}

impl CheckpointSource {
    /// Every source.
    pub const ALL: [Self; 3] = [Self::Loop, Self::Update, Self::Rewind];

    /// Returns the stored name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Loop => "loop",
            Self::Update => "update",
            Self::Rewind => "rewind",
        }
    }

    /// Returns the source of that stored name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.as_str() == name)
    }
}

/// One step of a thread's past, as a point one can go back to: the events up to `head_seq` are what had happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepPoint {
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
    /// What wrote the checkpoint.
    #[serde(default)]
    pub source: CheckpointSource,
    /// The first message that came in with it, where it is the admission of a run that brought any.
    #[serde(default)]
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
    /// What it is asked to do.
    pub args: Value,
}
