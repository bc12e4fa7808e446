//! Runs: admission, changes, leases; lists are in `list`. Which step comes next is not known here.

pub(crate) mod claims;
pub(crate) mod feedback;
mod list;
pub(crate) mod replicas;
pub(crate) mod requests;

use crate::engines::sql::{Connection, Dialect, Row, ToValue};
use jiff::Timestamp;
use protocol::{Run, RunFailure, RunId, RunStatus, Scope, Seq, ThreadId, Usage};

use super::columns::{count, instant, integer, stored, stored_option};
use super::threads::{Head, PREFIX_IDS_MAX};
use super::{not_found, owners, threads};
use crate::{Error, Fence, Result, RunPatch};

pub(crate) use list::{active, list, queued, tokens};

/// Hex digits of a UUID.
const UUID_DIGITS: usize = 32;

const COLUMNS: &str = "r.run_id, h.thread_id, r.assistant_id, r.status, r.model, r.error, r.lease_owner,
    r.lease_until, r.input_tokens, r.output_tokens, r.cache_read_tokens, r.cache_write_tokens, r.created_at,
    r.updated_at";

/// Refuses unless the run is running and leased to the owner.
pub(crate) fn check_fence(db: &Connection, fence: &Fence) -> Result<()> {
    let standing = standing(db, fence.run_id)?;
    if standing.status == RunStatus::Running && standing.owner.as_deref() == Some(fence.owner.as_str()) {
        return Ok(());
    }
    Err(standing.fenced())
}

/// Stores a run that waits; the same one stored again changes nothing. It has no lease, but an owner: the process that is to
/// begin it.
pub(crate) fn queue(db: &Connection, run: &Run) -> Result<()> {
    let head = threads::head(db, run.thread_id)?;
    if run.status != RunStatus::Pending {
        let reason = format!("run {} is {}", run.run_id, run.status.as_str());
        return Err(Error::Invalid { what: "a run that waits", reason });
    }
    match find(db, run.run_id)? {
        None => insert(db, &head, &Run { lease_until: None, ..run.clone() }),
        Some(known) if known.thread_id == run.thread_id && known.created_at == run.created_at => Ok(()),
        Some(_) => Err(Error::Differs { what: "run", id: run.run_id.to_string() }),
    }
}

/// Admits a new run; the same run admitted again changes nothing.
pub(crate) fn admit(db: &Connection, run: &Run) -> Result<()> {
    let head = threads::head(db, run.thread_id)?;
    match find(db, run.run_id)? {
        None => {
            check_free(db, &head, run)?;
            insert(db, &head, run)
        }
        Some(known) if known.status == RunStatus::Pending => {
            Err(Error::Differs { what: "run", id: run.run_id.to_string() })
        }
        Some(known) => check_begun(run, &known),
    }
}

/// Begins a run that waits; the same run begun again changes nothing.
pub(crate) fn begin(db: &Connection, run: &Run) -> Result<()> {
    let head = threads::head(db, run.thread_id)?;
    let known = find(db, run.run_id)?.ok_or_else(|| not_found("run", &run.run_id))?;
    if known.status != RunStatus::Pending || known.thread_id != run.thread_id {
        return check_begun(run, &known);
    }
    check_claimed(db, run)?;
    check_free(db, &head, run)?;
    put_begun(db, &head, run)
}

/// Fails when the run waits for another process than the one that is to begin it here; anybody may end it.
fn check_claimed(db: &Connection, run: &Run) -> Result<()> {
    let standing = standing(db, run.run_id)?;
    let is_anothers = standing.owner.is_some() && standing.owner != run.lease_owner;
    if run.status.is_active() && is_anothers { Err(standing.fenced()) } else { Ok(()) }
}

/// Fails unless nothing runs in the thread, or the run ends here.
fn check_free(db: &Connection, head: &Head, run: &Run) -> Result<()> {
    match active_run_of(db, head.key)?.filter(|_| run.status.is_active()) {
        Some(run_id) => Err(Error::Busy { thread_id: run.thread_id, run_id }),
        None => Ok(()),
    }
}

/// Fails unless the run that is there is the same, begun by the same owner.
fn check_begun(run: &Run, known: &Run) -> Result<()> {
    if known.thread_id != run.thread_id {
        return Err(Error::Differs { what: "run", id: run.run_id.to_string() });
    }
    if known.status == RunStatus::Running && known.lease_owner == run.lease_owner {
        return Ok(());
    }
    let owner = known.lease_owner.clone().unwrap_or_default();
    Err(Error::Fenced { run_id: run.run_id, status: known.status, owner })
}

/// Stores that a run that waits begins, or ends without having begun: its events follow from here.
fn put_begun(db: &Connection, head: &Head, run: &Run) -> Result<()> {
    db.prepare(
        "UPDATE runs SET status = $2, model = $3, lease_owner = $4, lease_until = $5, updated_at = $6,
             first_seq = CAST($7 AS BIGINT) + 1, last_seq = $7, began = $8
         WHERE run_id = $1",
    )?
    .send((
        run.run_id.uuid().as_bytes(),
        run.status.as_str(),
        &run.model,
        &run.lease_owner,
        run.lease_until.map(instant),
        instant(run.updated_at),
        integer(head.last_seq),
        run.status.is_active(),
    ))
}

