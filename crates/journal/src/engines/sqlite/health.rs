//! Health check of a SQLite journal: counts, and problems that an integrity check finds. It repairs nothing.

use rusqlite::{Connection, ErrorCode};

use super::errors::DatabasePath;
use super::schema;
use crate::engines::sql;
use crate::tables::consistency::{self, PROBLEMS_MAX};
use crate::tables::events::verification;
use crate::{HealthCheckDepth, Result, StoreHealth};

/// Finds stored texts that should be JSON and are not.
const INVALID_JSON_QUERY: &str = "SELECT 'event row ' || event_row || ' is not JSON' FROM events
     WHERE NOT json_valid(content) OR (metadata IS NOT NULL AND NOT json_valid(metadata))";

/// Returns counts and, at the other depths than [`HealthCheckDepth::Counts`], the problems found. Finding them reads the
/// whole file.
pub(crate) fn check_health(
    connection: &Connection,
    path: &DatabasePath,
    depth: HealthCheckDepth,
) -> Result<StoreHealth> {
    let tables = sql::SqlConnection::Sqlite(connection);
    let (threads, events) = consistency::count_threads_and_events(&tables)?;
    let bytes: i64 = connection.query_row(
        "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
        [],
        |row| row.get(0),
    )?;
    let (problems, unchecked_events) = match depth {
        HealthCheckDepth::Counts => (Vec::new(), 0),
        HealthCheckDepth::Tables | HealthCheckDepth::Integrity => find_problems(connection, depth)?,
    };
    Ok(StoreHealth {
        location: path.0.display().to_string(),
        schema_version: schema::read_version(connection, path)?,
        threads,
        events,
        bytes: bytes.unsigned_abs(),
        problems,
        unchecked_events,
    })
}

/// Returns descriptions of damage, missing rows, inconsistent rows and changed migrations, at most [`PROBLEMS_MAX`]
/// for each check, and the number of events without a checksum. Events are compared with their checksums only at depth
/// [`HealthCheckDepth::Integrity`].
fn find_problems(connection: &Connection, depth: HealthCheckDepth) -> Result<(Vec<String>, u64)> {
    let mut problems = collect_texts(connection, &format!("PRAGMA integrity_check({PROBLEMS_MAX})"))?;
    problems.retain(|problem| problem != "ok");
    if !problems.is_empty() {
        // In a damaged file the checks of rows would only report consequences of the damage.
        return Ok((problems, 0));
    }
    let orphans = format!(
        "SELECT 'row ' || ifnull(rowid, '') || ' of ' || \"table\" || ' belongs to a missing row of ' || parent
         FROM pragma_foreign_key_check LIMIT {PROBLEMS_MAX}"
    );
    problems.extend(collect_texts(connection, &orphans)?);
    for query in consistency::CONSISTENCY_QUERIES.iter().chain([&INVALID_JSON_QUERY]) {
        problems.extend(collect_texts(connection, &format!("{query} LIMIT {PROBLEMS_MAX}"))?);
    }
    problems.extend(schema::migration_differences(connection)?);
    match depth {
        HealthCheckDepth::Counts | HealthCheckDepth::Tables => Ok((problems, 0)),
        HealthCheckDepth::Integrity => {
            let report = verification::verify_all(&sql::SqlConnection::Sqlite(connection))?;
            problems.extend(report.problems());
            Ok((problems, report.unchecked))
        }
    }
}

/// Returns the texts that a query selects. If damage of the file stops the query, the last text describes the damage.
fn collect_texts(connection: &Connection, sql: &str) -> Result<Vec<String>> {
    let mut statement = connection.prepare(sql)?;
    let mut texts = Vec::new();
    for text in statement.query_map([], |row| row.get(0))? {
        match text {
            Ok(text) => texts.push(text),
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => {
                texts.push(error.to_string());
                break;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(texts)
}
