//! The user's goal for the next thread, as a set of weighted terms that rank older messages of a thread.
//!
//! Matching is lexical: names and word stems, weighted by inverse document frequency. It knows no synonyms.

use aho_corasick::AhoCorasick;

use crate::identifier;

/// Maximum terms of one goal. A [`TermSet`] has one bit for each.
const TERMS_MAX: usize = 64;
/// Minimum characters of a word's stem. A suffix is not removed if less would remain.
const STEM_CHARS_MIN: usize = 4;
/// Weight of a whole name, such as a path. A name is the most specific kind of term.
const NAME_WEIGHT: f32 = 3.0;
/// Weight of a part of a path: the file name, and the file name without its extension.
const PART_WEIGHT: f32 = 1.5;
/// Weight of an ordinary word.
const WORD_WEIGHT: f32 = 1.0;
/// Suffixes that stemming removes. The first that fits is removed, so a longer suffix precedes those it ends with.
const SUFFIXES: [&str; 19] = [
    "izations", "ization", "ations", "ation", "ments", "ings", "ment", "ions", "ing", "ate", "ion", "ers",
    "ies", "ed", "es", "er", "ly", "s", "e",
];
/// Words that are no terms because they occur in most goals: English, and the most frequent German and French ones.
const STOP_WORDS: [&str; 48] = [
    "the", "and", "for", "with", "that", "this", "from", "into", "have", "has", "was", "are", "will", "make",
    "then", "when", "what", "where", "which", "should", "would", "could", "please", "need", "needs", "want",
    "next", "now", "continue", "work", "thread", "all", "any", "can", "our", "your", "you", "not", "but",
    "use", "und", "der", "die", "das", "mit", "les", "des", "pour",
];

/// The terms of a goal, with an automaton that finds all of them in one pass over a text.
#[derive(Debug, Clone)]
pub struct GoalMatcher {
    text: String,
    /// Weight of each term, by its index.
    weights: Vec<f32>,
    /// `None` when the automaton cannot be built; no text matches then.
    matcher: Option<AhoCorasick>,
}

/// The set of terms that a text contains: bit `i` stands for term `i` of the goal.
pub type TermSet = u64;

/// The document frequency of each term: the number of messages of a thread that contain it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TermFrequencies {
    /// Number of messages counted.
    text_count: u32,
    /// Number of messages that contain each term, by the term's index. Missing entries are 0.
    texts_with_term: Vec<u32>,
}

impl GoalMatcher {
    /// Parses the terms of a goal: its names, the file names in its paths, and the stems of its words. Terms above
    /// the 64th are ignored. A goal without terms matches no text.
    pub fn new(text: &str) -> Self {
        let mut terms: Vec<(String, f32)> = Vec::new();
        let mut add = |term: String, weight: f32| match terms.iter().position(|(known, _)| *known == term) {
            Some(index) => terms[index].1 = terms[index].1.max(weight),
            None if terms.len() < TERMS_MAX => terms.push((term, weight)),
            None => {}
        };
        identifier::scan_names(text, |_, name| {
            let name = name.trim_start_matches("./").to_lowercase();
            let file = name.rsplit('/').next().unwrap_or(&name).to_owned();
            let stem = file.rsplit_once('.').map_or(file.as_str(), |(stem, _)| stem).to_owned();
            add(name, NAME_WEIGHT);
            for part in [file, stem].into_iter().filter(|part| part.chars().count() >= STEM_CHARS_MIN) {
                add(part, PART_WEIGHT);
            }
        });
        for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
            for_each_stem(word, |term| add(term, WORD_WEIGHT));
        }
        let matcher = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .build(terms.iter().map(|(term, _)| term))
            .ok();
        Self {
            text: text.to_owned(),
            weights: terms.into_iter().map(|(_, weight)| weight).collect(),
            matcher,
        }
    }

    /// Returns the goal as the user wrote it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the terms that `text` contains. A term counts only at the beginning of a word, of a part of a camelCase
    /// name, or anywhere in a script that is written without spaces.
    ///
    /// The cost is linear in the length of the text and independent of the number of terms.
    pub fn matching_terms(&self, text: &str) -> TermSet {
        let Some(matcher) = self.matcher.as_ref().filter(|_| !self.weights.is_empty()) else { return 0 };
        let lower;
        let text = match text.is_ascii() {
            true => text,
            false => {
                lower = text.to_lowercase();
                &lower
            }
        };
        let mut terms = 0;
        for hit in matcher.find_overlapping_iter(text) {
            let before = text[..hit.start()].chars().next_back();
            let first = text[hit.start()..].chars().next().unwrap_or(' ');
            let begins_word = !before.is_some_and(char::is_alphanumeric)
                || is_ideograph(first)
                || before.is_some_and(char::is_lowercase) && first.is_uppercase();
            if begins_word {
                terms |= 1 << hit.pattern().as_usize();
            }
        }
        terms
    }

    /// Returns the relevance of a text that contains `terms`: the sum of each term's weight times its inverse document
    /// frequency. Returns 0 for an empty set.
    pub fn score(&self, terms: TermSet, frequencies: &TermFrequencies) -> f32 {
        let indices = (0..self.weights.len()).filter(|index| terms & (1 << index) != 0);
        indices.map(|index| self.weights[index] * frequencies.inverse_frequency(index)).sum()
    }
}

