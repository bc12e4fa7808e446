//! Models: which are configured, why the others are not, and how one is chosen and opened.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use model::{ChatModel, ModelName, Provider};
use parking_lot::Mutex;
use secrecy::SecretString;
use serde::Serialize;

use crate::home::config::Config;
use crate::{Error, Result, RunError};

/// What `segue models` tells about one provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProviderStatus {
    /// The provider's name, as used in `provider/name`.
    pub provider: String,
    /// Whether a model of it can be used.
    pub configured: bool,
    /// Where the key was found, or what is missing.
    pub reason: String,
    /// Where it is reached.
    pub base_url: String,
}

/// What `segue models` tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModelStatus {
    /// The model that is used when none is named; `None` means the offline extract.
    pub default: Option<String>,
    /// Where the default was set.
    pub default_from: Option<String>,
    /// Why the default cannot be used, when it cannot.
    pub problem: Option<String>,
    /// Every provider.
    pub providers: Vec<ProviderStatus>,
}

/// Chooses and opens models.
pub(crate) struct Models {
    config: Arc<Config>,
    /// Named on the command line or by a client.
    named: Option<String>,
    /// The model in use, so that its connections are kept between turns.
    opened: OnceLock<Arc<dyn ChatModel>>,
    /// Others that were asked for by name.
    others: Mutex<BTreeMap<String, Arc<dyn ChatModel>>>,
}

/// A provider's settings as found, and where.
struct Found {
    settings: model::Settings,
    key_from: Option<String>,
    base_url: String,
}

impl Models {
    pub(crate) fn new(config: Arc<Config>, named: Option<String>) -> Self {
        Self { config, named, opened: OnceLock::new(), others: Mutex::default() }
    }

    /// Returns the name of the model to use and where it was set.
    fn choice(&self) -> Option<(String, String)> {
        let named = self.named.clone().map(|name| (name, "--model".to_owned()));
        let environment = || variable("SEGUE_MODEL").map(|name| (name, "SEGUE_MODEL".to_owned()));
        let file = || self.config.model.clone().map(|name| (name, "config.toml".to_owned()));
        named.or_else(environment).or_else(file).or_else(|| self.only_configured())
    }

    /// Returns the default model of the first provider whose key is in the environment or the settings.
    fn only_configured(&self) -> Option<(String, String)> {
        Provider::ALL.into_iter().find_map(|provider| {
            let found = self.find(provider);
            let (key_from, name) = (found.key_from?, default_model(provider)?);
            Some((format!("{}/{name}", provider.as_str()), key_from))
        })
    }

    /// Opens the model to use; `None` when none is configured.
    pub(crate) fn open(&self) -> Result<Option<Arc<dyn ChatModel>>> {
        if let Some(opened) = self.opened.get() {
            return Ok(Some(Arc::clone(opened)));
        }
        let Some((name, settings)) = self.chosen()? else { return Ok(None) };
        let connected = model::connect(name, settings)?;
        Ok(Some(Arc::clone(self.opened.get_or_init(|| connected))))
    }

    /// Opens the model for work that can be done without one; `None` when none is configured or it cannot be opened.
    pub(crate) fn usable(&self) -> Option<Arc<dyn ChatModel>> {
        self.open().unwrap_or(None)
    }

    /// Returns the model to use and how it is reached, without making a client for it.
    fn chosen(&self) -> Result<Option<(ModelName, model::Settings)>> {
        let Some((text, from)) = self.choice() else { return Ok(None) };
        if is_offline(&text) {
            return Ok(None);
        }
        self.reached(&text, from).map(Some)
    }

    /// Opens the model of that name, `provider/name`, whatever the default is.
    pub(crate) fn named(&self, text: &str) -> Result<Arc<dyn ChatModel>> {
        let mut others = self.others.lock();
        if let Some(opened) = others.get(text) {
            return Ok(Arc::clone(opened));
        }
        let (name, settings) = self.reached(text, "the model".to_owned())?;
        let connected = model::connect(name, settings)?;
        others.insert(text.to_owned(), Arc::clone(&connected));
        Ok(connected)
    }

