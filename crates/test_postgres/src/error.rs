//! Errors of a PostgreSQL server for tests. No caller recovers from them; each says what to do about the machine.

use std::io;
use std::path::Path;

/// Why there is no server, or why it did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program is not installed.
    #[error("find `{program}`: install {package}, or put it into PATH")]
    ProgramMissing {
        /// The program.
        program: &'static str,
        /// The Debian package that contains the program.
        package: &'static str,
    },
    /// PostgreSQL refuses to run as root, and there is nobody else.
    #[error("run a server as root: neither `postgres` nor `nobody` is a user of this machine")]
    NoUnprivilegedUser,
    /// A program failed.
    #[error("run `{program}`: {said}")]
    Program {
        /// The program.
        program: String,
        /// The standard error of the program and the log of the server.
        said: String,
    },
    /// A file, an address, a thread or a signal.
    #[error("{what}")]
    Io {
        /// The operation that failed.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// The server refused a statement, or could not be reached.
    #[error("perform `{statement}`")]
    Statement {
        /// The statement.
        statement: String,
        /// Why it failed.
        source: tokio_postgres::Error,
    },
    /// The server did not answer in time.
    #[error("have an answer to `{statement}` in time")]
    AnswerTimeout {
        /// The statement.
        statement: String,
    },
}

impl Error {
    /// Returns what makes an error of one of the system's.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what: what.into(), source }
    }

    /// Returns what makes an error of one of the system's about a file.
    pub(crate) fn file(what: &str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        Self::io(format!("{what} {}", path.display()))
    }
}
