//! Errors of a PostgreSQL server for tests. No caller recovers from them; the messages help to fix the machine. They
//! continue "failed to …".

use std::io;
use std::path::Path;

/// A failure to start a test server, or to control or query it.
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
    /// PostgreSQL refuses to run as root, and the machine has no other suitable user.
    #[error("run a server as root: neither `postgres` nor `nobody` is a user of this machine")]
    NoUnprivilegedUser,
    /// A program failed.
    #[error("run `{program}`: {output}")]
    Program {
        /// The program.
        program: String,
        /// The standard error of the program and, when a server does not start, the end of its log.
        output: String,
    },
    /// An operation of the system failed, on a file, an address, a thread or a process.
    #[error("{what}")]
    Io {
        /// The operation that failed.
        what: String,
        /// The cause.
        source: io::Error,
    },
    /// The server refused a statement, or could not be reached.
    #[error("perform `{statement}`")]
    Statement {
        /// The statement.
        statement: String,
        /// The cause.
        source: tokio_postgres::Error,
    },
    /// The server did not answer in time.
    #[error("get an answer to `{statement}` in time")]
    AnswerTimeout {
        /// The statement.
        statement: String,
    },
}

impl Error {
    /// Returns a function that wraps an I/O error with a description of the operation, for `map_err`.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what: what.into(), source }
    }

    /// Returns a function that wraps an I/O error with a description of the operation and its file, for `map_err`.
    pub(crate) fn file(what: &str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        Self::io(format!("{what} {}", path.display()))
    }
}
