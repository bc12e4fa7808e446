//! Rows of runs: queueing, admission, updates and leases; `list` has the lists. The order of steps is not known here.

pub(crate) mod claims;
pub(crate) mod feedback;
mod list;
pub(crate) mod replicas;
pub(crate) mod requests;

use crate::engines::sql::{SqlConnection, SqlDialect, SqlRow, ToSqlValue};
use jiff::Timestamp;
use protocol::{OwnerScope, Run, RunFailure, RunId, RunStatus, Seq, ThreadId, Usage};

use super::columns::{
    compact_timestamp, encode_counter, encode_time, read_column, read_counter, read_optional_column,
};
use super::threads::{PREFIX_IDS_MAX, PendingRun, PendingRunChange, RowQueue, ThreadHead};
use super::{not_found, owners, threads};
use crate::{Error, FencingToken, Result, RunPatch};

pub(crate) use list::{list, list_active, list_queued, thread_tokens};

/// Number of hex digits of a UUID.
const UUID_DIGITS: usize = 32;

/// The columns that [`read_run`] reads.
const COLUMNS: &str = "r.run_id, h.thread_id, r.assistant_id, r.status, r.model, r.error, r.lease_owner,
    r.lease_until, r.input_tokens, r.output_tokens, r.cache_read_tokens, r.cache_write_tokens, r.created_at,
    r.updated_at";

/// Fails with [`Error::Fenced`] unless the run is running and the owner of the fencing token holds its lease.
pub(crate) fn check_fence(db: &SqlConnection, fence: &FencingToken) -> Result<()> {
    if let Some(queue) = RowQueue::of(db) {
        return queue.expect_owner(fence.run_id.uuid().into_bytes(), &fence.owner);
    }
    let lease = run_lease(db, fence.run_id)?;
    if lease.status == RunStatus::Running && lease.owner.as_deref() == Some(fence.owner.as_str()) {
        return Ok(());
    }
    Err(lease.fenced_error())
}

/// Inserts a queued run. Inserting the same run again changes nothing. A queued run has no lease, but an owner: the
/// process that will start it.
///
/// # Errors
/// [`Error::Conflict`] if another run has the id.
pub(crate) fn queue_run(db: &SqlConnection, run: &Run) -> Result<()> {
    let head = threads::load_head(db, run.thread_id)?;
    if run.status != RunStatus::Pending {
        let reason = format!("run {} is {}", run.run_id, run.status.as_str());
        return Err(Error::InvalidRequest { what: "a queued run", reason });
    }
    match find(db, run.run_id)? {
        None => insert_run(db, &head, &Run { lease_until: None, ..run.clone() }),
        Some(stored) if stored.thread_id == run.thread_id && stored.created_at == run.created_at => Ok(()),
        Some(_) => Err(Error::Conflict { what: "run", id: run.run_id.to_string() }),
    }
}

/// Inserts a run that starts at once. Admitting the same run again changes nothing.
///
/// # Errors
/// [`Error::Busy`] if another run of the thread is active, [`Error::Conflict`] if the run is queued or belongs to
/// another thread, [`Error::Fenced`] if another process has started it or it has ended.
pub(crate) fn admit_run(db: &SqlConnection, run: &Run) -> Result<()> {
    let head = threads::load_head(db, run.thread_id)?;
    if let Some(queue) = RowQueue::of(db).filter(|_| run.status == RunStatus::Running) {
        owners::check_owner("a run", &run.assistant_id, &head.assistant_id)?;
        return queue.insert_run(pending_run(&head, run)?);
    }
    match find(db, run.run_id)? {
        None => {
            check_no_active_run(db, &head, run)?;
            insert_run(db, &head, run)
        }
        Some(stored) if stored.status == RunStatus::Pending => {
            Err(Error::Conflict { what: "run", id: run.run_id.to_string() })
        }
        Some(stored) => check_same_run(run, &stored),
    }
}