fn insert(db: &Connection, head: &Head, run: &Run) -> Result<()> {
    owners::check("a run", &run.assistant_id, &head.assistant_id)?;
    db
        .prepare(
            "INSERT INTO runs (run_id, thread_key, assistant_id, status, model, error, lease_owner, lease_until,
                 input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, created_at, updated_at,
                 first_seq, last_seq, began)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, CAST($15 AS BIGINT) + 1, $15,
                 CASE WHEN $4 = 'pending' THEN 0 ELSE 1 END)",
        )?
        .send((
            run.run_id.uuid().into_bytes(),
            head.key,
            run.assistant_id.as_str(),
            run.status.as_str(),
            &run.model,
            stored_text(run.failure.as_ref())?,
            &run.lease_owner,
            run.lease_until.map(instant),
            integer(run.usage.input_tokens),
            integer(run.usage.output_tokens),
            integer(run.usage.cache_read_tokens),
            integer(run.usage.cache_write_tokens),
            instant(run.created_at),
            instant(run.updated_at),
            integer(head.last_seq),
        ))
}

/// Removes a run that is not running, with all that hangs on it but its events.
pub(crate) fn forget(db: &Connection, run_id: RunId) -> Result<()> {
    let run = find(db, run_id)?.ok_or_else(|| not_found("run", &run_id))?;
    if run.status == RunStatus::Running {
        return Err(Error::Busy { thread_id: run.thread_id, run_id });
    }
    let key = threads::key(db, run.thread_id)?;
    // The run first: whoever gives it feedback meanwhile has it, and is waited for.
    db.prepare("DELETE FROM runs WHERE run_id = $1")?.send([run_id.uuid().as_bytes()])?;
    db.prepare("DELETE FROM run_feedback WHERE thread_key = $1 AND run_id = $2")?
        .send((key, run_id.uuid().as_bytes()))
}

/// Returns up to ten ids of a scope that begin with `prefix`.
pub(crate) fn by_prefix(db: &Connection, prefix: &str, scope: &Scope) -> Result<Vec<RunId>> {
    let digits: String = prefix.chars().filter(|char| *char != '-').collect();
    let bound = |filling: char| {
        let mut padded = digits.clone();
        padded.extend(std::iter::repeat_n(filling, UUID_DIGITS.saturating_sub(digits.len())));
        uuid::Uuid::parse_str(&padded).ok()
    };
    // What is no beginning of a UUID has no bounds.
    let (Some(first), Some(last)) = (bound('0'), bound('f')) else { return Ok(Vec::new()) };
    let mut statement = db.prepare(
        "SELECT r.run_id FROM runs r CROSS JOIN thread_heads h
         WHERE h.thread_key = r.thread_key AND r.run_id BETWEEN $1 AND $2 AND (CAST($4 AS TEXT) IS NULL OR h.owner = $4) ORDER BY r.run_id LIMIT $3",
    )?;
    let parameters =
        (first.as_bytes(), last.as_bytes(), integer(PREFIX_IDS_MAX as u64), owners::of(Some(scope)));
    statement.query_map(parameters, |row| stored::<RunId>(row, "run_id"))
}

/// Returns the run that was admitted last on the thread, or `None`; ids are in the order of time. One that never began is
/// none.
pub(crate) fn newest(db: &Connection, thread_id: ThreadId) -> Result<Option<RunId>> {
    db.prepare(
        "SELECT r.run_id FROM thread_heads h JOIN runs r ON r.thread_key = h.thread_key
         WHERE h.thread_id = $1 AND r.began = 1 ORDER BY r.run_id DESC LIMIT 1",
    )?
    .find([thread_id.to_string()], |row| stored(row, "run_id"))
}

/// Notes that the thread has an event of the run at `seq`. Events of a run that was not admitted here are nobody's.
pub(crate) fn reach(db: &Connection, run_id: RunId, key: i64, seq: Seq) -> Result<()> {
    db.prepare("UPDATE runs SET last_seq = $3 WHERE run_id = $1 AND thread_key = $2 AND last_seq < $3")?
        .send((run_id.uuid().as_bytes(), key, integer(seq)))
}

