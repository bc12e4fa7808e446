//! Checkpoints: where each thread resumes, and the steps behind it as points one can go back to. What a step did is
//! in the events, not here.

use protocol::{Checkpoint, CheckpointId, StepPoint, ThreadId};
use rusqlite::{Connection, OptionalExtension, Row};
use serde_json::{Map, Value};

use super::columns::{count, instant, integer, json, json_column, stored};
use super::events::rewinds;
use super::threads::Head;
use super::{page_limit, threads};
use crate::{CheckpointRef, Error, Result};

const COLUMNS: &str =
    "c.checkpoint_id, h.thread_id, c.run_id, c.step, c.head_seq, c.next, c.channels, c.private,
    c.activities, c.created_at";

const POINT_COLUMNS: &str = "checkpoint_id, run_id, step, e.head_seq, next, created_at";

/// Fails unless the thread's newest checkpoint is the one that was read.
pub(crate) fn expect(
    connection: &Connection,
    thread_id: ThreadId,
    expected: Option<CheckpointId>,
) -> Result<()> {
    let found: Option<[u8; 16]> = connection
        .prepare_cached(
            "SELECT checkpoint_id FROM checkpoints
             WHERE thread_key = (SELECT thread_key FROM thread_heads WHERE thread_id = ?1)",
        )?
        .query_row([thread_id.to_string()], |row| row.get(0))
        .optional()?;
    if found == expected.map(|id| id.uuid().into_bytes()) {
        return Ok(());
    }
    Err(Error::Differs { what: "checkpoint of thread", id: thread_id.to_string() })
}

/// Stores where the thread resumes, at its last seq, and the step that leads there.
pub(crate) fn put(connection: &Connection, point: &Checkpoint) -> Result<()> {
    let head = threads::head(connection, point.thread_id)?;
    let (private, public): (Map<String, Value>, Map<String, Value>) =
        point.channels.clone().into_iter().partition(|(name, _)| name.starts_with('_'));
    let public = json(&public)?;
    put_step(connection, &head, (point, &public))?;
    connection
        .prepare_cached(
            "INSERT INTO checkpoints (thread_key, checkpoint_id, run_id, step, head_seq, next, channels, private,
                                      activities, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
             ON CONFLICT (thread_key) DO UPDATE SET checkpoint_id = excluded.checkpoint_id,
                 run_id = excluded.run_id, step = excluded.step, head_seq = excluded.head_seq,
                 next = excluded.next, channels = excluded.channels, private = excluded.private,
                 activities = excluded.activities, created_at = excluded.created_at",
        )?
        .execute((
            head.key,
            point.checkpoint_id.uuid().as_bytes(),
            point.run_id.uuid().as_bytes(),
            integer(point.step),
            integer(head.last_seq),
            &point.next,
            &public,
            json(&private)?,
            json(&point.activities)?,
            instant(point.created_at),
        ))?;
    Ok(())
}

/// Stores the step, with its public channels where they differ from those of the newest checkpoint. The same
/// checkpoint stored again takes the place of its step.
fn put_step(connection: &Connection, head: &Head, (point, public): (&Checkpoint, &str)) -> Result<()> {
    let id = point.checkpoint_id.uuid();
    let before: Option<(bool, bool)> = connection
        .prepare_cached("SELECT channels = ?2, checkpoint_id = ?3 FROM checkpoints WHERE thread_key = ?1")?
        .query_row((head.key, public, id.as_bytes()), |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let (mut is_as_before, is_again) = before.unwrap_or((public == "{}", false));
    if is_again {
        connection
            .prepare_cached("DELETE FROM steps WHERE thread_key = ?1 AND checkpoint_id = ?2")?
            .execute((head.key, id.as_bytes()))?;
        is_as_before = false;
    }
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO steps (thread_key, head_seq, checkpoint_id, run_id, step, created_at, next, channels)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute((
            head.key,
            integer(head.last_seq),
            id.as_bytes(),
            point.run_id.uuid().as_bytes(),
            integer(point.step),
            instant(point.created_at),
            &point.next,
            (!is_as_before).then_some(public),
        ))?;
    Ok(())
}

/// Returns the thread's newest checkpoint, or `None`.
pub(crate) fn newest(connection: &Connection, thread_id: ThreadId) -> Result<Option<Checkpoint>> {
    Ok(connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM thread_heads h JOIN checkpoints c ON c.thread_key = h.thread_key
             WHERE h.thread_id = ?1"
        ))?
        .query_row([thread_id.to_string()], read)
        .optional()?)
}

/// Returns the newest checkpoints with activities to perform, oldest first.
pub(crate) fn unfinished(connection: &Connection) -> Result<Vec<Checkpoint>> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM checkpoints c JOIN thread_heads h ON h.thread_key = c.thread_key
         WHERE c.activities <> '[]' ORDER BY c.created_at, h.thread_id"
    ))?;
    let points = statement.query_map([], read)?;
    Ok(points.collect::<rusqlite::Result<_>>()?)
}

