//! Restoration of a thread's previous checkpoint when its newest run is undone. Superseding the events of the run is
//! done elsewhere.

use crate::engines::sql::SqlConnection;
use protocol::{Checkpoint, RunId, ThreadId};

use super::{find_point, source_name};
use crate::tables::columns::{compact_timestamp, encode_counter, encode_json, encode_time};
use crate::tables::{runs, threads};
use crate::{CheckpointRef, Error, Result, SupersededVisibility};

/// Saves the checkpoint of a thread, including its private channels, before the checkpoint of an admission replaces
/// it.
pub(super) fn save_previous(db: &SqlConnection, key: i64, admission: &Checkpoint) -> Result<()> {
    db
        .prepare(
            "INSERT INTO checkpoints_left (thread_key, run_id, checkpoint_id, private, left_at)
             SELECT thread_key, $2, checkpoint_id, private, $3 FROM checkpoints
             WHERE thread_key = $1 AND run_id <> $2
             ON CONFLICT (thread_key) DO UPDATE SET run_id = excluded.run_id,
                 checkpoint_id = excluded.checkpoint_id, private = excluded.private, left_at = excluded.left_at",
        )?
        .execute_deferred((key, admission.run_id.uuid().as_bytes(), encode_time(admission.created_at)))
}

/// Restores the newest visible checkpoint that does not belong to the run, and deletes the steps of the run.
///
/// # Errors
/// [`Error::Busy`] if a run of the thread is active.
pub(crate) fn restore_checkpoint(db: &SqlConnection, thread_id: ThreadId, run_id: RunId) -> Result<()> {
    let head = threads::load_head(db, thread_id)?;
    if let Some(run_id) = runs::active_run_id(db, head.key)? {
        return Err(Error::Busy { thread_id, run_id });
    }
    let deleted = db
        .prepare("DELETE FROM steps WHERE thread_key = $1 AND run_id = $2")?
        .execute((head.key, run_id.uuid().as_bytes()))?;
    // The run ended before its first step, so the checkpoint was not changed.
    if deleted == 0 {
        return Ok(());
    }
    let newest = CheckpointRef::Seq(head.last_seq);
    let Some((point, channels)) = find_point(db, thread_id, newest, SupersededVisibility::Hidden)? else {
        // A checkpoint with activities stays, because its decided activities must still be performed.
        db.prepare("DELETE FROM checkpoints WHERE thread_key = $1 AND activities = '[]'")?
            .execute_deferred([head.key])?;
        return Ok(());
    };
    let saved: Option<(String, String)> = db
        .prepare(
            "DELETE FROM checkpoints_left WHERE thread_key = $1 AND run_id = $2 AND checkpoint_id = $3
             RETURNING private, left_at",
        )?
        .query_optional(
            (head.key, run_id.uuid().as_bytes(), point.checkpoint_id.uuid().as_bytes()),
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
    if let Some((_, left_at)) = &saved {
        reopen_interrupts(
            db,
            &head.thread_id,
            point.next.as_deref(),
            encode_counter(point.head_seq),
            left_at,
        )?;
    }
    db
        .prepare(
            "UPDATE checkpoints SET checkpoint_id = $2, run_id = $3, step = $4, head_seq = $5, next = $6, channels = $7,
                 private = $8, created_at = $9, source = $10, number = $11
             WHERE thread_key = $1",
        )?
        .execute_deferred((
            head.key,
            point.checkpoint_id.uuid().as_bytes(),
            point.run_id.uuid().as_bytes(),
            encode_counter(point.step),
            encode_counter(point.head_seq),
            &point.next,
            encode_json(&channels)?,
            saved.map_or_else(|| "{}".to_owned(), |(private, _)| private),
            compact_timestamp(point.created_at),
            source_name(point.source),
            point.number,
        ))
}

/// Makes the interrupts pending again that were pending at the restored checkpoint and were resolved or withdrawn
/// since, and those of sub-agents that were withdrawn with them.
fn reopen_interrupts(
    db: &SqlConnection,
    thread_id: &str,
    node: Option<&str>,
    head_seq: i64,
    left_at: &str,
) -> Result<()> {
    let assignments = "status = 'pending', decisions = NULL, resolved_at = NULL";
    db.prepare(&format!(
        "UPDATE interrupts SET {assignments}
         WHERE thread_id = $1 AND node = $2 AND raised_seq <= $3 AND resolved_at >= $4"
    ))?
    .execute((thread_id, node, head_seq, left_at))?;
    db.prepare(&format!(
        "UPDATE interrupts SET {assignments}
         WHERE resolved_at = $2 AND status = 'withdrawn' AND thread_id IN (
             SELECT t.thread_id FROM threads t WHERE t.parent_id = $1 AND t.parent_kind = 'subagent')"
    ))?
    .execute((thread_id, left_at))?;
    Ok(())
}
