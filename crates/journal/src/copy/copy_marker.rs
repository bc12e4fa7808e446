//! The copy marker: a table in the target of a copy that names the source. While it exists, the target cannot be
//! opened as a journal.

use jiff::Timestamp;

use super::databases::DatabaseHandle;
use super::tables::TABLES;
use crate::engines::sql::{SqlConnection, SqlDialect};
use crate::tables::replicas;
use crate::{Error, Result};

/// Fails if a database is the target of an unfinished copy.
///
/// # Errors
/// [`Error::UnfinishedCopy`].
pub(crate) fn check_copy_complete(connection: &SqlConnection, location: &str) -> Result<()> {
    match unfinished_copy_source(connection)? {
        None => Ok(()),
        Some(source) => Err(Error::UnfinishedCopy { location: location.to_owned(), from: source }),
    }
}

/// Starts or resumes a copy by setting the marker of the target. Returns whether it was resumed.
///
/// # Errors
/// [`Error::UnsuitableTarget`] if the target is the source, is in use or is not empty, [`Error::UnfinishedCopy`] if
/// it contains an unfinished copy of another journal.
pub(super) fn begin_copy(source: &DatabaseHandle, target: &DatabaseHandle) -> Result<bool> {
    let (from, to) = (source.location(), target.location());
    if from == to {
        return Err(same_database_error(to));
    }
    if has_live_process(&target.connection()).map_err(|error| target.classify_error(error))? {
        let reason = "another segue process uses it, or was killed a moment ago; stop it first".to_owned();
        return Err(Error::UnsuitableTarget { location: to, reason });
    }
    match unfinished_copy_source(&target.connection()).map_err(|error| target.classify_error(error))? {
        Some(marked_source) if marked_source == from => return Ok(true),
        Some(marked_source) => return Err(Error::UnfinishedCopy { location: to, from: marked_source }),
        None => {}
    }
    if !is_empty(&target.connection()).map_err(|error| target.classify_error(error))? {
        return Err(Error::UnsuitableTarget { location: to, reason: "it is not empty".to_owned() });
    }
    target.write_transaction(|connection| {
        connection.execute("CREATE TABLE segue_copying (source TEXT NOT NULL)", ())?;
        connection.execute("INSERT INTO segue_copying (source) VALUES ($1)", [from.as_str()])
    })?;
    Ok(false)
}

/// Returns the error for a copy of a database into itself.
pub(super) fn same_database_error(location: String) -> Error {
    Error::UnsuitableTarget { location, reason: "it is the database to copy".to_owned() }
}

/// Removes the marker, because the copy is complete.
pub(super) fn end_copy(connection: &SqlConnection) -> Result<()> {
    connection.execute("DROP TABLE segue_copying", ()).map(|_| ())
}

/// Returns the source of an unfinished copy into this database, or `None`.
fn unfinished_copy_source(connection: &SqlConnection) -> Result<Option<String>> {
    let marker_query = match connection.dialect() {
        SqlDialect::Sqlite => "SELECT 1 FROM sqlite_schema WHERE name = 'segue_copying'",
        SqlDialect::Postgres => "SELECT 1 WHERE to_regclass('segue_copying') IS NOT NULL",
    };
    if !connection.prepare(marker_query)?.exists(())? {
        return Ok(None);
    }
    connection.prepare("SELECT source FROM segue_copying")?.query_optional((), |row| row.get(0))
}

/// Returns whether a process is alive, by the database's clock, that works on this journal. The journal may still be
/// empty.
fn has_live_process(connection: &SqlConnection) -> Result<bool> {
    let now = match connection.dialect() {
        SqlDialect::Sqlite => Timestamp::now(),
        SqlDialect::Postgres => replicas::current_time(connection)?,
    };
    Ok(replicas::list(connection)?.iter().any(|replica| replica.alive_until >= now))
}

/// Returns whether all tables are empty.
fn is_empty(connection: &SqlConnection) -> Result<bool> {
    for table in TABLES {
        let sql = format!("SELECT 1 FROM {} LIMIT 1", table.name);
        if connection.prepare(&sql)?.exists(())? {
            return Ok(false);
        }
    }
    Ok(true)
}