    /// Opens a small fast model for work that nobody waits for: one of the provider of the model in use, or that model
    /// itself; `None` when none is configured.
    pub(crate) fn small(&self) -> Result<Option<Arc<dyn ChatModel>>> {
        let Some((name, _)) = self.chosen()? else { return Ok(None) };
        let is_own = self.find(name.provider).is_own_endpoint(name.provider);
        match small_model(name.provider).filter(|_| is_own) {
            Some(small) => self.named(&format!("{}/{small}", name.provider.as_str())).map(Some),
            None => self.open(),
        }
    }

    /// Opens the model of that name; `None` when it stands for the offline extract.
    pub(crate) fn summariser(&self, text: &str) -> Result<Option<Arc<dyn ChatModel>>> {
        if is_offline(text) { Ok(None) } else { self.named(text).map(Some) }
    }

    /// Says what is wrong with a model that a setting names; `None` when it can be used.
    pub(crate) fn fault(&self, text: &str) -> Option<String> {
        self.reached(text, "the model".to_owned()).err().map(|error| error.to_string())
    }

    /// Returns how the model of that name is reached; `from` says where it was named.
    fn reached(&self, text: &str, from: String) -> Result<(ModelName, model::Settings)> {
        let name: ModelName = text.parse().map_err(|error: model::ModelNameError| {
            Error::Run(RunError::Model(model::Error::Setup { what: from, reason: error.to_string() }))
        })?;
        let found = self.find(name.provider);
        if found.key_from.is_none() && name.provider.requires_key(Some(&found.base_url)) {
            let reason = missing(name.provider);
            return Err(Error::Run(RunError::Model(model::Error::Setup { what: name.to_string(), reason })));
        }
        Ok((name, found.settings))
    }

    /// Returns the names of the environment variables that may hold keys.
    pub(crate) fn key_variables(&self) -> Vec<String> {
        let own = self.config.providers.values().filter_map(|provider| provider.api_key_env.clone());
        let known = Provider::ALL.into_iter().flat_map(|provider| provider.key_variables().iter());
        own.chain(known.map(|name| (*name).to_owned())).collect()
    }

    pub(crate) fn status(&self) -> ModelStatus {
        let choice = self.choice();
        let providers = Provider::ALL.into_iter().map(|provider| self.provider_status(provider)).collect();
        ModelStatus {
            default: choice.as_ref().map(|(name, _)| name.clone()),
            default_from: choice.map(|(_, from)| from),
            problem: self.chosen().err().map(|error| error.to_string()),
            providers,
        }
    }

    fn provider_status(&self, provider: Provider) -> ProviderStatus {
        let found = self.find(provider);
        let needs_key = provider.requires_key(Some(&found.base_url));
        let reason = match &found.key_from {
            Some(from) => format!("key from {from}"),
            None if needs_key => missing(provider),
            None => "needs no key".to_owned(),
        };
        ProviderStatus {
            provider: provider.as_str().to_owned(),
            configured: found.key_from.is_some() || !needs_key,
            reason,
            base_url: found.base_url,
        }
    }

    fn find(&self, provider: Provider) -> Found {
        let config = self.config.providers.get(provider.as_str()).cloned().unwrap_or_default();
        let own = config.api_key_env.clone().into_iter();
        let names = own.chain(provider.key_variables().iter().map(|name| (*name).to_owned()));
        let from_environment = names.into_iter().find_map(|name| Some((variable(&name)?, name)));
        let (api_key, key_from) = match (from_environment, config.api_key) {
            (Some((key, name)), _) => (Some(SecretString::from(key)), Some(name)),
            (None, Some(key)) => (Some(key), Some("config.toml".to_owned())),
            (None, None) => (None, None),
        };
        let base_url = provider
            .base_url_variables()
            .iter()
            .find_map(|name| variable(name))
            .or(config.base_url)
            .unwrap_or_else(|| provider.default_base_url().to_owned());
        let settings = model::Settings {
            api_key,
            base_url: Some(base_url.clone()),
            context_tokens: config.context_tokens,
            silence_max: config.idle_seconds.map_or(model::settings::SILENCE_MAX, Duration::from_secs),
            effort: config.effort.as_deref().and_then(model::Effort::from_name),
            ..model::Settings::default()
        };
        Found { settings, key_from, base_url }
    }
}

