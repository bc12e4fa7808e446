//! Tool results that another program wrote as the text of a data structure: the list of content blocks that they were, as
//! JSON or as Python prints it. They are repaired as they are read in from formats in which that happened, and what they
//! were is kept; agents that store what their tools printed are none of those, because there it is the output.

use serde_json::{Map, Value};

use crate::json::content::{FlattenedContent, ForeignContent};
use crate::json::python_repr;

protocol::named_enum! {
    /// A repair that was made while an entry was read.
    pub enum RepairKind {
        /// A result was the JSON text of its content blocks.
        JsonBlocks = "json_blocks",
        /// A result was what Python prints of its content blocks.
        PythonBlocks = "python_blocks",
        /// A result was an object in the place of a text.
        Object = "object",
    }
}

/// A record of a repair, with the entry's original text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairRecord {
    /// The kind of repair.
    pub kind: RepairKind,
    /// The original without the data of images; `None` when the text still holds all of it.
    pub original: Option<String>,
}

/// The most bytes of an original that are kept; what is longer is not repaired.
const ORIGINAL_BYTES_MAX: usize = 64 * 1024;

/// Kinds of blocks that hold text.
const TEXT_KINDS: [&str; 4] = ["text", "input_text", "output_text", "inputText"];

/// Kinds of blocks that hold an image.
const IMAGE_KINDS: [&str; 3] = ["image", "input_image", "image_url"];

/// The fields of a block that holds text.
const TEXT_FIELDS: [&str; 3] = ["type", "text", "id"];

/// The fields of a block that holds an image.
const IMAGE_FIELDS: [&str; 9] =
    ["type", "id", "data", "mimeType", "mime_type", "source", "source_type", "image_url", "detail"];

/// The bytes at the beginning of a result in which a block says its kind.
const KIND_PROBE_BYTES: usize = 4 * 1024;

/// The placeholder for the data of an image in an original.
const IMAGE_PLACEHOLDER: &str = "[image]";

/// Returns the content of a result as one text, and whether that took a repair.
pub(crate) fn flatten_and_repair(content: ForeignContent) -> (FlattenedContent, Option<RepairRecord>) {
    let mut flat = match content {
        ForeignContent::Object(fields) => return flatten_object(fields),
        ForeignContent::Absent | ForeignContent::Text(_) | ForeignContent::Blocks(_) => content.flatten(),
    };
    match repair_text(&flat.text) {
        Some((said, repaired)) => {
            flat.text = said.text;
            flat.media.extend(said.media);
            (flat, Some(repaired))
        }
        None => (flat, None),
    }
}

/// Returns what an object in the place of a text says; all of it where its original is too large to be kept.
fn flatten_object(fields: Map<String, Value>) -> (FlattenedContent, Option<RepairRecord>) {
    let object = Value::Object(fields);
    let whole = object.to_string();
    let original = redact_image_data(&whole, &object);
    let flat = serde_json::from_value::<ForeignContent>(object).unwrap_or_default().flatten();
    let (flat, original) = match original {
        _ if flat.text == whole => (flat, None),
        Some(original) => (flat, Some(original)),
        None => (FlattenedContent { text: whole, ..FlattenedContent::default() }, None),
    };
    (flat, Some(RepairRecord { kind: RepairKind::Object, original }))
}

