//! Tools: the operations that a model can request. This file defines their interface; the tools are in other
//! crates.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use journal::Store;
use model::ToolSpec;
use protocol::{ContentBlock, Decisions, InterruptPayload, RunId, ThreadId, ToolStatus};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::node::tools::ToolCall;
use crate::step::{Channels, GraphUpdate, StepContext};
use crate::stream::FrameSender;

/// The environment of one tool call.
#[derive(Clone)]
pub struct ToolContext {
    /// The thread that the call belongs to.
    pub thread_id: ThreadId,
    /// The run that makes the call.
    pub run_id: RunId,
    /// The call's id, as the model gave it.
    pub call_id: String,
    /// The folder in which the agent works. A tool must not access files outside of it.
    pub workspace: PathBuf,
    /// Cancelled when the run is stopped. A tool that waits must then return what it has; see
    /// [`Tool::stop_grace`].
    pub cancel: CancellationToken,
    /// The journal, for reading only. Changes belong in [`ToolOutput::update`].
    pub store: Arc<dyn Store>,
    /// The sender of the call's live output.
    pub frames: FrameSender,
    /// The state of the graph at the start of the step.
    pub channels: Arc<Channels>,
    /// The answers to the questions that this call has asked, in order. Empty at the first attempt.
    pub answers: Vec<Decisions>,
}

impl ToolContext {
    /// Returns the environment for `call` in this step, without answers. Copies the step's channels.
    pub fn for_call(step: &StepContext<'_>, call: &ToolCall, workspace: &Path) -> Self {
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

/// The output of a tool call. A failure is an output too: the model reads it and continues.
#[derive(Debug, Clone, Default)]
pub struct ToolOutput {
    /// Success or failure of the call.
    pub status: ToolStatus,
    /// The content that the model reads.
    pub content: Vec<ContentBlock>,
    /// The changes to commit together with the result: state, events, artifacts.
    pub update: GraphUpdate,
    /// Questions for a person. If there are any, the call has no result yet: it is made again with the answers.
    pub interrupts: Vec<InterruptPayload>,
    /// The step that journals the result.
    pub result_timing: ResultTiming,
}

/// The step in which the result of a call is journaled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ResultTiming {
    /// The step that makes the call.
    #[default]
    WithStep,
    /// The step of a later node, to which the output's update leads the graph.
    ByLaterNode,
}

/// The safety of repeating a call that a crash interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepeatSafety {
    /// Repeating is harmless: the tool only reads, or detects what an earlier attempt has already done.
    Safe,
    /// Repeating may cause an effect twice. The model is told that the call was interrupted, and decides what to
    /// do.
    Unsafe,
}

/// A resource that a call affects. Permission rules match it to allow, ask about or deny the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallSubject {
    /// A path relative to the workspace, without `.` and `..`.
    Path(PathBuf),
    /// A command line.
    Command(String),
    /// A URL.
    Url(String),
}

/// The details of a call that a person sees before deciding about it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ReviewDetail {
    /// Nothing beyond the arguments themselves.
    #[default]
    Arguments,
    /// The command line that would run.
    Command(String),
    /// The changes to files, as a unified diff.
    Diff(String),
}

/// The restriction of the processes that a call starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Confinement {
    /// The call starts no process, or one with the rights of this program.
    #[default]
    None,
    /// The processes are restricted, so that they can change only what the call's tool allows.
    Sandboxed,
    /// The call requests to start a process without the restrictions that it would have otherwise.
    Declined,
}

/// A preview of a call: its effects, computed without making the call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallReview {
    /// The resources that the call affects; there may be several.
    pub subjects: Vec<CallSubject>,
    /// The details for the person who decides.
    pub detail: ReviewDetail,
    /// The restriction of the processes that the call starts.
    pub confinement: Confinement,
}

/// A tool that a model can call.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Returns the tool's name, description and argument schema, as they are sent to the model.
    fn spec(&self) -> ToolSpec;

    /// Returns whether a call can be repeated after a crash interrupted it. The default is the cautious answer.
    fn repeat_safety(&self) -> RepeatSafety {
        RepeatSafety::Unsafe
    }

    /// Returns the time that a running call has for returning its output after the run is stopped. Then its
    /// future is dropped. The default is three seconds.
    fn stop_grace(&self) -> Duration {
        Duration::from_secs(3)
    }

    /// Validates arguments that a person wrote in place of the model's, before the decision is stored. It changes
    /// nothing and considers only the arguments. The default accepts everything; such a tool reports errors in
    /// its result.
    ///
    /// # Errors
    /// Returns what is wrong with the arguments, in the words in which the model would read it.
    fn check_args(&self, _args: &Value) -> Result<(), String> {
        Ok(())
    }

    /// Returns a preview of the call. It changes nothing.
    async fn review(&self, _args: &Value, _context: &ToolContext) -> CallReview {
        CallReview::default()
    }

    /// Makes the call. Every failure is reported in the output.
    ///
    /// The returned future may be dropped at any await point: when the run stops and the grace period ends.
    async fn call(&self, args: &Value, context: &ToolContext) -> ToolOutput;
}

impl ToolOutput {
    /// Returns a successful output with one text block.
    pub fn success(text: impl Into<String>) -> Self {
        Self { content: vec![ContentBlock::text(text)], ..Self::default() }
    }

    /// Returns a failed output with one text block, which should say what was wrong and what to do about it.
    pub fn error(text: impl Into<String>) -> Self {
        Self { status: ToolStatus::Error, ..Self::success(text) }
    }

    /// Returns an output that asks these questions; the call is made again with the answers.
    pub fn with_interrupts(interrupts: Vec<InterruptPayload>) -> Self {
        Self { interrupts, ..Self::default() }
    }

    /// Returns an output whose result is journaled by the node that `update` leads to.
    ///
    /// At most one call of an answer can do this; further ones get a result that says that they were postponed.
    /// While another call of the same answer waits for a person, this output is dropped and the call is made
    /// again later.
    pub fn with_deferred_result(update: GraphUpdate) -> Self {
        Self { result_timing: ResultTiming::ByLaterNode, update, ..Self::default() }
    }

    /// Adds changes to commit together with the result.
    #[must_use]
    pub fn with_update(mut self, update: GraphUpdate) -> Self {
        self.update.merge(update);
        self
    }
}
