//! Hooks: where a feature takes part in a turn. They return values; the driver commits.

use std::sync::Arc;

use async_trait::async_trait;
use journal::Store;
use model::ChatRequest;
use protocol::{AiMessage, Decisions, Interrupt};

use crate::error::Rejection;
use crate::node::hooks::Point;
use crate::node::model::ModelNode;
use crate::node::tools::{ToolCall, ToolsNode};
use crate::step::{Channels, Failure, StepContext, Update};
use crate::tool::ToolOutput;

/// A feature's place in a turn. Every point does nothing unless it is overridden, and every one can return an update,
/// questions, a jump, an activity, or nothing: they are all parts of an [`Update`].
///
/// Hooks run in the order they are given; of the two that wrap, the first is the outermost.
#[async_trait]
pub trait Hook: Send + Sync {
    /// Returns the hook's name, unique among the hooks of a graph; its questions are answered under it.
    fn name(&self) -> &'static str;

    /// Returns whether the hook certainly has nothing to do at `point` in this state. A step that is passed by costs
    /// nothing, and the one before it and the end of the run become durable together. Pure.
    fn is_idle(&self, _point: Point, _channels: &Channels) -> bool {
        false
    }

    /// Runs once when a turn begins.
    async fn before_agent(&self, _step: &StepContext<'_>) -> Result<Update, Failure> {
        Ok(Update::default())
    }

    /// Completes the request before it is sent; what it returns is committed with the model's answer. When it asks or
    /// jumps, the model is not called, and only its own update counts: the hooks before it run again with the next
    /// request.
    async fn before_model(
        &self,
        _step: &StepContext<'_>,
        _request: &mut ChatRequest,
    ) -> Result<Update, Failure> {
        Ok(Update::default())
    }

    /// Wraps the call of the model: it may change the request, answer itself, or call more than once. A question that
    /// comes with an answer is asked once the answer is stored.
    async fn wrap_model_call(
        &self,
        _step: &StepContext<'_>,
        request: ChatRequest,
        next: ModelCall<'_>,
    ) -> Result<ModelAnswer, Failure> {
        next.run(request).await
    }

    /// Runs once the model's answer is stored, before its tools run.
    async fn after_model(&self, _step: &StepContext<'_>, _answer: &AiMessage) -> Result<Update, Failure> {
        Ok(Update::default())
    }

    /// Wraps one tool call: it may change the call, answer itself, or look at the result.
    async fn wrap_tool_call(
        &self,
        _step: &StepContext<'_>,
        call: ToolCall,
        next: NextCall<'_>,
    ) -> Result<ToolOutput, Failure> {
        next.run(call).await
    }

    /// Checks an answer to a question, before the answer is stored. It is asked about every question of the graph's
    /// hooks and tools, those of sub-agents too, and knows its own by their `middleware_source`.
    async fn check(
        &self,
        _interrupt: &Interrupt,
        _decisions: &Decisions,
        _store: &Arc<dyn Store>,
    ) -> Result<(), Rejection> {
        Ok(())
    }

    /// Runs once when the model has said its last word of the turn.
    async fn after_agent(&self, _step: &StepContext<'_>) -> Result<Update, Failure> {
        Ok(Update::default())
    }
}

/// What came of calling the model.
#[derive(Debug, Clone, Default)]
pub struct ModelAnswer {
    /// The answer; `None` when there is none, because of a jump, a question, or a person who stopped the run.
    pub answer: Option<AiMessage>,
    /// What else changes with it.
    pub update: Update,
}

/// The rest of the way to the model.
pub struct ModelCall<'a> {
    pub(crate) node: &'a ModelNode,
    pub(crate) step: &'a StepContext<'a>,
    pub(crate) rest: &'a [Arc<dyn Hook>],
}

impl ModelCall<'_> {
    /// Goes on: through the other hooks, then to the model.
    ///
    /// # Errors
    /// When the model could not be used.
    pub async fn run(self, request: ChatRequest) -> Result<ModelAnswer, Failure> {
        match self.rest.split_first() {
            Some((hook, rest)) => hook.wrap_model_call(self.step, request, ModelCall { rest, ..self }).await,
            None => self.node.ask(self.step, &request).await,
        }
    }
}

/// The rest of the way to a tool.
pub struct NextCall<'a> {
    pub(crate) node: &'a ToolsNode,
    pub(crate) step: &'a StepContext<'a>,
    pub(crate) rest: &'a [Arc<dyn Hook>],
}

impl NextCall<'_> {
    /// Goes on: through the other hooks, then to the tool.
    ///
    /// # Errors
    /// When a hook fails; a failing tool is an output.
    pub async fn run(self, call: ToolCall) -> Result<ToolOutput, Failure> {
        match self.rest.split_first() {
            Some((hook, rest)) => hook.wrap_tool_call(self.step, call, NextCall { rest, ..self }).await,
            None => Ok(self.node.perform(self.step, &call).await),
        }
    }
}
