//! Why a file cannot be imported at all. What is wrong with one record is a [`Problem`](crate::Problem), not an error.

use std::path::PathBuf;

use crate::detect::FORMAT_NAMES;

/// The error of a sink that cannot accept an entry.
pub type SinkError = Box<dyn std::error::Error + Send + Sync>;

/// A failed import or detection.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing is there.
    Missing {
        /// The path that was given.
        path: PathBuf,
    },
    /// The file has no content.
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The path is a folder that is not one conversation.
    Folder {
        /// The folder.
        path: PathBuf,
    },
    /// The content is not text, and not a SQLite database either.
    Binary {
        /// The file.
        path: PathBuf,
        /// The format that the first bytes suggest.
        looks_like: &'static str,
    },
    /// The content is text, but of no known agent.
    Unrecognized {
        /// The file.
        path: PathBuf,
        /// The format that the first bytes suggest.
        looks_like: &'static str,
    },
    /// A database that cannot be read, or does not hold what its format promises.
    Database {
        /// The database.
        path: PathBuf,
        /// The failure.
        source: rusqlite::Error,
    },
    /// The file system failed.
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The failure.
        source: std::io::Error,
    },
    /// The receiver of the entries gave up.
    Sink(#[source] SinkError),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.problem())?;
        self.hint().map_or(Ok(()), |hint| write!(f, "; {hint}"))
    }
}

impl Error {
    /// Returns what failed, without the hint.
    pub fn problem(&self) -> String {
        match self {
            Self::Missing { path } => format!("read {}: there is no such file", path.display()),
            Self::Empty { path } => format!("import {}: the file is empty", path.display()),
            Self::Folder { path } => format!("import {}: it is a folder", path.display()),
            Self::Binary { path, looks_like } => {
                format!("import {}: it is binary data ({looks_like})", path.display())
            }
            Self::Unrecognized { path, looks_like } => {
                format!("recognise {}: it looks like {looks_like}", path.display())
            }
            Self::Database { path, .. } => format!("read the database {}", path.display()),
            Self::Io { path, .. } => format!("read {}", path.display()),
            Self::Sink(_) => "store what was read".to_owned(),
        }
    }

    /// Returns what a person can do about it; `None` where the problem says all that is known.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Missing { .. } => "check the path, or list sessions with --discover",
            Self::Folder { .. } => "name the session files inside it",
            Self::Binary { .. } => "unpack it or name the session file itself",
            Self::Unrecognized { .. } => {
                return Some(format!("supported are the session files of {FORMAT_NAMES}"));
            }
            Self::Empty { .. } | Self::Database { .. } | Self::Io { .. } | Self::Sink(_) => return None,
        };
        Some(hint.to_owned())
    }

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
