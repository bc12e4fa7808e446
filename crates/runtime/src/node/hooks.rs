//! The nodes of the hooks that run between the others: before a turn, after an answer, after a turn. One that asks is
//! taken up again where it asked; what the hooks before it changed is not done twice.

use std::sync::Arc;

use async_trait::async_trait;
use journal::Store;
use protocol::{AiMessage, Decisions, Interrupt};

use crate::error::Rejection;
use crate::graph::Node;
use crate::graph::channel::Channel;
use crate::hook::Hook;
use crate::node::model::{DEFERRED_CHANNEL, deferred};
use crate::node::newest_answer;
use crate::step::{Channels, Failure, StepContext, Update};

/// The name of the node that runs `before_agent`.
pub const BEFORE_AGENT_NODE: &str = "before_agent";
/// The name of the node that runs `after_model`.
pub const AFTER_MODEL_NODE: &str = "after_model";
/// The name of the node that runs `after_agent`.
pub const AFTER_AGENT_NODE: &str = "after_agent";

/// Where in a turn hooks run as a node of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// When a turn begins.
    BeforeAgent,
    /// When an answer is stored.
    AfterModel,
    /// When the model has said its last word of the turn.
    AfterAgent,
}

/// Runs one point of every hook, in order. A hook that jumps or asks ends the step.
pub struct HooksNode {
    /// The point.
    pub point: Point,
    /// The hooks.
    pub hooks: Vec<Arc<dyn Hook>>,
}

#[async_trait]
impl Node for HooksNode {
    fn name(&self) -> &'static str {
        match self.point {
            Point::BeforeAgent => BEFORE_AGENT_NODE,
            Point::AfterModel => AFTER_MODEL_NODE,
            Point::AfterAgent => AFTER_AGENT_NODE,
        }
    }

    async fn run(&self, step: StepContext<'_>) -> Result<Update, Failure> {
        let mut update = Update::default();
        if self.point == Point::AfterModel {
            update = deferred(&step)?;
            if !update.asks.is_empty() {
                return Ok(update);
            }
        }
        if self.hooks.is_empty() {
            return Ok(update);
        }
        let answer = match self.point {
            Point::AfterModel => newest_answer(&step).await?.answer,
            Point::BeforeAgent | Point::AfterAgent => None,
        }
        .unwrap_or_default();
        let place = self.place();
        let resumed = place.get(step.channels)?;
        if resumed.is_some() {
            place.clear(&mut update.channels);
        }
        for (at, hook) in self.hooks.iter().enumerate().skip(resumed.unwrap_or(0)) {
            match self.run_hook(&**hook, &step, &answer).await {
                Ok(more) => update.merge(more),
                Err(mut failure) => {
                    update.merge(std::mem::take(&mut *failure.partial));
                    return Err(failure.keeping(update));
                }
            }
            if !update.asks.is_empty() {
                place.set(&mut update.channels, &at);
                return Ok(update);
            }
            if update.jump.is_some() {
                return Ok(update);
            }
        }
        Ok(update)
    }

    fn acts(&self) -> bool {
        false
    }

    fn is_idle(&self, channels: &Channels) -> bool {
        let is_asked = self.place().is_set(channels);
        let is_deferred = self.point == Point::AfterModel && DEFERRED_CHANNEL.is_set(channels);
        !is_asked && !is_deferred && self.hooks.iter().all(|hook| hook.is_idle(self.point, channels))
    }

    async fn check(
        &self,
        interrupt: &Interrupt,
        decisions: &Decisions,
        store: &Arc<dyn Store>,
    ) -> Result<(), Rejection> {
        for hook in &self.hooks {
            hook.check(interrupt, decisions, store).await?;
        }
        Ok(())
    }
}

impl HooksNode {
    fn place(&self) -> Channel<usize> {
        hook_channel(self.name())
    }

    async fn run_hook(
        &self,
        hook: &dyn Hook,
        step: &StepContext<'_>,
        answer: &AiMessage,
    ) -> Result<Update, Failure> {
        match self.point {
            Point::BeforeAgent => hook.before_agent(step).await,
            Point::AfterModel => hook.after_model(step, answer).await,
            Point::AfterAgent => hook.after_agent(step).await,
        }
    }
}

/// Returns the channel that remembers which hook of a node asked.
pub(crate) fn hook_channel(node: &str) -> Channel<usize> {
    Channel::of_node("_hook", node)
}
