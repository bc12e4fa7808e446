//! The databases of a copy: each one connection of its own, used from one thread. What is read and written there is said in the
//! other files.

use std::fmt;
use std::path::PathBuf;

use crate::engines::sql::Connection;
use crate::engines::{postgres, sqlite};
use crate::{Error, Result};

/// Where a journal is.
#[derive(Clone, PartialEq, Eq)]
pub enum End {
    /// In a file, in SQLite.
    File(PathBuf),
    /// On a server, in PostgreSQL, at this URL; it may hold a password, and is not shown.
    Server(String),
}

impl End {
    /// Returns whether both are the same file, under whichever name.
    pub(super) fn is_file_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File(one), Self::File(other)) => {
                one == other
                    || matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
            }
            (Self::File(_) | Self::Server(_), _) => false,
        }
    }
}

impl fmt::Debug for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Server(_) => f.write_str("Server(…)"),
        }
    }
}

/// A database that is open.
#[expect(clippy::large_enum_variant, reason = "a copy has two of them, and they stay where they are")]
pub(super) enum Opened {
    Sqlite(sqlite::Plain),
    Postgres(postgres::Plain),
}

impl Opened {
    /// Opens a database that is there; its schema is brought up to date.
    pub(super) fn source(end: &End) -> Result<Self> {
        match end {
            End::File(path) if !path.is_file() => Err(Error::not_found("the database", &path.display())),
            end => Self::open(end),
        }
    }

    /// Opens a database to be filled, making a file where it is missing, and keeps others from doing the same meanwhile.
    pub(super) fn target(end: &End) -> Result<Self> {
        let opened = Self::open(end)?;
        match &opened {
            Self::Sqlite(plain) => plain.hold()?,
            Self::Postgres(plain) => plain.hold()?,
        }
        Ok(opened)
    }

    /// Opens a database, making a file where it is missing.
    pub(super) fn open(end: &End) -> Result<Self> {
        match end {
            End::File(path) => sqlite::Plain::open(path).map(Self::Sqlite),
            End::Server(url) => postgres::Plain::open(url).map(Self::Postgres),
        }
    }

    /// Returns what is read and written with.
    pub(super) const fn tables(&self) -> Connection<'_> {
        match self {
            Self::Sqlite(plain) => Connection::Sqlite(&plain.connection),
            Self::Postgres(plain) => Connection::Postgres(&plain.connection, &plain.heads),
        }
    }

    /// Returns where it is, without a password.
    pub(super) fn location(&self) -> String {
        match self {
            Self::Sqlite(plain) => plain.location(),
            Self::Postgres(plain) => plain.location(),
        }
    }

    /// Returns a failure with those of the engine told apart.
    pub(super) fn told(&self, error: Error) -> Error {
        match self {
            Self::Sqlite(plain) => plain.told(error),
            Self::Postgres(plain) => plain.told(error),
        }
    }

    /// Performs statements without parameters.
    pub(super) fn batch(&self, sql: &str) -> Result<()> {
        match self {
            Self::Sqlite(plain) => Ok(plain.connection.execute_batch(sql)?),
            Self::Postgres(plain) => Ok(plain.connection.batch(sql)?),
        }
    }

    /// Has all that was written where it stays: in the file itself. A server sees to that.
    pub(super) fn settle(&self) -> Result<()> {
        match self {
            Self::Sqlite(plain) => plain.settle(),
            Self::Postgres(_) => Ok(()),
        }
    }

    /// Answers questions about one moment, however many they are and however long it takes.
    pub(super) fn snapshot<T>(&self, work: impl FnOnce(&Connection<'_>) -> Result<T>) -> Result<T> {
        match self {
            Self::Sqlite(plain) => {
                let snapshot = plain.connection.unchecked_transaction()?;
                let answer = work(&Connection::Sqlite(&snapshot))?;
                snapshot.commit()?;
                Ok(answer)
            }
            Self::Postgres(plain) => plain.connection.snapshot(|connection| {
                // It waits while the other end writes.
                connection.batch("SET LOCAL idle_in_transaction_session_timeout = 0")?;
                work(&Connection::Postgres(connection, &plain.heads))
            }),
        }
    }

    /// Performs what `work` does together, or nothing of it.
    pub(super) fn write<T>(&self, work: impl FnOnce(&Connection<'_>) -> Result<T>) -> Result<T> {
        self.batch("BEGIN").map_err(|error| self.told(error))?;
        let done = work(&self.tables()).and_then(|done| self.batch("COMMIT").map(|()| done));
        done.map_err(|error| {
            // What cannot even be undone ends with its connection.
            let _ = self.batch("ROLLBACK");
            self.told(error)
        })
    }
}

/// Returns which version the schema of a database has, without changing anything: 0 where there is none yet.
pub(super) fn version(end: &End) -> Result<u32> {
    match end {
        End::File(path) => sqlite::plain_version(path),
        End::Server(url) => postgres::plain_version(url),
    }
}
