//! What a server or the way to it reports, told apart by what a caller does about it. The only place that knows the
//! server's codes.

use std::io;

use tokio_postgres::error::SqlState;

/// How often what met another transaction's row is performed again. Who still meets it meets its own.
const MEETINGS_MAX: u32 = 3;

/// A failure of a connection or a statement.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
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
    /// The server may not be written to: it is a standby, or the user may not.
    #[error("write to the database: {0}")]
    ReadOnly(String),
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
            | Self::Missing(_)
            | Self::Malformed(_)
            | Self::Statement { .. } => false,
        }
    }
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(told) = error.as_db_error() else { return of_client(&error) };
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
            _ if *code == SqlState::READ_ONLY_SQL_TRANSACTION
                || *code == SqlState::INSUFFICIENT_PRIVILEGE =>
            {
                Self::ReadOnly(message)
            }
            refused if refused.starts_with("28") || refused.starts_with("3D") => Self::Refused(message),
            _ if *code == SqlState::UNDEFINED_TABLE || *code == SqlState::UNDEFINED_COLUMN => {
                Self::Missing(message)
            }
            damaged if damaged.starts_with("XX") => Self::Malformed(message),
            other => Self::Statement { code: other.to_owned(), message },
        }
    }
}

/// Returns what the client reports itself; it tells in words alone what it is.
fn of_client(error: &tokio_postgres::Error) -> Error {
    let message = with_cause(error);
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<io::Error>());
    match &*error.to_string() {
        "invalid configuration" | "authentication error" => Error::Refused(message),
        // A way that breaks is not one that is refused.
        "error performing TLS handshake"
            if cause.is_none_or(|cause| cause.kind() == io::ErrorKind::InvalidData) =>
        {
            Error::Refused(message)
        }
        value
            if ["error serializing", "error encoding", "expected"]
                .iter()
                .any(|start| value.starts_with(start)) =>
        {
            Error::Malformed(message)
        }
        _ => Error::Unreachable(message),
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
