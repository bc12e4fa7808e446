//! Decides which statement is a standing rule although it has no imperative, such as "log lines stay in English" or "every
//! new function gets a docstring". A statement about how something behaves is none.

use super::notices::{FREEZE_ENDS, is_freeze, stresses_demand, upholds_rule};
use super::standing::direct_imperatives;
use super::{PRONOUNS, begins_with_any};
use crate::text::cues::contains_any_word;

/// Maximum words in the subject of a statement.
const SUBJECT_WORDS_MAX: usize = 5;
/// Maximum words after "before" and "after" in an order of precedence, such as "tests go before code".
const PRECEDENCE_WORDS_MAX: usize = 3;
/// Objects with an article before which other work comes, such as in "tests come before the code".
const PRODUCTS: &[&str] = &["the code", "the implementation", "the feature", "the fix"];
/// Natural languages in which people let an agent write.
const LANGUAGES: &[&str] = &[
    "english",
    "british english",
    "american english",
    "us english",
    "german",
    "french",
    "spanish",
    "italian",
    "portuguese",
    "dutch",
    "polish",
    "russian",
    "chinese",
    "japanese",
    "korean",
];
/// Notations, units and tools that "only" demands, as in "metric units only".
const NOTATIONS: &[&str] = &[
    "ascii",
    "utf-8",
    "utc",
    "markdown",
    "plain text",
    "json",
    "lowercase",
    "uppercase",
    "snake case",
    "snake_case",
    "kebab-case",
    "tabs",
    "spaces",
    "si units",
    "metric units",
    "squash merges",
    "typescript",
    "python",
    "rust",
    "stdlib",
    "standard library",
];
/// Words before the subject of a statement.
const OPENERS: &[&str] = &["please", "also", "and", "but", "so", "remember", "note", "again", "then", "or"];
/// First words of a subject that is one thing or a pronoun, and not a kind of things.
const DETERMINERS: &[&str] = &[
    "the", "a", "an", "this", "that", "these", "those", "my", "our", "your", "its", "his", "her", "their",
    "some", "many", "most", "few", "several", "both", "two", "three", "other",
];
/// First words of a statement about how something behaves.
const OBSERVER_WORDS: &[&str] = &[
    "i",
    "we",
    "you",
    "he",
    "she",
    "they",
    "it",
    "it's",
    "it’s",
    "that's",
    "there",
    "there's",
    "what",
    "which",
    "who",
    "how",
    "where",
    "here",
    "looks",
    "makes",
    "means",
    "says",
    "shows",
    "sometimes",
    "apparently",
    "usually",
];
/// Words with which a statement tells when or why something is observed.
const OBSERVATION_WORDS: &[&str] = &[
    "still",
    "when",
    "while",
    "after",
    "even",
    "because",
    "if",
    "though",
    "although",
    "somehow",
    "just",
    "sometimes",
    "yesterday",
];
/// Words for a defect, or for an effect that is reported.
const DEFECTS: &[&str] = &[
    "broken",
    "wrong",
    "missing",
    "slow",
    "red",
    "empty",
    "stuck",
    "gone",
    "down",
    "flaky",
    "error",
    "errors",
    "failure",
    "failures",
    "timeout",
    "crash",
    "warning",
    "warnings",
    "null",
    "undefined",
    "lost",
    "dead",
    "late",
    "invalid",
    "corrupt",
    "duplicate",
    "fine",
    "ok",
    "okay",
    "done",
    "green",
    "off",
    "different",
    "inconsistent",
];
/// Things that are made while a program is written.
const WORK_NOUNS: &[&str] = &[
    "function",
    "method",
    "module",
    "file",
    "test",
    "commit",
    "pr",
    "pull request",
    "merge request",
    "change",
    "feature",
    "fix",
    "bugfix",
    "class",
    "type",
    "struct",
    "trait",
    "interface",
    "migration",
    "release",
    "branch",
    "script",
    "crate",
    "package",
    "component",
    "helper",
    "fixture",
    "endpoint",
    "handler",
    "query",
    "flag",
    "option",
    "constant",
    "item",
    "doc",
    "page",
    "snapshot",
    "prompt",
    "spec",
    "feature flag",
    "todo",
];
/// Things that accompany [`WORK_NOUNS`].
const ARTIFACTS: &[&str] = &[
    "test",
    "tests",
    "docstring",
    "docstrings",
    "doc comment",
    "comment",
    "changelog",
    "review",
    "reviewer",
    "approval",
    "sign-off",
    "signature",
    "entry",
    "description",
    "annotation",
    "annotations",
    "type hints",
    "ticket",
    "issue number",
    "spec",
    "rollback",
    "down migration",
    "docs",
    "documentation",
    "owner",
    "label",
    "tag",
    "header",
    "prefix",
    "suffix",
    "its own file",
    "its own module",
    "its own commit",
    "its own branch",
    "its own test",
    "its own folder",
    "its own directory",
    "example",
];
/// Words for a program that makes an artifact by itself.
const AUTOMATION_WORDS: &[&str] = &["ci", "bot", "automatically"];
/// States in which a kind of things is to stay.
const KEPT_STATES: &[&str] = &[
    "stable",
    "small",
    "short",
    "simple",
    "compatible",
    "backward",
    "backwards",
    "minimal",
    "private",
    "readable",
    "sorted",
    "deterministic",
    "alphabetical",
    "secret",
    "separate",
    "untouched",
    "as they are",
    "as is",
    "out of",
];
/// States in which a single thing is to stay.
const PROTECTED_STATES: &[&str] =
    &["as it is", "as is", "as they are", "untouched", "where it is", "off limits"];
