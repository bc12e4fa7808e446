//! From what is written down to what may be started: which description of a name counts, whether it makes sense, and
//! whether a person agreed to it. Pure; nothing is started here.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use serde_json::json;

use crate::config::ServerConfig;
use crate::config::consent::{ConsentDecision, ProjectConsents};
use crate::config::expand::{expand_variables, variable_names};
use crate::config::project::ProjectServers;

/// The author of a server's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigOrigin {
    /// The user, in `config.toml`.
    Config,
    /// The project, in `.mcp.json`.
    Project,
}

/// A server that is written down, and what comes of it.
#[derive(Debug, Clone)]
pub struct PlannedServer {
    /// Its name.
    pub name: String,
    /// The author of the configuration.
    pub origin: ConfigOrigin,
    /// The command line or address of the server, as written, for a person to judge.
    pub target: String,
    /// The variables of the environment it reads; their values go to the server.
    pub variables: Vec<String>,
    /// Lowercase hex SHA-256 of the description.
    pub sha256: String,
    /// The readiness of the server.
    pub readiness: ServerReadiness,
}

/// The readiness of a configured server.
#[derive(Debug, Clone)]
pub enum ServerReadiness {
    /// It may be started.
    Ready(ServerDefinition),
    /// It is switched off.
    Disabled,
    /// `config.toml` has a server of the same name, which counts.
    Shadowed,
    /// It is the project's, and nobody has been asked about it.
    ConsentPending,
    /// It is the project's, and a person said no.
    ConsentRefused,
    /// Its description makes no sense; the text says why.
    Invalid(String),
}

/// A server that may be started, its variables replaced.
#[derive(Debug, Clone)]
pub struct ServerDefinition {
    /// How it is reached.
    pub transport: ServerTransport,
    /// How long a call may take without a sign of progress.
    pub call_timeout: Duration,
    /// How long it may take to start.
    pub start_timeout: Duration,
    /// The only tools to use; `None` uses all.
    pub tools: Option<Vec<String>>,
}

/// How a server is reached.
#[derive(Debug, Clone)]
pub enum ServerTransport {
    /// A program that is started, and spoken to through its input and output.
    Program {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Variables added to its environment.
        env: BTreeMap<String, SecretString>,
        /// Where it runs, relative to the workspace.
        cwd: Option<PathBuf>,
    },
    /// Streamable HTTP.
    Http {
        /// The address.
        url: String,
        /// Headers of every request.
        headers: BTreeMap<String, SecretString>,
    },
}

type VariableLookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Decides what each server is, in the order of their names. `variable` looks up the environment.
pub fn plan_servers(
    config: &BTreeMap<String, ServerConfig>,
    project: &ProjectServers,
    consents: &ProjectConsents,
    variable: VariableLookup<'_>,
) -> Vec<PlannedServer> {
    let own = config.iter().map(|(name, server)| {
        let standing = resolve_readiness(server, variable);
        plan_server(name, ConfigOrigin::Config, server, standing)
    });
    let foreign = project.iter().map(|(name, server)| match server {
        Ok(server) => {
            let standing = if config.contains_key(name) {
                ServerReadiness::Shadowed
            } else {
                missing_consent(name, server, consents).unwrap_or_else(|| resolve_readiness(server, variable))
            };
            plan_server(name, ConfigOrigin::Project, server, standing)
        }
        Err(reason) => {
            let broken = ServerReadiness::Invalid(reason.clone());
            plan_server(name, ConfigOrigin::Project, &ServerConfig::default(), broken)
        }
    });
    let mut all: Vec<PlannedServer> = own.chain(foreign).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// Returns what a project's server is for lack of consent. One that is switched off needs none.
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

fn plan_server(
    name: &str,
    source: ConfigOrigin,
    server: &ServerConfig,
    standing: ServerReadiness,
) -> PlannedServer {
    let mut variables: Vec<String> =
        expandable_texts(server).flat_map(variable_names).map(str::to_owned).collect();
    variables.sort();
    variables.dedup();
    let (what, sha256) = (display_target(source, server), fingerprint(server));
    PlannedServer {
        name: name.to_owned(),
        origin: source,
        target: what,
        variables,
        sha256,
        readiness: standing,
    }
}

/// Returns what a person is shown. What the user wrote may hold secrets; what the project wrote is in its repository,
/// and a variable such as `PATH` decides what a command is.
fn display_target(source: ConfigOrigin, server: &ServerConfig) -> String {
    let settings = |map: &BTreeMap<String, SecretString>| -> Vec<String> {
        let value = |value: &SecretString| match source {
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
    words.join(" ")
}

fn quote_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@${}+,%?&~".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) { word.to_owned() } else { format!("{word:?}") }
}

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

/// Returns the hash of all that says what is started or reached. Names of variables count, their values do not.
fn fingerprint(server: &ServerConfig) -> String {
    let plain = |map: &BTreeMap<String, SecretString>| -> BTreeMap<String, String> {
        map.iter().map(|(key, value)| (key.clone(), value.expose_secret().to_owned())).collect()
    };
    let description = json!([
        server.command,
        server.args,
        plain(&server.env),
        server.cwd,
        server.url,
        plain(&server.headers),
    ]);
    protocol::sha256_hex(description.to_string())
}

fn resolve_readiness(server: &ServerConfig, variable: VariableLookup<'_>) -> ServerReadiness {
    if !server.enabled {
        return ServerReadiness::Disabled;
    }
    match build_definition(server, variable) {
        Ok(definition) => ServerReadiness::Ready(definition),
        Err(reason) => ServerReadiness::Invalid(reason),
    }
}

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
        call_timeout: Duration::from_secs(server.timeout_seconds.max(1)),
        start_timeout: Duration::from_secs(server.start_timeout_seconds.max(1)),
        tools: server.tools.clone(),
    })
}

fn check_url(url: &str) -> Result<String, String> {
    let uri: http_types::Uri = url.parse().map_err(|error| format!("`url` is no address: {error}"))?;
    match (uri.scheme_str(), uri.host()) {
        (Some("http" | "https"), Some(_)) => Ok(url.to_owned()),
        _ => Err("`url` must begin with http:// or https://".to_owned()),
    }
}

#[cfg(test)]
mod tests;
