//! When a context is large enough to be condensed, and how much of it stays. Sizes come in as numbers: nothing is
//! counted here, and what is then done is decided elsewhere.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The share of a known window from which on a context is condensed, unless configured.
pub const TRIGGER_FRACTION: f64 = 0.85;
/// The share of a known window that stays.
const KEEP_FRACTION: f64 = 0.1;
/// Tokens from which on a context is condensed where nobody knows the window.
const TRIGGER_TOKENS: u64 = 170_000;
/// Messages that stay where nobody knows the window.
pub(crate) const KEEP_MESSAGES: u64 = 6;

/// What must hold for a context to be condensed: everything that is set here. One with nothing set never holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Clause {
    /// The next request has at least so many tokens, everything in it counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// It has at least so many messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<u64>,
    /// Its tokens are at least this share of the model's window; never holds where nobody knows the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fraction: Option<f64>,
}

/// How much of a context stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// So many tokens.
    Tokens(u64),
    /// So many messages.
    Messages(u64),
    /// This share of the model's window; six messages where nobody knows it.
    Fraction(f64),
}

/// How large the next request would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    /// Its tokens: instructions, tools, summary and messages.
    pub tokens: u64,
    /// Its messages.
    pub messages: u64,
    /// Tokens of the model's window, if anybody knows.
    pub window: Option<u64>,
}

/// Returns whether a context of that size is to be condensed: whether any of the clauses holds.
///
/// Where the clauses all ask for a share of a window that nobody knows, those of [`defaults`] take their place, so that
/// no configuration means never. An empty list does mean that.
pub(crate) fn is_due(clauses: &[Clause], size: Size) -> bool {
    match is_blind(clauses, size.window) {
        true => defaults(size.window).0.iter().any(|clause| clause.holds(size)),
        false => clauses.iter().any(|clause| clause.holds(size)),
    }
}

/// Returns the smallest number of tokens that is enough alone; `None` where messages must come together as well.
pub(crate) fn trigger_tokens(clauses: &[Clause], window: Option<u64>) -> Option<u64> {
    if is_blind(clauses, window) {
        return Some(TRIGGER_TOKENS);
    }
    clauses.iter().filter_map(|clause| clause.tokens_alone(window)).min()
}

/// Returns the clauses, and how much stays, where nothing is configured.
pub(crate) fn defaults(window: Option<u64>) -> (Vec<Clause>, Keep) {
    match window {
        Some(_) => (
            vec![Clause { fraction: Some(TRIGGER_FRACTION), ..Clause::default() }],
            Keep::Fraction(KEEP_FRACTION),
        ),
        None => (
            vec![Clause { tokens: Some(TRIGGER_TOKENS), ..Clause::default() }],
            Keep::Messages(KEEP_MESSAGES),
        ),
    }
}

/// Returns whether none of the clauses can ever hold, because nobody knows the window.
fn is_blind(clauses: &[Clause], window: Option<u64>) -> bool {
    window.is_none() && !clauses.is_empty() && clauses.iter().all(|clause| clause.fraction.is_some())
}

impl Clause {
    fn holds(&self, size: Size) -> bool {
        let is_set = self.tokens.is_some() || self.messages.is_some() || self.fraction.is_some();
        is_set
            && self.tokens.is_none_or(|tokens| size.tokens >= tokens)
            && self.messages.is_none_or(|messages| size.messages >= messages)
            && self
                .fraction
                .is_none_or(|share| size.window.is_some_and(|window| size.tokens >= share_of(window, share)))
    }

    /// Returns the tokens from which on it holds, if nothing but tokens matters to it.
    fn tokens_alone(&self, window: Option<u64>) -> Option<u64> {
        if self.messages.is_some() {
            return None;
        }
        let by_share = match self.fraction {
            Some(share) => Some(share_of(window?, share)),
            None => None,
        };
        self.tokens.into_iter().chain(by_share).max()
    }
}

/// Returns a share of the window, rounded up; one that is no number is never reached.
pub(crate) fn share_of(window: u64, share: f64) -> u64 {
    let tokens = (window as f64 * share).ceil();
    // A share beyond every number of tokens is as good as the largest one.
    if tokens.is_nan() { u64::MAX } else { tokens as u64 }
}

#[cfg(test)]
mod tests;