/// Starts a queued run. Starting the same run again changes nothing.
///
/// # Errors
/// [`Error::NotFound`] if the run does not exist, [`Error::Busy`] if another run of the thread is active,
/// [`Error::Fenced`] if the run is queued for another process or has ended.
pub(crate) fn begin_run(db: &SqlConnection, run: &Run) -> Result<()> {
    let head = threads::load_head(db, run.thread_id)?;
    let stored = find(db, run.run_id)?.ok_or_else(|| not_found("run", &run.run_id))?;
    if stored.status != RunStatus::Pending || stored.thread_id != run.thread_id {
        return check_same_run(run, &stored);
    }
    check_queue_owner(db, run)?;
    check_no_active_run(db, &head, run)?;
    start_queued_run(db, &head, run)
}

/// Fails with [`Error::Fenced`] if the run is queued for another process. Any process may end a queued run without
/// starting it.
fn check_queue_owner(db: &SqlConnection, run: &Run) -> Result<()> {
    let lease = run_lease(db, run.run_id)?;
    let has_other_owner = lease.owner.is_some() && lease.owner != run.lease_owner;
    if run.status.is_active() && has_other_owner { Err(lease.fenced_error()) } else { Ok(()) }
}

/// Fails with [`Error::Busy`] if another run of the thread is active, unless the run ends here.
fn check_no_active_run(db: &SqlConnection, head: &ThreadHead, run: &Run) -> Result<()> {
    match active_run_id(db, head.key)?.filter(|_| run.status.is_active()) {
        Some(run_id) => Err(Error::Busy { thread_id: run.thread_id, run_id }),
        None => Ok(()),
    }
}

/// Fails unless the stored run is the same run, started by the same owner.
fn check_same_run(run: &Run, stored: &Run) -> Result<()> {
    if stored.thread_id != run.thread_id {
        return Err(Error::Conflict { what: "run", id: run.run_id.to_string() });
    }
    if stored.status == RunStatus::Running && stored.lease_owner == run.lease_owner {
        return Ok(());
    }
    let owner = stored.lease_owner.clone().unwrap_or_default();
    Err(Error::Fenced { run_id: run.run_id, status: stored.status, owner })
}

/// Stores that a queued run starts, or ends without having started. Its events follow the thread's last seq.
fn start_queued_run(db: &SqlConnection, head: &ThreadHead, run: &Run) -> Result<()> {
    db.prepare(
        "UPDATE runs SET status = $2, model = $3, lease_owner = $4, lease_until = $5, updated_at = $6,
             first_seq = CAST($7 AS BIGINT) + 1, last_seq = $7, began = $8
         WHERE run_id = $1",
    )?
    .execute_deferred((
        run.run_id.uuid().as_bytes(),
        run.status.as_str(),
        &run.model,
        &run.lease_owner,
        run.lease_until.map(compact_timestamp),
        compact_timestamp(run.updated_at),
        encode_counter(head.last_seq),
        run.status.is_active(),
    ))
}

/// Inserts a run. Its events follow the thread's last seq.
fn insert_run(db: &SqlConnection, head: &ThreadHead, run: &Run) -> Result<()> {
    owners::check_owner("a run", &run.assistant_id, &head.assistant_id)?;
    db
        .prepare(
            "INSERT INTO runs (run_id, thread_key, assistant_id, status, model, error, lease_owner, lease_until,
                 input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, created_at, updated_at,
                 first_seq, last_seq, began)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, CAST($15 AS BIGINT) + 1, $15,
                 CASE WHEN $4 = 'pending' THEN 0 ELSE 1 END)",
        )?
        .execute_deferred((
            run.run_id.uuid().into_bytes(),
            head.key,
            run.assistant_id.as_str(),
            run.status.as_str(),
            &run.model,
            encode_failure(run.failure.as_ref())?,
            &run.lease_owner,
            run.lease_until.map(compact_timestamp),
            encode_counter(run.usage.input_tokens),
            encode_counter(run.usage.output_tokens),
            encode_counter(run.usage.cache_read_tokens),
            encode_counter(run.usage.cache_write_tokens),
            compact_timestamp(run.created_at),
            compact_timestamp(run.updated_at),
            encode_counter(head.last_seq),
        ))
}

