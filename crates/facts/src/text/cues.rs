//! Cue words that mark a sentence as a rule or a decision, in a few common languages.
//!
//! The words are general on purpose and produce misses and false hits. A missed rule is still in the thread, and a handoff
//! summary with a false one is reviewed before it is accepted.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, Match};

use crate::limits::RULE_CHARS_MAX;

/// Words of a strict rule. Matched as whole words, in any ASCII case.
const ORDER_WORDS: [&str; 38] = [
    "must",
    "never",
    "always",
    "do not",
    "don't",
    "dont",
    "don’t",
    "only",
    "instead",
    "make sure",
    "ensure",
    "avoid",
    "no need",
    "stop",
    "let's not",
    "rather than",
    "required",
    "forbidden",
    "niemals",
    "immer",
    "auf keinen fall",
    "nicht",
    "jamais",
    "toujours",
    "nunca",
    "siempre",
    "mai",
    "sempre",
    "нельзя",
    "никогда",
    "всегда",
    "不要",
    "必须",
    "禁止",
    "务必",
    "必ず",
    "しないで",
    "절대",
];
/// Words of a wish, which is a rule that is not strict.
const WISH_WORDS: [&str; 24] = [
    "should",
    "shouldn't",
    "shouldnt",
    "prefer",
    "without",
    "keep",
    "remove",
    "rename",
    "i want",
    "i'd like",
    "i would like",
    "we need to",
    "needs to",
    "please use",
    "stattdessen",
    "bitte",
    "nur",
    "plutôt",
    "seulement",
    "sin",
    "应该",
    "不应",
    "别",
    "ください",
];
/// Words of a sentence that states a choice, or the reason for one.
const DECISION_WORDS: [&str; 30] = [
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
    "instead of",
    "agreed",
    "rather than",
    "the approach",
    "root cause",
    "turns out",
    "because of",
    "trade-off",
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

/// Matches [`ORDER_WORDS`] and [`WISH_WORDS`]. Patterns below `ORDER_WORDS.len()` are orders.
static RULE_CUES: LazyLock<AhoCorasick> =
    LazyLock::new(|| build_matcher(ORDER_WORDS.iter().chain(&WISH_WORDS)));
/// Matches [`DECISION_WORDS`].
static DECISION_CUES: LazyLock<AhoCorasick> = LazyLock::new(|| build_matcher(DECISION_WORDS.iter()));

/// Builds an automaton that finds the words in any ASCII case.
fn build_matcher<'a>(words: impl Iterator<Item = &'a &'a str>) -> AhoCorasick {
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .build(words)
        .expect("the words are constants that the tests build")
}

/// Words of a guess. A sentence with one of them is not an order.
const HEDGES: [&str; 8] = ["i think", "seems", "maybe", "perhaps", "i guess", "not sure", "wonder", "fyi"];

/// Returns `Some(true)` if `sentence` states an order, `Some(false)` if it states a wish, and `None` if it has no cue of a
/// rule. A question or a guess with the words of an order counts as a wish.
pub(crate) fn rule_strictness(sentence: &str) -> Option<bool> {
    let mut strictness = None;
    for hit in RULE_CUES.find_overlapping_iter(sentence).filter(|hit| is_whole_word(sentence, hit)) {
        strictness = Some(strictness == Some(true) || hit.pattern().as_usize() < ORDER_WORDS.len());
    }
    let is_order = strictness? && !sentence.trim_end().ends_with(['?', '？']) && {
        let lower = sentence.to_lowercase();
        !HEDGES.iter().any(|hedge| lower.contains(hedge))
    };
    Some(is_order)
}

