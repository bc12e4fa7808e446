//! Schema migrations of the SQLite engine: the SQL of each version, and the application of pending migrations. It
//! contains no queries of the tables.

use rusqlite::{Connection, OptionalExtension};

use super::errors::DatabasePath;
use super::wal;
use crate::engines::sql;
use crate::tables::search;
use crate::{Error, Result};

/// The `application_id` that marks a SQLite file as a journal (`Segu` in ASCII), so that a database of another
/// program is never written to.
const APPLICATION_ID: i64 = 0x5365_6775;

/// A step from one version of the schema to the next.
struct Migration {
    /// The name of the file, recorded in the database.
    name: &'static str,
    /// The statements of the migration.
    sql: &'static str,
}

/// All migrations in order. The version of a schema is the number of migrations that were applied to it.
const MIGRATIONS: &[Migration] = &[
    Migration { name: "0001_journal", sql: include_str!("migrations/0001_journal.sql") },
    Migration { name: "0002_memory", sql: include_str!("migrations/0002_memory.sql") },
    Migration { name: "0003_search", sql: include_str!("migrations/0003_search.sql") },
    Migration { name: "0004_gateway", sql: include_str!("migrations/0004_gateway.sql") },
    Migration { name: "0005_replicas", sql: include_str!("migrations/0005_replicas.sql") },
    Migration { name: "0006_words", sql: include_str!("migrations/0006_words.sql") },
    Migration { name: "0007_projects", sql: include_str!("migrations/0007_projects.sql") },
    Migration { name: "0008_pins", sql: include_str!("migrations/0008_pins.sql") },
    Migration { name: "0009_embeddings", sql: include_str!("migrations/0009_embeddings.sql") },
    Migration { name: "0010_facts", sql: include_str!("migrations/0010_facts.sql") },
    Migration { name: "0011_checksums", sql: include_str!("migrations/0011_checksums.sql") },
];

/// The version whose migration empties the search index, so that it has to be built again.
const INDEX_RESET_VERSION: u32 = 6;

/// The newest version that this program knows.
pub(crate) const SCHEMA_VERSION: u32 = MIGRATIONS.len() as u32;

/// Migrates the database to [`SCHEMA_VERSION`]. Several processes may call it at once.
///
/// # Errors
/// [`Error::NewerSchema`] if a later version of the program created the schema, and [`Error::Corrupt`] if the file
/// belongs to another program.
pub(crate) fn migrate(connection: &Connection, path: &DatabasePath) -> Result<()> {
    if read_version(connection, path)? == SCHEMA_VERSION {
        return Ok(());
    }
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let outcome = run_pending_migrations(connection, path);
    match outcome {
        Ok(()) => {
            connection.execute_batch("COMMIT")?;
            // Without its log, the file is then at least a complete database of this version.
            Ok(wal::checkpoint(connection)?)
        }
        Err(error) => {
            // SQLite may have ended the transaction because of the failure. In either case nothing is kept.
            let _ = connection.execute_batch("ROLLBACK");
            Err(error)
        }
    }
}

/// Applies the missing migrations inside the open transaction.
fn run_pending_migrations(connection: &Connection, path: &DatabasePath) -> Result<()> {
    // Another process may have migrated while this one waited for the lock.
    let version_before = read_version(connection, path)?;
    if version_before == 0 {
        connection.execute_batch(
            "CREATE TABLE schema_migrations (
                version INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL) STRICT;",
        )?;
        connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    }
    for (version, migration) in (1u32..).zip(MIGRATIONS).skip(version_before as usize) {
        connection.execute_batch(migration.sql)?;
        connection.execute(
            "INSERT INTO schema_migrations (version, name, checksum) VALUES (?1, ?2, ?3)",
            (version, migration.name, checksum(migration.sql)),
        )?;
    }
    if version_before < INDEX_RESET_VERSION {
        search::document_index::index_all(&sql::SqlConnection::Sqlite(connection))?;
    }
    connection.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    Ok(())
}

/// Returns the version of the database, or 0 if it has no tables.
///
/// # Errors
/// [`Error::Corrupt`] if the file belongs to another program, [`Error::NewerSchema`] if the version is later than
/// [`SCHEMA_VERSION`].
pub(crate) fn read_version(connection: &Connection, path: &DatabasePath) -> Result<u32> {
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let found = u32::try_from(number("user_version")?).unwrap_or(u32::MAX);
    let tables =
        connection.query_row("SELECT 1 FROM sqlite_schema LIMIT 1", [], |_| Ok(())).optional()?.is_some();
    if tables && number("application_id")? != APPLICATION_ID {
        let reason = "the file is a database of another program".to_owned();
        return Err(Error::Corrupt { path: path.0.clone(), reason });
    }
    if found > SCHEMA_VERSION {
        return Err(Error::NewerSchema { path: path.0.clone(), found, known: SCHEMA_VERSION });
    }
    Ok(found)
}

/// Returns descriptions of the differences between the recorded migrations and those of this program.
pub(crate) fn migration_differences(connection: &Connection) -> Result<Vec<String>> {
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
            problems
                .push(format!("migration {version} ({name}) differs from the one that this program knows"));
        }
    }
    Ok(problems)
}

/// Returns the FNV-1a hash of a migration's SQL, to detect that a migration was edited. It is no protection against
/// tampering.
pub(crate) fn checksum(sql: &str) -> String {
    let hash = sql.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}
