//! Renders a message as readable text without secrets, and cuts the best passage out of a long one. Framing and
//! escaping happen elsewhere.

use std::fmt::Write as _;

use aho_corasick::AhoCorasick;
use model::tokens::floor_grapheme_boundary;
use protocol::{ContentBlock, Message};
use rust_stemmers::{Algorithm, Stemmer};

use facts::redact;

/// The part of a message that is looked at; a search finds nothing behind it either.
const READ_BYTES_MAX: usize = 64 << 10;
/// Characters of a tool call's arguments.
const ARGS_CHARS_MAX: usize = 400;
/// The shortest beginning by which a word is recognised in another form.
const STEM_CHARS_MIN: usize = 3;
/// Places of words that are looked at in one text.
const WORD_POSITIONS_MAX: usize = 2_000;
/// The part of a passage that stands before the first word found.
const LEAD_DIVISOR: usize = 4;
/// Stands where something was cut.
pub(super) const ELLIPSIS: &str = "…";

/// Returns what the message says, without secrets; empty when it says nothing.
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

/// Returns the beginning of `text`, cut between words.
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

/// Finds words of a question in texts, in the forms they take there.
pub(super) struct QueryWordFinder {
    forms: Option<AhoCorasick>,
    /// The word each form belongs to.
    form_words: Vec<usize>,
}

impl QueryWordFinder {
    /// Returns a finder for `words`.
    pub(super) fn new(words: &[String]) -> Self {
        let stemmer = Stemmer::create(Algorithm::English);
        let mut forms = Vec::new();
        let mut owners = Vec::new();
        for (number, word) in words.iter().enumerate() {
            let beginning = common_prefix(word, &stemmer.stem(word)).to_owned();
            let capitalised = capitalize(&beginning);
            owners.extend([number, number]);
            forms.extend([beginning, capitalised]);
        }
        let forms = AhoCorasick::builder().ascii_case_insensitive(true).build(forms).ok();
        Self { forms, form_words: owners }
    }

    /// Returns the part of `text`, at most `chars_max` characters, that holds most of the words; its beginning when it
    /// holds none.
    pub(super) fn best_passage(&self, text: &str, chars_max: usize) -> String {
        if text.len() <= chars_max {
            return text.to_owned();
        }
        excerpt_from(text, self.best_start(text, chars_max), chars_max)
    }

    /// Returns the byte at which the passage with most words begins, its lead included.
    fn best_start(&self, text: &str, chars_max: usize) -> usize {
        let places = self.word_positions(text);
        let reach = chars_max - chars_max / LEAD_DIVISOR;
        let mut best = (0, 0);
        for (first, (at, _, chars)) in places.iter().enumerate() {
            let within = places[first..].iter().take_while(|(_, _, later)| later - chars < reach);
            let held = within.fold(0_u64, |held, (_, word, _)| held | 1 << (word % 64)).count_ones();
            if held > best.0 {
                best = (held, *at);
            }
        }
        let lead = text[..best.1].char_indices().rev().nth((chars_max / LEAD_DIVISOR).saturating_sub(1));
        lead.map_or(0, |(at, _)| at)
    }

    /// Returns where words begin: the byte, the word's number and the character.
    fn word_positions(&self, text: &str) -> Vec<(usize, usize, usize)> {
        let Some(forms) = &self.forms else { return Vec::new() };
        let mut places: Vec<(usize, usize, usize)> = Vec::new();
        let (mut bytes, mut chars) = (0, 0);
        for found in forms.find_overlapping_iter(text) {
            let start = found.start();
            let is_inside = text[..start].chars().next_back().is_some_and(char::is_alphanumeric);
            // Where a script has no spaces, every word stands inside.
            if is_inside && text[start..].starts_with(|c: char| c.is_ascii_alphanumeric()) || start < bytes {
                continue;
            }
            chars += text[bytes..start].chars().count();
            bytes = start;
            places.push((start, self.form_words[found.pattern().as_usize()], chars));
            if places.len() == WORD_POSITIONS_MAX {
                break;
            }
        }
        places
    }
}

/// Returns the part of the word that its stem begins with, or the word when that is too short to tell anything.
fn common_prefix<'a>(word: &'a str, stem: &str) -> &'a str {
    let same = word.char_indices().zip(stem.chars()).take_while(|((_, a), b)| a == b);
    let end = same.last().map_or(0, |((at, char), _)| at + char.len_utf8());
    if word[..end].chars().count() < STEM_CHARS_MIN { word } else { &word[..end] }
}

fn capitalize(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// Returns at most `chars_max` characters of `text` from about `start` on, cut between grapheme clusters and where
/// possible between words, with a sign where something was cut.
fn excerpt_from(text: &str, start: usize, chars_max: usize) -> String {
    let start = floor_grapheme_boundary(text, start);
    let start = match text[..start].ends_with(|char: char| !char.is_whitespace()) {
        // Within a word: the next one is near, or there is none.
        true => text[start..]
            .find(char::is_whitespace)
            .filter(|at| *at <= chars_max / LEAD_DIVISOR)
            .map_or(start, |at| start + at),
        false => start,
    };
    let rest = text[start..].trim_start();
    let before = if text.len() - rest.len() > 0 && start > 0 { ELLIPSIS } else { "" };
    let Some((end, _)) = rest.char_indices().nth(chars_max) else { return format!("{before}{rest}") };
    let shown = &rest[..floor_grapheme_boundary(rest, end)];
    let shown = match shown.rfind(char::is_whitespace) {
        Some(at) if at >= shown.len() / 2 => &shown[..at],
        Some(_) | None => shown,
    };
    format!("{before}{}{ELLIPSIS}", shown.trim_end())
}
