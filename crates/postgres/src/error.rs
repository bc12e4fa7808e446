//! Errors of connections and statements, classified by the reaction that they require. No other module interprets the
//! server's SQLSTATE codes.

use std::error::Error as _;
use std::io;

use tokio_postgres::error::SqlState;

/// How many times a transaction is retried after a constraint violation. A violation that persists was not caused by
/// a concurrent transaction, but by the transaction's own rows.
const CONSTRAINT_RETRIES_MAX: u32 = 3;

/// An error of a connection, a statement or a transaction.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The URL cannot be parsed.
    #[error("read the database's URL: {0}")]
    InvalidUrl(String),
    /// The server cannot be reached, or the connection was lost. Often temporary.
    #[error("reach the database: {0}")]
    Unreachable(String),
    /// The server refused the connection: wrong password, unknown user or database, or a certificate that is not
    /// trusted.
    #[error("log in to the database: {0}")]
    ConnectionRejected(String),
    /// No connection became free within the pool's wait timeout.
    #[error("get a connection to the database: all connections of the pool are in use")]
    Exhausted,
    /// A concurrent transaction holds a lock, or caused a deadlock or a serialization failure. A retry may succeed.
    #[error("execute a transaction: {0}")]
    Conflict(String),
    /// A unique or foreign key constraint was violated. If a concurrent transaction inserted the row after this
    /// one had looked for it, a retry finds the row.
    #[error("execute a transaction: {0}")]
    ConstraintViolation(String),
    /// The connection was lost during a commit, and the outcome of the transaction cannot be determined.
    #[error("determine whether a transaction was committed: {0}")]
    CommitUnknown(String),
    /// A lock or a statement exceeded its timeout.
    #[error("wait for the database: {0}")]
    TimedOut(String),
    /// The server has no disk space or memory left.
    #[error("write to the database: {0}")]
    OutOfSpace(String),
    /// The server is read-only, as a standby is.
    #[error("write to the database: {0}")]
    ReadOnly(String),
    /// The database user lacks a privilege.
    #[error("write to the database: {0}")]
    InsufficientPrivilege(String),
    /// A table or a column does not exist.
    #[error("read the database: {0}")]
    UndefinedObject(String),
    /// A value or a response does not have the expected form.
    #[error("read the database: {0}")]
    Malformed(String),
    /// Any other error that the server reports.
    #[error("use the database: {message} ({code})")]
    Statement {
        /// The SQLSTATE code: five characters.
        code: String,
        /// The server's message, with its detail if there is one.
        message: String,
    },
}

impl Error {
    /// Returns whether an immediate retry may succeed, on another connection or after a concurrent transaction.
    /// `failures` is the number of failed attempts so far.
    pub(crate) const fn is_transient(&self, failures: u32) -> bool {
        match self {
            Self::Unreachable(_) | Self::Conflict(_) => true,
            Self::ConstraintViolation(_) => failures <= CONSTRAINT_RETRIES_MAX,
            Self::InvalidUrl(_)
            | Self::ConnectionRejected(_)
            | Self::Exhausted
            | Self::CommitUnknown(_)
            | Self::TimedOut(_)
            | Self::OutOfSpace(_)
            | Self::ReadOnly(_)
            | Self::InsufficientPrivilege(_)
            | Self::UndefinedObject(_)
            | Self::Malformed(_)
            | Self::Statement { .. } => false,
        }
    }

    /// Converts an error of connecting. It is [`Self::Unreachable`] if I/O failed, and [`Self::ConnectionRejected`]
    /// otherwise: a cause that is not an I/O error concerns the settings, the password or TLS, and TLS reports an
    /// untrusted certificate as invalid data.
    pub(crate) fn from_connect_error(error: tokio_postgres::Error) -> Self {
        if error.as_db_error().is_some() {
            return error.into();
        }
        let is_refused = error.source().is_some_and(|cause| {
            let io = cause.downcast_ref::<io::Error>();
            io.is_none_or(|cause| cause.kind() == io::ErrorKind::InvalidData)
        });
        let message = error_chain(&error);
        if is_refused { Self::ConnectionRejected(message) } else { Self::Unreachable(message) }
    }

    /// Converts an error that the client library reports itself. A lost connection has an I/O error or nothing as its
    /// cause; any other cause is a parameter or response of the wrong type.
    fn from_client_error(error: &tokio_postgres::Error) -> Self {
        let message = error_chain(error);
        let is_lost = match error.source() {
            None => error.is_closed(),
            Some(cause) => cause
                .downcast_ref::<io::Error>()
                .is_some_and(|cause| cause.kind() != io::ErrorKind::InvalidInput),
        };
        if is_lost { Self::Unreachable(message) } else { Self::Malformed(message) }
    }
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(db_error) = error.as_db_error() else { return Self::from_client_error(&error) };
        let message = match db_error.detail() {
            Some(detail) => format!("{}: {detail}", db_error.message()),
            None => db_error.message().to_owned(),
        };
        let code = db_error.code();
        match code.code() {
            // Class 08 is the connection; 57P01 to 57P03 are a server that stops, crashed or starts.
            connection if connection.starts_with("08") || connection.starts_with("57P0") => {
                Self::Unreachable(message)
            }
            _ if *code == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT => Self::Unreachable(message),
            _ if *code == SqlState::TOO_MANY_CONNECTIONS => Self::Unreachable(message),
            rollback if rollback.starts_with("40") => Self::Conflict(message),
            _ if *code == SqlState::UNIQUE_VIOLATION || *code == SqlState::FOREIGN_KEY_VIOLATION => {
                Self::ConstraintViolation(message)
            }
            _ if *code == SqlState::LOCK_NOT_AVAILABLE || *code == SqlState::QUERY_CANCELED => {
                Self::TimedOut(message)
            }
            _ if *code == SqlState::DISK_FULL || *code == SqlState::OUT_OF_MEMORY => {
                Self::OutOfSpace(message)
            }
            _ if *code == SqlState::READ_ONLY_SQL_TRANSACTION => Self::ReadOnly(message),
            _ if *code == SqlState::INSUFFICIENT_PRIVILEGE => Self::InsufficientPrivilege(message),
            refused if refused.starts_with("28") || refused.starts_with("3D") => {
                Self::ConnectionRejected(message)
            }
            _ if *code == SqlState::UNDEFINED_TABLE || *code == SqlState::UNDEFINED_COLUMN => {
                Self::UndefinedObject(message)
            }
            damaged if damaged.starts_with("XX") => Self::Malformed(message),
            other => Self::Statement { code: other.to_owned(), message },
        }
    }
}

/// Returns the message of an error, followed by the messages of its causes that it does not contain already.
fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let message = next.to_string();
        if !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        cause = next.source();
    }
    text
}
