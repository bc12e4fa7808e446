//! Hooks: where a feature changes what a model is sent. They return values; the driver commits.

use async_trait::async_trait;
use model::ChatRequest;

use crate::step::{Failure, StepContext, Update};

/// A feature's place around model calls.
#[async_trait]
pub trait Hook: Send + Sync {
    /// Completes the request before it is sent; what it returns is committed with the model's answer.
    async fn before_model(
        &self,
        step: &StepContext<'_>,
        request: &mut ChatRequest,
    ) -> Result<Update, Failure>;
}
