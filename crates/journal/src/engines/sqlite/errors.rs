//! Conversion of SQLite errors to the errors of the journal. The only place that knows SQLite's result codes.

use std::path::PathBuf;
use std::sync::OnceLock;

use rusqlite::{ErrorCode, ffi};

use crate::Error;

/// The path of the database, which every error names, and the first damage that SQLite has found in the file.
///
/// SQLite cannot tell which pages are damaged, and a write to a damaged file spreads the damage. So nothing is written by
/// this process after the first one is found, and reading goes on.
#[derive(Debug)]
pub(crate) struct DatabasePath(pub(crate) PathBuf, OnceLock<String>);

impl DatabasePath {
    /// Returns the path of a database in which no damage was found.
    pub(crate) const fn new(path: PathBuf) -> Self {
        Self(path, OnceLock::new())
    }

    /// Checks that SQLite has found no damage in the file.
    ///
    /// # Errors
    /// [`Error::Corrupt`] with the first damage.
    pub(crate) fn check_undamaged(&self) -> crate::Result<()> {
        match self.1.get() {
            None => Ok(()),
            Some(reason) => Err(Error::Corrupt { path: self.0.clone(), reason: reason.clone() }),
        }
    }

    /// Records that another program has truncated the file, which SQLite does not notice. A checkpoint would fill the rest of
    /// the file with pages of the log, and hide that others are missing.
    pub(crate) fn record_truncation(&self) {
        self.1.get_or_init(|| "another program has truncated the file".to_owned());
    }

    /// Converts errors of SQLite; other errors are returned unchanged.
    pub(crate) fn classify_error(&self, error: Error) -> Error {
        match error {
            Error::Sqlite(error) => self.convert_error(&error),
            Error::Malformed(reason) => Error::Corrupt { path: self.0.clone(), reason },
            other => other,
        }
    }

    /// Converts an error of SQLite.
    pub(crate) fn convert_error(&self, error: &rusqlite::Error) -> Error {
        let path = self.0.clone();
        let (code, message) = match error {
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
            // SQLite does not report the cause, so another file is opened: the folder. The database itself must not be opened,
            // because closing it would release the locks that SQLite holds on it in this process.
            ErrorCode::CannotOpen
                if path.parent().is_some_and(|folder| {
                    std::fs::File::open(folder).is_err_and(|error| is_out_of_descriptors(&error))
                }) =>
            {
                Error::TooManyOpenFiles { path }
            }
            ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen => {
                Error::PermissionDenied { path }
            }
            ErrorCode::DiskFull => Error::DiskFull { path },
            // SQLite could not enlarge the index of the write-ahead log (-shm), which it does when it opens a database. It
            // does not report the cause. On an intact disk, only a lack of space lets that fail.
            ErrorCode::SystemIoFailure if code.extended_code == ffi::SQLITE_IOERR_SHMSIZE => {
                Error::DiskFull { path }
            }
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => {
                // The search index can be built again.
                if code.extended_code != ffi::SQLITE_CORRUPT_VTAB {
                    self.1.get_or_init(reason);
                }
                Error::Corrupt { path, reason: reason() }
            }
            ErrorCode::SystemIoFailure => {
                Error::Io { path, source: std::io::Error::other(format!("{}: {code}", reason())) }
            }
            _ => Error::Sqlite(rusqlite::Error::SqliteFailure(*code, message)),
        }
    }
}

/// Returns whether the process or the system has as many files open as it may.
pub(super) fn is_out_of_descriptors(error: &std::io::Error) -> bool {
    // ENFILE and EMFILE, which have these numbers on Linux, macOS and the BSDs.
    const TOO_MANY_OPEN_FILES: [i32; 2] = [23, 24];
    cfg!(unix) && error.raw_os_error().is_some_and(|code| TOO_MANY_OPEN_FILES.contains(&code))
}

/// Converts an error of preparing a statement. A generic SQL error means that a table or column does not exist: the
/// statements themselves are correct, so the schema is damaged.
pub(crate) fn prepare_error(error: rusqlite::Error) -> Error {
    match error {
        rusqlite::Error::SqliteFailure(code, _) | rusqlite::Error::SqlInputError { error: code, .. }
            if code.extended_code == ffi::SQLITE_ERROR =>
        {
            Error::Malformed(error.to_string())
        }
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: i32, variant: &str) {
        let engine = rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some("message".to_owned()));
        let error =
            format!("{:?}", DatabasePath::new(PathBuf::from("/x")).classify_error(Error::Sqlite(engine)));
        assert!(error.starts_with(variant), "{code}: {error}");
    }

    #[test]
    fn result_codes_map_to_errors_that_a_caller_can_act_on() {
        check(ffi::SQLITE_BUSY, "Locked");
        check(ffi::SQLITE_BUSY_SNAPSHOT, "Locked");
        check(ffi::SQLITE_LOCKED, "Locked");
        check(ffi::SQLITE_READONLY, "PermissionDenied");
        check(ffi::SQLITE_READONLY_DIRECTORY, "PermissionDenied");
        check(ffi::SQLITE_CANTOPEN, "PermissionDenied");
        check(ffi::SQLITE_PERM, "PermissionDenied");
        check(ffi::SQLITE_FULL, "DiskFull");
        check(ffi::SQLITE_IOERR_SHMSIZE, "DiskFull");
        check(ffi::SQLITE_CORRUPT, "Corrupt");
        check(ffi::SQLITE_CORRUPT_INDEX, "Corrupt");
        check(ffi::SQLITE_NOTADB, "Corrupt");
        check(ffi::SQLITE_IOERR_WRITE, "Io");
        check(ffi::SQLITE_CONSTRAINT_CHECK, "Sqlite");
        check(ffi::SQLITE_ERROR, "Sqlite");
    }

    #[cfg(unix)]
    #[test]
    fn only_the_errors_of_full_tables_of_open_files_are_recognised() {
        let is_recognised = |code| is_out_of_descriptors(&std::io::Error::from_raw_os_error(code));
        assert_eq!([2, 13, 23, 24, 28].map(is_recognised), [false, false, true, true, false]);
    }

    #[test]
    fn a_missing_table_is_reported_as_corruption() {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE threads (thread_id)").unwrap();
        for sql in ["SELECT 1 FROM events", "SELECT name FROM threads"] {
            let error = prepare_error(connection.prepare(sql).unwrap_err());
            assert!(
                matches!(DatabasePath::new(PathBuf::from("/x")).classify_error(error), Error::Corrupt { .. }),
                "{sql}"
            );
        }
    }
}