/// Returns the row of a run that starts at once.
fn pending_run(head: &ThreadHead, run: &Run) -> Result<PendingRun> {
    Ok(PendingRun {
        run_id: run.run_id.uuid().into_bytes(),
        thread_key: head.key,
        assistant_id: run.assistant_id.as_str().to_owned(),
        status: run.status.as_str(),
        model: run.model.clone(),
        error: encode_failure(run.failure.as_ref())?,
        lease_owner: run.lease_owner.clone(),
        lease_until: run.lease_until.map(encode_time),
        tokens: usage_columns(run.usage),
        seq_before: encode_counter(head.last_seq),
        last_seq: encode_counter(head.last_seq),
        created_at: encode_time(run.created_at),
        updated_at: encode_time(run.updated_at),
    })
}

/// Returns the numbers of tokens in the order of their columns.
fn usage_columns(usage: Usage) -> [i64; 4] {
    [usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens]
        .map(encode_counter)
}

/// Deletes a run that is not running, with its request and its feedback. Its events stay.
///
/// # Errors
/// [`Error::Busy`] if the run is running.
pub(crate) fn delete_run(db: &SqlConnection, run_id: RunId) -> Result<()> {
    let run = find(db, run_id)?.ok_or_else(|| not_found("run", &run_id))?;
    if run.status == RunStatus::Running {
        return Err(Error::Busy { thread_id: run.thread_id, run_id });
    }
    let key = threads::thread_key(db, run.thread_id)?;
    // Delete the run first: a transaction that adds feedback meanwhile holds a lock on the run's row, so this
    // statement waits for it.
    db.prepare("DELETE FROM runs WHERE run_id = $1")?.execute_deferred([run_id.uuid().as_bytes()])?;
    db.prepare("DELETE FROM run_feedback WHERE thread_key = $1 AND run_id = $2")?
        .execute_deferred((key, run_id.uuid().as_bytes()))
}

/// Returns up to [`PREFIX_IDS_MAX`] ids of runs of a scope that begin with `prefix`. Hyphens in the prefix are
/// ignored.
pub(crate) fn ids_by_prefix(db: &SqlConnection, prefix: &str, scope: &OwnerScope) -> Result<Vec<RunId>> {
    let digits: String = prefix.chars().filter(|char| *char != '-').collect();
    let bound = |filler: char| {
        let mut padded = digits.clone();
        padded.extend(std::iter::repeat_n(filler, UUID_DIGITS.saturating_sub(digits.len())));
        uuid::Uuid::parse_str(&padded).ok()
    };
    // A prefix that no UUID begins with has no bounds.
    let (Some(first), Some(last)) = (bound('0'), bound('f')) else { return Ok(Vec::new()) };
    let mut statement = db.prepare(
        "SELECT r.run_id FROM runs r CROSS JOIN thread_heads h
         WHERE h.thread_key = r.thread_key AND r.run_id BETWEEN $1 AND $2 AND (CAST($4 AS TEXT) IS NULL OR h.owner = $4) ORDER BY r.run_id LIMIT $3",
    )?;
    let parameters = (
        first.as_bytes(),
        last.as_bytes(),
        encode_counter(PREFIX_IDS_MAX as u64),
        owners::owner_column_value(Some(scope)),
    );
    statement.query_map(parameters, |row| read_column::<RunId>(row, "run_id"))
}

/// Returns the newest run of a thread that was started, or `None`. Ids of runs are UUIDv7, so their order is the
/// order of creation.
pub(crate) fn newest_run_id(db: &SqlConnection, thread_id: ThreadId) -> Result<Option<RunId>> {
    db.prepare(
        "SELECT r.run_id FROM thread_heads h JOIN runs r ON r.thread_key = h.thread_key
         WHERE h.thread_id = $1 AND r.began = 1 ORDER BY r.run_id DESC LIMIT 1",
    )?
    .query_optional([thread_id.to_string()], |row| read_column(row, "run_id"))
}

