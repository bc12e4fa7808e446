//! Matching answers to pending interrupts, before anything is stored. The node that raised an interrupt
//! validates the decisions.

use protocol::{Checkpoint, Decisions, FailureKind, Interrupt, InterruptId, RunFailure, RunRequest};

use crate::runs::request::action::{InterruptAnswers, ParsedAnswer, UnreadableAnswer};

/// The treatment of answers to interrupts that are not pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::runs) enum AnswerStrictness {
    /// They are ignored.
    Lenient,
    /// They are refused, together with all other answers of the request.
    Strict,
}

impl AnswerStrictness {
    /// Returns the treatment that a request asks for.
    pub(in crate::runs) const fn of_request(request: &RunRequest) -> Self {
        match request.strict_resume {
            true => Self::Strict,
            false => Self::Lenient,
        }
    }
}

/// Returns the interrupts of the step at which the thread is.
pub(in crate::runs) fn interrupts_of_step(
    pending: &[Interrupt],
    head: Option<&Checkpoint>,
) -> Vec<InterruptId> {
    let node = head.and_then(|head| head.next.as_deref());
    let of_step = pending.iter().filter(|interrupt| Some(interrupt.node.as_str()) == node);
    of_step.map(|interrupt| interrupt.interrupt_id).collect()
}

/// Matches each answer to a pending interrupt. `step` contains the interrupts of the step at which the thread
/// is.
///
/// An answer without an id is for the only pending interrupt. If several are pending, it is for the only one
/// of the current step; others, such as that of a handoff that was passed over, must be named.
///
/// # Errors
/// The failure with which the run ends. No answer takes effect in that case.
pub(in crate::runs) fn match_answers<'a>(
    answers: InterruptAnswers,
    pending: &'a [Interrupt],
    step: &[InterruptId],
    strictness: AnswerStrictness,
) -> Result<Vec<(&'a Interrupt, ParsedAnswer)>, RunFailure> {
    let is_strict = strictness == AnswerStrictness::Strict;
    let answers = match answers {
        InterruptAnswers::Named(answers) if answers.is_empty() && is_strict => {
            return Err(RunFailure::new(
                FailureKind::UnknownInterrupt,
                "empty_map: the answer names no interrupt",
            ));
        }
        InterruptAnswers::Named(answers) => answers,
        InterruptAnswers::Only(answer) => return match_only_answer(answer, pending, step, strictness),
    };
    let mut matched = Vec::with_capacity(answers.len());
    for (id, answer) in answers {
        match pending.iter().find(|interrupt| interrupt.interrupt_id == id) {
            Some(interrupt) => matched.push((interrupt, answer)),
            None if is_strict => {
                return Err(RunFailure::new(
                    FailureKind::UnknownInterrupt,
                    format!("not_pending: interrupt {id} is not pending"),
                ));
            }
            None => {}
        }
    }
    Ok(matched)
}

/// Matches the answer of a request that contains only one answer and names no interrupt.
pub(in crate::runs) fn match_only_answer<'a>(
    answer: ParsedAnswer,
    pending: &'a [Interrupt],
    step: &[InterruptId],
    strictness: AnswerStrictness,
) -> Result<Vec<(&'a Interrupt, ParsedAnswer)>, RunFailure> {
    let is_strict = strictness == AnswerStrictness::Strict;
    let mut of_step = pending.iter().filter(|interrupt| step.contains(&interrupt.interrupt_id));
    match (pending, of_step.next(), of_step.next()) {
        ([], _, _) if is_strict => {
            Err(RunFailure::new(FailureKind::UnknownInterrupt, "not_pending: no interrupt is pending"))
        }
        ([], _, _) => Ok(Vec::new()),
        ([interrupt], _, _) => Ok(vec![(interrupt, answer)]),
        (_, Some(interrupt), None) if !is_strict => Ok(vec![(interrupt, answer)]),
        _ => Err(ambiguous_failure(pending, strictness)),
    }
}

/// Returns the failure of an answer without an id that is for none of the pending interrupts in particular.
pub(in crate::runs) fn ambiguous_failure(pending: &[Interrupt], strictness: AnswerStrictness) -> RunFailure {
    let ids: Vec<String> = pending.iter().map(|interrupt| interrupt.interrupt_id.to_string()).collect();
    let message = format!(
        "ambiguous: {} interrupts are pending, you must specify the interrupt id: {}",
        pending.len(),
        ids.join(", ")
    );
    let kind = match strictness {
        AnswerStrictness::Strict => FailureKind::UnknownInterrupt,
        AnswerStrictness::Lenient => FailureKind::AmbiguousResume,
    };
    RunFailure::new(kind, message)
}

/// Returns the decisions of an answer.
///
/// # Errors
/// The failure with which the run ends. The interrupt stays pending in that case.
pub(in crate::runs) fn decisions_of_answer(
    interrupt_id: InterruptId,
    answer: ParsedAnswer,
) -> Result<Decisions, RunFailure> {
    answer.map_err(|UnreadableAnswer(reason)| {
        let message = format!("failed to read the answer to interrupt {interrupt_id}: {reason}");
        RunFailure::new(FailureKind::InvalidDecision, message)
    })
}

#[cfg(test)]
mod tests;
