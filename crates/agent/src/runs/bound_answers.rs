//! The binding of an answer to the interrupts that were pending when the server received it. A bound answer never
//! decides another interrupt, however long its run is queued, and an answer that comes too late is refused with the
//! outcome.

use std::collections::BTreeMap;

use futures::future::BoxFuture;
use jiff::Timestamp;
use protocol::{
    Checkpoint, Decision, Decisions, FailureKind, Interrupt, InterruptId, InterruptStatus, RunFailure, RunId,
    RunRequest, ThreadId,
};

use super::admission::answers::{
    AnswerStrictness, decisions_of_answer, interrupts_of_step, match_only_answer,
};
use super::request::action::{InterruptAnswers, ParsedAnswer, RunAction};
use crate::handoffs::queries::handoff_id_of;
use crate::{Result, RunError, RunService};

impl<'a> RunService<'a> {
    /// Returns the interrupts that the answer of a request is for, as the value of
    /// [`RunRequest::answered_interrupts`]. It is called when the request is received, so that the answer cannot be
    /// for an interrupt that its sender has not seen. `None` for a request without an answer.
    ///
    /// The list is empty for an answer without names if no interrupt of the thread was ever raised, or if several are
    /// pending and none of them is the only one of the current step.
    ///
    /// # Errors
    /// [`RunError::AnswerRefused`] if a named interrupt is not pending, if an answer without names comes after the
    /// decision on the last interrupt of the thread, or if the answer is empty or no list of decisions. Nothing is
    /// written. Also fails if the journal does.
    pub fn bind_answers(
        self,
        thread_id: ThreadId,
        request: &'a RunRequest,
    ) -> BoxFuture<'a, Result<Option<Vec<InterruptId>>>> {
        journal::box_future(async move {
            let Some(answers) = self.answers_of(thread_id, request) else { return Ok(None) };
            let store = &self.agent.store;
            let Some((_, head)) = store.thread_with_checkpoint(thread_id).await? else { return Ok(None) };
            let pending = store.pending_interrupts(thread_id).await?;
            match answers {
                InterruptAnswers::Named(answers) if !answers.is_empty() => {
                    self.bind_named(thread_id, &pending, answers).await
                }
                InterruptAnswers::Named(_) | InterruptAnswers::Only(_) if pending.is_empty() => {
                    match store.last_decided_interrupt(thread_id).await? {
                        Some(decided) => Err(refused(self.decided_failure(&decided).await?)),
                        // The answer is to nothing and has no effect.
                        None => Ok(Vec::new()),
                    }
                }
                InterruptAnswers::Named(_) => Err(refused(empty_answer_failure())),
                InterruptAnswers::Only(answer) => {
                    let strictness = AnswerStrictness::of_request(request);
                    bind_only(answer, &pending, head.as_ref(), strictness)
                }
            }
            .map(Some)
        })
    }

    /// Checks that the answer of a request names no interrupt. It is called for a run that creates its thread, because
    /// no interrupt is pending in a new thread.
    ///
    /// # Errors
    /// [`RunError::AnswerRefused`] if the answer names an interrupt.
    pub fn check_answer_to_new_thread(self, thread_id: ThreadId, request: &RunRequest) -> Result<()> {
        match self.answers_of(thread_id, request) {
            Some(InterruptAnswers::Named(answers)) => match answers.keys().next() {
                Some(interrupt_id) => Err(refused(unknown_failure(*interrupt_id))),
                None => Ok(()),
            },
            Some(InterruptAnswers::Only(_)) | None => Ok(()),
        }
    }

    /// Checks that the interrupts to which the answer of a request is bound are still pending, and that no queued run
    /// answers one of them. It is called before the request is queued.
    ///
    /// # Errors
    /// [`RunError::AnswerRefused`] with the outcome, or fails if the journal does.
    pub fn check_answers_undecided(
        self,
        thread_id: ThreadId,
        request: &'a RunRequest,
    ) -> BoxFuture<'a, Result<()>> {
        journal::box_future(async move {
            let bound = request.answered_interrupts.as_deref().unwrap_or_default();
            if bound.is_empty() {
                return Ok(());
            }
            let pending = self.agent.store.pending_interrupts(thread_id).await?;
            if let Some(failure) = self.find_decided(thread_id, bound, &pending).await? {
                return Err(refused(failure));
            }
            let queued: Vec<RunId> =
                self.agent.store.queued_runs(Some(thread_id)).await?.iter().map(|run| run.run_id).collect();
            for run_ids in queued.chunks(journal::PAGE_ROWS_MAX) {
                for (run_id, other) in self.stored_requests(run_ids).await? {
                    let others = other.answered_interrupts.as_deref().unwrap_or_default();
                    if let Some(interrupt_id) = bound.iter().find(|id| others.contains(id)) {
                        let given = self.answers_of(thread_id, &other);
                        return Err(refused(queued_failure(*interrupt_id, run_id, given)));
                    }
                }
            }
            Ok(())
        })
    }

    /// Returns the failure of an answer to one of the interrupts that is not pending any more, with the outcome.
    /// `None` if all of them are pending.
    pub(super) async fn find_decided(
        self,
        thread_id: ThreadId,
        bound: &[InterruptId],
        pending: &[Interrupt],
    ) -> Result<Option<RunFailure>> {
        let is_pending = |id: &InterruptId| pending.iter().any(|interrupt| interrupt.interrupt_id == *id);
        match bound.iter().find(|id| !is_pending(id)) {
            Some(decided) => self.not_pending_failure(thread_id, *decided).await.map(Some),
            None => Ok(None),
        }
    }

    /// Returns the failure of an answer to an interrupt that is not pending in the thread, with the outcome.
    pub(super) async fn not_pending_failure(
        self,
        thread_id: ThreadId,
        interrupt_id: InterruptId,
    ) -> Result<RunFailure> {
        let found = self.agent.store.interrupt(interrupt_id).await?;
        match found.filter(|interrupt| interrupt.thread_id == thread_id) {
            Some(interrupt) => self.decided_failure(&interrupt).await,
            None => Ok(unknown_failure(interrupt_id)),
        }
    }

    /// Returns the failure of an answer to an interrupt that was decided before, with the outcome. For the interrupt
    /// of a handoff, that is also the outcome of the handoff.
    async fn decided_failure(self, interrupt: &Interrupt) -> Result<RunFailure> {
        let mut message =
            format!("not_pending: interrupt {} {}", interrupt.interrupt_id, outcome_of(interrupt));
        if let Some(handoff_id) = handoff_id_of(interrupt)
            && let Some(handoff) = self.agent.store.handoff(handoff_id).await?
        {
            let outcome = handoff.status.outcome();
            message = format!("{message}; handoff {handoff_id} is {outcome}");
            if handoff.status.is_pending() {
                message = format!("{message} with draft {}", handoff.iteration + 1);
            }
        }
        Ok(conflict_failure(message, conflict_hint(interrupt)))
    }

    /// Returns the interrupts of the named answers.
    async fn bind_named(
        self,
        thread_id: ThreadId,
        pending: &[Interrupt],
        answers: BTreeMap<InterruptId, ParsedAnswer>,
    ) -> Result<Vec<InterruptId>> {
        let named: Vec<InterruptId> = answers.keys().copied().collect();
        if let Some(failure) = self.find_decided(thread_id, &named, pending).await? {
            return Err(refused(failure));
        }
        for (interrupt_id, answer) in answers {
            decisions_of_answer(interrupt_id, answer).map_err(refused)?;
        }
        Ok(named)
    }

    /// Returns the answers of a request; `None` for a request without any.
    fn answers_of(self, thread_id: ThreadId, request: &RunRequest) -> Option<InterruptAnswers> {
        if !request.has_answer() {
            return None;
        }
        // A request that cannot be read is refused elsewhere.
        match (self.agent.settings.request_reader)(request, thread_id, Timestamp::now()).ok()?.action {
            RunAction::Answer(answers) => Some(answers),
            RunAction::BeginTurn
            | RunAction::Continue
            | RunAction::GoToNode(_)
            | RunAction::DiscardPending
            | RunAction::Rehome(_) => None,
        }
    }
}

