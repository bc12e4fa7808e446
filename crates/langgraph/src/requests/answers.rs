//! Parses a client's answer to an interrupt in each form that clients send: `{"decisions": [...]}`, a list of
//! decisions or a single decision, and with the camel-case names of JavaScript clients. The interrupt to which an
//! answer belongs is not determined here.

use agent::{ParsedAnswer, UnreadableAnswer};
use serde_json::{Map, Value};

/// Parses an answer to an interrupt.
///
/// # Errors
/// [`UnreadableAnswer`] with the reason and the expected form, if the answer is no list of decisions.
pub(super) fn read_answer(answer: &Value) -> ParsedAnswer {
    let normalized = match answer {
        Value::Object(fields) if fields.contains_key("decisions") => normalize_decisions(fields),
        // A single decision. The next arm is a list of decisions without the enclosing object.
        Value::Object(fields) if fields.contains_key("type") => wrap_decisions(std::slice::from_ref(answer)),
        Value::Array(decisions) => wrap_decisions(decisions),
        other => other.clone(),
    };
    serde_json::from_value(normalized).map_err(|error| {
        let expected = "expected {\"decisions\": [\u{2026}]} with one decision for each action";
        UnreadableAnswer(format!("{error}; {expected}"))
    })
}

/// Normalizes an object with the field `decisions`. Other fields of the object are dropped; an object whose decisions
/// are no list stays unchanged, so that deserialization reports the error.
fn normalize_decisions(fields: &Map<String, Value>) -> Value {
    match fields.get("decisions") {
        Some(Value::Array(decisions)) => wrap_decisions(decisions),
        _ => Value::Object(fields.clone()),
    }
}

/// Returns the object `{"decisions": [...]}` with the given decisions in snake case.
fn wrap_decisions(decisions: &[Value]) -> Value {
    let decisions = decisions.iter().map(to_snake_case).collect();
    Value::Object(Map::from_iter([("decisions".to_owned(), Value::Array(decisions))]))
}

/// Renames `editedAction`, which JavaScript clients send, to `edited_action`. If both are present, `edited_action` is
/// kept.
fn to_snake_case(decision: &Value) -> Value {
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
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn g3_decisions_are_parsed_in_each_form_that_clients_send() {
        let types = |answer: Value| {
            let parsed = read_answer(&answer).ok()?;
            Some(parsed.decisions.iter().map(protocol::Decision::type_name).collect())
        };
        let edited = json!({"name": "write_file", "args": {"path": "a"}});
        let approve = json!({"type": "approve"});
        for answer in [json!({"decisions": [approve]}), json!([approve]), approve.clone()] {
            assert_eq!(types(answer.clone()), Some(vec!["approve"]), "{answer}");
        }
        let both_spellings =
            json!({"decisions": [{"type": "edit", "edited_action": edited, "editedAction": edited}]});
        assert_eq!(types(both_spellings), Some(vec!["edit"]));
        let camel_case = json!({"decisions": [{"type": "edit", "editedAction": edited}, {"type": "reject", "message": "no"}]});
        assert_eq!(types(camel_case), Some(vec!["edit", "reject"]));
        assert_eq!(
            types(json!({"decisions": [{"type": "approve", "id": 3}], "more": 1})),
            Some(vec!["approve"])
        );
        for bad in [
            json!("yes"),
            json!(true),
            json!({"decisions": "approve"}),
            json!({"decisions": [{"type": "accept"}]}),
            json!({"decisions": [{"type": "edit"}]}),
            json!({"type": "respond"}),
            json!({"answer": 1}),
        ] {
            assert_eq!(types(bad.clone()), None, "{bad}");
        }
    }
}
