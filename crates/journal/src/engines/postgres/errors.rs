//! Conversion of the client's errors to the errors of the journal.

use postgres::RetryPolicy;

use crate::Error;

/// The address of the database without the password. Every error names it.
#[derive(Debug, Clone)]
pub(super) struct DatabaseLocation(pub(super) String);

impl DatabaseLocation {
    /// Converts errors of the client; other errors are returned unchanged.
    pub(super) fn classify_error(&self, error: Error) -> Error {
        match error {
            Error::Postgres(error) => self.convert_error(error),
            Error::Malformed(reason) => Error::Corrupt { path: self.0.clone().into(), reason },
            other => other,
        }
    }

    /// Converts an error of the client.
    pub(super) fn convert_error(&self, error: postgres::Error) -> Error {
        let path = self.0.clone().into();
        let location = self.0.clone();
        match error {
            postgres::Error::Unreachable(reason) => Error::Unreachable { location, reason },
            postgres::Error::Exhausted => Error::Unreachable { location, reason: error.to_string() },
            postgres::Error::InvalidUrl(reason) | postgres::Error::ConnectionRejected(reason) => {
                Error::ConnectionRejected { location, reason }
            }
            postgres::Error::Conflict(_) | postgres::Error::TimedOut(_) => Error::Locked { path },
            postgres::Error::CommitUnknown(reason) => Error::CommitUnknown { location, reason },
            postgres::Error::OutOfSpace(_) => Error::DiskFull { path },
            postgres::Error::ReadOnly(_) | postgres::Error::InsufficientPrivilege(_) => {
                Error::PermissionDenied { path }
            }
            postgres::Error::UndefinedObject(reason) | postgres::Error::Malformed(reason) => {
                Error::Corrupt { path, reason }
            }
            other => Error::Postgres(other),
        }
    }
}

impl RetryPolicy for Error {
    fn should_retry(&self, failures: u32) -> bool {
        matches!(self, Self::Postgres(error) if error.should_retry(failures))
    }
}
