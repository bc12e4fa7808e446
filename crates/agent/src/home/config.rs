//! The settings of `config.toml`. The code that uses a setting defines its effect. Unknown keys are errors,
//! so that a misspelled key is noticed.
//!
//! `segue config keys` prints the doc comments of these types, and `docs/src/configuration.md` is generated from
//! them.

use std::collections::BTreeMap;
use std::path::Path;

use memory::SummaryRetention;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::database::DatabaseConfig;
use crate::{Error, HomeError, Result};

/// The settings. Every key has a default.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ConfigFile {
    /// `provider/name` of the model to use if no other setting or argument names one.
    pub model: Option<String>,
    /// Settings of each provider, by the provider's name.
    pub providers: BTreeMap<String, ProviderConfig>,
    /// Drafting, refining and expiry of handoffs.
    pub handoff: HandoffConfig,
    /// The trigger and the limits of compaction.
    pub compaction: compaction::CompactionSettings,
    /// The tiers of memory: when old messages are summarized, and how much of the summaries a model receives.
    pub memory: memory::MemorySettings,
    /// Searches by meaning besides words.
    pub search: memory::SearchSettings,
    /// The limits of one run.
    pub run: RunConfig,
    /// Tool calls that are allowed, that need an approval, and that are refused.
    pub permissions: tools::permission::Permissions,
    /// The sandbox of commands: the files that they read and write, and the network.
    pub sandbox: tools::SandboxConfig,
    /// MCP servers, which provide additional tools.
    pub mcp: McpConfig,
    /// Settings of `segue serve`.
    pub serve: ServeConfig,
    /// The address of the journal's database, and the pool of connections to it.
    pub database: DatabaseConfig,
    /// The export of accepted handoff summaries to a PostgreSQL table.
    pub mirror: handoff::mirror::MirrorSettings,
    /// Commands and webhooks that are called when something happens.
    pub hooks: Vec<user_hooks::HookConfig>,
    /// The export of traces over OTLP.
    pub tracing: telemetry::TracingSettings,
    /// The redaction of secrets: additional patterns, and values that are not secrets.
    pub secrets: SecretsConfig,
    /// Prices of models by `provider/name`. They replace the built-in price or add a missing one.
    pub prices: model::prices::Prices,
}

/// The redaction of secrets in everything that is summarized, remembered, exported or logged.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SecretsConfig {
    /// Regular expressions of additional secrets, by a name for each kind. If an expression has a group, the group is the
    /// secret.
    pub patterns: BTreeMap<String, String>,
    /// Regular expressions of values that are not secrets. An expression must match the whole value.
    pub allow: Vec<String>,
}

/// MCP servers, which provide additional tools.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct McpConfig {
    /// Settings of each server, by the server's name.
    pub servers: BTreeMap<String, mcp::ServerConfig>,
}

/// Settings of `segue serve` for its users other than the person at the machine.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ServeConfig {
    /// The access of the users' agents to files, commands, skills and MCP servers of this machine.
    pub user_tools: UserTools,
    /// Seconds after which a run whose process has not renewed its lease may be taken over by another
    /// process. A process renews three times in that period. Machines that share a database use the
    /// database's clock.
    pub lease_seconds: u32,
}

impl ServeConfig {
    /// The allowed durations of a lease, in seconds. A shorter lease would expire on a busy machine whose process is
    /// alive but slow to renew it.
    const LEASE_SECONDS_RANGE: std::ops::RangeInclusive<u32> = 2..=3_600;

    /// Returns the duration of a lease.
    pub(crate) fn lease_duration(&self) -> std::time::Duration {
        std::time::Duration::from_secs(u64::from(self.lease_seconds))
    }

    /// Returns the first wrong setting as one line of text; `None` if all are valid.
    fn validation_error(&self) -> Option<String> {
        let (seconds, allowed) = (self.lease_seconds, Self::LEASE_SECONDS_RANGE);
        let (min, max) = (allowed.start(), allowed.end());
        (!allowed.contains(&seconds))
            .then(|| format!("`serve.lease_seconds` is {seconds}; it must be {min} to {max}"))
    }
}

impl Default for ServeConfig {
    fn default() -> Self {
        Self { user_tools: UserTools::default(), lease_seconds: runtime::LEASE_SECONDS }
    }
}

/// Access of the users' agents to this machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UserTools {
    /// No access: no files, commands, skills or MCP servers.
    #[default]
    None,
    /// The same access as the person at the machine. All users share one workspace and can read each other's
    /// files.
    All,
}

