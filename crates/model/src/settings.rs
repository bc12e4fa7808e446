//! What a caller may set for a provider, and what each provider uses when nothing is set. Reading the environment and
//! files is left to the caller.

use std::time::Duration;

use secrecy::SecretString;

use crate::name::Provider;

/// How long a connection may take.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// How long nothing at all may arrive, a provider's pings included, before a call is given up; `idle_seconds` in
/// configuration. It counts from the request to the first byte and from each byte to the next.
pub const SILENCE_MAX: Duration = Duration::from_secs(120);

/// Repetitions of a request that failed for a passing reason.
pub const RETRIES_MAX: usize = 3;

/// The longest wait over all repetitions of one request.
pub const RETRY_WAIT_MAX: Duration = Duration::from_secs(60);

/// What a caller may set; the default is right for the provider's own endpoint but for the key.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The key; see [`Provider::requires_key`].
    pub api_key: Option<SecretString>,
    /// Where the provider answers; see [`Provider::default_base_url`]. With or without the version's path.
    pub base_url: Option<String>,
    /// Headers sent with every request, such as those of a proxy.
    pub headers: Vec<(String, SecretString)>,
    /// How long a connection may take.
    pub connect_timeout: Duration,
    /// How long nothing at all may arrive; see [`SILENCE_MAX`].
    pub silence_max: Duration,
    /// Repetitions of a request that failed for a passing reason.
    pub retries_max: usize,
    /// The longest wait over all repetitions of one request.
    pub retry_wait_max: Duration,
    /// The model's window, where the built-in table is wrong or silent.
    pub context_tokens: Option<u64>,
    /// How much the model reasons; `None` leaves it to the provider.
    pub effort: Option<Effort>,
}

protocol::named_enum! {
    /// How much a model reasons before it answers.
    pub enum Effort {
        /// Little.
        Low = "low",
        /// Some.
        Medium = "medium",
        /// Much.
        High = "high",
    }
}

impl Effort {
    /// Returns the tokens of reasoning to allow, for models that are given a budget.
    pub(crate) const fn budget_tokens(self) -> u64 {
        match self {
            Self::Low => 2_048,
            Self::Medium => 8_192,
            Self::High => 24_576,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            api_key: None,
            base_url: None,
            headers: Vec::new(),
            connect_timeout: CONNECT_TIMEOUT,
            silence_max: SILENCE_MAX,
            retries_max: RETRIES_MAX,
            retry_wait_max: RETRY_WAIT_MAX,
            context_tokens: None,
            effort: None,
        }
    }
}

impl Provider {
    /// Returns where the provider answers unless it is set otherwise.
    pub const fn default_base_url(self) -> &'static str {
        match self {
            Self::Anthropic => "https://api.anthropic.com",
            Self::OpenAi | Self::OpenAiChat => "https://api.openai.com/v1",
            Self::Gemini => "https://generativelanguage.googleapis.com",
        }
    }

    /// Returns the environment variables that usually hold the key, the first one that is set winning.
    pub const fn key_variables(self) -> &'static [&'static str] {
        match self {
            Self::Anthropic => &["ANTHROPIC_API_KEY"],
            Self::OpenAi | Self::OpenAiChat => &["OPENAI_API_KEY"],
            Self::Gemini => &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        }
    }

    /// Returns the environment variables that usually hold the base URL, the first one that is set winning.
    pub const fn base_url_variables(self) -> &'static [&'static str] {
        match self {
            Self::Anthropic => &["ANTHROPIC_BASE_URL"],
            Self::OpenAi | Self::OpenAiChat => &["OPENAI_BASE_URL"],
            Self::Gemini => &["GEMINI_BASE_URL", "GOOGLE_GEMINI_BASE_URL"],
        }
    }

    /// Returns whether a call cannot succeed without a key. Servers of one's own that speak Chat Completions
    /// (Ollama, llama.cpp, vLLM) need none.
    pub fn requires_key(self, base_url: Option<&str>) -> bool {
        match self {
            Self::Anthropic | Self::OpenAi | Self::Gemini => true,
            Self::OpenAiChat => {
                base_url.is_none_or(|url| url.trim_end_matches('/') == self.default_base_url())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_chat_server_of_ones_own_needs_no_key() {
        let own = Some("http://127.0.0.1:11434");
        for provider in Provider::ALL {
            assert!(provider.requires_key(None), "{provider:?}");
            assert_eq!(provider.requires_key(own), provider != Provider::OpenAiChat, "{provider:?}");
        }
        assert!(Provider::OpenAiChat.requires_key(Some("https://api.openai.com/v1/")));
    }

    #[test]
    fn k4_settings_never_show_a_secret() {
        let settings = Settings {
            api_key: Some("sk-secret".into()),
            headers: vec![("x-proxy".into(), "sk-other".into())],
            ..Settings::default()
        };
        let shown = format!("{settings:?}");
        assert!(!shown.contains("sk-"), "{shown}");
    }
}
