//! The JSON schema of a tool's arguments, generated from the type that they are deserialized into. The schema
//! uses only keywords that every provider knows; the doc comments of the fields become the descriptions for the
//! model.

use std::any::TypeId;
use std::collections::BTreeMap;

use parking_lot::Mutex;
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value};

use super::tool_specs::ToolSpec;

/// The schemas of the argument types so far. Making one takes as long as preparing several SQL statements, and the
/// assembly of a turn asks for each several times.
static SCHEMAS: Mutex<BTreeMap<TypeId, Value>> = Mutex::new(BTreeMap::new());

impl ToolSpec {
    /// Returns the description of a tool whose arguments are deserialized as `A`.
    pub fn for_args<A: JsonSchema + 'static>(name: &str, description: &str) -> Self {
        let mut schemas = SCHEMAS.lock();
        let parameters = schemas.entry(TypeId::of::<A>()).or_insert_with(argument_schema::<A>).clone();
        Self { name: name.to_owned(), description: description.trim().to_owned(), parameters }
    }
}

/// Returns the schema of the arguments, with only the keywords that every provider knows.
fn argument_schema<A: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<A>();
    RecursiveTransform(simplify_schema).transform(&mut schema);
    schema.to_value()
}

/// Removes the keywords that only repeat the type: names, number formats, defaults, and `null` for optional
/// fields.
fn simplify_schema(schema: &mut Schema) {
    let Some(fields) = schema.as_object_mut() else { return };
    for name in ["title", "format", "default"] {
        fields.shift_remove(name);
    }
    if fields.contains_key("properties") {
        // The doc comment of a type is written for readers of the code, not for the model.
        fields.shift_remove("description");
    }
    if fields.get("additionalProperties") == Some(&Value::Bool(true)) {
        fields.shift_remove("additionalProperties");
    }
    if let Some(Value::Array(types)) = fields.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            fields.insert("type".to_owned(), only);
        }
    }
    merge_variants(fields);
}

/// Turns a choice between constants into an `enum`. schemars writes each documented variant as a `const` of its
/// own, and all undocumented variants as one `enum` in front of them.
fn merge_variants(fields: &mut Map<String, Value>) {
    let Some(Value::Array(variants)) = fields.get("oneOf") else { return };
    let names: Option<Vec<Vec<Value>>> = variants
        .iter()
        .map(|variant| match (variant.get("const"), variant.get("enum")) {
            (Some(name), None) => Some(vec![name.clone()]),
            (None, Some(Value::Array(names))) => Some(names.clone()),
            _ => None,
        })
        .collect();
    if let Some(names) = names.map(|names| names.concat()) {
        fields.shift_remove("oneOf");
        fields.insert("type".to_owned(), "string".into());
        fields.insert("enum".to_owned(), Value::Array(names));
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    /// The arguments of an example tool.
    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct ExampleArgs {
        /// The file.
        path: String,
        /// The first line.
        #[schemars(range(min = 1))]
        offset: Option<u64>,
        /// The order.
        #[serde(default)]
        order: ExampleOrder,
        /// The changes.
        #[serde(default)]
        #[schemars(length(max = 3))]
        edits: Vec<ExampleEdit>,
        value: Option<Map<String, Value>>,
    }

    #[derive(Default, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    enum ExampleOrder {
        /// From the first on.
        #[default]
        OldestFirst,
        NewestFirst,
    }

    /// One change.
    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct ExampleEdit {
        all: bool,
    }

    #[test]
    fn a_schema_is_closed_and_contains_only_what_a_call_needs() {
        let spec = ToolSpec::for_args::<ExampleArgs>("read", "Reads.\n");
        assert_eq!((spec.name.as_str(), spec.description.as_str()), ("read", "Reads."));
        let expected = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The file."},
                "offset": {"type": "integer", "minimum": 1, "description": "The first line."},
                "order": {"type": "string", "enum": ["newest_first", "oldest_first"], "description": "The order."},
                "edits": {
                    "type": "array",
                    "maxItems": 3,
                    "description": "The changes.",
                    "items": {
                        "type": "object",
                        "properties": {"all": {"type": "boolean"}},
                        "required": ["all"],
                        "additionalProperties": false
                    }
                },
                "value": {"type": "object"}
            },
            "required": ["path"],
            "additionalProperties": false
        });
        assert_eq!(spec.parameters, expected);
    }
}
