//! Estimates of token counts and cuts that keep whole characters. The provider's own count, once reported, is better;
//! nothing here asks for it.
//!
//! Four characters of ASCII are taken for one token, which is a little too many for prose and too few for code. What
//! other characters take differs by script and by model, and was measured with three vocabularies on one text in
//! each of 14 scripts: Cyrillic 0.24 to 0.58 tokens a character, Greek, Arabic and Hebrew 0.4 to 1.2, the scripts of
//! India 0.3 to 2, Chinese, Japanese and Korean 0.6 to 1.4, an accented letter among ASCII 0.1 to 2, a sign 1 to 2, an
//! emoji 1.8 to 2.7. The estimate lies between: a request that is taken for larger than it is is condensed early, one
//! that is taken for smaller is refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol::{Block, Message};
use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation};

use crate::chat::ChatRequest;

/// Plain characters that are taken for one token; see [`weight`].
pub const CHARS_PER_TOKEN: u64 = 4;

/// Tokens a message costs beside its text.
pub const TOKENS_PER_MESSAGE: u64 = 3;

/// Tokens an image costs where it is sent; providers count up to this for one of ordinary size.
pub const TOKENS_PER_IMAGE: u64 = 1_600;

/// Bytes of a document that are taken for one token; providers count its pages as text and as images.
pub const DOCUMENT_BYTES_PER_TOKEN: u64 = 40;

/// Characters of the line that names media which are not sent.
const REFERENCE_CHARS: u64 = 120;

/// Plain characters that a character weighs, by the first byte of its UTF-8 form; the others weigh nothing.
const WEIGHTS: [u8; 256] = weights();

const fn weights() -> [u8; 256] {
    let mut weights = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        weights[byte] = match byte {
            0x00..=0x7F => 1,
            // No first byte.
            0x80..=0xBF => 0,
            // Cyrillic, which every vocabulary knows well.
            0xD0..=0xD3 => 2,
            // The rest of two bytes: accented letters, Greek, Armenian, Hebrew, Arabic. Then India, Thai, Lao, Tibetan.
            0xC0..=0xE0 => 3,
            // The rest of three bytes: Chinese, Japanese, Korean, signs.
            0xE1..=0xEF => 4,
            // Emoji, and what is rare.
            _ => 8,
        };
        byte += 1;
    }
    weights
}

/// Bytes that are looked at together, for most of them are ASCII.
const WEIGHED_BYTES: usize = 64;

/// Returns how long `text` is in plain characters: one of ASCII is one, others are as many as cost as many tokens.
pub fn weight(text: &str) -> u64 {
    let of = |bytes: &[u8]| bytes.iter().map(|byte| u64::from(WEIGHTS[usize::from(*byte)])).sum::<u64>();
    let chunks = text.as_bytes().chunks(WEIGHED_BYTES);
    chunks.map(|chunk| if chunk.is_ascii() { chunk.len() as u64 } else { of(chunk) }).sum()
}

/// Returns about how many tokens `text` is: a quarter of its [`weight`], rounded up.
pub fn estimate(text: &str) -> u64 {
    to_tokens(weight(text))
}

/// Returns about how many tokens a message is: its text, reasoning and tool calls, and [`TOKENS_PER_MESSAGE`]. Media
/// cost what naming them costs; see [`of_media`] for those that are sent.
pub fn of_message(message: &Message) -> u64 {
    let weight: u64 = message
        .content()
        .iter()
        .map(|block| match block {
            Block::Text { text } | Block::Thinking { text, .. } => weight(text),
            Block::ToolCall { id, name, args } => weight(id) + weight(name) + json_weight(args),
            Block::Media { .. } => REFERENCE_CHARS,
            Block::Opaque { raw, .. } => json_weight(raw),
        })
        .sum();
    to_tokens(weight) + TOKENS_PER_MESSAGE
}

/// Returns about how many tokens everything in a request but its conversation is: instructions, tools, the schema of the
/// answer. The media that are sent belong to the conversation; see [`of_media`].
pub fn of_frame(request: &ChatRequest) -> u64 {
    let system: u64 = request.system.iter().map(|text| weight(text)).sum();
    let schema = request.answer_schema.as_ref().map_or(0, json_weight);
    to_tokens(system + request.tools.weight() + schema)
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
    end_of_head(text, tokens_max.saturating_mul(CHARS_PER_TOKEN)) == text.len()
}

/// Returns the end of the longest beginning of `text` that weighs no more; it splits no character.
pub fn end_of_head(text: &str, weight_max: u64) -> usize {
    let mut left = weight_max;
    for (at, byte) in text.bytes().enumerate() {
        match left.checked_sub(u64::from(WEIGHTS[usize::from(byte)])) {
            Some(rest) => left = rest,
            None => return at,
        }
    }
    text.len()
}

/// Returns the beginning of the longest end of `text` that weighs no more; it splits no character.
pub fn begin_of_tail(text: &str, weight_max: u64) -> usize {
    let (mut left, mut begin) = (weight_max, text.len());
    for (at, char) in text.char_indices().rev() {
        match left.checked_sub(weight(char.encode_utf8(&mut [0; 4]))) {
            Some(rest) => (left, begin) = (rest, at),
            None => break,
        }
    }
    begin
}

/// Returns the beginning of `text`, at most `max` grapheme clusters long.
pub fn truncate_graphemes(text: &str, max: usize) -> &str {
    if text.len() <= max {
        return text;
    }
    text.grapheme_indices(true).nth(max).map_or(text, |(end, _)| &text[..end])
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

/// Returns the weight of the value as compact JSON, without writing it.
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
            assert_eq!(estimate(text), tokens, "{text:?}");
            assert!(fits(text, tokens), "{text:?}");
            assert!(tokens == 0 || !fits(text, tokens - 1), "{text:?}");
        }
    }

    /// Tokens that three vocabularies in use have for a text: the fewest and the most.
    #[test]
    fn b18_no_script_is_taken_for_far_fewer_or_more_tokens_than_it_is() {
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
            let estimate = estimate(text);
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
            assert_eq!(&text[..end_of_head(text, weight)], head, "{text} at {weight}");
            assert_eq!(&text[begin_of_tail(text, weight)..], tail, "{text} at {weight}");
        }
        let long = format!("{}é{}", "x".repeat(WEIGHED_BYTES - 1), "ж".repeat(WEIGHED_BYTES));
        assert_eq!(weight(&long), WEIGHED_BYTES as u64 - 1 + 3 + 2 * WEIGHED_BYTES as u64);
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
        let mut request = ChatRequest {
            system: vec!["abcd".into(); 2],
            tools: vec![tool].into(),
            ..ChatRequest::default()
        };
        assert_eq!(of_frame(&request), 9);
        let document = [b"%PDF".as_slice(), &[0; 3_996]].concat();
        request.media = BTreeMap::from([("a".into(), vec![0; 9].into()), ("b".into(), document.into())]);
        assert_eq!((of_frame(&request), of_media(&request.media)), (9, 1_600 + 1_700));
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
