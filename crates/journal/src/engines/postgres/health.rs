//! Health check of a PostgreSQL journal: counts, and rows that contradict each other. It repairs nothing.

use super::errors::DatabaseLocation;
use super::schema;
use crate::engines::sql::SqlConnection;
use crate::tables::consistency::{self, PROBLEMS_MAX};
use crate::tables::events::verification;
use crate::tables::threads::ThreadHeadCache;
use crate::{HealthCheckDepth, Result, StoreHealth};

/// Returns counts and, at the other depths than [`HealthCheckDepth::Counts`], the problems found. Finding them reads all
/// rows, so it runs without time limits.
pub(super) fn check_health(
    connection: &postgres::Connection,
    location: &DatabaseLocation,
    depth: HealthCheckDepth,
) -> Result<StoreHealth> {
    match depth {
        HealthCheckDepth::Counts => read_health(connection, location, depth),
        HealthCheckDepth::Tables | HealthCheckDepth::Integrity => {
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
        HealthCheckDepth::Tables | HealthCheckDepth::Integrity => find_problems(connection, depth)?,
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

/// Returns descriptions of inconsistent rows, of changed migrations and, at depth [`HealthCheckDepth::Integrity`], of damaged
/// events, at most [`PROBLEMS_MAX`] for each check. Also returns the number of events without a checksum at that depth.
fn find_problems(connection: &postgres::Connection, depth: HealthCheckDepth) -> Result<(Vec<String>, u64)> {
    let heads = ThreadHeadCache::default();
    let tables = SqlConnection::Postgres(connection, &heads);
    let mut problems = Vec::new();
    for query in consistency::CONSISTENCY_QUERIES {
        let limited = format!("{query} LIMIT {PROBLEMS_MAX}");
        problems.extend(tables.prepare(&limited)?.query_map((), |row| row.get::<_, String>(0))?);
    }
    problems.extend(schema::migration_differences(connection)?);
    match depth {
        HealthCheckDepth::Counts | HealthCheckDepth::Tables => Ok((problems, 0)),
        HealthCheckDepth::Integrity => {
            let report = verification::verify_all(&tables)?;
            problems.extend(report.problems());
            Ok((problems, report.unchecked))
        }
    }
}