/// Ends of a statement that make it valid for every case.
const SCOPE_ENDS: &[&str] = &[
    ", everywhere",
    " — everywhere",
    " – everywhere",
    " - everywhere",
    ", throughout",
    ", without exception",
    ", across the board",
];
/// Words for a point in time at which a single order is due, or at which something happened.
pub(super) const DEADLINES: &[&str] = &[
    "lunch",
    "noon",
    "midnight",
    "the meeting",
    "the demo",
    "this week",
    "by friday",
    "by monday",
    "yesterday",
    "was",
    "were",
];
/// Returns whether a lowercase sentence with no word of a single occasion states how things are to be.
pub(super) fn states_rule(lower: &str) -> bool {
    is_freeze(lower)
        || upholds_rule(lower)
        || stresses_demand(lower)
        || holds_everywhere(lower)
        || demands_language(lower)
        || lower
            .split(';')
            .flat_map(|part| part.split(", and "))
            .flat_map(|part| part.split(", but "))
            .any(|clause| keeps_state(clause) || sets_precedence(clause) || demands_artifact(clause))
}

/// A statement, split at its verb.
struct Statement<'a> {
    /// The words of the subject.
    subject: Vec<&'a str>,
    /// The verb.
    verb: &'a str,
    /// The text after the verb, without the punctuation at its end.
    predicate: &'a str,
}

impl<'a> Statement<'a> {
    /// Reads a lowercase clause with one of the verbs; `None` if it has none of them, or more before it than a short subject.
    fn read(clause: &'a str, verbs: &[&str]) -> Option<Self> {
        let mut rest = clause.trim();
        let mut subject = Vec::new();
        while subject.len() <= SUBJECT_WORDS_MAX {
            let (word, after) = rest.split_once(' ')?;
            if !subject.is_empty() && verbs.contains(&word) {
                let predicate = after.trim().trim_end_matches(['.', '!', '*', '"', ')']);
                return Some(Self { subject, verb: word, predicate });
            }
            let is_opener = subject.is_empty() && OPENERS.contains(&word.trim_end_matches([',', ':']));
            if !is_opener && word.ends_with([',', ':', '.', ')', '"', '!', '?']) {
                return None;
            }
            if !is_opener {
                subject.push(word);
            }
            rest = after;
        }
        None
    }

    /// Returns whether the statement tells how something was found to behave: its subject is a pronoun, or it says when or
    /// why something happens.
    fn is_observation(&self) -> bool {
        let is_condition = |word: &&str| OBSERVATION_WORDS.contains(word);
        let begins = |words: &[&str]| self.subject.first().is_some_and(|word| words.contains(word));
        begins(OBSERVER_WORDS)
            || (begins(PRONOUNS) && self.subject.len() == 1)
            || self.subject.iter().any(is_condition)
            || contains_any_word(self.predicate, OBSERVATION_WORDS)
    }

    /// Returns whether the subject is a kind of things, such as "log lines", and not particular ones.
    fn is_about_kind(&self) -> bool {
        let is_plural = |word: &&str| word.len() > 3 && word.ends_with('s') && !word.ends_with("ss");
        self.subject.first().is_some_and(|word| !DETERMINERS.contains(word))
            && self.subject.last().is_some_and(is_plural)
    }

    /// Returns whether the subject names a thing that is made while a program is written.
    fn is_about_work(&self) -> bool {
        let is_noun =
            |word: &str| WORK_NOUNS.contains(&word) || WORK_NOUNS.contains(&word.trim_end_matches('s'));
        self.subject.iter().any(|word| is_noun(word))
            || self.subject.windows(2).any(|pair| is_noun(&pair.join(" ")))
    }
}

/// Returns whether a clause says in which language or state something stays: "log lines stay in English".
fn keeps_state(clause: &str) -> bool {
    let Some(statement) = Statement::read(clause, &["stay", "stays", "remain", "remains"]) else {
        return false;
    };
    if statement.is_observation() {
        return false;
    }
    let predicate = statement.predicate;
    let has_limit = begins_with_any(predicate, &["under", "below", "within"])
        && predicate.contains(|c: char| c.is_ascii_digit());
    let is_kind = statement.is_about_kind() && ["stay", "remain"].contains(&statement.verb);
    is_in_language(predicate)
        || PROTECTED_STATES.contains(&predicate)
        || is_kind && (has_limit || begins_with_any(predicate, KEPT_STATES))
}

