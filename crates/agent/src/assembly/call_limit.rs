//! How often one run may ask the model. The count is part of the state, so that a restart does not begin it anew.

use async_trait::async_trait;
use model::ChatRequest;
use runtime::{Channel, Channels, Failure, FailureKind, Hook, Point, StepContext, Update};

/// Channel: how often the run has asked the model; an admission removes it.
pub(super) const CALLS_CHANNEL: Channel<u64> = Channel::new("_model_calls");

/// Ends a run that asks the model once more than it may.
pub(super) struct CallLimit {
    pub(super) calls_max: u64,
}

#[async_trait]
impl Hook for CallLimit {
    fn name(&self) -> &'static str {
        "CallLimit"
    }

    fn is_idle(&self, _point: Point, _channels: &Channels) -> bool {
        true
    }

    async fn before_model(
        &self,
        step: &StepContext<'_>,
        _request: &mut ChatRequest,
    ) -> Result<Update, Failure> {
        let calls = CALLS_CHANNEL.get(step.channels)?.unwrap_or(0);
        if calls >= self.calls_max {
            let message = format!("ask the model again: this run may do so {} times", self.calls_max);
            return Err(Failure::new(FailureKind::Limit, message).with_hint(
                "send another message to go on, or raise `--max-turns` or `run.model_calls_max`",
            ));
        }
        let mut update = Update::default();
        CALLS_CHANNEL.set(&mut update.channels, &(calls + 1));
        Ok(update)
    }
}
