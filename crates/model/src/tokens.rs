//! Estimates of token counts, and cuts of texts that keep whole characters. A provider's reported count is more
//! exact; this module does not use it.
//!
//! The estimate counts four ASCII characters as one token, which is slightly too high for prose and too low for
//! code. Other characters take a different number of tokens in each script and model. This was measured with
//! three vocabularies on one text in each of 14 scripts, in tokens per character: Cyrillic 0.24 to 0.58; Greek,
//! Arabic and Hebrew 0.4 to 1.2; the scripts of India 0.3 to 2; Chinese, Japanese and Korean 0.6 to 1.4; an
//! accented letter among ASCII 0.1 to 2; a symbol 1 to 2; an emoji 1.8 to 2.7. The estimate lies between these
//! bounds: a request that is estimated too high is compacted early, and one that is estimated too low is refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol::{ContentBlock, Message};
use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation};

use crate::chat::ChatRequest;

/// The number of plain characters that count as one token; see [`weight`].
pub const CHARS_PER_TOKEN: u64 = 4;

/// The tokens of a message in addition to its text.
pub const TOKENS_PER_MESSAGE: u64 = 3;

/// The tokens of an image that is sent. Providers count up to this number for an image of ordinary size.
pub const TOKENS_PER_IMAGE: u64 = 1_600;

/// The bytes of a document that count as one token. Providers count the pages both as text and as images.
pub const DOCUMENT_BYTES_PER_TOKEN: u64 = 40;

/// The length in characters of the line that replaces media which are not sent.
const MEDIA_NOTE_CHARS: u64 = 120;

/// The weight of a character in plain characters, by the first byte of its UTF-8 encoding. Continuation bytes
/// weigh nothing.
const WEIGHTS: [u8; 256] = build_weights();

/// Builds [`WEIGHTS`].
const fn build_weights() -> [u8; 256] {
    let mut weights = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        weights[byte] = match byte {
            0x00..=0x7F => 1,
            // Continuation bytes.
            0x80..=0xBF => 0,
            // Cyrillic, which every measured vocabulary covers well.
            0xD0..=0xD3 => 2,
            // Other two-byte characters: accented letters, Greek, Armenian, Hebrew, Arabic. Then the scripts of
            // India, Thai, Lao, Tibetan.
            0xC0..=0xE0 => 3,
            // Other three-byte characters: Chinese, Japanese, Korean, symbols.
            0xE1..=0xEF => 4,
            // Emoji and rare characters.
            _ => 8,
        };
        byte += 1;
    }
    weights
}

/// The bytes that are checked for being ASCII at once, which is fast because most texts are ASCII.
const WEIGHT_CHUNK_BYTES: usize = 64;

/// Returns the weight of `text` in plain characters. An ASCII character weighs one; another character weighs as
/// many as take the same number of tokens.
pub fn weight(text: &str) -> u64 {
    let table_weight =
        |bytes: &[u8]| bytes.iter().map(|byte| u64::from(WEIGHTS[usize::from(*byte)])).sum::<u64>();
    let chunks = text.as_bytes().chunks(WEIGHT_CHUNK_BYTES);
    chunks.map(|chunk| if chunk.is_ascii() { chunk.len() as u64 } else { table_weight(chunk) }).sum()
}

/// Returns the estimated number of tokens of `text`: a quarter of its [`weight`], rounded up.
pub fn estimate_tokens(text: &str) -> u64 {
    to_tokens(weight(text))
}

/// Returns the estimated number of tokens of a message: its text, reasoning and tool calls, and
/// [`TOKENS_PER_MESSAGE`]. Media count as the line that replaces them; see [`media_tokens`] for media that are
/// sent.
pub fn message_tokens(message: &Message) -> u64 {
    let weight: u64 = message
        .content()
        .iter()
        .map(|block| match block {
            ContentBlock::Text { text } | ContentBlock::Thinking { text, .. } => weight(text),
            ContentBlock::ToolCall { id, name, args } => weight(id) + weight(name) + json_weight(args),
            ContentBlock::Media { .. } => MEDIA_NOTE_CHARS,
            ContentBlock::Opaque { raw, .. } => json_weight(raw),
        })
        .sum();
    to_tokens(weight) + TOKENS_PER_MESSAGE
}

