//! The settings of compaction, from the section `[compaction]` of `config.toml`.

mod read;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::trigger::{KeepPolicy, TriggerClause, default_policy};

/// The default of `max_summary_tokens`.
const SUMMARY_TOKENS_MAX: u64 = 4_000;

/// The default of `trim_tokens`.
const TRIM_TOKENS: u64 = 2_000;

/// The settings of compaction: when a context is compacted, and how.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CompactionSettings {
    /// True to compact contexts automatically. `/compact` works in any case.
    pub enabled: bool,
    /// The conditions for automatic compaction. One clause has to hold; a clause holds when everything set in it holds.
    /// Unset, the conditions follow from the model's window.
    #[serde(deserialize_with = "read::clauses")]
    #[schemars(with = "Option<Vec<TriggerClause>>")]
    pub trigger: Option<Vec<TriggerClause>>,
    /// The size of the newest part of the conversation that is kept verbatim, by one of its keys. Unset, it follows
    /// from the model's window.
    #[serde(deserialize_with = "read::keep")]
    #[schemars(with = "Option<KeepPolicy>")]
    pub keep: Option<KeepPolicy>,
    /// The model that writes the summaries, `provider/name`. Unset, it is the model of the run.
    pub model: Option<String>,
    /// The maximum size of a summary, in tokens.
    pub max_summary_tokens: u64,
    /// The size to which a long message is trimmed for the summarizing model, in tokens; its beginning and its end
    /// stay. 0 trims nothing.
    pub trim_tokens: u64,
}

impl Default for CompactionSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            trigger: None,
            keep: None,
            model: None,
            max_summary_tokens: SUMMARY_TOKENS_MAX,
            trim_tokens: TRIM_TOKENS,
        }
    }
}

impl CompactionSettings {
    /// Returns the trigger for a model with a window of `window` tokens.
    pub fn trigger(&self, window: Option<u64>) -> Vec<TriggerClause> {
        self.trigger.clone().unwrap_or_else(|| default_policy(window).0)
    }

    /// Returns the size of the kept part for a model with a window of `window` tokens.
    pub fn keep(&self, window: Option<u64>) -> KeepPolicy {
        self.keep.unwrap_or_else(|| default_policy(window).1)
    }

    /// Returns the first invalid setting as one line; `None` when all settings are valid.
    pub fn validation_error(&self) -> Option<String> {
        let is_share = |share: f64| share > 0.0 && share <= 1.0;
        for clause in self.trigger.iter().flatten() {
            if clause.tokens.is_none() && clause.messages.is_none() && clause.fraction.is_none() {
                return Some(
                    "an entry of `compaction.trigger` is empty; it needs `tokens`, `messages` or `fraction`"
                        .to_owned(),
                );
            }
            if let Some(given) = clause.fraction.filter(|share| !is_share(*share)) {
                return Some(format!(
                    "`fraction` in `compaction.trigger` is {given}; it must be greater than 0 and at most 1"
                ));
            }
        }
        match self.keep {
            Some(KeepPolicy::Messages(0) | KeepPolicy::Tokens(0)) => {
                Some("`compaction.keep` is 0; it must be 1 or more".to_owned())
            }
            Some(KeepPolicy::Fraction(given)) if !is_share(given) => Some(format!(
                "`compaction.keep.fraction` is {given}; it must be greater than 0 and at most 1"
            )),
            Some(KeepPolicy::Fraction(_) | KeepPolicy::Tokens(_) | KeepPolicy::Messages(_)) | None => None,
        }
    }
}
