//! What the database engine reports, turned into what a caller acts on. The only place that knows engine codes.

use std::path::PathBuf;

use rusqlite::{ErrorCode, ffi};

use crate::Error;

/// Where the data is; every engine failure is told with it.
#[derive(Debug, Clone)]
pub(crate) struct Place(pub(crate) PathBuf);

impl Place {
    /// Returns `error` with engine failures told apart.
    pub(crate) fn explain(&self, error: Error) -> Error {
        match error {
            Error::Sqlite(engine) => self.fault(&engine),
            Error::Malformed(reason) => Error::Corrupt { path: self.0.clone(), reason },
            other => other,
        }
    }

    /// Returns what an engine failure means to a caller.
    pub(crate) fn fault(&self, engine: &rusqlite::Error) -> Error {
        let path = self.0.clone();
        let (code, message) = match engine {
            rusqlite::Error::SqliteFailure(code, message) => (code, message.clone()),
            rusqlite::Error::FromSqlConversionFailure(_, _, source) => {
                return Error::Corrupt { path, reason: source.to_string() };
            }
            other => {
                let code = ffi::Error::new(ffi::SQLITE_ERROR);
                return Error::Sqlite(rusqlite::Error::SqliteFailure(code, Some(other.to_string())));
            }
        };
        let reason = || message.clone().unwrap_or_else(|| code.to_string());
        match code.code {
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
                Error::Locked { path }
            }
            ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen => {
                Error::Denied { path }
            }
            ErrorCode::DiskFull => Error::DiskFull { path },
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => Error::Corrupt { path, reason: reason() },
            ErrorCode::SystemIoFailure => {
                Error::Io { path, source: std::io::Error::other(format!("{}: {code}", reason())) }
            }
            _ if is_damaged_schema(code, message.as_deref()) => Error::Corrupt { path, reason: reason() },
            _ => Error::Sqlite(rusqlite::Error::SqliteFailure(*code, message)),
        }
    }
}

/// A table or column of ours that is gone is reported as a plain error of the statement that names it.
fn is_damaged_schema(code: &ffi::Error, message: Option<&str>) -> bool {
    let missing = |text: &str| text.starts_with("no such table") || text.starts_with("no such column");
    code.extended_code == ffi::SQLITE_ERROR && message.is_some_and(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: i32, variant: &str) {
        let engine = rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some("message".to_owned()));
        let told = format!("{:?}", Place(PathBuf::from("/x")).explain(Error::Sqlite(engine)));
        assert!(told.starts_with(variant), "{code}: {told}");
    }

    #[test]
    fn engine_codes_become_what_a_caller_acts_on() {
        check(ffi::SQLITE_BUSY, "Locked");
        check(ffi::SQLITE_BUSY_SNAPSHOT, "Locked");
        check(ffi::SQLITE_LOCKED, "Locked");
        check(ffi::SQLITE_READONLY, "Denied");
        check(ffi::SQLITE_READONLY_DIRECTORY, "Denied");
        check(ffi::SQLITE_CANTOPEN, "Denied");
        check(ffi::SQLITE_PERM, "Denied");
        check(ffi::SQLITE_FULL, "DiskFull");
        check(ffi::SQLITE_CORRUPT, "Corrupt");
        check(ffi::SQLITE_CORRUPT_INDEX, "Corrupt");
        check(ffi::SQLITE_NOTADB, "Corrupt");
        check(ffi::SQLITE_IOERR_WRITE, "Io");
        check(ffi::SQLITE_CONSTRAINT_CHECK, "Sqlite");
        check(ffi::SQLITE_ERROR, "Sqlite");
    }

    #[test]
    fn a_table_that_is_gone_is_damage() {
        let message = Some("no such table: events".to_owned());
        let engine = rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_ERROR), message);
        assert!(matches!(Place(PathBuf::from("/x")).fault(&engine), Error::Corrupt { .. }));
    }
}
