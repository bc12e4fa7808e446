//! Runs, and where they stopped: admission, leases, checkpoints, interrupts. Which step comes next is not known here.

use jiff::Timestamp;
use protocol::{
    Checkpoint, CheckpointId, Decisions, Interrupt, InterruptId, InterruptStatus, Run, RunId, ThreadId, Usage,
};
use rusqlite::{Connection, OptionalExtension, Row};

use super::columns::{count, integer, json, json_column, stored, stored_option, time};
use super::{not_found, threads};
use crate::{Error, Fence, Result, RunPatch};

const RUN_COLUMNS: &str = "run_id, thread_id, assistant_id, status, model, error, lease_owner, lease_until,
    input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, created_at, updated_at";

const CHECKPOINT_COLUMNS: &str =
    "checkpoint_id, thread_id, run_id, step, head_seq, next, channels, activities, created_at";

const INTERRUPT_COLUMNS: &str =
    "interrupt_id, thread_id, run_id, node, payload, status, decisions, created_at, resolved_at";

/// Refuses unless the run is active and leased to the owner.
pub(crate) fn check_fence(connection: &Connection, fence: &Fence) -> Result<()> {
    let run = existing(connection, fence.run_id)?;
    if run.status.is_active() && run.lease_owner.as_deref() == Some(fence.owner.as_str()) {
        return Ok(());
    }
    Err(fenced(run))
}

/// Admits a run; the same run admitted again changes nothing.
pub(crate) fn admit(connection: &Connection, run: &Run) -> Result<()> {
    threads::head(connection, run.thread_id)?;
    if let Some(known) = find(connection, run.run_id)? {
        let is_repetition = known.thread_id == run.thread_id && known.lease_owner == run.lease_owner;
        return match is_repetition {
            true => Ok(()),
            false => Err(Error::Differs { what: "run", id: run.run_id.to_string() }),
        };
    }
    if let Some(run_id) = active_run_of(connection, run.thread_id)?.filter(|_| run.status.is_active()) {
        return Err(Error::Busy { thread_id: run.thread_id, run_id });
    }
    connection
        .prepare_cached(&format!(
            "INSERT INTO runs ({RUN_COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)"
        ))?
        .execute((
            run.run_id.to_string(),
            run.thread_id.to_string(),
            run.assistant_id.as_str(),
            run.status.as_str(),
            &run.model,
            &run.error,
            &run.lease_owner,
            run.lease_until.map(time),
            integer(run.usage.input_tokens),
            integer(run.usage.output_tokens),
            integer(run.usage.cache_read_tokens),
            integer(run.usage.cache_write_tokens),
            time(run.created_at),
            time(run.updated_at),
        ))?;
    Ok(())
}

/// Changes a run. The first terminal status stays, and a run that ended has no lease to renew.
pub(crate) fn update(connection: &Connection, run_id: RunId, patch: &RunPatch) -> Result<()> {
    let run = existing(connection, run_id)?;
    let is_over = !run.status.is_active();
    if is_over && (patch.lease_until.is_some() || patch.status.is_some_and(|status| status != run.status)) {
        return Err(fenced(run));
    }
    let status = patch.status.unwrap_or(run.status);
    let usage = patch.add_usage.unwrap_or_default();
    connection
        .prepare_cached(
            "UPDATE runs SET status = ?2, error = ifnull(?3, error),
                 lease_owner = iif(?4, lease_owner, NULL), lease_until = iif(?4, ifnull(?5, lease_until), NULL),
                 input_tokens = input_tokens + ?6, output_tokens = output_tokens + ?7,
                 cache_read_tokens = cache_read_tokens + ?8, cache_write_tokens = cache_write_tokens + ?9,
                 updated_at = ifnull(?10, updated_at)
             WHERE run_id = ?1",
        )?
        .execute((
            run_id.to_string(),
            status.as_str(),
            &patch.error,
            status.is_active(),
            patch.lease_until.map(time),
            integer(usage.input_tokens),
            integer(usage.output_tokens),
            integer(usage.cache_read_tokens),
            integer(usage.cache_write_tokens),
            patch.at.map(time),
        ))?;
    Ok(())
}

