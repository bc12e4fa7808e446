//! One step: the input that a node gets ([`StepContext`]) and the changes that it returns ([`GraphUpdate`]). A
//! node writes nothing itself.

use std::sync::Arc;

use journal::{Store, Write};
use protocol::{
    Decisions, FailureKind, InterruptPayload, NewEvent, PendingActivity, RunId, RunRef, Seq, ThreadId, Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::node::context::ModelContext;
use crate::stream::FrameSender;

/// The state of the graph: a small JSON object with one entry for each [`Channel`](crate::Channel). Entries whose
/// keys begin with `_` are private and not shown by any API.
pub type Channels = Map<String, Value>;

/// The input of a node for one step.
pub struct StepContext<'a> {
    /// The thread that the run belongs to.
    pub thread_id: ThreadId,
    /// The run that the step belongs to.
    pub run_id: RunId,
    /// The number of this step within the run, from 1.
    pub step: u64,
    /// The state before this step. The changes of earlier steps are included even while they are not durable.
    pub channels: &'a Channels,
    /// The way the step is entered: for the first time, or after a process that may have started it.
    pub entry: StepEntry,
    /// The sequence number of the thread's newest event when this process started to drive the run.
    pub start_seq: Seq,
    /// The answers to this node's interrupts, in the order of the questions. Empty unless the run resumed with
    /// answers.
    pub answers: &'a [KeyedAnswer],
    /// The journal, for reading only. A node that writes would break the invariant that one step is one
    /// transaction.
    pub store: &'a Arc<dyn Store>,
    /// The sender of live frames: deltas of an answer, output and progress while the step runs.
    pub frames: &'a FrameSender,
    /// Cancelled when the run is stopped or its time is up. A node that waits should then return what it has.
    pub cancel: &'a CancellationToken,
    /// Commits events before the step ends, for results that must not be lost; see [`EarlyCommitSender`].
    pub early_commits: &'a EarlyCommitSender,
    /// The writes of earlier steps that are not in the store yet. Empty except for immediate nodes
    /// ([`Node::is_immediate`](crate::Node::is_immediate)).
    pub deferred_writes: &'a [Write],
    /// The thread's context as the model gets it. Set for the hooks of the model node, otherwise `None`.
    pub context: Option<&'a ModelContext>,
}

/// The stream and the cancellation token of a run or of another long operation.
#[derive(Debug, Clone, Copy)]
pub struct RunScope<'a> {
    /// The sender of the operation's frames.
    pub frames: &'a FrameSender,
    /// Cancelled when a person stops the operation.
    pub cancel: &'a CancellationToken,
}

impl<'a> StepContext<'a> {
    /// Returns the ids of the run and its thread.
    pub const fn run_ref(&self) -> RunRef {
        RunRef { thread_id: self.thread_id, run_id: self.run_id }
    }

    /// Returns the stream and the cancellation token of this step.
    pub const fn scope(&self) -> RunScope<'a> {
        RunScope { frames: self.frames, cancel: self.cancel }
    }

    /// Returns the id of the message that the model writes in this step.
    ///
    /// A recovered step uses another id than the process that started it: clients may already have received
    /// deltas of that process's message, and the text of this attempt must not be appended to them.
    pub fn message_id(&self) -> String {
        match self.entry {
            StepEntry::Fresh => self.run_id.message_id(self.step),
            StepEntry::Recovered => self.run_id.recovered_message_id(self.step, self.start_seq),
        }
    }

    /// Returns the id of the message that the model writes in this step after `retries` answers broke off.
    pub(crate) fn retried_message_id(&self, retries: u32) -> String {
        match retries {
            0 => self.message_id(),
            retries => self.run_id.retried_message_id(&self.message_id(), retries),
        }
    }

    /// Returns the answer to the question that the node asked under `key`, if the run resumed with one.
    pub fn answer(&self, key: &str) -> Option<&Decisions> {
        self.answers.iter().find(|answer| answer.key == key).map(|answer| &answer.decisions)
    }
}

/// The way a step is entered: for the first time, or after a process that may have started it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepEntry {
    /// The step starts for the first time.
    Fresh,
    /// A process that is gone started the step or was about to start it. Which of its effects took place is
    /// unknown.
    Recovered,
}

/// The answer to one question of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeyedAnswer {
    /// The key under which the node asked: [`InterruptRequest::key`].
    pub key: String,
    /// The decisions, one for each action of the question.
    pub decisions: Decisions,
}

/// One question of a node. The driver raises it as an interrupt with an id of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct InterruptRequest {
    /// Identifies the question within the node, for example by a call's id. The answer carries the same key.
    pub key: String,
    /// The content of the question, as clients get it.
    pub payload: InterruptPayload,
}

/// Commits events before a long step ends, for example the result of a call that must not be repeated while other
/// calls still run. The driver commits each item as it arrives; the checkpoint follows with the end of the step.
#[derive(Debug)]
pub struct EarlyCommitSender {
    sender: mpsc::UnboundedSender<EarlyCommit>,
}

/// One early commit.
#[derive(Debug)]
pub(crate) struct EarlyCommit {
    /// The events to append.
    pub(crate) events: Vec<NewEvent>,
    /// The rows that change in the same transaction.
    pub(crate) writes: Vec<Write>,
    /// Completes the wait of the node for the commit; `None` if it does not wait.
    pub(crate) committed: Option<oneshot::Sender<()>>,
}