/// Records that the thread has an event of the run at `seq`. Nothing is recorded if the run was not admitted on this
/// thread.
pub(crate) fn record_event_seq(db: &SqlConnection, run_id: RunId, key: i64, seq: Seq) -> Result<()> {
    if let Some(queue) = RowQueue::of(db) {
        return queue.record_event(run_id.uuid().into_bytes(), key, encode_counter(seq));
    }
    db.prepare("UPDATE runs SET last_seq = $3 WHERE run_id = $1 AND thread_key = $2 AND last_seq < $3")?
        .execute_deferred((run_id.uuid().as_bytes(), key, encode_counter(seq)))
}

/// Returns the first and the last seq that events of the run can have, or `None` if the run does not belong to the
/// thread.
pub(crate) fn seq_span(db: &SqlConnection, run_id: RunId, key: i64) -> Result<Option<(i64, i64)>> {
    db.prepare("SELECT first_seq, last_seq FROM runs WHERE run_id = $1 AND thread_key = $2")?
        .query_optional((run_id.uuid().as_bytes(), key), |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Updates a run. Its first terminal status is final, and only a running run has a lease to renew. A queued run
/// cannot be updated.
///
/// # Errors
/// [`Error::Fenced`] if the status does not allow the change.
pub(crate) fn update_run(db: &SqlConnection, run_id: RunId, patch: &RunPatch) -> Result<()> {
    // The queued statement changes only a run that is active. A patch without status and lease may also be of a run that has
    // ended, as that of a cancelled run that never began.
    let needs_active_run = patch.status.is_some_and(|status| status != RunStatus::Pending)
        || patch.status.is_none() && patch.lease_until.is_some();
    if let Some(queue) = RowQueue::of(db).filter(|_| needs_active_run) {
        let status = patch.status.filter(|status| *status != RunStatus::Running);
        let change = PendingRunChange {
            status: status.map(RunStatus::as_str),
            error: encode_failure(patch.failure.as_ref())?,
            lease_until: patch.lease_until.map(encode_time),
            updated_at: patch.at.map(encode_time),
            tokens: usage_columns(patch.add_usage.unwrap_or_default()),
            ..PendingRunChange::default()
        };
        return queue.change_run(run_id.uuid().into_bytes(), &change);
    }
    let lease = run_lease(db, run_id)?;
    let status = patch.status.filter(|status| *status != lease.status);
    let is_allowed = match lease.status {
        RunStatus::Running => status != Some(RunStatus::Pending),
        RunStatus::Pending => false,
        RunStatus::Success
        | RunStatus::Error
        | RunStatus::Interrupted
        | RunStatus::Timeout
        | RunStatus::Cancelled => patch.lease_until.is_none() && status.is_none(),
    };
    if !is_allowed {
        return Err(lease.fenced_error());
    }
    let tokens = usage_columns(patch.add_usage.unwrap_or_default());
    let (id, at, lease_until) =
        (run_id.uuid(), patch.at.map(compact_timestamp), patch.lease_until.map(compact_timestamp));
    let failure = encode_failure(patch.failure.as_ref())?;
    let mut parameters: Vec<&dyn ToSqlValue> = vec![id.as_bytes(), &failure, &at];
    parameters.extend(tokens.iter().map(|tokens| tokens as &dyn ToSqlValue));
    // Set the status only if it changes, because that updates the indexes of running and queued runs. A changed
    // status is terminal, so it ends the lease too.
    let state_assignments = match status {
        Some(status) => format!("status = '{}', lease_owner = NULL, lease_until = NULL", status.as_str()),
        None => {
            parameters.push(&lease_until);
            "lease_until = coalesce($8, lease_until)".to_owned()
        }
    };
    db
        .prepare(&format!(
            "UPDATE runs SET error = coalesce($2, error), updated_at = coalesce($3, updated_at),
                 input_tokens = input_tokens + $4, output_tokens = output_tokens + $5,
                 cache_read_tokens = cache_read_tokens + $6, cache_write_tokens = cache_write_tokens + $7, {state_assignments}
             WHERE run_id = $1"
        ))?
        .execute(parameters.as_slice())?;
    Ok(())
}

/// Takes over a running run whose lease expired before `now`.
///
/// # Errors
/// [`Error::Fenced`] if the run is not running or its lease has not expired.
pub(crate) fn reclaim_run(
    db: &SqlConnection,
    fence: &FencingToken,
    now: Timestamp,
    lease_until: Timestamp,
) -> Result<()> {
    let lease = run_lease(db, fence.run_id)?;
    let is_expired = lease.lease_until.is_none_or(|end| end < now);
    if lease.status != RunStatus::Running || !is_expired {
        return Err(lease.fenced_error());
    }
    db.prepare("UPDATE runs SET lease_owner = $2, lease_until = $3, updated_at = $4 WHERE run_id = $1")?
        .execute_deferred((
            fence.run_id.uuid().as_bytes(),
            &fence.owner,
            compact_timestamp(lease_until),
            compact_timestamp(now),
        ))
}

/// The lease of a run: the process that may write for it.
struct RunLease {
    /// The run.
    run_id: RunId,
    /// Its status.
    status: RunStatus,
    /// The process that holds the lease, or for which the run is queued.
    owner: Option<String>,
    /// The end of the lease; `None` if the run is queued.
    lease_until: Option<Timestamp>,
}

impl RunLease {
    /// Returns the error for a caller that does not hold this lease.
    fn fenced_error(self) -> Error {
        Error::Fenced { run_id: self.run_id, status: self.status, owner: self.owner.unwrap_or_default() }
    }
}

/// Reads the lease of a run. On PostgreSQL it locks the row until the end of the transaction.
fn run_lease(db: &SqlConnection, run_id: RunId) -> Result<RunLease> {
    let lock = match db.dialect() {
        SqlDialect::Sqlite => "",
        // A transaction that claims runs holds no lock on them other than the row lock.
        SqlDialect::Postgres => " FOR UPDATE",
    };
    db.prepare(&format!("SELECT run_id, status, lease_owner, lease_until FROM runs WHERE run_id = $1{lock}"))?
        .query_optional([run_id.uuid().as_bytes()], |row| {
            Ok(RunLease {
                run_id: read_column(row, "run_id")?,
                status: read_column(row, "status")?,
                owner: row.get("lease_owner")?,
                lease_until: read_optional_column(row, "lease_until")?,
            })
        })?
        .ok_or_else(|| not_found("run", &run_id))
}

/// Returns the run with this id, or `None`.
pub(crate) fn find(db: &SqlConnection, run_id: RunId) -> Result<Option<Run>> {
    db.prepare(&format!(
        "SELECT {COLUMNS} FROM runs r JOIN thread_heads h ON h.thread_key = r.thread_key WHERE r.run_id = $1"
    ))?
    .query_optional([run_id.uuid().as_bytes()], read_run)
}

/// Returns the running run of a thread, or `None`.
pub(crate) fn active_run_id(db: &SqlConnection, key: i64) -> Result<Option<RunId>> {
    db.prepare("SELECT run_id FROM runs WHERE thread_key = $1 AND status = 'running'")?
        .query_optional([key], |row| read_column(row, "run_id"))
}

/// Serializes a failure for storage.
fn encode_failure(failure: Option<&RunFailure>) -> Result<Option<String>> {
    Ok(failure.map(RunFailure::stored_text).transpose()?)
}

/// Reads a run from a row with [`COLUMNS`].
fn read_run(row: &SqlRow<'_>) -> Result<Run> {
    let status = read_column(row, "status")?;
    let failure: Option<String> = row.get("error")?;
    Ok(Run {
        run_id: read_column(row, "run_id")?,
        thread_id: read_column(row, "thread_id")?,
        assistant_id: read_column(row, "assistant_id")?,
        status,
        model: row.get("model")?,
        failure: RunFailure::from_stored_text(status, failure.as_deref()),
        lease_owner: row.get("lease_owner")?,
        lease_until: read_optional_column(row, "lease_until")?,
        usage: Usage {
            input_tokens: read_counter(row, "input_tokens")?,
            output_tokens: read_counter(row, "output_tokens")?,
            cache_read_tokens: read_counter(row, "cache_read_tokens")?,
            cache_write_tokens: read_counter(row, "cache_write_tokens")?,
        },
        created_at: read_column(row, "created_at")?,
        updated_at: read_column(row, "updated_at")?,
    })
}