/// Takes over an active run whose lease ended before `now`.
pub(crate) fn reclaim(
    connection: &Connection,
    fence: &Fence,
    now: Timestamp,
    lease_until: Timestamp,
) -> Result<()> {
    let run = existing(connection, fence.run_id)?;
    let is_free = run.lease_until.is_none_or(|end| end < now);
    if !run.status.is_active() || !is_free {
        return Err(fenced(run));
    }
    connection
        .prepare_cached(
            "UPDATE runs SET lease_owner = ?2, lease_until = ?3, updated_at = ?4 WHERE run_id = ?1",
        )?
        .execute((fence.run_id.to_string(), &fence.owner, time(lease_until), time(now)))?;
    Ok(())
}

fn existing(connection: &Connection, run_id: RunId) -> Result<Run> {
    find(connection, run_id)?.ok_or_else(|| not_found("run", &run_id))
}

fn fenced(run: Run) -> Error {
    Error::Fenced { run_id: run.run_id, status: run.status, owner: run.lease_owner.unwrap_or_default() }
}

/// Returns the run, or `None`.
pub(crate) fn find(connection: &Connection, run_id: RunId) -> Result<Option<Run>> {
    Ok(connection
        .prepare_cached(&format!("SELECT {RUN_COLUMNS} FROM runs WHERE run_id = ?1"))?
        .query_row([run_id.to_string()], read_run)
        .optional()?)
}

/// Returns the thread's active run, or `None`.
pub(crate) fn active_run_of(connection: &Connection, thread_id: ThreadId) -> Result<Option<RunId>> {
    Ok(connection
        .prepare_cached("SELECT run_id FROM runs WHERE thread_id = ?1 AND status IN ('pending', 'running')")?
        .query_row([thread_id.to_string()], |row| stored(row, "run_id"))
        .optional()?)
}

/// Returns the active runs, of one thread or of all, oldest first.
pub(crate) fn active(connection: &Connection, thread_id: Option<ThreadId>) -> Result<Vec<Run>> {
    let condition = if thread_id.is_some() { " AND thread_id = ?1" } else { "" };
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {RUN_COLUMNS} FROM runs WHERE status IN ('pending', 'running'){condition} ORDER BY created_at, run_id"
    ))?;
    let parameters = rusqlite::params_from_iter(thread_id.map(|id| id.to_string()));
    let runs = statement.query_map(parameters, read_run)?;
    Ok(runs.collect::<rusqlite::Result<_>>()?)
}

/// Fails unless the thread's newest checkpoint is the one that was read.
pub(crate) fn expect_checkpoint(
    connection: &Connection,
    thread_id: ThreadId,
    expected: Option<CheckpointId>,
) -> Result<()> {
    let found: Option<String> = connection
        .prepare_cached("SELECT checkpoint_id FROM checkpoints WHERE thread_id = ?1")?
        .query_row([thread_id.to_string()], |row| row.get(0))
        .optional()?;
    if found == expected.map(|id| id.to_string()) {
        return Ok(());
    }
    Err(Error::Differs { what: "checkpoint of thread", id: thread_id.to_string() })
}

/// Stores where the thread resumes, at its last seq.
pub(crate) fn put_checkpoint(connection: &Connection, point: &Checkpoint) -> Result<()> {
    let head_seq = integer(threads::head(connection, point.thread_id)?.last_seq);
    let (checkpoint_id, thread_id) = (point.checkpoint_id.to_string(), point.thread_id.to_string());
    let (run_id, created_at) = (point.run_id.to_string(), time(point.created_at));
    connection
        .prepare_cached(&format!(
            "INSERT OR REPLACE INTO checkpoints ({CHECKPOINT_COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"
        ))?
        .execute((
            &checkpoint_id,
            &thread_id,
            &run_id,
            integer(point.step),
            head_seq,
            &point.next,
            json(&point.channels)?,
            json(&point.activities)?,
            &created_at,
        ))?;
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO steps (thread_id, run_id, step, checkpoint_id, head_seq, next, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute((thread_id, run_id, integer(point.step), checkpoint_id, head_seq, &point.next, created_at))?;
    Ok(())
}

/// Returns the thread's newest checkpoint, or `None`.
pub(crate) fn checkpoint(connection: &Connection, thread_id: ThreadId) -> Result<Option<Checkpoint>> {
    Ok(connection
        .prepare_cached(&format!("SELECT {CHECKPOINT_COLUMNS} FROM checkpoints WHERE thread_id = ?1"))?
        .query_row([thread_id.to_string()], read_checkpoint)
        .optional()?)
}

/// Returns the newest checkpoints with activities to perform, oldest first.
pub(crate) fn unfinished_checkpoints(connection: &Connection) -> Result<Vec<Checkpoint>> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {CHECKPOINT_COLUMNS} FROM checkpoints WHERE activities <> '[]' ORDER BY created_at, thread_id"
    ))?;
    let points = statement.query_map([], read_checkpoint)?;
    Ok(points.collect::<rusqlite::Result<_>>()?)
}

