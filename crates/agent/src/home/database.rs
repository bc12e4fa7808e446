//! The address of the journal's database, and the settings of its connection pool. This module opens no
//! database.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use journal::{PoolSettings, PostgresStore};
use schemars::JsonSchema;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use super::{HomeFolder, PROCESS_LOCKS_FOLDER};
use crate::{Error, HomeError, Result};

/// The URL scheme of a SQLite file.
const SQLITE_SCHEME: &str = "sqlite:";

/// The upper limit of `database.max_connections`. A larger value is taken for a mistake.
const CONNECTIONS_MAX: u32 = 1_000;

/// The address of a journal.
#[derive(Clone)]
pub enum DatabaseAddress {
    /// A SQLite database in this file.
    File(PathBuf),
    /// A PostgreSQL database at this URL, which may contain a password.
    Server(SecretString),
}

impl DatabaseAddress {
    /// Returns the URL of a server; `None` for a file.
    pub(crate) fn server_url(&self) -> Option<&str> {
        match self {
            Self::File(_) => None,
            Self::Server(url) => Some(url.expose_secret()),
        }
    }
}

impl FromStr for DatabaseAddress {
    type Err = Error;

    /// Parses `sqlite:PATH` and `postgres://…`. A server's URL is only checked for its scheme.
    fn from_str(url: &str) -> Result<Self> {
        let url_error = |reason: &str| Err(HomeError::DatabaseUrl(reason.to_owned()).into());
        let url = url.trim();
        if PostgresStore::is_url(url) {
            return Ok(Self::Server(url.into()));
        }
        let Some(path) = url.strip_prefix(SQLITE_SCHEME) else {
            return url_error("it begins with neither postgres:// nor sqlite:");
        };
        match path.strip_prefix("//").unwrap_or(path) {
            "" => url_error("it names no file"),
            ":memory:" => url_error("a database in memory is lost when the program ends"),
            path if path.contains('?') => url_error("the address of a file takes no options"),
            path => std::path::absolute(path)
                .map(Self::File)
                .or_else(|error| url_error(&format!("the path cannot be resolved: {error}"))),
        }
    }
}

/// Hides a server's URL, because only the PostgreSQL client can tell which part of it is the password.
impl fmt::Debug for DatabaseAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "DatabaseAddress({SQLITE_SCHEME}{})", path.display()),
            Self::Server(_) => f.write_str("DatabaseAddress(postgres://…)"),
        }
    }
}

/// The default address of the journal, and the pool of connections to a server.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DatabaseConfig {
    /// `postgres://…`, which may contain a password, or `sqlite:PATH`. Unset, the journal is a file in the
    /// home folder.
    #[schemars(with = "Option<String>")]
    pub url: Option<SecretString>,
    /// Connections that are kept open even if they are unused.
    pub min_connections: u32,
    /// The most open connections of this process.
    pub max_connections: u32,
    /// Seconds after which an unused connection is closed.
    pub idle_seconds: u64,
    /// Seconds after which a connection is replaced.
    pub lifetime_seconds: u64,
    /// Seconds to wait for a free connection, and for a server that does not answer.
    pub wait_seconds: u64,
}

impl Default for DatabaseConfig {
    fn default() -> Self {
        Self {
            url: None,
            min_connections: 2,
            max_connections: 10,
            idle_seconds: 300,
            lifetime_seconds: 3_600,
            wait_seconds: 10,
        }
    }
}

impl DatabaseConfig {
    /// Returns the first wrong setting as one line of text without the URL; `None` if all are valid.
    pub(crate) fn validation_error(&self) -> Option<String> {
        if self.max_connections == 0 || self.max_connections > CONNECTIONS_MAX {
            return Some(format!("`database.max_connections` must be 1 to {CONNECTIONS_MAX}"));
        }
        if self.min_connections > self.max_connections {
            return Some("`database.min_connections` is more than `database.max_connections`".to_owned());
        }
        let seconds = [
            ("idle_seconds", self.idle_seconds),
            ("lifetime_seconds", self.lifetime_seconds),
            ("wait_seconds", self.wait_seconds),
        ];
        if let Some((name, _)) = seconds.into_iter().find(|(_, seconds)| *seconds == 0) {
            return Some(format!("`database.{name}` must be 1 or more"));
        }
        self.configured_address().err().map(|error| format!("`database.url`: failed to {error}"))
    }

    /// Returns the configured address; `None` if `database.url` is unset or blank.
    ///
    /// # Errors
    /// [`HomeError::DatabaseUrl`] if the URL has an unknown scheme or names no usable file.
    pub(crate) fn configured_address(&self) -> Result<Option<DatabaseAddress>> {
        let url = self.url.as_ref().map(|url| url.expose_secret().trim()).filter(|url| !url.is_empty());
        url.map(DatabaseAddress::from_str).transpose()
    }

    /// Returns the settings of the connection pool.
    pub(crate) const fn pool_settings(&self) -> PoolSettings {
        PoolSettings {
            min_idle: self.min_connections,
            max: self.max_connections,
            idle_timeout: Duration::from_secs(self.idle_seconds),
            max_lifetime: Duration::from_secs(self.lifetime_seconds),
            wait_timeout: Duration::from_secs(self.wait_seconds),
        }
    }
}

/// Returns the address of the journal: the requested one, else the configured one, else the file in the home
/// folder.
///
/// # Errors
/// [`HomeError::DatabaseUrl`] if the configured URL is invalid.
pub(crate) fn choose_address(
    requested: Option<&DatabaseAddress>,
    config: &DatabaseConfig,
    file: &Path,
) -> Result<DatabaseAddress> {
    Ok(match requested {
        Some(requested) => requested.clone(),
        None => config.configured_address()?.unwrap_or_else(|| DatabaseAddress::File(file.to_owned())),
    })
}