/// Returns what a result's content blocks hold, when its text is one of their printed forms and nothing else.
fn repair_text(text: &str) -> Option<(FlattenedContent, RepairRecord)> {
    let trimmed = text.trim();
    let is_within = |open: char, close: char| trimmed.starts_with(open) && trimmed.ends_with(close);
    let beginning = &trimmed[..trimmed.floor_char_boundary(KIND_PROBE_BYTES)];
    let may_be = is_within('[', ']') || is_within('{', '}') || trimmed.starts_with("\"[");
    if !may_be || !beginning.contains("type") {
        return None;
    }
    let (value, how) = match serde_json::from_str::<Value>(trimmed) {
        // Written twice over.
        Ok(Value::String(inner)) => (serde_json::from_str(&inner).ok()?, RepairKind::JsonBlocks),
        Ok(value) => (value, RepairKind::JsonBlocks),
        Err(_) => (python_repr::parse_repr(trimmed)?, RepairKind::PythonBlocks),
    };
    let blocks = match value {
        Value::Array(items) => items,
        Value::Object(fields) => vec![Value::Object(fields)],
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
    };
    if blocks.is_empty() || !blocks.iter().all(is_block) {
        return None;
    }
    let blocks = Value::Array(blocks);
    let original = Some(redact_image_data(text, &blocks)?);
    let content = serde_json::from_value::<ForeignContent>(blocks).ok()?;
    Some((content.flatten(), RepairRecord { kind: how, original }))
}

/// Returns whether it is a content block and nothing more: one with a field of its own is data that looks like one.
fn is_block(item: &Value) -> bool {
    let Some(fields) = item.as_object() else { return false };
    let Some(kind) = fields.get("type").and_then(Value::as_str) else { return false };
    let knows = |known: &[&str]| {
        fields.iter().all(|(name, value)| known.contains(&name.as_str()) || is_empty_value(value))
    };
    let holds_text = || fields.get("text").is_some_and(Value::is_string);
    TEXT_KINDS.contains(&kind) && holds_text() && knows(&TEXT_FIELDS)
        || IMAGE_KINDS.contains(&kind) && knows(&IMAGE_FIELDS)
}

