//! Health check of a PostgreSQL journal: counts, and rows that contradict each other. It repairs nothing.

use super::errors::DatabaseLocation;
use super::schema;
use crate::engines::sql::SqlConnection;
use crate::tables::consistency::{self, PROBLEMS_MAX};
use crate::tables::events::verification;
use crate::tables::threads::ThreadHeadCache;
use crate::{HealthCheckDepth, Result, StoreHealth};

/// Returns counts and, at depth [`HealthCheckDepth::Integrity`], the problems found. An integrity check reads all
/// rows, so it runs without time limits.
pub(super) fn check_health(
    connection: &postgres::Connection,
    location: &DatabaseLocation,
    depth: HealthCheckDepth,
) -> Result<StoreHealth> {
    match depth {
        HealthCheckDepth::Counts => read_health(connection, location, depth),
        HealthCheckDepth::Integrity => {
            connection.without_timeouts(|| read_health(connection, location, depth))
        }
    }
}

/// Reads the counts, and searches for problems if the depth requires it.
fn read_health(
    connection: &postgres::Connection,
    location: &DatabaseLocation,
    depth: HealthCheckDepth,
) -> Result<StoreHealth> {
    let heads = ThreadHeadCache::default();
    let tables = SqlConnection::Postgres(connection, &heads);
    let (threads, events) = consistency::count_threads_and_events(&tables)?;
    let bytes: i64 =
        tables.prepare("SELECT pg_database_size(current_database())")?.query_row((), |row| row.get(0))?;
    let (problems, unchecked_events) = match depth {
        HealthCheckDepth::Counts => (Vec::new(), 0),
        HealthCheckDepth::Integrity => find_problems(connection)?,
    };
    Ok(StoreHealth {
        location: location.0.clone(),
        schema_version: schema::read_version(connection, &location.0)?,
        threads,
        events,
        bytes: bytes.unsigned_abs(),
        problems,
        unchecked_events,
    })
}

/// Returns descriptions of inconsistent rows, of changed migrations and of damaged events, at most [`PROBLEMS_MAX`] for
/// each check, and the number of events without a checksum.
fn find_problems(connection: &postgres::Connection) -> Result<(Vec<String>, u64)> {
    let heads = ThreadHeadCache::default();
    let tables = SqlConnection::Postgres(connection, &heads);
    let mut problems = Vec::new();
    for query in consistency::CONSISTENCY_QUERIES {
        let limited = format!("{query} LIMIT {PROBLEMS_MAX}");
        problems.extend(tables.prepare(&limited)?.query_map((), |row| row.get::<_, String>(0))?);
    }
    problems.extend(schema::migration_differences(connection)?);
    let (damage, unchecked_events) = verification::find_damage(&tables)?;
    problems.extend(damage);
    Ok((problems, unchecked_events))
}