/// Returns whether a clause says which kind of things comes first, or where it belongs: "tests go before code".
fn sets_precedence(clause: &str) -> bool {
    let Some(statement) = Statement::read(clause, &["go", "come", "belong"]) else { return false };
    // "After" names a condition elsewhere, and the order of two kinds here.
    let is_after = statement.predicate.starts_with("after ");
    if !statement.is_about_kind() || !is_after && statement.is_observation() {
        return false;
    }
    let (relation, object) = statement.predicate.split_once(' ').unwrap_or((statement.predicate, ""));
    let is_kind = !object.is_empty()
        && object.split_whitespace().count() <= PRECEDENCE_WORDS_MAX
        && (PRODUCTS.contains(&object) || !object.split_whitespace().any(|word| DETERMINERS.contains(&word)))
        && !contains_any_word(object, DEADLINES)
        && !contains_any_word(object, FREEZE_ENDS);
    match relation {
        "first" => object.is_empty() && statement.is_about_work(),
        "before" | "after" => is_kind && statement.is_about_work(),
        "in" | "into" | "under" => object.contains(['/', '`']) && statement.is_about_work(),
        _ => false,
    }
}

/// Returns whether a clause demands something of each thing that is made: "every new function gets a docstring".
fn demands_artifact(clause: &str) -> bool {
    let verbs = ["gets", "get", "needs", "need", "has", "have", "requires", "require", "carries", "carry"];
    let Some(statement) = Statement::read(clause, &verbs) else { return false };
    let is_general =
        statement.subject.first().is_some_and(|word| ["every", "each", "all", "any"].contains(word));
    if !is_general
        || !statement.is_about_work()
        || statement.is_observation()
        || contains_any_word(statement.predicate, DEFECTS)
        || contains_any_word(statement.predicate, AUTOMATION_WORDS)
    {
        return false;
    }
    let is_modal = ["has", "have", "needs", "need"].contains(&statement.verb);
    let must_be = ["to be", "to have", "to pass", "to carry", "to include", "to compile", "to follow"];
    let states_fact = ["has", "have"].contains(&statement.verb);
    is_modal && begins_with_any(statement.predicate, &must_be)
        || !states_fact && contains_any_word(statement.predicate, ARTIFACTS)
}

/// Returns whether a sentence says how a thing is everywhere: "money is integer cents, everywhere", "dates are UTC everywhere".
fn holds_everywhere(lower: &str) -> bool {
    let sentence = lower.trim_end_matches(['.', '!', ' ']);
    let is_stated = |statement: Statement<'_>| {
        let first = statement.predicate.split(' ').next().unwrap_or_default();
        let is_event = first.len() > 4 && (first.ends_with("ing") || first.ends_with("ed"));
        !statement.is_observation() && !is_event && !contains_any_word(statement.predicate, DEFECTS)
    };
    let is_notation = |statement: Statement<'_>| {
        let thing = statement.predicate.strip_prefix("in ").unwrap_or(statement.predicate);
        statement.is_about_kind() && (LANGUAGES.contains(&thing) || NOTATIONS.contains(&thing))
    };
    let read = |stated| Statement::read(stated, &["is", "are"]);
    match SCOPE_ENDS.iter().find_map(|end| sentence.strip_suffix(end)) {
        Some(stated) => read(stated).is_some_and(is_stated),
        None => sentence.strip_suffix(" everywhere").and_then(read).is_some_and(is_notation),
    }
}

/// Returns whether a sentence demands a language or a notation: "English only, please", "answer in German".
fn demands_language(lower: &str) -> bool {
    let named = lower.trim_end_matches(['.', '!', ' ']);
    let demanded =
        ["please", ","].iter().fold(named, |text, end| text.strip_suffix(end).unwrap_or(text).trim_end());
    let is_sentence = demanded.len() < lower.len();
    let demanded = demanded.strip_prefix("please").unwrap_or(demanded).trim_start_matches([',', ' ']);
    let is_only = demanded.strip_suffix(" only").is_some_and(|thing| {
        let thing = thing.strip_prefix("in ").unwrap_or(thing);
        is_sentence && (LANGUAGES.contains(&thing) || NOTATIONS.contains(&thing))
    });
    let is_answer = |verb: &&str| {
        direct_imperatives(lower, verb).any(|object| {
            let object = ["to ", "me ", "only "]
                .iter()
                .fold(object, |text, word| text.strip_prefix(word).unwrap_or(text));
            is_in_language(object) && !contains_any_word(object, &["to", "for"])
        })
    };
    is_only || ["answer", "reply", "respond", "speak", "talk"].iter().any(is_answer)
}

/// Returns whether a lowercase text begins with "in" and a language or a time zone.
fn is_in_language(text: &str) -> bool {
    let language = text.strip_prefix("in ").map(|text| text.strip_prefix("plain ").unwrap_or(text));
    language.is_some_and(|text| begins_with_any(text, LANGUAGES) || begins_with_any(text, &["utc", "ascii"]))
}