impl TermFrequencies {
    /// Counts one more message, which contains `terms`.
    pub fn add_text(&mut self, terms: TermSet) {
        self.text_count += 1;
        let mut remaining = terms;
        while remaining != 0 {
            let index = remaining.trailing_zeros() as usize;
            // Clears the lowest set bit.
            remaining &= remaining - 1;
            if self.texts_with_term.len() <= index {
                self.texts_with_term.resize(index + 1, 0);
            }
            self.texts_with_term[index] += 1;
        }
    }

    /// Returns the smoothed inverse document frequency of a term, `ln(1 + N / (1 + n))`: rare terms weigh more.
    fn inverse_frequency(&self, index: usize) -> f32 {
        let with_term = self.texts_with_term.get(index).copied().unwrap_or(0);
        (1.0 + self.text_count as f32 / (1.0 + with_term as f32)).ln()
    }
}

/// Calls `add` with the stem of a word. A word in a script without spaces has no stem; `add` is called with each pair of
/// adjacent characters instead. Stop words and words of fewer than three letters are skipped.
fn for_each_stem(word: &str, mut add: impl FnMut(String)) {
    let lower = word.to_lowercase();
    let letters: Vec<char> = lower.chars().collect();
    if letters.iter().any(|c| is_ideograph(*c)) {
        letters.windows(2).for_each(|pair| add(pair.iter().collect()));
        return;
    }
    if letters.len() < 3 || STOP_WORDS.contains(&lower.as_str()) {
        return;
    }
    let stem = SUFFIXES
        .iter()
        .find_map(|suffix| lower.strip_suffix(suffix).filter(|stem| stem.chars().count() >= STEM_CHARS_MIN));
    add(stem.unwrap_or(&lower).to_owned());
}

/// Returns whether the character is in the CJK blocks or above them, whose scripts are written without spaces.
const fn is_ideograph(c: char) -> bool {
    c >= '\u{2e80}'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_matches_inflected_forms_of_its_words() {
        let goal = GoalMatcher::new("Fix the parser in src/parse/lexer.rs and migrate the settings");
        let has = |text: &str| goal.matching_terms(text) != 0;
        for (text, expected) in [
            ("parsing is slow", true),
            ("a migration of users", true),
            ("see Lexer.rs", true),
            ("the weather is fine", false),
            ("we compare them", false),
        ] {
            assert_eq!(has(text), expected, "{text}");
        }
        assert!(GoalMatcher::new("修复解析器").matching_terms("请先看解析器的错误") != 0);
        assert_eq!(GoalMatcher::new("").matching_terms("anything"), 0);
    }

    #[test]
    fn rare_terms_score_higher_than_frequent_ones() {
        let goal = GoalMatcher::new("worker zebra");
        let mut frequencies = TermFrequencies::default();
        for _ in 0..100 {
            frequencies.add_text(goal.matching_terms("the worker runs"));
        }
        let score = |text: &str| goal.score(goal.matching_terms(text), &frequencies);
        assert!(score("a zebra") > score("the worker") && score("nothing") == 0.0);
    }
}
