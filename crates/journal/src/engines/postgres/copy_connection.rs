//! A single PostgreSQL connection for copying a whole journal. It is not part of a pool, and failed statements are not
//! retried. The module `copy` selects the data to copy.

use postgres::{Connection, DatabaseTarget};

use super::errors::DatabaseLocation;
use super::schema;
use crate::tables::threads::ThreadHeadCache;
use crate::{Error, Result};

/// The name under which the server lists these connections.
const APPLICATION_NAME: &str = "segue-db";

/// Key of the advisory lock that a process holds on the target database while it copies into it.
const COPY_LOCK: i64 = 0x5365_6775_0004;

/// A connection for copying, with the address of its database.
pub(crate) struct PostgresCopyConnection {
    /// The connection.
    pub(crate) connection: Connection,
    /// An empty cache: copying reads no thread heads.
    pub(crate) heads: ThreadHeadCache,
    /// The address of the database.
    location: DatabaseLocation,
}

impl PostgresCopyConnection {
    /// Connects to the database and creates or migrates its schema. Blocks the calling thread.
    pub(crate) fn open(url: &str) -> Result<Self> {
        let copy_connection = Self::connect(url)?;
        schema::migrate(&copy_connection.connection, &copy_connection.location.0)
            .map_err(|error| copy_connection.classify_error(error))?;
        Ok(copy_connection)
    }

    /// Connects without time limits for statements, because copying reads and rewrites whole tables.
    fn connect(url: &str) -> Result<Self> {
        let target: DatabaseTarget =
            url.parse().map_err(|error| DatabaseLocation(super::redacted_url(url)).convert_error(error))?;
        let target = target.with_application_name(APPLICATION_NAME);
        let location = DatabaseLocation(target.to_string());
        let connection = Connection::open(&target);
        match connection.and_then(|connection| connection.disable_timeouts().map(|()| connection)) {
            Ok(connection) => Ok(Self { connection, heads: ThreadHeadCache::default(), location }),
            Err(error) => Err(location.convert_error(error)),
        }
    }

    /// Acquires the lock that keeps other processes from copying into the database. It also disables synchronous
    /// commits: a crash of the database server may lose the last transactions, but no transaction in part.
    ///
    /// # Errors
    /// [`Error::Locked`] if another process holds the lock.
    pub(crate) fn acquire_copy_lock(&self) -> Result<()> {
        let sql =
            "SELECT CAST(pg_try_advisory_lock($1) AS INT), set_config('synchronous_commit', 'off', false)";
        let result = self
            .connection
            .query(sql, &[COPY_LOCK.into()])
            .and_then(|rows| rows.first().map_or(Ok(None), |row| row.integer(0)));
        match result.map_err(|error| self.location.convert_error(error))? {
            Some(1) => Ok(()),
            Some(_) | None => Err(Error::Locked { path: self.location.0.clone().into() }),
        }
    }

    /// Returns the address of the database, without the password.
    pub(crate) fn location(&self) -> String {
        self.location.0.clone()
    }

    /// Converts errors of the client; other errors are returned unchanged.
    pub(crate) fn classify_error(&self, error: Error) -> Error {
        self.location.classify_error(error)
    }
}

/// Returns the version of a database's schema without changing anything, or 0 if it has no schema yet.
pub(crate) fn schema_version(url: &str) -> Result<u32> {
    let copy_connection = PostgresCopyConnection::connect(url)?;
    schema::read_version(&copy_connection.connection, &copy_connection.location.0)
        .map_err(|error| copy_connection.classify_error(error))
}
