//! Decides whether an order of the user says how to work or asks for one thing at present.

use super::standing::{imperatives, is_only_pronoun, is_standing_rule};
use super::{HABIT_VERBS, ONE_TIME_WORDS, PROHIBITIONS, PRONOUNS, begins_with_any};
use crate::text::cues::contains_any_word;

/// Verbs of an order about how to work, such as "use the attic", when it corrects a call.
const CORRECTION_VERBS: &[&str] = &["use", "prefer", "move", "put", "keep", "place", "store", "name"];
/// Words that make an order a correction of how to work, such as "push only after my review".
const CORRECTION_WORDS: &[&str] = &["only", "instead", "rather than", "not"];
/// Lowercase words before the order of a sentence.
const ORDER_OPENERS: &[&str] = &[
    "ok", "okay", "also", "so", "then", "and", "but", "no", "nope", "yes", "yeah", "wait", "stop", "please",
    "hmm", "now", "alright", "actually",
];
/// Lowercase beginnings of sentences in which the author asks for one thing, and not for a way to work.
const SINGLE_WISHES: &[&str] = &[
    "i'll",
    "i will",
    "i apologize",
    "i want to",
    "i want you to",
    "i'd like to",
    "i’d like to",
    "i would like to",
    "i'd like you to",
    "we need to",
    "i need to",
    "i need you to",
    "can you",
    "could you",
    "let's",
    "lets",
    "let’s",
    "ensure we have",
    "make sure we have",
    "if it's",
    "if that's",
    "if so",
    "sorry",
];
/// Verbs of an order that is carried out once, at the beginning of a sentence.
const TASK_VERBS: &[&str] = &[
    "add",
    "book",
    "build",
    "cancel",
    "change",
    "check",
    "clean",
    "close",
    "commit",
    "continue",
    "create",
    "delete",
    "drop",
    "explain",
    "extract",
    "find",
    "fix",
    "give",
    "go",
    "implement",
    "install",
    "investigate",
    "look",
    "move",
    "open",
    "port",
    "print",
    "read",
    "remove",
    "rename",
    "replace",
    "revert",
    "rewrite",
    "send",
    "show",
    "split",
    "start",
    "tell",
    "try",
    "update",
    "upgrade",
];

/// Words of a reason for which something is spared, such as "the mobile team still builds it".
const REASON_WORDS: &[&str] = &[
    "because",
    "since",
    "still",
    "is",
    "are",
    "belongs",
    "needs",
    "need",
    "uses",
    "use",
    "owns",
    "depends",
    "builds",
    "generated",
];
/// Words with which another thing is named in place of the refused one.
const REPLACEMENT_WORDS: &[&str] = &["i meant", "i mean", "instead", "but", "wrong", "use the", "take"];

/// Returns whether a lowercase order spares a path and says why: "not legacy/, the mobile team still builds it". Without a
/// reason it may only replace one path by another.
fn spares_path(order: &str) -> bool {
    let spared = order.strip_prefix("not ").and_then(|rest| rest.split_once([',', ';', ':', '—', '–']));
    spared.is_some_and(|(path, reason)| {
        path.contains(['/', '`'])
            && path.split_whitespace().count() <= 3
            && contains_any_word(reason, REASON_WORDS)
            && !contains_any_word(reason, REPLACEMENT_WORDS)
    })
}

/// Returns whether a sentence with which the user refused a call says how to work from then on: a standing rule, or an order
/// that names what to use. Questions, statements and orders about the present moment or object are none.
pub(crate) fn is_lasting_correction(sentence: &str) -> bool {
    if is_standing_rule(sentence) {
        return true;
    }
    let lower = sentence.to_lowercase();
    let order = without_openers(&lower);
    let mut words = order.split_whitespace().map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()));
    let (verb, object) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let is_order = CORRECTION_VERBS.contains(&verb)
        || spares_path(order)
        || HABIT_VERBS.contains(&verb) && contains_any_word(order, CORRECTION_WORDS);
    let is_question = order.trim_end_matches([')', '"', '”', '*', ' ']).ends_with(['?', '？']);
    is_order
        && !is_question
        && !object.is_empty()
        && !PRONOUNS.contains(&object)
        && !contains_any_word(order, ONE_TIME_WORDS)
}

/// Returns whether a sentence with the words of a rule asks for one thing at present, such as "I want to move my flight" or
/// "remove the old reader", and says nothing about how to work.
pub fn asks_once(sentence: &str) -> bool {
    if is_standing_rule(sentence) {
        return false;
    }
    let lower = sentence.trim_start_matches(['-', '*', '•', '+', '>', ' ']).to_lowercase();
    let order = without_openers(&lower);
    let is_about_pronoun = PROHIBITIONS.iter().any(|word| imperatives(order, word).any(is_only_pronoun));
    is_about_pronoun
        || begins_with_any(order, SINGLE_WISHES)
        || begins_with_any(order, TASK_VERBS)
        || contains_any_word(order, ONE_TIME_WORDS)
}

/// Returns a lowercase sentence without the words before its order.
fn without_openers(lower: &str) -> &str {
    let mut order = lower;
    while let Some(opener) = ORDER_OPENERS.iter().find(|opener| begins_with_any(order, &[**opener])) {
        order = order[opener.len()..].trim_start_matches([',', '.', '!', ':', '-', ' ']);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_for_once_or_says_how_to_work() {
        for (sentence, is_once) in [
            ("I'd like to move my seat.", true),
            ("ok, also rename the column instead", true),
            ("no don't set it, let's see", true),
            ("sorry, it was the other window, so let's not jump to that", true),
            ("I'll make sure to find the number.", true),
            ("Never move my seat.", false),
            ("Tests should use the new reader.", false),
            ("Use tabs instead of spaces.", false),
            ("I want tests for every reader.", false),
        ] {
            assert_eq!(asks_once(sentence), is_once, "{sentence:?}");
        }
    }
}
