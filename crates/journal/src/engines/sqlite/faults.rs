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
            _ => Error::Sqlite(rusqlite::Error::SqliteFailure(*code, message)),
        }
    }
}

/// Returns the failure of preparing a statement of ours. One without a code of its own is a table or column that is gone: the
/// statements themselves are right.
pub(crate) fn of_preparing(engine: rusqlite::Error) -> Error {
    match engine {
        rusqlite::Error::SqliteFailure(code, _) | rusqlite::Error::SqlInputError { error: code, .. }
            if code.extended_code == ffi::SQLITE_ERROR =>
        {
            Error::Malformed(engine.to_string())
        }
        engine => engine.into(),
    }
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
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE threads (thread_id)").unwrap();
        for gone in ["SELECT 1 FROM events", "SELECT name FROM threads"] {
            let error = of_preparing(connection.prepare(gone).unwrap_err());
            assert!(matches!(Place(PathBuf::from("/x")).explain(error), Error::Corrupt { .. }), "{gone}");
        }
    }
}
