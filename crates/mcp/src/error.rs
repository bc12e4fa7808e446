//! Errors of the crate as a whole. A server that fails is not an error but a state of that server.

use std::io;
use std::path::PathBuf;

/// Why something could not be read or kept.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read.
    #[error("read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file does not hold what it should.
    #[error("understand {path}: {reason}")]
    Format {
        /// The file.
        path: PathBuf,
        /// The problem and its place in the file.
        reason: String,
    },
    /// A file could not be written.
    #[error("write {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}
