//! The trigger of automatic compaction and the size of the kept part, as pure functions of sizes that the caller has
//! counted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The default trigger for a known window, as a share of the window.
pub const TRIGGER_FRACTION: f64 = 0.85;
/// The default size of the kept part for a known window, as a share of the window.
const KEEP_FRACTION: f64 = 0.1;
/// The default trigger for an unknown window, in tokens of the request.
const TRIGGER_TOKENS: u64 = 170_000;
/// The default size of the kept part for an unknown window, in messages.
pub(crate) const KEEP_MESSAGES: u64 = 6;

/// A condition for compaction: everything that is set has to hold. A clause with nothing set never holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TriggerClause {
    /// The minimum size of the next request in tokens, including instructions and tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// The minimum number of messages in the next request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<u64>,
    /// The minimum size of the next request as a share of the model's window. It never holds for an unknown window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fraction: Option<f64>,
}

/// The size of the newest part of a context that is kept verbatim.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeepPolicy {
    /// A number of tokens.
    Tokens(u64),
    /// A number of messages.
    Messages(u64),
    /// A share of the model's window; six messages when the window is unknown.
    Fraction(f64),
}

/// The size of the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestSize {
    /// The tokens of instructions, tools, summary and messages together.
    pub tokens: u64,
    /// The number of messages.
    pub messages: u64,
    /// The model's context window in tokens, if known.
    pub window: Option<u64>,
}

/// Returns whether a context of that size is due for compaction, which means that at least one clause holds.
///
/// If the window is unknown and every clause needs it, the clauses of [`default_policy`] are used instead, so that
/// such a configuration does not disable compaction. An empty list disables it.
pub(crate) fn is_compaction_due(clauses: &[TriggerClause], size: RequestSize) -> bool {
    match needs_unknown_window(clauses, size.window) {
        true => default_policy(size.window).0.iter().any(|clause| clause.is_met(size)),
        false => clauses.iter().any(|clause| clause.is_met(size)),
    }
}

/// Returns the smallest number of tokens that alone makes a context due; `None` when every clause also needs a number
/// of messages.
pub(crate) fn trigger_tokens(clauses: &[TriggerClause], window: Option<u64>) -> Option<u64> {
    if needs_unknown_window(clauses, window) {
        return Some(TRIGGER_TOKENS);
    }
    clauses.iter().filter_map(|clause| clause.token_threshold(window)).min()
}

/// Returns the default trigger and the default size of the kept part.
pub(crate) fn default_policy(window: Option<u64>) -> (Vec<TriggerClause>, KeepPolicy) {
    match window {
        Some(_) => (
            vec![TriggerClause { fraction: Some(TRIGGER_FRACTION), ..TriggerClause::default() }],
            KeepPolicy::Fraction(KEEP_FRACTION),
        ),
        None => (
            vec![TriggerClause { tokens: Some(TRIGGER_TOKENS), ..TriggerClause::default() }],
            KeepPolicy::Messages(KEEP_MESSAGES),
        ),
    }
}

/// Returns whether every clause depends on a window that is unknown, so that none can ever hold.
fn needs_unknown_window(clauses: &[TriggerClause], window: Option<u64>) -> bool {
    window.is_none() && !clauses.is_empty() && clauses.iter().all(|clause| clause.fraction.is_some())
}

impl TriggerClause {
    /// Returns whether everything set in the clause holds for a request of that size.
    fn is_met(&self, size: RequestSize) -> bool {
        let is_set = self.tokens.is_some() || self.messages.is_some() || self.fraction.is_some();
        is_set
            && self.tokens.is_none_or(|tokens| size.tokens >= tokens)
            && self.messages.is_none_or(|messages| size.messages >= messages)
            && self.fraction.is_none_or(|share| {
                size.window.is_some_and(|window| size.tokens >= window_share(window, share))
            })
    }

    /// Returns the number of tokens from which on the clause holds; `None` when it depends on messages or on an unknown
    /// window.
    fn token_threshold(&self, window: Option<u64>) -> Option<u64> {
        if self.messages.is_some() {
            return None;
        }
        let by_share = match self.fraction {
            Some(share) => Some(window_share(window?, share)),
            None => None,
        };
        self.tokens.into_iter().chain(by_share).max()
    }
}

/// Returns a share of the window in tokens, rounded up. A share that is NaN gives a size that no request reaches.
pub(crate) fn window_share(window: u64, share: f64) -> u64 {
    let tokens = (window as f64 * share).ceil();
    // The conversion saturates, so a share above every number of tokens gives the largest one.
    if tokens.is_nan() { u64::MAX } else { tokens as u64 }
}

#[cfg(test)]
mod tests;