/// Returns the first and the last seq that an event of the run may have; `None` when it was not admitted on the thread.
pub(crate) fn span(db: &Connection, run_id: RunId, key: i64) -> Result<Option<(i64, i64)>> {
    db.prepare("SELECT first_seq, last_seq FROM runs WHERE run_id = $1 AND thread_key = $2")?
        .find((run_id.uuid().as_bytes(), key), |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Changes a run. The first terminal status stays, and only a running one has a lease to renew. One that waits stays as it
/// is.
pub(crate) fn update(db: &Connection, run_id: RunId, patch: &RunPatch) -> Result<()> {
    let standing = standing(db, run_id)?;
    let status = patch.status.filter(|status| *status != standing.status);
    let may_follow = match standing.status {
        RunStatus::Running => status != Some(RunStatus::Pending),
        RunStatus::Pending => false,
        RunStatus::Success
        | RunStatus::Error
        | RunStatus::Interrupted
        | RunStatus::Timeout
        | RunStatus::Cancelled => patch.lease_until.is_none() && status.is_none(),
    };
    if !may_follow {
        return Err(standing.fenced());
    }
    let usage = patch.add_usage.unwrap_or_default();
    let tokens = [usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens];
    let tokens = tokens.map(integer);
    let (id, at, lease_until) = (run_id.uuid(), patch.at.map(instant), patch.lease_until.map(instant));
    let failure = stored_text(patch.failure.as_ref())?;
    let mut parameters: Vec<&dyn ToValue> = vec![id.as_bytes(), &failure, &at];
    parameters.extend(tokens.iter().map(|tokens| tokens as &dyn ToValue));
    // Only where it changes: setting it writes the indexes of what runs and what waits. It changes to an end, which is
    // the lease's too.
    let standing = match status {
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
                 cache_read_tokens = cache_read_tokens + $6, cache_write_tokens = cache_write_tokens + $7, {standing}
             WHERE run_id = $1"
        ))?
        .execute(parameters.as_slice())?;
    Ok(())
}

/// Takes over a running run whose lease ended before `now`.
pub(crate) fn reclaim(db: &Connection, fence: &Fence, now: Timestamp, lease_until: Timestamp) -> Result<()> {
    let standing = standing(db, fence.run_id)?;
    let is_free = standing.lease_until.is_none_or(|end| end < now);
    if standing.status != RunStatus::Running || !is_free {
        return Err(standing.fenced());
    }
    db.prepare("UPDATE runs SET lease_owner = $2, lease_until = $3, updated_at = $4 WHERE run_id = $1")?
        .send((fence.run_id.uuid().as_bytes(), &fence.owner, instant(lease_until), instant(now)))
}

/// Who may write for a run.
struct Standing {
    run_id: RunId,
    status: RunStatus,
    owner: Option<String>,
    lease_until: Option<Timestamp>,
}

impl Standing {
    fn fenced(self) -> Error {
        Error::Fenced { run_id: self.run_id, status: self.status, owner: self.owner.unwrap_or_default() }
    }
}

fn standing(db: &Connection, run_id: RunId) -> Result<Standing> {
    let lock = match db.dialect() {
        Dialect::Sqlite => "",
        // Whoever claims runs takes no other hold of them than of their rows.
        Dialect::Postgres => " FOR UPDATE",
    };
    db.prepare(&format!("SELECT run_id, status, lease_owner, lease_until FROM runs WHERE run_id = $1{lock}"))?
        .find([run_id.uuid().as_bytes()], |row| {
            Ok(Standing {
                run_id: stored(row, "run_id")?,
                status: stored(row, "status")?,
                owner: row.get("lease_owner")?,
                lease_until: stored_option(row, "lease_until")?,
            })
        })?
        .ok_or_else(|| not_found("run", &run_id))
}

/// Returns the run, or `None`.
pub(crate) fn find(db: &Connection, run_id: RunId) -> Result<Option<Run>> {
    db.prepare(&format!(
        "SELECT {COLUMNS} FROM runs r JOIN thread_heads h ON h.thread_key = r.thread_key WHERE r.run_id = $1"
    ))?
    .find([run_id.uuid().as_bytes()], read)
}

/// Returns the running run of the thread with that key, or `None`.
pub(crate) fn active_run_of(db: &Connection, key: i64) -> Result<Option<RunId>> {
    db.prepare("SELECT run_id FROM runs WHERE thread_key = $1 AND status = 'running'")?
        .find([key], |row| stored(row, "run_id"))
}

fn stored_text(failure: Option<&RunFailure>) -> Result<Option<String>> {
    Ok(failure.map(RunFailure::stored_text).transpose()?)
}

fn read(row: &Row<'_>) -> Result<Run> {
    let status = stored(row, "status")?;
    let failure: Option<String> = row.get("error")?;
    Ok(Run {
        run_id: stored(row, "run_id")?,
        thread_id: stored(row, "thread_id")?,
        assistant_id: stored(row, "assistant_id")?,
        status,
        model: row.get("model")?,
        failure: RunFailure::from_stored_text(status, failure.as_deref()),
        lease_owner: row.get("lease_owner")?,
        lease_until: stored_option(row, "lease_until")?,
        usage: Usage {
            input_tokens: count(row, "input_tokens")?,
            output_tokens: count(row, "output_tokens")?,
            cache_read_tokens: count(row, "cache_read_tokens")?,
            cache_write_tokens: count(row, "cache_write_tokens")?,
        },
        created_at: stored(row, "created_at")?,
        updated_at: stored(row, "updated_at")?,
    })
}
