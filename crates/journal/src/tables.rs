//! The tables: reading and writing each kind of row. Nothing here opens a database, commits or waits.

pub(crate) mod artifacts;
pub(crate) mod checkpoints;
pub(crate) mod columns;
pub(crate) mod consistency;
pub(crate) mod events;
pub(crate) mod handoffs;
pub(crate) mod interrupts;
pub(crate) mod keyed_rows;
pub(crate) mod memory;
pub(crate) mod runs;
pub(crate) mod search;
pub(crate) mod threads;

pub(crate) use runs::replicas;
pub(crate) use threads::owners;

use crate::{Error, PAGE_ROWS_MAX, Result};

/// Checks the row limit of a page and returns it in the type of an SQL parameter. `what` names the rows in the error.
///
/// # Errors
/// [`Error::InvalidRequest`] if the limit is zero or greater than [`PAGE_ROWS_MAX`].
pub(crate) fn check_page_limit(what: &'static str, limit: usize) -> Result<i64> {
    if limit == 0 || limit > PAGE_ROWS_MAX {
        return Err(Error::InvalidRequest {
            what,
            reason: format!("the limit must be 1 to {PAGE_ROWS_MAX}, not {limit}"),
        });
    }
    Ok(columns::encode_counter(limit as u64))
}

/// Returns the error for a missing row.
pub(crate) fn not_found(what: &'static str, id: &impl ToString) -> Error {
    Error::not_found(what, id)
}

/// Returns an empty database in memory.
#[cfg(test)]
fn test_database() -> rusqlite::Connection {
    crate::engines::sqlite::open_in_memory().unwrap()
}

/// Records the text of every statement that is executed.
#[cfg(test)]
fn trace_statements(db: &mut rusqlite::Connection) -> std::sync::Arc<std::sync::Mutex<Vec<String>>> {
    use rusqlite::trace::{TraceEvent, TraceEventCodes};
    let statements = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let recorded = std::sync::Arc::clone(&statements);
    let record = move |event: TraceEvent<'_>| {
        if let TraceEvent::Stmt(_, sql) = event {
            recorded.lock().unwrap().push(sql.to_owned());
        }
    };
    db.trace_v2(TraceEventCodes::SQLITE_TRACE_STMT, Some(record)).unwrap();
    statements
}

/// Returns the steps of SQLite's query plan for a statement.
#[cfg(test)]
fn query_plan(sql: &str) -> Vec<String> {
    let db = test_database();
    let mut statement = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    // The parameters stay unbound, because the plan does not depend on their values.
    statement.raw_query().mapped(|row| row.get("detail")).collect::<rusqlite::Result<_>>().unwrap()
}

/// Counts the steps of SQLite's virtual machine in the statements that are executed from now on. A row that is read
/// costs several steps, so an equal count at every length of a thread shows that nothing reads the whole thread.
#[cfg(test)]
pub(crate) fn count_machine_steps(
    db: &mut rusqlite::Connection,
) -> std::sync::Arc<std::sync::atomic::AtomicU64> {
    use std::sync::atomic::{AtomicU64, Ordering};

    use rusqlite::StatementStatus;
    use rusqlite::trace::{TraceEvent, TraceEventCodes};
    let steps = std::sync::Arc::new(AtomicU64::new(0));
    let counted = std::sync::Arc::clone(&steps);
    // The counter of a prepared statement grows with each execution. A statement that is prepared again starts at zero.
    let mut totals = std::collections::HashMap::new();
    let count = move |event: TraceEvent<'_>| {
        if let TraceEvent::Profile(statement, _) = event {
            let total = statement.get_status(StatementStatus::VmStep).unsigned_abs();
            let before = totals.insert(statement.sql().into_owned(), total).filter(|before| *before <= total);
            counted.fetch_add((total - before.unwrap_or(0)).into(), Ordering::Relaxed);
        }
    };
    db.trace_v2(TraceEventCodes::SQLITE_TRACE_PROFILE, Some(count)).unwrap();
    steps
}
