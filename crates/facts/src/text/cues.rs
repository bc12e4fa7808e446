//! Cue words that mark a sentence as a rule or a decision, in a few common languages.
//!
//! The words are general on purpose and produce misses and false hits. A missed rule is still in the thread, and a handoff
//! summary with a false one is reviewed before it is accepted.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, Match};

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

/// Returns whether `text` contains a cue of a decision.
pub(crate) fn is_decision(text: &str) -> bool {
    DECISION_CUES.find_iter(text).any(|hit| is_whole_word(text, &hit))
}

/// Returns whether the hit is a whole word and not a part of a longer one. In scripts without spaces every hit counts.
fn is_whole_word(text: &str, hit: &Match) -> bool {
    // UTF-8 encodes U+3000 and above, which includes the CJK ideographs and kana, with a first byte of 0xE3 or more.
    if text.as_bytes()[hit.start()] >= 0xE3 {
        return true;
    }
    let before = text[..hit.start()].chars().next_back();
    let after = text[hit.end()..].chars().next();
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
