//! Finds sentences that state a shortfall beside a result: tests that failed, an exception, or a part that was put off.

use super::phrases::RESULTS;
use super::shortfall_phrases::{
    ADMISSIONS, COUNTED_FAILURES, COUNTED_NOUNS, EXCEPTIONS, LEFT_ALONE, MENDED, NUMBER_WORDS, ORDINAL_NOUNS,
    PUT_OFF, SET_ASIDE, WHOLES,
};
use crate::text::cues::contains_any_word;

/// Returns whether a lowercase clause states that something is left although it may also state a result.
pub(super) fn states_shortfall(clause: &str) -> bool {
    let is_left = contains_any_word(clause, LEFT_ALONE) && !clause.contains("as you ");
    admits_less(clause)
        || is_left
        || counts_failures(clause)
        || counts_part(clause)
        || makes_exception(clause)
        || sets_aside(clause)
}

/// Returns whether a lowercase clause admits that less was done or found than was asked: "I cannot tell".
pub(crate) fn admits_less(clause: &str) -> bool {
    contains_any_word(clause, ADMISSIONS)
}

/// Returns whether the clause counts failures that were not mended, such as "41 passed, 2 failed".
fn counts_failures(clause: &str) -> bool {
    let words: Vec<&str> =
        clause.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let is_counted = |index: usize| {
        // A status of HTTP is no count: "404 errors".
        let is_positive =
            words[index].parse().is_ok_and(|count: u32| count > 0 && !(400..600).contains(&count));
        // A word may stand between the number and the verb: "3 tests fail".
        let is_failure = |at: usize| words.get(at).is_some_and(|word| COUNTED_FAILURES.contains(word));
        is_positive && (is_failure(index + 1) || is_failure(index + 2))
    };
    (0..words.len()).any(is_counted) && !contains_any_word(clause, MENDED)
}

/// Returns whether the clause counts a part of a whole, such as "9 of the 12 services run on Node 22". The number of a step is no
/// such count, and neither is one of the past: "2 of 3 tests were red".
fn counts_part(clause: &str) -> bool {
    let words: Vec<&str> = clause
        .split(|c: char| !c.is_alphanumeric() && c != '/' && c != '.')
        .map(|word| word.trim_matches('.'))
        .filter(|word| !word.is_empty())
        .collect();
    let is_part = |index: usize| {
        let ordinal = index.checked_sub(1).is_some_and(|before| ORDINAL_NOUNS.contains(&words[before]));
        let (part, whole) = match (words[index].split_once('/'), &words[index + 1..]) {
            // A fraction or a date has no such word behind it.
            (Some(counts), [noun, ..]) if COUNTED_NOUNS.contains(noun) => counts,
            (None, ["of", "the" | "our" | "your" | "all", whole, _, ..] | ["of", whole, _, ..]) => {
                (words[index], *whole)
            }
            _ => return false,
        };
        let counts = count(part).zip(count(whole));
        let is_told = words[..index].iter().any(|word| ["i", "we"].contains(word)) || words.contains(&"done");
        // "One of the tests covers it" counts nothing.
        !ordinal && counts.is_some_and(|(part, whole)| part < whole && (part > 1 || is_told))
    };
    (0..words.len()).any(is_part) && !contains_any_word(clause, MENDED) && !contains_any_word(clause, WHOLES)
}

/// Returns the number that a word says: digits, or one of the lowercase words from "one" to "twelve".
fn count(word: &str) -> Option<usize> {
    let spelled = || NUMBER_WORDS.iter().position(|known| *known == word).map(|index| index + 1);
    word.parse().ok().or_else(spelled)
}

/// Returns whether the clause says that the whole was done with an exception: "everything passes except the rollback".
fn makes_exception(clause: &str) -> bool {
    EXCEPTIONS.iter().any(|word| {
        clause.split_once(word).is_some_and(|(before, after)| {
            let before = before.rsplit(':').next().unwrap_or(before);
            let is_whole = contains_any_word(before, WHOLES) && contains_any_word(before, RESULTS);
            is_whole && after.starts_with(' ') && !after.trim().is_empty()
        })
    })
}

/// Returns whether the clause says that a part was left, skipped or put off: "I left invoices alone for now".
fn sets_aside(clause: &str) -> bool {
    contains_any_word(clause, PUT_OFF) && contains_any_word(clause, SET_ASIDE)
}
