//! The errors that keep a server from starting. The response to a request that fails is a [`langgraph::Fault`].

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// What keeps a server from being one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nobody would be asked who they are, and others could come in.
    #[error("serve at {addr} without keys: others could come in")]
    OpenToOthers {
        /// The address.
        addr: SocketAddr,
    },
    /// The install token cannot be read or made.
    #[error("use the install token in {}: {reason}", path.display())]
    Token {
        /// Its file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The address cannot be listened at.
    #[error("listen for clients")]
    Listen(#[from] io::Error),
}

impl Error {
    /// Returns what a person can do about it, as one sentence.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::OpenToOthers { .. } => {
                "leave `--no-auth` out and make keys with `segue keys create USER`, or serve at 127.0.0.1 for pages of this machine only"
            }
            Self::Token { .. } => "remove the file: the next start makes a new token",
            Self::Listen(_) => "choose another address or port with `--addr`",
        }
    }
}
