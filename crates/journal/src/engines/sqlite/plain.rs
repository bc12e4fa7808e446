//! One connection to a database file, for whoever moves a whole journal: it goes through no writer and shares nothing. What is
//! read and written with it is not said here.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

use super::faults::Place;
use super::{connect, schema};
use crate::{Error, Result};

/// How long to wait for another process that writes to the file.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// How often a log is tried to be written back, each time for as long as [`LOCK_WAIT`]: another process may read something long.
const SETTLE_TRIES: usize = 6;

/// A connection, and where it goes.
pub(crate) struct Plain {
    pub(crate) connection: Connection,
    place: Place,
}

impl Plain {
    /// Opens the file, making it where it is missing, and brings its schema up to date.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let place = place(path)?;
        let connection = connect::writer(&place, LOCK_WAIT).map_err(|error| place.explain(error))?;
        Ok(Self { connection, place })
    }

    /// Keeps every other process from the file. What is written survives a crash of this one at once; a power cut may take the
    /// last of it, whole transactions at a time.
    pub(crate) fn hold(&self) -> Result<()> {
        let held = self.connection.execute_batch(
            "PRAGMA locking_mode = EXCLUSIVE; PRAGMA synchronous = NORMAL; BEGIN IMMEDIATE; COMMIT;",
        );
        held.map_err(|error| self.told(error.into()))
    }

    /// Writes everything back from the log into the file, on the disk, and leaves the log empty.
    ///
    /// # Errors
    /// [`Error::Locked`] while another process goes on reading what the file had before.
    pub(crate) fn settle(&self) -> Result<()> {
        for _ in 0..SETTLE_TRIES {
            // That somebody was in the way is no failure of the statement: its answer tells.
            let is_in_the_way =
                self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
            if !is_in_the_way.map_err(|error| self.told(error.into()))? {
                return Ok(());
            }
        }
        Err(Error::Locked { path: self.place.0.clone() })
    }

    /// Returns where it goes.
    pub(crate) fn location(&self) -> String {
        self.place.0.display().to_string()
    }

    /// Returns `error` with engine failures told apart.
    pub(crate) fn told(&self, error: Error) -> Error {
        self.place.explain(error)
    }
}

/// Returns which version the schema of a file has, without changing anything: 0 where there is none yet.
pub(crate) fn version(path: &Path) -> Result<u32> {
    if !path.is_file() {
        return Ok(0);
    }
    let place = place(path)?;
    let found = connect::reader(&place, LOCK_WAIT).and_then(|found| schema::version(&found, &place));
    found.map_err(|error| place.explain(error))
}

fn place(path: &Path) -> Result<Place> {
    let absolute = std::path::absolute(path);
    Ok(Place(absolute.map_err(|source| Error::Io { path: path.to_owned(), source })?))
}
