//! Lists of runs: those that run, those that wait, and pages of all of them.

use crate::engines::sql::{Connection, Dialect, ToValue};
use protocol::{Run, RunStatus, ThreadId};

use super::{COLUMNS, read};
use crate::tables::columns::{integer, json, stored};
use crate::tables::{owners, page_limit, threads};
use crate::{Error, PAGE_ROWS_MAX, Result, RunFilter};

/// Returns the running runs, of one thread or of all, oldest first.
pub(crate) fn active(db: &Connection, thread_id: Option<ThreadId>) -> Result<Vec<Run>> {
    at_status(db, RunStatus::Running, thread_id)
}

/// Returns the runs that wait, of one thread or of all, oldest first.
pub(crate) fn queued(db: &Connection, thread_id: Option<ThreadId>) -> Result<Vec<Run>> {
    at_status(db, RunStatus::Pending, thread_id)
}

fn at_status(db: &Connection, status: RunStatus, thread_id: Option<ThreadId>) -> Result<Vec<Run>> {
    let mut statement = db.prepare(&at_status_sql(status, thread_id))?;
    let parameters: Vec<String> = thread_id.iter().map(ToString::to_string).collect();
    statement.query_map(&parameters[..], read)
}

/// The status is in it: the engine finds the rows through an index of their own only when it knows it.
fn at_status_sql(status: RunStatus, thread_id: Option<ThreadId>) -> String {
    let condition = if thread_id.is_some() { " AND h.thread_id = $1" } else { "" };
    format!(
        "SELECT {COLUMNS} FROM runs r JOIN thread_heads h ON h.thread_key = r.thread_key
         WHERE r.status = '{}'{condition} ORDER BY r.created_at, r.run_id",
        status.as_str()
    )
}

/// Returns the tokens of all runs of each of the threads.
pub(crate) fn tokens(db: &Connection, thread_ids: &[ThreadId]) -> Result<Vec<(ThreadId, u64)>> {
    if thread_ids.len() > PAGE_ROWS_MAX {
        let reason = format!("at most {PAGE_ROWS_MAX} are asked about at a time, not {}", thread_ids.len());
        return Err(Error::Invalid { what: "tokens of threads", reason });
    }
    let ids: Vec<String> = thread_ids.iter().map(ToString::to_string).collect();
    let mut statement = db.prepare(&format!(
        "SELECT t.thread_id AS thread_id, CAST(sum(r.input_tokens + r.output_tokens) AS BIGINT) AS tokens
         FROM threads t JOIN runs r ON r.thread_key = t.thread_key
         WHERE t.thread_id IN ({}) GROUP BY t.thread_id",
        db.dialect().texts_in_list("$1")
    ))?;
    statement.query_map([json(&ids)?], |row| {
        let tokens: i64 = row.get("tokens")?;
        Ok((stored(row, "thread_id")?, tokens.unsigned_abs()))
    })
}

/// Returns a page of runs, newest first.
pub(crate) fn list(db: &Connection, filter: &RunFilter) -> Result<Vec<Run>> {
    let (limit, offset) = (page_limit("runs", filter.limit)?, integer(filter.offset as u64));
    let owner = owners::of(filter.scope.as_ref());
    let key = match filter.thread_id {
        Some(thread_id) => match threads::key(db, thread_id)? {
            Some(key) => Some(key),
            None => return Ok(Vec::new()),
        },
        None => None,
    };
    let mut parameters: Vec<&dyn ToValue> = vec![&limit, &offset];
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
    statement.query_map(parameters.as_slice(), read)
}

fn page_sql(dialect: Dialect, conditions: &str, statuses: &[RunStatus]) -> String {
    let (of_status, order) = match statuses {
        [] => (String::new(), "r.run_id".to_owned()),
        // Of the many runs there were these are few: they are found by an index of their own, and sorted.
        [status @ (RunStatus::Running | RunStatus::Pending)] => {
            (format!(" AND r.status = '{}'", status.as_str()), dialect.unindexed("r.run_id"))
        }
        several => {
            let names = RunStatus::ALL.into_iter().filter(|status| several.contains(status));
            let names: Vec<_> = names.map(RunStatus::as_str).collect();
            (format!(" AND r.status IN ('{}')", names.join("', '")), "r.run_id".to_owned())
        }
    };
    format!(
        "SELECT {COLUMNS} FROM runs r CROSS JOIN thread_heads h
         WHERE h.thread_key = r.thread_key{conditions}{of_status} ORDER BY {order} DESC LIMIT $1 OFFSET $2"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::plan;

    #[test]
    fn what_runs_and_what_waits_is_found_by_an_index_of_its_own() {
        for (status, index) in [(RunStatus::Running, "runs_active"), (RunStatus::Pending, "runs_queued")] {
            for thread_id in [None, Some(ThreadId::generate())] {
                let plan = plan(&at_status_sql(status, thread_id));
                assert!(plan.iter().any(|step| step.contains(index)), "{plan:?}");
                assert!(
                    !plan.iter().any(|step| step.starts_with("SCAN") && !step.contains(index)),
                    "{plan:?}"
                );
            }
            let plan = plan(&page_sql(Dialect::Sqlite, " AND h.owner = $3", &[status]));
            assert!(plan.iter().any(|step| step.contains(index)), "{plan:?}");
        }
    }
}
