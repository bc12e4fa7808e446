//! Where the mirror is and how many connections it may have, as `[mirror]` in `config.toml` says it. Nothing is connected
//! here.

use std::str::FromStr;
use std::time::Duration;

use postgres::{PoolSettings, Target};
use schemars::JsonSchema;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

/// How long one attempt may take, connecting included: long enough for a server that is half a second away.
pub(crate) const ATTEMPT_MAX: Duration = Duration::from_secs(20);

/// In the place of a URL: there is no mirror.
const OFF: &str = "off";
/// The name under which the server shows our connections.
const APPLICATION: &str = "segue-mirror";
/// The most connections that make sense.
const CONNECTIONS_MAX: u32 = 100;

/// The settings of the mirror.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// `postgres://…`, which may hold a password; `off` for none. Unset, it is the database that holds everything, if that
    /// is PostgreSQL.
    #[schemars(with = "Option<String>")]
    pub url: Option<SecretString>,
    /// Connections that are kept open though nobody uses them.
    pub min_connections: u32,
    /// The most connections.
    pub max_connections: u32,
    /// Seconds after which an unused connection is closed.
    pub idle_seconds: u64,
    /// Seconds that a connection lives.
    pub lifetime_seconds: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { url: None, min_connections: 1, max_connections: 2, idle_seconds: 60, lifetime_seconds: 600 }
    }
}

impl Settings {
    /// Returns what is wrong with the settings, in one line without the URL; `None` when nothing is.
    pub fn fault(&self) -> Option<String> {
        if self.max_connections == 0 || self.max_connections > CONNECTIONS_MAX {
            return Some(format!("`mirror.max_connections` must be 1 to {CONNECTIONS_MAX}"));
        }
        if self.min_connections > self.max_connections {
            return Some("`mirror.min_connections` is more than `mirror.max_connections`".to_owned());
        }
        if self.idle_seconds == 0 || self.lifetime_seconds == 0 {
            return Some("`mirror.idle_seconds` and `mirror.lifetime_seconds` must be 1 or more".to_owned());
        }
        self.target(None).err().map(|error| format!("`mirror.url`: failed to {error}"))
    }

    /// Returns where the mirror is: at its URL, else in the `main` database; `None` when there is none.
    ///
    /// # Errors
    /// When the URL cannot be understood; the password in it is not told.
    pub(crate) fn target(&self, main: Option<&str>) -> postgres::Result<Option<Target>> {
        let own = self.url.as_ref().map(|url| url.expose_secret().trim()).filter(|url| !url.is_empty());
        match own.or(main) {
            None | Some(OFF) => Ok(None),
            Some(url) => Ok(Some(Target::from_str(url)?.named(APPLICATION))),
        }
    }

    /// Returns how its connections are kept.
    pub(crate) const fn pool(&self) -> PoolSettings {
        PoolSettings {
            min_idle: self.min_connections,
            max: self.max_connections,
            idle: Duration::from_secs(self.idle_seconds),
            lifetime: Duration::from_secs(self.lifetime_seconds),
            patience: ATTEMPT_MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(url: Option<&str>) -> Settings {
        Settings { url: url.map(SecretString::from), ..Settings::default() }
    }

    #[test]
    fn the_mirror_is_at_its_url_or_where_everything_is_unless_it_is_off() {
        let main = Some("postgres://main:5432/segue");
        let check = |url: Option<&str>, main: Option<&str>, expected: Option<&str>| {
            let target = at(url).target(main).unwrap().map(|target| target.to_string());
            assert_eq!(target.as_deref(), expected, "{url:?} {main:?}");
        };
        check(None, None, None);
        check(None, main, Some("postgres://main:5432/segue"));
        check(Some("off"), main, None);
        check(Some(""), main, Some("postgres://main:5432/segue"));
        check(Some("postgres://ann:secret@other:5432/copy"), main, Some("postgres://ann@other:5432/copy"));
    }

    #[test]
    fn what_is_wrong_is_told_without_the_password() {
        assert_eq!(Settings::default().fault(), None);
        for url in ["mysql://ann:secret@h/d", "postgres://ann:secret@h:port/d"] {
            let fault = at(Some(url)).fault().unwrap();
            assert!(fault.starts_with("`mirror.url`: failed to ") && !fault.contains("secret"), "{fault}");
        }
        assert!(!format!("{:?}", at(Some("postgres://ann:secret@h/d"))).contains("secret@"));
        let wrong = Settings { min_connections: 3, ..Settings::default() };
        assert!(wrong.fault().unwrap().contains("min_connections"));
    }
}
