//! Answers to what waits, before anything is stored: which question each is for, and what it decides. Whether the node
//! that asked takes the decision is its own rule.

use protocol::{Decisions, Interrupt, InterruptId};
use serde_json::{Map, Value};

use crate::requests::fault::{AMBIGUOUS_RESUME, Fault, INVALID_DECISION, UNKNOWN_INTERRUPT};
use crate::requests::wanted::Answers;

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
    (pending, step): (&'a [Interrupt], &'a [InterruptId]),
    strictness: Strictness,
) -> Result<Vec<(&'a Interrupt, Value)>, Fault> {
    let is_strict = strictness == Strictness::Strict;
    let answers = match answers {
        Answers::Named(answers) if answers.is_empty() && is_strict => {
            return Err(Fault::new(UNKNOWN_INTERRUPT, "empty_map: the answer names no interrupt"));
        }
        Answers::Named(answers) => answers,
        Answers::Only(answer) => return only(answer, (pending, step), strictness),
    };
    let mut found = Vec::with_capacity(answers.len());
    for (id, answer) in answers {
        match pending.iter().find(|interrupt| interrupt.interrupt_id == id) {
            Some(interrupt) => found.push((interrupt, answer)),
            None if is_strict => {
                return Err(Fault::new(
                    UNKNOWN_INTERRUPT,
                    format!("not_pending: interrupt {id} does not wait"),
                ));
            }
            None => {}
        }
    }
    Ok(found)
}

fn only<'a>(
    answer: Value,
    (pending, step): (&'a [Interrupt], &'a [InterruptId]),
    strictness: Strictness,
) -> Result<Vec<(&'a Interrupt, Value)>, Fault> {
    let is_strict = strictness == Strictness::Strict;
    let mut of_step = pending.iter().filter(|interrupt| step.contains(&interrupt.interrupt_id));
    match (pending, of_step.next(), of_step.next()) {
        ([], _, _) if is_strict => {
            Err(Fault::new(UNKNOWN_INTERRUPT, "not_pending: nothing waits for an answer"))
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
            Err(Fault::new(if is_strict { UNKNOWN_INTERRUPT } else { AMBIGUOUS_RESUME }, several))
        }
    }
}

/// Reads what an answer decides.
///
/// # Errors
/// The fault with which the run ends; the question still waits then.
pub(super) fn decided(interrupt_id: InterruptId, answer: &Value) -> Result<Decisions, Fault> {
    let shaped = match answer {
        Value::Object(fields) if fields.contains_key("decisions") => tidied(fields),
        // One decision by itself, or a list of them.
        Value::Object(fields) if fields.contains_key("type") => wrapped(std::slice::from_ref(answer)),
        Value::Array(decisions) => wrapped(decisions),
        other => other.clone(),
    };
    serde_json::from_value(shaped).map_err(|error| {
        let expected = "expected {\"decisions\": [\u{2026}]}, one for each action";
        Fault::new(
            INVALID_DECISION,
            format!("failed to read the answer to interrupt {interrupt_id}: {error}; {expected}"),
        )
    })
}

fn tidied(fields: &Map<String, Value>) -> Value {
    match fields.get("decisions") {
        Some(Value::Array(decisions)) => wrapped(decisions),
        _ => Value::Object(fields.clone()),
    }
}

fn wrapped(decisions: &[Value]) -> Value {
    let decisions = decisions.iter().map(snake_cased).collect();
    Value::Object(Map::from_iter([("decisions".to_owned(), Value::Array(decisions))]))
}

/// Clients in JavaScript write `editedAction`, alone or beside its twin.
fn snake_cased(decision: &Value) -> Value {
    let mut decision = decision.clone();
    if let Some(fields) = decision.as_object_mut()
        && let Some(edited) = fields.remove("editedAction")
        && !fields.contains_key("edited_action")
    {
        fields.insert("edited_action".to_owned(), edited);
    }
    decision
}

#[cfg(test)]
mod tests;
