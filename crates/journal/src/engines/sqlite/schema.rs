//! The schema's versions: which SQL leads to each, and bringing a database up to date. It holds no query.

use rusqlite::{Connection, OptionalExtension};

use super::faults::Place;
use crate::engines::sql;
use crate::tables::search;
use crate::{Error, Result};

/// Marks a SQLite file as ours (`Segu` in ASCII), so that another program's database is never written to.
const APPLICATION_ID: i64 = 0x5365_6775;

struct Migration {
    name: &'static str,
    sql: &'static str,
}

/// In order; the version of a schema is the number of migrations that made it.
const MIGRATIONS: &[Migration] = &[
    Migration { name: "0001_journal", sql: include_str!("migrations/0001_journal.sql") },
    Migration { name: "0002_memory", sql: include_str!("migrations/0002_memory.sql") },
    Migration { name: "0003_search", sql: include_str!("migrations/0003_search.sql") },
    Migration { name: "0004_gateway", sql: include_str!("migrations/0004_gateway.sql") },
    Migration { name: "0005_replicas", sql: include_str!("migrations/0005_replicas.sql") },
    Migration { name: "0006_words", sql: include_str!("migrations/0006_words.sql") },
];

/// The version that emptied the search index.
const INDEX_EMPTIED: u32 = 6;

/// The newest version this program knows.
pub(crate) const VERSION: u32 = MIGRATIONS.len() as u32;

/// Brings the database to [`VERSION`]; several processes may do so at once.
///
/// # Errors
/// [`Error::NewerSchema`] and, when the file belongs to another program, [`Error::Corrupt`].
pub(crate) fn migrate(connection: &Connection, place: &Place) -> Result<()> {
    if version(connection, place)? == VERSION {
        return Ok(());
    }
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let outcome = run_missing(connection, place);
    match outcome {
        Ok(()) => Ok(connection.execute_batch("COMMIT")?),
        Err(error) => {
            // The transaction may have ended with the failure itself; either way nothing of it stays.
            let _ = connection.execute_batch("ROLLBACK");
            Err(error)
        }
    }
}

fn run_missing(connection: &Connection, place: &Place) -> Result<()> {
    // Another process may have migrated while this one waited for the lock.
    let found = version(connection, place)?;
    if found == 0 {
        connection.execute_batch(
            "CREATE TABLE schema_migrations (
                version INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL) STRICT;",
        )?;
        connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    }
    for (version, migration) in (1u32..).zip(MIGRATIONS).skip(found as usize) {
        connection.execute_batch(migration.sql)?;
        connection.execute(
            "INSERT INTO schema_migrations (version, name, checksum) VALUES (?1, ?2, ?3)",
            (version, migration.name, checksum(migration.sql)),
        )?;
    }
    if found < INDEX_EMPTIED {
        search::texts::index_all(&sql::Connection::Sqlite(connection))?;
    }
    connection.pragma_update(None, "user_version", VERSION)?;
    Ok(())
}

/// Returns the database's version; 0 for one without any table.
pub(crate) fn version(connection: &Connection, place: &Place) -> Result<u32> {
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let found = u32::try_from(number("user_version")?).unwrap_or(u32::MAX);
    let tables =
        connection.query_row("SELECT 1 FROM sqlite_schema LIMIT 1", [], |_| Ok(())).optional()?.is_some();
    if tables && number("application_id")? != APPLICATION_ID {
        let reason = "it is a database of another program".to_owned();
        return Err(Error::Corrupt { path: place.0.clone(), reason });
    }
    if found > VERSION {
        return Err(Error::NewerSchema { path: place.0.clone(), found, known: VERSION });
    }
    Ok(found)
}

/// Returns what differs between the migrations that made this database and those of this program.
pub(crate) fn differences(connection: &Connection) -> Result<Vec<String>> {
    let mut statement =
        connection.prepare("SELECT version, name, checksum FROM schema_migrations ORDER BY version")?;
    let applied = statement
        .query_map([], |row| Ok((row.get::<_, u32>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?)))?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let mut problems = Vec::new();
    if applied.len() != MIGRATIONS.len() {
        problems.push(format!("{} of {} migrations are recorded", applied.len(), MIGRATIONS.len()));
    }
    for ((version, name, stored), migration) in applied.into_iter().zip(MIGRATIONS) {
        if name != migration.name || stored != checksum(migration.sql) {
            problems.push(format!("migration {version} ({name}) is not the one this program knows"));
        }
    }
    Ok(problems)
}

/// FNV-1a: it tells an edited migration from the original; nobody is kept out by it.
pub(crate) fn checksum(sql: &str) -> String {
    let hash = sql.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}