/// Returns the interrupt that an answer without names is for; nothing if it could be for several.
fn bind_only(
    answer: ParsedAnswer,
    pending: &[Interrupt],
    head: Option<&Checkpoint>,
    strictness: AnswerStrictness,
) -> Result<Vec<InterruptId>> {
    let step = interrupts_of_step(pending, head);
    // The run of an ambiguous answer fails.
    let Ok(matched) = match_only_answer(answer, pending, &step, strictness) else { return Ok(Vec::new()) };
    let mut bound = Vec::with_capacity(matched.len());
    for (interrupt, answer) in matched {
        decisions_of_answer(interrupt.interrupt_id, answer).map_err(refused)?;
        bound.push(interrupt.interrupt_id);
    }
    Ok(bound)
}

/// Returns the outcome of an interrupt, as the rest of a sentence about it.
fn outcome_of(interrupt: &Interrupt) -> String {
    let at = interrupt.resolved_at.map(|at| format!(" at {at}")).unwrap_or_default();
    match (interrupt.status, &interrupt.decisions) {
        (InterruptStatus::Pending, _) => "is pending".to_owned(),
        (InterruptStatus::Withdrawn, _) => format!("was withdrawn{at}"),
        (InterruptStatus::Resolved, Some(decisions)) => {
            format!("was answered{at}: {}", decision_names(decisions))
        }
        (InterruptStatus::Resolved, None) => format!("was answered{at}"),
    }
}

