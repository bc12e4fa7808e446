//! The nodes of the hooks that run between the model and the tools: before a turn, after an answer, after a turn.
//! A node that was interrupted by a hook's question continues at that hook, so the changes of earlier hooks are
//! not made twice.

use std::sync::Arc;

use async_trait::async_trait;
use journal::Store;
use protocol::{AiMessage, Decisions, Interrupt};

use crate::error::DecisionRejection;
use crate::graph::Node;
use crate::graph::channel::Channel;
use crate::hook::Hook;
use crate::node::model::{DEFERRED_QUESTIONS_CHANNEL, deferred_questions};
use crate::node::read_latest_answer;
use crate::step::{Channels, GraphUpdate, StepContext, StepFailure};

/// The name of the node that runs `before_agent`.
pub const BEFORE_AGENT_NODE: &str = "before_agent";
/// The name of the node that runs `after_model`.
pub const AFTER_MODEL_NODE: &str = "after_model";
/// The name of the node that runs `after_agent`.
pub const AFTER_AGENT_NODE: &str = "after_agent";

/// A point of a turn at which hooks run as a node of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookPoint {
    /// At the start of a turn.
    BeforeAgent,
    /// After an answer was stored.
    AfterModel,
    /// After the model's last answer of the turn.
    AfterAgent,
}

/// A node that calls all hooks at one point, in order. A hook that jumps or asks a question ends the step.
pub struct HooksNode {
    /// The point at which the hooks are called.
    pub point: HookPoint,
    /// The hooks, in order.
    pub hooks: Vec<Arc<dyn Hook>>,
}

#[async_trait]
impl Node for HooksNode {
    fn name(&self) -> &'static str {
        match self.point {
            HookPoint::BeforeAgent => BEFORE_AGENT_NODE,
            HookPoint::AfterModel => AFTER_MODEL_NODE,
            HookPoint::AfterAgent => AFTER_AGENT_NODE,
        }
    }

    async fn run(&self, step: StepContext<'_>) -> Result<GraphUpdate, StepFailure> {
        let mut update = GraphUpdate::default();
        if self.point == HookPoint::AfterModel {
            update = deferred_questions(&step)?;
            if !update.interrupts.is_empty() {
                return Ok(update);
            }
        }
        if self.hooks.is_empty() {
            return Ok(update);
        }
        let answer = match self.point {
            HookPoint::AfterModel => read_latest_answer(&step).await?.into_open_answer(),
            HookPoint::BeforeAgent | HookPoint::AfterAgent => None,
        }
        .unwrap_or_default();
        let resume_channel = self.resume_channel();
        let resumed = resume_channel.get(step.channels)?;
        if resumed.is_some() {
            resume_channel.clear(&mut update.channels);
        }
        for (index, hook) in self.hooks.iter().enumerate().skip(resumed.unwrap_or(0)) {
            match self.run_hook(&**hook, &step, &answer).await {
                Ok(more) => update.merge(more),
                Err(mut failure) => {
                    update.merge(std::mem::take(&mut *failure.partial));
                    return Err(failure.with_partial(update));
                }
            }
            if !update.interrupts.is_empty() {
                resume_channel.set(&mut update.channels, &index);
                return Ok(update);
            }
            if update.jump.is_some() {
                return Ok(update);
            }
        }
        Ok(update)
    }

    fn has_effects(&self) -> bool {
        false
    }

    fn can_skip(&self, channels: &Channels) -> bool {
        let has_pending_question = self.resume_channel().is_set(channels);
        let has_deferred_questions =
            self.point == HookPoint::AfterModel && DEFERRED_QUESTIONS_CHANNEL.is_set(channels);
        !has_pending_question
            && !has_deferred_questions
            && self.hooks.iter().all(|hook| hook.can_skip(self.point, channels))
    }

    async fn validate_decisions(
        &self,
        interrupt: &Interrupt,
        decisions: &Decisions,
        store: &Arc<dyn Store>,
    ) -> Result<(), DecisionRejection> {
        for hook in &self.hooks {
            hook.validate_decisions(interrupt, decisions, store).await?;
        }
        Ok(())
    }
}

impl HooksNode {
    /// Returns the channel with the index of the hook that asked a question.
    fn resume_channel(&self) -> Channel<usize> {
        resume_hook_channel(self.name())
    }

    /// Calls the method of `hook` for this point. `answer` is the newest answer.
    async fn run_hook(
        &self,
        hook: &dyn Hook,
        step: &StepContext<'_>,
        answer: &AiMessage,
    ) -> Result<GraphUpdate, StepFailure> {
        match self.point {
            HookPoint::BeforeAgent => hook.before_agent(step).await,
            HookPoint::AfterModel => hook.after_model(step, answer).await,
            HookPoint::AfterAgent => hook.after_agent(step).await,
        }
    }
}

/// Returns the channel with the index of the hook of `node` that asked a question.
pub(crate) fn resume_hook_channel(node: &str) -> Channel<usize> {
    Channel::for_node("_hook", node)
}
