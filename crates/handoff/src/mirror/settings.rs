//! The settings of the mirror, from the section `[mirror]` of `config.toml`: its database and its connection limits.

use std::str::FromStr;
use std::time::Duration;

use postgres::{DatabaseTarget, PoolSettings};
use schemars::JsonSchema;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

/// The maximum duration of one attempt, including connecting. It leaves enough time for a server with a round-trip
/// time of half a second.
pub(crate) const ATTEMPT_MAX: Duration = Duration::from_secs(20);

/// The value of `url` that turns the mirror off.
const OFF_URL: &str = "off";
/// The `application_name` of the mirror's connections.
const APPLICATION_NAME: &str = "segue-mirror";
/// The largest accepted value of `max_connections`.
const CONNECTIONS_MAX: u32 = 100;

/// The settings of the mirror.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MirrorSettings {
    /// The URL of the mirror's database, `postgres://…`, which may contain a password; `off` for no mirror. Unset, the
    /// mirror is in the main database if that is PostgreSQL.
    #[schemars(with = "Option<String>")]
    pub url: Option<SecretString>,
    /// The minimum number of idle connections to keep open.
    pub min_connections: u32,
    /// The maximum number of connections.
    pub max_connections: u32,
    /// Seconds after which an idle connection is closed.
    pub idle_seconds: u64,
    /// Seconds after which a connection is replaced.
    pub lifetime_seconds: u64,
}

impl Default for MirrorSettings {
    fn default() -> Self {
        Self { url: None, min_connections: 1, max_connections: 2, idle_seconds: 60, lifetime_seconds: 600 }
    }
}

impl MirrorSettings {
    /// Returns the first invalid setting as one line that does not contain the URL; `None` when all settings are valid.
    pub fn validation_error(&self) -> Option<String> {
        if self.max_connections == 0 || self.max_connections > CONNECTIONS_MAX {
            return Some(format!("`mirror.max_connections` must be 1 to {CONNECTIONS_MAX}"));
        }
        if self.min_connections > self.max_connections {
            return Some("`mirror.min_connections` must not exceed `mirror.max_connections`".to_owned());
        }
        if self.idle_seconds == 0 || self.lifetime_seconds == 0 {
            return Some("`mirror.idle_seconds` and `mirror.lifetime_seconds` must be 1 or more".to_owned());
        }
        self.target(None).err().map(|error| format!("`mirror.url`: failed to {error}"))
    }

    /// Returns the mirror's database: the one at `url`, else the `main` database; `None` when there is no mirror.
    ///
    /// # Errors
    ///
    /// When the URL cannot be parsed. The error does not contain the password.
    pub(crate) fn target(&self, main: Option<&str>) -> postgres::Result<Option<DatabaseTarget>> {
        let configured =
            self.url.as_ref().map(|url| url.expose_secret().trim()).filter(|url| !url.is_empty());
        match configured.or(main) {
            None | Some(OFF_URL) => Ok(None),
            Some(url) => Ok(Some(DatabaseTarget::from_str(url)?.with_application_name(APPLICATION_NAME))),
        }
    }

    /// Returns the limits of the connection pool.
    pub(crate) const fn pool_settings(&self) -> PoolSettings {
        PoolSettings {
            min_idle: self.min_connections,
            max: self.max_connections,
            idle_timeout: Duration::from_secs(self.idle_seconds),
            max_lifetime: Duration::from_secs(self.lifetime_seconds),
            wait_timeout: ATTEMPT_MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings_with_url(url: Option<&str>) -> MirrorSettings {
        MirrorSettings { url: url.map(SecretString::from), ..MirrorSettings::default() }
    }

    #[test]
    fn the_mirror_uses_its_url_or_the_main_database_unless_it_is_off() {
        let main = Some("postgres://main:5432/segue");
        let check = |url: Option<&str>, main: Option<&str>, expected: Option<&str>| {
            let target = settings_with_url(url).target(main).unwrap().map(|target| target.to_string());
            assert_eq!(target.as_deref(), expected, "{url:?} {main:?}");
        };
        check(None, None, None);
        check(None, main, Some("postgres://main:5432/segue"));
        check(Some("off"), main, None);
        check(Some(""), main, Some("postgres://main:5432/segue"));
        check(Some("postgres://ann:secret@other:5432/copy"), main, Some("postgres://ann@other:5432/copy"));
    }

    #[test]
    fn validation_errors_do_not_contain_the_password() {
        assert_eq!(MirrorSettings::default().validation_error(), None);
        for url in ["mysql://ann:secret@h/d", "postgres://ann:secret@h:port/d"] {
            let error = settings_with_url(Some(url)).validation_error().unwrap();
            assert!(error.starts_with("`mirror.url`: failed to ") && !error.contains("secret"), "{error}");
        }
        assert!(!format!("{:?}", settings_with_url(Some("postgres://ann:secret@h/d"))).contains("secret@"));
        let wrong = MirrorSettings { min_connections: 3, ..MirrorSettings::default() };
        assert!(wrong.validation_error().unwrap().contains("min_connections"));
    }
}
