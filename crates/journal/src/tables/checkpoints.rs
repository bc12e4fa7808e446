//! Checkpoints: the point at which each thread resumes, and the steps before it, which a thread can be rewound to.
//! The results of a step are in the events.

mod restore;

use crate::engines::sql::{SqlConnection, SqlRow};
use protocol::{Checkpoint, CheckpointEntry, CheckpointId, CheckpointSource, Seq, Thread, ThreadId};
use serde_json::{Map, Value};

use super::columns::{
    compact_timestamp, encode_counter, encode_json, encode_time, read_column, read_counter, read_json_column,
    read_optional_column,
};
use super::events::rewinds;
use super::threads::{NewestCheckpoint, PendingCheckpoint, RowQueue, ThreadHead};
use super::{check_page_limit, threads};
use crate::{CheckpointRef, Error, Result, SupersededVisibility};

pub(crate) use restore::restore_checkpoint;

/// The number before the first input of a thread. The numbers of steps follow the convention of the Agent Server
/// protocol: the input of the first run has −1, its first step 0.
const NUMBER_BEFORE_FIRST: i64 = -2;

/// The columns that [`read_checkpoint`] reads.
const COLUMNS: &str =
    "c.checkpoint_id, h.thread_id, c.run_id, c.step, c.head_seq, c.next, c.channels, c.private,
    c.activities, c.source, c.created_at";

/// The columns that [`read_point`] reads.
const POINT_COLUMNS: &str =
    "checkpoint_id, run_id, step, e.head_seq, next, source, input_seq, number, created_at";

/// Facts about a checkpoint that follow from the other writes of its transaction.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CheckpointContext {
    /// The seq of the first message that was admitted with it.
    pub(crate) input_seq: Option<Seq>,
    /// The target of the rewind in the same transaction, if there is one.
    pub(crate) rewind: Option<RewindTarget>,
}

/// The target of a rewind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RewindTarget {
    /// The checkpoint that the thread continues from, if the event names one.
    pub(crate) checkpoint_id: Option<CheckpointId>,
}

/// Fails with a checkpoint conflict unless `expected` is the thread's newest checkpoint.
pub(crate) fn expect_checkpoint(
    db: &SqlConnection,
    thread_id: ThreadId,
    expected: Option<CheckpointId>,
) -> Result<()> {
    if let Some(head) = db.heads().and_then(|heads| heads.get(thread_id)) {
        match head.newest_checkpoint {
            NewestCheckpoint::Unknown => {}
            newest if newest.checkpoint_id() == expected => return Ok(()),
            NewestCheckpoint::Absent | NewestCheckpoint::Present { .. } => {
                return Err(Error::checkpoint_conflict(thread_id));
            }
        }
    }
    let newest: Option<[u8; 16]> = db
        .prepare(
            "SELECT checkpoint_id FROM checkpoints
             WHERE thread_key = (SELECT thread_key FROM thread_heads WHERE thread_id = $1)",
        )?
        .query_optional([thread_id.to_string()], |row| row.get(0))?;
    if newest == expected.map(|id| id.uuid().into_bytes()) {
        return Ok(());
    }
    Err(Error::checkpoint_conflict(thread_id))
}

