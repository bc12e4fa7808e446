//! The limit of model calls in one run. The count is a channel of the state, so that a restart does not reset
//! it.

use async_trait::async_trait;
use model::ChatRequest;
use runtime::{Channel, Channels, FailureKind, GraphUpdate, Hook, HookPoint, StepContext, StepFailure};

/// Channel: the number of model calls of the run. The admission of a run clears it.
pub(super) const MODEL_CALLS_CHANNEL: Channel<u64> = Channel::new("_model_calls");

/// Hook that fails a run at the model call after the last allowed one.
pub(super) struct ModelCallLimit {
    /// The most model calls of a run.
    pub(super) calls_max: u64,
}

#[async_trait]
impl Hook for ModelCallLimit {
    fn name(&self) -> &'static str {
        "CallLimit"
    }

    fn can_skip(&self, _point: HookPoint, _channels: &Channels) -> bool {
        true
    }

    async fn before_model(
        &self,
        step: &StepContext<'_>,
        _request: &mut ChatRequest,
    ) -> Result<GraphUpdate, StepFailure> {
        let calls = MODEL_CALLS_CHANNEL.get(step.channels)?.unwrap_or(0);
        if calls >= self.calls_max {
            let message = format!(
                "call the model again: the run has reached its limit of model calls ({})",
                self.calls_max
            );
            return Err(StepFailure::new(FailureKind::Limit, message).with_hint(
                "send another message to continue, or raise `--max-turns` or `run.model_calls_max`",
            ));
        }
        let mut update = GraphUpdate::default();
        MODEL_CALLS_CHANNEL.set(&mut update.channels, &(calls + 1));
        Ok(update)
    }
}
