//! Settings from `config.toml`. What they mean is decided where they are used; unknown keys are errors, so that a
//! misspelled one is noticed.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;

use super::database::DatabaseConfig;
use crate::{Error, HomeError, Result};

/// The settings; every one has a default.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
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
    /// What a server gives its users.
    pub serve: ServeConfig,
    /// Where the journal is, and how its connections are kept.
    pub database: DatabaseConfig,
    /// Where accepted summaries are copied to.
    pub mirror: handoff::mirror::Settings,
    /// Commands and addresses that are told of what happens.
    pub hooks: Vec<user_hooks::HookConfig>,
    /// Where traces of what happens are sent.
    pub tracing: telemetry::Settings,
    /// What models cost, by `provider/name`, where the built-in table is silent or wrong.
    pub prices: model::prices::Prices,
}

/// The servers of other tools.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct McpConfig {
    /// Each server, by its name.
    pub servers: BTreeMap<String, mcp::ServerConfig>,
}

/// What a server gives its users, who are not the person at the machine.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ServeConfig {
    /// What their agents may use of the machine.
    pub user_tools: UserTools,
    /// Seconds for which a run that is not heard of belongs to the process that works on it: then another one takes it over.
    /// Machines that share a database go by its clock, which each asks three times as often.
    pub lease_seconds: u32,
}

impl ServeConfig {
    /// The lengths of a lease that make sense, in seconds: less than what a busy machine may be silent for is too short.
    const LEASE_SECONDS: std::ops::RangeInclusive<u32> = 2..=3_600;

    /// Returns for how long a run that is not heard of belongs to its process.
    pub(crate) fn lease(&self) -> std::time::Duration {
        std::time::Duration::from_secs(u64::from(self.lease_seconds))
    }

    /// Returns what is wrong with the settings.
    fn fault(&self) -> Option<String> {
        let (given, known) = (self.lease_seconds, Self::LEASE_SECONDS);
        let (least, most) = (known.start(), known.end());
        (!known.contains(&given))
            .then(|| format!("`serve.lease_seconds` is {given}; {least} to {most} are possible"))
    }
}

impl Default for ServeConfig {
    fn default() -> Self {
        Self { user_tools: UserTools::default(), lease_seconds: runtime::LEASE_SECONDS }
    }
}

/// What of the machine the agents of users may use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UserTools {
    /// Nothing: no file, no command, no skill, no server of other tools.
    #[default]
    None,
    /// Everything that the person at the machine has; users then share the workspace, and what one writes others read.
    All,
}

/// Settings of one provider.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProviderConfig {
    /// Where it is reached.
    pub base_url: Option<String>,
    /// The key; the environment is the better place.
    #[schemars(with = "Option<String>")]
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
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HandoffConfig {
    /// The summary's budget in tokens.
    pub max_summary_tokens: u64,
    /// The most tokens of the conversation a model is shown for a draft; unset, it follows its window.
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
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RunConfig {
    /// Steps of one run, a backstop for a graph that never comes to rest.
    pub steps_max: u64,
    /// How often one run may ask the model.
    pub model_calls_max: u64,
    /// Seconds of one run; unset, there is no limit.
    pub seconds_max: Option<u64>,
}

impl Default for RunConfig {
    fn default() -> Self {
        Self { steps_max: 1_000, model_calls_max: 200, seconds_max: None }
    }
}

impl Config {
    /// Returns every key there is, as a JSON Schema: for editors, and for whoever lists them.
    pub fn schema() -> serde_json::Value {
        schemars::schema_for!(Self).to_value()
    }

    /// Reads the settings; a missing file gives the defaults.
    ///
    /// # Errors
    /// When the file cannot be read, or holds something that is no setting; the reason names the line.
    pub fn read(path: &Path) -> Result<Self> {
        let failed = |reason: String| Error::Home(HomeError::Config { path: path.to_owned(), reason });
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
        if let Some(fault) = config
            .compaction
            .fault()
            .or_else(|| config.memory.fault())
            .or_else(|| config.serve.fault())
            .or_else(|| config.database.fault())
            .or_else(|| config.mirror.fault())
            .or_else(|| config.hooks.iter().find_map(user_hooks::HookConfig::fault))
        {
            return Err(failed(fault));
        }
        match config.providers.keys().find(|name| !known.contains(&name.as_str())) {
            Some(name) => Err(failed(format!("unknown provider `{name}`; known: {}", known.join(", ")))),
            None => Ok(config),
        }
    }
}