/// Returns the folder of the process locks. For a file it is beside the file, so that every process that
/// opens the file finds it, whatever its home folder is (J8). For a server it is in the home folder.
pub(crate) fn process_locks_path(database: Option<&DatabaseAddress>, home: &HomeFolder) -> PathBuf {
    let file = match database {
        Some(DatabaseAddress::Server(_)) => return home.process_locks_path(),
        Some(DatabaseAddress::File(path)) => path.clone(),
        None => home.database_path(),
    };
    // Symbolic links are resolved, so that all paths to the file lead to the same folder. SQLite places its
    // own companion files the same way.
    let file = file.canonicalize().unwrap_or(file);
    file.parent().map_or_else(|| home.process_locks_path(), |folder| folder.join(PROCESS_LOCKS_FOLDER))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, expected: &str) {
        let outcome = match DatabaseAddress::from_str(url) {
            Ok(DatabaseAddress::File(path)) => format!("file {}", path.display()),
            Ok(DatabaseAddress::Server(url)) => format!("server {}", url.expose_secret()),
            Err(error) => error.to_string(),
        };
        assert!(outcome.contains(expected), "{url}: {outcome}");
        assert!(!outcome.contains("hunter2") || outcome.starts_with("server"), "{outcome}");
    }

    #[test]
    fn an_address_names_a_file_or_a_server() {
        check("postgres://ann:hunter2@db.example/segue", "server postgres://ann:hunter2@db.example/segue");
        check("postgresql:///segue?host=/run/pg", "server postgresql:///segue?host=/run/pg");
        check("sqlite:/var/lib/segue.db", "file /var/lib/segue.db");
        check("sqlite:///var/lib/segue.db", "file /var/lib/segue.db");
        check(" sqlite:here.db ", "/here.db");
        check("sqlite:", "it names no file");
        check("sqlite::memory:", "lost when the program ends");
        check("sqlite:/x?mode=ro", "takes no options");
        check("mysql://ann:hunter2@db.example/segue", "begins with neither");
        check("", "begins with neither");
    }

    #[test]
    fn j8_process_locks_are_beside_the_database_file_for_every_home() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let home = |name: &str| HomeFolder::locate(Some(root.join(name).as_os_str())).unwrap();
        let file = root.join("srv").join("segue.db");
        std::fs::create_dir(root.join("srv")).unwrap();
        std::fs::write(&file, "").unwrap();
        let (first_home, second_home) = (home("first_home"), home("second_home"));
        let locks_folder = root.join("srv").join("processes");
        assert_eq!(process_locks_path(Some(&DatabaseAddress::File(file.clone())), &first_home), locks_folder);
        #[cfg(unix)]
        {
            let link = root.join("linked.db");
            std::os::unix::fs::symlink(&file, &link).unwrap();
            assert_eq!(process_locks_path(Some(&DatabaseAddress::File(link)), &second_home), locks_folder);
        }
        assert_eq!(process_locks_path(None, &second_home), second_home.process_locks_path());
        assert_eq!(
            process_locks_path(Some(&DatabaseAddress::Server("postgres://h/d".into())), &first_home),
            first_home.process_locks_path()
        );
    }

    #[test]
    fn k4_debug_output_of_the_database_address_has_no_password() {
        let database = DatabaseAddress::from_str("postgres://ann:hunter2@db.example/segue").unwrap();
        let config =
            DatabaseConfig { url: Some("postgres://ann:hunter2@h/d".into()), ..DatabaseConfig::default() };
        assert!(!format!("{database:?} {config:?}").contains("hunter2"));
    }

    #[test]
    fn invalid_database_settings_are_reported() {
        let check = |change: fn(&mut DatabaseConfig), expected: Option<&str>| {
            let mut config = DatabaseConfig::default();
            change(&mut config);
            let fault = config.validation_error();
            match expected {
                Some(expected) => assert!(fault.is_some_and(|fault| fault.contains(expected)), "{expected}"),
                None => assert_eq!(fault, None),
            }
        };
        check(|_| {}, None);
        check(|config| config.max_connections = 0, Some("max_connections"));
        check(|config| config.min_connections = 11, Some("min_connections"));
        check(|config| config.idle_seconds = 0, Some("idle_seconds"));
        check(|config| config.lifetime_seconds = 0, Some("lifetime_seconds"));
        check(|config| config.wait_seconds = 0, Some("wait_seconds"));
        check(|config| config.url = Some("mysql://x".into()), Some("database.url"));
    }

    #[test]
    fn a_requested_address_precedes_the_configured_one_and_that_the_home_folder() {
        let home = Path::new("/srv/segue.db");
        let chosen = |requested: Option<&DatabaseAddress>, url: Option<&str>| {
            let config = DatabaseConfig { url: url.map(SecretString::from), ..DatabaseConfig::default() };
            format!("{:?}", choose_address(requested, &config, home).unwrap())
        };
        let requested = DatabaseAddress::from_str("sqlite:/requested.db").unwrap();
        assert_eq!(chosen(Some(&requested), Some("sqlite:/set.db")), "DatabaseAddress(sqlite:/requested.db)");
        assert_eq!(chosen(None, Some("sqlite:/set.db")), "DatabaseAddress(sqlite:/set.db)");
        assert_eq!(chosen(None, Some("")), "DatabaseAddress(sqlite:/srv/segue.db)");
        assert_eq!(chosen(None, None), "DatabaseAddress(sqlite:/srv/segue.db)");
    }
}
