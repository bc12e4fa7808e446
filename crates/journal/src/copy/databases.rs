//! The databases of a copy. Each is a single connection, used by one thread.

use std::fmt;
use std::path::PathBuf;

use crate::engines::sql::SqlConnection;
use crate::engines::{postgres, sqlite};
use crate::{Error, Result};

/// The location of a journal.
#[derive(Clone, PartialEq, Eq)]
pub enum JournalLocation {
    /// A SQLite file.
    File(PathBuf),
    /// A PostgreSQL database with this URL. The URL may contain a password, so it is not displayed.
    Server(String),
}

impl JournalLocation {
    /// Returns whether both locations are the same file, possibly under different names.
    pub(super) fn is_same_file(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File(left), Self::File(right)) => {
                left == right
                    || matches!((left.canonicalize(), right.canonicalize()), (Ok(left), Ok(right)) if left == right)
            }
            (Self::File(_) | Self::Server(_), _) => false,
        }
    }
}

impl fmt::Debug for JournalLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Server(_) => f.write_str("Server(…)"),
        }
    }
}

/// An open database.
#[expect(clippy::large_enum_variant, reason = "a copy has two of them, and they stay where they are")]
pub(super) enum DatabaseHandle {
    /// A SQLite file.
    Sqlite(sqlite::SqliteCopyConnection),
    /// A PostgreSQL database.
    Postgres(postgres::PostgresCopyConnection),
}

impl DatabaseHandle {
    /// Opens an existing database and migrates its schema.
    pub(super) fn open_source(location: &JournalLocation) -> Result<Self> {
        match location {
            JournalLocation::File(path) if !path.is_file() => {
                Err(Error::not_found("the database", &path.display()))
            }
            location => Self::open(location),
        }
    }

    /// Opens the target of a copy, creating a file if necessary, and locks it against other copies.
    pub(super) fn open_target(location: &JournalLocation) -> Result<Self> {
        let database = Self::open(location)?;
        match &database {
            Self::Sqlite(connection) => connection.lock_exclusively()?,
            Self::Postgres(connection) => connection.acquire_copy_lock()?,
        }
        Ok(database)
    }

    /// Opens a database and migrates its schema. A file is created if it does not exist.
    pub(super) fn open(location: &JournalLocation) -> Result<Self> {
        match location {
            JournalLocation::File(path) => sqlite::SqliteCopyConnection::open(path).map(Self::Sqlite),
            JournalLocation::Server(url) => postgres::PostgresCopyConnection::open(url).map(Self::Postgres),
        }
    }

    /// Returns the connection for SQL statements.
    pub(super) const fn connection(&self) -> SqlConnection<'_> {
        match self {
            Self::Sqlite(handle) => SqlConnection::Sqlite(&handle.connection),
            Self::Postgres(handle) => SqlConnection::Postgres(&handle.connection, &handle.heads),
        }
    }

    /// Returns the path or address of the database, without a password.
    pub(super) fn location(&self) -> String {
        match self {
            Self::Sqlite(handle) => handle.location(),
            Self::Postgres(handle) => handle.location(),
        }
    }

    /// Converts errors of the engine; other errors are returned unchanged.
    pub(super) fn classify_error(&self, error: Error) -> Error {
        match self {
            Self::Sqlite(handle) => handle.classify_error(error),
            Self::Postgres(handle) => handle.classify_error(error),
        }
    }

    /// Executes several statements without parameters.
    pub(super) fn execute_batch(&self, sql: &str) -> Result<()> {
        match self {
            Self::Sqlite(handle) => Ok(handle.connection.execute_batch(sql)?),
            Self::Postgres(handle) => Ok(handle.connection.batch_execute(sql)?),
        }
    }

    /// Copies the write-ahead log of a SQLite file into the file. PostgreSQL does this by itself.
    pub(super) fn checkpoint_wal(&self) -> Result<()> {
        match self {
            Self::Sqlite(handle) => handle.checkpoint_wal(),
            Self::Postgres(_) => Ok(()),
        }
    }

    /// Runs `work` on one snapshot of the database, without a time limit.
    pub(super) fn read_snapshot<T>(&self, work: impl FnOnce(&SqlConnection<'_>) -> Result<T>) -> Result<T> {
        match self {
            Self::Sqlite(handle) => {
                let snapshot = handle.connection.unchecked_transaction()?;
                let result = work(&SqlConnection::Sqlite(&snapshot))?;
                snapshot.commit()?;
                Ok(result)
            }
            Self::Postgres(handle) => handle.connection.read_snapshot(|connection| {
                // The snapshot is idle while the other database is written to.
                connection.batch_execute("SET LOCAL idle_in_transaction_session_timeout = 0")?;
                work(&SqlConnection::Postgres(connection, &handle.heads))
            }),
        }
    }

    /// Runs `work` in a transaction, and rolls back if it fails.
    pub(super) fn write_transaction<T>(
        &self,
        work: impl FnOnce(&SqlConnection<'_>) -> Result<T>,
    ) -> Result<T> {
        self.execute_batch("BEGIN").map_err(|error| self.classify_error(error))?;
        let result = work(&self.connection()).and_then(|value| self.execute_batch("COMMIT").map(|()| value));
        result.map_err(|error| {
            // If the rollback fails, the transaction ends with the connection.
            let _ = self.execute_batch("ROLLBACK");
            self.classify_error(error)
        })
    }
}

/// Returns the version of a database's schema without changing anything, or 0 if there is no schema yet.
pub(super) fn schema_version(location: &JournalLocation) -> Result<u32> {
    match location {
        JournalLocation::File(path) => sqlite::schema_version(path),
        JournalLocation::Server(url) => postgres::schema_version(url),
    }
}
