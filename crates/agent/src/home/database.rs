//! Where the journal is, and how many connections it may have there. What is kept in it is the journal's matter, and nothing
//! is opened here.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use journal::{PoolSettings, Postgres};
use schemars::JsonSchema;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use super::{Home, PROCESSES};
use crate::{Error, HomeError, Result};

/// What the address of a file begins with.
const FILE: &str = "sqlite:";

/// The most connections that make sense.
const CONNECTIONS_MAX: u32 = 1_000;

/// Where a journal is kept.
#[derive(Clone)]
pub enum Database {
    /// In a file, in SQLite.
    File(PathBuf),
    /// On a server, in PostgreSQL; the URL may hold a password.
    Server(SecretString),
}

impl Database {
    /// Returns the URL of a server.
    pub(crate) fn server_url(&self) -> Option<&str> {
        match self {
            Self::File(_) => None,
            Self::Server(url) => Some(url.expose_secret()),
        }
    }
}

impl FromStr for Database {
    type Err = Error;

    /// Reads `sqlite:PATH` and `postgres://…`. Of a server's URL only the beginning is looked at.
    fn from_str(url: &str) -> Result<Self> {
        let wrong = |reason: &str| Err(HomeError::DatabaseUrl(reason.to_owned()).into());
        let url = url.trim();
        if Postgres::is_url(url) {
            return Ok(Self::Server(url.into()));
        }
        let Some(path) = url.strip_prefix(FILE) else {
            return wrong("it begins neither with postgres:// nor with sqlite:");
        };
        match path.strip_prefix("//").unwrap_or(path) {
            "" => wrong("it names no file"),
            ":memory:" => wrong("what is kept in memory is gone with the program"),
            path if path.contains('?') => wrong("the address of a file has no options"),
            path => std::path::absolute(path)
                .map(Self::File)
                .or_else(|error| wrong(&format!("the file cannot be found: {error}"))),
        }
    }
}

/// A server's address is not shown: nothing but what opens it can tell where in it the password is.
impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "Database({FILE}{})", path.display()),
            Self::Server(_) => f.write_str("Database(postgres://…)"),
        }
    }
}

/// Where the journal is when nothing else says it, and how its connections to a server are kept.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DatabaseConfig {
    /// `postgres://…`, which may hold a password, or `sqlite:PATH`; unset, it is a file in the home folder.
    #[schemars(with = "Option<String>")]
    pub url: Option<SecretString>,
    /// Connections that are kept open though nobody uses them.
    pub min_connections: u32,
    /// The most connections of this process.
    pub max_connections: u32,
    /// Seconds after which an unused connection is closed.
    pub idle_seconds: u64,
    /// Seconds that a connection lives.
    pub lifetime_seconds: u64,
    /// Seconds to wait for a free connection, and for a server that is not there or answers nothing.
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
    /// Returns what is wrong with the settings, in one line without the URL; `None` when nothing is.
    pub(crate) fn fault(&self) -> Option<String> {
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
        self.named().err().map(|error| format!("`database.url`: failed to {error}"))
    }

    /// Returns the database that the settings name.
    ///
    /// # Errors
    /// When its URL cannot be understood.
    pub(crate) fn named(&self) -> Result<Option<Database>> {
        let url = self.url.as_ref().map(|url| url.expose_secret().trim()).filter(|url| !url.is_empty());
        url.map(Database::from_str).transpose()
    }

    /// Returns how connections to a server are kept.
    pub(crate) const fn pool(&self) -> PoolSettings {
        PoolSettings {
            min_idle: self.min_connections,
            max: self.max_connections,
            idle: Duration::from_secs(self.idle_seconds),
            lifetime: Duration::from_secs(self.lifetime_seconds),
            patience: Duration::from_secs(self.wait_seconds),
        }
    }
}

/// Returns what was said first of where the journal is: by whoever opens it, by the settings, or else the file in the home
/// folder.
pub(crate) fn choose(asked: Option<&Database>, config: &DatabaseConfig, file: &Path) -> Result<Database> {
    Ok(match asked {
        Some(asked) => asked.clone(),
        None => config.named()?.unwrap_or_else(|| Database::File(file.to_owned())),
    })
}