/// Returns the estimated number of tokens of a request without its conversation: instructions, tools and the
/// schema of the answer. Media belong to the conversation; see [`media_tokens`].
pub fn overhead_tokens(request: &ChatRequest) -> u64 {
    let system: u64 = request.system.iter().map(|text| weight(text)).sum();
    let schema = request.answer_schema.as_ref().map_or(0, json_weight);
    to_tokens(system + request.tools.weight() + schema)
}

/// Returns the estimated number of tokens of media that are sent.
pub fn media_tokens(media: &BTreeMap<String, Arc<[u8]>>) -> u64 {
    media
        .values()
        .map(|bytes| {
            let is_document = bytes.starts_with(b"%PDF");
            let text = if is_document { bytes.len() as u64 / DOCUMENT_BYTES_PER_TOKEN } else { 0 };
            TOKENS_PER_IMAGE + text
        })
        .sum()
}

/// Returns whether `text` has at most `tokens_max` tokens by [`estimate_tokens`]. Stops counting at the limit.
pub fn fits(text: &str, tokens_max: u64) -> bool {
    head_end(text, tokens_max.saturating_mul(CHARS_PER_TOKEN)) == text.len()
}

/// Returns the end of the longest beginning of `text` whose weight is at most `weight_max`. Splits no character.
pub fn head_end(text: &str, weight_max: u64) -> usize {
    let mut remaining = weight_max;
    for (index, byte) in text.bytes().enumerate() {
        match remaining.checked_sub(u64::from(WEIGHTS[usize::from(byte)])) {
            Some(remaining_after) => remaining = remaining_after,
            None => return index,
        }
    }
    text.len()
}

/// Returns the start of the longest end of `text` whose weight is at most `weight_max`. Splits no character.
pub fn tail_start(text: &str, weight_max: u64) -> usize {
    let (mut remaining, mut start) = (weight_max, text.len());
    for (index, char) in text.char_indices().rev() {
        match remaining.checked_sub(weight(char.encode_utf8(&mut [0; 4]))) {
            Some(remaining_after) => (remaining, start) = (remaining_after, index),
            None => break,
        }
    }
    start
}

/// Returns the beginning of `text` with at most `max` grapheme clusters.
pub fn truncate_graphemes(text: &str, max: usize) -> &str {
    if text.len() <= max {
        return text;
    }
    text.grapheme_indices(true).nth(max).map_or(text, |(end, _)| &text[..end])
}

/// Returns the last position at or before `index` where `text` can be cut without splitting a grapheme cluster.
/// `index` must be a character boundary.
pub fn floor_grapheme_boundary(text: &str, index: usize) -> usize {
    let mut cursor = GraphemeCursor::new(index, text.len(), true);
    match cursor.is_boundary(text, 0) {
        Ok(false) => cursor.prev_boundary(text, 0).ok().flatten().unwrap_or(0),
        // The cursor has the whole text, so it never asks for more context.
        Ok(true) | Err(_) => index,
    }
}

/// Returns the weight of the value as compact JSON, without serializing it.
pub(crate) fn json_weight(value: &serde_json::Value) -> u64 {
    match value {
        serde_json::Value::Null | serde_json::Value::Bool(_) => 4,
        serde_json::Value::Number(number) => number.to_string().len() as u64,
        serde_json::Value::String(text) => weight(text) + 2,
        serde_json::Value::Array(items) => 2 + items.iter().map(|item| json_weight(item) + 1).sum::<u64>(),
        serde_json::Value::Object(fields) => {
            2 + fields.iter().map(|(key, item)| weight(key) + json_weight(item) + 4).sum::<u64>()
        }
    }
}

