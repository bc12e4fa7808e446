//! The interrupts that an answer is for when its run starts, and the check that a handoff is accepted only by a client
//! that was shown the proposal.

use protocol::{Checkpoint, Decision, FailureKind, Interrupt, InterruptId, RunFailure};
use runtime::AdmissionSource;

use super::RequestAdmission;
use super::answers::{AnswerStrictness, ambiguous_failure, interrupts_of_step, match_answers};
use super::refusal::{AdmissionRefusal, AdmissionResult};
use crate::Error;
use crate::runs::request::action::{InterruptAnswers, ParsedAnswer};

impl RequestAdmission<'_> {
    /// Matches the answers to pending interrupts: to those that the request is bound to, or to those that are pending
    /// now.
    pub(super) async fn match_pending<'p>(
        &self,
        answers: InterruptAnswers,
        pending: &'p [Interrupt],
        head: Option<&Checkpoint>,
    ) -> AdmissionResult<Vec<(&'p Interrupt, ParsedAnswer)>> {
        let (request, thread_id) = (self.spec.request, self.thread_id());
        let strictness = AnswerStrictness::of_request(request);
        let Some(bound) = request.answered_interrupts.as_deref() else {
            return Ok(match_answers(answers, pending, &interrupts_of_step(pending, head), strictness)?);
        };
        if let Some(failure) = self.agent.runs().find_decided(thread_id, bound, pending).await? {
            return Err(failure.into());
        }
        let names_proposal = matches!(answers, InterruptAnswers::Named(_)) || request.checkpoint_id.is_some();
        let answers = match_bound_answers(answers, bound, pending, strictness)?;
        for (interrupt, answer) in &answers {
            let Ok(decisions) = answer else { continue };
            self.agent.handoffs().check_decisions_current(interrupt, decisions).await?;
            if !names_proposal && decisions.decisions.iter().any(Decision::is_unbound_acceptance) {
                self.agent.handoffs().check_proposal_shown(interrupt, request.client.as_deref()).await?;
            }
        }
        Ok(answers)
    }

    /// Returns the refusal with the outcome of the interrupt, if another client answered it during the admission.
    pub(in crate::runs) async fn with_outcome(&self, refusal: AdmissionRefusal) -> AdmissionRefusal {
        let AdmissionRefusal::Error(Error::Journal(journal::Error::AlreadyDecided { interrupt_id })) =
            refusal
        else {
            return refusal;
        };
        match self.agent.runs().not_pending_failure(self.thread_id(), interrupt_id).await {
            Ok(failure) => failure.into(),
            Err(error) => error.into(),
        }
    }

    /// Returns whether the failure is returned to the client as the response, so that nothing is written. That is so
    /// for a new answer that comes too late or that is invalid. The run of a queued answer ends with the failure.
    pub(in crate::runs) fn is_refused_at_once(&self, failure: &RunFailure) -> bool {
        self.spec.origin == AdmissionSource::New
            && self.spec.request.answered_interrupts.is_some()
            && failure.kind.is_about_answer()
    }
}

/// Matches bound answers to pending interrupts. The interrupts in `bound` are pending.
///
/// # Errors
/// The failure of an answer without names that was for no single interrupt when it was received.
fn match_bound_answers<'p>(
    answers: InterruptAnswers,
    bound: &[InterruptId],
    pending: &'p [Interrupt],
    strictness: AnswerStrictness,
) -> Result<Vec<(&'p Interrupt, ParsedAnswer)>, RunFailure> {
    match answers {
        InterruptAnswers::Only(answer) if !pending.is_empty() => {
            match pending.iter().find(|interrupt| bound.contains(&interrupt.interrupt_id)) {
                Some(interrupt) => Ok(vec![(interrupt, answer)]),
                None if bound.is_empty() && pending.len() == 1 => {
                    let message = "not_pending: the answer was sent before the pending question was asked";
                    Err(RunFailure::new(FailureKind::UnknownInterrupt, message))
                }
                None => Err(ambiguous_failure(pending, strictness)),
            }
        }
        answers => match_answers(answers, pending, bound, strictness),
    }
}