/// Phrases that make a sentence a standing rule wherever they are in it.
const STANDING_PHRASES: &[&str] = &[
    "must",
    "mustn't",
    "should never",
    "should always",
    "shouldn't",
    "should not",
    "may not",
    "under no circumstances",
    "from now on",
    "at all times",
    "never ever",
    "forbidden",
    "not allowed",
    "niemals",
    "immer",
    "auf keinen fall",
    "jamais",
    "toujours",
    "nunca",
    "siempre",
    "mai",
    "sempre",
    "нельзя",
    "никогда",
    "всегда",
    "不要",
    "必须",
    "禁止",
    "务必",
    "必ず",
    "しないで",
    "절대",
];
/// Words that make a sentence a standing rule at the beginning of a clause, in the imperative.
const STANDING_IMPERATIVES: &[&str] = &[
    "never",
    "always",
    "don't",
    "dont",
    "don’t",
    "do not",
    "only",
    "keep",
    "avoid",
    "ensure",
    "make sure",
    "no",
    "without",
    "stop",
];
/// Words between which and an imperative a clause begins, such as "please never".
const CLAUSE_OPENERS: &[&str] = &[
    "please", "and", "but", "also", "so", "then", "or", "you", "we", "just", "to", "should", "always",
    "bitte", "nicht", "again", "remember", "instead",
];
/// Beginnings of clauses that only look like an imperative.
const NO_RULES: &[&str] = &[
    "never mind",
    "don't worry",
    "dont worry",
    "don't know",
    "dont know",
    "don't think",
    "dont think",
    "don't see",
    "don't have",
    "dont have",
    "don't understand",
    "don't care",
    "don't mind",
    "don't remember",
    "don't get",
    "don't need",
    "do not know",
    "do not think",
    "do not see",
    "do not have",
    "keep going",
    "keep that in mind",
    "keep this in mind",
    "keep in mind",
    "keep it up",
    "no idea",
    "no worries",
    "no problem",
    "no need",
    "no thanks",
    "no it",
    "no i",
    "no that",
    "no wait",
    "no one",
    "only one",
];

/// Returns whether the sentence states a rule that stays valid: an order in the imperative, or one with "must" and the
/// like. Questions, guesses, code, and statements about how something behaves are none.
pub(crate) fn is_standing_rule(sentence: &str) -> bool {
    let sentence = sentence.trim_start_matches(['-', '*', '•', '+', '>', ' ']);
    let is_prose = sentence.len() > 6 && !sentence.starts_with(['|', '`', '{', '}', '$', '<', '#']);
    if !is_prose || sentence.trim_end().ends_with(['?', '？', ':']) || sentence.len() > 4 * RULE_CHARS_MAX {
        return false;
    }
    let lower = sentence.to_lowercase();
    if HEDGES.iter().any(|hedge| lower.contains(hedge)) {
        return false;
    }
    let is_imperative = |word: &str| {
        lower.match_indices(word).any(|(start, word)| {
            is_bounded(&lower, start..start + word.len())
                && begins_clause(&lower[..start])
                && lower[start + word.len()..].starts_with(' ')
                && !NO_RULES.iter().any(|none| {
                    lower[start..].starts_with(none) && is_bounded(&lower, start..start + none.len())
                })
        })
    };
    contains_any_word(&lower, STANDING_PHRASES) || STANDING_IMPERATIVES.iter().any(|word| is_imperative(word))
}

/// Returns whether a clause begins after this text: it is empty, or ends in punctuation or one of [`CLAUSE_OPENERS`].
fn begins_clause(before: &str) -> bool {
    let before = before.trim_end();
    before.is_empty()
        || before.ends_with([',', ';', ':', '.', '!', '(', '"', '—', '–', '-', '\'', '“'])
        || before
            .rsplit(|c: char| !c.is_alphanumeric())
            .next()
            .is_some_and(|word| CLAUSE_OPENERS.contains(&word))
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

/// Returns whether a lowercase text contains one of the words or phrases as whole words.
pub(crate) fn contains_any_word(lower: &str, words: &[&str]) -> bool {
    words.iter().any(|word| {
        lower.match_indices(word).any(|(start, word)| is_bounded(lower, start..start + word.len()))
    })
}

/// Returns whether the hit is a whole word and not a part of a longer one.
fn is_whole_word(text: &str, hit: &Match) -> bool {
    is_bounded(text, hit.range())
}

/// Returns whether the range of the text is bounded by characters that do not continue a word. In scripts without spaces
/// every range counts.
fn is_bounded(text: &str, range: std::ops::Range<usize>) -> bool {
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
    fn rules_are_recognised() {
        for (sentence, expected) in [
            ("Never push to main.", Some(true)),
            ("I'd like tabs", Some(false)),
            ("I think it always breaks", Some(false)),
            ("The mustard is green.", None),
            ("请不要提交", Some(true)),
            ("Bitte keine neuen Abhängigkeiten", Some(false)),
            ("it works", None),
        ] {
            assert_eq!(rule_strictness(sentence), expected, "{sentence:?}");
        }
        assert!(is_decision("We decided on B.") && !is_decision("Undecided."));
    }
}