/// Returns the number of tokens for a weight, rounded up.
const fn to_tokens(weight: u64) -> u64 {
    weight.div_ceil(CHARS_PER_TOKEN)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_estimate_is_a_quarter_of_the_plain_characters() {
        for (text, tokens) in [
            ("", 0),
            ("a", 1),
            ("abcd", 1),
            ("abcde", 2),
            ("日本語で", 4),
            ("🦀🦀🦀🦀🦀", 10),
            ("привет", 3),
            ("né", 1),
            ("— ok", 2),
        ] {
            assert_eq!(estimate_tokens(text), tokens, "{text:?}");
            assert!(fits(text, tokens), "{text:?}");
            assert!(tokens == 0 || !fits(text, tokens - 1), "{text:?}");
        }
    }

    /// The bounds are the fewest and the most tokens that three vocabularies in use have for each text.
    #[test]
    fn b18_the_estimate_of_every_script_is_near_real_token_counts() {
        for (text, least, most) in [
            (
                "All human beings are born free and equal in dignity and rights. They are endowed with reason and \
                 conscience and should act towards one another in a spirit of brotherhood.",
                33,
                33,
            ),
            ("Alle Menschen sind frei und gleich an Würde und Rechten geboren.", 14, 19),
            ("Все люди рождаются свободными и равными в своем достоинстве и правах.", 17, 40),
            ("Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια.", 25, 68),
            ("כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם.", 20, 56),
            ("يولد جميع الناس أحرارا متساوين في الكرامة والحقوق.", 17, 43),
            ("सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है।", 25, 93),
            ("มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ", 32, 117),
            ("人人生而自由，在尊严和权利上一律平等。请检查服务器的配置文件并重新启动数据库。", 26, 34),
            ("すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。", 35, 45),
            ("모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.", 24, 44),
        ] {
            let estimate = estimate_tokens(text);
            assert!(estimate * 3 >= most && estimate <= least * 3, "{text}: {estimate} of {least} to {most}");
        }
    }

    #[test]
    fn a_text_is_cut_where_its_weight_says() {
        for (text, weight, head, tail) in [
            ("abcdef", 4, "abcd", "cdef"),
            ("日本語", 7, "日", "語"),
            ("日本語", 8, "日本", "本語"),
            ("a🦀b", 8, "a", "b"),
            ("a🦀b", 9, "a🦀", "🦀b"),
            ("abc", 0, "", ""),
            ("", 9, "", ""),
        ] {
            assert_eq!(&text[..head_end(text, weight)], head, "{text} at {weight}");
            assert_eq!(&text[tail_start(text, weight)..], tail, "{text} at {weight}");
        }
        let long = format!("{}é{}", "x".repeat(WEIGHT_CHUNK_BYTES - 1), "ж".repeat(WEIGHT_CHUNK_BYTES));
        assert_eq!(weight(&long), WEIGHT_CHUNK_BYTES as u64 - 1 + 3 + 2 * WEIGHT_CHUNK_BYTES as u64);
    }

    #[test]
    fn a_message_costs_its_text_and_three() {
        assert_eq!(message_tokens(&Message::human("abcd")), 4);
        let call =
            ContentBlock::ToolCall { id: "c1".into(), name: "read".into(), args: json!({"path": "a.rs"}) };
        let message = Message::Ai(protocol::AiMessage { content: vec![call], ..Default::default() });
        assert_eq!(message_tokens(&message), 9);
    }

    #[test]
    fn b18_instructions_tools_and_media_are_counted() {
        let tool = crate::chat::ToolSpec {
            name: "read".into(),
            description: "Reads.".into(),
            parameters: json!({"type": "object"}),
        };
        let mut request = ChatRequest {
            system: vec!["abcd".into(); 2],
            tools: vec![tool].into(),
            ..ChatRequest::default()
        };
        assert_eq!(overhead_tokens(&request), 9);
        let document = [b"%PDF".as_slice(), &[0; 3_996]].concat();
        request.media = BTreeMap::from([("a".into(), vec![0; 9].into()), ("b".into(), document.into())]);
        assert_eq!((overhead_tokens(&request), media_tokens(&request.media)), (9, 1_600 + 1_700));
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
