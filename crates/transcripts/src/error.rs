//! Errors that prevent the import of a whole file. Damage of single records is a
//! [`TranscriptProblem`](crate::TranscriptProblem) and not an error.

use std::path::PathBuf;

use crate::detect::FORMAT_NAMES;

/// The error of a [`TranscriptSink`](crate::TranscriptSink).
pub type SinkError = Box<dyn std::error::Error + Send + Sync>;

/// A failed import or detection. Its text reads after "failed to" and ends with the hint, if there is one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The path does not exist.
    Missing {
        /// The path that the user passed.
        path: PathBuf,
    },
    /// The file is empty or contains only white space.
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The path is a folder that does not hold single OpenHands events.
    Folder {
        /// The folder.
        path: PathBuf,
    },
    /// The content is neither text nor a SQLite database.
    Binary {
        /// The file.
        path: PathBuf,
        /// The format that the first bytes suggest.
        looks_like: &'static str,
    },
    /// The content is text, but in no supported format.
    Unrecognized {
        /// The file.
        path: PathBuf,
        /// The format that the first bytes suggest.
        looks_like: &'static str,
    },
    /// SQLite could not read the database, or it lacks the tables of a LangGraph checkpoint database.
    Database {
        /// The database.
        path: PathBuf,
        /// The error of SQLite.
        source: rusqlite::Error,
    },
    /// A read from the file system failed.
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The sink returned an error, and reading stopped.
    Sink(#[source] SinkError),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.problem())?;
        self.hint().map_or(Ok(()), |hint| write!(f, "; {hint}"))
    }
}

impl Error {
    /// Returns the failure without the hint, as a fragment that reads after "failed to".
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
            Self::Sink(_) => "store the imported entries".to_owned(),
        }
    }

    /// Returns advice for the user; `None` if the problem implies no particular action.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Missing { .. } => {
                "check the path; `segue import --discover` lists the sessions of other agents"
            }
            Self::Folder { .. } => "name the session files inside it",
            Self::Binary { .. } => "unpack it or name the session file itself",
            Self::Unrecognized { .. } => {
                return Some(format!("the supported session files are those of {FORMAT_NAMES}"));
            }
            Self::Empty { .. } | Self::Database { .. } | Self::Io { .. } | Self::Sink(_) => return None,
        };
        Some(hint.to_owned())
    }

    /// Returns the error for a failed read of `path`. A missing file and a folder have their own variants.
    pub(crate) fn io(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        let path = path.into();
        match source.kind() {
            std::io::ErrorKind::NotFound => Self::Missing { path },
            std::io::ErrorKind::IsADirectory => Self::Folder { path },
            _ => Self::Io { path, source },
        }
    }
}
