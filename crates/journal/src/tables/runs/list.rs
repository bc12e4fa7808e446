//! Lists of runs: running runs, queued runs, and pages of all runs.

use crate::engines::sql::{SqlConnection, SqlDialect, ToSqlValue};
use protocol::{Run, RunStatus, ThreadId};

use super::{COLUMNS, read_run};
use crate::tables::columns::{encode_counter, encode_json, read_column};
use crate::tables::{check_page_limit, owners, threads};
use crate::{Error, PAGE_ROWS_MAX, Result, RunFilter};

/// Returns the running runs of one thread or of all threads, oldest first.
pub(crate) fn list_active(db: &SqlConnection, thread_id: Option<ThreadId>) -> Result<Vec<Run>> {
    list_by_status(db, RunStatus::Running, thread_id)
}

/// Returns the queued runs of one thread or of all threads, oldest first.
pub(crate) fn list_queued(db: &SqlConnection, thread_id: Option<ThreadId>) -> Result<Vec<Run>> {
    list_by_status(db, RunStatus::Pending, thread_id)
}

/// Returns the runs with a status, of one thread or of all threads, oldest first.
fn list_by_status(db: &SqlConnection, status: RunStatus, thread_id: Option<ThreadId>) -> Result<Vec<Run>> {
    let mut statement = db.prepare(&by_status_sql(status, thread_id))?;
    let parameters: Vec<String> = thread_id.iter().map(ToString::to_string).collect();
    statement.query_map(&parameters[..], read_run)
}

/// Returns the statement for the runs with a status. The status is a literal, because SQLite uses the partial index
/// for the status only if it can see it.
fn by_status_sql(status: RunStatus, thread_id: Option<ThreadId>) -> String {
    let condition = if thread_id.is_some() { " AND h.thread_id = $1" } else { "" };
    format!(
        "SELECT {COLUMNS} FROM runs r JOIN thread_heads h ON h.thread_key = r.thread_key
         WHERE r.status = '{}'{condition} ORDER BY r.created_at, r.run_id",
        status.as_str()
    )
}

/// Returns the number of tokens of all runs of each thread. Threads without runs are left out.
///
/// # Errors
/// [`Error::InvalidRequest`] if more than [`PAGE_ROWS_MAX`] threads are given.
pub(crate) fn thread_tokens(db: &SqlConnection, thread_ids: &[ThreadId]) -> Result<Vec<(ThreadId, u64)>> {
    if thread_ids.len() > PAGE_ROWS_MAX {
        let reason = format!("at most {PAGE_ROWS_MAX} threads can be read at once, not {}", thread_ids.len());
        return Err(Error::InvalidRequest { what: "tokens of threads", reason });
    }
    let ids: Vec<String> = thread_ids.iter().map(ToString::to_string).collect();
    let mut statement = db.prepare(&format!(
        "SELECT t.thread_id AS thread_id, CAST(sum(r.input_tokens + r.output_tokens) AS BIGINT) AS tokens
         FROM threads t JOIN runs r ON r.thread_key = t.thread_key
         WHERE t.thread_id IN ({}) GROUP BY t.thread_id",
        db.dialect().json_texts_query("$1")
    ))?;
    statement.query_map([encode_json(&ids)?], |row| {
        let tokens: i64 = row.get("tokens")?;
        Ok((read_column(row, "thread_id")?, tokens.unsigned_abs()))
    })
}

/// Returns a page of runs, newest first.
///
/// # Errors
/// [`Error::InvalidRequest`] if the limit is zero or too large.
pub(crate) fn list(db: &SqlConnection, filter: &RunFilter) -> Result<Vec<Run>> {
    let (limit, offset) = (check_page_limit("runs", filter.limit)?, encode_counter(filter.offset as u64));
    let owner = owners::owner_column_value(filter.scope.as_ref());
    let key = match filter.thread_id {
        Some(thread_id) => match threads::thread_key(db, thread_id)? {
            Some(key) => Some(key),
            None => return Ok(Vec::new()),
        },
        None => None,
    };
    let mut parameters: Vec<&dyn ToSqlValue> = vec![&limit, &offset];
    let mut conditions = String::new();
    if let Some(key) = &key {
        parameters.push(key);
        conditions.push_str(&format!(" AND r.thread_key = ${}", parameters.len()));
    }
    if let Some(owner) = &owner {
        parameters.push(owner);
        conditions.push_str(&format!(" AND h.owner = ${}", parameters.len()));
    }
    let mut statement = db.prepare(&page_sql(db.dialect(), &conditions, &filter.statuses))?;
    statement.query_map(parameters.as_slice(), read_run)
}

/// Returns the statement for a page of runs. `conditions` are SQL conditions that begin with ` AND `.
fn page_sql(dialect: SqlDialect, conditions: &str, statuses: &[RunStatus]) -> String {
    let (status_condition, order) = match statuses {
        [] => (String::new(), "r.run_id".to_owned()),
        // Few runs have these statuses, so they are found through a partial index and then sorted.
        [status @ (RunStatus::Running | RunStatus::Pending)] => {
            (format!(" AND r.status = '{}'", status.as_str()), dialect.without_index("r.run_id"))
        }
        several => {
            let names = RunStatus::ALL.into_iter().filter(|status| several.contains(status));
            let names: Vec<_> = names.map(RunStatus::as_str).collect();
            (format!(" AND r.status IN ('{}')", names.join("', '")), "r.run_id".to_owned())
        }
    };
    format!(
        "SELECT {COLUMNS} FROM runs r CROSS JOIN thread_heads h
         WHERE h.thread_key = r.thread_key{conditions}{status_condition} ORDER BY {order} DESC LIMIT $1 OFFSET $2"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::query_plan;

    #[test]
    fn running_and_queued_runs_are_found_through_partial_indexes() {
        for (status, index) in [(RunStatus::Running, "runs_active"), (RunStatus::Pending, "runs_queued")] {
            for thread_id in [None, Some(ThreadId::generate())] {
                let plan = query_plan(&by_status_sql(status, thread_id));
                assert!(plan.iter().any(|step| step.contains(index)), "{plan:?}");
                assert!(
                    !plan.iter().any(|step| step.starts_with("SCAN") && !step.contains(index)),
                    "{plan:?}"
                );
            }
            let plan = query_plan(&page_sql(SqlDialect::Sqlite, " AND h.owner = $3", &[status]));
            assert!(plan.iter().any(|step| step.contains(index)), "{plan:?}");
        }
    }
}
