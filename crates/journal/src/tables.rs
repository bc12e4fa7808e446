//! The tables: for each kind of row, how it is written and how it is read. Nothing here opens, commits or waits.

pub(crate) mod artifacts;
pub(crate) mod checkpoints;
pub(crate) mod columns;
pub(crate) mod consistency;
pub(crate) mod events;
pub(crate) mod handoffs;
pub(crate) mod interrupts;
pub(crate) mod keyed;
pub(crate) mod memory;
pub(crate) mod runs;
pub(crate) mod search;
pub(crate) mod threads;

pub(crate) use runs::replicas;
pub(crate) use threads::owners;

use crate::{Error, PAGE_ROWS_MAX, Result};

/// Returns `limit` as SQLite takes it, when it is one that a page may have.
pub(crate) fn page_limit(what: &'static str, limit: usize) -> Result<i64> {
    if limit == 0 || limit > PAGE_ROWS_MAX {
        return Err(Error::Invalid {
            what,
            reason: format!("the limit must be 1 to {PAGE_ROWS_MAX}, not {limit}"),
        });
    }
    Ok(columns::integer(limit as u64))
}

/// Returns the failure of a write that names a row nobody stored.
pub(crate) fn not_found(what: &'static str, id: &impl ToString) -> Error {
    Error::not_found(what, id)
}

/// Returns an empty database.
#[cfg(test)]
fn database() -> rusqlite::Connection {
    crate::engines::sqlite::memory().unwrap()
}

/// Notes every statement that begins.
#[cfg(test)]
fn traced(db: &mut rusqlite::Connection) -> std::sync::Arc<std::sync::Mutex<Vec<String>>> {
    use rusqlite::trace::{TraceEvent, TraceEventCodes};
    let statements = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let noted = std::sync::Arc::clone(&statements);
    let note = move |event: TraceEvent<'_>| {
        if let TraceEvent::Stmt(_, sql) = event {
            noted.lock().unwrap().push(sql.to_owned());
        }
    };
    db.trace_v2(TraceEventCodes::SQLITE_TRACE_STMT, Some(note)).unwrap();
    statements
}

/// Returns how the engine finds the rows that a statement is about, step by step.
#[cfg(test)]
fn plan(sql: &str) -> Vec<String> {
    let db = database();
    let mut statement = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    // The parameters stay unbound: a plan does not depend on them.
    statement.raw_query().mapped(|row| row.get("detail")).collect::<rusqlite::Result<_>>().unwrap()
}
