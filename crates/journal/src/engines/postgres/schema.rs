//! The schema's versions: which SQL leads to each, and bringing a database up to date. It holds no query.

use postgres::{Connection, Value};

use crate::engines::sql;
use crate::tables::search;
use crate::tables::threads::Heads;
use crate::{Error, Result};

/// Whoever migrates holds it: several processes may start at once.
const MIGRATING: i64 = 0x5365_6775_0001;

struct Migration {
    name: &'static str,
    sql: &'static str,
}

/// In order; the version of a schema is the number of migrations that made it. They are counted apart from those of the
/// embedded engine.
const MIGRATIONS: &[Migration] = &[
    Migration { name: "0001_journal", sql: include_str!("migrations/0001_journal.sql") },
    Migration { name: "0002_words", sql: include_str!("migrations/0002_words.sql") },
];

/// The version that emptied the search index.
const INDEX_EMPTIED: u32 = 2;

/// The newest version this program knows.
pub(super) const VERSION: u32 = MIGRATIONS.len() as u32;

/// Brings the database to [`VERSION`]; several processes may do so at once.
///
/// # Errors
/// [`Error::NewerSchema`], and when a table of that name is there already that is not ours.
pub(super) fn migrate(connection: &Connection, location: &str) -> Result<()> {
    if version(connection, location)? == VERSION {
        return Ok(());
    }
    connection.batch("BEGIN")?;
    match run_missing(connection, location) {
        Ok(()) => Ok(connection.batch("COMMIT")?),
        Err(error) => {
            // With the connection goes what it began; either way nothing of it stays.
            let _ = connection.batch("ROLLBACK");
            Err(error)
        }
    }
}

fn run_missing(connection: &Connection, location: &str) -> Result<()> {
    connection.query("SELECT pg_advisory_xact_lock($1)::text", &[MIGRATING.into()])?;
    // Another process may have migrated while this one waited for the lock.
    let found = version(connection, location)?;
    if found == 0 {
        connection.batch(
            "CREATE TABLE segue_migrations (
                version BIGINT PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL)",
        )?;
    }
    for (version, migration) in (1_i64..).zip(MIGRATIONS).skip(found as usize) {
        connection.batch(migration.sql)?;
        let values = [Value::from(version), migration.name.into(), checksum(migration.sql).into()];
        connection
            .execute("INSERT INTO segue_migrations (version, name, checksum) VALUES ($1, $2, $3)", &values)?;
    }
    if found < INDEX_EMPTIED {
        search::texts::index_all(&sql::Connection::Postgres(connection, &Heads::default()))?;
    }
    Ok(())
}

/// Returns the database's version; 0 for one without a table of ours.
pub(super) fn version(connection: &Connection, location: &str) -> Result<u32> {
    let rows = connection.query("SELECT to_regclass('segue_migrations')::text", &[])?;
    if rows.first().map(|row| row.text(0)).transpose()?.flatten().is_none() {
        return Ok(0);
    }
    let rows = connection.query("SELECT coalesce(max(version), 0) FROM segue_migrations", &[])?;
    let found = rows.first().map(|row| row.integer(0)).transpose()?.flatten().unwrap_or(0);
    let found = u32::try_from(found).unwrap_or(u32::MAX);
    match found > VERSION {
        true => Err(Error::NewerSchema { path: location.into(), found, known: VERSION }),
        false => Ok(found),
    }
}

/// Returns what differs between the migrations that made this database and those of this program.
pub(super) fn differences(connection: &Connection) -> Result<Vec<String>> {
    let rows = connection.query("SELECT name, checksum FROM segue_migrations ORDER BY version", &[])?;
    let mut problems = Vec::new();
    if rows.len() != MIGRATIONS.len() {
        problems.push(format!("{} of {} migrations are recorded", rows.len(), MIGRATIONS.len()));
    }
    for (row, migration) in rows.iter().zip(MIGRATIONS) {
        let (name, stored) = (row.text(0)?.unwrap_or_default(), row.text(1)?.unwrap_or_default());
        if name != migration.name || stored != checksum(migration.sql) {
            problems.push(format!("migration {name} is not the one this program knows"));
        }
    }
    Ok(problems)
}

/// The one of the embedded engine's migrations.
fn checksum(sql: &str) -> String {
    crate::engines::sqlite::checksum(sql)
}