/// Stores a checkpoint at the thread's last seq: the point at which the thread resumes, and a step.
pub(crate) fn put_checkpoint(
    db: &SqlConnection,
    checkpoint: &Checkpoint,
    context: CheckpointContext,
) -> Result<()> {
    let head = threads::load_head(db, checkpoint.thread_id)?;
    let (private, public): (Map<String, Value>, Map<String, Value>) =
        checkpoint.channels.clone().into_iter().partition(|(name, _)| name.starts_with('_'));
    let public = encode_json(&public)?;
    if let Some((queue, last)) = RowQueue::of(db).zip(last_number(&head, checkpoint, context)) {
        let input_seq = context.input_seq.map(encode_counter);
        let is_admission = checkpoint.step == 0 && checkpoint.source == CheckpointSource::Loop;
        let row = PendingCheckpoint {
            thread_key: head.key,
            checkpoint_id: checkpoint.checkpoint_id.uuid().into_bytes(),
            run_id: checkpoint.run_id.uuid().into_bytes(),
            step: encode_counter(checkpoint.step),
            head_seq: encode_counter(head.last_seq),
            next: checkpoint.next.clone(),
            public,
            private: encode_json(&private)?,
            activities: encode_json(&checkpoint.activities)?,
            created_at: encode_time(checkpoint.created_at),
            source: source_name(checkpoint.source),
            input_seq,
            number: next_number(last, input_seq),
            saves_previous_at: is_admission.then(|| encode_time(checkpoint.created_at)),
        };
        return queue.put_checkpoint(head, row, checkpoint.checkpoint_id);
    }
    if let Some(heads) = db.heads() {
        heads.insert_head(ThreadHead { newest_checkpoint: NewestCheckpoint::Unknown, ..head.clone() });
    }
    let StepInsert { number, had_previous } = put_step(db, &head, checkpoint, &public, context)?;
    if had_previous && checkpoint.step == 0 && checkpoint.source == CheckpointSource::Loop {
        restore::save_previous(db, head.key, checkpoint)?;
    }
    db.prepare(
        "INSERT INTO checkpoints (thread_key, checkpoint_id, run_id, step, head_seq, next, channels, private,
                                  activities, created_at, source, number)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
         ON CONFLICT (thread_key) DO UPDATE SET checkpoint_id = excluded.checkpoint_id,
             run_id = excluded.run_id, step = excluded.step, head_seq = excluded.head_seq,
             next = excluded.next, channels = excluded.channels, private = excluded.private,
             activities = excluded.activities, created_at = excluded.created_at, source = excluded.source,
             number = excluded.number",
    )?
    .execute_deferred((
        head.key,
        checkpoint.checkpoint_id.uuid().as_bytes(),
        checkpoint.run_id.uuid().as_bytes(),
        encode_counter(checkpoint.step),
        encode_counter(head.last_seq),
        &checkpoint.next,
        &public,
        encode_json(&private)?,
        encode_json(&checkpoint.activities)?,
        compact_timestamp(checkpoint.created_at),
        source_name(checkpoint.source),
        number,
    ))
}

/// Returns the source in its stored form: NULL for the most frequent source, `loop`.
fn source_name(source: CheckpointSource) -> Option<&'static str> {
    (source != CheckpointSource::Loop).then(|| source.as_str())
}

/// The result of storing a step.
struct StepInsert {
    /// The number of the step.
    number: i64,
    /// `true` if the thread had a checkpoint before.
    had_previous: bool,
}

/// Inserts the step of a checkpoint. The public channels are stored only if they differ from those of the newest
/// checkpoint. If the same checkpoint is stored again, it replaces its step and keeps its number.
fn put_step(
    db: &SqlConnection,
    head: &ThreadHead,
    checkpoint: &Checkpoint,
    public: &str,
    context: CheckpointContext,
) -> Result<StepInsert> {
    let id = checkpoint.checkpoint_id.uuid();
    let newest: Option<(bool, bool, i64)> = db
        .prepare("SELECT channels = $2, checkpoint_id = $3, number FROM checkpoints WHERE thread_key = $1")?
        .query_optional((head.key, public, id.as_bytes()), |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
    let had_previous = newest.is_some();
    let (has_same_channels, is_repetition, last) =
        newest.unwrap_or((public == "{}", false, NUMBER_BEFORE_FIRST));
    let replaced = if is_repetition { take_step(db, head.key, checkpoint.checkpoint_id)? } else { None };
    let input_seq = replaced.map_or(context.input_seq.map(encode_counter), |(input_seq, _)| input_seq);
    let number = match (replaced, checkpoint.source) {
        (Some((_, number)), _) => number,
        (None, CheckpointSource::Rewind) => {
            branch_number(db, head.key, context.rewind.and_then(|rewind| rewind.checkpoint_id))?
        }
        (None, CheckpointSource::Loop | CheckpointSource::Update) => {
            let previous = match context.rewind {
                Some(rewind) => branch_number(db, head.key, rewind.checkpoint_id)?,
                None => last,
            };
            next_number(previous, input_seq)
        }
    };
    db.prepare(
        "INSERT INTO steps (thread_key, head_seq, checkpoint_id, run_id, step, created_at, next, channels,
                                       source, input_seq, number)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
         ON CONFLICT (thread_key, head_seq, checkpoint_id) DO UPDATE SET run_id = excluded.run_id,
             step = excluded.step, created_at = excluded.created_at, next = excluded.next,
             channels = excluded.channels, source = excluded.source, input_seq = excluded.input_seq,
             number = excluded.number",
    )?
    .execute_deferred((
        head.key,
        encode_counter(head.last_seq),
        id.as_bytes(),
        checkpoint.run_id.uuid().as_bytes(),
        encode_counter(checkpoint.step),
        compact_timestamp(checkpoint.created_at),
        &checkpoint.next,
        (is_repetition || !has_same_channels).then_some(public),
        source_name(checkpoint.source),
        input_seq,
        number,
    ))?;
    Ok(StepInsert { number, had_previous })
}

