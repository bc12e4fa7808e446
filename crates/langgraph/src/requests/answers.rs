//! Answers as clients write them: the decisions alone or in a list, and the names that clients in JavaScript use. Which
//! question an answer is for is not decided here.

use agent::{ParsedAnswer, UnreadableAnswer};
use serde_json::{Map, Value};

/// Reads what an answer decides.
pub(super) fn read_answer(answer: &Value) -> ParsedAnswer {
    let shaped = match answer {
        Value::Object(fields) if fields.contains_key("decisions") => normalize_decisions(fields),
        // One decision by itself, or a list of them.
        Value::Object(fields) if fields.contains_key("type") => wrap_decisions(std::slice::from_ref(answer)),
        Value::Array(decisions) => wrap_decisions(decisions),
        other => other.clone(),
    };
    serde_json::from_value(shaped).map_err(|error| {
        let expected = "expected {\"decisions\": [\u{2026}]}, one for each action";
        UnreadableAnswer(format!("{error}; {expected}"))
    })
}

fn normalize_decisions(fields: &Map<String, Value>) -> Value {
    match fields.get("decisions") {
        Some(Value::Array(decisions)) => wrap_decisions(decisions),
        _ => Value::Object(fields.clone()),
    }
}

fn wrap_decisions(decisions: &[Value]) -> Value {
    let decisions = decisions.iter().map(to_snake_case).collect();
    Value::Object(Map::from_iter([("decisions".to_owned(), Value::Array(decisions))]))
}

/// Clients in JavaScript write `editedAction`, alone or beside its twin.
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
    fn g3_decisions_are_read_as_clients_of_the_wire_write_them() {
        let types = |answer: Value| {
            let read = read_answer(&answer).ok()?;
            Some(read.decisions.iter().map(protocol::Decision::type_name).collect())
        };
        let edited = json!({"name": "write_file", "args": {"path": "a"}});
        let approve = json!({"type": "approve"});
        for answer in [json!({"decisions": [approve]}), json!([approve]), approve.clone()] {
            assert_eq!(types(answer.clone()), Some(vec!["approve"]), "{answer}");
        }
        let twin = json!({"decisions": [{"type": "edit", "edited_action": edited, "editedAction": edited}]});
        assert_eq!(types(twin), Some(vec!["edit"]));
        let alone = json!({"decisions": [{"type": "edit", "editedAction": edited}, {"type": "reject", "message": "no"}]});
        assert_eq!(types(alone), Some(vec!["edit", "reject"]));
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
