//! Containment of JSON values, for searches by metadata or values. It follows the operator `@>` of PostgreSQL's
//! `jsonb`: an object contains another object if it contains each of its fields, and a list contains another list if
//! each element of that list is contained in one of its own. All other values contain equal values only.

use serde_json::{Map, Value};

/// Returns whether `whole` has every field of `part`, with a value that contains the value in `part`.
pub(crate) fn has_fields(whole: &Map<String, Value>, part: &Map<String, Value>) -> bool {
    part.iter().all(|(key, value)| whole.get(key).is_some_and(|own| contains(own, value)))
}

/// Returns whether `whole` contains `part`. The cost is the product of the lengths of two lists, and linear otherwise.
pub(crate) fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => has_fields(whole, part),
        (Value::Array(whole), Value::Array(part)) => {
            part.iter().all(|value| whole.iter().any(|own| contains(own, value)))
        }
        (whole, part) => whole == part,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(whole: Value, part: Value, expected: bool) {
        assert_eq!(contains(&whole, &part), expected, "{whole} contains {part}");
    }

    #[test]
    fn an_object_contains_one_with_fewer_fields() {
        check(json!({"a": 1, "b": {"c": 2, "d": 3}}), json!({"b": {"c": 2}}), true);
        check(json!({"a": 1}), json!({}), true);
        check(json!({"a": 1}), json!({"a": 2}), false);
        check(json!({"a": 1}), json!({"a": null}), false);
        check(json!({"a": [{"x": 1, "y": 2}, 3]}), json!({"a": [{"x": 1}]}), true);
        check(json!({"a": [1]}), json!({"a": 1}), false);
        check(json!("a"), json!("a"), true);
    }
}
