//! Finds sentences that state a shortfall beside a result: tests that failed, an exception, or a part that was put off.

use super::phrases::{
    ADMISSIONS, COUNTED_FAILURES, EXCEPTIONS, LEFT_ALONE, MENDED, PUT_OFF, RESULTS, SET_ASIDE, WHOLES,
};
use crate::text::cues::contains_any_word;

/// Returns whether a lowercase clause states that something is left although it may also state a result.
pub(super) fn states_shortfall(clause: &str) -> bool {
    let is_left = contains_any_word(clause, LEFT_ALONE) && !clause.contains("as you ");
    admits_less(clause) || is_left || counts_failures(clause) || makes_exception(clause) || sets_aside(clause)
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
