//! Settings of tiered memory, as `config.toml` has them. What they do is decided where they are used.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Tokens of one summary, unless configured.
const DEFAULT_SUMMARY_TOKENS: u64 = 400;
/// Tokens of one summary: fewer say nothing, and more are no summary.
const SUMMARY_TOKENS_RANGE: std::ops::RangeInclusive<u64> = 60..=4_000;
/// Tokens of recent summaries in a request, unless configured.
const DEFAULT_RECENT_SUMMARIES_TOKENS: u64 = 1_500;
/// Tokens of recent summaries in a request at most: they are part of every one.
const RECENT_SUMMARIES_TOKENS_MAX: u64 = 20_000;
/// Of every hundred tokens of the model's window, those a thread may have before its oldest turns leave, unless
/// configured. It is above where a conversation is condensed, so that condensing, which can be taken back, comes first.
const WINDOW_PERCENT: u64 = 90;

/// When old turns leave, and how they are remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MemorySettings {
    /// True to summarize old messages into memory and to show the summaries to the model.
    pub enabled: bool,
    /// `provider/name` of the model that writes the summaries; unset, a small one of the run's provider.
    pub model: Option<String>,
    /// Tokens of a thread's conversation above which its oldest turns leave; unset, it follows the model's window.
    pub short_term_tokens: Option<u64>,
    /// Tokens of one summary.
    pub summary_tokens: u64,
    /// Tokens of recent summaries that a model is shown; 0 shows none.
    pub recent_summaries_tokens: u64,
}

impl Default for MemorySettings {
    fn default() -> Self {
        Self {
            enabled: true,
            model: None,
            short_term_tokens: None,
            summary_tokens: DEFAULT_SUMMARY_TOKENS,
            recent_summaries_tokens: DEFAULT_RECENT_SUMMARIES_TOKENS,
        }
    }
}

impl MemorySettings {
    /// Returns the tokens of a conversation above which its oldest turns leave; `None` where nobody knows the window.
    pub fn short_term_budget(&self, window: Option<u64>) -> Option<u64> {
        self.short_term_tokens.or_else(|| window.map(|window| window * WINDOW_PERCENT / 100))
    }

    /// Returns the problem of invalid settings; `None` when they are valid.
    pub fn validation_error(&self) -> Option<String> {
        if self.short_term_tokens == Some(0) {
            return Some(
                "`memory.short_term_tokens` is 0; leave it out, and the model's window decides".to_owned(),
            );
        }
        if !SUMMARY_TOKENS_RANGE.contains(&self.summary_tokens) {
            let (least, most) = SUMMARY_TOKENS_RANGE.into_inner();
            let given = self.summary_tokens;
            return Some(format!("`memory.summary_tokens` is {given}; it is {least} to {most}"));
        }
        if self.recent_summaries_tokens > RECENT_SUMMARIES_TOKENS_MAX {
            let given = self.recent_summaries_tokens;
            return Some(format!(
                "`memory.recent_summaries_tokens` is {given}; it is at most {RECENT_SUMMARIES_TOKENS_MAX}"
            ));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn fault(written: Value) -> Option<String> {
        serde_json::from_value::<MemorySettings>(written).unwrap().validation_error()
    }

    #[test]
    fn what_is_not_written_has_its_default() {
        let settings: MemorySettings = serde_json::from_value(json!({})).unwrap();
        assert_eq!(settings, MemorySettings::default());
        assert_eq!(settings.validation_error(), None);
        assert_eq!(settings.short_term_budget(Some(200_000)), Some(180_000));
        assert_eq!(settings.short_term_budget(None), None);
        let settings: MemorySettings = serde_json::from_value(json!({"short_term_tokens": 9_000})).unwrap();
        assert_eq!(settings.short_term_budget(Some(200_000)), Some(9_000));
    }

    #[test]
    fn a_mistake_is_told_in_the_words_of_the_file() {
        assert!(fault(json!({"short_term_tokens": 0})).unwrap().contains("`memory.short_term_tokens` is 0"));
        assert!(fault(json!({"summary_tokens": 0})).unwrap().contains("it is 60 to 4000"));
        assert!(fault(json!({"recent_summaries_tokens": 50_000})).unwrap().contains("at most 20000"));
        assert_eq!(fault(json!({"recent_summaries_tokens": 0})), None);
        let error = serde_json::from_value::<MemorySettings>(json!({"tokens": 1})).unwrap_err().to_string();
        assert!(error.contains("unknown field `tokens`"), "{error}");
    }
}
