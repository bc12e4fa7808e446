//! How a database is: counts, and rows that contradict each other. It repairs nothing.

use super::faults::Place;
use super::schema;
use crate::engines::sql::Connection;
use crate::tables::consistency::{self, PROBLEMS_MAX};
use crate::tables::threads::Heads;
use crate::{Health, HealthDepth, Result};

/// Returns counts and, if asked, what is wrong, however long it takes to read everything.
pub(super) fn check(connection: &postgres::Connection, place: &Place, depth: HealthDepth) -> Result<Health> {
    match depth {
        HealthDepth::Counts => look(connection, place, depth),
        HealthDepth::Integrity => connection.patiently(|| look(connection, place, depth)),
    }
}

fn look(connection: &postgres::Connection, place: &Place, depth: HealthDepth) -> Result<Health> {
    let heads = Heads::default();
    let tables = Connection::Postgres(connection, &heads);
    let (threads, events) = consistency::counts(&tables)?;
    let bytes: i64 =
        tables.prepare("SELECT pg_database_size(current_database())")?.query_row((), |row| row.get(0))?;
    Ok(Health {
        location: place.0.clone(),
        schema_version: schema::version(connection, &place.0)?,
        threads,
        events,
        bytes: bytes.unsigned_abs(),
        problems: match depth {
            HealthDepth::Counts => Vec::new(),
            HealthDepth::Integrity => problems(connection)?,
        },
    })
}

fn problems(connection: &postgres::Connection) -> Result<Vec<String>> {
    let heads = Heads::default();
    let tables = Connection::Postgres(connection, &heads);
    let mut problems = Vec::new();
    for query in consistency::CONTRADICTIONS {
        let limited = format!("{query} LIMIT {PROBLEMS_MAX}");
        problems.extend(tables.prepare(&limited)?.query_map((), |row| row.get::<_, String>(0))?);
    }
    problems.extend(schema::differences(connection)?);
    Ok(problems)
}
