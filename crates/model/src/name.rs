//! Names of models: `provider/name`. What a provider speaks is decided by its adapter.

use std::fmt;
use std::str::FromStr;

protocol::named_enum! {
    /// The wire formats Segue speaks.
    pub enum Provider {
        /// Anthropic Messages.
        Anthropic = "anthropic",
        /// OpenAI Responses.
        OpenAi = "openai",
        /// OpenAI Chat Completions, as spoken by OpenAI itself, Ollama, llama.cpp, vLLM and others.
        OpenAiChat = "openai-chat",
        /// Gemini `streamGenerateContent`.
        Gemini = "gemini",
    }
}

/// `provider/name` of a model; the name itself may contain slashes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ModelName {
    /// Who answers.
    pub provider: Provider,
    /// The provider's own name of the model.
    pub name: String,
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider.as_str(), self.name)
    }
}

/// Why a text names no model.
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
