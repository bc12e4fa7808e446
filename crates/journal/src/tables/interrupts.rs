//! Rows of interrupts: raising, resolving and withdrawing them. The payload and the authorization of the answer are
//! not interpreted.

use crate::engines::sql::{SqlConnection, SqlRow};
use jiff::Timestamp;
use protocol::{Decisions, Interrupt, InterruptId, InterruptStatus, Seq, ThreadId};

use super::columns::{
    encode_counter, encode_json, encode_time, read_column, read_json_column, read_optional_column,
};
use super::{not_found, threads};
use crate::{Error, Result};

/// The columns that [`read_interrupt`] reads.
const COLUMNS: &str =
    "interrupt_id, thread_id, run_id, node, payload, status, decisions, created_at, resolved_at";

/// Inserts a pending interrupt. An existing interrupt with the same id is left unchanged.
pub(crate) fn raise(db: &SqlConnection, interrupt: &Interrupt) -> Result<()> {
    let raised_seq = threads::load_head(db, interrupt.thread_id)?.last_seq;
    db
        .prepare(
            "INSERT INTO interrupts (interrupt_id, thread_id, run_id, node, payload, status, raised_seq, created_at)
             VALUES ($1, $2, $3, $4, $5, 'pending', $6, $7) ON CONFLICT (interrupt_id) DO NOTHING",
        )?
        .execute_deferred((
            interrupt.interrupt_id.to_string(),
            interrupt.thread_id.to_string(),
            interrupt.run_id.to_string(),
            &interrupt.node,
            encode_json(&interrupt.payload)?,
            encode_counter(raised_seq),
            encode_time(interrupt.created_at),
        ))
}

/// Resolves a pending interrupt with decisions, or withdraws it if `decisions` is `None`.
///
/// # Errors
/// [`Error::AlreadyDecided`] if decisions are given and the interrupt is no longer pending.
pub(crate) fn resolve(
    db: &SqlConnection,
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
        .execute((
            interrupt_id.to_string(),
            status.as_str(),
            decisions.map(encode_json).transpose()?,
            encode_time(at),
        ))?;
    if changed == 1 {
        return Ok(());
    }
    match find(db, interrupt_id)? {
        // A withdrawal only requires that the interrupt is no longer pending.
        Some(_) if decisions.is_none() => Ok(()),
        Some(_) => Err(Error::AlreadyDecided { interrupt_id }),
        None => Err(not_found("interrupt", &interrupt_id)),
    }
}

/// Fails with [`Error::AlreadyDecided`] unless the interrupt is pending.
pub(crate) fn expect_pending(db: &SqlConnection, interrupt_id: InterruptId) -> Result<()> {
    match find(db, interrupt_id)?.map(|interrupt| interrupt.status) {
        Some(InterruptStatus::Pending) => Ok(()),
        Some(InterruptStatus::Resolved | InterruptStatus::Withdrawn) => {
            Err(Error::AlreadyDecided { interrupt_id })
        }
        None => Err(not_found("interrupt", &interrupt_id)),
    }
}

/// Withdraws the pending interrupts of a thread that were raised after `keep_seq`.
pub(crate) fn withdraw_after(
    db: &SqlConnection,
    thread_id: ThreadId,
    keep_seq: Seq,
    at: Timestamp,
) -> Result<()> {
    db.prepare(
        "UPDATE interrupts SET status = 'withdrawn', resolved_at = $3
         WHERE thread_id = $1 AND raised_seq > $2 AND status = 'pending'",
    )?
    .execute_deferred((thread_id.to_string(), encode_counter(keep_seq), encode_time(at)))
}

/// Returns the interrupt with this id, or `None`.
pub(crate) fn find(db: &SqlConnection, interrupt_id: InterruptId) -> Result<Option<Interrupt>> {
    db.prepare(&format!("SELECT {COLUMNS} FROM interrupts WHERE interrupt_id = $1"))?
        .query_optional([interrupt_id.to_string()], read_interrupt)
}

/// Returns the pending interrupts of a thread, oldest first.
pub(crate) fn pending_interrupts(db: &SqlConnection, thread_id: ThreadId) -> Result<Vec<Interrupt>> {
    let mut statement = db.prepare(&format!(
        "SELECT {COLUMNS} FROM interrupts WHERE thread_id = $1 AND status = 'pending'
         ORDER BY created_at, rowid"
    ))?;
    statement.query_map([thread_id.to_string()], read_interrupt)
}

/// Returns the interrupt of a thread that was answered or withdrawn last, or `None`. Of those that were decided at the
/// same time, it is the newest.
pub(crate) fn last_decided_interrupt(db: &SqlConnection, thread_id: ThreadId) -> Result<Option<Interrupt>> {
    db.prepare(&format!(
        "SELECT {COLUMNS} FROM interrupts WHERE thread_id = $1 AND status <> 'pending'
         ORDER BY resolved_at DESC, raised_seq DESC, rowid DESC LIMIT 1"
    ))?
    .query_optional([thread_id.to_string()], read_interrupt)
}

/// Reads an interrupt from a row with [`COLUMNS`].
fn read_interrupt(row: &SqlRow<'_>) -> Result<Interrupt> {
    let decisions: Option<super::columns::JsonColumn<Decisions>> = row.get("decisions")?;
    Ok(Interrupt {
        interrupt_id: read_column(row, "interrupt_id")?,
        thread_id: read_column(row, "thread_id")?,
        run_id: read_column(row, "run_id")?,
        node: row.get("node")?,
        payload: read_json_column(row, "payload")?,
        status: read_column(row, "status")?,
        decisions: decisions.map(|super::columns::JsonColumn(decisions)| decisions),
        created_at: read_column(row, "created_at")?,
        resolved_at: read_optional_column(row, "resolved_at")?,
    })
}
