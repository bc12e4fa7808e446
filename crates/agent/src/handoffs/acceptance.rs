//! Acceptances whose run fails after the acceptance is durable, for example because the disk is full: they are reported as
//! accepted. The `handoff` crate accepts, and the recovery of runs completes what is missing.

use std::path::Path;

use protocol::{FailureKind, Handoff, HandoffId, HandoffStatus, RunFailure, RunStatus, Usage};
use runtime::RunEnd;

use crate::{Error, ErrorClass, HandoffService, Result};

impl HandoffService<'_> {
    /// Returns the end of the run that took a decision and then failed with `error`, if the handoff is accepted nevertheless;
    /// `None` otherwise. The acceptance is durable with its own transaction, before anything else is written.
    pub(super) async fn end_after_acceptance(
        self,
        handoff_id: HandoffId,
        error: &Error,
    ) -> Result<Option<RunEnd>> {
        if !matches!(error.class(), ErrorClass::Store | ErrorClass::Internal) {
            return Ok(None);
        }
        let handoff = self.get(handoff_id).await?;
        if !is_accepted(handoff.status) {
            return Ok(None);
        }
        let run = self.agent.store.checkpoint(handoff.parent_thread_id).await?.map(|point| point.run_id);
        Ok(run.map(|run_id| RunEnd {
            run_id,
            status: RunStatus::Error,
            interrupts: Vec::new(),
            failure: Some(RunFailure::new(FailureKind::Store, error.to_string())),
            usage: Usage::default(),
        }))
    }
}

/// Returns whether a handoff with this status was accepted.
pub(super) const fn is_accepted(status: HandoffStatus) -> bool {
    matches!(status, HandoffStatus::Accepted | HandoffStatus::Seeded | HandoffStatus::Cleaned)
}

/// Returns the text about an accepted handoff whose summary is not in `agent_md` yet, because the run ended before.
pub(super) fn incomplete_acceptance_text(handoff: &Handoff, agent_md: &Path, end: &RunEnd) -> String {
    let cause = end.failure.as_ref().map(|failure| format!(": failed to {}", failure.message));
    format!(
        "The handoff is accepted, and thread {} has its summary. Not written yet: the block in {}{}. The next segue command or \
         server completes it.",
        handoff.child_thread_id,
        agent_md.display(),
        cause.unwrap_or_default()
    )
}