/// Returns visible points, newest first: those before `before`, or of all.
pub(crate) fn list(
    connection: &Connection,
    thread_id: ThreadId,
    (before, limit): (Option<CheckpointId>, usize),
) -> Result<Vec<StepPoint>> {
    let limit = page_limit("checkpoints", limit)?;
    let Some(key) = threads::key(connection, thread_id)? else { return Ok(Vec::new()) };
    let place = match before {
        None => Some((i64::MAX, CheckpointId::from_uuid(uuid::Uuid::max()))),
        Some(id) => place(connection, key, id)?.map(|head_seq| (head_seq, id)),
    };
    let Some((head_seq, id)) = place else { return Ok(Vec::new()) };
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {POINT_COLUMNS} FROM steps e
         WHERE thread_key = ?1 AND (e.head_seq, checkpoint_id) < (?2, ?3) AND {}
         ORDER BY e.head_seq DESC, checkpoint_id DESC LIMIT ?4",
        rewinds::is_visible("e.head_seq")
    ))?;
    let points = statement.query_map((key, head_seq, id.uuid().as_bytes(), limit), read_point)?;
    Ok(points.collect::<rusqlite::Result<_>>()?)
}

/// Returns a visible point with the public channels of that time.
pub(crate) fn at(
    connection: &Connection,
    thread_id: ThreadId,
    point: CheckpointRef,
) -> Result<Option<(StepPoint, Map<String, Value>)>> {
    let Some(key) = threads::key(connection, thread_id)? else { return Ok(None) };
    let (head_seq, id) = match point {
        CheckpointRef::Seq(seq) => (integer(seq), CheckpointId::from_uuid(uuid::Uuid::max())),
        CheckpointRef::Id(id) => match place(connection, key, id)? {
            Some(head_seq) => (head_seq, id),
            None => return Ok(None),
        },
    };
    let found = connection
        .prepare_cached(&format!(
            "SELECT {POINT_COLUMNS} FROM steps e
             WHERE thread_key = ?1 AND (e.head_seq, checkpoint_id) <= (?2, ?3) AND {}
             ORDER BY e.head_seq DESC, checkpoint_id DESC LIMIT 1",
            rewinds::is_visible("e.head_seq")
        ))?
        .query_row((key, head_seq, id.uuid().as_bytes()), read_point)
        .optional()?;
    let is_other = |found: &StepPoint| matches!(point, CheckpointRef::Id(id) if found.checkpoint_id != id);
    let Some(found) = found.filter(|found| !is_other(found)) else { return Ok(None) };
    let channels = channels_at(connection, key, &found)?;
    Ok(Some((found, channels)))
}

/// Superseded steps count here: a step that stored nothing had the channels of whatever came before it.
fn channels_at(connection: &Connection, key: i64, point: &StepPoint) -> Result<Map<String, Value>> {
    let channels = connection
        .prepare_cached(
            "SELECT channels FROM steps
             WHERE thread_key = ?1 AND (head_seq, checkpoint_id) <= (?2, ?3) AND channels IS NOT NULL
             ORDER BY head_seq DESC, checkpoint_id DESC LIMIT 1",
        )?
        .query_row((key, integer(point.head_seq), point.checkpoint_id.uuid().as_bytes()), |row| {
            json_column(row, "channels")
        })
        .optional()?;
    Ok(channels.unwrap_or_default())
}

/// Returns the head seq of the step that wrote this checkpoint; the newest steps are looked at first.
fn place(connection: &Connection, key: i64, id: CheckpointId) -> Result<Option<i64>> {
    Ok(connection
        .prepare_cached(
            "SELECT head_seq FROM steps WHERE thread_key = ?1 AND checkpoint_id = ?2
             ORDER BY head_seq DESC LIMIT 1",
        )?
        .query_row((key, id.uuid().as_bytes()), |row| row.get(0))
        .optional()?)
}

fn read(row: &Row<'_>) -> rusqlite::Result<Checkpoint> {
    let mut channels: Map<String, Value> = json_column(row, "channels")?;
    channels.extend(json_column::<Map<String, Value>>(row, "private")?);
    Ok(Checkpoint {
        checkpoint_id: stored(row, "checkpoint_id")?,
        thread_id: stored(row, "thread_id")?,
        run_id: stored(row, "run_id")?,
        step: count(row, "step")?,
        head_seq: count(row, "head_seq")?,
        next: row.get("next")?,
        channels,
        activities: json_column(row, "activities")?,
        created_at: stored(row, "created_at")?,
    })
}

fn read_point(row: &Row<'_>) -> rusqlite::Result<StepPoint> {
    Ok(StepPoint {
        checkpoint_id: stored(row, "checkpoint_id")?,
        run_id: stored(row, "run_id")?,
        step: count(row, "step")?,
        head_seq: count(row, "head_seq")?,
        next: row.get("next")?,
        created_at: stored(row, "created_at")?,
    })
}
