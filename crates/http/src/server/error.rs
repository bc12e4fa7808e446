//! The errors that prevent a server from starting. The response to a failed request is a [`langgraph::ApiError`].

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The reason why a server cannot start.
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
        }
    }
}
