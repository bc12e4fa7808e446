//! The model registry: selects a model from the settings, reports why a provider or model cannot be used, and opens
//! model clients.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use model::{ChatModel, ModelName, Provider};
use parking_lot::Mutex;
use secrecy::SecretString;
use serde::Serialize;

use crate::agent::EnvironmentAccess;
use crate::home::config::ConfigFile;
use crate::{Error, Result, RunError};

/// The status of one provider, as `segue models` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProviderStatus {
    /// The provider's name as in `provider/name`.
    pub provider: String,
    /// True if the provider's models can be used.
    pub configured: bool,
    /// The source of the API key, or the missing setting.
    pub reason: String,
    /// The base URL of its API.
    pub base_url: String,
}

/// The status of all models, as `segue models` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModelStatus {
    /// `provider/name` of the selected model. `None` if no model is selected; handoffs then use the offline
    /// summary.
    pub default: Option<String>,
    /// The setting that selected the model: an argument, an environment variable or `config.toml`.
    pub default_from: Option<String>,
    /// The reason why the selected model cannot be used; `None` if it can.
    pub problem: Option<String>,
    /// All providers.
    pub providers: Vec<ProviderStatus>,
}

/// Resolves model names and opens model clients. Opened clients are cached, so that their connections are reused.
pub(crate) struct ModelRegistry {
    /// The configuration.
    config: Arc<ConfigFile>,
    /// The model name from the command line or from a client.
    requested_name: Option<String>,
    /// The use of environment variables that hold settings.
    environment: EnvironmentAccess,
    /// The client of the selected model, once it has been opened.
    selected_client: OnceLock<Arc<dyn ChatModel>>,
    /// The clients of other models, by the name under which they were requested.
    clients_by_name: Mutex<BTreeMap<String, Arc<dyn ChatModel>>>,
}

/// The resolved settings of a provider.
struct ResolvedProvider {
    /// The settings for the `model` crate.
    settings: model::ProviderSettings,
    /// The source of the API key: an environment variable or `config.toml`. `None` if there is no key.
    key_source: Option<String>,
    /// The base URL, which is also in `settings`.
    base_url: String,
}

impl ModelRegistry {
    /// Creates a registry for the configuration. `requested_name` takes precedence over the environment and
    /// `config.toml`.
    pub(crate) fn new(
        config: Arc<ConfigFile>,
        requested_name: Option<String>,
        environment: EnvironmentAccess,
    ) -> Self {
        Self {
            config,
            requested_name,
            environment,
            selected_client: OnceLock::new(),
            clients_by_name: Mutex::default(),
        }
    }

    /// Returns the name of the selected model and the setting that selected it. The order of precedence is: the
    /// requested name, `SEGUE_MODEL`, `config.toml`, the first provider with a key.
    fn selected_name(&self) -> Option<(String, String)> {
        let requested = self.requested_name.clone().map(|name| (name, "--model".to_owned()));
        let environment =
            || self.environment.variable("SEGUE_MODEL").map(|name| (name, "SEGUE_MODEL".to_owned()));
        let file = || self.config.model.clone().map(|name| (name, "config.toml".to_owned()));
        requested.or_else(environment).or_else(file).or_else(|| self.first_configured())
    }

    /// Returns the default model of the first provider with a key in the environment or the configuration.
    fn first_configured(&self) -> Option<(String, String)> {
        Provider::ALL.into_iter().find_map(|provider| {
            let resolved = self.resolve_provider(provider);
            let (key_source, name) = (resolved.key_source?, default_model(provider)?);
            Some((format!("{}/{name}", provider.as_str()), key_source))
        })
    }

    /// Opens the selected model; `None` if none is selected.
    ///
    /// # Errors
    /// Fails if the name is invalid, the key is missing, or the client cannot be created.
    pub(crate) fn open_selected(&self) -> Result<Option<Arc<dyn ChatModel>>> {
        if let Some(opened) = self.selected_client.get() {
            return Ok(Some(Arc::clone(opened)));
        }
        let Some((name, settings)) = self.selected_model()? else { return Ok(None) };
        let connected = model::connect(name, settings)?;
        Ok(Some(Arc::clone(self.selected_client.get_or_init(|| connected))))
    }

    /// Opens the selected model for an operation that also works without one. `None` if none is selected or
    /// it cannot be opened.
    pub(crate) fn open_if_usable(&self) -> Option<Arc<dyn ChatModel>> {
        self.open_selected().unwrap_or(None)
    }

    /// Returns the selected model with its resolved settings, without opening a client.
    fn selected_model(&self) -> Result<Option<(ModelName, model::ProviderSettings)>> {
        let Some((text, source)) = self.selected_name() else { return Ok(None) };
        if is_offline_summary(&text) {
            return Ok(None);
        }
        self.resolve_model(&text, source).map(Some)
    }

