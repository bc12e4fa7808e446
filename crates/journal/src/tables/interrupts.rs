//! Interrupts: raised, answered, withdrawn. What is asked and who may answer is not known here.

use crate::engines::sql::{Connection, Row};
use jiff::Timestamp;
use protocol::{Decisions, Interrupt, InterruptId, InterruptStatus, Seq, ThreadId};

use super::columns::{integer, json, json_column, stored, stored_option, time};
use super::{not_found, threads};
use crate::{Error, Result};

const COLUMNS: &str =
    "interrupt_id, thread_id, run_id, node, payload, status, decisions, created_at, resolved_at";

/// Stores a pending interrupt; one with the same id stays as it is.
pub(crate) fn raise(db: &Connection, interrupt: &Interrupt) -> Result<()> {
    let raised_seq = threads::head(db, interrupt.thread_id)?.last_seq;
    db
        .prepare(
            "INSERT INTO interrupts (interrupt_id, thread_id, run_id, node, payload, status, raised_seq, created_at)
             VALUES ($1, $2, $3, $4, $5, 'pending', $6, $7) ON CONFLICT (interrupt_id) DO NOTHING",
        )?
        .send((
            interrupt.interrupt_id.to_string(),
            interrupt.thread_id.to_string(),
            interrupt.run_id.to_string(),
            &interrupt.node,
            json(&interrupt.payload)?,
            integer(raised_seq),
            time(interrupt.created_at),
        ))
}

/// Answers or withdraws a pending interrupt.
pub(crate) fn resolve(
    db: &Connection,
    interrupt_id: InterruptId,
    decisions: Option<&Decisions>,
    at: Timestamp,
) -> Result<()> {
    let status = if decisions.is_some() { InterruptStatus::Resolved } else { InterruptStatus::Withdrawn };
    let changed = db
        .prepare(
            "UPDATE interrupts SET status = $2, decisions = $3, resolved_at = $4
             WHERE interrupt_id = $1 AND status = 'pending'",
        )?
        .execute((interrupt_id.to_string(), status.as_str(), decisions.map(json).transpose()?, time(at)))?;
    if changed == 1 {
        return Ok(());
    }
    match find(db, interrupt_id)? {
        // Who takes a question back only wants that nobody waits for the answer.
        Some(_) if decisions.is_none() => Ok(()),
        Some(_) => Err(Error::AlreadyDecided { interrupt_id }),
        None => Err(not_found("interrupt", &interrupt_id)),
    }
}

/// Fails unless the interrupt is pending.
pub(crate) fn expect(db: &Connection, interrupt_id: InterruptId) -> Result<()> {
    match find(db, interrupt_id)?.map(|interrupt| interrupt.status) {
        Some(InterruptStatus::Pending) => Ok(()),
        Some(InterruptStatus::Resolved | InterruptStatus::Withdrawn) => {
            Err(Error::AlreadyDecided { interrupt_id })
        }
        None => Err(not_found("interrupt", &interrupt_id)),
    }
}

/// Withdraws the pending interrupts of the thread that were raised after `keep_seq`.
pub(crate) fn withdraw(db: &Connection, thread_id: ThreadId, keep_seq: Seq, at: Timestamp) -> Result<()> {
    db.prepare(
        "UPDATE interrupts SET status = 'withdrawn', resolved_at = $3
         WHERE thread_id = $1 AND raised_seq > $2 AND status = 'pending'",
    )?
    .send((thread_id.to_string(), integer(keep_seq), time(at)))
}

/// Returns the interrupt, or `None`.
pub(crate) fn find(db: &Connection, interrupt_id: InterruptId) -> Result<Option<Interrupt>> {
    db.prepare(&format!("SELECT {COLUMNS} FROM interrupts WHERE interrupt_id = $1"))?
        .find([interrupt_id.to_string()], read)
}

/// Returns the thread's pending interrupts, oldest first.
pub(crate) fn pending(db: &Connection, thread_id: ThreadId) -> Result<Vec<Interrupt>> {
    let mut statement = db.prepare(&format!(
        "SELECT {COLUMNS} FROM interrupts WHERE thread_id = $1 AND status = 'pending'
         ORDER BY created_at, rowid"
    ))?;
    statement.query_map([thread_id.to_string()], read)
}

fn read(row: &Row<'_>) -> Result<Interrupt> {
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
