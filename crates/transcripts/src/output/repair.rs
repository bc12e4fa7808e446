//! Tool results that another program wrote as the text of a data structure: the list of content blocks that they were, as
//! JSON or as Python prints it. They are repaired as they are read in, and nowhere later.

use serde_json::Value;

use crate::json::content::{Content, Flat};
use crate::json::python;

/// What was done to an entry as it was read in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repair {
    /// A result was the JSON text of its content blocks.
    JsonBlocks,
    /// A result was what Python prints of its content blocks.
    PythonBlocks,
    /// A result was an object in the place of a text.
    Object,
}

impl Repair {
    /// Returns the stored name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::JsonBlocks => "json_blocks",
            Self::PythonBlocks => "python_blocks",
            Self::Object => "object",
        }
    }
}

/// Kinds of blocks that hold text.
const TEXTS: [&str; 4] = ["text", "input_text", "output_text", "inputText"];

/// Kinds of blocks that hold an image.
const IMAGES: [&str; 3] = ["image", "input_image", "image_url"];

/// The bytes at the beginning of a result in which a block says its kind.
const KIND_WITHIN_BYTES: usize = 4 * 1024;

/// Returns what a result's content blocks hold, when its text is one of their printed forms and nothing else.
pub(crate) fn repaired(text: &str) -> Option<(Flat, Repair)> {
    let text = text.trim();
    let is_list =
        text.starts_with('[') && text.ends_with(']') || text.starts_with('{') && text.ends_with('}');
    let beginning = &text[..text.floor_char_boundary(KIND_WITHIN_BYTES)];
    if !is_list && !text.starts_with("\"[") || !beginning.contains("type") {
        return None;
    }
    let (value, repair) = match serde_json::from_str::<Value>(text) {
        // Written twice over.
        Ok(Value::String(inner)) => (serde_json::from_str(&inner).ok()?, Repair::JsonBlocks),
        Ok(value) => (value, Repair::JsonBlocks),
        Err(_) => (python::read(text)?, Repair::PythonBlocks),
    };
    let blocks = match value {
        Value::Array(items) => items,
        Value::Object(fields) => vec![Value::Object(fields)],
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
    };
    if blocks.is_empty() || !blocks.iter().all(is_block) {
        return None;
    }
    let content = serde_json::from_value::<Content>(Value::Array(blocks)).ok()?;
    Some((content.flatten(), repair))
}

fn is_block(item: &Value) -> bool {
    let Some(kind) = item.get("type").and_then(Value::as_str) else { return false };
    let holds_text = || item.get("text").is_some_and(Value::is_string);
    TEXTS.contains(&kind) && holds_text() || IMAGES.contains(&kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<(&str, usize, Repair)>) {
        let found = repaired(text);
        let found = found.as_ref().map(|(flat, repair)| (flat.text.as_str(), flat.media.len(), *repair));
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn b13_a_result_that_is_the_text_of_its_blocks_becomes_what_they_say() {
        use Repair::{JsonBlocks, PythonBlocks};
        check(r#"[{"type":"text","text":"a\nb"}]"#, Some(("a\nb", 0, JsonBlocks)));
        check(
            r#" [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "id": "x"}] "#,
            Some(("a\nb", 0, JsonBlocks)),
        );
        check(r#"{"type":"text","text":"a"}"#, Some(("a", 0, JsonBlocks)));
        check(r#""[{\"type\":\"text\",\"text\":\"a\"}]""#, Some(("a", 0, JsonBlocks)));
        check(r#"[{"type":"text","text":""}]"#, Some(("", 0, JsonBlocks)));
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
            r#"[{"type":"text","text":"a"}] and more"#,
            r#"[{"type":"text","text":"a"}"#,
            "[{'type': 'text', 'text': open('x')}]",
            r#""type [""#,
        ] {
            check(text, None);
        }
    }
}
