//! Where a database is: its URL, read once. The password in it is never told.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::tls::Verification;
use crate::{Error, Result};

/// How long one attempt to connect may take, with all that is said until the session is ready, unless the URL says otherwise
/// (`connect_timeout`).
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long what was sent may stay unanswered on the way before the connection counts as lost.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(20);
/// How long a connection is silent before the way is tried.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
/// Between two such tries, and how many of them in a row are in vain before the connection counts as lost: whoever waits for a
/// statement without a limit finds out by them that the server is gone.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVES_MAX: u32 = 4;

/// A database's address, and how the way there is secured.
#[derive(Clone)]
pub struct Target {
    pub(crate) config: Config,
    pub(crate) verification: Verification,
}

impl Target {
    /// Returns whether `url` is an address of this kind.
    pub fn is_url(url: &str) -> bool {
        url.starts_with("postgres://") || url.starts_with("postgresql://")
    }

    /// Returns the target with the name under which the server shows its connections, unless the URL has one.
    #[must_use]
    pub fn named(mut self, application: &str) -> Self {
        if self.config.get_application_name().is_none() {
            self.config.application_name(application);
        }
        self
    }
}

impl FromStr for Target {
    type Err = Error;

    /// Reads a URL as `psql` takes it. Of `sslmode`, `verify-ca` is taken as `verify-full`, and `allow` as `prefer`.
    fn from_str(url: &str) -> Result<Self> {
        if !Self::is_url(url) {
            return Err(Error::Address("it does not begin with postgres://".to_owned()));
        }
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut mode, mut root) = (None, None);
        let mut others = form_urlencoded::Serializer::new(String::new());
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*key {
                "sslmode" => mode = Some(value.into_owned()),
                "sslrootcert" => root = Some(value.into_owned()),
                _ => {
                    others.append_pair(&key, &value);
                }
            }
        }
        // A blank would be read as a plus.
        let others = others.finish().replace('+', "%20");
        let mut config = Config::from_str(&format!("{base}?{others}")).map_err(|error| {
            Error::Address(
                std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string),
            )
        })?;
        let (ssl, verification) = secured(mode.as_deref(), root)?;
        config.ssl_mode(ssl);
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            config.host("localhost");
        }
        config.tcp_user_timeout(ACKNOWLEDGED_WITHIN);
        config
            .keepalives_idle(KEEPALIVE_IDLE)
            .keepalives_interval(KEEPALIVE_INTERVAL)
            .keepalives_retries(KEEPALIVES_MAX);
        Ok(Self { config, verification })
    }
}

/// Returns what a mode means: whether the way is encrypted, and whether the server must prove who it is.
fn secured(mode: Option<&str>, root: Option<String>) -> Result<(SslMode, Verification)> {
    let root = root.filter(|root| root != "system").map(PathBuf::from);
    Ok(match mode {
        Some("disable") => (SslMode::Disable, Verification::None),
        None | Some("prefer" | "allow") => (SslMode::Prefer, Verification::None),
        Some("require") if root.is_none() => (SslMode::Require, Verification::None),
        Some("require" | "verify-ca" | "verify-full") => (SslMode::Require, Verification::Full { root }),
        Some(other) => {
            let known = "disable, prefer, require and verify-full";
            return Err(Error::Address(format!("`sslmode={other}` is none of {known}")));
        }
    })
}

/// The address without the password, as it may be shown.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("postgres://")?;
        if let Some(user) = self.config.get_user() {
            write!(f, "{user}@")?;
        }
        for (at, host) in self.config.get_hosts().iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            match host {
                Host::Tcp(name) => write!(f, "{comma}{name}")?,
                #[cfg(unix)]
                Host::Unix(path) => write!(f, "{comma}{}", path.display())?,
            }
            let ports = self.config.get_ports();
            if let Some(port) = ports.get(at).or_else(|| ports.first()) {
                write!(f, ":{port}")?;
            }
        }
        write!(f, "/{}", self.config.get_dbname().or_else(|| self.config.get_user()).unwrap_or_default())
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_shown_without_its_password() {
        let shown = |url: &str| Target::from_str(url).unwrap().to_string();
        assert_eq!(
            shown("postgres://ann:secret@db.example:6432/segue"),
            "postgres://ann@db.example:6432/segue"
        );
        assert_eq!(
            shown("postgresql://ann@/segue?host=/run/pg&password=secret"),
            "postgres://ann@/run/pg/segue"
        );
        assert_eq!(shown("postgres://a:x@one,two/d?sslmode=require"), "postgres://a@one:5432,two:5432/d");
        assert!(!format!("{:?}", Target::from_str("postgres://a:secret@h/d").unwrap()).contains("secret"));
    }

    #[test]
    fn what_cannot_be_understood_is_told_without_the_password() {
        for url in
            ["mysql://a:secret@h/d", "postgres://a:secret@h/d?sslmode=often", "postgres://a:secret@h:port/d"]
        {
            let told = Target::from_str(url).unwrap_err().to_string();
            assert!(told.starts_with("read the database's URL: ") && !told.contains("secret"), "{told}");
        }
    }

    #[test]
    fn a_mode_says_whether_the_server_must_prove_who_it_is() {
        let is_verified = |query: &str| {
            let target = Target::from_str(&format!("postgres://a@h/d{query}")).unwrap();
            matches!(target.verification, Verification::Full { .. })
        };
        for query in ["", "?sslmode=prefer", "?sslmode=require", "?sslmode=disable"] {
            assert!(!is_verified(query), "{query}");
        }
        for query in ["?sslmode=verify-full", "?sslmode=verify-ca", "?sslmode=require&sslrootcert=/ca.pem"] {
            assert!(is_verified(query), "{query}");
        }
    }
}
