//! Model names: `provider/name`. The provider decides which wire format is used; the formats are in `wire`.

use std::fmt;
use std::str::FromStr;

protocol::named_enum! {
    /// The providers, by the wire format that they speak.
    pub enum Provider {
        /// The Anthropic Messages API.
        Anthropic = "anthropic",
        /// The OpenAI Responses API.
        OpenAi = "openai",
        /// The OpenAI Chat Completions API, as OpenAI itself, Ollama, llama.cpp, vLLM and others implement it.
        OpenAiChat = "openai-chat",
        /// The Gemini API, method `streamGenerateContent`.
        Gemini = "gemini",
    }
}

/// The name of a model: `provider/name`. The part after the first slash may contain slashes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ModelName {
    /// The provider of the model.
    pub provider: Provider,
    /// The name of the model at the provider.
    pub name: String,
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider.as_str(), self.name)
    }
}

/// The error of a text that is not a model name. Contains at most 120 characters of the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` names no model: expected PROVIDER/NAME with a provider of anthropic, openai, openai-chat, gemini"
)]
pub struct ModelNameError(pub String);

impl FromStr for ModelName {
    type Err = ModelNameError;

    fn from_str(text: &str) -> Result<Self, ModelNameError> {
        let unknown = || ModelNameError(text.chars().take(120).collect());
        let (provider, name) = text.split_once('/').ok_or_else(unknown)?;
        let provider = Provider::ALL.into_iter().find(|p| p.as_str() == provider).ok_or_else(unknown)?;
        if name.is_empty() {
            return Err(unknown());
        }
        Ok(Self { provider, name: name.to_owned() })
    }
}
