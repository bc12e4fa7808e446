//! Answers to what waits, before anything is stored: which question each is for, and what it decides. Whether the node
//! that asked takes the decision is its own rule.

use protocol::{Decisions, Interrupt, InterruptId};
use protocol::{FailureKind, RunFailure};

use crate::requests::action::{Answer, Answers, UnreadableAnswer};

/// How an answer is looked at that names what does not wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strictness {
    /// It does nothing.
    Lenient,
    /// It is refused, and so is all that comes with it.
    Strict,
}

/// Finds the question of each answer among those that wait; `step` are those of the step at which the thread stands.
///
/// An answer that names nothing is for the only question. Where several wait it is for the only one of that step: what
/// waits beside it, such as a handoff that was passed over, is answered by its name.
///
/// # Errors
/// The fault with which the run ends; nothing is answered then.
pub(super) fn matched<'a>(
    answers: Answers,
    pending: &'a [Interrupt],
    step: &'a [InterruptId],
    strictness: Strictness,
) -> Result<Vec<(&'a Interrupt, Answer)>, RunFailure> {
    let is_strict = strictness == Strictness::Strict;
    let answers = match answers {
        Answers::Named(answers) if answers.is_empty() && is_strict => {
            return Err(RunFailure::new(
                FailureKind::UnknownInterrupt,
                "empty_map: the answer names no interrupt",
            ));
        }
        Answers::Named(answers) => answers,
        Answers::Only(answer) => return only(answer, pending, step, strictness),
    };
    let mut found = Vec::with_capacity(answers.len());
    for (id, answer) in answers {
        match pending.iter().find(|interrupt| interrupt.interrupt_id == id) {
            Some(interrupt) => found.push((interrupt, answer)),
            None if is_strict => {
                return Err(RunFailure::new(
                    FailureKind::UnknownInterrupt,
                    format!("not_pending: interrupt {id} does not wait"),
                ));
            }
            None => {}
        }
    }
    Ok(found)
}

fn only<'a>(
    answer: Answer,
    pending: &'a [Interrupt],
    step: &'a [InterruptId],
    strictness: Strictness,
) -> Result<Vec<(&'a Interrupt, Answer)>, RunFailure> {
    let is_strict = strictness == Strictness::Strict;
    let mut of_step = pending.iter().filter(|interrupt| step.contains(&interrupt.interrupt_id));
    match (pending, of_step.next(), of_step.next()) {
        ([], _, _) if is_strict => {
            Err(RunFailure::new(FailureKind::UnknownInterrupt, "not_pending: nothing waits for an answer"))
        }
        ([], _, _) => Ok(Vec::new()),
        ([interrupt], _, _) => Ok(vec![(interrupt, answer)]),
        (_, Some(interrupt), None) if !is_strict => Ok(vec![(interrupt, answer)]),
        _ => {
            let ids: Vec<String> =
                pending.iter().map(|interrupt| interrupt.interrupt_id.to_string()).collect();
            let several = format!(
                "ambiguous: {} interrupts wait, you must specify the interrupt id: {}",
                pending.len(),
                ids.join(", ")
            );
            Err(RunFailure::new(
                if is_strict { FailureKind::UnknownInterrupt } else { FailureKind::AmbiguousResume },
                several,
            ))
        }
    }
}

/// Returns what an answer decides.
///
/// # Errors
/// The fault with which the run ends; the question still waits then.
pub(super) fn decided(interrupt_id: InterruptId, answer: Answer) -> Result<Decisions, RunFailure> {
    answer.map_err(|UnreadableAnswer(why)| {
        let message = format!("failed to read the answer to interrupt {interrupt_id}: {why}");
        RunFailure::new(FailureKind::InvalidDecision, message)
    })
}

#[cfg(test)]
mod tests;