impl EarlyCommitSender {
    /// Returns a sender and the receiver that the driver reads from while the step runs.
    pub(crate) fn channel() -> (Self, mpsc::UnboundedReceiver<EarlyCommit>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self { sender }, receiver)
    }

    /// Returns a sender that discards what it gets, for a node that is run outside a driver and whose result is only
    /// shown.
    pub fn discarding() -> Self {
        Self::channel().0
    }

    /// Queues events and the rows that change with them for the next early commit. Returns immediately; the
    /// events are not durable yet. The items are committed in order, at the latest with the step itself.
    pub fn commit_early(&self, events: Vec<NewEvent>, writes: Vec<Write>) {
        // The receiver lives as long as the step of a driver. A sender without a receiver discards the items.
        let _ = self.sender.send(EarlyCommit { events, writes, committed: None });
    }

    /// Commits events and the rows that change with them, and returns when they are durable. A sender without a receiver
    /// returns at once. If the commit fails, the driver ends the step.
    pub async fn commit_durably(&self, events: Vec<NewEvent>, writes: Vec<Write>) {
        let (committed, commit) = oneshot::channel();
        if self.sender.send(EarlyCommit { events, writes, committed: Some(committed) }).is_ok() {
            // The sender of the notification is dropped without one if the commit fails.
            let _ = commit.await;
        }
    }
}

/// The changes of one step. The driver commits them in one transaction.
#[derive(Debug, Clone, Default)]
pub struct GraphUpdate {
    /// Events to append to the thread's journal, in order.
    pub events: Vec<NewEvent>,
    /// Channels to set; a `null` removes the key from the state.
    pub channels: Channels,
    /// Rows of other tables to change in the same transaction.
    pub writes: Vec<Write>,
    /// Side effects to perform after the commit, in this order.
    pub activities: Vec<PendingActivity>,
    /// Questions for a person. If there are any, the run ends as interrupted, and the node runs again with the
    /// answers.
    pub interrupts: Vec<InterruptRequest>,
    /// The node to continue at instead of following the node's edge.
    pub jump: Option<&'static str>,
    /// The tokens that model calls of this step used.
    pub usage: Usage,
}

impl GraphUpdate {
    /// Returns whether the update changes nothing. Such a step is not committed, because repeating it changes
    /// nothing either.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
            && self.channels.is_empty()
            && self.writes.is_empty()
            && self.activities.is_empty()
            && self.interrupts.is_empty()
            && self.jump.is_none()
            && self.usage == Usage::default()
    }

    /// Adds the changes of another part of the same step. A jump of `more` replaces the one of `self`.
    pub fn merge(&mut self, more: Self) {
        self.events.extend(more.events);
        self.channels.extend(more.channels);
        self.writes.extend(more.writes);
        self.activities.extend(more.activities);
        self.interrupts.extend(more.interrupts);
        self.jump = more.jump.or(self.jump);
        self.usage.add(more.usage);
    }

    /// Returns whether the update diverts the graph from its edge, because it asks a question or jumps.
    pub fn is_diverting(&self) -> bool {
        !self.interrupts.is_empty() || self.jump.is_some()
    }
}

/// The failure of a step, with the changes to keep in spite of it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct StepFailure {
    /// The category of the failure.
    pub kind: FailureKind,
    /// One line for people: the operation that failed and its subject.
    pub message: String,
    /// Advice for a person, if any is known.
    pub hint: Option<String>,
    /// The changes to commit with the failed run, such as the part of an answer that had arrived.
    pub partial: Box<GraphUpdate>,
}

impl StepFailure {
    /// Returns a failure without a hint and without changes to keep.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None, partial: Box::default() }
    }

    /// Sets the hint, replacing an earlier one.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Sets the changes to keep, replacing earlier ones.
    #[must_use]
    pub fn with_partial(mut self, partial: GraphUpdate) -> Self {
        self.partial = Box::new(partial);
        self
    }
}

impl From<journal::Error> for StepFailure {
    fn from(error: journal::Error) -> Self {
        Self::new(FailureKind::Store, error.to_string())
    }
}

impl From<serde_json::Error> for StepFailure {
    fn from(error: serde_json::Error) -> Self {
        Self::new(FailureKind::Internal, format!("serialize a step as JSON: {error}"))
    }
}

impl From<model::Error> for StepFailure {
    fn from(error: model::Error) -> Self {
        let kind = match &error {
            model::Error::Unauthorized { .. } | model::Error::Setup { .. } => FailureKind::Config,
            model::Error::ContextOverflow { .. } => FailureKind::Overflow,
            model::Error::Unreachable { .. }
            | model::Error::IdleTimeout { .. }
            | model::Error::RateLimited { .. }
            | model::Error::Refused { .. }
            | model::Error::Failed { .. }
            | model::Error::IllegalConversation { .. }
            | model::Error::MalformedAnswer { .. } => FailureKind::Model,
        };
        Self::new(kind, error.to_string()).with_hint(model_hint(&error))
    }
}

/// Returns the advice for a person about a failed model call.
pub const fn model_hint(error: &model::Error) -> &'static str {
    match error {
        model::Error::Unauthorized { .. } => "check the key: `segue models` shows where it is read from",
        model::Error::Setup { .. } => "`segue models` shows what is configured",
        model::Error::ContextOverflow { .. } => {
            "choose a model with a larger window: `--model`, or `/model` in a chat"
        }
        model::Error::Refused { .. } => {
            "check the model's name, or choose another: `--model`, or `/model` in a chat"
        }
        model::Error::IdleTimeout { .. } => {
            "try again; `idle_seconds` of the provider in config.toml sets the time limit"
        }
        model::Error::IllegalConversation { .. } => {
            "this is a defect of Segue; to continue, use `/rewind` to go back to before the last message"
        }
        model::Error::Unreachable { .. }
        | model::Error::RateLimited { .. }
        | model::Error::Failed { .. }
        | model::Error::MalformedAnswer { .. } => {
            "try again, or choose another model: `--model`, or `/model` in a chat"
        }
    }
}
