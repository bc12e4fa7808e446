//! Repair of tool results whose text is a serialized list of content blocks, as JSON or as a Python `repr`.
//!
//! Some programs serialize the blocks instead of their text. The repair replaces such a result with the text of its
//! blocks and keeps the original. Only readers of formats in which this happens use it. Agents that store the output of
//! commands are excluded, because there the JSON is the genuine output.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::json::content::{FlattenedContent, ForeignContent};
use crate::json::python_repr;

protocol::named_enum! {
    /// A repair that was made while an entry was read.
    pub enum RepairKind {
        /// The result was its content blocks as JSON text.
        JsonBlocks = "json_blocks",
        /// The result was the Python `repr` of its content blocks.
        PythonBlocks = "python_blocks",
        /// The result was a JSON object instead of a text.
        Object = "object",
    }
}

/// A record of a repair, with the entry's original text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairRecord {
    /// The kind of repair.
    pub kind: RepairKind,
    /// The original text without image data; `None` if the repaired text contains all of it.
    pub original: Option<String>,
}

/// Maximum length of a stored original, in bytes. A result with a longer original is not repaired, because the original
/// would be lost.
const ORIGINAL_BYTES_MAX: usize = 64 * 1024;

/// Values of `type` in text blocks.
const TEXT_KINDS: [&str; 4] = ["text", "input_text", "output_text", "inputText"];

/// Values of `type` in image blocks.
const IMAGE_KINDS: [&str; 3] = ["image", "input_image", "image_url"];

/// The fields of a text block.
const TEXT_FIELDS: [&str; 3] = ["type", "text", "id"];

/// The fields of an image block.
const IMAGE_FIELDS: [&str; 9] =
    ["type", "id", "data", "mimeType", "mime_type", "source", "source_type", "image_url", "detail"];

/// Length of the start of a result that must contain the word `type`, in bytes. It keeps the check of ordinary results
/// cheap.
const KIND_PROBE_BYTES: usize = 4 * 1024;

/// The placeholder for image data in a stored original.
const IMAGE_PLACEHOLDER: &str = "[image]";

/// Returns the content of a result as one text, and the record of the repair if one was necessary.
pub(crate) fn flatten_and_repair(content: ForeignContent) -> (FlattenedContent, Option<RepairRecord>) {
    let mut flat = match content {
        ForeignContent::Object(fields) => return flatten_object(fields),
        ForeignContent::Absent | ForeignContent::Text(_) | ForeignContent::Blocks(_) => content.flatten(),
    };
    match repair_text(&flat.text) {
        Some((repaired, record)) => {
            flat.text = repaired.text;
            flat.media.extend(repaired.media);
            (flat, Some(record))
        }
        None => (flat, None),
    }
}

/// Returns the text of a result that is an object. If the original is too large to be stored, the text is the whole
/// object as JSON.
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

