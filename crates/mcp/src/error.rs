//! The crate's error type. A server that fails is not an error but a state of that server
//! ([`McpServerState::Failed`](crate::McpServerState::Failed)).

use std::io;
use std::path::PathBuf;

/// The error of reading or writing a file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read.
    #[error("read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// A file has invalid content.
    #[error("parse {path}: {reason}")]
    Format {
        /// The file.
        path: PathBuf,
        /// The parser's message, with the position in the file.
        reason: String,
    },
    /// A file could not be written.
    #[error("write {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
}