    /// Opens the model `provider/name`, independent of the selected one.
    ///
    /// # Errors
    /// Fails if the name is invalid, the key is missing, or the client cannot be created.
    pub(crate) fn open_named(&self, text: &str) -> Result<Arc<dyn ChatModel>> {
        let mut clients = self.clients_by_name.lock();
        if let Some(opened) = clients.get(text) {
            return Ok(Arc::clone(opened));
        }
        let (name, settings) = self.resolve_model(text, "the model".to_owned())?;
        let connected = model::connect(name, settings)?;
        clients.insert(text.to_owned(), Arc::clone(&connected));
        Ok(connected)
    }

    /// Opens a small, fast model for background work: the small model of the selected model's provider, or the
    /// selected model itself if the provider's endpoint is not the official one. `None` if no model is selected.
    pub(crate) fn open_small(&self) -> Result<Option<Arc<dyn ChatModel>>> {
        let Some((name, _)) = self.selected_model()? else { return Ok(None) };
        let is_official = self.resolve_provider(name.provider).is_official_endpoint(name.provider);
        match small_model(name.provider).filter(|_| is_official) {
            Some(small) => self.open_named(&format!("{}/{small}", name.provider.as_str())).map(Some),
            None => self.open_selected(),
        }
    }

    /// Opens the named model; `None` if the name stands for the offline summary.
    pub(crate) fn open_summarizer(&self, text: &str) -> Result<Option<Arc<dyn ChatModel>>> {
        if is_offline_summary(text) { Ok(None) } else { self.open_named(text).map(Some) }
    }

    /// Returns the reason why the named model cannot be used; `None` if it can.
    pub(crate) fn model_problem(&self, text: &str) -> Option<String> {
        self.resolve_model(text, "the model".to_owned()).err().map(|error| error.to_string())
    }

    /// Resolves a model name to its settings. An error names `source`, the setting that contains the name.
    fn resolve_model(&self, text: &str, source: String) -> Result<(ModelName, model::ProviderSettings)> {
        let name: ModelName = text.parse().map_err(|error: model::ModelNameError| {
            Error::Run(RunError::Model(model::Error::Setup { what: source, reason: error.to_string() }))
        })?;
        let resolved = self.resolve_provider(name.provider);
        if resolved.key_source.is_none() && name.provider.requires_key(Some(&resolved.base_url)) {
            let reason = missing_key_reason(name.provider);
            return Err(Error::Run(RunError::Model(model::Error::Setup { what: name.to_string(), reason })));
        }
        Ok((name, resolved.settings))
    }

    /// Returns the names of the environment variables that can contain API keys.
    pub(crate) fn key_env_variables(&self) -> Vec<String> {
        let configured = self.config.providers.values().filter_map(|provider| provider.api_key_env.clone());
        let known = Provider::ALL.into_iter().flat_map(|provider| provider.key_variables().iter());
        configured.chain(known.map(|name| (*name).to_owned())).collect()
    }

    /// Returns the status of all models.
    pub(crate) fn status(&self) -> ModelStatus {
        let selected = self.selected_name();
        let providers = Provider::ALL.into_iter().map(|provider| self.provider_status(provider)).collect();
        ModelStatus {
            default: selected.as_ref().map(|(name, _)| name.clone()),
            default_from: selected.map(|(_, source)| source),
            problem: self.selected_model().err().map(|error| error.to_string()),
            providers,
        }
    }

    /// Returns the status of a provider.
    fn provider_status(&self, provider: Provider) -> ProviderStatus {
        let resolved = self.resolve_provider(provider);
        let needs_key = provider.requires_key(Some(&resolved.base_url));
        let reason = match &resolved.key_source {
            Some(source) => format!("key from {source}"),
            None if needs_key => missing_key_reason(provider),
            None => "needs no key".to_owned(),
        };
        ProviderStatus {
            provider: provider.as_str().to_owned(),
            configured: resolved.key_source.is_some() || !needs_key,
            reason,
            base_url: resolved.base_url,
        }
    }

