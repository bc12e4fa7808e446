//! The report of the secrets of a text, for people: line, kind, rule and a masked value.

use serde::Serialize;

use crate::rule_set::builtin_rules;
use crate::scan::{MatchedRule, SecretMatch, find_matches};

/// The number of characters of a secret that a masked value shows.
const MASK_CHARS: usize = 4;
/// The length from which a masked value shows the beginning of the secret, in characters.
const MASK_LENGTH_MIN: usize = 16;

/// A secret that was found in a text. It does not contain the secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SecretReport {
    /// The line of the text, counted from 1.
    pub line: usize,
    /// The position of the secret in its line, counted from 1, in characters.
    pub column: usize,
    /// The kind of the secret, such as `github-pat` or `password`.
    pub kind: String,
    /// The rule that matched: its rule set and its name in it.
    pub rule: String,
    /// A sentence that says why the rule matched.
    pub reason: String,
    /// The beginning of a long secret, and the number of its characters.
    pub masked: String,
}

/// Returns what [`redact`](crate::redact) replaces in `text`, in the order of the text.
pub fn find_secrets(text: &str) -> Vec<SecretReport> {
    let (mut line, mut line_start, mut position) = (1, 0, 0);
    let mut reports = Vec::new();
    for secret in find_matches(text).matches {
        for index in memchr::memchr_iter(b'\n', &text.as_bytes()[position..secret.start]) {
            (line, line_start) = (line + 1, position + index + 1);
        }
        position = secret.start;
        let column = text[line_start..secret.start].chars().count() + 1;
        reports.push(report_match(text, &secret, line, column));
    }
    reports
}

/// Returns the report of a match.
fn report_match(text: &str, secret: &SecretMatch, line: usize, column: usize) -> SecretReport {
    let (kind, rule, reason) = match &secret.rule {
        MatchedRule::User(name) => {
            let reason = format!("Found text that matches the pattern `{name}` of the configuration");
            (name.clone(), format!("configuration: {name}"), reason)
        }
        MatchedRule::Listed(index) => {
            let rule = &builtin_rules().rules[*index];
            (rule.record.id.clone(), rule.name(), rule.record.description.clone())
        }
        MatchedRule::Assigned(kind) => {
            (kind.name().to_owned(), format!("segue: {}", kind.name()), kind.description().to_owned())
        }
    };
    SecretReport { line, column, kind, rule, reason, masked: mask_value(&text[secret.start..secret.end]) }
}

/// Returns a value without most of its characters.
fn mask_value(value: &str) -> String {
    let count = value.chars().count();
    let shown: String = match count >= MASK_LENGTH_MIN {
        true => value.chars().take(MASK_CHARS).collect(),
        false => String::new(),
    };
    format!("{shown}… ({count} characters)")
}
