//! The user's own patterns and exceptions, which a program installs for the whole process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;
use regex::{Regex, RegexBuilder};
use thiserror::Error;

use crate::scan::{MatchedRule, ScanResult, SecretMatch};

/// The maximum number of patterns, and of exceptions. Each pattern is one more pass over every text.
pub const PATTERNS_MAX: usize = 100;
/// The maximum size of a compiled pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// The flag that patterns are installed. A search without patterns takes no lock.
static IS_INSTALLED: AtomicBool = AtomicBool::new(false);
/// The installed patterns.
static INSTALLED: RwLock<Option<Arc<UserPatterns>>> = RwLock::new(None);

/// A pattern that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PatternError {
    /// The pattern is not a regular expression, or it is too large when compiled.
    #[error("compile the pattern `{name}`: {reason}")]
    Invalid {
        /// The name of the pattern, or the exception itself.
        name: String,
        /// The problem, in one line.
        reason: String,
    },
    /// The pattern matches the empty text, so it would match everywhere.
    #[error("use the pattern `{0}`: it matches the empty text")]
    Empty(String),
    /// There are more patterns or exceptions than the maximum that the message names.
    #[error("use {0} patterns: there may be {PATTERNS_MAX} at most")]
    TooMany(usize),
}

/// Patterns of secrets by name, and patterns of values that are not secrets.
#[derive(Debug, Default)]
pub struct UserPatterns {
    patterns: Vec<(String, Regex)>,
    allow: Vec<Regex>,
}

impl UserPatterns {
    /// Compiles patterns of secrets by name, and patterns of whole values that are not secrets. If a pattern has a group,
    /// the first group that takes part in a match is the secret.
    ///
    /// # Errors
    /// If a pattern is invalid or matches the empty text, or there are too many.
    pub fn compile(patterns: &BTreeMap<String, String>, allow: &[String]) -> Result<Self, PatternError> {
        if let Some(count) = [patterns.len(), allow.len()].into_iter().find(|count| *count > PATTERNS_MAX) {
            return Err(PatternError::TooMany(count));
        }
        let compile = |name: &str, pattern: &str, whole: &str| {
            let regex = compile_pattern(name, whole)?;
            let is_empty = compile_pattern(name, pattern)?.is_match("");
            if is_empty { Err(PatternError::Empty(name.to_owned())) } else { Ok(regex) }
        };
        let patterns =
            patterns.iter().map(|(name, pattern)| Ok((name.clone(), compile(name, pattern, pattern)?)));
        let allow = allow.iter().map(|pattern| compile(pattern, pattern, &format!("^(?:{pattern})$")));
        Ok(Self { patterns: patterns.collect::<Result<_, _>>()?, allow: allow.collect::<Result<_, _>>()? })
    }

    /// Adds the matches of the patterns to a result, and removes those of all rules whose value is an exception.
    pub(crate) fn find_in(&self, text: &str, result: &mut ScanResult) {
        for (name, pattern) in &self.patterns {
            result.attempts += 1;
            for captures in pattern.captures_iter(text) {
                let group =
                    (1..captures.len()).find_map(|group| captures.get(group)).or_else(|| captures.get(0));
                if let Some(secret) =
                    group.filter(|secret| !secret.is_empty() && secret.as_str() != crate::REDACTED)
                {
                    let rule = MatchedRule::User(name.clone());
                    result.matches.push(SecretMatch { start: secret.start(), end: secret.end(), rule });
                }
            }
        }
        let is_allowed = |value: &str| self.allow.iter().any(|pattern| pattern.is_match(value));
        result.matches.retain(|secret| !is_allowed(&text[secret.start..secret.end]));
    }
}

/// Replaces the patterns of this process. All later calls of this crate's functions use them, in every thread.
pub fn install_patterns(patterns: UserPatterns) {
    let is_empty = patterns.patterns.is_empty() && patterns.allow.is_empty();
    let mut installed = INSTALLED.write();
    *installed = (!is_empty).then(|| Arc::new(patterns));
    IS_INSTALLED.store(!is_empty, Ordering::Release);
}

/// Returns the installed patterns.
pub(crate) fn installed_patterns() -> Option<Arc<UserPatterns>> {
    IS_INSTALLED.load(Ordering::Acquire).then(|| INSTALLED.read().clone()).flatten()
}

/// Compiles a pattern. The name is for the error.
fn compile_pattern(name: &str, pattern: &str) -> Result<Regex, PatternError> {
    RegexBuilder::new(pattern).size_limit(PATTERN_BYTES_MAX).build().map_err(|error| {
        let text = error.to_string();
        let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        PatternError::Invalid { name: name.to_owned(), reason }
    })
}
