//! One step: what a node is given, and what it returns. A node changes nothing itself.

use std::sync::Arc;

use journal::{Store, Write};
use protocol::{
    Decisions, FailureKind, InterruptPayload, NewEvent, PendingActivity, RunId, RunRef, Seq, ThreadId, Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::node::context::Context;
use crate::stream::Frames;

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
    /// Whether the step may have been begun before.
    pub entry: Entry,
    /// The newest event of the thread when this process took the run up.
    pub taken_up: Seq,
    /// The answers to this node's interrupts, when the run resumed with them, in the order they were asked.
    pub answers: &'a [Answer],
    /// For reading; a node that writes breaks the rule that one step is one transaction.
    pub store: &'a Arc<dyn Store>,
    /// Where deltas and progress go while the step runs.
    pub frames: &'a Frames,
    /// Cancelled when a person stops the run. A node that waits returns what it has.
    pub cancel: &'a CancellationToken,
    /// What must be durable before the step is done.
    pub early: &'a Early,
    /// What the steps before this one change and the store does not show yet; only a node that is immediate sees any.
    pub unwritten: &'a [Write],
    /// What the model is to be sent of the thread; only there where it is asked.
    pub context: Option<&'a Context>,
}

/// The stream that a run, or other long work, reports to, and the token that cancels it.
#[derive(Debug, Clone, Copy)]
pub struct RunScope<'a> {
    /// Where frames go.
    pub frames: &'a Frames,
    /// Cancelled when a person stops the work.
    pub cancel: &'a CancellationToken,
}

impl<'a> StepContext<'a> {
    /// Returns the run and its thread.
    pub const fn run_ref(&self) -> RunRef {
        RunRef { thread_id: self.thread_id, run_id: self.run_id }
    }

    /// Returns the stream and the token of this step.
    pub const fn scope(&self) -> RunScope<'a> {
        RunScope { frames: self.frames, cancel: self.cancel }
    }

    /// Returns the id of what the model says in this step. Words that were told of it by a process that is gone are of
    /// another message: nobody shall put these behind them.
    pub fn message_id(&self) -> String {
        match self.entry {
            Entry::Fresh => self.run_id.message_id(self.step),
            Entry::Recovered => self.run_id.message_id_again(self.step, self.taken_up),
        }
    }

    /// Returns the answer to what `key` asked, when the run resumed with one.
    pub fn answer(&self, key: &str) -> Option<&Decisions> {
        self.answers.iter().find(|answer| answer.key == key).map(|answer| &answer.decisions)
    }
}

/// Whether a step may have been begun before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Entry {
    /// It begins for the first time.
    Fresh,
    /// The process that began it, or was about to, is gone; nobody knows what it had done.
    Recovered,
}

/// The answer to one question of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Who asked within the node: [`Ask::key`].
    pub key: String,
    /// What was decided.
    pub decisions: Decisions,
}

/// One question of a node; it becomes an interrupt with an id of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// Who asks within the node; the answer comes back under it.
    pub key: String,
    /// What a client is shown.
    pub payload: InterruptPayload,
}

/// Takes facts that must be durable before a long step is done, such as the result of a call that cannot be repeated
/// while others still run. Each is committed as it comes; the step's checkpoint follows with its end.
#[derive(Debug)]
pub struct Early {
    sender: mpsc::UnboundedSender<Recorded>,
}

/// What was handed over: events, and the rows that change with them.
pub(crate) type Recorded = (Vec<NewEvent>, Vec<Write>);

impl Early {
    pub(crate) fn channel() -> (Self, mpsc::UnboundedReceiver<Recorded>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self { sender }, receiver)
    }

    /// Hands over events, and rows that change together with them.
    pub fn record(&self, events: Vec<NewEvent>, writes: Vec<Write>) {
        // The driver listens for as long as the step runs.
        let _ = self.sender.send((events, writes));
    }
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
    /// When there are any, the run stops here and asks; the node runs again with the answers.
    pub asks: Vec<Ask>,
    /// The node to go to next, instead of along the edge.
    pub jump: Option<&'static str>,
    /// Tokens used by model calls of this step.
    pub usage: Usage,
}

impl Update {
    /// Returns whether it changes nothing: such a step needs no commit, for repeating it changes nothing either.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
            && self.channels.is_empty()
            && self.writes.is_empty()
            && self.activities.is_empty()
            && self.asks.is_empty()
            && self.jump.is_none()
            && self.usage == Usage::default()
    }

    /// Adds what another part of the same step changes; a later jump wins.
    pub fn merge(&mut self, more: Self) {
        self.events.extend(more.events);
        self.channels.extend(more.channels);
        self.writes.extend(more.writes);
        self.activities.extend(more.activities);
        self.asks.extend(more.asks);
        self.jump = more.jump.or(self.jump);
        self.usage.add(more.usage);
    }

    /// Returns whether the graph cannot simply go on after it: it asks, or goes elsewhere.
    pub fn diverts(&self) -> bool {
        !self.asks.is_empty() || self.jump.is_some()
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
            model::Error::Overflow { .. } => FailureKind::Overflow,
            model::Error::Unreachable { .. }
            | model::Error::Silent { .. }
            | model::Error::Limited { .. }
            | model::Error::Refused { .. }
            | model::Error::Failed { .. }
            | model::Error::Illegal { .. }
            | model::Error::Broken { .. } => FailureKind::Model,
        };
        Self::new(kind, error.to_string()).with_hint(model_hint(&error))
    }
}

/// Returns what a person can do about a failed model call.
pub const fn model_hint(error: &model::Error) -> &'static str {
    match error {
        model::Error::Unauthorized { .. } => "check the key: `segue models` shows where it is read from",
        model::Error::Setup { .. } => "`segue models` shows what is configured",
        model::Error::Overflow { .. } => "choose a model with a larger window: `--model`, in a chat `/model`",
        model::Error::Refused { .. } => {
            "check the model's name, or choose another: `--model`, in a chat `/model`"
        }
        model::Error::Silent { .. } => {
            "try again; `idle_seconds` of the provider in config.toml sets how long is waited"
        }
        model::Error::Illegal { .. } => {
            "this is a defect of Segue; `/rewind` to before the last message goes on"
        }
        model::Error::Unreachable { .. }
        | model::Error::Limited { .. }
        | model::Error::Failed { .. }
        | model::Error::Broken { .. } => "try again, or choose another model: `--model`, in a chat `/model`",
    }
}
