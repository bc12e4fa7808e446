//! Renders a message as readable text without secrets, and cuts the best passage out of a long one. Framing and
//! escaping happen elsewhere.

use std::fmt::Write as _;

use aho_corasick::AhoCorasick;
use model::tokens::floor_grapheme_boundary;
use protocol::{ContentBlock, Message};
use rust_stemmers::{Algorithm, Stemmer};

use secrets::redact;

/// Maximum bytes of a message that are read, 64 KiB from its start. The search index does not cover more either.
const READ_BYTES_MAX: usize = 64 << 10;
/// Maximum characters of a tool call's arguments.
const ARGS_CHARS_MAX: usize = 400;
/// Minimum length in characters of a stem that stands for its word. A shorter stem would match unrelated words.
const STEM_CHARS_MIN: usize = 3;
/// Maximum number of word positions that are considered in one text. It limits the cost of choosing a passage.
const WORD_POSITIONS_MAX: usize = 2_000;
/// Divisor of a passage's length: the first matched word has a quarter of the passage before it as context.
const LEAD_DIVISOR: usize = 4;
/// Marks where a text was cut.
pub(super) const ELLIPSIS: &str = "…";

/// Returns the readable text of a message with its secrets redacted. The text is empty when the message has none.
///
/// Tool calls appear as `[calls NAME ARGUMENTS]` and media as their media type. Reasoning is left out.
pub(super) fn readable_text(message: &Message) -> String {
    let mut text = String::new();
    for block in message.content() {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        // Writing to a String cannot fail.
        let _ = match block {
            ContentBlock::Text { text: part } => write!(text, "{}", head_at_word(part)),
            ContentBlock::ToolCall { name, args, .. } => {
                let args = redact(head_at_word(&args.to_string())).into_owned();
                write!(text, "[calls {name} {}]", truncate_chars(&args, ARGS_CHARS_MAX))
            }
            ContentBlock::Media { media_type, .. } => write!(text, "[{media_type}]"),
            ContentBlock::Thinking { .. } | ContentBlock::Opaque { .. } => Ok(()),
        };
        if text.len() > READ_BYTES_MAX {
            break;
        }
    }
    // Before anything is cut: half a secret would not be recognised.
    redact(head_at_word(&text)).trim().to_owned()
}

/// Returns the first [`READ_BYTES_MAX`] bytes of `text` at most, cut between words.
fn head_at_word(text: &str) -> &str {
    if text.len() <= READ_BYTES_MAX {
        return text;
    }
    let cut = &text[..text.floor_char_boundary(READ_BYTES_MAX)];
    cut.rfind(char::is_whitespace).map_or(cut, |at| &cut[..at])
}

/// Returns the beginning of `text`, at most `chars_max` characters.
pub(crate) fn truncate_chars(text: &str, chars_max: usize) -> String {
    excerpt_from(text, 0, chars_max)
}

/// Finds the words of a query in texts, in any inflected form.
///
/// A word is matched by the prefix that it shares with its English stem, in one pass over the text.
pub(super) struct QueryWordFinder {
    /// The automaton of all prefixes; `None` when it could not be built, and then no word is found.
    forms: Option<AhoCorasick>,
    /// For each pattern of `forms`, the index of its word.
    form_words: Vec<usize>,
}

impl QueryWordFinder {
    /// Returns a finder for `words`. Each word has two patterns, because the automaton ignores case only for ASCII
    /// letters: the prefix as given, and with its first letter in upper case.
    pub(super) fn new(words: &[String]) -> Self {
        let stemmer = Stemmer::create(Algorithm::English);
        let mut forms = Vec::new();
        let mut form_words = Vec::new();
        for (index, word) in words.iter().enumerate() {
            let prefix = common_prefix(word, &stemmer.stem(word)).to_owned();
            let capitalised = capitalize(&prefix);
            form_words.extend([index, index]);
            forms.extend([prefix, capitalised]);
        }
        let forms = AhoCorasick::builder().ascii_case_insensitive(true).build(forms).ok();
        Self { forms, form_words }
    }

