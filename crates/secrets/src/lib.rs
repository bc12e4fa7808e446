//! Finds and redacts secrets in text before the text is stored, summarized or sent (invariant M16).
//!
//! Secrets are recognised by their form and their context; this crate does not know whether a key is valid. [`redact`]
//! replaces them, [`find_secrets`] says where they are and why. One search for the words of all rules decides which
//! rules are tried, and where; the time is linear in the length of the text.
//!
//! The rules are in `rules/`: those of gitleaks, converted by `cargo xtask secret-rules`, and Segue's own. A program adds
//! patterns and exceptions of its user with [`install_patterns`].

mod assignment;
mod context;
mod patterns;
mod pem;
mod report;
mod rule_file;
mod rule_set;
mod scan;
mod shape;
mod value;

use std::borrow::Cow;

pub use patterns::{PatternError, UserPatterns, install_patterns};
pub use report::{SecretReport, find_secrets};
pub use rule_set::{RuleSummary, rule_summaries};

/// The replacement for a secret.
pub const REDACTED: &str = "[redacted]";

/// Returns `text` with [`REDACTED`] in the place of keys, tokens, private keys, passwords and cookies.
///
/// A secret with invisible characters between its own is found too. A value behind a name such as `password` is replaced
/// if it looks like a secret. Types, references and prose (`token: String`, `password = $PASSWORD`) stay. A text without
/// secrets is returned without a copy.
pub fn redact(text: &str) -> Cow<'_, str> {
    redact_and_count(text).0
}

/// Redacts like [`redact`], and also returns the number of secrets that were replaced. Secrets that the text already has
/// as [`REDACTED`] are not counted.
pub fn redact_and_count(text: &str) -> (Cow<'_, str>, u64) {
    let matches = scan::find_matches(text).matches;
    if matches.is_empty() {
        return (Cow::Borrowed(text), 0);
    }
    let mut redacted = String::with_capacity(text.len());
    let mut position = 0;
    for secret in &matches {
        redacted.push_str(&text[position..secret.start]);
        redacted.push_str(REDACTED);
        position = secret.end;
    }
    redacted.push_str(&text[position..]);
    (Cow::Owned(redacted), matches.len() as u64)
}

/// Returns the values that [`redact`] replaces in `text`, in the order of the text. Do not show, store or send them: they are for
/// finding the same values where nothing else tells that they are secrets.
pub fn secret_values(text: &str) -> Vec<&str> {
    scan::find_matches(text).matches.into_iter().map(|secret| &text[secret.start..secret.end]).collect()
}

/// Returns the number of patterns that were tried on `text`. It grows linearly with the length of the text.
pub fn attempt_count(text: &str) -> u64 {
    scan::find_matches(text).attempts
}

#[cfg(test)]
mod tests;
