//! What clients asked runs for, and what they noted of it, which is read alone where many are. It is kept as it came in; what
//! it means is not known here.

use crate::engines::sql::{Connection, Row};
use protocol::{RunId, RunRequest, ThreadId};
use serde_json::{Map, Value};

use crate::tables::columns::{Json, json, json_column};
use crate::tables::threads;
use crate::{Error, PAGE_ROWS_MAX, Result};

/// Keeps what a run was asked for; the same again writes nothing.
pub(crate) fn put(db: &Connection, run_id: RunId, thread_id: ThreadId, request: &RunRequest) -> Result<()> {
    let is_there = match threads::key(db, thread_id)? {
        Some(key) => db
            .prepare("SELECT 1 FROM runs WHERE run_id = $1 AND thread_key = $2")?
            .exists((run_id.uuid().as_bytes(), key))?,
        None => false,
    };
    if !is_there {
        return Err(Error::UnknownRun { thread_id, run_id });
    }
    let metadata = (!request.metadata.is_empty()).then(|| json(&request.metadata)).transpose()?;
    db.prepare(
        "INSERT INTO run_requests (run_id, metadata, request) VALUES ($1, $2, $3)
         ON CONFLICT (run_id) DO UPDATE SET metadata = excluded.metadata, request = excluded.request
         WHERE run_requests.request <> excluded.request",
    )?
    .send((run_id.uuid().as_bytes(), metadata, json(request)?))
}

/// Returns what is kept of the runs, in their order.
pub(crate) fn list(db: &Connection, run_ids: &[RunId]) -> Result<Vec<(RunId, RunRequest)>> {
    each(db, "request", run_ids, |row| json_column(row, "request"))
}

/// Returns what clients noted of those of the runs that they asked for, in their order.
pub(crate) fn notes(db: &Connection, run_ids: &[RunId]) -> Result<Vec<(RunId, Map<String, Value>)>> {
    each(db, "metadata", run_ids, |row| {
        let noted: Option<Json<_>> = row.get("metadata")?;
        Ok(noted.map(|Json(noted)| noted).unwrap_or_default())
    })
}

fn each<T>(
    db: &Connection,
    column: &str,
    run_ids: &[RunId],
    read: impl Fn(&Row<'_>) -> Result<T>,
) -> Result<Vec<(RunId, T)>> {
    if run_ids.len() > PAGE_ROWS_MAX {
        let reason = format!("at most {PAGE_ROWS_MAX} are asked about at a time, not {}", run_ids.len());
        return Err(Error::Invalid { what: "what runs were asked for", reason });
    }
    let sql = format!("SELECT {column} FROM run_requests WHERE run_id = $1");
    let mut statement = db.prepare(&sql)?;
    let mut found = Vec::with_capacity(run_ids.len());
    for run_id in run_ids {
        let kept = statement.find([run_id.uuid().as_bytes()], |row| read(row))?;
        found.extend(kept.map(|kept| (*run_id, kept)));
    }
    Ok(found)
}
