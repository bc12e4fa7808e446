//! Hooks: the extension points of a turn. A hook returns changes; the driver commits them.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use async_trait::async_trait;
use journal::Store;
use model::ChatRequest;
use protocol::{AiMessage, Decisions, Interrupt};

use crate::error::DecisionRejection;
use crate::node::hooks::HookPoint;
use crate::node::model::ModelNode;
use crate::node::tools::{ToolCall, ToolsNode};
use crate::step::{Channels, GraphUpdate, StepContext, StepFailure};
use crate::tool::ToolOutput;

/// A feature that takes part in a turn. Every method has a default that does nothing. The returned
/// [`GraphUpdate`] can hold changes, questions, a jump or activities, or be empty.
///
/// Hooks run in the order in which they are registered. Of the hooks that wrap a call, the first is the
/// outermost.
#[async_trait]
pub trait Hook: Send + Sync {
    /// Returns the hook's name, unique among the hooks of a graph. Its questions use the name as their key.
    fn name(&self) -> &'static str;

    /// Returns whether the hook is certain to do nothing at `point` in this state. If all hooks of a point can be
    /// skipped, the graph skips the node: no step runs, and if the graph ends there, the run ends in the
    /// transaction of the step before. Pure.
    fn can_skip(&self, _point: HookPoint, _channels: &Channels) -> bool {
        false
    }

    /// Runs once, at the start of a turn.
    ///
    /// # Errors
    /// A [`StepFailure`] of any method of a hook fails the step and ends the run.
    async fn before_agent(&self, _step: &StepContext<'_>) -> Result<GraphUpdate, StepFailure> {
        Ok(GraphUpdate::default())
    }

    /// Completes the request before it is sent. The returned changes are committed together with the model's
    /// answer.
    ///
    /// If the update asks a question or jumps, the model is not called and only this update counts: the changes
    /// of the earlier hooks are dropped, because those hooks run again with the next request.
    async fn before_model(
        &self,
        _step: &StepContext<'_>,
        _request: &mut ChatRequest,
    ) -> Result<GraphUpdate, StepFailure> {
        Ok(GraphUpdate::default())
    }

    /// Wraps the call of the model. The hook may change the request, return an answer without a call, or call
    /// more than once. A question that comes together with an answer is asked after the answer is stored.
    async fn wrap_model_call(
        &self,
        _step: &StepContext<'_>,
        request: ChatRequest,
        next: ModelCallHandler<'_>,
    ) -> Result<ModelAnswer, StepFailure> {
        next.run(request).await
    }

    /// Runs after the model's answer is stored and before its tool calls are made. The node can run again for the same
    /// answer, for example after a question; `answer` contains only the calls that have no result.
    async fn after_model(
        &self,
        _step: &StepContext<'_>,
        _answer: &AiMessage,
    ) -> Result<GraphUpdate, StepFailure> {
        Ok(GraphUpdate::default())
    }

    /// Wraps one tool call. The hook may change the call, return an output without a call, or change the output.
    async fn wrap_tool_call(
        &self,
        _step: &StepContext<'_>,
        call: ToolCall,
        next: ToolCallHandler<'_>,
    ) -> Result<ToolOutput, StepFailure> {
        next.run(call).await
    }

    /// Validates the answer to a question before the answer is stored. This is called for every question of the
    /// graph's hooks and tools, including those of sub-agents. A hook recognises its own questions by their
    /// `middleware_source`.
    ///
    /// # Errors
    /// Returns the reason to reject the answer; the interrupt then stays pending.
    async fn validate_decisions(
        &self,
        _interrupt: &Interrupt,
        _decisions: &Decisions,
        _store: &Arc<dyn Store>,
    ) -> Result<(), DecisionRejection> {
        Ok(())
    }

    /// Runs once, after the model's last answer of the turn.
    async fn after_agent(&self, _step: &StepContext<'_>) -> Result<GraphUpdate, StepFailure> {
        Ok(GraphUpdate::default())
    }
}

/// The outcome of a model call.
#[derive(Debug, Clone, Default)]
pub struct ModelAnswer {
    /// The answer. `None` when the update jumps or asks a question instead, or when a person stopped the run.
    pub answer: Option<AiMessage>,
    /// The changes to commit together with the answer.
    pub update: GraphUpdate,
}

/// The remaining chain around a model call: the inner hooks, then the model itself.
pub struct ModelCallHandler<'a> {
    pub(crate) node: &'a ModelNode,
    pub(crate) step: &'a StepContext<'a>,
    pub(crate) remaining_hooks: &'a [Arc<dyn Hook>],
    /// The number of answers of this step that broke off and were requested again.
    pub(crate) answer_retries: &'a AtomicU32,
}

impl ModelCallHandler<'_> {
    /// Calls the next hook, or the model when no hook is left.
    ///
    /// # Errors
    /// Fails when the model cannot be used or an inner hook fails.
    pub async fn run(self, request: ChatRequest) -> Result<ModelAnswer, StepFailure> {
        match self.remaining_hooks.split_first() {
            Some((hook, remaining_hooks)) => {
                hook.wrap_model_call(self.step, request, ModelCallHandler { remaining_hooks, ..self }).await
            }
            None => self.node.call_model(self.step, &request, self.answer_retries).await,
        }
    }
}

/// The remaining chain around a tool call: the inner hooks, then the tool itself.
pub struct ToolCallHandler<'a> {
    pub(crate) node: &'a ToolsNode,
    pub(crate) step: &'a StepContext<'a>,
    pub(crate) remaining_hooks: &'a [Arc<dyn Hook>],
}

impl ToolCallHandler<'_> {
    /// Calls the next hook, or the tool when no hook is left.
    ///
    /// # Errors
    /// Fails when an inner hook fails. A tool that fails is no error: its output says so.
    pub async fn run(self, call: ToolCall) -> Result<ToolOutput, StepFailure> {
        match self.remaining_hooks.split_first() {
            Some((hook, remaining_hooks)) => {
                hook.wrap_tool_call(self.step, call, ToolCallHandler { remaining_hooks, ..self }).await
            }
            None => Ok(self.node.execute_call(self.step, &call).await),
        }
    }
}
