//! The terms by which sentences are compared: lowercase stems without stop words, and pairs of characters in
//! scripts without spaces. Ranking is done elsewhere.

use std::collections::HashSet;
use std::sync::LazyLock;

use rust_stemmers::{Algorithm, Stemmer};
use unicode_segmentation::UnicodeSegmentation;

/// The most words of one sentence that are considered. A longer sentence is probably a dump of data.
const WORDS_PER_SENTENCE_MAX: usize = 300;

/// The most words that are considered for detecting the language.
const LANGUAGE_SAMPLE_WORDS: usize = 2_000;

/// The languages that are detected. In a tie the first one counts.
const LANGUAGES: [(&str, Algorithm); 10] = [
    ("en", Algorithm::English),
    ("de", Algorithm::German),
    ("fr", Algorithm::French),
    ("es", Algorithm::Spanish),
    ("pt", Algorithm::Portuguese),
    ("it", Algorithm::Italian),
    ("nl", Algorithm::Dutch),
    ("sv", Algorithm::Swedish),
    ("ru", Algorithm::Russian),
    ("tr", Algorithm::Turkish),
];

/// The stop words of each language on a line that begins with its code, separated by tabs.
const STOP_WORD_LINES: &str = include_str!(concat!(env!("OUT_DIR"), "/stop_words.txt"));

/// A tokenizer that turns sentences of one language into terms.
pub(super) struct StemTokenizer {
    /// The stemmer of the language.
    stemmer: Stemmer,
    /// The stop words of the language.
    stop_words: &'static HashSet<&'static str>,
}

/// The stop words of [`LANGUAGES`], in the same order.
static STOP_WORDS: LazyLock<Vec<HashSet<&'static str>>> =
    LazyLock::new(|| LANGUAGES.iter().map(|(code, _)| stop_words(code)).collect());

impl StemTokenizer {
    /// Returns the tokenizer for the language in which most of `sentences` is written.
    pub(super) fn for_sentences(sentences: &[&str]) -> Self {
        let sample: Vec<String> = sentences
            .iter()
            .flat_map(|sentence| sentence.unicode_words())
            .take(LANGUAGE_SAMPLE_WORDS)
            .map(str::to_lowercase)
            .collect();
        let mut best = (0, Algorithm::English, &STOP_WORDS[0]);
        for ((_, algorithm), stop_words) in LANGUAGES.into_iter().zip(STOP_WORDS.iter()) {
            let hits = sample.iter().filter(|word| stop_words.contains(word.as_str())).count();
            if hits > best.0 {
                best = (hits, algorithm, stop_words);
            }
        }
        Self { stemmer: Stemmer::create(best.1), stop_words: best.2 }
    }

    /// Returns the terms of one sentence, with repetitions.
    pub(super) fn tokenize(&self, sentence: &str) -> Vec<String> {
        let mut words = Vec::new();
        let mut previous: Option<char> = None;
        for word in sentence.unicode_words().take(WORDS_PER_SENTENCE_MAX) {
            if let Some(character) = single_ideograph(word) {
                words.extend(previous.map(|previous| [previous, character].iter().collect::<String>()));
                previous = Some(character);
                continue;
            }
            previous = None;
            let word = word.to_lowercase();
            if word.chars().count() > 1 && !self.stop_words.contains(word.as_str()) {
                words.push(self.stemmer.stem(&word).into_owned());
            }
        }
        words
    }
}

/// Returns the stop words of the language with this code.
fn stop_words(code: &str) -> HashSet<&'static str> {
    let words = STOP_WORD_LINES.lines().find_map(|line| line.strip_prefix(code)?.strip_prefix('\t'));
    words.unwrap_or_default().split('\t').collect()
}

/// Returns the character if the word is a single one of a script without spaces. The word segmentation splits
/// such scripts into characters.
fn single_ideograph(word: &str) -> Option<char> {
    let mut characters = word.chars();
    match (characters.next(), characters.next()) {
        (Some(character), None) if u32::from(character) >= 0x2E80 => Some(character),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sentence: &str, expected: &[&str]) {
        assert_eq!(StemTokenizer::for_sentences(&[sentence]).tokenize(sentence), expected, "{sentence:?}");
    }

    #[test]
    fn words_are_stems_without_stop_words() {
        check("The parsers were parsing the flaky_tests", &["parser", "pars", "flaky_test"]);
        check("Die Sitzungen und der Speicher sind nicht leer", &["sitzung", "speich", "leer"]);
        check("", &[]);
    }

    #[test]
    fn each_language_has_its_stop_words() {
        for ((code, _), words) in LANGUAGES.into_iter().zip(STOP_WORDS.iter()) {
            let expected = stop_words::lookup(code).unwrap().iter().copied().collect();
            assert_eq!(*words, expected, "{code}");
        }
    }

    #[test]
    fn scripts_without_spaces_become_pairs() {
        check("修复错误", &["修复", "复错", "错误"]);
    }
}
