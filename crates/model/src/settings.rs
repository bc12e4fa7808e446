//! Settings of a provider, and their defaults. Reading the environment and configuration files is left to the
//! caller.

use std::time::Duration;

use secrecy::SecretString;

use crate::name::Provider;

/// The default time limit for establishing a connection.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// The default idle timeout: the longest time without an event or a keep-alive from the provider. It applies to the
/// time until the headers of the response and between any two events. Bytes of an incomplete event do not count.
/// Nothing but keep-alives is accepted for ten times as long. The configuration key is `idle_seconds`.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

/// The default number of retries after a transient failure. With the usual delays, [`RETRY_WAIT_MAX`] is reached
/// first; a provider that asks for very short waits is asked this often.
pub const RETRIES_MAX: usize = 50;

/// The default limit of the total wait time of all retries of one request. An overload often lasts for minutes. The
/// configuration key is `retry_seconds`.
pub const RETRY_WAIT_MAX: Duration = Duration::from_secs(300);

/// The settings of a provider. The defaults fit the provider's own endpoint; only the key has to be set.
#[derive(Debug, Clone)]
pub struct ProviderSettings {
    /// The API key; see [`Provider::requires_key`].
    pub api_key: Option<SecretString>,
    /// The base URL, with or without the path of the API version; see [`Provider::default_base_url`].
    pub base_url: Option<String>,
    /// Additional headers of every request, for example for a proxy.
    pub headers: Vec<(String, SecretString)>,
    /// The time limit for establishing a connection.
    pub connect_timeout: Duration,
    /// The longest time without an event; see [`IDLE_TIMEOUT`].
    pub idle_timeout: Duration,
    /// The number of retries after a transient failure.
    pub retries_max: usize,
    /// The limit of the total wait time of all retries of one request.
    pub retry_wait_max: Duration,
    /// The context window of the model in tokens. Overrides the built-in table, which may be wrong or lack the
    /// model.
    pub context_tokens: Option<u64>,
    /// The reasoning effort; `None` leaves it to the provider.
    pub effort: Option<Effort>,
}

protocol::named_enum! {
    /// The amount of reasoning before an answer.
    pub enum Effort {
        /// Low effort.
        Low = "low",
        /// Medium effort.
        Medium = "medium",
        /// High effort.
        High = "high",
    }
}

impl Effort {
    /// Returns the reasoning budget in tokens, for models that take a budget instead of an effort.
    pub(crate) const fn budget_tokens(self) -> u64 {
        match self {
            Self::Low => 2_048,
            Self::Medium => 8_192,
            Self::High => 24_576,
        }
    }
}

impl Default for ProviderSettings {
    fn default() -> Self {
        Self {
            api_key: None,
            base_url: None,
            headers: Vec::new(),
            connect_timeout: CONNECT_TIMEOUT,
            idle_timeout: IDLE_TIMEOUT,
            retries_max: RETRIES_MAX,
            retry_wait_max: RETRY_WAIT_MAX,
            context_tokens: None,
            effort: None,
        }
    }
}

impl Provider {
    /// Returns the base URL of the provider's own endpoint.
    pub const fn default_base_url(self) -> &'static str {
        match self {
            Self::Anthropic => "https://api.anthropic.com",
            Self::OpenAi | Self::OpenAiChat => "https://api.openai.com/v1",
            Self::Gemini => "https://generativelanguage.googleapis.com",
        }
    }

    /// Returns the names of the environment variables for the key. The first one that is set counts.
    pub const fn key_variables(self) -> &'static [&'static str] {
        match self {
            Self::Anthropic => &["ANTHROPIC_API_KEY"],
            Self::OpenAi | Self::OpenAiChat => &["OPENAI_API_KEY"],
            Self::Gemini => &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        }
    }

    /// Returns the names of the environment variables for the base URL. The first one that is set counts.
    pub const fn base_url_variables(self) -> &'static [&'static str] {
        match self {
            Self::Anthropic => &["ANTHROPIC_BASE_URL"],
            Self::OpenAi | Self::OpenAiChat => &["OPENAI_BASE_URL"],
            Self::Gemini => &["GEMINI_BASE_URL", "GOOGLE_GEMINI_BASE_URL"],
        }
    }

    /// Returns whether a call needs a key. Local servers of the Chat Completions format (Ollama, llama.cpp, vLLM)
    /// need none.
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
    fn only_a_custom_chat_server_needs_no_key() {
        let custom = Some("http://127.0.0.1:11434");
        for provider in Provider::ALL {
            assert!(provider.requires_key(None), "{provider:?}");
            assert_eq!(provider.requires_key(custom), provider != Provider::OpenAiChat, "{provider:?}");
        }
        assert!(Provider::OpenAiChat.requires_key(Some("https://api.openai.com/v1/")));
    }

    #[test]
    fn k4_settings_never_show_a_secret() {
        let settings = ProviderSettings {
            api_key: Some("sk-secret".into()),
            headers: vec![("x-proxy".into(), "sk-other".into())],
            ..ProviderSettings::default()
        };
        let debug_text = format!("{settings:?}");
        assert!(!debug_text.contains("sk-"), "{debug_text}");
    }
}
