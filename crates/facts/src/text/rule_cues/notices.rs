//! Decides which sentence gives notice of a rule without stating an order: a freeze, a demand that is stressed, or an earlier
//! rule that still stands.

use super::statements::DEADLINES;
use super::{GENERAL_WORDS, PRONOUNS, begins_with_any};
use crate::text::cues::contains_any_word;

/// Nouns for a rule that was stated before.
const RULE_NOUNS: &[&str] = &[
    "ban",
    "rule",
    "freeze",
    "policy",
    "restriction",
    "prohibition",
    "embargo",
    "moratorium",
    "convention",
    "agreement",
    "instruction",
];
/// Predicates with which an earlier rule is upheld.
const UPHELD: &[&str] = &[
    "still stands",
    "still stand",
    "still holds",
    "still hold",
    "stays in force",
    "remains in force",
    "is still in force",
    "is still in effect",
    "is in effect",
    "stays in effect",
    "remains in effect",
    "stays in place",
];
/// Beginnings of a sentence that stresses a demand, before an adverb and one of [`STRESSES`].
const STRESS_BEGINNINGS: &[&str] = &["it's ", "it’s ", "it is ", "what is ", "what's "];
/// Adverbs before one of [`STRESSES`].
const STRESS_ADVERBS: &[&str] = &["really ", "very ", "so ", "also ", "most "];
/// Words that stress a demand.
const STRESSES: &[&str] = &["important", "essential", "crucial", "vital"];
/// Whole beginnings of a sentence that stresses a demand.
const STRESS_PHRASES: &[&str] = &["it matters", "what matters", "i insist", "we insist"];
/// Days and months until which something is frozen, and other words for such a time.
pub(super) const FREEZE_ENDS: &[&str] = &[
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
    "christmas",
    "release",
    "launch",
    "audit",
    "further notice",
    "i say",
    "i tell",
    "after the release",
    "after the launch",
    "end of",
];
/// Predicates with which something is frozen.
const FREEZES: &[&str] = &["is frozen", "are frozen", "is locked", "are locked", "freeze", "is off limits"];
/// Consequences of a freeze.
const FREEZE_CONSEQUENCES: &[&str] = &[
    "nothing goes",
    "nothing ships",
    "nothing lands",
    "nothing gets merged",
    "nothing gets deployed",
    "nothing is merged",
    "nothing is deployed",
    "nothing may",
    "no merges",
    "no deploys",
    "no deployments",
    "no pushes",
    "no releases",
];

/// Returns whether a sentence says that something may not be changed for a time: "prod is frozen until the 14th". A freeze
/// without an end or a consequence may be a defect.
pub(super) fn is_freeze(lower: &str) -> bool {
    if !contains_any_word(lower, FREEZES) {
        return false;
    }
    let has_end = FREEZES.iter().any(|cue| {
        lower.match_indices(cue).any(|(start, cue)| {
            let after = lower[start + cue.len()..].trim_start();
            let end = ["until ", "till ", "through "].iter().find_map(|word| after.strip_prefix(word));
            end.map(|end| end.strip_prefix("the ").unwrap_or(end))
                .is_some_and(|end| begins_with_any(end, FREEZE_ENDS) || is_date(end))
        })
    });
    let is_locked = contains_any_word(lower, &["is locked", "are locked"]);
    has_end || !is_locked && contains_any_word(lower, FREEZE_CONSEQUENCES)
}

/// Returns whether a lowercase text begins with a day, such as "14th" or "2025-03-14". "3rd click" is none.
fn is_date(text: &str) -> bool {
    let word = text.split([' ', ',', '.', '!', ';', ')']).next().unwrap_or_default();
    let digits = word.bytes().take_while(u8::is_ascii_digit).count();
    let rest = text[word.len()..].trim_start();
    let is_end = !rest.starts_with(char::is_alphanumeric)
        || begins_with_any(rest, &["so", "and", "of", "because", "at"])
        || begins_with_any(rest, FREEZE_ENDS);
    let is_day = ["st", "nd", "rd", "th"].contains(&&word[digits..]) || word[digits..].contains(['-', '/']);
    digits > 0 && is_day && is_end
}

/// Returns whether a sentence upholds a rule that was stated before: "the ban on network calls still stands".
pub(super) fn upholds_rule(lower: &str) -> bool {
    let is_rule = |subject: &str| {
        begins_with_any(subject, &["the", "my", "our", "that", "this"])
            && contains_any_word(subject, RULE_NOUNS)
            && !subject.contains(',')
    };
    // A rule of a program also applies: only a rule about something is surely one of the user.
    let names_object =
        |subject: &str| [" on ", " about ", " against ", " no-"].iter().any(|link| subject.contains(link));
    let is_upheld = UPHELD.iter().any(|end| {
        lower.split_once(end).is_some_and(|(subject, after)| {
            is_rule(subject)
                && !after.starts_with(char::is_alphanumeric)
                && !begins_with_any(after.trim_start(), &["out", "up", "at"])
        })
    }) || [" still applies", " still apply"].iter().any(|end| {
        lower.split_once(end).is_some_and(|(subject, _)| is_rule(subject) && names_object(subject))
    });
    is_upheld || begins_with_any(lower, &["there's a ban on", "there is a ban on", "we have a ban on"])
}

/// Returns whether a sentence stresses a demand that is valid for every case: "it's important to me that every commit is
/// signed".
pub(super) fn stresses_demand(lower: &str) -> bool {
    let strip_one = |text, words: &[&str]| {
        let stripped: Option<&str> = words.iter().find_map(|word| str::strip_prefix(text, *word));
        stripped
    };
    let adjective = strip_one(lower, STRESS_BEGINNINGS)
        .map(|rest| strip_one(rest, STRESS_ADVERBS).unwrap_or(rest))
        .and_then(|rest| strip_one(rest, STRESSES));
    let Some(rest) = adjective.or_else(|| strip_one(lower, STRESS_PHRASES)) else { return false };
    let rest = rest.trim_start();
    let rest = strip_one(rest, &["to me ", "to us ", "for me ", "for us "]).unwrap_or(rest);
    let rest = rest.strip_prefix("is ").unwrap_or(rest);
    let is_general = |demand: &str| {
        contains_any_word(demand, GENERAL_WORDS)
            || contains_any_word(
                demand,
                &["no", "don't", "don’t", "do not", "stay", "stays", "remain", "remains"],
            )
    };
    if contains_any_word(rest, DEADLINES) {
        return false;
    }
    match (rest.strip_prefix("that "), rest.strip_prefix("on ")) {
        (Some(demand), _) => is_general(demand),
        (None, Some(thing)) => !PRONOUNS.contains(&thing.trim_end_matches(['.', '!'])),
        (None, None) => false,
    }
}
