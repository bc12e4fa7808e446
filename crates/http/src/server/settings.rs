//! What a server is told about itself: whom it lets in, from where, and how much of what. Reading it from arguments is
//! the program's work.

use std::net::SocketAddr;
use std::time::Duration;

use crate::security::token::Token;
use crate::{Error, Result};

/// What a server is told about itself.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Names a request may call this server by, beside addresses and `localhost`; `*` means any. A page on the internet
    /// can let its own name point at this machine, but not change the name its requests carry.
    pub allowed_hosts: Vec<String>,
    /// Whose pages a browser may let in.
    pub allowed_origins: Origins,
    /// How clients show who they are.
    pub auth: Auth,
    /// How much of what.
    pub limits: Limits,
}

impl Settings {
    /// Returns the settings of a server that `auth` guards and that only this machine is told of.
    pub fn new(auth: Auth) -> Self {
        Self {
            allowed_hosts: Vec::new(),
            allowed_origins: Origins::Loopback,
            auth,
            limits: Limits::default(),
        }
    }

    /// Checks that nobody can come in by accident.
    ///
    /// # Errors
    /// [`Error::OpenToOthers`] when a server without keys can be reached from elsewhere, or by any page.
    pub fn check(&self, addr: SocketAddr) -> Result<()> {
        let anybody =
            matches!(self.allowed_origins, Origins::Any) || self.allowed_hosts.iter().any(|h| h == "*");
        match self.auth {
            Auth::Open if !addr.ip().is_loopback() || anybody => Err(Error::OpenToOthers { addr }),
            Auth::Open | Auth::Token(_) | Auth::Keys => Ok(()),
        }
    }
}

/// How clients show who they are.
#[derive(Debug, Clone)]
pub enum Auth {
    /// The install token makes a client the person at the machine; keys make it their user.
    Token(Token),
    /// Only keys.
    Keys,
    /// Nobody is asked: everyone is the person at the machine. For loopback addresses only.
    Open,
}

/// Whose pages a browser may let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origins {
    /// Pages that this machine serves, at whatever port.
    Loopback,
    /// These, such as `https://chat.example.org`, and those of this machine.
    These(Vec<String>),
    /// Every page.
    Any,
}

/// How much of what.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes of a request's body.
    pub body_bytes_max: usize,
    /// Connections at a time.
    pub connections_max: usize,
    /// Requests and streams of one user at a time. The person at the machine has no such limit.
    pub open_per_user_max: usize,
    /// Requests of one user; `None` for no limit. The person at the machine has none.
    pub rate: Option<Rate>,
    /// How long what is under way may take to reach a durable step at the end.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes_max: 32 << 20,
            connections_max: 16_384,
            open_per_user_max: 512,
            rate: Some(Rate { per_second: 200, burst: 400 }),
            grace: Duration::from_secs(10),
        }
    }
}

/// How often something may happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// In the long run; 0 counts as 1.
    pub per_second: u32,
    /// At once, after a pause; 0 counts as 1.
    pub burst: u32,
}
