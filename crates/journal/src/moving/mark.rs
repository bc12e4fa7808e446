//! The mark in a database that is being copied into: a table that says where from. As long as it is there, nobody uses the
//! database.

use jiff::Timestamp;

use super::ends::Opened;
use super::tables::TABLES;
use crate::engines::sql::{Connection, Dialect};
use crate::tables::replicas;
use crate::{Error, Result};

/// Refuses a database that a copy was begun into and that is not whole yet.
///
/// # Errors
/// [`Error::Unfinished`].
pub(crate) fn check_whole(connection: &Connection, location: &str) -> Result<()> {
    match begun_from(connection)? {
        None => Ok(()),
        Some(from) => Err(Error::Unfinished { location: location.to_owned(), from }),
    }
}

/// Begins a copy, or goes on with one: returns whether it does.
pub(super) fn begin(source: &Opened, target: &Opened) -> Result<bool> {
    let (from, to) = (source.location(), target.location());
    if from == to {
        return Err(same(to));
    }
    if is_served(&target.tables()).map_err(|error| target.told(error))? {
        let reason = "another segue uses it, or was killed a moment ago; stop it first".to_owned();
        return Err(Error::Unfit { location: to, reason });
    }
    match begun_from(&target.tables()).map_err(|error| target.told(error))? {
        Some(begun) if begun == from => return Ok(true),
        Some(begun) => return Err(Error::Unfinished { location: to, from: begun }),
        None => {}
    }
    if !is_empty(&target.tables()).map_err(|error| target.told(error))? {
        return Err(Error::Unfit { location: to, reason: "it is not empty".to_owned() });
    }
    target.write(|connection| {
        connection.execute("CREATE TABLE segue_copying (source TEXT NOT NULL)", ())?;
        connection.execute("INSERT INTO segue_copying (source) VALUES ($1)", [from.as_str()])
    })?;
    Ok(false)
}

/// Returns that a database cannot be copied into itself.
pub(super) fn same(location: String) -> Error {
    Error::Unfit { location, reason: "it is the database to copy".to_owned() }
}

/// Says that the database is whole.
pub(super) fn end(connection: &Connection) -> Result<()> {
    connection.execute("DROP TABLE segue_copying", ()).map(|_| ())
}

/// Returns where a copy into this database that is not finished comes from, or `None`.
fn begun_from(connection: &Connection) -> Result<Option<String>> {
    let is_there = match connection.dialect() {
        Dialect::Sqlite => "SELECT 1 FROM sqlite_schema WHERE name = 'segue_copying'",
        Dialect::Postgres => "SELECT 1 WHERE to_regclass('segue_copying') IS NOT NULL",
    };
    if !connection.prepare(is_there)?.exists(())? {
        return Ok(None);
    }
    connection.prepare("SELECT source FROM segue_copying")?.find((), |row| row.get(0))
}

/// Returns whether any process lives, by the database's clock, that works on this journal, however little is in it yet.
fn is_served(connection: &Connection) -> Result<bool> {
    let now = match connection.dialect() {
        Dialect::Sqlite => Timestamp::now(),
        Dialect::Postgres => replicas::clock(connection)?,
    };
    Ok(replicas::list(connection)?.iter().any(|replica| replica.alive_until >= now))
}

fn is_empty(connection: &Connection) -> Result<bool> {
    for table in TABLES {
        let any = format!("SELECT 1 FROM {} LIMIT 1", table.name);
        if connection.prepare(&any)?.exists(())? {
            return Ok(false);
        }
    }
    Ok(true)
}