/// Returns whether the name stands for the offline extract.
pub(crate) fn is_offline(text: &str) -> bool {
    text == "extractive" || text == "none"
}

impl Found {
    /// Returns whether the provider itself answers there, and not something that speaks like it and may have other models.
    fn is_own_endpoint(&self, provider: Provider) -> bool {
        origin(&self.base_url) == origin(provider.default_base_url())
    }
}

/// Returns scheme and host of a URL.
fn origin(url: &str) -> String {
    url.trim().split('/').take(3).collect::<Vec<_>>().join("/").to_ascii_lowercase()
}

/// Returns the provider's model for small work that nobody waits for: the cheapest of its current ones that still
/// writes a sound summary. The names are those of the providers' own model pages, in the month of the price table
/// ([`model::prices::AS_OF`]), which has a price for each of them.
const fn small_model(provider: Provider) -> Option<&'static str> {
    match provider {
        Provider::Anthropic => Some("claude-haiku-4-5"),
        Provider::OpenAi | Provider::OpenAiChat => Some("gpt-5-mini"),
        Provider::Gemini => Some("gemini-2.5-flash"),
    }
}

/// Returns the model that is used when only a key is set; none for endpoints that may serve anything.
const fn default_model(provider: Provider) -> Option<&'static str> {
    match provider {
        Provider::Anthropic => Some("claude-sonnet-4-5"),
        Provider::OpenAi => Some("gpt-5"),
        Provider::Gemini => Some("gemini-2.5-pro"),
        Provider::OpenAiChat => None,
    }
}

fn missing(provider: Provider) -> String {
    let names = provider.key_variables().join(" or ");
    format!("no key: set {names}, or `api_key` under [providers.{}] in config.toml", provider.as_str())
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::config::ProviderConfig;

    /// Returns the name of the small model where that model is in use, reached there.
    fn small(name: &str, base_url: Option<&str>) -> Option<String> {
        let settings = ProviderConfig {
            api_key: Some(SecretString::from("test")),
            base_url: base_url.map(str::to_owned),
            ..ProviderConfig::default()
        };
        let known = Provider::ALL.into_iter();
        let providers = known.map(|provider| (provider.as_str().to_owned(), settings.clone())).collect();
        let models = Models::new(Arc::new(Config { providers, ..Config::default() }), Some(name.to_owned()));
        models.small().unwrap().map(|model| model.name().to_string())
    }

    #[test]
    fn summaries_are_written_by_a_small_model_of_the_provider_in_use() {
        for (name, expected) in [
            ("anthropic/claude-sonnet-4-5", "anthropic/claude-haiku-4-5"),
            ("openai/gpt-5", "openai/gpt-5-mini"),
            ("openai-chat/gpt-4.1", "openai-chat/gpt-5-mini"),
            ("gemini/gemini-2.5-pro", "gemini/gemini-2.5-flash"),
        ] {
            assert_eq!(small(name, None).as_deref(), Some(expected));
            assert!(model::prices::price(expected, &model::prices::Prices::new()).is_some(), "{expected}");
        }
        assert_eq!(small("none", None), None, "the extract");
    }

    #[test]
    fn behind_another_endpoint_the_model_in_use_writes_them() {
        for name in ["openai-chat/qwen3:8b", "anthropic/claude-sonnet-4-5", "openai/gpt-5"] {
            assert_eq!(small(name, Some("http://127.0.0.1:11434/v1")).as_deref(), Some(name));
        }
        let own = Some("https://API.openai.com/v1/");
        assert_eq!(small("openai/gpt-5", own).as_deref(), Some("openai/gpt-5-mini"));
    }
}