/// Stores a pending interrupt; one with the same id stays as it is.
pub(crate) fn raise_interrupt(connection: &Connection, interrupt: &Interrupt) -> Result<()> {
    threads::head(connection, interrupt.thread_id)?;
    connection
        .prepare_cached(
            "INSERT INTO interrupts (interrupt_id, thread_id, run_id, node, payload, status, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, 'pending', ?6) ON CONFLICT (interrupt_id) DO NOTHING",
        )?
        .execute((
            interrupt.interrupt_id.to_string(),
            interrupt.thread_id.to_string(),
            interrupt.run_id.to_string(),
            &interrupt.node,
            json(&interrupt.payload)?,
            time(interrupt.created_at),
        ))?;
    Ok(())
}

/// Answers or withdraws a pending interrupt.
pub(crate) fn resolve_interrupt(
    connection: &Connection,
    interrupt_id: InterruptId,
    decisions: Option<&Decisions>,
    at: Timestamp,
) -> Result<()> {
    let status = if decisions.is_some() { InterruptStatus::Resolved } else { InterruptStatus::Withdrawn };
    let changed = connection
        .prepare_cached(
            "UPDATE interrupts SET status = ?2, decisions = ?3, resolved_at = ?4
             WHERE interrupt_id = ?1 AND status = 'pending'",
        )?
        .execute((interrupt_id.to_string(), status.as_str(), decisions.map(json).transpose()?, time(at)))?;
    if changed == 1 {
        return Ok(());
    }
    match interrupt(connection, interrupt_id)? {
        Some(_) => Err(Error::AlreadyDecided { interrupt_id }),
        None => Err(not_found("interrupt", &interrupt_id)),
    }
}

/// Returns the interrupt, or `None`.
pub(crate) fn interrupt(connection: &Connection, interrupt_id: InterruptId) -> Result<Option<Interrupt>> {
    Ok(connection
        .prepare_cached(&format!("SELECT {INTERRUPT_COLUMNS} FROM interrupts WHERE interrupt_id = ?1"))?
        .query_row([interrupt_id.to_string()], read_interrupt)
        .optional()?)
}

/// Returns the thread's pending interrupts, oldest first.
pub(crate) fn pending_interrupts(connection: &Connection, thread_id: ThreadId) -> Result<Vec<Interrupt>> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {INTERRUPT_COLUMNS} FROM interrupts WHERE thread_id = ?1 AND status = 'pending'
         ORDER BY created_at, rowid"
    ))?;
    let interrupts = statement.query_map([thread_id.to_string()], read_interrupt)?;
    Ok(interrupts.collect::<rusqlite::Result<_>>()?)
}

fn read_run(row: &Row<'_>) -> rusqlite::Result<Run> {
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

fn read_checkpoint(row: &Row<'_>) -> rusqlite::Result<Checkpoint> {
    Ok(Checkpoint {
        checkpoint_id: stored(row, "checkpoint_id")?,
        thread_id: stored(row, "thread_id")?,
        run_id: stored(row, "run_id")?,
        step: count(row, "step")?,
        head_seq: count(row, "head_seq")?,
        next: row.get("next")?,
        channels: json_column(row, "channels")?,
        activities: json_column(row, "activities")?,
        created_at: stored(row, "created_at")?,
    })
}

fn read_interrupt(row: &Row<'_>) -> rusqlite::Result<Interrupt> {
    let decisions: Option<super::columns::Json<Decisions>> = row.get("decisions")?;
    Ok(Interrupt {
        interrupt_id: stored(row, "interrupt_id")?,
        thread_id: stored(row, "thread_id")?,
        run_id: stored(row, "run_id")?,
        node: row.get("node")?,
        payload: json_column(row, "payload")?,
        status: stored(row, "status")?,
        decisions: decisions.map(|super::columns::Json(decisions)| decisions),
        created_at: stored(row, "created_at")?,
        resolved_at: stored_option(row, "resolved_at")?,
    })
}
