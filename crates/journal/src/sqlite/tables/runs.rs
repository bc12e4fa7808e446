//! Runs: admission, changes, leases. Which step comes next is not known here.

use jiff::Timestamp;
use protocol::{Run, RunId, RunStatus, Seq, ThreadId, Usage};
use rusqlite::{Connection, OptionalExtension, Row};

use super::columns::{count, instant, integer, stored, stored_option};
use super::threads::PREFIX_IDS_MAX;
use super::{not_found, threads};
use crate::{Error, Fence, Result, RunPatch};

/// Hex digits of a UUID.
const UUID_DIGITS: usize = 32;

const COLUMNS: &str = "r.run_id, h.thread_id, r.assistant_id, r.status, r.model, r.error, r.lease_owner,
    r.lease_until, r.input_tokens, r.output_tokens, r.cache_read_tokens, r.cache_write_tokens, r.created_at,
    r.updated_at";

/// Refuses unless the run is active and leased to the owner.
pub(crate) fn check_fence(connection: &Connection, fence: &Fence) -> Result<()> {
    let standing = standing(connection, fence.run_id)?;
    if standing.status.is_active() && standing.owner.as_deref() == Some(fence.owner.as_str()) {
        return Ok(());
    }
    Err(standing.fenced())
}

/// Admits a run; the same run admitted again changes nothing.
pub(crate) fn admit(connection: &Connection, run: &Run) -> Result<()> {
    let head = threads::head(connection, run.thread_id)?;
    if let Some(known) = find(connection, run.run_id)? {
        let is_repetition = known.thread_id == run.thread_id && known.lease_owner == run.lease_owner;
        return match is_repetition {
            true => Ok(()),
            false => Err(Error::Differs { what: "run", id: run.run_id.to_string() }),
        };
    }
    if let Some(run_id) = active_run_of(connection, head.key)?.filter(|_| run.status.is_active()) {
        return Err(Error::Busy { thread_id: run.thread_id, run_id });
    }
    connection
        .prepare_cached(
            "INSERT INTO runs (run_id, thread_key, assistant_id, status, model, error, lease_owner, lease_until,
                 input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, created_at, updated_at,
                 first_seq, last_seq)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15 + 1, ?15)",
        )?
        .execute((
            run.run_id.uuid().into_bytes(),
            head.key,
            run.assistant_id.as_str(),
            run.status.as_str(),
            &run.model,
            &run.error,
            &run.lease_owner,
            run.lease_until.map(instant),
            integer(run.usage.input_tokens),
            integer(run.usage.output_tokens),
            integer(run.usage.cache_read_tokens),
            integer(run.usage.cache_write_tokens),
            instant(run.created_at),
            instant(run.updated_at),
            integer(head.last_seq),
        ))?;
    Ok(())
}

/// Returns up to ten ids that begin with `prefix`.
pub(crate) fn by_prefix(connection: &Connection, prefix: &str) -> Result<Vec<RunId>> {
    let digits: String = prefix.chars().filter(|char| *char != '-').collect();
    let bound = |filling: char| {
        let mut padded = digits.clone();
        padded.extend(std::iter::repeat_n(filling, UUID_DIGITS.saturating_sub(digits.len())));
        uuid::Uuid::parse_str(&padded).ok()
    };
    // What is no beginning of a UUID has no bounds.
    let (Some(first), Some(last)) = (bound('0'), bound('f')) else { return Ok(Vec::new()) };
    let mut statement = connection
        .prepare_cached("SELECT run_id FROM runs WHERE run_id BETWEEN ?1 AND ?2 ORDER BY run_id LIMIT ?3")?;
    let limit = integer(PREFIX_IDS_MAX as u64);
    let ids = statement
        .query_map((first.as_bytes(), last.as_bytes(), limit), |row| stored::<RunId>(row, "run_id"))?;
    Ok(ids.collect::<rusqlite::Result<_>>()?)
}

/// Returns the run that was admitted last on the thread, or `None`; ids are in the order of time.
pub(crate) fn newest(connection: &Connection, thread_id: ThreadId) -> Result<Option<RunId>> {
    Ok(connection
        .prepare_cached(
            "SELECT r.run_id FROM thread_heads h JOIN runs r ON r.thread_key = h.thread_key
             WHERE h.thread_id = ?1 ORDER BY r.run_id DESC LIMIT 1",
        )?
        .query_row([thread_id.to_string()], |row| stored(row, "run_id"))
        .optional()?)
}

/// Notes that the thread has an event of the run at `seq`. Events of a run that was not admitted here are nobody's.
pub(crate) fn reach(connection: &Connection, (run_id, key): (RunId, i64), seq: Seq) -> Result<()> {
    connection
        .prepare_cached(
            "UPDATE runs SET last_seq = ?3 WHERE run_id = ?1 AND thread_key = ?2 AND last_seq < ?3",
        )?
        .execute((run_id.uuid().as_bytes(), key, integer(seq)))?;
    Ok(())
}

