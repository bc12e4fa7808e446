//! Settings from `config.toml`. What they mean is decided where they are used; unknown keys are errors, so that a
//! misspelled one is noticed.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::{Error, Result};

/// The settings; every one has a default.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// `provider/name` of the model to use when none is named.
    pub model: Option<String>,
    /// Settings of each provider, by its name.
    pub providers: BTreeMap<String, ProviderConfig>,
    /// How handoffs are drafted.
    pub handoff: HandoffConfig,
    /// When and how long conversations are condensed.
    pub compaction: compaction::Settings,
    /// When old turns become summaries of medium-term memory, and what of these a model is told.
    pub memory: memory::Settings,
    /// What a run may use.
    pub run: RunConfig,
    /// Which tool calls are allowed, asked about and refused.
    pub permissions: tools::permission::Permissions,
    /// The servers of other tools.
    pub mcp: McpConfig,
    /// What models cost, by `provider/name`, where the built-in table is silent or wrong.
    pub prices: model::prices::Prices,
}

/// The servers of other tools.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct McpConfig {
    /// Each server, by its name.
    pub servers: BTreeMap<String, mcp::ServerConfig>,
}

/// Settings of one provider.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProviderConfig {
    /// Where it is reached.
    pub base_url: Option<String>,
    /// The key; the environment is the better place.
    pub api_key: Option<secrecy::SecretString>,
    /// The name of the environment variable that holds the key.
    pub api_key_env: Option<String>,
    /// Tokens of the model's window, where Segue does not know it.
    pub context_tokens: Option<u64>,
    /// Seconds that nothing at all may arrive of an answer before it counts as lost.
    pub idle_seconds: Option<u64>,
    /// How much the model reasons: `low`, `medium` or `high`; the provider decides without it.
    pub effort: Option<String>,
}

/// How handoffs are drafted.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HandoffConfig {
    /// The summary's budget in tokens.
    pub max_summary_tokens: u64,
    /// The most tokens of the conversation a model is shown for a draft; `None` follows its window.
    pub max_input_tokens: Option<u64>,
    /// How often a proposal may be refined.
    pub max_refinements: u32,
    /// Days after which a proposal that nobody decided is given up; 0 never gives one up.
    pub expires_after_days: u32,
    /// The share of the model's window from which on a handoff is proposed, 0 to 1; 0 never proposes one.
    pub propose_at: f64,
}

impl Default for HandoffConfig {
    fn default() -> Self {
        Self {
            max_summary_tokens: 300,
            max_input_tokens: None,
            max_refinements: 3,
            expires_after_days: 30,
            propose_at: 0.75,
        }
    }
}

/// What a run may use.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RunConfig {
    /// Steps of one run, a backstop for a graph that never comes to rest.
    pub steps_max: u64,
    /// How often one run may ask the model.
    pub model_calls_max: u64,
    /// Seconds of one run; `None` is no limit.
    pub seconds_max: Option<u64>,
}

impl Default for RunConfig {
    fn default() -> Self {
        Self { steps_max: 1_000, model_calls_max: 200, seconds_max: None }
    }
}

impl Config {
    /// Reads the settings; a missing file gives the defaults.
    ///
    /// # Errors
    /// When the file cannot be read, or holds something that is no setting; the reason names the line.
    pub fn read(path: &Path) -> Result<Self> {
        let failed = |reason: String| Error::Config { path: path.to_owned(), reason };
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(failed(error.to_string())),
        };
        let config: Self =
            toml_edit::de::from_str(&text).map_err(|error| failed(error.to_string().trim().to_owned()))?;
        let known = model::Provider::ALL.map(model::Provider::as_str);
        if let Some(effort) = config
            .providers
            .values()
            .filter_map(|provider| provider.effort.as_deref())
            .find(|name| model::Effort::from_name(name).is_none())
        {
            return Err(failed(format!("unknown effort `{effort}`; known: low, medium, high")));
        }
        if !(0.0..=1.0).contains(&config.handoff.propose_at) {
            let given = config.handoff.propose_at;
            return Err(failed(format!(
                "`handoff.propose_at` is {given}; it is a share of the window, 0 to 1"
            )));
        }
        if let Some(fault) = config.compaction.fault().or_else(|| config.memory.fault()) {
            return Err(failed(fault));
        }
        match config.providers.keys().find(|name| !known.contains(&name.as_str())) {
            Some(name) => Err(failed(format!("unknown provider `{name}`; known: {}", known.join(", ")))),
            None => Ok(config),
        }
    }
}
