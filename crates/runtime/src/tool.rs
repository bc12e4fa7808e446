//! Tools: what a model may ask the agent to do. The tools themselves live in the `tools` room.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use journal::Store;
use model::ToolSpec;
use protocol::{Block, Decisions, InterruptPayload, RunId, ThreadId, ToolStatus};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::node::tools::ToolCall;
use crate::step::{Channels, StepContext, Update};
use crate::stream::Frames;

/// What a tool is given beside its arguments.
#[derive(Clone)]
pub struct ToolContext {
    /// The thread the call belongs to.
    pub thread_id: ThreadId,
    /// The run.
    pub run_id: RunId,
    /// The call's id.
    pub call_id: String,
    /// The folder the agent works in; no tool reaches outside it.
    pub workspace: PathBuf,
    /// Cancelled when the run is; a tool that waits must stop waiting then, and return what it has.
    pub cancel: CancellationToken,
    /// For reading; what a tool changes goes into [`ToolOutput::update`].
    pub store: Arc<dyn Store>,
    /// Where live output goes.
    pub frames: Frames,
    /// The state when the calls began.
    pub channels: Arc<Channels>,
    /// The answers to what this call asked before, in order.
    pub answers: Vec<Decisions>,
}

impl ToolContext {
    /// Returns what a call of the step is given, without answers.
    pub fn of(step: &StepContext<'_>, call: &ToolCall, workspace: &Path) -> Self {
        Self {
            thread_id: step.thread_id,
            run_id: step.run_id,
            call_id: call.id.clone(),
            workspace: workspace.to_owned(),
            cancel: step.cancel.clone(),
            store: Arc::clone(step.store),
            frames: step.frames.clone(),
            channels: Arc::new(step.channels.clone()),
            answers: Vec::new(),
        }
    }
}

/// What a tool returns to the model. A failure is an output too: the model reads it and goes on.
#[derive(Debug, Clone, Default)]
pub struct ToolOutput {
    /// Whether the tool did what it was asked.
    pub status: ToolStatus,
    /// What the model reads.
    pub content: Vec<Block>,
    /// What else changes with the result: state, events, artifacts to keep.
    pub update: Update,
    /// When there are any, the call waits for a person and is made again with the answers; there is no result yet.
    pub interrupts: Vec<InterruptPayload>,
    /// When the result is journaled.
    pub given: Given,
}

/// When the result of a call is journaled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Given {
    /// With the step that makes the call.
    #[default]
    Now,
    /// By a node further on, to which the output's update leads the graph.
    Later,
}

/// Whether a call that a crash cut off may simply be made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// It only reads, or notices what it has done already.
    Safe,
    /// It may have had an effect: the model is told, and decides.
    Never,
}

/// What a call is about, for the rules that allow, ask or deny it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A path relative to the workspace, without `.` and `..`.
    Path(PathBuf),
    /// A command line.
    Command(String),
    /// An address.
    Url(String),
}

/// What a person is shown of a call before deciding about it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Detail {
    /// The arguments say it all.
    #[default]
    Arguments,
    /// A command line.
    Command(String),
    /// What would change, as a unified diff.
    Diff(String),
}

/// What a call would do, worked out without doing it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Review {
    /// What it is about; a call may be about several things.
    pub subjects: Vec<Subject>,
    /// What a person is shown.
    pub detail: Detail,
}

/// A tool.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Returns the tool as it is described to a model.
    fn spec(&self) -> ToolSpec;

    /// Returns whether a call that a crash cut off may be made again.
    fn repeat(&self) -> Repeat {
        Repeat::Never
    }

    /// Returns how long a call has to return what it has once the run is stopped; then it is dropped.
    fn stop_grace(&self) -> Duration {
        Duration::from_secs(3)
    }

    /// Checks arguments that a person wrote in place of a model's, before the decision is stored. Changes nothing, and looks
    /// at nothing but the arguments; a tool without a check takes whatever it is given and reports it in its result.
    ///
    /// # Errors
    /// What is wrong with them, as the model would be told.
    fn check_args(&self, _args: &Value) -> Result<(), String> {
        Ok(())
    }

    /// Works out what a call would do. Changes nothing.
    async fn review(&self, _args: &Value, _context: &ToolContext) -> Review {
        Review::default()
    }

    /// Makes one call.
    async fn call(&self, args: &Value, context: &ToolContext) -> ToolOutput;
}

impl ToolOutput {
    /// Returns a success with one text block.
    pub fn success(text: impl Into<String>) -> Self {
        Self { content: vec![Block::text(text)], ..Self::default() }
    }

    /// Returns a failure with one text block that says what was wrong and what to do.
    pub fn error(text: impl Into<String>) -> Self {
        Self { status: ToolStatus::Error, ..Self::success(text) }
    }

    /// Returns an output that waits for a person.
    pub fn asking(interrupts: Vec<InterruptPayload>) -> Self {
        Self { interrupts, ..Self::default() }
    }

    /// Returns an output whose result is journaled by the node that `update` leads to. Of one answer's calls one may do
    /// so; while another call of it waits for a person, this one is made again with that one's answer.
    pub fn later(update: Update) -> Self {
        Self { given: Given::Later, update, ..Self::default() }
    }

    /// Adds what else changes with the result.
    #[must_use]
    pub fn with_update(mut self, update: Update) -> Self {
        self.update.merge(update);
        self
    }
}
