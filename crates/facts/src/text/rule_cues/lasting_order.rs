//! Decides which orders last because of their object: a version or a tool of the project, a place to keep away from, or a way
//! to act in doubt.

use super::standing::direct_imperatives;
use super::{ONE_TIME_WORDS, PRONOUNS, begins_with_any};
use crate::text::cues::contains_any_word;

/// Verbs of an order that demands a version, such as "stick to Go 1.22".
const VERSION_VERBS: &[&str] = &["use", "target", "stick to", "stick with", "stay on", "support"];
/// Names before a number that is no version, such as "section 2.3".
const NUMBERED_THINGS: &[&str] = &[
    "option",
    "approach",
    "plan",
    "step",
    "line",
    "page",
    "variant",
    "choice",
    "number",
    "port",
    "section",
    "chapter",
    "figure",
    "table",
    "factor",
    "timeout",
    "scale",
    "ratio",
    "opacity",
    "threshold",
    "temperature",
    "value",
    "size",
    "width",
    "height",
    "weight",
    "margin",
    "padding",
    "about",
    "around",
    "only",
    "the",
    "a",
];
/// Names of languages and platforms whose version is a whole number.
const PLATFORMS: &[&str] = &[
    "python",
    "java",
    "jdk",
    "node",
    "node.js",
    "nodejs",
    "php",
    "ruby",
    "react",
    "vue",
    "angular",
    "c++",
    ".net",
    "postgres",
    "postgresql",
    "mysql",
    "django",
    "rails",
    "ubuntu",
    "debian",
    "kotlin",
    "swift",
    "next.js",
];
/// Words after a version that is demanded in general.
const VERSION_SCOPES: &[&str] = &[
    "everywhere",
    "throughout",
    "only",
    "of",
    "or later",
    "or newer",
    "or higher",
    "and up",
    "please",
    "in this repo",
    "in this project",
    "for everything",
    "for all",
    "for builds",
];

/// Returns whether a lowercase sentence demands a version of a tool: "use Go 1.22". A version that only says what is used
/// once is not demanded, as in "use Go 1.22 to reproduce it".
pub(super) fn demands_version(lower: &str) -> bool {
    let is_version = |name: &str, word: &str| {
        let number = word.trim_end_matches('+').trim_start_matches('v');
        let is_number = number.starts_with(|c: char| c.is_ascii_digit())
            && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.' || byte == b'x');
        is_number && !NUMBERED_THINGS.contains(&name) && (number.contains('.') || PLATFORMS.contains(&name))
    };
    VERSION_VERBS.iter().any(|verb| {
        direct_imperatives(lower, verb).any(|object| {
            let mut words = object.splitn(3, ' ');
            let (name, version) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            let rest = words.next().unwrap_or_default();
            let number = version.trim_end_matches([',', '.', ';', '!', ')']);
            is_version(name, number)
                && (rest.is_empty() || number != version || begins_with_any(rest, VERSION_SCOPES))
        })
    })
}

/// Lowercase ends of an order that is about the whole project.
const PROJECT_SCOPES: &[&str] =
    &[" in this repo", " in this repository", " in this project", " in this codebase", " in this workspace"];

/// Returns whether a lowercase item of a list names the tool of the project: "use pnpm here".
pub(super) fn names_local_means(lower: &str) -> bool {
    names_means(lower, &[" here"])
}

/// Returns whether a lowercase sentence names the tool of the project: "use pnpm in this repo".
pub(super) fn names_project_means(lower: &str) -> bool {
    names_means(lower, PROJECT_SCOPES)
}

/// Returns whether a lowercase sentence orders to use a thing in a scope, which is its end: "use pnpm in this repo".
fn names_means(lower: &str, scopes: &[&str]) -> bool {
    let order = lower.trim_end_matches(['.', '!', ' ']);
    let order = order.strip_prefix("please ").unwrap_or(order).strip_prefix("use ");
    let means = order.and_then(|order| scopes.iter().find_map(|scope| order.strip_suffix(scope)));
    means.is_some_and(|means| {
        !means.contains([' ', '(']) && !PRONOUNS.contains(&means) && !["one", "both"].contains(&means)
    })
}

/// Phrases of an order to leave something alone.
const KEEP_AWAY: &[&str] = &[
    "stay out of",
    "stay away from",
    "stay off",
    "keep out of",
    "keep away from",
    "keep off",
    "keep your hands off",
    "steer clear of",
    "refrain from",
    "abstain from",
];

/// Words after "keep out of" and "stay out of" that are no place.
const NO_PLACES: &[&str] =
    &["trouble", "my way", "the way", "sync", "date", "range", "bounds", "scope", "order", "memory", "topic"];

/// Returns whether a lowercase sentence orders to leave something alone: "stay out of vendor/", "refrain from adding mocks",
/// "stay inside src/".
pub(super) fn keeps_away(lower: &str) -> bool {
    let is_avoided = |object: &str| {
        let clause = object.split([',', ';', '!']).next().unwrap_or(object).trim_end_matches('.');
        let (first, second) = clause.split_once(' ').unwrap_or((clause, ""));
        let is_vague =
            ["doing", "saying"].contains(&first) && (second.is_empty() || PRONOUNS.contains(&second));
        !PRONOUNS.contains(&clause) && !begins_with_any(clause, NO_PLACES) && !is_vague
    };
    let is_path = |object: &str| object.split(' ').next().is_some_and(|path| path.contains(['/', '`']));
    KEEP_AWAY.iter().any(|cue| direct_imperatives(lower, cue).any(is_avoided))
        || ["stay inside", "stay within", "stay below"]
            .iter()
            .any(|cue| direct_imperatives(lower, cue).any(is_path))
}

/// Conditions under which the agent does not know how to go on.
const DOUBTS: &[&str] = &[
    "if in doubt",
    "when in doubt",
    "if unsure",
    "when unsure",
    "whenever in doubt",
    "if you are in doubt",
    "if you're in doubt",
    "if you are unsure",
    "if you're unsure",
    "if you’re unsure",
    "when you are unsure",
    "when you're unsure",
    "if you are not sure",
    "if you're not sure",
    "if you’re not sure",
    "if anything is unclear",
    "if something is unclear",
];
/// Beginnings of an order to ask the user in such a case.
const ASKING: &[&str] =
    &["ask me", "ask if", "ask when", "ask first", "ask rather", "just ask", "stop and ask", "check with me"];
/// Maximum words of such a condition.
const DOUBT_WORDS_MAX: usize = 8;
/// Subjects of a statement after a doubt, as in "when in doubt, I ask".
const STATEMENT_SUBJECTS: &[&str] = &["i", "we", "he", "she", "they", "it", "that", "this", "the", "there"];

/// Returns whether a lowercase sentence says how to act in doubt: "if in doubt, ask".
pub(super) fn resolves_doubt(lower: &str) -> bool {
    if contains_any_word(lower, ONE_TIME_WORDS) {
        return false;
    }
    let lower = lower.trim_start_matches("please ").trim_start_matches("and ");
    if begins_with_any(lower, DOUBTS) || begins_with_any(lower, &["in doubt"]) {
        let asks = |order: &str| contains_any_word(order, &["ask", "stop", "check with me"]);
        return match lower.split_once(", ") {
            Some((doubt, order)) => {
                doubt.split_whitespace().count() <= DOUBT_WORDS_MAX
                    && !begins_with_any(order, STATEMENT_SUBJECTS)
            }
            None => lower.split_whitespace().count() <= DOUBT_WORDS_MAX && asks(lower),
        };
    }
    begins_with_any(lower, ASKING) && contains_any_word(lower, DOUBTS)
}
