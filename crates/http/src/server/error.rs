//! The errors that prevent a server from starting, and those of a health check. The response to a failed request is a
//! [`langgraph::ApiError`].

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The reason why a server cannot start, or is not healthy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Authentication is disabled, and clients of other machines could connect.
    #[error("serve at {addr} without authentication: other people could connect")]
    Unprotected {
        /// The address at which the server would listen.
        addr: SocketAddr,
    },
    /// The install token cannot be read or created.
    #[error("use the install token in {}: {reason}", path.display())]
    Token {
        /// The file of the token.
        path: PathBuf,
        /// The problem with the file.
        reason: String,
    },
    /// The server cannot listen at the address.
    #[error("listen for clients")]
    Listen(#[from] io::Error),
    /// No server answered a health check.
    #[error("reach the server at {url}: {reason}")]
    Unreachable {
        /// The URL of the server.
        url: String,
        /// The reason why there was no response.
        reason: String,
    },
    /// The server answered a health check that it cannot work.
    #[error("use the server at {url}: {reason}")]
    Unhealthy {
        /// The URL of the server.
        url: String,
        /// The problem that its response shows.
        reason: String,
    },
}

impl Error {
    /// Returns a suggestion to the user, as one sentence.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Unprotected { .. } => {
                "omit `--no-auth` and create keys with `segue keys create USER`, or serve at 127.0.0.1 for pages of this machine only"
            }
            Self::Token { .. } => "remove the file: the next start creates a new token",
            Self::Listen(_) => "choose another address or port with `--addr`",
            Self::Unreachable { .. } => {
                "start it with `segue serve`, or name its address: `segue ping HOST:PORT`"
            }
            Self::Unhealthy { .. } => {
                "the log of the server contains the cause; `segue doctor` checks the database"
            }
        }
    }
}
