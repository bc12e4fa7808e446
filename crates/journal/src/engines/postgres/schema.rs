//! Schema migrations of the PostgreSQL engine: the SQL of each version, and the application of pending migrations. It
//! contains no queries of the tables.

use postgres::{Connection, SqlValue};

use crate::engines::sql;
use crate::tables::search;
use crate::tables::threads::ThreadHeadCache;
use crate::{Error, Result};

/// Key of the advisory lock that a process holds while it migrates, because several processes may start at once.
const MIGRATION_LOCK: i64 = 0x5365_6775_0001;

/// A step from one version of the schema to the next.
struct Migration {
    /// The name of the file, recorded in the database.
    name: &'static str,
    /// The statements of the migration.
    sql: &'static str,
}

/// All migrations in order. The version of a schema is the number of migrations that were applied to it. SQLite has
/// migrations and versions of its own.
const MIGRATIONS: &[Migration] = &[
    Migration { name: "0001_journal", sql: include_str!("migrations/0001_journal.sql") },
    Migration { name: "0002_words", sql: include_str!("migrations/0002_words.sql") },
    Migration { name: "0003_projects", sql: include_str!("migrations/0003_projects.sql") },
    Migration { name: "0004_pins", sql: include_str!("migrations/0004_pins.sql") },
    Migration { name: "0005_embeddings", sql: include_str!("migrations/0005_embeddings.sql") },
    Migration { name: "0006_facts", sql: include_str!("migrations/0006_facts.sql") },
    Migration { name: "0007_checksums", sql: include_str!("migrations/0007_checksums.sql") },
];

/// Returns one row if the search path contains the table of migrations.
///
/// It reads the catalog as a table. `to_regclass` reads the server's cache of the catalog, which a transaction does not
/// update while it waits for an advisory lock, so that it misses the table that the holder of the lock created.
const FIND_MIGRATIONS_TABLE: &str = "SELECT FROM pg_catalog.pg_class AS class
    JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace
    WHERE class.relname = 'segue_migrations' AND namespace.nspname = ANY (current_schemas(false)) LIMIT 1";

/// The version whose migration empties the search index, so that it has to be built again.
const INDEX_RESET_VERSION: u32 = 2;

/// The newest version that this program knows.
pub(super) const SCHEMA_VERSION: u32 = MIGRATIONS.len() as u32;

/// Migrates the database to [`SCHEMA_VERSION`]. Several processes may call it at once.
///
/// # Errors
/// [`Error::NewerSchema`] if a later version of the program created the schema. Fails if a table of the same name
/// exists that is not ours.
pub(super) fn migrate(connection: &Connection, location: &str) -> Result<()> {
    if read_version(connection, location)? == SCHEMA_VERSION {
        return Ok(());
    }
    connection.batch_execute("BEGIN")?;
    match run_pending_migrations(connection, location) {
        Ok(()) => Ok(connection.batch_execute("COMMIT")?),
        Err(error) => {
            // Ignore a failure: if the rollback does not succeed, the connection ends, which rolls back as well.
            let _ = connection.batch_execute("ROLLBACK");
            Err(error)
        }
    }
}

/// Applies the missing migrations inside the open transaction.
fn run_pending_migrations(connection: &Connection, location: &str) -> Result<()> {
    connection.query("SELECT pg_advisory_xact_lock($1)::text", &[MIGRATION_LOCK.into()])?;
    // Another process may have migrated while this one waited for the lock.
    let version_before = read_version(connection, location)?;
    if version_before == 0 {
        connection.batch_execute(
            "CREATE TABLE segue_migrations (
                version BIGINT PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL)",
        )?;
    }
    for (version, migration) in (1_i64..).zip(MIGRATIONS).skip(version_before as usize) {
        connection.batch_execute(migration.sql)?;
        let values = [SqlValue::from(version), migration.name.into(), checksum(migration.sql).into()];
        connection
            .execute("INSERT INTO segue_migrations (version, name, checksum) VALUES ($1, $2, $3)", &values)?;
    }
    if version_before < INDEX_RESET_VERSION {
        search::document_index::index_all(&sql::SqlConnection::Postgres(
            connection,
            &ThreadHeadCache::default(),
        ))?;
    }
    Ok(())
}

/// Returns the version of the database, or 0 if it has no migrations table.
///
/// # Errors
/// [`Error::NewerSchema`] if the version is later than [`SCHEMA_VERSION`].
pub(super) fn read_version(connection: &Connection, location: &str) -> Result<u32> {
    if connection.query(FIND_MIGRATIONS_TABLE, &[])?.is_empty() {
        return Ok(0);
    }
    let rows = connection.query("SELECT coalesce(max(version), 0) FROM segue_migrations", &[])?;
    let found = rows.first().map(|row| row.integer(0)).transpose()?.flatten().unwrap_or(0);
    let found = u32::try_from(found).unwrap_or(u32::MAX);
    match found > SCHEMA_VERSION {
        true => Err(Error::NewerSchema { path: location.into(), found, known: SCHEMA_VERSION }),
        false => Ok(found),
    }
}

/// Returns descriptions of the differences between the recorded migrations and those of this program.
pub(super) fn migration_differences(connection: &Connection) -> Result<Vec<String>> {
    let rows = connection.query("SELECT name, checksum FROM segue_migrations ORDER BY version", &[])?;
    let mut problems = Vec::new();
    if rows.len() != MIGRATIONS.len() {
        problems.push(format!("{} of {} migrations are recorded", rows.len(), MIGRATIONS.len()));
    }
    for (row, migration) in rows.iter().zip(MIGRATIONS) {
        let (name, stored) = (row.text(0)?.unwrap_or_default(), row.text(1)?.unwrap_or_default());
        if name != migration.name || stored != checksum(migration.sql) {
            problems.push(format!("migration {name} differs from the one that this program knows"));
        }
    }
    Ok(problems)
}

/// Returns the checksum of a migration, computed as for SQLite.
fn checksum(sql: &str) -> String {
    crate::engines::sqlite::checksum(sql)
}

#[cfg(test)]
mod tests {
    use postgres::DatabaseTarget;

    use super::*;

    #[test]
    fn j9_a_transaction_sees_the_migrations_that_another_process_committed_since() {
        let database = test_postgres::TestDatabase::create().unwrap();
        let target: DatabaseTarget = database.socket_url().parse().unwrap();
        let [waiting, other] = [(); 2].map(|()| Connection::open(&target).unwrap());
        waiting.batch_execute("BEGIN").unwrap();
        assert_eq!(read_version(&waiting, "waiting").unwrap(), 0);

        // A single table: after many changes the server would also interrupt the other session to update its cache.
        other.batch_execute("CREATE TABLE segue_migrations AS SELECT 1::bigint AS version").unwrap();

        assert_eq!(read_version(&waiting, "waiting").unwrap(), 1);
    }
}
