//! The settings of tiered memory: the section `memory` of `config.toml`, its defaults and its validation.

use journal::ProjectScope;
use protocol::ThreadId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Default length of a summary in tokens.
const DEFAULT_SUMMARY_TOKENS: u64 = 400;
/// Allowed lengths of a summary in tokens. Fewer are too few for a statement, and more would be no summary.
const SUMMARY_TOKENS_RANGE: std::ops::RangeInclusive<u64> = 60..=4_000;
/// Default tokens of recent summaries in a request.
const DEFAULT_RECENT_SUMMARIES_TOKENS: u64 = 1_500;
/// Maximum tokens of recent summaries in a request. They are part of every request.
const RECENT_SUMMARIES_TOKENS_MAX: u64 = 20_000;
/// Default budget of the short-term tier, as a percentage of the model's context window.
///
/// It is higher than the trigger of a compaction, so that a conversation is compacted first: a compaction can be
/// undone, and the archival of messages cannot.
const WINDOW_PERCENT: u64 = 90;

/// The settings of tiered memory: the context budget, and the summaries of messages that leave the context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MemorySettings {
    /// True to summarize old messages into memory and to show the summaries to the model.
    pub enabled: bool,
    /// `provider/name` of the model that writes the summaries; unset, a small one of the run's provider.
    pub model: Option<String>,
    /// Tokens of a thread's conversation above which its oldest messages are summarized; unset, it follows the model's window.
    pub short_term_tokens: Option<u64>,
    /// Tokens of one summary.
    pub summary_tokens: u64,
    /// Tokens of recent summaries that a model is shown; 0 shows none.
    pub recent_summaries_tokens: u64,
    /// True to let the model that writes a summary propose durable facts for agent.md, which you review with `segue memory review`.
    pub propose_facts: bool,
    /// True to add proposed facts to agent.md without a review if they quote your own words.
    pub auto_accept: bool,
    /// The memory that a conversation uses: `project`, that of its repository or folder, or `assistant`, that of all projects.
    pub scope: MemoryScope,
}

/// The memory that a conversation uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemoryScope {
    /// The memory of its project.
    #[default]
    Project,
    /// All memory of its assistant.
    Assistant,
}

impl MemoryScope {
    /// Returns the projects whose memory a thread uses.
    pub const fn project_scope(self, thread_id: ThreadId) -> ProjectScope {
        match self {
            Self::Project => ProjectScope::OfThread(thread_id),
            Self::Assistant => ProjectScope::Any,
        }
    }
}

impl Default for MemorySettings {
    fn default() -> Self {
        Self {
            enabled: true,
            model: None,
            short_term_tokens: None,
            summary_tokens: DEFAULT_SUMMARY_TOKENS,
            recent_summaries_tokens: DEFAULT_RECENT_SUMMARIES_TOKENS,
            propose_facts: true,
            auto_accept: false,
            scope: MemoryScope::Project,
        }
    }
}

impl MemorySettings {
    /// Returns the number of tokens of a conversation above which its oldest messages leave the context, for a model
    /// with a context window of `window` tokens. Returns `None` when neither the setting nor the window is known.
    pub fn short_term_budget(&self, window: Option<u64>) -> Option<u64> {
        self.short_term_tokens.or_else(|| window.map(|window| window * WINDOW_PERCENT / 100))
    }

    /// Returns the problem of invalid settings, in the words of `config.toml`. Returns `None` when they are valid.
    pub fn validation_error(&self) -> Option<String> {
        if self.short_term_tokens == Some(0) {
            return Some(
                "`memory.short_term_tokens` is 0; leave it out, and the model's window decides".to_owned(),
            );
        }
        if !SUMMARY_TOKENS_RANGE.contains(&self.summary_tokens) {
            let (min, max) = SUMMARY_TOKENS_RANGE.into_inner();
            let tokens = self.summary_tokens;
            return Some(format!("`memory.summary_tokens` is {tokens}; it must be {min} to {max}"));
        }
        if self.recent_summaries_tokens > RECENT_SUMMARIES_TOKENS_MAX {
            let tokens = self.recent_summaries_tokens;
            return Some(format!(
                "`memory.recent_summaries_tokens` is {tokens}; it must be at most {RECENT_SUMMARIES_TOKENS_MAX}"
            ));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn problem(settings: Value) -> Option<String> {
        serde_json::from_value::<MemorySettings>(settings).unwrap().validation_error()
    }

    #[test]
    fn a_missing_setting_has_its_default() {
        let settings: MemorySettings = serde_json::from_value(json!({})).unwrap();
        assert_eq!(settings, MemorySettings::default());
        assert_eq!(settings.validation_error(), None);
        assert_eq!(settings.short_term_budget(Some(200_000)), Some(180_000));
        assert_eq!(settings.short_term_budget(None), None);
        let settings: MemorySettings = serde_json::from_value(json!({"short_term_tokens": 9_000})).unwrap();
        assert_eq!(settings.short_term_budget(Some(200_000)), Some(9_000));
    }

    #[test]
    fn an_invalid_setting_is_reported_by_its_key() {
        assert!(
            problem(json!({"short_term_tokens": 0})).unwrap().contains("`memory.short_term_tokens` is 0")
        );
        assert!(problem(json!({"summary_tokens": 0})).unwrap().contains("it must be 60 to 4000"));
        assert!(problem(json!({"recent_summaries_tokens": 50_000})).unwrap().contains("at most 20000"));
        assert_eq!(problem(json!({"recent_summaries_tokens": 0})), None);
        let error = serde_json::from_value::<MemorySettings>(json!({"tokens": 1})).unwrap_err().to_string();
        assert!(error.contains("unknown field `tokens`"), "{error}");
    }
}
