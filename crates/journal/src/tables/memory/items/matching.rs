//! Whether the value of an item is as a filter asks. Numbers are compared as numbers, texts by their characters.

use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

use crate::{Comparison, Condition};

/// Returns whether the fields meet every condition.
pub(super) fn all(conditions: &[Condition], fields: &Map<String, Value>) -> bool {
    conditions.iter().all(|condition| holds(condition, fields.get(&condition.field)))
}

/// Returns whether the fields contain what is wanted: every one of it with an equal value, where an object contains each
/// object that has no other fields.
pub(crate) fn contains(fields: &Map<String, Value>, wanted: &Map<String, Value>) -> bool {
    let has = |(name, wanted): (&String, &Value)| match (fields.get(name), wanted) {
        (Some(Value::Object(field)), Value::Object(wanted)) => contains(field, wanted),
        (Some(field), wanted) => equal(field, wanted),
        (None, _) => false,
    };
    wanted.iter().all(has)
}

fn holds(condition: &Condition, field: Option<&Value>) -> bool {
    let is_equal = || field.is_some_and(|field| equal(field, &condition.with));
    let order = || field.and_then(|field| order(field, &condition.with));
    match condition.comparison {
        Comparison::Equal => is_equal(),
        Comparison::NotEqual => !is_equal(),
        Comparison::Greater => order().is_some_and(Ordering::is_gt),
        Comparison::GreaterOrEqual => order().is_some_and(Ordering::is_ge),
        Comparison::Less => order().is_some_and(Ordering::is_lt),
        Comparison::LessOrEqual => order().is_some_and(Ordering::is_le),
    }
}

fn equal(field: &Value, with: &Value) -> bool {
    match (field, with) {
        (Value::Number(field), Value::Number(with)) => numbers(field, with) == Some(Ordering::Equal),
        (Value::Array(field), Value::Array(with)) => {
            field.len() == with.len() && field.iter().zip(with).all(|(field, with)| equal(field, with))
        }
        (Value::Object(field), Value::Object(with)) => {
            let is_alike =
                |(name, with): (&String, &Value)| field.get(name).is_some_and(|field| equal(field, with));
            field.len() == with.len() && with.iter().all(is_alike)
        }
        (field, with) => field == with,
    }
}

fn order(field: &Value, with: &Value) -> Option<Ordering> {
    match (field, with) {
        (Value::Number(field), Value::Number(with)) => numbers(field, with),
        (Value::String(field), Value::String(with)) => Some(field.cmp(with)),
        _ => None,
    }
}

/// Whole numbers are compared as such: above 2^53 different ones would be the same otherwise.
fn numbers(field: &Number, with: &Number) -> Option<Ordering> {
    match (field.as_i128(), with.as_i128()) {
        (Some(field), Some(with)) => Some(field.cmp(&with)),
        _ => field.as_f64()?.partial_cmp(&with.as_f64()?),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(field: Option<Value>, with: Value, expected: [bool; 6]) {
        use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        let fields: Map<String, Value> = field.map(|value| ("f".to_owned(), value)).into_iter().collect();
        let found = [Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual].map(|comparison| {
            all(&[Condition { field: "f".to_owned(), comparison, with: with.clone() }], &fields)
        });
        assert_eq!(found, expected, "{fields:?} and {with}");
    }

    #[test]
    fn a_field_is_compared_as_what_it_is() {
        let (before, same, after) = (
            [false, true, true, true, false, false],
            [true, false, false, true, false, true],
            [false, true, false, false, true, true],
        );
        let (alike, other) =
            ([true, false, false, false, false, false], [false, true, false, false, false, false]);
        check(Some(json!(1)), json!(2), before);
        check(Some(json!(1)), json!(1.0), same);
        check(Some(json!(1.5)), json!(1), after);
        check(Some(json!(9_007_199_254_740_993_i64)), json!(9_007_199_254_740_992_i64), after);
        check(Some(json!(u64::MAX)), json!(-1), after);
        check(Some(json!("b")), json!("a"), after);
        check(Some(json!("10")), json!("9"), before);
        check(Some(json!("1")), json!(1), other);
        check(None, json!(1), other);
        check(None, json!(null), other);
        check(Some(json!(null)), json!(null), alike);
        check(Some(json!(true)), json!(true), alike);
        check(Some(json!(true)), json!(1), other);
        check(Some(json!([1, {"a": 2}])), json!([1.0, {"a": 2.0}]), alike);
        check(Some(json!({"a": 1, "b": 2})), json!({"b": 2, "a": 1}), alike);
        check(Some(json!({"a": 1, "b": 2})), json!({"a": 1}), other);
    }

    #[test]
    fn an_object_contains_what_has_no_other_fields() {
        let fields = |value: Value| value.as_object().unwrap().clone();
        let stored = fields(json!({"a": {"b": 1, "c": [1, 2]}, "d": null, "e": 2.0}));
        for wanted in [
            json!({}),
            json!({"a": {}}),
            json!({"a": {"b": 1}}),
            json!({"a": {"c": [1, 2]}, "e": 2}),
            json!({"d": null}),
        ] {
            assert!(contains(&stored, &fields(wanted.clone())), "{wanted}");
        }
        for wanted in [
            json!({"a": 1}),
            json!({"a": {"b": 2}}),
            json!({"a": {"c": [1]}}),
            json!({"f": null}),
            json!({"e": {}}),
            json!({"a": {"b": 1}, "f": 1}),
        ] {
            assert!(!contains(&stored, &fields(wanted.clone())), "{wanted}");
        }
    }

    #[test]
    fn every_condition_must_hold() {
        let fields = Map::from_iter([("a".to_owned(), json!(3)), ("b".to_owned(), json!("x"))]);
        let condition =
            |field: &str, comparison, with| Condition { field: field.to_owned(), comparison, with };
        let within = [
            condition("a", Comparison::GreaterOrEqual, json!(1)),
            condition("a", Comparison::Less, json!(5)),
            condition("b", Comparison::Equal, json!("x")),
        ];
        assert!(all(&within, &fields) && all(&[], &fields));
        assert!(!all(&[within[0].clone(), condition("b", Comparison::Equal, json!("y"))], &fields));
    }
}
