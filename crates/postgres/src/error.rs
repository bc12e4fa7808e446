//! What a server or the way to it reports, told apart by what a caller does about it. The only place that knows the
//! server's codes.

use std::error::Error as _;
use std::io;

use tokio_postgres::error::SqlState;

/// How often what met another transaction's row is performed again. Who still meets it meets its own.
const MEETINGS_MAX: u32 = 3;

/// A failure of a connection or a statement.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The address cannot be understood.
    #[error("read the database's URL: {0}")]
    Address(String),
    /// The server cannot be reached, or the connection was lost; it may be there again soon.
    #[error("reach the database: {0}")]
    Unreachable(String),
    /// The server does not let us in: the password, the user, the database, the certificate.
    #[error("enter the database: {0}")]
    Refused(String),
    /// No connection was free for longer than the wait.
    #[error("get a connection to the database: all of the pool are in use")]
    Exhausted,
    /// Another transaction was in the way; performed again, this one may succeed.
    #[error("perform a transaction: {0}")]
    Conflict(String),
    /// Another transaction stored a row first that this one looked for in vain; performed again, this one finds it.
    #[error("perform a transaction: {0}")]
    Met(String),
    /// The connection was lost while a transaction was being committed, and whether it was cannot be found out.
    #[error("find out whether a transaction was committed: {0}")]
    Unsettled(String),
    /// A lock or a statement took longer than it may.
    #[error("wait for the database: {0}")]
    TimedOut(String),
    /// The server has no space left.
    #[error("write to the database: {0}")]
    Full(String),
    /// The server takes no writes from anybody, as a standby does.
    #[error("write to the database: {0}")]
    ReadOnly(String),
    /// The user may not do this.
    #[error("write to the database: {0}")]
    Forbidden(String),
    /// A table or a column is not there.
    #[error("read the database: {0}")]
    Missing(String),
    /// What is stored is not what it should be.
    #[error("read the database: {0}")]
    Malformed(String),
    /// Anything else the server reports.
    #[error("use the database: {message} ({code})")]
    Statement {
        /// The five characters that tell what it is.
        code: String,
        /// What the server says.
        message: String,
    },
}

impl Error {
    /// Returns whether the same may succeed at once, on another connection or after another transaction, though it failed so
    /// many times.
    pub(crate) const fn is_passing_now(&self, failures: u32) -> bool {
        match self {
            Self::Unreachable(_) | Self::Conflict(_) => true,
            Self::Met(_) => failures <= MEETINGS_MAX,
            Self::Address(_)
            | Self::Refused(_)
            | Self::Exhausted
            | Self::Unsettled(_)
            | Self::TimedOut(_)
            | Self::Full(_)
            | Self::ReadOnly(_)
            | Self::Forbidden(_)
            | Self::Missing(_)
            | Self::Malformed(_)
            | Self::Statement { .. } => false,
        }
    }

    /// Returns the failure of connecting: it is refused unless the way to the server failed. A cause that is no I/O is about
    /// the settings, the password or TLS, and TLS reports a certificate as invalid data.
    pub(crate) fn of_connecting(error: tokio_postgres::Error) -> Self {
        if error.as_db_error().is_some() {
            return error.into();
        }
        let is_refused = error.source().is_some_and(|cause| {
            let io = cause.downcast_ref::<io::Error>();
            io.is_none_or(|cause| cause.kind() == io::ErrorKind::InvalidData)
        });
        let message = with_cause(&error);
        if is_refused { Self::Refused(message) } else { Self::Unreachable(message) }
    }

    /// Returns what the client itself reports of a statement: a lost connection has an I/O error or nothing as its cause;
    /// anything else is a value or an answer that does not fit.
    fn of_client(error: &tokio_postgres::Error) -> Self {
        let message = with_cause(error);
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
        let Some(told) = error.as_db_error() else { return Self::of_client(&error) };
        let message = match told.detail() {
            Some(detail) => format!("{}: {detail}", told.message()),
            None => told.message().to_owned(),
        };
        let code = told.code();
        match code.code() {
            // Class 08 is the connection; 57P01 to 57P03 are a server that stops, crashed or starts.
            lost if lost.starts_with("08") || lost.starts_with("57P0") => Self::Unreachable(message),
            _ if *code == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT => Self::Unreachable(message),
            _ if *code == SqlState::TOO_MANY_CONNECTIONS => Self::Unreachable(message),
            in_way if in_way.starts_with("40") => Self::Conflict(message),
            _ if *code == SqlState::UNIQUE_VIOLATION || *code == SqlState::FOREIGN_KEY_VIOLATION => {
                Self::Met(message)
            }
            _ if *code == SqlState::LOCK_NOT_AVAILABLE || *code == SqlState::QUERY_CANCELED => {
                Self::TimedOut(message)
            }
            _ if *code == SqlState::DISK_FULL || *code == SqlState::OUT_OF_MEMORY => Self::Full(message),
            _ if *code == SqlState::READ_ONLY_SQL_TRANSACTION => Self::ReadOnly(message),
            _ if *code == SqlState::INSUFFICIENT_PRIVILEGE => Self::Forbidden(message),
            refused if refused.starts_with("28") || refused.starts_with("3D") => Self::Refused(message),
            _ if *code == SqlState::UNDEFINED_TABLE || *code == SqlState::UNDEFINED_COLUMN => {
                Self::Missing(message)
            }
            damaged if damaged.starts_with("XX") => Self::Malformed(message),
            other => Self::Statement { code: other.to_owned(), message },
        }
    }
}

/// Returns what an error says, with what it says of its cause.
fn with_cause(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let said = next.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = next.source();
    }
    text
}
