//! Makes a tool's schema safe to show to models: constraints stay as they are, descriptions become bounded, inert text.
//! Checking arguments against the schema is not done here.

use model::untrusted_text;
use serde_json::{Map, Value};

/// The most characters of one text that explains.
const ANNOTATION_CHARS_MAX: usize = 2_000;

/// The role of a schema keyword.
enum KeywordRole {
    /// Schemas by the names of what they describe.
    Subschemas,
    /// A constraint on arguments. Changing it would change what the tool demands.
    Constraint,
    /// Schemas, or what explains them.
    Annotation,
}

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

/// Makes every text of the schema inert that only explains: descriptions, titles, comments, examples, and what stands
/// under a keyword that no standard knows.
pub(crate) fn neutralize_schema(schema: &mut Map<String, Value>) {
    for (keyword, value) in schema {
        match (keyword_role(keyword), value) {
            (KeywordRole::Subschemas, Value::Object(schemas)) => {
                // A list is one of names, as `dependencies` has them.
                schemas.values_mut().filter(|schema| !schema.is_array()).for_each(neutralize_value);
            }
            (KeywordRole::Constraint, _) => {}
            (KeywordRole::Subschemas | KeywordRole::Annotation, value) => neutralize_value(value),
        }
    }
}

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

/// Returns whether a name or a text has characters that people cannot see. Such a name or value can neither be changed,
/// for the server knows no other, nor shown to whoever approves a call.
pub(crate) fn has_hidden_characters(schema: &Map<String, Value>) -> bool {
    schema.iter().any(|(name, value)| has_hidden_in_text(name) || has_hidden_in_value(value))
}

fn has_hidden_in_value(value: &Value) -> bool {
    match value {
        Value::String(text) => has_hidden_in_text(text),
        Value::Array(values) => values.iter().any(has_hidden_in_value),
        Value::Object(schema) => has_hidden_characters(schema),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn has_hidden_in_text(text: &str) -> bool {
    untrusted_text::strip_hidden_characters(text) != text
}
