//! Why a file cannot be imported at all. What is wrong with one record is a [`Problem`](crate::Problem), not an error.

use std::path::PathBuf;

/// What a sink may answer when it cannot take what was read.
pub type SinkError = Box<dyn std::error::Error + Send + Sync>;

/// A failed import or detection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing is there.
    #[error("read {}: there is no such file; check the path, or list sessions with --discover", path.display())]
    Missing {
        /// The path that was given.
        path: PathBuf,
    },
    /// The file has no content.
    #[error("import {}: the file is empty", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The path is a folder that is not one conversation.
    #[error("import {}: it is a folder; name the session files inside it", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
    },
    /// The content is not text, and not a SQLite database either.
    #[error("import {}: it is binary data ({looks_like}); unpack it or name the session file itself", path.display())]
    Binary {
        /// The file.
        path: PathBuf,
        /// What the first bytes suggest.
        looks_like: &'static str,
    },
    /// The content is text, but of no known agent.
    #[error("recognise {}: it looks like {looks_like}; supported are the session files of {}", path.display(), crate::detect::FORMATS_SHOWN)]
    Unrecognized {
        /// The file.
        path: PathBuf,
        /// What the first bytes suggest.
        looks_like: &'static str,
    },
    /// A database that cannot be read, or does not hold what its format promises.
    #[error("read the database {}", path.display())]
    Database {
        /// The database.
        path: PathBuf,
        /// The failure.
        source: rusqlite::Error,
    },
    /// The file system failed.
    #[error("read {}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The failure.
        source: std::io::Error,
    },
    /// The receiver of the entries gave up.
    #[error("store what was read")]
    Sink(#[source] SinkError),
}

impl Error {
    /// Returns the error for a failed read of `path`.
    pub(crate) fn io(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        let path = path.into();
        match source.kind() {
            std::io::ErrorKind::NotFound => Self::Missing { path },
            std::io::ErrorKind::IsADirectory => Self::Folder { path },
            _ => Self::Io { path, source },
        }
    }
}