/// Returns the hint for a client whose answer to the interrupt came too late.
fn conflict_hint(interrupt: &Interrupt) -> &'static str {
    let has_deferral = |decisions: &Decisions| decisions.decisions.contains(&Decision::Defer {});
    match interrupt.decisions.as_ref().is_some_and(has_deferral) {
        true => {
            "nothing was changed; the first decision holds; the thread's state shows the interrupt that asks about the \
             deferred actions"
        }
        false => "nothing was changed; the first decision holds",
    }
}

/// Returns the types of the decisions, separated by commas.
fn decision_names(decisions: &Decisions) -> String {
    decisions.decisions.iter().map(Decision::type_name).collect::<Vec<_>>().join(", ")
}

/// Returns the failure of an answer to an interrupt that a queued run answers with `given`.
fn queued_failure(interrupt_id: InterruptId, run_id: RunId, given: Option<InterruptAnswers>) -> RunFailure {
    let answer = match given {
        Some(InterruptAnswers::Only(answer)) => answer.ok(),
        Some(InterruptAnswers::Named(mut answers)) => {
            answers.remove(&interrupt_id).and_then(std::result::Result::ok)
        }
        None => None,
    };
    let names = answer.map(|decisions| format!(": {}", decision_names(&decisions))).unwrap_or_default();
    let message =
        format!("not_pending: interrupt {interrupt_id} was answered by run {run_id}, which is queued{names}");
    conflict_failure(message, "nothing was changed; the first decision holds, unless its run is cancelled")
}

/// Returns the failure of an answer to an interrupt that the thread does not have.
fn unknown_failure(interrupt_id: InterruptId) -> RunFailure {
    let message = format!("not_pending: interrupt {interrupt_id} is unknown in this thread");
    conflict_failure(message, "nothing was changed; the thread's state shows its pending interrupts")
}

/// Returns the failure of an answer that is an empty object although an interrupt is pending.
fn empty_answer_failure() -> RunFailure {
    let message = "empty_map: the answer names no interrupt; expected {\"decisions\": [\u{2026}]}, or such an answer \
                   under the id of each interrupt";
    RunFailure::new(FailureKind::InvalidDecision, message)
}

/// Returns the failure of an answer that another decision preceded.
fn conflict_failure(message: String, hint: &str) -> RunFailure {
    RunFailure { hint: Some(hint.to_owned()), ..RunFailure::new(FailureKind::UnknownInterrupt, message) }
}

/// Returns the error of an answer that is refused before anything is written.
fn refused(failure: RunFailure) -> crate::Error {
    RunError::AnswerRefused(failure).into()
}
