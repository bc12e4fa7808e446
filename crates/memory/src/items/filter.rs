//! Filters as the Agent Server API writes them: each field a value it equals, or an object of comparisons. It compares
//! nothing.

use journal::{FieldComparison, FieldCondition};
use serde_json::{Map, Value};

use super::error::{FilterError, ItemError, truncate_name};

/// Returns what the filter asks for. An object without a name that begins with `$` is a value like any other.
pub(super) fn parse_conditions(filter: &Map<String, Value>) -> Result<Vec<FieldCondition>, ItemError> {
    let mut conditions = Vec::with_capacity(filter.len());
    for (field, wanted) in filter {
        let condition = |comparison, with: &Value| FieldCondition {
            field: field.clone(),
            comparison,
            value: with.clone(),
        };
        match wanted {
            Value::Object(comparisons) if comparisons.keys().any(|name| name.starts_with('$')) => {
                for (name, with) in comparisons {
                    let comparison = parse_comparison(name, with)
                        .map_err(|fault| ItemError::BadFilter { field: truncate_name(field), fault })?;
                    conditions.push(condition(comparison, with));
                }
            }
            equal => conditions.push(condition(FieldComparison::Equal, equal)),
        }
    }
    Ok(conditions)
}

fn parse_comparison(name: &str, with: &Value) -> Result<FieldComparison, FilterError> {
    let comparison = match name {
        "$eq" => return Ok(FieldComparison::Equal),
        "$ne" => return Ok(FieldComparison::NotEqual),
        "$gt" => FieldComparison::Greater,
        "$gte" => FieldComparison::GreaterOrEqual,
        "$lt" => FieldComparison::Less,
        "$lte" => FieldComparison::LessOrEqual,
        _ => return Err(FilterError::UnknownComparison { name: truncate_name(name) }),
    };
    match with {
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
        let found: Vec<(String, FieldComparison, Value)> = parse_conditions(&filter)
            .unwrap()
            .into_iter()
            .map(|condition| (condition.field, condition.comparison, condition.value))
            .collect();
        let expected: Vec<_> =
            expected.iter().map(|(field, how, with)| ((*field).to_owned(), *how, with.clone())).collect();
        assert_eq!(found, expected);
    }

    #[track_caller]
    fn check_refused(filter: Value, expected: &str) {
        let Value::Object(filter) = filter else { panic!("an object") };
        assert_eq!(parse_conditions(&filter).unwrap_err().to_string(), expected);
    }

    #[test]
    fn a_filter_is_read_as_the_api_writes_it() {
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
    fn what_is_no_comparison_is_refused_by_name() {
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
