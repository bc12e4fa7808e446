//! Estimates of token counts and cuts that keep whole characters. The provider's own count, once reported, is better;
//! nothing here asks for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol::{Block, Message};
use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation};

use crate::chat::ChatRequest;

/// Characters that are taken for one token.
pub const CHARS_PER_TOKEN: u64 = 4;

/// Tokens a message costs beside its text.
pub const TOKENS_PER_MESSAGE: u64 = 3;

/// Tokens an image costs where it is sent; providers count up to this for one of ordinary size.
pub const TOKENS_PER_IMAGE: u64 = 1_600;

/// Bytes of a document that are taken for one token; providers count its pages as text and as images.
pub const DOCUMENT_BYTES_PER_TOKEN: u64 = 40;

/// Characters of the line that names media which are not sent.
const REFERENCE_CHARS: u64 = 120;

/// Returns about how many tokens `text` is: a quarter of its characters, rounded up.
pub fn estimate(text: &str) -> u64 {
    to_tokens(chars(text))
}

/// Returns about how many tokens a message is: its text, reasoning and tool calls, and [`TOKENS_PER_MESSAGE`]. Media
/// cost what naming them costs; see [`of_media`] for those that are sent.
pub fn of_message(message: &Message) -> u64 {
    let chars: u64 = message
        .content()
        .iter()
        .map(|block| match block {
            Block::Text { text } | Block::Thinking { text, .. } => chars(text),
            Block::ToolCall { id, name, args } => chars(id) + chars(name) + json_chars(args),
            Block::Media { .. } => REFERENCE_CHARS,
            Block::Opaque { raw, .. } => json_chars(raw),
        })
        .sum();
    to_tokens(chars) + TOKENS_PER_MESSAGE
}

/// Returns about how many tokens everything in a request but its messages is: instructions, tools, the schema of the
/// answer, and the media that are sent.
pub fn of_frame(request: &ChatRequest) -> u64 {
    let system: u64 = request.system.iter().map(|text| chars(text)).sum();
    let tools: u64 = request
        .tools
        .iter()
        .map(|tool| chars(&tool.name) + chars(&tool.description) + json_chars(&tool.parameters))
        .sum();
    let schema = request.answer_schema.as_ref().map_or(0, json_chars);
    to_tokens(system + tools + schema) + of_media(&request.media)
}

/// Returns about how many tokens media are when they are sent.
pub fn of_media(media: &BTreeMap<String, Arc<[u8]>>) -> u64 {
    media
        .values()
        .map(|bytes| {
            let is_document = bytes.starts_with(b"%PDF");
            let text = if is_document { bytes.len() as u64 / DOCUMENT_BYTES_PER_TOKEN } else { 0 };
            TOKENS_PER_IMAGE + text
        })
        .sum()
}

/// Returns whether `text` is at most `tokens_max` tokens by [`estimate`]; stops counting once it is not.
pub fn fits(text: &str, tokens_max: u64) -> bool {
    let chars_max = usize::try_from(tokens_max.saturating_mul(CHARS_PER_TOKEN)).unwrap_or(usize::MAX);
    text.len() <= chars_max || text.chars().nth(chars_max).is_none()
}

/// Returns the beginning of `text`, at most `max` grapheme clusters long.
pub fn truncate_graphemes(text: &str, max: usize) -> &str {
    if text.len() <= max {
        return text;
    }
    text.grapheme_indices(true).nth(max).map_or(text, |(end, _)| &text[..end])
}

/// Returns the byte at which the character of that number begins; the text's length if there are fewer.
pub(crate) fn byte_of_char(text: &str, number: usize) -> usize {
    text.char_indices().nth(number).map_or(text.len(), |(at, _)| at)
}

/// Returns the last place at or before `at` where `text` can be cut without splitting a grapheme cluster; `at` must be
/// the beginning of a character, or the end.
pub fn cut_at(text: &str, at: usize) -> usize {
    let mut cursor = GraphemeCursor::new(at, text.len(), true);
    match cursor.is_boundary(text, 0) {
        Ok(false) => cursor.prev_boundary(text, 0).ok().flatten().unwrap_or(0),
        // The whole text is at hand, so that the cursor never asks for more of it.
        Ok(true) | Err(_) => at,
    }
}

fn chars(text: &str) -> u64 {
    text.chars().count() as u64
}

/// Returns the length of the value as compact JSON, without writing it.
fn json_chars(value: &serde_json::Value) -> u64 {
    match value {
        serde_json::Value::Null | serde_json::Value::Bool(_) => 4,
        serde_json::Value::Number(number) => number.to_string().len() as u64,
        serde_json::Value::String(text) => chars(text) + 2,
        serde_json::Value::Array(items) => 2 + items.iter().map(|item| json_chars(item) + 1).sum::<u64>(),
        serde_json::Value::Object(fields) => {
            2 + fields.iter().map(|(key, item)| chars(key) + json_chars(item) + 4).sum::<u64>()
        }
    }
}

const fn to_tokens(chars: u64) -> u64 {
    chars.div_ceil(CHARS_PER_TOKEN)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_estimate_is_a_quarter_of_the_characters() {
        for (text, tokens) in
            [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("日本語で", 1), ("🦀🦀🦀🦀🦀", 2)]
        {
            assert_eq!(estimate(text), tokens, "{text:?}");
            assert!(fits(text, tokens), "{text:?}");
            assert!(tokens == 0 || !fits(text, tokens - 1), "{text:?}");
        }
    }

    #[test]
    fn a_message_costs_its_text_and_three() {
        assert_eq!(of_message(&Message::human("abcd")), 4);
        let call = Block::ToolCall { id: "c1".into(), name: "read".into(), args: json!({"path": "a.rs"}) };
        let message = Message::Ai(protocol::AiMessage { content: vec![call], ..Default::default() });
        assert_eq!(of_message(&message), 9);
    }

    #[test]
    fn b18_what_is_no_message_is_counted_too() {
        let tool = crate::chat::ToolSpec {
            name: "read".into(),
            description: "Reads.".into(),
            parameters: json!({"type": "object"}),
        };
        let mut request =
            ChatRequest { system: vec!["abcd".into(); 2], tools: vec![tool], ..ChatRequest::default() };
        assert_eq!(of_frame(&request), 9);
        let document = [b"%PDF".as_slice(), &[0; 3_996]].concat();
        request.media = BTreeMap::from([("a".into(), vec![0; 9].into()), ("b".into(), document.into())]);
        assert_eq!(of_frame(&request), 9 + 1_600 + 1_700);
    }

    #[test]
    fn l9_a_cut_never_splits_a_character() {
        let family = "👨‍👩‍👧‍👦";
        for (text, max, expected) in [
            ("abc", 5, "abc"),
            ("abc", 2, "ab"),
            ("abc", 0, ""),
            ("e\u{301}e\u{301}", 1, "e\u{301}"),
            ("👨‍👩‍👧‍👦!", 1, family),
            ("\r\n\r\n", 1, "\r\n"),
        ] {
            assert_eq!(truncate_graphemes(text, max), expected, "{text:?} at {max}");
        }
    }
}
