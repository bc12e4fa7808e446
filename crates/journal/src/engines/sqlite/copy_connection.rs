//! A single SQLite connection for copying a whole journal. It does not use the writer and shares nothing with a
//! store. What is copied is decided in `copy`.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

use super::errors::DatabasePath;
use super::{connect, schema};
use crate::{Error, Result};

/// Maximum time to wait for another process that writes to the file.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// Number of attempts to checkpoint the write-ahead log, each of at most [`LOCK_WAIT`]: another process may be
/// executing a long read.
const CHECKPOINT_TRIES: usize = 6;

/// A connection for copying, with the path of its database.
pub(crate) struct SqliteCopyConnection {
    /// The connection.
    pub(crate) connection: Connection,
    /// The path of the database.
    path: DatabasePath,
}

impl SqliteCopyConnection {
    /// Opens the file, creates it if it does not exist, and migrates its schema.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let path = absolute_path(path)?;
        let connection =
            connect::open_writer(&path, LOCK_WAIT).map_err(|error| path.classify_error(error))?;
        Ok(Self { connection, path })
    }

    /// Acquires an exclusive lock on the file that lasts as long as the connection. It also sets `synchronous =
    /// NORMAL`: committed data survives a crash of this process, but a power failure may lose the last transactions,
    /// each as a whole.
    ///
    /// # Errors
    /// [`Error::Locked`] if another process uses the file.
    pub(crate) fn lock_exclusively(&self) -> Result<()> {
        let result = self.connection.execute_batch(
            "PRAGMA locking_mode = EXCLUSIVE; PRAGMA synchronous = NORMAL; BEGIN IMMEDIATE; COMMIT;",
        );
        result.map_err(|error| self.classify_error(error.into()))
    }

    /// Copies the whole write-ahead log into the database file, syncs it and truncates the log.
    ///
    /// # Errors
    /// [`Error::Locked`] if another process keeps reading an older snapshot.
    pub(crate) fn checkpoint_wal(&self) -> Result<()> {
        for _ in 0..CHECKPOINT_TRIES {
            // A blocked checkpoint is not an error of the statement; it is reported in the first column of its row.
            let is_blocked =
                self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
            if !is_blocked.map_err(|error| self.classify_error(error.into()))? {
                return Ok(());
            }
        }
        Err(Error::Locked { path: self.path.0.clone() })
    }

    /// Returns the path of the database.
    pub(crate) fn location(&self) -> String {
        self.path.0.display().to_string()
    }

    /// Converts errors of SQLite; other errors are returned unchanged.
    pub(crate) fn classify_error(&self, error: Error) -> Error {
        self.path.classify_error(error)
    }
}

/// Returns the version of a file's schema without changing anything, or 0 if there is no schema yet.
pub(crate) fn schema_version(path: &Path) -> Result<u32> {
    if !path.is_file() {
        return Ok(0);
    }
    let path = absolute_path(path)?;
    let version = connect::open_reader(&path, LOCK_WAIT)
        .and_then(|connection| schema::read_version(&connection, &path));
    version.map_err(|error| path.classify_error(error))
}

/// Returns the absolute form of a path.
fn absolute_path(path: &Path) -> Result<DatabasePath> {
    let absolute = std::path::absolute(path);
    Ok(DatabasePath::new(absolute.map_err(|source| Error::Io { path: path.to_owned(), source })?))
}
