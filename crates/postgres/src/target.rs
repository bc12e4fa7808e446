//! The address of a database, parsed from its URL. The password is never part of a displayed address or of an error.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::tls::CertificateVerification;
use crate::{Error, Result};

/// Maximum duration of one attempt to connect, including the setup of the session. The URL can change it
/// (`connect_timeout`).
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long sent data may stay unacknowledged before the connection counts as lost (`TCP_USER_TIMEOUT`).
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(20);
/// Idle time after which the first TCP keepalive probe is sent.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
/// Time between two keepalive probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// Number of unanswered keepalive probes after which the connection counts as lost. Statements without a time limit
/// depend on these probes to notice that the server is gone.
const KEEPALIVES_MAX: u32 = 4;

/// The address of a database, and how the connection to it is secured.
#[derive(Clone)]
pub struct DatabaseTarget {
    /// Host, port, user, database and the other connection settings.
    pub(crate) config: Config,
    /// The certificates that are accepted from the server.
    pub(crate) verification: CertificateVerification,
}

impl DatabaseTarget {
    /// Returns whether `url` is a PostgreSQL URL.
    pub fn is_url(url: &str) -> bool {
        url.starts_with("postgres://") || url.starts_with("postgresql://")
    }

    /// Sets the name under which the server lists these connections (`application_name`), unless the URL has one.
    #[must_use]
    pub fn with_application_name(mut self, application: &str) -> Self {
        if self.config.get_application_name().is_none() {
            self.config.application_name(application);
        }
        self
    }
}

impl FromStr for DatabaseTarget {
    type Err = Error;

    /// Parses a URL in the form that `psql` accepts. `sslmode=verify-ca` is treated as `verify-full`, and `allow` as
    /// `prefer`.
    ///
    /// # Errors
    /// [`Error::InvalidUrl`] if the URL has another scheme, an unknown `sslmode` or a part that cannot be parsed.
    fn from_str(url: &str) -> Result<Self> {
        if !Self::is_url(url) {
            return Err(Error::InvalidUrl("the URL does not begin with postgres://".to_owned()));
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
        // The serializer encodes a space as `+`, which the parser of the client library would keep as a plus sign.
        let others = others.finish().replace('+', "%20");
        let mut config = Config::from_str(&format!("{base}?{others}")).map_err(|error| {
            Error::InvalidUrl(
                std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string),
            )
        })?;
        let (ssl, verification) = parse_ssl_mode(mode.as_deref(), root)?;
        config.ssl_mode(ssl);
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            config.host("localhost");
        }
        config.tcp_user_timeout(TCP_USER_TIMEOUT);
        config
            .keepalives_idle(KEEPALIVE_IDLE)
            .keepalives_interval(KEEPALIVE_INTERVAL)
            .keepalives_retries(KEEPALIVES_MAX);
        Ok(Self { config, verification })
    }
}

/// Translates `sslmode` and `sslrootcert` into the client's TLS mode and the verification of the server's
/// certificate.
fn parse_ssl_mode(mode: Option<&str>, root: Option<String>) -> Result<(SslMode, CertificateVerification)> {
    let root = root.filter(|root| root != "system").map(PathBuf::from);
    Ok(match mode {
        Some("disable") => (SslMode::Disable, CertificateVerification::None),
        None | Some("prefer" | "allow") => (SslMode::Prefer, CertificateVerification::None),
        Some("require") if root.is_none() => (SslMode::Require, CertificateVerification::None),
        Some("require" | "verify-ca" | "verify-full") => {
            (SslMode::Require, CertificateVerification::Full { root })
        }
        Some(unknown) => {
            let hint = "use disable, prefer, require or verify-full";
            return Err(Error::InvalidUrl(format!("unknown `sslmode={unknown}`; {hint}")));
        }
    })
}

/// Formats the address without the password.
impl fmt::Display for DatabaseTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("postgres://")?;
        if let Some(user) = self.config.get_user() {
            write!(f, "{user}@")?;
        }
        for (index, host) in self.config.get_hosts().iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            match host {
                Host::Tcp(name) => write!(f, "{comma}{name}")?,
                #[cfg(unix)]
                Host::Unix(path) => write!(f, "{comma}{}", path.display())?,
            }
            let ports = self.config.get_ports();
            if let Some(port) = ports.get(index).or_else(|| ports.first()) {
                write!(f, ":{port}")?;
            }
        }
        write!(f, "/{}", self.config.get_dbname().or_else(|| self.config.get_user()).unwrap_or_default())
    }
}

impl fmt::Debug for DatabaseTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatabaseTarget({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_shown_without_its_password() {
        let displayed = |url: &str| DatabaseTarget::from_str(url).unwrap().to_string();
        assert_eq!(
            displayed("postgres://ann:secret@db.example:6432/segue"),
            "postgres://ann@db.example:6432/segue"
        );
        assert_eq!(
            displayed("postgresql://ann@/segue?host=/run/pg&password=secret"),
            "postgres://ann@/run/pg/segue"
        );
        assert_eq!(displayed("postgres://a:x@one,two/d?sslmode=require"), "postgres://a@one:5432,two:5432/d");
        assert!(
            !format!("{:?}", DatabaseTarget::from_str("postgres://a:secret@h/d").unwrap()).contains("secret")
        );
    }

    #[test]
    fn an_invalid_url_is_reported_without_the_password() {
        for url in
            ["mysql://a:secret@h/d", "postgres://a:secret@h/d?sslmode=often", "postgres://a:secret@h:port/d"]
        {
            let message = DatabaseTarget::from_str(url).unwrap_err().to_string();
            assert!(
                message.starts_with("read the database's URL: ") && !message.contains("secret"),
                "{message}"
            );
        }
    }

    #[test]
    fn sslmode_decides_whether_the_server_certificate_is_verified() {
        let is_verified = |query: &str| {
            let target = DatabaseTarget::from_str(&format!("postgres://a@h/d{query}")).unwrap();
            matches!(target.verification, CertificateVerification::Full { .. })
        };
        for query in ["", "?sslmode=prefer", "?sslmode=require", "?sslmode=disable"] {
            assert!(!is_verified(query), "{query}");
        }
        for query in ["?sslmode=verify-full", "?sslmode=verify-ca", "?sslmode=require&sslrootcert=/ca.pem"] {
            assert!(is_verified(query), "{query}");
        }
    }
}