/// Returns the content of the blocks that are serialized in `text`, or `None` if `text` is anything else.
fn repair_text(text: &str) -> Option<(FlattenedContent, RepairRecord)> {
    let trimmed = text.trim();
    let is_within = |open: char, close: char| trimmed.starts_with(open) && trimmed.ends_with(close);
    let beginning = &trimmed[..trimmed.floor_char_boundary(KIND_PROBE_BYTES)];
    let is_candidate = is_within('[', ']') || is_within('{', '}') || trimmed.starts_with("\"[");
    if !is_candidate || !beginning.contains("type") {
        return None;
    }
    let (value, kind) = match serde_json::from_str::<Value>(trimmed) {
        // The blocks were serialized twice.
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
    Some((content.flatten(), RepairRecord { kind, original }))
}

/// Returns whether `item` is a text or image block without unknown fields. An object with further fields is data that
/// only resembles a block. Unknown fields with an empty value are allowed.
fn is_block(item: &Value) -> bool {
    let Some(fields) = item.as_object() else { return false };
    let Some(kind) = fields.get("type").and_then(Value::as_str) else { return false };
    let has_only = |known: &[&str]| {
        fields.iter().all(|(name, value)| known.contains(&name.as_str()) || is_empty_value(value))
    };
    let has_text = || fields.get("text").is_some_and(Value::is_string);
    TEXT_KINDS.contains(&kind) && has_text() && has_only(&TEXT_FIELDS)
        || IMAGE_KINDS.contains(&kind) && has_only(&IMAGE_FIELDS)
}

/// Returns whether a value is `null`, an empty array or an empty object.
fn is_empty_value(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Returns `text`, the serialized form of `value`, with each image's data replaced by [`IMAGE_PLACEHOLDER`].
///
/// Returns `None` if the result is longer than [`ORIGINAL_BYTES_MAX`], or if the data of an image is not found in
/// `text`, for example because it is escaped there. Reads the text once, however many images it has.
fn redact_image_data(text: &str, value: &Value) -> Option<String> {
    let mut data = Vec::new();
    collect_image_data(value, &mut data);
    let data: HashSet<&str> = data.into_iter().collect();
    let mut found: HashSet<&str> = HashSet::new();
    let mut redacted = String::with_capacity(text.len());
    let mut remaining = text;
    while let Some(start) = remaining.find(['"', '\'']) {
        let quote = if remaining[start..].starts_with('"') { '"' } else { '\'' };
        let (before, quoted) = remaining.split_at(start + 1);
        redacted.push_str(before);
        remaining = match quoted.find(quote).filter(|end| data.contains(&quoted[..*end])) {
            Some(end) => {
                found.insert(&quoted[..end]);
                redacted.push_str(IMAGE_PLACEHOLDER);
                &quoted[end..]
            }
            None => quoted,
        };
    }
    redacted.push_str(remaining);
    (found.len() == data.len() && redacted.len() <= ORIGINAL_BYTES_MAX).then_some(redacted)
}

/// Collects the base64 data and `data:` URLs of all image blocks in `value`, at any depth.
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
        let actual = repair_text(text);
        let summarize = |(flat, record): &(FlattenedContent, RepairRecord)| {
            (flat.text.clone(), flat.media.len(), record.kind)
        };
        let expected = expected.map(|(text, images, kind)| (text.to_owned(), images, kind));
        assert_eq!(actual.as_ref().map(summarize), expected, "{text}");
        if let Some((_, record)) = actual
            && !text.contains("image")
        {
            assert_eq!(record.original.as_deref(), Some(text), "the original is stored");
        }
    }

    #[test]
    fn b13_a_result_of_serialized_blocks_becomes_the_text_of_the_blocks() {
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
    fn b13_a_result_that_only_resembles_serialized_blocks_is_unchanged() {
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
    fn b13_a_result_with_an_original_over_the_limit_is_not_repaired() {
        let text_of = |length: usize| format!(r#"[{{"type":"text","text":"{}"}}]"#, "a".repeat(length));
        let overhead = text_of(0).len();
        check(&text_of(ORIGINAL_BYTES_MAX - overhead + 1), None);
        assert!(repair_text(&text_of(ORIGINAL_BYTES_MAX - overhead)).is_some());
        let field = "a".repeat(ORIGINAL_BYTES_MAX);
        let object = serde_json::json!({"output": "b", "rest": field});
        let (flat, record) = flatten_and_repair(serde_json::from_value(object.clone()).unwrap());
        assert_eq!((flat.text, record.unwrap().original), (object.to_string(), None));
    }

    /// Replacing every image in a copy of the text would take minutes.
    #[test]
    fn b16_many_images_are_found_in_proportion_to_the_text() {
        let images: Vec<String> =
            (0..100_000).map(|n| format!(r#"{{"type":"image","data":"{n:08}"}}"#)).collect();
        assert!(repair_text(&format!("[{}]", images.join(","))).is_none(), "the original is too long");
        let (flat, record) = repair_text(&format!("[{}]", images[..500].join(","))).unwrap();
        assert_eq!(flat.media.len(), 500);
        assert_eq!(record.original.unwrap().matches(IMAGE_PLACEHOLDER).count(), 500);
    }

    #[test]
    fn b16_the_original_contains_no_image_data() {
        let data = "aGk=".repeat(ORIGINAL_BYTES_MAX);
        let image = format!(r#"{{"type":"image","data":"{data}","mimeType":"image/png"}}"#);
        let text = format!(r#"[{image},{image},{{"type":"text","text":"a"}}]"#);
        let (flat, record) = repair_text(&text).unwrap();
        let redacted = r#"{"type":"image","data":"[image]","mimeType":"image/png"}"#;
        let expected = format!(r#"[{redacted},{redacted},{{"type":"text","text":"a"}}]"#);
        assert_eq!((flat.media.len(), record.original), (2, Some(expected)));
        let url =
            format!("[{{'type': 'image_url', 'image_url': {{'url': 'data:image/png;base64,{data}'}}}}]");
        let (flat, record) = repair_text(&url).unwrap();
        let expected = "[{'type': 'image_url', 'image_url': {'url': '[image]'}}]";
        assert_eq!((flat.media.len(), record.original.as_deref()), (1, Some(expected)));
        // The escaped data is not found in the text, so the result is not repaired.
        let escaped = r#"[{"type":"image","data":"aGk\/aGkv","mimeType":"image/png"}]"#;
        check(escaped, None);
    }
}
