//! The words a sentence is compared by: lowercase stems without stop-words, pairs of characters where a script has no
//! spaces. Which sentence matters is not decided here.

use std::collections::HashSet;
use std::sync::LazyLock;

use rust_stemmers::{Algorithm, Stemmer};
use unicode_segmentation::UnicodeSegmentation;

/// Words of one sentence that are looked at; a longer one is a dump, not a sentence.
const WORDS_PER_SENTENCE_MAX: usize = 300;

/// Words that are looked at to recognise the language.
const LANGUAGE_SAMPLE_WORDS: usize = 2_000;

/// The languages that are recognised; the first wins a tie.
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

/// Turns sentences of one language into words.
pub(super) struct Words {
    stemmer: Stemmer,
    stop_words: &'static HashSet<&'static str>,
}

/// The stop-words of [`LANGUAGES`], in their order.
static STOP_WORDS: LazyLock<Vec<HashSet<&'static str>>> =
    LazyLock::new(|| LANGUAGES.iter().map(|(code, _)| stop_words(code)).collect());

impl Words {
    /// Returns the words of the language that most of `sentences` is written in.
    pub(super) fn of(sentences: &[&str]) -> Self {
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

    /// Returns the words of one sentence, with repetitions.
    pub(super) fn split(&self, sentence: &str) -> Vec<String> {
        let mut words = Vec::new();
        let mut before: Option<char> = None;
        for word in sentence.unicode_words().take(WORDS_PER_SENTENCE_MAX) {
            if let Some(character) = ideograph(word) {
                words.extend(before.map(|before| [before, character].iter().collect::<String>()));
                before = Some(character);
                continue;
            }
            before = None;
            let word = word.to_lowercase();
            if word.chars().count() > 1 && !self.stop_words.contains(word.as_str()) {
                words.push(self.stemmer.stem(&word).into_owned());
            }
        }
        words
    }
}

fn stop_words(code: &str) -> HashSet<&'static str> {
    stop_words::lookup(code).unwrap_or_default().iter().copied().collect()
}

/// Returns the character when the segmentation gave a single one of a script without spaces.
fn ideograph(word: &str) -> Option<char> {
    let mut characters = word.chars();
    match (characters.next(), characters.next()) {
        (Some(character), None) if u32::from(character) >= 0x2E80 => Some(character),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::Words;

    fn check(sentence: &str, expected: &[&str]) {
        assert_eq!(Words::of(&[sentence]).split(sentence), expected, "{sentence:?}");
    }

    #[test]
    fn words_are_stems_without_stop_words() {
        check("The parsers were parsing the flaky_tests", &["parser", "pars", "flaky_test"]);
        check("Die Sitzungen und der Speicher sind nicht leer", &["sitzung", "speich", "leer"]);
        check("", &[]);
    }

    #[test]
    fn scripts_without_spaces_become_pairs() {
        check("修复错误", &["修复", "复错", "错误"]);
    }
}
