//! What the server, or the way to it, reports, turned into what a caller acts on.

use postgres::Passing;

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
    pub(super) fn explain(&self, fault: postgres::Error) -> Error {
        let path = self.0.clone().into();
        let location = self.0.clone();
        match fault {
            postgres::Error::Unreachable(reason) => Error::Unreachable { location, reason },
            postgres::Error::Exhausted => Error::Unreachable { location, reason: fault.to_string() },
            postgres::Error::Address(reason) | postgres::Error::Refused(reason) => {
                Error::Refused { location, reason }
            }
            postgres::Error::Conflict(_) | postgres::Error::TimedOut(_) => Error::Locked { path },
            postgres::Error::Unsettled(reason) => Error::Unsettled { location, reason },
            postgres::Error::Full(_) => Error::DiskFull { path },
            postgres::Error::ReadOnly(_) | postgres::Error::Forbidden(_) => Error::Denied { path },
            postgres::Error::Missing(reason) | postgres::Error::Malformed(reason) => {
                Error::Corrupt { path, reason }
            }
            other => Error::Postgres(other),
        }
    }
}

impl Passing for Error {
    fn is_passing(&self, failures: u32) -> bool {
        matches!(self, Self::Postgres(fault) if fault.is_passing(failures))
    }
}
