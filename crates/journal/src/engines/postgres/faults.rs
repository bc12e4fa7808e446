//! What the server, or the way to it, reports, turned into what a caller acts on.

use pg::Passing;

use crate::Error;

/// Where the database is, without the password; every failure is told with it.
#[derive(Debug, Clone)]
pub(super) struct Place(pub(super) String);

impl Place {
    /// Returns `error` with failures of the server told apart.
    pub(super) fn told(&self, error: Error) -> Error {
        match error {
            Error::Postgres(fault) => self.explain(fault),
            Error::Malformed(reason) => Error::Corrupt { path: self.0.clone().into(), reason },
            other => other,
        }
    }

    /// Returns what a failure means to a caller.
    pub(super) fn explain(&self, fault: pg::Error) -> Error {
        let path = self.0.clone().into();
        let location = self.0.clone();
        match fault {
            pg::Error::Unreachable(reason) => Error::Unreachable { location, reason },
            pg::Error::Exhausted => Error::Unreachable { location, reason: fault.to_string() },
            pg::Error::Address(reason) | pg::Error::Refused(reason) => Error::Refused { location, reason },
            pg::Error::Conflict(_) | pg::Error::TimedOut(_) => Error::Locked { path },
            pg::Error::Unsettled(reason) => Error::Unsettled { location, reason },
            pg::Error::Full(_) => Error::DiskFull { path },
            pg::Error::ReadOnly(_) => Error::Denied { path },
            pg::Error::Missing(reason) | pg::Error::Malformed(reason) => Error::Corrupt { path, reason },
            other => Error::Postgres(other),
        }
    }
}

impl Passing for Error {
    fn is_passing(&self, failures: u32) -> bool {
        matches!(self, Self::Postgres(fault) if fault.is_passing(failures))
    }
}
