//! Settings of compaction, as `config.toml` has them. What they do is decided where they are used.

mod read;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::trigger::{Clause, Keep, defaults};

/// Tokens of a summary at most, unless configured.
const SUMMARY_TOKENS_MAX: u64 = 4_000;

/// Tokens of one message that a summariser is shown, unless configured.
const TRIM_TOKENS: u64 = 2_000;

/// When and how contexts are condensed.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Whether it is done without being asked for.
    pub enabled: bool,
    /// When: any of the clauses, and within one all that it says; unset, it follows the model's window.
    #[serde(deserialize_with = "read::clauses")]
    #[schemars(with = "Option<Vec<Clause>>")]
    pub trigger: Option<Vec<Clause>>,
    /// How much stays as it is, by one of its keys; unset, it follows the model's window.
    #[serde(deserialize_with = "read::keep")]
    #[schemars(with = "Option<Keep>")]
    pub keep: Option<Keep>,
    /// `provider/name` of the model that writes the summaries; unset, the run's.
    pub model: Option<String>,
    /// Tokens of a summary at most.
    pub max_summary_tokens: u64,
    /// Tokens of one message that a summariser is shown, its beginning and its end; 0 shows all of it.
    pub trim_tokens: u64,
}

impl Default for Settings {
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

impl Settings {
    /// Returns when a context of a model with this window is condensed.
    pub fn trigger(&self, window: Option<u64>) -> Vec<Clause> {
        self.trigger.clone().unwrap_or_else(|| defaults(window).0)
    }

    /// Returns how much of it stays as it is.
    pub fn keep(&self, window: Option<u64>) -> Keep {
        self.keep.unwrap_or_else(|| defaults(window).1)
    }

    /// Says what is wrong with the settings; `None` when nothing is.
    pub fn fault(&self) -> Option<String> {
        let is_share = |share: f64| share > 0.0 && share <= 1.0;
        for clause in self.trigger.iter().flatten() {
            if clause.tokens.is_none() && clause.messages.is_none() && clause.fraction.is_none() {
                return Some(
                    "an entry of `compaction.trigger` is empty; it needs tokens, messages or fraction"
                        .to_owned(),
                );
            }
            if let Some(given) = clause.fraction.filter(|share| !is_share(*share)) {
                return Some(format!(
                    "`fraction` in `compaction.trigger` is {given}; it is a share of the window, above 0 to 1"
                ));
            }
        }
        match self.keep {
            Some(Keep::Messages(0) | Keep::Tokens(0)) => {
                Some("`compaction.keep` is 0; something always stays".to_owned())
            }
            Some(Keep::Fraction(given)) if !is_share(given) => Some(format!(
                "`compaction.keep.fraction` is {given}; it is a share of the window, above 0 to 1"
            )),
            Some(Keep::Fraction(_) | Keep::Tokens(_) | Keep::Messages(_)) | None => None,
        }
    }
}