/// Returns the folder of the locks by which processes tell that they live: beside the file the journal is in, where everybody
/// finds it who has that open, from whatever home; or else in the home folder.
pub(crate) fn processes(database: Option<&Database>, home: &Home) -> PathBuf {
    let file = match database {
        Some(Database::Server(_)) => return home.processes(),
        Some(Database::File(path)) => path.clone(),
        None => home.database(),
    };
    // Whatever links lead to the file, its companions lie beside it, as SQLite's own do.
    let file = file.canonicalize().unwrap_or(file);
    file.parent().map_or_else(|| home.processes(), |folder| folder.join(PROCESSES))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, expected: &str) {
        let told = match Database::from_str(url) {
            Ok(Database::File(path)) => format!("file {}", path.display()),
            Ok(Database::Server(url)) => format!("server {}", url.expose_secret()),
            Err(error) => error.to_string(),
        };
        assert!(told.contains(expected), "{url}: {told}");
        assert!(!told.contains("hunter2") || told.starts_with("server"), "{told}");
    }

    #[test]
    fn an_address_names_a_file_or_a_server() {
        check("postgres://ann:hunter2@db.example/segue", "server postgres://ann:hunter2@db.example/segue");
        check("postgresql:///segue?host=/run/pg", "server postgresql:///segue?host=/run/pg");
        check("sqlite:/var/lib/segue.db", "file /var/lib/segue.db");
        check("sqlite:///var/lib/segue.db", "file /var/lib/segue.db");
        check(" sqlite:here.db ", "/here.db");
        check("sqlite:", "it names no file");
        check("sqlite::memory:", "gone with the program");
        check("sqlite:/x?mode=ro", "no options");
        check("mysql://ann:hunter2@db.example/segue", "begins neither");
        check("", "begins neither");
    }

    #[test]
    fn j8_of_whatever_home_the_locks_lie_beside_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let home = |name: &str| Home::locate(Some(root.join(name).as_os_str())).unwrap();
        let file = root.join("srv").join("segue.db");
        std::fs::create_dir(root.join("srv")).unwrap();
        std::fs::write(&file, "").unwrap();
        let (one, other) = (home("one"), home("other"));
        let beside = root.join("srv").join("processes");
        assert_eq!(processes(Some(&Database::File(file.clone())), &one), beside);
        #[cfg(unix)]
        {
            let link = root.join("linked.db");
            std::os::unix::fs::symlink(&file, &link).unwrap();
            assert_eq!(processes(Some(&Database::File(link)), &other), beside);
        }
        assert_eq!(processes(None, &other), other.processes());
        assert_eq!(processes(Some(&Database::Server("postgres://h/d".into())), &one), one.processes());
    }

    #[test]
    fn k4_no_password_is_told_with_where_the_journal_is() {
        let database = Database::from_str("postgres://ann:hunter2@db.example/segue").unwrap();
        let config =
            DatabaseConfig { url: Some("postgres://ann:hunter2@h/d".into()), ..DatabaseConfig::default() };
        assert!(!format!("{database:?} {config:?}").contains("hunter2"));
    }

    #[test]
    fn settings_that_cannot_be_are_told() {
        let check = |change: fn(&mut DatabaseConfig), expected: Option<&str>| {
            let mut config = DatabaseConfig::default();
            change(&mut config);
            let fault = config.fault();
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
    fn whoever_opens_goes_before_the_settings_and_these_before_the_home() {
        let home = Path::new("/srv/segue.db");
        let chosen = |asked: Option<&Database>, url: Option<&str>| {
            let config = DatabaseConfig { url: url.map(SecretString::from), ..DatabaseConfig::default() };
            format!("{:?}", choose(asked, &config, home).unwrap())
        };
        let asked = Database::from_str("sqlite:/asked.db").unwrap();
        assert_eq!(chosen(Some(&asked), Some("sqlite:/set.db")), "Database(sqlite:/asked.db)");
        assert_eq!(chosen(None, Some("sqlite:/set.db")), "Database(sqlite:/set.db)");
        assert_eq!(chosen(None, Some("")), "Database(sqlite:/srv/segue.db)");
        assert_eq!(chosen(None, None), "Database(sqlite:/srv/segue.db)");
    }
}