    /// Returns the passage of `text`, at most `chars_max` characters, that contains the most different words. Returns
    /// the start of the text when it contains none.
    pub(super) fn best_passage(&self, text: &str, chars_max: usize) -> String {
        if text.len() <= chars_max {
            return text.to_owned();
        }
        excerpt_from(text, self.best_start(text, chars_max), chars_max)
    }

    /// Returns the byte offset at which the best passage begins, including the context before its first word. Among
    /// equally good passages, the first one wins.
    ///
    /// The cost is quadratic in the number of word positions, which [`WORD_POSITIONS_MAX`] limits.
    fn best_start(&self, text: &str, chars_max: usize) -> usize {
        let positions = self.word_positions(text);
        let window_chars = chars_max - chars_max / LEAD_DIVISOR;
        let mut best = (0, 0);
        for (first, (offset, _, chars)) in positions.iter().enumerate() {
            let window = positions[first..].iter().take_while(|(_, _, later)| later - chars < window_chars);
            let word_count = window.fold(0_u64, |words, (_, word, _)| words | 1 << (word % 64)).count_ones();
            if word_count > best.0 {
                best = (word_count, *offset);
            }
        }
        let lead = text[..best.1].char_indices().rev().nth((chars_max / LEAD_DIVISOR).saturating_sub(1));
        lead.map_or(0, |(offset, _)| offset)
    }

    /// Returns the positions of words, in order: the byte offset, the index of the word, and the character offset.
    fn word_positions(&self, text: &str) -> Vec<(usize, usize, usize)> {
        let Some(forms) = &self.forms else { return Vec::new() };
        let mut positions: Vec<(usize, usize, usize)> = Vec::new();
        let (mut bytes, mut chars) = (0, 0);
        for hit in forms.find_overlapping_iter(text) {
            let start = hit.start();
            let is_inside = text[..start].chars().next_back().is_some_and(char::is_alphanumeric);
            // A match inside a word counts only in scripts without spaces, where every word follows another directly.
            if is_inside && text[start..].starts_with(|c: char| c.is_ascii_alphanumeric()) || start < bytes {
                continue;
            }
            chars += text[bytes..start].chars().count();
            bytes = start;
            positions.push((start, self.form_words[hit.pattern().as_usize()], chars));
            if positions.len() == WORD_POSITIONS_MAX {
                break;
            }
        }
        positions
    }
}

/// Returns the prefix that the word shares with its stem, or the whole word when that prefix is shorter than
/// [`STEM_CHARS_MIN`].
fn common_prefix<'a>(word: &'a str, stem: &str) -> &'a str {
    let same = word.char_indices().zip(stem.chars()).take_while(|((_, a), b)| a == b);
    let end = same.last().map_or(0, |((offset, char), _)| offset + char.len_utf8());
    if word[..end].chars().count() < STEM_CHARS_MIN { word } else { &word[..end] }
}

/// Returns the word with its first letter in upper case.
fn capitalize(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// Returns at most `chars_max` characters of `text` from about the byte offset `start` on, with an [`ELLIPSIS`]
/// wherever text was cut off. Cuts are between grapheme clusters, and between words where a word boundary is near.
fn excerpt_from(text: &str, start: usize, chars_max: usize) -> String {
    let start = floor_grapheme_boundary(text, start);
    let start = match text[..start].ends_with(|char: char| !char.is_whitespace()) {
        // `start` is inside a word. The excerpt begins after the word if it ends soon. A text without blanks is cut
        // here.
        true => text[start..]
            .find(char::is_whitespace)
            .filter(|length| *length <= chars_max / LEAD_DIVISOR)
            .map_or(start, |length| start + length),
        false => start,
    };
    let tail = text[start..].trim_start();
    let before = if text.len() - tail.len() > 0 && start > 0 { ELLIPSIS } else { "" };
    let Some((end, _)) = tail.char_indices().nth(chars_max) else { return format!("{before}{tail}") };
    let shown = &tail[..floor_grapheme_boundary(tail, end)];
    let shown = match shown.rfind(char::is_whitespace) {
        Some(offset) if offset >= shown.len() / 2 => &shown[..offset],
        Some(_) | None => shown,
    };
    format!("{before}{}{ELLIPSIS}", shown.trim_end())
}
