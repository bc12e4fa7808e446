//! The driver of an admitted run, and the fallbacks for turns without a usable model.

use std::sync::Arc;

use model::ChatModel;
use protocol::{Decision, Decisions, Interrupt};
use runtime::{Driver, TOOLS_NODE};

use super::RequestAdmission;
use crate::agent::Agent;
use crate::assembly::RunPurpose;
use crate::{Error, ErrorClass, Result, RunError};

impl RequestAdmission<'_> {
    /// Returns the driver of the run with the configured limits, and the model that it uses.
    ///
    /// # Errors
    /// Fails if the run is a turn and no model is usable.
    async fn driver(
        &self,
        agent: &Agent,
        purpose: RunPurpose,
    ) -> Result<(Driver, Option<Arc<dyn ChatModel>>)> {
        let model = match (agent.models.open_selected(), purpose) {
            (Ok(None), RunPurpose::Turn) => return Err(RunError::NoModel(self.thread_id()).into()),
            (opened, RunPurpose::Turn) => opened?,
            (
                opened,
                RunPurpose::Handoff
                | RunPurpose::Compaction
                | RunPurpose::PendingActivities
                | RunPurpose::Discard,
            ) => opened.unwrap_or(None),
        };
        let driver = agent.driver(&self.thread.assistant_id, model.as_ref(), purpose).await?;
        Ok((driver, model))
    }

    /// Returns the driver of the run as [`Self::driver`] does. For a turn without a usable model it returns a
    /// driver that stores the input and then fails.
    pub(super) async fn driver_or_fallback(
        &self,
        agent: &Agent,
        purpose: RunPurpose,
    ) -> Result<(Driver, Option<Arc<dyn ChatModel>>)> {
        match self.driver(agent, purpose).await {
            Err(error) if is_missing_model(purpose, &error) => {
                Ok((agent.driver_without_model(&error).await?, None))
            }
            driver => driver,
        }
    }

    /// Returns the driver of the run as [`Self::driver`] does. If no model is usable and all calls are
    /// rejected, it returns a driver that records the rejection and then fails. The question of a sub-agent
    /// always needs a model, because the sub-agent continues after a rejection.
    pub(super) async fn driver_for_answers(
        &self,
        agent: &Agent,
        purpose: RunPurpose,
        answers: &[(&Interrupt, Decisions)],
    ) -> Result<(Driver, Option<Arc<dyn ChatModel>>)> {
        let is_reject = |decision: &Decision| matches!(decision, Decision::Reject { .. });
        let is_rejection = answers
            .iter()
            .all(|(interrupt, given)| interrupt.node != TOOLS_NODE && given.decisions.iter().all(is_reject));
        match self.driver(agent, purpose).await {
            Err(error) if is_rejection && is_missing_model(purpose, &error) => {
                Ok((agent.driver_for_rejection(&self.thread.assistant_id, &error).await?, None))
            }
            driver => driver,
        }
    }
}

/// Returns whether the error means that a turn has no usable model.
fn is_missing_model(purpose: RunPurpose, error: &Error) -> bool {
    purpose == RunPurpose::Turn && matches!(error.class(), ErrorClass::Config | ErrorClass::Model)
}
