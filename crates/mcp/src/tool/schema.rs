//! What models read of a tool's schema: what it demands as it is, what it says as bounded, inert text. Whether arguments
//! are as it demands is the server's matter.

use model::inert;
use serde_json::{Map, Value};

/// The most characters of one text that explains.
const SAID_CHARS_MAX: usize = 2_000;

/// What stands under a keyword of a schema.
enum Part {
    /// Schemas by the names of what they describe.
    Named,
    /// What arguments are compared with: to change it is to demand something else.
    Demanded,
    /// Schemas, or what explains them.
    Said,
}

fn part(keyword: &str) -> Part {
    match keyword {
        "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas"
        | "dependencies" => Part::Named,
        "type" | "enum" | "const" | "default" | "pattern" | "format" | "required" | "dependentRequired" => {
            Part::Demanded
        }
        "$schema" | "$id" | "id" | "$ref" | "$anchor" | "$dynamicRef" | "$dynamicAnchor"
        | "$recursiveRef" | "contentEncoding" | "contentMediaType" => Part::Demanded,
        _ => Part::Said,
    }
}

/// Makes every text of the schema inert that only explains: descriptions, titles, comments, examples, and what stands
/// under a keyword that no standard knows.
pub(crate) fn make_inert(schema: &mut Map<String, Value>) {
    for (keyword, value) in schema {
        match (part(keyword), value) {
            (Part::Named, Value::Object(schemas)) => {
                // A list is one of names, as `dependencies` has them.
                schemas.values_mut().filter(|schema| !schema.is_array()).for_each(say);
            }
            (Part::Demanded, _) => {}
            (Part::Named | Part::Said, value) => say(value),
        }
    }
}

fn say(value: &mut Value) {
    match value {
        Value::String(text) => {
            *text = match text.char_indices().nth(SAID_CHARS_MAX) {
                Some((end, _)) => format!("{} […]", inert::text(&text[..end])),
                None => inert::text(text),
            }
        }
        Value::Array(values) => values.iter_mut().for_each(say),
        Value::Object(schema) => make_inert(schema),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns whether a name or a text has characters that people cannot see. Such a name or value can neither be changed,
/// for the server knows no other, nor shown to whoever approves a call.
pub(crate) fn hides(schema: &Map<String, Value>) -> bool {
    schema.iter().any(|(name, value)| hides_in_text(name) || hides_in(value))
}

fn hides_in(value: &Value) -> bool {
    match value {
        Value::String(text) => hides_in_text(text),
        Value::Array(values) => values.iter().any(hides_in),
        Value::Object(schema) => hides(schema),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn hides_in_text(text: &str) -> bool {
    inert::visible(text) != text
}
