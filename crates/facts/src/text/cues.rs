//! Cue words that mark a sentence as a decision, in a few common languages, and the forms of questions and pasted output.
//!
//! The words are general on purpose and produce misses and false hits. A missed decision is still in the thread, and a
//! handoff summary with a false one is reviewed before it is accepted. The words of rules are in [`super::rule_cues`].

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, Match};

/// Words of a sentence that states a choice.
const CHOICE_WORDS: [&str; 23] = [
    "decided",
    "decision",
    "let's go with",
    "go with",
    "going with",
    "we'll use",
    "i'll use",
    "we will use",
    "chose",
    "chosen",
    "settled on",
    "opted",
    "agreed",
    "approved",
    "rejected",
    "entschieden",
    "décidé",
    "decidido",
    "决定",
    "选择",
    "改用",
    "採用",
    "решили",
];
/// Words of a sentence that names an alternative or the reason for a choice.
const REASON_WORDS: [&str; 7] =
    ["instead of", "rather than", "the approach", "root cause", "turns out", "because of", "trade-off"];

/// Matches [`CHOICE_WORDS`] and [`REASON_WORDS`].
static DECISION_CUES: LazyLock<AhoCorasick> =
    LazyLock::new(|| build_matcher(CHOICE_WORDS.iter().chain(&REASON_WORDS)));
/// Matches [`CHOICE_WORDS`].
static CHOICE_CUES: LazyLock<AhoCorasick> = LazyLock::new(|| build_matcher(CHOICE_WORDS.iter()));

/// Builds an automaton that finds the words in any ASCII case.
pub(super) fn build_matcher<'a>(words: impl Iterator<Item = &'a &'a str>) -> AhoCorasick {
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .build(words)
        .expect("the words are constants that the tests build")
}

/// Returns whether a sentence is a question, ignoring quotation marks and emphasis behind it.
pub(crate) fn is_question(sentence: &str) -> bool {
    sentence.trim_end_matches(['"', '”', '*', '_', ')', ' ', '\n']).ends_with(['?', '？'])
}

/// Returns whether a sentence is pasted output of a program: it has a frame, a prompt, or a time of day with seconds.
pub fn is_pasted(sentence: &str) -> bool {
    let has_time = sentence.as_bytes().windows(8).any(|window| {
        window.iter().enumerate().all(|(index, byte)| match index {
            2 | 5 => *byte == b':',
            _ => byte.is_ascii_digit(),
        })
    });
    has_time || sentence.contains(['┃', '│', '╭', '╰', '┌', '└', '├', '❯'])
}

/// Returns whether `text` contains a cue of a decision.
pub(crate) fn is_decision(text: &str) -> bool {
    DECISION_CUES.find_iter(text).any(|hit| is_whole_word(text, &hit))
}

/// Returns whether a sentence states a choice in so many words, and not only a reason or an alternative.
pub fn states_choice(sentence: &str) -> bool {
    CHOICE_CUES.find_iter(sentence).any(|hit| is_whole_word(sentence, &hit)) && !is_question(sentence)
}

/// Returns whether a lowercase text contains one of the words or phrases as whole words.
pub(crate) fn contains_any_word(lower: &str, words: &[&str]) -> bool {
    words.iter().any(|word| {
        lower.match_indices(word).any(|(start, word)| is_bounded(lower, start..start + word.len()))
    })
}

/// Returns whether the hit is a whole word and not a part of a longer one.
pub(super) fn is_whole_word(text: &str, hit: &Match) -> bool {
    is_bounded(text, hit.range())
}

/// Returns whether the range of the text is bounded by characters that do not continue a word. In scripts without spaces
/// every range counts.
pub(super) fn is_bounded(text: &str, range: std::ops::Range<usize>) -> bool {
    // UTF-8 encodes U+3000 and above, which includes the CJK ideographs and kana, with a first byte of 0xE3 or more.
    if text.as_bytes()[range.start] >= 0xE3 {
        return true;
    }
    let before = text[..range.start].chars().next_back();
    let after = text[range.end..].chars().next();
    !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(|c| c.is_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_is_recognized_by_whole_words() {
        assert!(is_decision("We decided on B.") && !is_decision("Undecided."));
    }
}
