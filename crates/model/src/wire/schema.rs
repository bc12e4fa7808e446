//! Detection of strict JSON schemas, which providers can enforce.

use serde_json::Value;

/// Returns whether every object in the schema forbids additional properties and requires all of its own.
pub(super) fn is_strict(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => {
            let closed = match fields.get("properties") {
                Some(Value::Object(properties)) => {
                    let required = fields.get("required").and_then(Value::as_array);
                    fields.get("additionalProperties") == Some(&Value::Bool(false))
                        && properties.keys().all(|name| {
                            required.is_some_and(|required| required.iter().any(|item| item == name.as_str()))
                        })
                }
                Some(_) | None => true,
            };
            closed && fields.values().all(is_strict)
        }
        Value::Array(items) => items.iter().all(is_strict),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::is_strict;

    fn check(schema: Value, expected: bool) {
        assert_eq!(is_strict(&schema), expected, "{schema}");
    }

    #[test]
    fn only_closed_objects_with_all_properties_required_are_strict() {
        let inner = json!({"type": "object", "properties": {"b": {}}});
        let closed = |b: Value| json!({"type": "object", "properties": {"a": b}, "required": ["a"], "additionalProperties": false});
        check(closed(json!({"type": "string"})), true);
        check(closed(inner.clone()), false);
        check(closed(json!({"type": "array", "items": inner})), false);
        check(json!({"type": "object", "properties": {"a": {}}, "additionalProperties": false}), false);
    }
}