/// Settings of one provider.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProviderConfig {
    /// The base URL of the provider's API. Unset, it is the provider's public address.
    pub base_url: Option<String>,
    /// The API key. An environment variable is the safer place for it.
    #[schemars(with = "Option<String>")]
    pub api_key: Option<secrecy::SecretString>,
    /// The name of the environment variable that holds the API key.
    pub api_key_env: Option<String>,
    /// The context window of the model in tokens, for models that Segue does not know.
    pub context_tokens: Option<u64>,
    /// Seconds without an event of a streamed answer after which the answer counts as lost. Unset, 120. Keep-alives
    /// without content extend it to ten times as long.
    pub idle_seconds: Option<u64>,
    /// Seconds to wait in total between the attempts of one request, above all for a provider that is overloaded or limits requests;
    /// 0 does not wait. Unset, 300.
    pub retry_seconds: Option<u64>,
    /// The reasoning effort of the model: `low`, `medium` or `high`. Unset, the provider decides.
    pub effort: Option<String>,
}

/// Drafting, refining and expiry of handoffs.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HandoffConfig {
    /// The model that drafts and refines handoffs, `provider/name`, or `extractive` for the offline summary. Unset, it is
    /// the model of the run. `segue handoff --model` overrides it.
    pub model: Option<String>,
    /// The budget of a handoff summary in tokens.
    pub max_summary_tokens: u64,
    /// The most tokens of the conversation that the drafting model receives in one call. Unset, the limit follows
    /// the model's window.
    pub max_input_tokens: Option<u64>,
    /// The most model calls that summarize the parts of a conversation before its draft, if it does not fit into the
    /// call that drafts; 0 for none.
    pub max_part_calls: u32,
    /// How long a child thread is sent the summary that it was handed.
    pub keep: HandoffKeep,
    /// The most refinements of one proposal.
    pub max_refinements: u32,
    /// Days after which an undecided proposal expires; 0 turns expiry off.
    pub expires_after_days: u32,
    /// The share of the model's window, 0 to 1, from which on a handoff is suggested; 0 turns suggestions
    /// off.
    pub propose_at: f64,
    /// The check of what the next agent would know, which a review makes of each draft.
    pub probe: HandoffProbe,
}

impl Default for HandoffConfig {
    fn default() -> Self {
        Self {
            model: None,
            max_summary_tokens: 300,
            max_input_tokens: None,
            max_part_calls: 16,
            keep: HandoffKeep::default(),
            max_refinements: 3,
            expires_after_days: 30,
            propose_at: 0.75,
            probe: HandoffProbe::default(),
        }
    }
}

/// The check of what the next agent would know, which a review makes of each draft.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HandoffProbe {
    /// The model answers up to five questions from the draft alone; without a model the draft is searched for the answers.
    #[default]
    Auto,
    /// The draft is searched for the answers, without a model.
    Text,
    /// No check, unless it is asked for.
    Off,
}

/// How long a child thread is sent the summary that it was handed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HandoffKeep {
    /// In its first complete turn only.
    FirstTurn,
    /// Until a turn has called a tool, and for at most five turns.
    UntilUsed,
    /// As long as the thread exists.
    #[default]
    Thread,
}

impl HandoffKeep {
    /// Returns the setting of the hook that sends the summary.
    pub(crate) const fn retention(self) -> SummaryRetention {
        match self {
            Self::FirstTurn => SummaryRetention::FirstTurn,
            Self::UntilUsed => SummaryRetention::UntilUsed,
            Self::Thread => SummaryRetention::Thread,
        }
    }
}

/// The limits of one run.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RunConfig {
    /// The most steps of one run. It stops a graph that never becomes idle.
    pub steps_max: u64,
    /// The most model calls of one run.
    pub model_calls_max: u64,
    /// The most seconds of one run. Unset, there is no limit.
    pub seconds_max: Option<u64>,
    /// The shell of the tool `execute`: `auto`, `bash` or `sh`. With `auto`, a line that means the same to every shell is run by
    /// `sh`, which starts in less time, and every other line by bash.
    pub shell: tools::CommandShell,
}

impl Default for RunConfig {
    fn default() -> Self {
        Self {
            steps_max: 1_000,
            model_calls_max: 200,
            seconds_max: None,
            shell: tools::CommandShell::default(),
        }
    }
}

impl ConfigFile {
    /// Returns all keys as a JSON Schema, for editors and for the command that lists them.
    pub fn schema() -> serde_json::Value {
        schemars::schema_for!(Self).to_value()
    }

