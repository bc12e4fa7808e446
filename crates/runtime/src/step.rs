//! One step: what a node is given, and what it returns. A node changes nothing itself.

use std::sync::Arc;

use journal::{Store, Write};
use protocol::{Decisions, InterruptPayload, NewEvent, PendingActivity, RunId, ThreadId, Usage};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::frame::Frames;

/// The graph's small state. Keys that begin with `_` never leave the process.
pub type Channels = Map<String, Value>;

/// What a node is given.
pub struct StepContext<'a> {
    /// The thread.
    pub thread_id: ThreadId,
    /// The run.
    pub run_id: RunId,
    /// The number of this step within the run, from 1.
    pub step: u64,
    /// The state before this step.
    pub channels: &'a Channels,
    /// The answer to this node's interrupt, when the run resumed with one.
    pub decisions: Option<&'a Decisions>,
    /// For reading; a node that writes breaks the rule that one step is one transaction.
    pub store: &'a Arc<dyn Store>,
    /// Where deltas and progress go while the step runs.
    pub frames: &'a Frames,
    /// Cancelled when a person stops the run. A node that waits returns what it has.
    pub cancel: &'a CancellationToken,
}

/// What a step changes; committed as one transaction.
#[derive(Debug, Clone, Default)]
pub struct Update {
    /// Facts to append to the thread's journal.
    pub events: Vec<NewEvent>,
    /// State channels to set; a `null` removes the key.
    pub channels: Channels,
    /// Rows that change together with the facts.
    pub writes: Vec<Write>,
    /// Side effects to perform after the commit, in order.
    pub activities: Vec<PendingActivity>,
    /// When set, the run stops here and asks; the node runs again with the answer.
    pub interrupt: Option<InterruptPayload>,
    /// Tokens used by model calls of this step.
    pub usage: Usage,
}

/// Why a step failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The model could not be used; trying again later or another model may help.
    Model,
    /// The key or a setting is wrong.
    Config,
    /// The journal failed.
    Store,
    /// A rule of Segue was broken: a defect.
    Internal,
}

impl FailureKind {
    /// Returns the stored name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Config => "config",
            Self::Store => "store",
            Self::Internal => "internal",
        }
    }
}

/// A failed step: why, and what it had produced until then.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The sort of failure.
    pub kind: FailureKind,
    /// One line for people: what failed, for what.
    pub message: String,
    /// What a person can do.
    pub hint: Option<String>,
    /// What is to be kept all the same, such as the text that had arrived.
    pub partial: Box<Update>,
}

impl Failure {
    /// Returns a failure that keeps nothing.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None, partial: Box::default() }
    }

    /// Sets the hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Sets what is kept.
    #[must_use]
    pub fn keeping(mut self, partial: Update) -> Self {
        self.partial = Box::new(partial);
        self
    }
}

impl From<journal::Error> for Failure {
    fn from(error: journal::Error) -> Self {
        Self::new(FailureKind::Store, error.to_string())
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::new(FailureKind::Internal, format!("write a step as JSON: {error}"))
    }
}

impl From<model::Error> for Failure {
    fn from(error: model::Error) -> Self {
        let kind = match &error {
            model::Error::Unauthorized { .. } | model::Error::Setup { .. } => FailureKind::Config,
            _ => FailureKind::Model,
        };
        Self::new(kind, error.to_string()).with_hint(model_hint(&error))
    }
}

/// Returns what a person can do about a failed model call.
pub const fn model_hint(error: &model::Error) -> &'static str {
    match error {
        model::Error::Unauthorized { .. } => "check the key: `segue models` shows where it is read from",
        model::Error::Setup { .. } => "`segue models` shows what is configured",
        model::Error::Overflow { .. } => "hand the thread off: `segue handoff THREAD` starts a short one",
        model::Error::Refused { .. } => "check the model's name, or choose another with `--model`",
        _ => "try again, or choose another model with `--model`",
    }
}
