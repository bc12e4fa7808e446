//! The person's goal for the next thread, as terms for ranking older parts of a thread. Matching uses words and
//! names, without understanding them.

use aho_corasick::AhoCorasick;

use crate::identifier;

/// Terms of one goal.
const TERMS_MAX: usize = 64;
/// Letters a word's stem has at least.
const STEM_CHARS_MIN: usize = 4;
/// How much a whole name, a part of one, and a word count.
const NAME_WEIGHT: f32 = 3.0;
const PART_WEIGHT: f32 = 1.5;
const WORD_WEIGHT: f32 = 1.0;
/// Endings that are taken from words, the longest first.
const SUFFIXES: [&str; 19] = [
    "izations", "ization", "ations", "ation", "ments", "ings", "ment", "ions", "ing", "ate", "ion", "ers",
    "ies", "ed", "es", "er", "ly", "s", "e",
];
/// Words that say nothing of what the work is about.
const STOP_WORDS: [&str; 48] = [
    "the", "and", "for", "with", "that", "this", "from", "into", "have", "has", "was", "are", "will", "make",
    "then", "when", "what", "where", "which", "should", "would", "could", "please", "need", "needs", "want",
    "next", "now", "continue", "work", "thread", "all", "any", "can", "our", "your", "you", "not", "but",
    "use", "und", "der", "die", "das", "mit", "les", "des", "pour",
];

/// A goal.
#[derive(Debug, Clone)]
pub struct GoalMatcher {
    text: String,
    weights: Vec<f32>,
    matcher: Option<AhoCorasick>,
}

/// Which terms a text holds: one bit each.
pub type TermSet = u64;

/// In how many texts of a thread each term occurs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TermFrequencies {
    text_count: u32,
    texts_with_term: Vec<u32>,
}

impl GoalMatcher {
    /// Returns the goal `text` states, as it is to be shown.
    pub fn new(text: &str) -> Self {
        let mut terms: Vec<(String, f32)> = Vec::new();
        let mut add = |term: String, weight: f32| match terms.iter().position(|(known, _)| *known == term) {
            Some(at) => terms[at].1 = terms[at].1.max(weight),
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

    /// Returns what the person wrote.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns which terms `text` holds, each at the beginning of a word.
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
        let mut found = 0;
        for hit in matcher.find_overlapping_iter(text) {
            let before = text[..hit.start()].chars().next_back();
            let first = text[hit.start()..].chars().next().unwrap_or(' ');
            let begins_word = !before.is_some_and(char::is_alphanumeric)
                || is_ideograph(first)
                || before.is_some_and(char::is_lowercase) && first.is_uppercase();
            if begins_word {
                found |= 1 << hit.pattern().as_usize();
            }
        }
        found
    }

    /// Returns how much the terms say in a thread where they are that frequent; 0 when there are none.
    pub fn score(&self, terms: TermSet, frequencies: &TermFrequencies) -> f32 {
        let held = (0..self.weights.len()).filter(|at| terms & (1 << at) != 0);
        held.map(|at| self.weights[at] * frequencies.inverse_frequency(at)).sum()
    }
}

impl TermFrequencies {
    /// Counts the terms of one more text.
    pub fn add_text(&mut self, terms: TermSet) {
        self.text_count += 1;
        let mut left = terms;
        while left != 0 {
            let at = left.trailing_zeros() as usize;
            left &= left - 1;
            if self.texts_with_term.len() <= at {
                self.texts_with_term.resize(at + 1, 0);
            }
            self.texts_with_term[at] += 1;
        }
    }

    fn inverse_frequency(&self, at: usize) -> f32 {
        let with_term = self.texts_with_term.get(at).copied().unwrap_or(0);
        (1.0 + self.text_count as f32 / (1.0 + with_term as f32)).ln()
    }
}

/// Calls `add` with the stem of a word, or with the pairs of characters of one in a script without spaces.
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
        .find_map(|ending| lower.strip_suffix(ending).filter(|stem| stem.chars().count() >= STEM_CHARS_MIN));
    add(stem.unwrap_or(&lower).to_owned());
}

const fn is_ideograph(c: char) -> bool {
    c >= '\u{2e80}'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_found_in_other_forms_of_its_words() {
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
    fn rare_terms_say_more_than_frequent_ones() {
        let goal = GoalMatcher::new("worker zebra");
        let mut frequencies = TermFrequencies::default();
        for _ in 0..100 {
            frequencies.add_text(goal.matching_terms("the worker runs"));
        }
        let score = |text: &str| goal.score(goal.matching_terms(text), &frequencies);
        assert!(score("a zebra") > score("the worker") && score("nothing") == 0.0);
    }
}
