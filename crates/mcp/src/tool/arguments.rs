//! A check of a call's arguments against a tool's JSON Schema: that they are an object, that nothing required is
//! missing, and the types and enumerated values of properties and items. Combinators, references, patterns and bounds
//! are left to the server, because the check only has to report early that a call edited by the user cannot succeed.

use serde_json::{Map, Value};

/// The deepest level that is checked; the levels below it are left to the server.
const DEPTH_MAX: usize = 16;

/// Checks the arguments of a call. `null` counts as no arguments.
///
/// # Errors
/// The first mismatch, as a sentence that names the property.
pub(crate) fn check_arguments(schema: &Value, args: &Value) -> Result<(), String> {
    let none = Value::Object(Map::new());
    match args {
        Value::Null => check_value(schema, &none, "", DEPTH_MAX),
        Value::Object(_) => check_value(schema, args, "", DEPTH_MAX),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err("the arguments must be an object".to_owned())
        }
    }
}

/// Checks one value. `path` names it within the arguments; it is empty for the arguments themselves.
fn check_value(schema: &Value, value: &Value, path: &str, depth: usize) -> Result<(), String> {
    let (Some(schema), 1..) = (schema.as_object(), depth) else { return Ok(()) };
    check_type(schema.get("type"), value, path)?;
    if let Some(Value::Array(allowed)) = schema.get("enum")
        && !allowed.contains(value)
    {
        let allowed: Vec<String> = allowed.iter().map(Value::to_string).collect();
        return Err(format!("{} must be one of {}", path_text(path), allowed.join(", ")));
    }
    match value {
        Value::Object(fields) => check_object(schema, fields, path, depth),
        Value::Array(items) => {
            let Some(item_schema) = schema.get("items") else { return Ok(()) };
            items.iter().enumerate().try_for_each(|(index, item)| {
                check_value(item_schema, item, &format!("{path}[{index}]"), depth - 1)
            })
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

/// Checks an object's properties. Properties that the schema does not name are errors only if `additionalProperties` is
/// `false`.
fn check_object(
    schema: &Map<String, Value>,
    fields: &Map<String, Value>,
    path: &str,
    depth: usize,
) -> Result<(), String> {
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    if let Some(missing) = required.filter_map(Value::as_str).find(|name| fields.get(*name).is_none()) {
        return Err(format!("`{}` is missing", join_path(path, missing)));
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, value) in fields {
        match properties.and_then(|properties| properties.get(name)) {
            Some(property) => check_value(property, value, &join_path(path, name), depth - 1)?,
            None if schema.get("additionalProperties") == Some(&Value::Bool(false))
                && !schema.contains_key("patternProperties") =>
            {
                return Err(format!("`{}` is not an argument of this tool", join_path(path, name)));
            }
            None => {}
        }
    }
    Ok(())
}

/// Checks a value against the keyword `type`: one name, or a list of names.
fn check_type(expected: Option<&Value>, value: &Value, path: &str) -> Result<(), String> {
    let names: Vec<&str> = match expected {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        Some(_) | None => return Ok(()),
    };
    if names.is_empty() || names.iter().any(|name| is_of_type(value, name)) {
        return Ok(());
    }
    Err(format!("{} must be of type {}", path_text(path), names.join(" or ")))
}

/// Returns whether the value has the JSON Schema type. An unknown name accepts every value.
fn is_of_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        // A number without a fraction is an integer (JSON Schema 2020-12, Validation, §6.1.1).
        "integer" => {
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
        }
        _ => true,
    }
}

/// Returns the path of a property within the value at `path`.
fn join_path(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Returns the path as the subject of an error sentence.
fn path_text(path: &str) -> String {
    if path.is_empty() { "the value".to_owned() } else { format!("`{path}`") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check_args(args: Value, expected: Result<(), &str>) {
        let schema = json!({
            "type": "object",
            "required": ["path"],
            "additionalProperties": false,
            "properties": {
                "path": {"type": "string"},
                "lines": {"type": ["integer", "null"]},
                "mode": {"enum": ["read", "write"]},
                "edits": {"type": "array", "items": {"type": "object", "required": ["old"], "properties": {"old": {"type": "string"}}}},
                "any": {"anyOf": [{"type": "string"}]},
            },
        });
        assert_eq!(check_arguments(&schema, &args), expected.map_err(str::to_owned), "{args}");
    }

    #[test]
    fn arguments_are_compared_with_the_schema() {
        check_args(
            json!({"path": "a", "lines": 3, "mode": "read", "edits": [{"old": "x"}], "any": 1}),
            Ok(()),
        );
        check_args(json!({"path": "a", "lines": null}), Ok(()));
        check_args(json!({"path": "a", "lines": 2.0}), Ok(()));
        check_args(json!({}), Err("`path` is missing"));
        check_args(Value::Null, Err("`path` is missing"));
        check_args(json!([]), Err("the arguments must be an object"));
        check_args(json!({"path": 1}), Err("`path` must be of type string"));
        check_args(json!({"path": "a", "lines": 2.5}), Err("`lines` must be of type integer or null"));
        check_args(json!({"path": "a", "mode": "x"}), Err("`mode` must be one of \"read\", \"write\""));
        check_args(json!({"path": "a", "edits": [{"old": "x"}, {}]}), Err("`edits[1].old` is missing"));
        check_args(json!({"path": "a", "paht": "b"}), Err("`paht` is not an argument of this tool"));
    }

    #[test]
    fn a_schema_without_constraints_accepts_any_object() {
        assert_eq!(check_arguments(&json!({}), &json!({"a": 1})), Ok(()));
        assert_eq!(check_arguments(&json!({"$ref": "#/$defs/a"}), &json!({"a": 1})), Ok(()));
        assert_eq!(check_arguments(&Value::Null, &json!({"a": 1})), Ok(()));
    }
}
