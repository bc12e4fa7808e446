//! Evaluation of filters on the fields of JSON objects. Numbers are compared by value, texts by their characters.

use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

use crate::{FieldComparison, FieldCondition};

/// Returns whether the fields meet all conditions.
pub(super) fn meets_all(conditions: &[FieldCondition], fields: &Map<String, Value>) -> bool {
    conditions.iter().all(|condition| is_met(condition, fields.get(&condition.field)))
}

/// Returns whether `fields` contains all of the `expected` fields with equal values. Nested objects are compared in
/// the same way, so they may have additional fields.
pub(crate) fn contains_fields(fields: &Map<String, Value>, expected: &Map<String, Value>) -> bool {
    let has = |(name, expected): (&String, &Value)| match (fields.get(name), expected) {
        (Some(Value::Object(field)), Value::Object(expected)) => contains_fields(field, expected),
        (Some(field), expected) => is_equal(field, expected),
        (None, _) => false,
    };
    expected.iter().all(has)
}

/// Returns whether a field, or its absence, meets a condition.
fn is_met(condition: &FieldCondition, field: Option<&Value>) -> bool {
    let is_equal = || field.is_some_and(|field| is_equal(field, &condition.value));
    let order = || field.and_then(|field| compare_values(field, &condition.value));
    match condition.comparison {
        FieldComparison::Equal => is_equal(),
        FieldComparison::NotEqual => !is_equal(),
        FieldComparison::Greater => order().is_some_and(Ordering::is_gt),
        FieldComparison::GreaterOrEqual => order().is_some_and(Ordering::is_ge),
        FieldComparison::Less => order().is_some_and(Ordering::is_lt),
        FieldComparison::LessOrEqual => order().is_some_and(Ordering::is_le),
    }
}

/// Returns whether two JSON values are equal. Numbers are equal if their values are.
fn is_equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right) == Some(Ordering::Equal),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| is_equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            let has_equal_field =
                |(name, right): (&String, &Value)| left.get(name).is_some_and(|left| is_equal(left, right));
            left.len() == right.len() && right.iter().all(has_equal_field)
        }
        (left, right) => left == right,
    }
}

/// Returns the order of two numbers or two texts. Other values have no order.
fn compare_values(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right),
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        _ => None,
    }
}

/// Returns the order of two numbers. Integers are compared as integers, because different integers above 2^53 can be
/// equal as floating-point numbers.
fn compare_numbers(left: &Number, right: &Number) -> Option<Ordering> {
    match (left.as_i128(), right.as_i128()) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(field: Option<Value>, operand: Value, expected: [bool; 6]) {
        use FieldComparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        let fields: Map<String, Value> = field.map(|value| ("f".to_owned(), value)).into_iter().collect();
        let results = [Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual].map(|comparison| {
            meets_all(
                &[FieldCondition { field: "f".to_owned(), comparison, value: operand.clone() }],
                &fields,
            )
        });
        assert_eq!(results, expected, "{fields:?} and {operand}");
    }

    #[test]
    fn a_field_is_compared_by_its_type() {
        let (before, same, after) = (
            [false, true, true, true, false, false],
            [true, false, false, true, false, true],
            [false, true, false, false, true, true],
        );
        let (equal, unequal) =
            ([true, false, false, false, false, false], [false, true, false, false, false, false]);
        check(Some(json!(1)), json!(2), before);
        check(Some(json!(1)), json!(1.0), same);
        check(Some(json!(1.5)), json!(1), after);
        check(Some(json!(9_007_199_254_740_993_i64)), json!(9_007_199_254_740_992_i64), after);
        check(Some(json!(u64::MAX)), json!(-1), after);
        check(Some(json!("b")), json!("a"), after);
        check(Some(json!("10")), json!("9"), before);
        check(Some(json!("1")), json!(1), unequal);
        check(None, json!(1), unequal);
        check(None, json!(null), unequal);
        check(Some(json!(null)), json!(null), equal);
        check(Some(json!(true)), json!(true), equal);
        check(Some(json!(true)), json!(1), unequal);
        check(Some(json!([1, {"a": 2}])), json!([1.0, {"a": 2.0}]), equal);
        check(Some(json!({"a": 1, "b": 2})), json!({"b": 2, "a": 1}), equal);
        check(Some(json!({"a": 1, "b": 2})), json!({"a": 1}), unequal);
    }

    #[test]
    fn an_object_contains_its_fields_and_nested_fields() {
        let fields = |value: Value| value.as_object().unwrap().clone();
        let stored = fields(json!({"a": {"b": 1, "c": [1, 2]}, "d": null, "e": 2.0}));
        for expected in [
            json!({}),
            json!({"a": {}}),
            json!({"a": {"b": 1}}),
            json!({"a": {"c": [1, 2]}, "e": 2}),
            json!({"d": null}),
        ] {
            assert!(contains_fields(&stored, &fields(expected.clone())), "{expected}");
        }
        for expected in [
            json!({"a": 1}),
            json!({"a": {"b": 2}}),
            json!({"a": {"c": [1]}}),
            json!({"f": null}),
            json!({"e": {}}),
            json!({"a": {"b": 1}, "f": 1}),
        ] {
            assert!(!contains_fields(&stored, &fields(expected.clone())), "{expected}");
        }
    }

    #[test]
    fn every_condition_must_hold() {
        let fields = Map::from_iter([("a".to_owned(), json!(3)), ("b".to_owned(), json!("x"))]);
        let condition =
            |field: &str, comparison, value| FieldCondition { field: field.to_owned(), comparison, value };
        let within = [
            condition("a", FieldComparison::GreaterOrEqual, json!(1)),
            condition("a", FieldComparison::Less, json!(5)),
            condition("b", FieldComparison::Equal, json!("x")),
        ];
        assert!(meets_all(&within, &fields) && meets_all(&[], &fields));
        assert!(!meets_all(
            &[within[0].clone(), condition("b", FieldComparison::Equal, json!("y"))],
            &fields
        ));
    }
}