    /// Reads and validates the settings. A missing file gives the defaults.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or if it contains an unknown key, an unknown provider or an invalid
    /// value. The error names the line if the parser reports it.
    pub fn read(path: &Path) -> Result<Self> {
        let config_error = |reason: String| Error::Home(HomeError::Config { path: path.to_owned(), reason });
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(config_error(error.to_string())),
        };
        let config: Self = toml_edit::de::from_str(&text)
            .map_err(|error| config_error(error.to_string().trim().to_owned()))?;
        let known = model::Provider::ALL.map(model::Provider::as_str);
        if let Some(effort) = config
            .providers
            .values()
            .filter_map(|provider| provider.effort.as_deref())
            .find(|name| model::Effort::from_name(name).is_none())
        {
            return Err(config_error(format!("unknown effort `{effort}`; known: low, medium, high")));
        }
        if !(0.0..=1.0).contains(&config.handoff.propose_at) {
            let given = config.handoff.propose_at;
            return Err(config_error(format!(
                "`handoff.propose_at` is {given}; it must be a share of the window, 0 to 1"
            )));
        }
        if let Some(problem) = config
            .compaction
            .validation_error()
            .or_else(|| config.memory.validation_error())
            .or_else(|| config.search.validation_error())
            .or_else(|| config.serve.validation_error())
            .or_else(|| config.sandbox.validation_error())
            .or_else(|| config.database.validation_error())
            .or_else(|| config.mirror.validation_error())
            .or_else(|| config.hooks.iter().find_map(user_hooks::HookConfig::validation_error))
        {
            return Err(config_error(problem));
        }
        // The patterns are compiled again when they are installed: they are few, and this keeps the settings plain data.
        config.secret_patterns(path).map_err(|error| with_pattern_line(error, &text))?;
        match config.providers.keys().find(|name| !known.contains(&name.as_str())) {
            Some(name) => {
                Err(config_error(format!("unknown provider `{name}`; known: {}", known.join(", "))))
            }
            None => Ok(config),
        }
    }
    /// Returns the compiled patterns of secrets.
    ///
    /// # Errors
    /// Fails if a pattern is invalid.
    pub(crate) fn secret_patterns(&self, path: &Path) -> Result<secrets::UserPatterns> {
        secrets::UserPatterns::compile(&self.secrets.patterns, &self.secrets.allow).map_err(|source| {
            Error::Home(HomeError::SecretPattern { path: path.to_owned(), line: None, source })
        })
    }
}

/// Adds the line in the configuration file `text` to an error about a pattern of secrets. Returns any other error unchanged.
fn with_pattern_line(error: Error, text: &str) -> Error {
    match error {
        Error::Home(HomeError::SecretPattern { path, source, .. }) => {
            let line = pattern_line(text, &source);
            Error::Home(HomeError::SecretPattern { path, line, source })
        }
        error => error,
    }
}

/// Returns the line of the pattern or exception that cannot be used, or of the list with too many of them.
fn pattern_line(text: &str, problem: &secrets::PatternError) -> Option<usize> {
    let document = toml_edit::Document::parse(text).ok()?;
    let section = document.get("secrets")?.as_table_like()?;
    let span = match problem {
        secrets::PatternError::Invalid { name, .. } | secrets::PatternError::Empty(name) => {
            let pattern = section.get("patterns").and_then(|patterns| patterns.get(name.as_str()));
            let exceptions = section.get("allow").and_then(toml_edit::Item::as_array);
            let exception = || exceptions?.iter().find(|value| value.as_str() == Some(name.as_str()))?.span();
            pattern.and_then(toml_edit::Item::span).or_else(exception)
        }
        secrets::PatternError::TooMany(count) => {
            let lists = ["patterns", "allow"].into_iter().filter_map(|key| section.get(key));
            let length = |list: &toml_edit::Item| {
                let entries = list.as_table_like().map(toml_edit::TableLike::len);
                entries.or_else(|| list.as_array().map(toml_edit::Array::len))
            };
            lists.filter(|list| length(list) == Some(*count)).find_map(toml_edit::Item::span)
        }
    };
    Some(text[..span?.start].matches('\n').count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_about_a_pattern_of_secrets_names_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        let many = (0..101).map(|n| format!("p{n} = 'x{n}'\n")).collect::<String>();
        for (text, line) in [
            ("[secrets]\n\n[secrets.patterns]\ngood = 'a+'\nbad = '('\n".to_owned(), 5),
            ("[secrets.patterns]\nempty = 'a*'\n".to_owned(), 2),
            ("[secrets]\nallow = [\n  'ok',\n  '[',\n]\n".to_owned(), 4),
            (format!("[secrets.patterns]\n{many}"), 1),
        ] {
            std::fs::write(&path, &text).unwrap();
            let error = ConfigFile::read(&path).unwrap_err();
            let expected = format!("read {}, line {line}: ", path.display());
            assert!(error.to_string().starts_with(&expected), "{error}");
        }
    }
}
