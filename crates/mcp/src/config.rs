//! The configuration of a server in `config.toml`. Validating it and deciding whether the server may be started is the
//! task of [`plan`].

pub(crate) mod consent;
pub(crate) mod expand;
pub(crate) mod plan;
mod program;
pub(crate) mod project;

use std::collections::BTreeMap;
use std::path::PathBuf;

use sandbox::NetworkAccess;
use schemars::JsonSchema;
use secrecy::SecretString;
use serde::Deserialize;

/// Default time limit in seconds for starting a server and listing its tools.
const START_SECONDS: u64 = 10;
/// Default time limit in seconds for a call without a progress notification.
const CALL_SECONDS: u64 = 60;

/// A server as it is written down: a program (`command`) or an address (`url`). Text may hold `${VAR}` and
/// `${VAR:-default}`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ServerConfig {
    /// The program.
    pub command: Option<String>,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables added to the few that every server receives.
    #[schemars(with = "BTreeMap<String, String>")]
    pub env: BTreeMap<String, SecretString>,
    /// Where it runs, relative to the workspace. Default: the workspace.
    pub cwd: Option<PathBuf>,
    /// The address of a server that speaks streamable HTTP.
    pub url: Option<String>,
    /// Headers of every request.
    #[schemars(with = "BTreeMap<String, String>")]
    pub headers: BTreeMap<String, SecretString>,
    /// True if the server is used.
    pub enabled: bool,
    /// Seconds that a call may take without a sign of progress.
    pub timeout_seconds: u64,
    /// Seconds that it has to start.
    pub start_timeout_seconds: u64,
    /// The only tools to use, by the names the server gives them; unset, all of them.
    pub tools: Option<Vec<String>>,
    /// True if the program runs in the sandbox of commands, with the folders that `[sandbox]` declares, and is not started
    /// where the system has none.
    pub sandbox: bool,
    /// True if the program has the network in the sandbox.
    pub network: bool,
}

impl ServerConfig {
    /// Returns the network of the program in the sandbox; `None` without a sandbox.
    ///
    /// # Errors
    /// Returns the reason if the settings contradict each other.
    pub(crate) fn sandbox_network(&self) -> std::result::Result<Option<NetworkAccess>, String> {
        match (self.sandbox, self.network) {
            (false, true) => Err("`network` needs `sandbox = true`".to_owned()),
            (true, _) if self.command.is_none() => Err("`sandbox` needs a `command`".to_owned()),
            (false, false) => Ok(None),
            (true, false) => Ok(Some(NetworkAccess::Off)),
            (true, true) => Ok(Some(NetworkAccess::On)),
        }
    }
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            command: None,
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: None,
            url: None,
            headers: BTreeMap::new(),
            enabled: true,
            timeout_seconds: CALL_SECONDS,
            start_timeout_seconds: START_SECONDS,
            tools: None,
            sandbox: false,
            network: false,
        }
    }
}