/// Returns the first and the last seq that an event of the run may have; `None` when it was not admitted on the thread.
pub(crate) fn span(connection: &Connection, (run_id, key): (RunId, i64)) -> Result<Option<(i64, i64)>> {
    Ok(connection
        .prepare_cached("SELECT first_seq, last_seq FROM runs WHERE run_id = ?1 AND thread_key = ?2")?
        .query_row((run_id.uuid().as_bytes(), key), |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?)
}

/// Changes a run. The first terminal status stays, and a run that ended has no lease to renew.
pub(crate) fn update(connection: &Connection, run_id: RunId, patch: &RunPatch) -> Result<()> {
    let standing = standing(connection, run_id)?;
    let status = patch.status.filter(|status| *status != standing.status);
    if !standing.status.is_active() && (patch.lease_until.is_some() || status.is_some()) {
        return Err(standing.fenced());
    }
    let usage = patch.add_usage.unwrap_or_default();
    connection
        .prepare_cached(
            "UPDATE runs SET error = ifnull(?2, error), lease_until = ifnull(?3, lease_until),
                 input_tokens = input_tokens + ?4, output_tokens = output_tokens + ?5,
                 cache_read_tokens = cache_read_tokens + ?6, cache_write_tokens = cache_write_tokens + ?7,
                 updated_at = ifnull(?8, updated_at)
             WHERE run_id = ?1",
        )?
        .execute((
            run_id.uuid().as_bytes(),
            &patch.error,
            patch.lease_until.map(instant),
            integer(usage.input_tokens),
            integer(usage.output_tokens),
            integer(usage.cache_read_tokens),
            integer(usage.cache_write_tokens),
            patch.at.map(instant),
        ))?;
    status.map_or(Ok(()), |status| set_status(connection, run_id, status))
}

/// Only where it changes: setting it writes the index of active runs. A terminal status ends the lease.
fn set_status(connection: &Connection, run_id: RunId, status: RunStatus) -> Result<()> {
    connection
        .prepare_cached(
            "UPDATE runs SET status = ?2, lease_owner = iif(?3, lease_owner, NULL),
                 lease_until = iif(?3, lease_until, NULL)
             WHERE run_id = ?1",
        )?
        .execute((run_id.uuid().as_bytes(), status.as_str(), status.is_active()))?;
    Ok(())
}

/// Takes over an active run whose lease ended before `now`.
pub(crate) fn reclaim(
    connection: &Connection,
    fence: &Fence,
    now: Timestamp,
    lease_until: Timestamp,
) -> Result<()> {
    let standing = standing(connection, fence.run_id)?;
    let is_free = standing.lease_until.is_none_or(|end| end < now);
    if !standing.status.is_active() || !is_free {
        return Err(standing.fenced());
    }
    connection
        .prepare_cached(
            "UPDATE runs SET lease_owner = ?2, lease_until = ?3, updated_at = ?4 WHERE run_id = ?1",
        )?
        .execute((fence.run_id.uuid().as_bytes(), &fence.owner, instant(lease_until), instant(now)))?;
    Ok(())
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

fn standing(connection: &Connection, run_id: RunId) -> Result<Standing> {
    connection
        .prepare_cached("SELECT run_id, status, lease_owner, lease_until FROM runs WHERE run_id = ?1")?
        .query_row([run_id.uuid().as_bytes()], |row| {
            Ok(Standing {
                run_id: stored(row, "run_id")?,
                status: stored(row, "status")?,
                owner: row.get("lease_owner")?,
                lease_until: stored_option(row, "lease_until")?,
            })
        })
        .optional()?
        .ok_or_else(|| not_found("run", &run_id))
}

/// Returns the run, or `None`.
pub(crate) fn find(connection: &Connection, run_id: RunId) -> Result<Option<Run>> {
    Ok(connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM runs r JOIN thread_heads h ON h.thread_key = r.thread_key WHERE r.run_id = ?1"
        ))?
        .query_row([run_id.uuid().as_bytes()], read)
        .optional()?)
}

/// Returns the active run of the thread with that key, or `None`.
pub(crate) fn active_run_of(connection: &Connection, key: i64) -> Result<Option<RunId>> {
    Ok(connection
        .prepare_cached("SELECT run_id FROM runs WHERE thread_key = ?1 AND status IN ('pending', 'running')")?
        .query_row([key], |row| stored(row, "run_id"))
        .optional()?)
}

/// Returns the active runs, of one thread or of all, oldest first.
pub(crate) fn active(connection: &Connection, thread_id: Option<ThreadId>) -> Result<Vec<Run>> {
    let condition = if thread_id.is_some() { " AND h.thread_id = ?1" } else { "" };
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM runs r JOIN thread_heads h ON h.thread_key = r.thread_key
         WHERE r.status IN ('pending', 'running'){condition} ORDER BY r.created_at, r.run_id"
    ))?;
    let parameters = rusqlite::params_from_iter(thread_id.map(|id| id.to_string()));
    let runs = statement.query_map(parameters, read)?;
    Ok(runs.collect::<rusqlite::Result<_>>()?)
}

fn read(row: &Row<'_>) -> rusqlite::Result<Run> {
    Ok(Run {
        run_id: stored(row, "run_id")?,
        thread_id: stored(row, "thread_id")?,
        assistant_id: stored(row, "assistant_id")?,
        status: stored(row, "status")?,
        model: row.get("model")?,
        error: row.get("error")?,
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