fn is_empty_value(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Returns `text`, which is the printed form of `value`, without the data of images; `None` when it is too large to be kept
/// or the data cannot be told apart in it.
fn redact_image_data(text: &str, value: &Value) -> Option<String> {
    let mut data = Vec::new();
    collect_image_data(value, &mut data);
    // The same image may be there twice.
    data.sort_unstable();
    data.dedup();
    let mut kept = text.to_owned();
    for data in data {
        let quoted = ['"', '\''].map(|quote| format!("{quote}{data}"));
        let found = quoted.iter().find(|quoted| kept.contains(quoted.as_str()))?;
        kept = kept.replace(found, &format!("{}{IMAGE_PLACEHOLDER}", &found[..1]));
    }
    (kept.len() <= ORIGINAL_BYTES_MAX).then_some(kept)
}

/// Gathers the data that image blocks in `value` hold themselves.
fn collect_image_data<'a>(value: &'a Value, data: &mut Vec<&'a str>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect_image_data(item, data)),
        Value::Object(fields) => {
            let is_image =
                fields.get("type").and_then(Value::as_str).is_some_and(|kind| IMAGE_KINDS.contains(&kind));
            if is_image {
                let image_url = value.get("image_url");
                let urls = [image_url, image_url.and_then(|image| image.get("url"))];
                let urls = urls.into_iter().flatten().filter_map(Value::as_str);
                let plain = [value.get("data"), value.pointer("/source/data")];
                let plain = plain.into_iter().flatten().filter_map(Value::as_str);
                data.extend(urls.filter(|url| url.starts_with("data:")));
                data.extend(plain.filter(|data| !data.is_empty()));
            }
            fields.values().for_each(|field| collect_image_data(field, data));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<(&str, usize, RepairKind)>) {
        let found = repair_text(text);
        let brief = |(flat, done): &(FlattenedContent, RepairRecord)| {
            (flat.text.clone(), flat.media.len(), done.kind)
        };
        let expected = expected.map(|(text, images, how)| (text.to_owned(), images, how));
        assert_eq!(found.as_ref().map(brief), expected, "{text}");
        if let Some((_, done)) = found
            && !text.contains("image")
        {
            assert_eq!(done.original.as_deref(), Some(text), "what it was is kept");
        }
    }

    #[test]
    fn b13_a_result_that_is_the_text_of_its_blocks_becomes_what_they_say() {
        use RepairKind::{JsonBlocks, PythonBlocks};
        check(r#"[{"type":"text","text":"a\nb"}]"#, Some(("a\nb", 0, JsonBlocks)));
        check(
            r#" [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "id": "x"}] "#,
            Some(("a\nb", 0, JsonBlocks)),
        );
        check(r#"{"type":"text","text":"a"}"#, Some(("a", 0, JsonBlocks)));
        check(r#""[{\"type\":\"text\",\"text\":\"a\"}]""#, Some(("a", 0, JsonBlocks)));
        check(r#"[{"type":"text","text":"","annotations":null}]"#, Some(("", 0, JsonBlocks)));
        check(
            r#"[{"type":"text","text":"a"},{"type":"image","data":"aGk=","mimeType":"image/png"}]"#,
            Some(("a\n[image]", 1, JsonBlocks)),
        );
        check(
            r#"[{'type': 'text', 'text': "it's\n\"so\"", 'id': 'lc_1'}]"#,
            Some(("it's\n\"so\"", 0, PythonBlocks)),
        );
        check("[TextContent(type='text', text='a', annotations=None)]", Some(("a", 0, PythonBlocks)));
    }

    #[test]
    fn b13_a_result_that_only_looks_like_it_stays_as_it_is() {
        for text in [
            "",
            "plain",
            "[]",
            "{}",
            "[1, 2]",
            r#"["type"]"#,
            r#"[{"type":"text"}]"#,
            r#"[{"type":"text","text":3}]"#,
            r#"[{"type":"text","text":"a"},{"type":"row","n":1}]"#,
            r#"[{"type":"text","text":"a"},"b"]"#,
            r#"{"type":"object","text":"a"}"#,
            r#"{"type":"text","text":"a","keep":"me"}"#,
            r#"[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]"#,
            "[{'type': 'text', 'text': 'a', 'n': 1}]",
            r#"[{"type":"text","text":"a"}] and more"#,
            r#"[{"type":"text","text":"a"}"#,
            "[{'type': 'text', 'text': open('x')}]",
            r#""type [""#,
        ] {
            check(text, None);
        }
    }

    #[test]
    fn b13_a_result_whose_original_would_not_be_kept_is_not_repaired() {
        let of = |length: usize| format!(r#"[{{"type":"text","text":"{}"}}]"#, "a".repeat(length));
        let frame = of(0).len();
        check(&of(ORIGINAL_BYTES_MAX - frame + 1), None);
        assert!(repair_text(&of(ORIGINAL_BYTES_MAX - frame)).is_some());
        let field = "a".repeat(ORIGINAL_BYTES_MAX);
        let object = serde_json::json!({"output": "b", "rest": field});
        let (flat, done) = flatten_and_repair(serde_json::from_value(object.clone()).unwrap());
        assert_eq!((flat.text, done.unwrap().original), (object.to_string(), None));
    }

    #[test]
    fn b16_the_original_holds_no_image() {
        let data = "aGk=".repeat(ORIGINAL_BYTES_MAX);
        let image = format!(r#"{{"type":"image","data":"{data}","mimeType":"image/png"}}"#);
        let text = format!(r#"[{image},{image},{{"type":"text","text":"a"}}]"#);
        let (flat, done) = repair_text(&text).unwrap();
        let kept = r#"{"type":"image","data":"[image]","mimeType":"image/png"}"#;
        let expected = format!(r#"[{kept},{kept},{{"type":"text","text":"a"}}]"#);
        assert_eq!((flat.media.len(), done.original), (2, Some(expected)));
        let url =
            format!("[{{'type': 'image_url', 'image_url': {{'url': 'data:image/png;base64,{data}'}}}}]");
        let (flat, done) = repair_text(&url).unwrap();
        let expected = "[{'type': 'image_url', 'image_url': {'url': '[image]'}}]";
        assert_eq!((flat.media.len(), done.original.as_deref()), (1, Some(expected)));
        // Written so that it cannot be found in the text.
        let escaped = r#"[{"type":"image","data":"aGk\/aGkv","mimeType":"image/png"}]"#;
        check(escaped, None);
    }
}
