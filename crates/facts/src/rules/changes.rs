//! Sentences of the user that change an earlier rule: another number for it, a permission of what it forbids, its revocation, or
//! how something is after all. The rule stays beside such a sentence, because only the user can tell what is left of it.

use super::{asks_without_mark, subject_words};
use crate::text::cues;
use crate::text::stated_values::ValueChange;
use crate::tool_use::head;

/// Lowercase phrases with which a sentence revokes a rule, at its beginning.
const REVOCATIONS: &[&str] = &[
    "forget the rule",
    "forget that rule",
    "forget my rule",
    "forget about the rule",
    "drop the rule",
    "ignore the rule",
    "ignore that rule",
];
/// Lowercase phrases with which a sentence permits something, at its beginning.
const PERMISSIONS: &[&str] = &["you may", "you can"];
/// Lowercase ends of a sentence that permits something.
const PERMITTED: &[&str] =
    &["is fine now", "are fine now", "is okay now", "are okay now", "is allowed now", "are allowed now"];
/// Lowercase words before the beginning of such a sentence.
const OPENINGS: &[&str] = &["yes", "ok", "okay", "and", "also", "from now on"];
/// Lowercase words of a rule that forbids something.
const PROHIBITIONS: &[&str] =
    &["never", "no", "not", "don't", "don’t", "dont", "without", "only", "mustn't", "cannot", "avoid"];
/// The number of words of a rule that a sentence with "actually" has to have to be about the same.
const RESTATED_WORDS_MIN: usize = 2;

/// Lowercase words that tell nothing about what a rule is about.
const COMMON_WORDS: &[&str] =
    &["the", "and", "for", "with", "this", "that", "are", "was", "all", "any", "has", "have", "its", "our"];

/// A sentence that may change a rule.
pub(super) struct RuleChange<'a> {
    /// The sentence.
    sentence: &'a str,
    /// The other number that it gives.
    value: Option<ValueChange>,
    /// The kind of its change; `None` if it can only give another number.
    kind: Option<ChangeKind>,
    /// The stems of its words.
    words: Vec<String>,
}

/// The change that a sentence makes to a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChangeKind {
    /// The rule is no longer valid.
    Revoked,
    /// The action that the rule forbids is permitted.
    Permitted,
    /// The user says how something is after all: "Actually we use spaces".
    Restated,
}

impl<'a> RuleChange<'a> {
    /// Reads a sentence; `None` if it asks, or can change no rule.
    pub(super) fn read(sentence: &'a str) -> Option<Self> {
        let is_question = sentence.ends_with(['?', '？']) || asks_without_mark(sentence);
        if is_question || cues::is_pasted(sentence) || sentence.starts_with(['-', '*', '•', '>']) {
            return None;
        }
        let lower = head(sentence, 200).to_lowercase();
        let kind = change_kind(&lower);
        let value = ValueChange::read(sentence);
        if kind.is_none() && value.is_none() {
            return None;
        }
        let words = match kind {
            Some(_) => subject_words(sentence).iter().map(|word| stem(word)).collect(),
            None => Vec::new(),
        };
        Some(Self { sentence, value, kind, words })
    }

    /// Returns the sentence.
    pub(super) fn sentence(&self) -> &'a str {
        self.sentence
    }

    /// Returns whether the sentence is about this rule.
    pub(super) fn concerns(&self, rule: &str) -> bool {
        if self.value.as_ref().is_some_and(|value| value.changes(rule)) {
            return true;
        }
        let Some(kind) = self.kind else { return false };
        let subject: Vec<String> = subject_words(rule)
            .iter()
            .filter(|word| word.len() > 2 && !COMMON_WORDS.contains(&word.as_str()))
            .map(|word| stem(word))
            .collect();
        let shared = subject.iter().filter(|word| self.words.contains(word)).count();
        match kind {
            ChangeKind::Revoked => shared > 0,
            ChangeKind::Permitted => {
                shared > 0
                    && shared == subject.len()
                    && cues::contains_any_word(&rule.to_lowercase(), PROHIBITIONS)
            }
            ChangeKind::Restated => shared >= RESTATED_WORDS_MIN,
        }
    }
}

/// Returns what a lowercase sentence says about a rule.
fn change_kind(lower: &str) -> Option<ChangeKind> {
    let mut clause = lower.trim();
    let opened = |clause: &'_ str| {
        let length = OPENINGS.iter().filter(|word| clause.starts_with(**word)).map(|word| word.len());
        length.filter(|length| clause[*length..].starts_with([',', ' '])).max()
    };
    while let Some(length) = opened(clause) {
        clause = clause[length..].trim_start_matches([',', ' ']);
    }
    let begins = |cues: &[&str]| cues.iter().any(|cue| clause.starts_with(cue));
    let end = clause.trim_end_matches(['.', '!']);
    if begins(REVOCATIONS) {
        Some(ChangeKind::Revoked)
    } else if begins(PERMISSIONS) || PERMITTED.iter().any(|cue| end.ends_with(cue)) {
        Some(ChangeKind::Permitted)
    } else {
        clause.starts_with("actually").then_some(ChangeKind::Restated)
    }
}

/// Returns a word without the ending of its plural.
fn stem(word: &str) -> String {
    match word.strip_suffix("ies") {
        Some(stem) => format!("{stem}y"),
        None => word.strip_suffix('s').unwrap_or(word).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_that_changes_a_rule_concerns_it() {
        for (rule, sentence, expected) in [
            ("It must listen on port 8080.", "Change the port to 9090, 8080 is taken.", true),
            ("Always use a timeout of 10 seconds.", "No, 25 seconds.", true),
            ("Never use unsafe.", "And forget the rule about unsafe, use it wherever you like.", true),
            ("No new dependencies.", "New dependencies are fine now.", true),
            ("Never commit without asking.", "Yes, from now on you may commit without asking.", true),
            ("We use tabs here, not spaces.", "Actually we use spaces now.", true),
            ("Never use unsafe.", "You can look at the unsafe code of the parser.", false),
            ("No new dependencies.", "Two dependencies are allowed to stay.", false),
            ("No new dependencies.", "Okay, you may add new dependencies.", true),
            ("Keep the tests and the docs.", "Actually the parser and the lexer look good.", false),
            ("No mocks.", "Did you forget the rule about mocks?", false),
            ("No mocks.", "Please don't forget the rule about mocks.", false),
            ("It must listen on port 8080.", "Why does it listen on port 9090 now?", false),
            ("Never touch migration 12.", "Now write migration 13.", false),
            ("Always use Node 20.", "Node 18 is not installed here.", false),
        ] {
            let change = RuleChange::read(sentence);
            assert_eq!(change.is_some_and(|change| change.concerns(rule)), expected, "{rule} / {sentence}");
        }
    }
}
