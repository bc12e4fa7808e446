//! Splits a message into parts that an embedding model reads whole. Many models read no more than 512 tokens, and one vector of a
//! long text represents none of its details.

use journal::EMBEDDED_PARTS_MAX;
use secrets::redact;

/// Maximum bytes of a part: about 400 tokens of English.
const PART_BYTES_MAX: usize = 1_600;
/// Maximum bytes of a message that are read. The rest of a longer one is compared by words only.
const MESSAGE_BYTES_MAX: usize = PART_BYTES_MAX * EMBEDDED_PARTS_MAX;
/// Bytes that are redacted beyond [`MESSAGE_BYTES_MAX`], so that a secret that begins before the limit is recognized.
const REDACTED_BYTES_SPARE: usize = 4 << 10;

/// Returns the parts of a message, with its secrets redacted. A part ends at a paragraph, a line, a sentence or a word where there is
/// one in its second half.
pub(super) fn split_message(text: &str) -> Vec<String> {
    let read = &text[..text.floor_char_boundary(MESSAGE_BYTES_MAX + REDACTED_BYTES_SPARE)];
    let safe = redact(read);
    let mut rest = safe[..safe.floor_char_boundary(MESSAGE_BYTES_MAX)].trim();
    let mut parts = Vec::new();
    while !rest.is_empty() && parts.len() < EMBEDDED_PARTS_MAX {
        let (part, tail) = rest.split_at(part_end(rest));
        if part.contains(char::is_alphanumeric) {
            parts.push(part.trim().to_owned());
        }
        rest = tail.trim_start();
    }
    parts
}

/// Returns the offset at which the first part of a text ends.
fn part_end(text: &str) -> usize {
    if text.len() <= PART_BYTES_MAX {
        return text.len();
    }
    let limit = text.floor_char_boundary(PART_BYTES_MAX);
    let middle = text.floor_char_boundary(PART_BYTES_MAX / 2);
    let second_half = &text[middle..limit];
    ["\n\n", "\n", ". ", " "]
        .iter()
        .find_map(|separator| Some(middle + second_half.rfind(separator)? + separator.len()))
        .unwrap_or(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_message_is_one_part() {
        assert_eq!(split_message("  the heron fishes \n"), ["the heron fishes"]);
        assert_eq!(split_message(" … \n"), Vec::<String>::new());
    }

    #[test]
    fn a_long_message_is_split_at_its_paragraphs_and_nothing_is_lost() {
        let paragraph = |number: usize| format!("Paragraph {number}. {}", "It has some words. ".repeat(40));
        let text = (0..6).map(paragraph).collect::<Vec<_>>().join("\n\n");
        let parts = split_message(&text);
        assert!(parts.iter().all(|part| part.len() <= PART_BYTES_MAX && part.starts_with("Paragraph")));
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&parts.join(" ")), words(&text));
    }

    #[test]
    fn a_text_without_a_boundary_is_split_between_characters() {
        let parts = split_message(&"ä".repeat(2_000));
        assert_eq!(parts.concat().chars().count(), 2_000);
        assert_eq!(split_message(&"x".repeat(1 << 20)).len(), EMBEDDED_PARTS_MAX);
    }

    #[test]
    fn m16_a_secret_is_redacted_before_the_message_is_split() {
        let key = format!("sk-ant-api03-{}", "aB3dE5gH7j".repeat(9));
        for filler in [1_550, MESSAGE_BYTES_MAX - 40] {
            let text = format!("{} {key} and more", "word ".repeat(filler / 5));
            assert!(split_message(&text).iter().all(|part| !part.contains("aB3dE5gH7j")), "{filler}");
        }
    }
}
