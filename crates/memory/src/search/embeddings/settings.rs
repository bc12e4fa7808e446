//! The settings of search: the section `search` of `config.toml`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Default tokens that the model may read in a day: a year of daily work with agents fits into a few of them.
const DEFAULT_DAILY_TOKENS: u64 = 5_000_000;
/// Maximum number of dimensions that can be asked for.
const DIMENSIONS_MAX: u32 = 8_192;

/// The settings of search.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SearchSettings {
    /// The embedding model with which searches compare meaning besides words. Unset, only words are compared.
    pub embeddings: Option<EmbeddingConfig>,
}

/// An embedding model at an endpoint of OpenAI's format: Ollama, llama.cpp, vLLM, TEI or OpenAI. Messages are sent to it
/// without their secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table with `url` and `model`")]
pub struct EmbeddingConfig {
    /// The base URL, such as `http://127.0.0.1:11434/v1`.
    pub url: String,
    /// The name of the model at the endpoint, such as `nomic-embed-text`.
    pub model: String,
    /// The environment variable with the API key. Unset, no key is sent.
    #[serde(default)]
    pub key_variable: Option<String>,
    /// Number of dimensions to ask for. Unset, the model decides.
    #[serde(default)]
    pub dimensions: Option<u32>,
    /// The most tokens that the model may read in a day (UTC) to embed messages.
    #[serde(default = "default_daily_tokens")]
    pub daily_tokens: u64,
    /// Text before each message, for models that need one, such as `search_document: `.
    #[serde(default)]
    pub message_prefix: String,
    /// Text before each question, such as `search_query: `.
    #[serde(default)]
    pub question_prefix: String,
}

/// Returns the default of `daily_tokens`.
const fn default_daily_tokens() -> u64 {
    DEFAULT_DAILY_TOKENS
}

impl SearchSettings {
    /// Returns the first wrong setting as one line of text; `None` if all are valid.
    pub fn validation_error(&self) -> Option<String> {
        let config = self.embeddings.as_ref()?;
        if !config.url.trim().starts_with("http://") && !config.url.trim().starts_with("https://") {
            return Some("`search.embeddings.url` is not an http or https URL".to_owned());
        }
        if config.model.trim().is_empty() {
            return Some("`search.embeddings.model` is empty".to_owned());
        }
        match config.dimensions {
            Some(dimensions) if !(1..=DIMENSIONS_MAX).contains(&dimensions) => Some(format!(
                "`search.embeddings.dimensions` is {dimensions}; it must be 1 to {DIMENSIONS_MAX}"
            )),
            Some(_) | None => None,
        }
    }
}
