//! The plan of which configured servers may be started.
//!
//! It resolves names that are configured twice, validates each configuration, expands its variables, and checks the
//! user's consent to a project's server. The module is pure: it reads no file and starts nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use sandbox::NetworkAccess;
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;

use crate::config::ServerConfig;
use crate::config::consent::{ConsentDecision, ProjectConsents};
use crate::config::expand::{expand_variables, variable_names};
use crate::config::project::ProjectServers;

/// The longest time limit in seconds, one day. The clock cannot represent arbitrary ones.
const SECONDS_MAX: u64 = 24 * 60 * 60;

/// The author of a server's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigOrigin {
    /// The user, in `config.toml`.
    Config,
    /// The project, in `.mcp.json`.
    Project,
}

/// A configured server with its readiness.
#[derive(Debug, Clone)]
pub struct PlannedServer {
    /// The server's name.
    pub name: String,
    /// The author of the configuration.
    pub origin: ConfigOrigin,
    /// The command line or address in its source form, which the user judges before giving consent. Values that the
    /// user configured are replaced by `…`.
    pub target: String,
    /// Names of the environment variables that the configuration contains, sorted. The server receives their values.
    pub variables: Vec<String>,
    /// Lowercase hex SHA-256 of the configuration. Consent is bound to it.
    pub sha256: String,
    /// The readiness of the server.
    pub readiness: ServerReadiness,
}

/// The readiness of a configured server.
#[derive(Debug, Clone)]
pub enum ServerReadiness {
    /// The server may be started.
    Ready(ServerDefinition),
    /// The server is switched off in its configuration.
    Disabled,
    /// `config.toml` has a server of the same name, which is used instead of the project's.
    Shadowed,
    /// The project configures the server, and the user has not decided about it.
    ConsentPending,
    /// The project configures the server, and the user refused to start it.
    ConsentRefused,
    /// The configuration is invalid. The text gives the reason.
    Invalid(String),
}

/// The configuration of a server that may be started, with variables expanded.
#[derive(Debug, Clone)]
pub struct ServerDefinition {
    /// The transport by which the server is reached.
    pub transport: ServerTransport,
    /// Time limit of a call without a progress notification.
    pub call_timeout: Duration,
    /// Time limit for starting the server and listing its tools.
    pub start_timeout: Duration,
    /// The tools to use, by the server's names; `None` uses all.
    pub tools: Option<Vec<String>>,
    /// The network of the program in the sandbox; `None` starts it without a sandbox.
    pub sandbox: Option<NetworkAccess>,
}

/// The transport by which a server is reached.
#[derive(Debug, Clone)]
pub enum ServerTransport {
    /// A child process that speaks the protocol over its standard input and output.
    Program {
        /// The program: a path, or a name on the search path.
        command: String,
        /// The program's arguments.
        args: Vec<String>,
        /// Variables added to the program's environment.
        env: BTreeMap<String, SecretString>,
        /// The working directory, relative to the workspace; `None` for the workspace.
        cwd: Option<PathBuf>,
    },
    /// Streamable HTTP.
    Http {
        /// The address, `http` or `https`.
        url: String,
        /// Headers of every request.
        headers: BTreeMap<String, SecretString>,
    },
}

/// A function that returns the value of an environment variable, or `None` if it is not set.
type VariableLookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Decides the readiness of each configured server and returns the servers sorted by name. `config` are the user's
/// servers and `project` those of `.mcp.json`. `variable` looks up environment variables.
pub fn plan_servers(
    config: &BTreeMap<String, ServerConfig>,
    project: &ProjectServers,
    consents: &ProjectConsents,
    variable: VariableLookup<'_>,
) -> Vec<PlannedServer> {
    let own = config.iter().map(|(name, server)| {
        let readiness = resolve_readiness(server, variable);
        plan_server(name, ConfigOrigin::Config, server, readiness)
    });
    let foreign = project.iter().map(|(name, server)| match server {
        Ok(server) => {
            let readiness = if config.contains_key(name) {
                ServerReadiness::Shadowed
            } else {
                missing_consent(name, server, consents).unwrap_or_else(|| resolve_readiness(server, variable))
            };
            plan_server(name, ConfigOrigin::Project, server, readiness)
        }
        Err(reason) => {
            let invalid = ServerReadiness::Invalid(reason.clone());
            plan_server(name, ConfigOrigin::Project, &ServerConfig::default(), invalid)
        }
    });
    let mut all: Vec<PlannedServer> = own.chain(foreign).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// Returns the readiness of a project's server that lacks consent, or `None` if the user allowed it or it is disabled.
fn missing_consent(name: &str, server: &ServerConfig, consents: &ProjectConsents) -> Option<ServerReadiness> {
    if !server.enabled {
        return None;
    }
    match consents.decision(name, &fingerprint(server)) {
        Some(ConsentDecision::Allow) => None,
        Some(ConsentDecision::Refuse) => Some(ServerReadiness::ConsentRefused),
        None => Some(ServerReadiness::ConsentPending),
    }
}

/// Returns the plan's entry for a server.
fn plan_server(
    name: &str,
    origin: ConfigOrigin,
    server: &ServerConfig,
    readiness: ServerReadiness,
) -> PlannedServer {
    let mut variables: Vec<String> =
        expandable_texts(server).flat_map(variable_names).map(str::to_owned).collect();
    variables.sort();
    variables.dedup();
    let (target, sha256) = (display_target(origin, server), fingerprint(server));
    PlannedServer { name: name.to_owned(), origin, target, variables, sha256, readiness }
}

/// Returns the command line or address with the server's environment variables or headers.
///
/// Values from the user's configuration are replaced by `…`, because they may be secret. Values from the project are
/// shown, because they are in its repository anyway, and a variable such as `PATH` decides which program a command name
/// stands for.
fn display_target(origin: ConfigOrigin, server: &ServerConfig) -> String {
    let settings = |map: &BTreeMap<String, SecretString>| -> Vec<String> {
        let value = |value: &SecretString| match origin {
            ConfigOrigin::Config => "…".to_owned(),
            ConfigOrigin::Project => quote_word(value.expose_secret()),
        };
        map.iter().map(|(key, secret)| format!("{}={}", quote_word(key), value(secret))).collect()
    };
    let mut words = match (&server.command, &server.url) {
        (Some(command), _) => {
            let mut words = settings(&server.env);
            words.push(quote_word(command));
            words.extend(server.args.iter().map(|arg| quote_word(arg)));
            words
        }
        (None, Some(url)) => {
            let mut words = vec![quote_word(url)];
            words.extend(settings(&server.headers));
            words
        }
        (None, None) => Vec::new(),
    };
    if let Some(cwd) = &server.cwd {
        words.push(format!("(in {})", quote_word(&cwd.to_string_lossy())));
    }
    match (server.sandbox, server.network) {
        (true, false) => words.push("(in the sandbox)".to_owned()),
        (true, true) => words.push("(in the sandbox, with network)".to_owned()),
        (false, _) => {}
    }
    words.join(" ")
}

/// Quotes a word that contains other than plain characters, so that the boundaries of arguments are visible.
fn quote_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@${}+,%?&~".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) { word.to_owned() } else { format!("{word:?}") }
}

