//! The settings of a server: authentication, allowed hosts and origins, and limits. The program reads them from
//! arguments.

use std::net::SocketAddr;
use std::time::Duration;

use protocol::{OwnerScope, UserId};

use crate::security::token::InstallToken;
use crate::{Error, Result};

/// The settings of a server.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// Host names that requests may use, in addition to IP addresses and `localhost`; `*` allows any. A page on the
    /// internet can let its own name resolve to this machine (DNS rebinding), but it cannot change the `Host` header of
    /// its requests.
    pub allowed_hosts: Vec<String>,
    /// Origins whose pages may send requests from a browser.
    pub allowed_origins: AllowedOrigins,
    /// How clients authenticate.
    pub auth: AuthMode,
    /// Users whose keys may read what concerns all users, such as the metrics. The local operator always may.
    pub operators: Vec<UserId>,
    /// Limits on size, number and rate of requests.
    pub limits: ServerLimits,
}

impl ServerSettings {
    /// Returns settings with that authentication, for clients and pages of this machine, with the default limits.
    pub fn new(auth: AuthMode) -> Self {
        Self {
            allowed_hosts: Vec::new(),
            allowed_origins: AllowedOrigins::Loopback,
            auth,
            operators: Vec::new(),
            limits: ServerLimits::default(),
        }
    }

    /// Returns whether a caller of that scope may read what concerns all users.
    pub(crate) fn is_operator(&self, scope: &OwnerScope) -> bool {
        match scope {
            OwnerScope::Owner(Some(user)) => self.operators.contains(user),
            OwnerScope::Owner(None) | OwnerScope::Everyone => true,
        }
    }

    /// Checks that the server is not open to every client by accident.
    ///
    /// # Errors
    /// [`Error::Unprotected`] if authentication is disabled and the address is not a loopback address, or any host or
    /// origin is allowed.
    pub fn check_exposure(&self, addr: SocketAddr) -> Result<()> {
        let allows_any = matches!(self.allowed_origins, AllowedOrigins::Any)
            || self.allowed_hosts.iter().any(|host| host == "*");
        match self.auth {
            AuthMode::Disabled if !addr.ip().is_loopback() || allows_any => Err(Error::Unprotected { addr }),
            AuthMode::Disabled | AuthMode::Token(_) | AuthMode::Keys => Ok(()),
        }
    }
}

/// How clients authenticate.
#[derive(Debug, Clone)]
pub enum AuthMode {
    /// The install token authenticates the local operator; a key authenticates its user.
    Token(InstallToken),
    /// Only keys are accepted.
    Keys,
    /// Authentication is disabled: every client is the local operator. Only for loopback addresses.
    Disabled,
}

/// Origins whose pages may send requests from a browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowedOrigins {
    /// Pages that this machine serves, at any port.
    Loopback,
    /// The listed origins, such as `https://chat.example.org`, and those of this machine.
    Listed(Vec<String>),
    /// Every page.
    Any,
}

/// The limits of a server.
#[derive(Debug, Clone)]
pub struct ServerLimits {
    /// Maximum size of a request's body, in bytes.
    pub body_bytes_max: usize,
    /// Maximum number of open connections.
    pub connections_max: usize,
    /// Maximum number of concurrent requests and streams of one user. It does not apply to the local operator.
    pub open_per_user_max: usize,
    /// Rate limit of one user's requests; `None` disables it. It does not apply to the local operator.
    pub rate: Option<RateLimit>,
    /// How long active runs may take to reach a durable step at shutdown.
    pub grace: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            body_bytes_max: 32 << 20,
            connections_max: 16_384,
            open_per_user_max: 512,
            rate: Some(RateLimit { per_second: 200, burst: 400 }),
            grace: Duration::from_secs(10),
        }
    }
}

/// A rate limit, as the parameters of a token bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// Tokens added per second; 0 counts as 1.
    pub per_second: u32,
    /// Capacity of the bucket, that is, requests at once after a pause; 0 counts as 1.
    pub burst: u32,
}
