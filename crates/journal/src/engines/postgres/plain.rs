//! One connection to a server's database, for whoever moves a whole journal: it is of no pool, and nothing is tried again. What
//! is read and written with it is not said here.

use postgres::{Connection, Target};

use super::faults::Place;
use super::schema;
use crate::tables::threads::Heads;
use crate::{Error, Result};

/// The name under which the server shows such connections.
const APPLICATION: &str = "segue-db";

/// Held on the server, in the database, by whoever copies into it.
const COPYING: i64 = 0x5365_6775_0004;

/// A connection, and where it goes.
pub(crate) struct Plain {
    pub(crate) connection: Connection,
    /// None: no thread is looked at.
    pub(crate) heads: Heads,
    place: Place,
}

impl Plain {
    /// Connects to the database, and brings its schema up to date. It blocks the thread.
    pub(crate) fn open(url: &str) -> Result<Self> {
        let plain = Self::connect(url)?;
        schema::migrate(&plain.connection, &plain.place.0).map_err(|error| plain.told(error))?;
        Ok(plain)
    }

    /// Whole tables are read and cleaned with it: no statement has a limit.
    fn connect(url: &str) -> Result<Self> {
        let target: Target = url.parse().map_err(|error| Place(super::url_place(url)).explain(error))?;
        let target = target.named(APPLICATION);
        let place = Place(target.to_string());
        let connection = Connection::open(&target);
        match connection.and_then(|connection| connection.be_patient().map(|()| connection)) {
            Ok(connection) => Ok(Self { connection, heads: Heads::default(), place }),
            Err(error) => Err(place.explain(error)),
        }
    }

    /// Keeps others from copying into the database. What is committed may be lost when the server crashes, whole transactions
    /// at a time.
    pub(crate) fn hold(&self) -> Result<()> {
        let sql =
            "SELECT CAST(pg_try_advisory_lock($1) AS INT), set_config('synchronous_commit', 'off', false)";
        let held = self
            .connection
            .query(sql, &[COPYING.into()])
            .and_then(|rows| rows.first().map_or(Ok(None), |row| row.integer(0)));
        match held.map_err(|error| self.place.explain(error))? {
            Some(1) => Ok(()),
            Some(_) | None => Err(Error::Locked { path: self.place.0.clone().into() }),
        }
    }

    /// Returns where it goes, without the password.
    pub(crate) fn location(&self) -> String {
        self.place.0.clone()
    }

    /// Returns `error` with failures of the server told apart.
    pub(crate) fn told(&self, error: Error) -> Error {
        self.place.told(error)
    }
}

/// Returns which version the schema of a database has, without changing anything: 0 where there is none yet.
pub(crate) fn version(url: &str) -> Result<u32> {
    let plain = Plain::connect(url)?;
    schema::version(&plain.connection, &plain.place.0).map_err(|error| plain.told(error))
}