/// Returns all texts of a configuration in which variables are expanded.
fn expandable_texts(server: &ServerConfig) -> impl Iterator<Item = &str> {
    let secrets = server.env.values().chain(server.headers.values()).map(ExposeSecret::expose_secret);
    let cwd = server.cwd.as_deref().and_then(|path| path.to_str());
    server
        .command
        .as_deref()
        .into_iter()
        .chain(server.url.as_deref())
        .chain(cwd)
        .chain(server.args.iter().map(String::as_str))
        .chain(secrets)
}

/// Returns the hash of the settings that determine the started program or the address. Variables are hashed by name,
/// not by value, so that a new value does not require new consent.
fn fingerprint(server: &ServerConfig) -> String {
    let plain = |map: &BTreeMap<String, SecretString>| -> BTreeMap<String, String> {
        map.iter().map(|(key, value)| (key.clone(), value.expose_secret().to_owned())).collect()
    };
    let mut description = vec![
        json!(server.command),
        json!(server.args),
        json!(plain(&server.env)),
        json!(server.cwd),
        json!(server.url),
        json!(plain(&server.headers)),
    ];
    // A project cannot set these, so that the hash of its servers, to which consents are bound, stays the same.
    if server.sandbox || server.network {
        description.extend([json!(server.sandbox), json!(server.network)]);
    }
    protocol::sha256_hex(serde_json::Value::from(description).to_string())
}

/// Returns the readiness of a server that needs no consent or has it.
fn resolve_readiness(server: &ServerConfig, variable: VariableLookup<'_>) -> ServerReadiness {
    if !server.enabled {
        return ServerReadiness::Disabled;
    }
    match build_definition(server, variable) {
        Ok(definition) => ServerReadiness::Ready(definition),
        Err(reason) => ServerReadiness::Invalid(reason),
    }
}

/// Validates a configuration and expands its variables.
///
/// # Errors
/// Returns the reason if the transport is missing or ambiguous, the URL is invalid, or a variable is not set.
fn build_definition(server: &ServerConfig, variable: VariableLookup<'_>) -> Result<ServerDefinition, String> {
    let replace = |text: &str| {
        expand_variables(text, variable).map_err(|name| format!("the variable `{name}` is not set"))
    };
    let replace_all = |map: &BTreeMap<String, SecretString>| {
        let entries = map
            .iter()
            .map(|(key, value)| Ok((key.clone(), SecretString::from(replace(value.expose_secret())?))));
        entries.collect::<Result<BTreeMap<_, _>, String>>()
    };
    let transport = match (&server.command, &server.url) {
        (Some(_), Some(_)) => return Err("it has both `command` and `url`".to_owned()),
        (None, None) => return Err("it has neither `command` nor `url`".to_owned()),
        (Some(command), None) => ServerTransport::Program {
            command: replace(command)?,
            args: server.args.iter().map(|arg| replace(arg)).collect::<Result<_, _>>()?,
            env: replace_all(&server.env)?,
            cwd: match server.cwd.as_deref().and_then(|path| path.to_str()) {
                Some(path) => Some(PathBuf::from(replace(path)?)),
                None => server.cwd.clone(),
            },
        },
        (None, Some(url)) => {
            ServerTransport::Http { url: check_url(&replace(url)?)?, headers: replace_all(&server.headers)? }
        }
    };
    Ok(ServerDefinition {
        transport,
        call_timeout: Duration::from_secs(server.timeout_seconds.clamp(1, SECONDS_MAX)),
        start_timeout: Duration::from_secs(server.start_timeout_seconds.clamp(1, SECONDS_MAX)),
        tools: server.tools.clone(),
        sandbox: server.sandbox_network()?,
    })
}

/// Returns the URL if it is an absolute `http` or `https` address.
///
/// # Errors
/// Returns the reason otherwise.
fn check_url(url: &str) -> Result<String, String> {
    let uri: http_types::Uri = url.parse().map_err(|error| format!("`url` is not a valid URL: {error}"))?;
    match (uri.scheme_str(), uri.host()) {
        (Some("http" | "https"), Some(_)) => Ok(url.to_owned()),
        _ => Err("`url` must begin with http:// or https://".to_owned()),
    }
}

#[cfg(test)]
mod tests;
