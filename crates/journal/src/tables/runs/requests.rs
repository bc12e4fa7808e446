//! Run requests: the requests of clients as they were received, and the metadata of each, which is stored separately
//! so that lists can read it alone. The content is not interpreted.

use crate::engines::sql::{SqlConnection, SqlRow};
use protocol::{RunId, RunRequest, ThreadId};
use serde_json::{Map, Value};

use crate::tables::columns::{JsonColumn, encode_json, read_json_column};
use crate::tables::threads::{self, PendingRequest, RowQueue};
use crate::{Error, PAGE_ROWS_MAX, Result};

/// Stores the request of a run, or replaces it. Storing the same request again writes nothing.
///
/// # Errors
/// [`Error::UnknownRun`] if the run does not belong to the thread.
pub(crate) fn put(
    db: &SqlConnection,
    run_id: RunId,
    thread_id: ThreadId,
    request: &RunRequest,
) -> Result<()> {
    let metadata = (!request.metadata.is_empty()).then(|| encode_json(&request.metadata)).transpose()?;
    let queued = db.heads().and_then(|heads| heads.get(thread_id)).zip(RowQueue::of(db));
    if let Some((head, queue)) = queued {
        let row = PendingRequest { metadata: metadata.clone(), request: encode_json(request)? };
        if queue.put_request(run_id.uuid().into_bytes(), head.key, row) {
            return Ok(());
        }
    }
    let belongs_to_thread = match threads::thread_key(db, thread_id)? {
        Some(key) => db
            .prepare("SELECT 1 FROM runs WHERE run_id = $1 AND thread_key = $2")?
            .exists((run_id.uuid().as_bytes(), key))?,
        None => false,
    };
    if !belongs_to_thread {
        return Err(Error::UnknownRun { thread_id, run_id });
    }
    db.prepare(
        "INSERT INTO run_requests (run_id, metadata, request) VALUES ($1, $2, $3)
         ON CONFLICT (run_id) DO UPDATE SET metadata = excluded.metadata, request = excluded.request
         WHERE run_requests.request <> excluded.request",
    )?
    .execute_deferred((run_id.uuid().as_bytes(), metadata, encode_json(request)?))
}

/// Returns the requests of the given runs, in the order of the runs. Runs without a request are left out.
pub(crate) fn list(db: &SqlConnection, run_ids: &[RunId]) -> Result<Vec<(RunId, RunRequest)>> {
    read_each(db, "request", run_ids, |row| read_json_column(row, "request"))
}

/// Returns the client metadata of the given runs, in the order of the runs. Runs without a request are left out.
pub(crate) fn list_metadata(
    db: &SqlConnection,
    run_ids: &[RunId],
) -> Result<Vec<(RunId, Map<String, Value>)>> {
    read_each(db, "metadata", run_ids, |row| {
        let metadata: Option<JsonColumn<_>> = row.get("metadata")?;
        Ok(metadata.map(|JsonColumn(metadata)| metadata).unwrap_or_default())
    })
}

/// Reads a column of the requests of the given runs.
///
/// # Errors
/// [`Error::InvalidRequest`] if more than [`PAGE_ROWS_MAX`] runs are given.
fn read_each<T>(
    db: &SqlConnection,
    column: &str,
    run_ids: &[RunId],
    read: impl Fn(&SqlRow<'_>) -> Result<T>,
) -> Result<Vec<(RunId, T)>> {
    if run_ids.len() > PAGE_ROWS_MAX {
        let reason = format!("at most {PAGE_ROWS_MAX} runs can be read at once, not {}", run_ids.len());
        return Err(Error::InvalidRequest { what: "run requests", reason });
    }
    let sql = format!("SELECT {column} FROM run_requests WHERE run_id = $1");
    let mut statement = db.prepare(&sql)?;
    let mut values = Vec::with_capacity(run_ids.len());
    for run_id in run_ids {
        let value = statement.query_optional([run_id.uuid().as_bytes()], |row| read(row))?;
        values.extend(value.map(|value| (*run_id, value)));
    }
    Ok(values)
}
