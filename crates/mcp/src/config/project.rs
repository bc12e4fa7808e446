//! Parser for a project's `.mcp.json`, whose format several agents share. Deciding whether its servers may be started
//! is the task of [`super::plan`].

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::config::ServerConfig;

/// Name of the file in the workspace.
const PROJECT_FILE: &str = ".mcp.json";
/// Maximum number of bytes of the file that are read.
const PROJECT_BYTES_MAX: u64 = 1024 * 1024;

/// The servers in the project's file by name: the configuration, or the reason why it is invalid.
pub type ProjectServers = BTreeMap<String, std::result::Result<ServerConfig, String>>;

/// The file's content, with entries that are not parsed yet, so that one invalid entry does not affect the others.
#[derive(Deserialize)]
struct ProjectFile {
    #[serde(rename = "mcpServers", default)]
    servers: Map<String, Value>,
}

/// An entry of the file. Unknown fields are ignored, because they are meant for other agents.
#[derive(Deserialize)]
struct ProjectFileEntry {
    #[serde(rename = "type", default)]
    kind: Option<String>,
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, SecretString>,
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, SecretString>,
    #[serde(default)]
    disabled: bool,
}

/// Reads the project's servers with blocking I/O. A missing file has none.
///
/// A file that cannot be read or parsed becomes one invalid entry under the file's name: an error would prevent all
/// work in a folder because of a file that the user may not have written. One invalid entry does not affect the
/// others.
pub fn read_project(workspace: &Path) -> ProjectServers {
    let read = || -> std::io::Result<String> {
        let mut text = String::new();
        std::fs::File::open(workspace.join(PROJECT_FILE))?
            .take(PROJECT_BYTES_MAX)
            .read_to_string(&mut text)?;
        Ok(text)
    };
    let project = match read() {
        Ok(text) => parse_project(&text).map_err(|error| format!("the file cannot be parsed: {error}")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(ProjectServers::new()),
        Err(error) => Err(format!("the file cannot be read: {error}")),
    };
    project.unwrap_or_else(|reason| ProjectServers::from([(PROJECT_FILE.to_owned(), Err(reason))]))
}

/// Parses the file's text. A byte order mark is skipped.
fn parse_project(text: &str) -> serde_json::Result<ProjectServers> {
    let file: ProjectFile = serde_json::from_str(text.trim_start_matches('\u{feff}'))?;
    Ok(file.servers.into_iter().map(|(name, value)| (name, parse_entry(value))).collect())
}

/// Converts an entry into a configuration.
///
/// # Errors
/// Returns the reason if the entry has a wrong shape or an unsupported transport.
fn parse_entry(value: Value) -> std::result::Result<ServerConfig, String> {
    let entry: ProjectFileEntry = serde_json::from_value(value).map_err(|error| error.to_string())?;
    match entry.kind.as_deref() {
        None | Some("stdio" | "http" | "streamable-http" | "streamableHttp") => {}
        Some("sse") => {
            return Err("the transport `sse` is not supported; the server may offer `http`".to_owned());
        }
        Some(kind) => return Err(format!("unknown transport `{kind}`; known: stdio, http")),
    }
    Ok(ServerConfig {
        command: entry.command,
        args: entry.args,
        env: entry.env,
        url: entry.url,
        headers: entry.headers,
        enabled: !entry.disabled,
        ..ServerConfig::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, &str)]) {
        let servers: Vec<(String, String)> = match parse_project(text) {
            Ok(project) => project
                .into_iter()
                .map(|(name, server)| {
                    let text = match server {
                        Ok(server) => format!("{:?}{:?}{:?}", server.command, server.args, server.url),
                        Err(error) => error,
                    };
                    (name, text)
                })
                .collect(),
            Err(error) => vec![("error".to_owned(), error.to_string())],
        };
        let servers: Vec<_> = servers.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        assert_eq!(servers, expected, "{text}");
    }

    #[test]
    fn an_invalid_entry_does_not_affect_the_others() {
        check(
            r#"{"mcpServers": {
                "a": {"command": "npx", "args": ["-y", "x"], "env": {"K": "${K}"}, "autoApprove": []},
                "b": {"type": "http", "url": "https://b.example/mcp", "headers": {"X": "1"}},
                "c": {"command": ["npx"]},
                "d": {"type": "sse", "url": "https://d.example"},
                "e": {"type": "carrier", "url": "https://e.example"}
            }, "inputs": []}"#,
            &[
                ("a", r#"Some("npx")["-y", "x"]None"#),
                ("b", r#"None[]Some("https://b.example/mcp")"#),
                ("c", "invalid type: sequence, expected a string"),
                ("d", "the transport `sse` is not supported; the server may offer `http`"),
                ("e", "unknown transport `carrier`; known: stdio, http"),
            ],
        );
        check("\u{feff}{}", &[]);
        check("{", &[("error", "EOF while parsing an object at line 1 column 1")]);
    }

    #[test]
    fn a_missing_file_has_no_servers_and_an_invalid_one_gives_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(PROJECT_FILE);
        assert!(read_project(folder.path()).is_empty());
        for (text, reason) in [
            (&b"{\"mcpServers\": 1}"[..], "expected a map"),
            (b"{", "EOF while parsing"),
            (b"\xff", "valid UTF-8"),
        ] {
            std::fs::write(&path, text).unwrap();
            check_broken(folder.path(), reason);
        }
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        check_broken(folder.path(), "directory");
    }

    fn check_broken(workspace: &Path, expected: &str) {
        let project = read_project(workspace);
        let [(PROJECT_FILE, Err(reason))] =
            project.iter().map(|(name, server)| (name.as_str(), server)).collect::<Vec<_>>()[..]
        else {
            panic!("{project:?}")
        };
        assert!(reason.contains(expected), "{reason}");
    }

    #[test]
    fn m16_debug_output_does_not_show_secret_values() {
        let project =
            parse_project(r#"{"mcpServers": {"a": {"command": "x", "env": {"K": "hush"}}}}"#).unwrap();
        assert!(!format!("{project:?}").contains("hush"));
    }
}
