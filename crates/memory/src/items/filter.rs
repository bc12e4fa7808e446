//! Parses filters in the form of the Agent Server API: for each field either a value that it must equal, or an object
//! of comparisons. The journal compares the values.

use journal::{FieldComparison, FieldCondition};
use serde_json::{Map, Value};

use super::error::{FilterError, ItemError, truncate_name};

/// Returns the conditions of a filter. All must hold. An object is a set of comparisons if any of its names begins
/// with `$`; otherwise it is a value that the field must equal.
///
/// # Errors
/// [`ItemError::BadFilter`] for an unknown comparison, and for an ordering by a value without an order.
pub(super) fn parse_conditions(filter: &Map<String, Value>) -> Result<Vec<FieldCondition>, ItemError> {
    let mut conditions = Vec::with_capacity(filter.len());
    for (field, expected) in filter {
        let condition = |comparison, value: &Value| FieldCondition {
            field: field.clone(),
            comparison,
            value: value.clone(),
        };
        match expected {
            Value::Object(comparisons) if comparisons.keys().any(|name| name.starts_with('$')) => {
                for (name, value) in comparisons {
                    let comparison = parse_comparison(name, value)
                        .map_err(|fault| ItemError::BadFilter { field: truncate_name(field), fault })?;
                    conditions.push(condition(comparison, value));
                }
            }
            value => conditions.push(condition(FieldComparison::Equal, value)),
        }
    }
    Ok(conditions)
}

/// Parses the name of a comparison. Only numbers and texts can be compared by order.
fn parse_comparison(name: &str, value: &Value) -> Result<FieldComparison, FilterError> {
    let comparison = match name {
        "$eq" => return Ok(FieldComparison::Equal),
        "$ne" => return Ok(FieldComparison::NotEqual),
        "$gt" => FieldComparison::Greater,
        "$gte" => FieldComparison::GreaterOrEqual,
        "$lt" => FieldComparison::Less,
        "$lte" => FieldComparison::LessOrEqual,
        _ => return Err(FilterError::UnknownComparison { name: truncate_name(name) }),
    };
    match value {
        Value::Number(_) | Value::String(_) => Ok(comparison),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            Err(FilterError::NotOrdered { name: name.to_owned() })
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(filter: Value, expected: &[(&str, FieldComparison, Value)]) {
        let Value::Object(filter) = filter else { panic!("an object") };
        let conditions: Vec<(String, FieldComparison, Value)> = parse_conditions(&filter)
            .unwrap()
            .into_iter()
            .map(|condition| (condition.field, condition.comparison, condition.value))
            .collect();
        let expected: Vec<_> =
            expected.iter().map(|(field, how, with)| ((*field).to_owned(), *how, with.clone())).collect();
        assert_eq!(conditions, expected);
    }

    #[track_caller]
    fn check_refused(filter: Value, expected: &str) {
        let Value::Object(filter) = filter else { panic!("an object") };
        assert_eq!(parse_conditions(&filter).unwrap_err().to_string(), expected);
    }

    #[test]
    fn a_filter_of_the_agent_server_api_is_parsed() {
        use FieldComparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        check(json!({}), &[]);
        check(json!({"a": 1, "b": null}), &[("a", Equal, json!(1)), ("b", Equal, json!(null))]);
        check(
            json!({"a": {"$eq": [1]}, "b": {"$ne": {}}}),
            &[("a", Equal, json!([1])), ("b", NotEqual, json!({}))],
        );
        check(
            json!({"a": {"$gte": 1, "$lt": 5.5}}),
            &[("a", GreaterOrEqual, json!(1)), ("a", Less, json!(5.5))],
        );
        check(
            json!({"a": {"$gt": "x", "$lte": "y"}}),
            &[("a", Greater, json!("x")), ("a", LessOrEqual, json!("y"))],
        );
        check(json!({"a": {"b": 1}, "c": {}}), &[("a", Equal, json!({"b": 1})), ("c", Equal, json!({}))]);
    }

    #[test]
    fn an_invalid_comparison_is_refused_by_name() {
        let unknown = "search the store: the filter of field `a` has `$in`, which is none of $eq, $ne, $gt, $gte, $lt and $lte";
        check_refused(json!({"a": {"$in": [1]}}), unknown);
        check_refused(json!({"a": {"$gt": 1, "$in": [1]}}), unknown);
        check_refused(
            json!({"b": {"$gt": 1, "c": 1}}),
            "search the store: the filter of field `b` has `c`, which is none of $eq, $ne, $gt, $gte, $lt and $lte",
        );
        for with in [json!(null), json!(true), json!([1]), json!({})] {
            check_refused(
                json!({"a": {"$gte": with}}),
                "search the store: the filter of field `a` has `$gte` with a value that is neither a number nor a text",
            );
        }
    }
}