/// Returns the number before that of a checkpoint which follows the newest one of its thread. `None` if the checkpoint is stored
/// again, if it belongs to a rewind, or if the newest one is not known.
fn last_number(head: &ThreadHead, checkpoint: &Checkpoint, context: CheckpointContext) -> Option<i64> {
    if checkpoint.source == CheckpointSource::Rewind || context.rewind.is_some() {
        return None;
    }
    match head.newest_checkpoint {
        NewestCheckpoint::Unknown => None,
        NewestCheckpoint::Absent => Some(NUMBER_BEFORE_FIRST),
        NewestCheckpoint::Present { checkpoint_id, number } => {
            (checkpoint_id != checkpoint.checkpoint_id).then_some(number)
        }
    }
}

/// Returns the number of a checkpoint that follows the one with the number `last`. An input takes a number of its own.
fn next_number(last: i64, input_seq: Option<i64>) -> i64 {
    (last + 1 + i64::from(input_seq.is_some())).max(0)
}

/// Deletes a step that is stored again, and returns its input seq and its number.
fn take_step(db: &SqlConnection, key: i64, id: CheckpointId) -> Result<Option<(Option<i64>, i64)>> {
    db.prepare("DELETE FROM steps WHERE thread_key = $1 AND checkpoint_id = $2 RETURNING input_seq, number")?
        .query_optional((key, id.uuid().as_bytes()), |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Returns the number of the step that a thread continues from: the one named by its checkpoint id if there is one,
/// and the newest visible step otherwise.
fn branch_number(db: &SqlConnection, key: i64, checkpoint_id: Option<CheckpointId>) -> Result<i64> {
    if let Some(number) =
        checkpoint_id.map(|checkpoint_id| step_number(db, key, checkpoint_id)).transpose()?.flatten()
    {
        return Ok(number);
    }
    let newest = db
        .prepare(&format!(
            "SELECT number FROM steps e WHERE thread_key = $1 AND source IS DISTINCT FROM 'rewind' AND {}
             ORDER BY e.head_seq DESC, checkpoint_id DESC LIMIT 1",
            rewinds::visibility_condition("e.head_seq")
        ))?
        .query_optional([key], |row| row.get(0))?;
    Ok(newest.unwrap_or(NUMBER_BEFORE_FIRST))
}

/// Returns the number of the step with this checkpoint id. The input of an admission has the id before the id of the
/// admission's step, and the number before it. Both ids are searched in one query, because it scans the steps of the
/// thread.
fn step_number(db: &SqlConnection, key: i64, checkpoint_id: CheckpointId) -> Result<Option<i64>> {
    let next_id = uuid::Uuid::from_u128(checkpoint_id.uuid().as_u128().wrapping_add(1));
    db
        .prepare(
            "SELECT CASE WHEN checkpoint_id = $3 THEN number - 1 ELSE number END FROM steps WHERE thread_key = $1 AND checkpoint_id IN ($2, $3)
             ORDER BY checkpoint_id LIMIT 1",
        )?
        .query_optional((key, checkpoint_id.uuid().as_bytes(), next_id.as_bytes()), |row| row.get(0))
}

/// Returns the newest checkpoint of a thread, or `None`.
pub(crate) fn newest_checkpoint(db: &SqlConnection, thread_id: ThreadId) -> Result<Option<Checkpoint>> {
    db.prepare(&format!(
        "SELECT {COLUMNS} FROM thread_heads h JOIN checkpoints c ON c.thread_key = h.thread_key
         WHERE h.thread_id = $1"
    ))?
    .query_optional([thread_id.to_string()], read_checkpoint)
}

/// Returns a thread with its newest checkpoint, or `None` if there is no such thread.
pub(crate) fn thread_with_checkpoint(
    db: &SqlConnection,
    thread_id: ThreadId,
) -> Result<Option<(Thread, Option<Checkpoint>)>> {
    db.prepare(&format!(
        "SELECT {}, c.checkpoint_id, c.run_id, c.step, c.head_seq, c.next, c.channels, c.private, c.activities, c.source,
             c.created_at AS stored_at
         FROM thread_heads h JOIN threads t ON t.thread_key = h.thread_key
         LEFT JOIN checkpoints c ON c.thread_key = h.thread_key WHERE h.thread_id = $1",
        threads::COLUMNS
    ))?
    .query_optional([thread_id.to_string()], |row| {
        let checkpoint_id: Option<[u8; 16]> = row.get("checkpoint_id")?;
        let checkpoint = checkpoint_id.map(|_| read_checkpoint_stored_at(row, "stored_at")).transpose()?;
        Ok((threads::read_thread(row)?, checkpoint))
    })
}

/// Returns the newest checkpoints that list activities to be performed, oldest first.
pub(crate) fn unfinished_checkpoints(db: &SqlConnection) -> Result<Vec<Checkpoint>> {
    let mut statement = db.prepare(&format!(
        "SELECT {COLUMNS} FROM checkpoints c JOIN thread_heads h ON h.thread_key = c.thread_key
         WHERE c.activities <> '[]' ORDER BY c.created_at, h.thread_id"
    ))?;
    statement.query_map((), read_checkpoint)
}

/// Returns a page of the steps of a thread, newest first: those before the checkpoint `before`, or all.
///
/// # Errors
/// [`Error::InvalidRequest`] if the limit is zero or too large.
pub(crate) fn list_points(
    db: &SqlConnection,
    thread_id: ThreadId,
    before: Option<CheckpointId>,
    limit: usize,
    superseded: SupersededVisibility,
) -> Result<Vec<CheckpointEntry>> {
    let limit = check_page_limit("checkpoints", limit)?;
    let Some(key) = threads::thread_key(db, thread_id)? else { return Ok(Vec::new()) };
    let position = match before {
        None => Some((i64::MAX, CheckpointId::from_uuid(uuid::Uuid::max()))),
        Some(id) => head_seq_of(db, key, id)?.map(|head_seq| (head_seq, id)),
    };
    let Some((head_seq, id)) = position else { return Ok(Vec::new()) };
    let mut statement = db.prepare(&format!(
        "SELECT {POINT_COLUMNS} FROM steps e
         WHERE thread_key = $1 AND (e.head_seq, checkpoint_id) < ($2, $3) AND {}
         ORDER BY e.head_seq DESC, checkpoint_id DESC LIMIT $4",
        visibility_condition(superseded)
    ))?;
    statement.query_map((key, head_seq, id.uuid().as_bytes(), limit), read_point)
}

/// Returns the SQL condition for the visibility of the step `e`.
fn visibility_condition(superseded: SupersededVisibility) -> String {
    match superseded {
        SupersededVisibility::Hidden => rewinds::visibility_condition("e.head_seq"),
        SupersededVisibility::Shown => "TRUE".to_owned(),
    }
}

/// Returns the step that a reference names, or the last step at or before a seq, with the public channels at that
/// step. `None` if there is none.
pub(crate) fn find_point(
    db: &SqlConnection,
    thread_id: ThreadId,
    reference: CheckpointRef,
    superseded: SupersededVisibility,
) -> Result<Option<(CheckpointEntry, Map<String, Value>)>> {
    let Some(key) = threads::thread_key(db, thread_id)? else { return Ok(None) };
    let (head_seq, id) = match reference {
        CheckpointRef::Seq(seq) => (encode_counter(seq), CheckpointId::from_uuid(uuid::Uuid::max())),
        CheckpointRef::Id(id) => match head_seq_of(db, key, id)? {
            Some(head_seq) => (head_seq, id),
            None => return Ok(None),
        },
    };
    let entry = db
        .prepare(&format!(
            "SELECT {POINT_COLUMNS} FROM steps e
             WHERE thread_key = $1 AND (e.head_seq, checkpoint_id) <= ($2, $3) AND {}
             ORDER BY e.head_seq DESC, checkpoint_id DESC LIMIT 1",
            visibility_condition(superseded)
        ))?
        .query_optional((key, head_seq, id.uuid().as_bytes()), read_point)?;
    let is_other =
        |entry: &CheckpointEntry| matches!(reference, CheckpointRef::Id(id) if entry.checkpoint_id != id);
    let Some(entry) = entry.filter(|entry| !is_other(entry)) else { return Ok(None) };
    let channels = channels_at(db, key, &entry)?;
    Ok(Some((entry, channels)))
}

/// Returns the public channels at a step. Superseded steps are included in the search, because a step without stored
/// channels has those of the step stored before it, visible or not.
fn channels_at(db: &SqlConnection, key: i64, point: &CheckpointEntry) -> Result<Map<String, Value>> {
    let channels = db
        .prepare(
            "SELECT channels FROM steps
             WHERE thread_key = $1 AND (head_seq, checkpoint_id) <= ($2, $3) AND channels IS NOT NULL
             ORDER BY head_seq DESC, checkpoint_id DESC LIMIT 1",
        )?
        .query_optional(
            (key, encode_counter(point.head_seq), point.checkpoint_id.uuid().as_bytes()),
            |row| read_json_column(row, "channels"),
        )?;
    Ok(channels.unwrap_or_default())
}

/// Returns the seq of the step with this checkpoint id. The newest steps are searched first.
fn head_seq_of(db: &SqlConnection, key: i64, id: CheckpointId) -> Result<Option<i64>> {
    db.prepare(
        "SELECT head_seq FROM steps WHERE thread_key = $1 AND checkpoint_id = $2
         ORDER BY head_seq DESC LIMIT 1",
    )?
    .query_optional((key, id.uuid().as_bytes()), |row| row.get(0))
}

/// Reads a checkpoint from a row with [`COLUMNS`], merging its public and private channels.
fn read_checkpoint(row: &SqlRow<'_>) -> Result<Checkpoint> {
    read_checkpoint_stored_at(row, "created_at")
}

/// Reads a checkpoint from a row with [`COLUMNS`], except that its time is in the column `time_column`.
fn read_checkpoint_stored_at(row: &SqlRow<'_>, time_column: &str) -> Result<Checkpoint> {
    let mut channels: Map<String, Value> = read_json_column(row, "channels")?;
    channels.extend(read_json_column::<Map<String, Value>>(row, "private")?);
    Ok(Checkpoint {
        checkpoint_id: read_column(row, "checkpoint_id")?,
        thread_id: read_column(row, "thread_id")?,
        run_id: read_column(row, "run_id")?,
        step: read_counter(row, "step")?,
        head_seq: read_counter(row, "head_seq")?,
        next: row.get("next")?,
        channels,
        activities: read_json_column(row, "activities")?,
        source: read_optional_column(row, "source")?.unwrap_or_default(),
        created_at: read_column(row, time_column)?,
    })
}

/// Reads a step from a row with [`POINT_COLUMNS`].
fn read_point(row: &SqlRow<'_>) -> Result<CheckpointEntry> {
    Ok(CheckpointEntry {
        checkpoint_id: read_column(row, "checkpoint_id")?,
        run_id: read_column(row, "run_id")?,
        step: read_counter(row, "step")?,
        head_seq: read_counter(row, "head_seq")?,
        next: row.get("next")?,
        source: read_optional_column(row, "source")?.unwrap_or_default(),
        input_seq: row.get::<_, Option<i64>>("input_seq")?.map(i64::unsigned_abs),
        number: row.get("number")?,
        created_at: read_column(row, "created_at")?,
    })
}
