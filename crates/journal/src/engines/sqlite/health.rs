//! How a database is: counts, and what a check of everything finds wrong. It repairs nothing.

use rusqlite::{Connection, ErrorCode};

use super::faults::Place;
use super::schema;
use crate::engines::sql;
use crate::tables::consistency::{self, PROBLEMS_MAX};
use crate::{Health, HealthDepth, Result};

/// Stored JSON that is none.
const NOT_JSON: &str = "SELECT 'event row ' || event_row || ' is not JSON' FROM events
     WHERE NOT json_valid(content) OR (metadata IS NOT NULL AND NOT json_valid(metadata))";

/// Returns counts and, if asked, what is wrong.
pub(crate) fn check(connection: &Connection, place: &Place, depth: HealthDepth) -> Result<Health> {
    let tables = sql::Connection::Sqlite(connection);
    let (threads, events) = consistency::counts(&tables)?;
    let bytes: i64 = connection.query_row(
        "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
        [],
        |row| row.get(0),
    )?;
    Ok(Health {
        location: place.0.display().to_string(),
        schema_version: schema::version(connection, place)?,
        threads,
        events,
        bytes: bytes.unsigned_abs(),
        problems: match depth {
            HealthDepth::Counts => Vec::new(),
            HealthDepth::Integrity => problems(connection)?,
        },
    })
}

fn problems(connection: &Connection) -> Result<Vec<String>> {
    let mut problems = texts(connection, &format!("PRAGMA integrity_check({PROBLEMS_MAX})"))?;
    problems.retain(|problem| problem != "ok");
    if !problems.is_empty() {
        // What is told about rows of a damaged file would be noise.
        return Ok(problems);
    }
    let orphans = format!(
        "SELECT 'row ' || ifnull(rowid, '') || ' of ' || \"table\" || ' belongs to a missing row of ' || parent
         FROM pragma_foreign_key_check LIMIT {PROBLEMS_MAX}"
    );
    problems.extend(texts(connection, &orphans)?);
    for query in consistency::CONTRADICTIONS.iter().chain([&NOT_JSON]) {
        problems.extend(texts(connection, &format!("{query} LIMIT {PROBLEMS_MAX}"))?);
    }
    problems.extend(schema::differences(connection)?);
    Ok(problems)
}

/// Returns the texts a query finds; damage that stops it is the last of them.
fn texts(connection: &Connection, sql: &str) -> Result<Vec<String>> {
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