    /// Resolves a provider's settings. Environment variables take precedence over `config.toml`, and the variable
    /// that `api_key_env` names takes precedence over the provider's usual ones.
    fn resolve_provider(&self, provider: Provider) -> ResolvedProvider {
        let config = self.config.providers.get(provider.as_str()).cloned().unwrap_or_default();
        let configured = config.api_key_env.clone().into_iter();
        let names = configured.chain(provider.key_variables().iter().map(|name| (*name).to_owned()));
        let from_environment =
            names.into_iter().find_map(|name| Some((self.environment.variable(&name)?, name)));
        let (api_key, key_source) = match (from_environment, config.api_key) {
            (Some((key, name)), _) => (Some(SecretString::from(key)), Some(name)),
            (None, Some(key)) => (Some(key), Some("config.toml".to_owned())),
            (None, None) => (None, None),
        };
        let base_url = provider
            .base_url_variables()
            .iter()
            .find_map(|name| self.environment.variable(name))
            .or(config.base_url)
            .unwrap_or_else(|| provider.default_base_url().to_owned());
        let settings = model::ProviderSettings {
            api_key,
            base_url: Some(base_url.clone()),
            context_tokens: config.context_tokens,
            idle_timeout: config.idle_seconds.map_or(model::settings::IDLE_TIMEOUT, Duration::from_secs),
            retry_wait_max: config.retry_seconds.map_or(model::settings::RETRY_WAIT_MAX, Duration::from_secs),
            effort: config.effort.as_deref().and_then(model::Effort::from_name),
            ..model::ProviderSettings::default()
        };
        ResolvedProvider { settings, key_source, base_url }
    }
}

/// Returns whether the name stands for the offline summary.
pub(crate) fn is_offline_summary(text: &str) -> bool {
    text == protocol::OFFLINE_SUMMARY_MODEL || text == "none"
}

impl ResolvedProvider {
    /// Returns whether the base URL is the provider's official one. A compatible server at another URL may offer
    /// other models.
    fn is_official_endpoint(&self, provider: Provider) -> bool {
        url_origin(&self.base_url) == url_origin(provider.default_base_url())
    }
}

/// Returns the scheme and host of a URL in lower case.
fn url_origin(url: &str) -> String {
    url.trim().split('/').take(3).collect::<Vec<_>>().join("/").to_ascii_lowercase()
}

/// Returns the provider's model for background work: the cheapest of its current models that still writes
/// sound summaries.
///
/// The names are from the providers' model pages in the month of the price table
/// ([`model::prices::PRICES_MONTH`]), which contains a price for each of them.
const fn small_model(provider: Provider) -> Option<&'static str> {
    match provider {
        Provider::Anthropic => Some("claude-haiku-4-5"),
        Provider::OpenAi | Provider::OpenAiChat => Some("gpt-5-mini"),
        Provider::Gemini => Some("gemini-2.5-flash"),
    }
}

/// Returns the default model of a provider; `None` for endpoints that can serve any model.
const fn default_model(provider: Provider) -> Option<&'static str> {
    match provider {
        Provider::Anthropic => Some("claude-sonnet-4-5"),
        Provider::OpenAi => Some("gpt-5"),
        Provider::Gemini => Some("gemini-2.5-pro"),
        Provider::OpenAiChat => None,
    }
}

/// Returns the reason that a provider's API key is missing, with the settings that can contain it.
fn missing_key_reason(provider: Provider) -> String {
    let names = provider.key_variables().join(" or ");
    format!("no key: set {names}, or `api_key` under [providers.{}] in config.toml", provider.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::config::ProviderConfig;

    /// Returns the name of the small model for a selected model and base URL.
    fn small_model_name(name: &str, base_url: Option<&str>) -> Option<String> {
        let settings = ProviderConfig {
            api_key: Some(SecretString::from("test")),
            base_url: base_url.map(str::to_owned),
            ..ProviderConfig::default()
        };
        let known = Provider::ALL.into_iter();
        let providers = known.map(|provider| (provider.as_str().to_owned(), settings.clone())).collect();
        let models = ModelRegistry::new(
            Arc::new(ConfigFile { providers, ..ConfigFile::default() }),
            Some(name.to_owned()),
            EnvironmentAccess::Ignore,
        );
        models.open_small().unwrap().map(|model| model.name().to_string())
    }

    #[test]
    fn summaries_are_written_by_a_small_model_of_the_provider_in_use() {
        for (name, expected) in [
            ("anthropic/claude-sonnet-4-5", "anthropic/claude-haiku-4-5"),
            ("openai/gpt-5", "openai/gpt-5-mini"),
            ("openai-chat/gpt-4.1", "openai-chat/gpt-5-mini"),
            ("gemini/gemini-2.5-pro", "gemini/gemini-2.5-flash"),
        ] {
            assert_eq!(small_model_name(name, None).as_deref(), Some(expected));
            assert!(
                model::prices::find_price(expected, &model::prices::Prices::new()).is_some(),
                "{expected}"
            );
        }
        assert_eq!(small_model_name("none", None), None, "`none` selects the offline summary");
    }

    #[test]
    fn with_another_endpoint_the_selected_model_writes_summaries() {
        for name in ["openai-chat/qwen3:8b", "anthropic/claude-sonnet-4-5", "openai/gpt-5"] {
            assert_eq!(small_model_name(name, Some("http://127.0.0.1:11434/v1")).as_deref(), Some(name));
        }
        let official_url = Some("https://API.openai.com/v1/");
        assert_eq!(small_model_name("openai/gpt-5", official_url).as_deref(), Some("openai/gpt-5-mini"));
    }
}
