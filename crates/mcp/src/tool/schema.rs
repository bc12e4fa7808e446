//! Makes a tool's JSON Schema safe to show to models: constraints are kept, and texts that only explain become bounded,
//! neutralized text. Checking arguments against the schema is the task of [`super::arguments`].

use model::untrusted_text;
use serde_json::{Map, Value};

/// Maximum number of characters of one explaining text.
const ANNOTATION_CHARS_MAX: usize = 2_000;

/// The role of a schema keyword.
enum KeywordRole {
    /// An object of schemas, by the names of properties or definitions.
    Subschemas,
    /// A constraint on arguments or a reference. A change would change which arguments are valid.
    Constraint,
    /// Explaining text, or nested schemas. Unknown keywords count as this too.
    Annotation,
}

/// Returns the role of a keyword in the JSON Schema vocabularies.
fn keyword_role(keyword: &str) -> KeywordRole {
    match keyword {
        "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas"
        | "dependencies" => KeywordRole::Subschemas,
        "type" | "enum" | "const" | "default" | "pattern" | "format" | "required" | "dependentRequired" => {
            KeywordRole::Constraint
        }
        "$schema" | "$id" | "id" | "$ref" | "$anchor" | "$dynamicRef" | "$dynamicAnchor"
        | "$recursiveRef" | "contentEncoding" | "contentMediaType" => KeywordRole::Constraint,
        _ => KeywordRole::Annotation,
    }
}

/// Neutralizes and bounds every explaining text of the schema: descriptions, titles, comments, examples, and all texts
/// under unknown keywords.
pub(crate) fn neutralize_schema(schema: &mut Map<String, Value>) {
    for (keyword, value) in schema {
        match (keyword_role(keyword), value) {
            (KeywordRole::Subschemas, Value::Object(schemas)) => {
                // A list under `dependencies` contains property names, which must not change.
                schemas.values_mut().filter(|schema| !schema.is_array()).for_each(neutralize_value);
            }
            (KeywordRole::Constraint, _) => {}
            (KeywordRole::Subschemas | KeywordRole::Annotation, value) => neutralize_value(value),
        }
    }
}

/// Neutralizes the texts in a value that is not a constraint. A text above [`ANNOTATION_CHARS_MAX`] is truncated.
fn neutralize_value(value: &mut Value) {
    match value {
        Value::String(text) => {
            *text = match text.char_indices().nth(ANNOTATION_CHARS_MAX) {
                Some((end, _)) => format!("{} […]", untrusted_text::neutralize(&text[..end])),
                None => untrusted_text::neutralize(text),
            }
        }
        Value::Array(values) => values.iter_mut().for_each(neutralize_value),
        Value::Object(schema) => neutralize_schema(schema),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns whether a name or a text has invisible characters. Such a name or value cannot be cleaned, because the
/// server expects exactly this one, and it cannot be shown to the user who approves a call.
pub(crate) fn has_hidden_characters(schema: &Map<String, Value>) -> bool {
    schema.iter().any(|(name, value)| has_hidden_in_text(name) || has_hidden_in_value(value))
}

/// Returns whether a text within a value has invisible characters.
fn has_hidden_in_value(value: &Value) -> bool {
    match value {
        Value::String(text) => has_hidden_in_text(text),
        Value::Array(values) => values.iter().any(has_hidden_in_value),
        Value::Object(schema) => has_hidden_characters(schema),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Returns whether a text has invisible characters.
fn has_hidden_in_text(text: &str) -> bool {
    untrusted_text::strip_hidden_characters(text) != text
}
