//! Where a thread stood when its newest run began, and its way back there when that run is taken back. What the run said is
//! taken out of sight elsewhere.

use crate::engines::sql::Connection;
use protocol::{Checkpoint, RunId, ThreadId};

use super::{at, source_name};
use crate::tables::columns::{instant, integer, json, time};
use crate::tables::{runs, threads};
use crate::{CheckpointRef, Error, Result, Superseded};

/// Remembers where the thread stands before `admission` takes its place.
pub(super) fn keep(db: &Connection, key: i64, admission: &Checkpoint) -> Result<()> {
    db
        .prepare(
            "INSERT INTO checkpoints_left (thread_key, run_id, checkpoint_id, private, left_at)
             SELECT thread_key, $2, checkpoint_id, private, $3 FROM checkpoints
             WHERE thread_key = $1 AND run_id <> $2
             ON CONFLICT (thread_key) DO UPDATE SET run_id = excluded.run_id,
                 checkpoint_id = excluded.checkpoint_id, private = excluded.private, left_at = excluded.left_at",
        )?
        .send((key, admission.run_id.uuid().as_bytes(), time(admission.created_at)))
}

/// Puts the thread back to the newest point in sight that is not the run's.
pub(crate) fn restore(db: &Connection, thread_id: ThreadId, run_id: RunId) -> Result<()> {
    let head = threads::head(db, thread_id)?;
    if let Some(run_id) = runs::active_run_of(db, head.key)? {
        return Err(Error::Busy { thread_id, run_id });
    }
    let taken = db
        .prepare("DELETE FROM steps WHERE thread_key = $1 AND run_id = $2")?
        .execute((head.key, run_id.uuid().as_bytes()))?;
    // A run that ended at once moved nothing.
    if taken == 0 {
        return Ok(());
    }
    let newest = CheckpointRef::Seq(head.last_seq);
    let Some((point, channels)) = at(db, thread_id, newest, Superseded::Hidden)? else {
        // What is decided and not yet done stays to be done.
        db.prepare("DELETE FROM checkpoints WHERE thread_key = $1 AND activities = '[]'")?
            .send([head.key])?;
        return Ok(());
    };
    let left: Option<(String, String)> = db
        .prepare(
            "DELETE FROM checkpoints_left WHERE thread_key = $1 AND run_id = $2 AND checkpoint_id = $3
             RETURNING private, left_at",
        )?
        .find((head.key, run_id.uuid().as_bytes(), point.checkpoint_id.uuid().as_bytes()), |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    if let Some((_, left_at)) = &left {
        ask_again(db, &head.thread_id, point.next.as_deref(), integer(point.head_seq), left_at)?;
    }
    db
        .prepare(
            "UPDATE checkpoints SET checkpoint_id = $2, run_id = $3, step = $4, head_seq = $5, next = $6, channels = $7,
                 private = $8, created_at = $9, source = $10, number = $11
             WHERE thread_key = $1",
        )?
        .send((
            head.key,
            point.checkpoint_id.uuid().as_bytes(),
            point.run_id.uuid().as_bytes(),
            integer(point.step),
            integer(point.head_seq),
            &point.next,
            json(&channels)?,
            left.map_or_else(|| "{}".to_owned(), |(private, _)| private),
            instant(point.created_at),
            source_name(point.source),
            point.number,
        ))
}

/// Has the questions wait again that had been asked where the thread stood, and that were answered or withdrawn since, with
/// those of sub-agents that went with them.
fn ask_again(
    db: &Connection,
    thread_id: &str,
    node: Option<&str>,
    head_seq: i64,
    left_at: &str,
) -> Result<()> {
    let waits = "status = 'pending', decisions = NULL, resolved_at = NULL";
    db.prepare(&format!(
        "UPDATE interrupts SET {waits}
         WHERE thread_id = $1 AND node = $2 AND raised_seq <= $3 AND resolved_at >= $4"
    ))?
    .execute((thread_id, node, head_seq, left_at))?;
    db.prepare(&format!(
        "UPDATE interrupts SET {waits}
         WHERE resolved_at = $2 AND status = 'withdrawn' AND thread_id IN (
             SELECT t.thread_id FROM threads t WHERE t.parent_id = $1 AND t.parent_kind = 'subagent')"
    ))?
    .execute((thread_id, left_at))?;
    Ok(())
}
