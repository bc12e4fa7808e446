//! Checkpoints: where each thread resumes, and the steps behind it as points one can go back to. What a step did is
//! in the events, not here.

mod left;

use crate::engines::sql::{Connection, Row};
use protocol::{Checkpoint, CheckpointId, CheckpointSource, Seq, StepPoint, ThreadId};
use serde_json::{Map, Value};

use super::columns::{count, instant, integer, json, json_column, stored, stored_option};
use super::events::rewinds;
use super::threads::Head;
use super::{page_limit, threads};
use crate::{CheckpointRef, Error, Result, Superseded};

pub(crate) use left::restore;

/// The number before that of the first input of a thread.
const BEFORE_FIRST: i64 = -2;

const COLUMNS: &str =
    "c.checkpoint_id, h.thread_id, c.run_id, c.step, c.head_seq, c.next, c.channels, c.private,
    c.activities, c.source, c.created_at";

const POINT_COLUMNS: &str =
    "checkpoint_id, run_id, step, e.head_seq, next, source, input_seq, number, created_at";

/// What the transaction of a checkpoint says about it, beside itself.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Beside {
    /// The first message that came in with it.
    pub(crate) input_seq: Option<Seq>,
    /// Whether the thread went back with it.
    pub(crate) went_back: Option<WentBack>,
}

/// Where a thread went back to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WentBack {
    /// The point that it goes on from, where that is said.
    pub(crate) to: Option<CheckpointId>,
}

/// Fails unless the thread's newest checkpoint is the one that was read.
pub(crate) fn expect(db: &Connection, thread_id: ThreadId, expected: Option<CheckpointId>) -> Result<()> {
    let found: Option<[u8; 16]> = db
        .prepare(
            "SELECT checkpoint_id FROM checkpoints
             WHERE thread_key = (SELECT thread_key FROM thread_heads WHERE thread_id = $1)",
        )?
        .find([thread_id.to_string()], |row| row.get(0))?;
    if found == expected.map(|id| id.uuid().into_bytes()) {
        return Ok(());
    }
    Err(Error::differing_checkpoint(thread_id))
}

/// Stores where the thread resumes, at its last seq, and the step that leads there.
pub(crate) fn put(db: &Connection, point: &Checkpoint, beside: Beside) -> Result<()> {
    let head = threads::head(db, point.thread_id)?;
    let (private, public): (Map<String, Value>, Map<String, Value>) =
        point.channels.clone().into_iter().partition(|(name, _)| name.starts_with('_'));
    let public = json(&public)?;
    let Put { number, had_point } = put_step(db, &head, point, &public, beside)?;
    if had_point && point.step == 0 && point.source == CheckpointSource::Loop {
        left::keep(db, head.key, point)?;
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
    .send((
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
        source_name(point.source),
        number,
    ))
}

/// Returns the source as it is stored: nothing for that of nearly all.
fn source_name(source: CheckpointSource) -> Option<&'static str> {
    (source != CheckpointSource::Loop).then(|| source.as_str())
}

/// What came of storing a step.
struct Put {
    number: i64,
    /// Whether the thread had a point before.
    had_point: bool,
}

/// Stores the step, with its public channels where they differ from those of the newest checkpoint, and returns its number.
/// The same checkpoint stored again takes the place of its step.
fn put_step(db: &Connection, head: &Head, point: &Checkpoint, public: &str, beside: Beside) -> Result<Put> {
    let id = point.checkpoint_id.uuid();
    let before: Option<(bool, bool, i64)> = db
        .prepare("SELECT channels = $2, checkpoint_id = $3, number FROM checkpoints WHERE thread_key = $1")?
        .find((head.key, public, id.as_bytes()), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let had_point = before.is_some();
    let (is_as_before, is_again, last) = before.unwrap_or((public == "{}", false, BEFORE_FIRST));
    let again = if is_again { take_step(db, head.key, point.checkpoint_id)? } else { None };
    let input_seq = again.map_or(beside.input_seq.map(integer), |(input_seq, _)| input_seq);
    let number = match (again, point.source) {
        (Some((_, number)), _) => number,
        (None, CheckpointSource::Rewind) => {
            number_of_branch(db, head.key, beside.went_back.and_then(|back| back.to))?
        }
        (None, CheckpointSource::Loop | CheckpointSource::Update) => {
            let before = match beside.went_back {
                Some(back) => number_of_branch(db, head.key, back.to)?,
                None => last,
            };
            (before + 1 + i64::from(input_seq.is_some())).max(0)
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
    .send((
        head.key,
        integer(head.last_seq),
        id.as_bytes(),
        point.run_id.uuid().as_bytes(),
        integer(point.step),
        instant(point.created_at),
        &point.next,
        (is_again || !is_as_before).then_some(public),
        source_name(point.source),
        input_seq,
        number,
    ))?;
    Ok(Put { number, had_point })
}

/// Removes a step that is stored again, and returns what came in with it and its number.
fn take_step(db: &Connection, key: i64, id: CheckpointId) -> Result<Option<(Option<i64>, i64)>> {
    db.prepare("DELETE FROM steps WHERE thread_key = $1 AND checkpoint_id = $2 RETURNING input_seq, number")?
        .find((key, id.uuid().as_bytes()), |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Returns the number of the point that a thread goes on from: the one that is named, or the newest visible one. The input of
/// an admission is named by the id before the admission's.
fn number_of_branch(db: &Connection, key: i64, named: Option<CheckpointId>) -> Result<i64> {
    if let Some(number) = named.map(|named| number_of(db, key, named)).transpose()?.flatten() {
        return Ok(number);
    }
    let newest = db
        .prepare(&format!(
            "SELECT number FROM steps e WHERE thread_key = $1 AND source IS DISTINCT FROM 'rewind' AND {}
             ORDER BY e.head_seq DESC, checkpoint_id DESC LIMIT 1",
            rewinds::is_visible("e.head_seq")
        ))?
        .find([key], |row| row.get(0))?;
    Ok(newest.unwrap_or(BEFORE_FIRST))
}

/// Returns the number of the point that is named. Steps are gone through for it, so that both it may be are looked for at
/// once.
fn number_of(db: &Connection, key: i64, named: CheckpointId) -> Result<Option<i64>> {
    let behind = uuid::Uuid::from_u128(named.uuid().as_u128().wrapping_add(1));
    db
        .prepare(
            "SELECT CASE WHEN checkpoint_id = $3 THEN number - 1 ELSE number END FROM steps WHERE thread_key = $1 AND checkpoint_id IN ($2, $3)
             ORDER BY checkpoint_id LIMIT 1",
        )?
        .find((key, named.uuid().as_bytes(), behind.as_bytes()), |row| row.get(0))
}

/// Returns the thread's newest checkpoint, or `None`.
pub(crate) fn newest(db: &Connection, thread_id: ThreadId) -> Result<Option<Checkpoint>> {
    db.prepare(&format!(
        "SELECT {COLUMNS} FROM thread_heads h JOIN checkpoints c ON c.thread_key = h.thread_key
         WHERE h.thread_id = $1"
    ))?
    .find([thread_id.to_string()], read)
}

/// Returns the newest checkpoints with activities to perform, oldest first.
pub(crate) fn unfinished(db: &Connection) -> Result<Vec<Checkpoint>> {
    let mut statement = db.prepare(&format!(
        "SELECT {COLUMNS} FROM checkpoints c JOIN thread_heads h ON h.thread_key = c.thread_key
         WHERE c.activities <> '[]' ORDER BY c.created_at, h.thread_id"
    ))?;
    statement.query_map((), read)
}

/// Returns points, newest first: those before `before`, or of all.
pub(crate) fn list(
    db: &Connection,
    thread_id: ThreadId,
    before: Option<CheckpointId>,
    limit: usize,
    superseded: Superseded,
) -> Result<Vec<StepPoint>> {
    let limit = page_limit("checkpoints", limit)?;
    let Some(key) = threads::key(db, thread_id)? else { return Ok(Vec::new()) };
    let place = match before {
        None => Some((i64::MAX, CheckpointId::from_uuid(uuid::Uuid::max()))),
        Some(id) => place(db, key, id)?.map(|head_seq| (head_seq, id)),
    };
    let Some((head_seq, id)) = place else { return Ok(Vec::new()) };
    let mut statement = db.prepare(&format!(
        "SELECT {POINT_COLUMNS} FROM steps e
         WHERE thread_key = $1 AND (e.head_seq, checkpoint_id) < ($2, $3) AND {}
         ORDER BY e.head_seq DESC, checkpoint_id DESC LIMIT $4",
        is_shown(superseded)
    ))?;
    statement.query_map((key, head_seq, id.uuid().as_bytes(), limit), read_point)
}

/// Returns the condition that the step `e` is among those asked for.
fn is_shown(superseded: Superseded) -> String {
    match superseded {
        Superseded::Hidden => rewinds::is_visible("e.head_seq"),
        Superseded::Shown => "TRUE".to_owned(),
    }
}

/// Returns a point with the public channels of that time.
pub(crate) fn at(
    db: &Connection,
    thread_id: ThreadId,
    point: CheckpointRef,
    superseded: Superseded,
) -> Result<Option<(StepPoint, Map<String, Value>)>> {
    let Some(key) = threads::key(db, thread_id)? else { return Ok(None) };
    let (head_seq, id) = match point {
        CheckpointRef::Seq(seq) => (integer(seq), CheckpointId::from_uuid(uuid::Uuid::max())),
        CheckpointRef::Id(id) => match place(db, key, id)? {
            Some(head_seq) => (head_seq, id),
            None => return Ok(None),
        },
    };
    let found = db
        .prepare(&format!(
            "SELECT {POINT_COLUMNS} FROM steps e
             WHERE thread_key = $1 AND (e.head_seq, checkpoint_id) <= ($2, $3) AND {}
             ORDER BY e.head_seq DESC, checkpoint_id DESC LIMIT 1",
            is_shown(superseded)
        ))?
        .find((key, head_seq, id.uuid().as_bytes()), read_point)?;
    let is_other = |found: &StepPoint| matches!(point, CheckpointRef::Id(id) if found.checkpoint_id != id);
    let Some(found) = found.filter(|found| !is_other(found)) else { return Ok(None) };
    let channels = channels_at(db, key, &found)?;
    Ok(Some((found, channels)))
}

/// Superseded steps count here: a step that stored nothing had the channels of whatever came before it.
fn channels_at(db: &Connection, key: i64, point: &StepPoint) -> Result<Map<String, Value>> {
    let channels = db
        .prepare(
            "SELECT channels FROM steps
             WHERE thread_key = $1 AND (head_seq, checkpoint_id) <= ($2, $3) AND channels IS NOT NULL
             ORDER BY head_seq DESC, checkpoint_id DESC LIMIT 1",
        )?
        .find((key, integer(point.head_seq), point.checkpoint_id.uuid().as_bytes()), |row| {
            json_column(row, "channels")
        })?;
    Ok(channels.unwrap_or_default())
}

/// Returns the head seq of the step that wrote this checkpoint; the newest steps are looked at first.
fn place(db: &Connection, key: i64, id: CheckpointId) -> Result<Option<i64>> {
    db.prepare(
        "SELECT head_seq FROM steps WHERE thread_key = $1 AND checkpoint_id = $2
         ORDER BY head_seq DESC LIMIT 1",
    )?
    .find((key, id.uuid().as_bytes()), |row| row.get(0))
}

fn read(row: &Row<'_>) -> Result<Checkpoint> {
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
        source: stored_option(row, "source")?.unwrap_or_default(),
        created_at: stored(row, "created_at")?,
    })
}

fn read_point(row: &Row<'_>) -> Result<StepPoint> {
    Ok(StepPoint {
        checkpoint_id: stored(row, "checkpoint_id")?,
        run_id: stored(row, "run_id")?,
        step: count(row, "step")?,
        head_seq: count(row, "head_seq")?,
        next: row.get("next")?,
        source: stored_option(row, "source")?.unwrap_or_default(),
        input_seq: row.get::<_, Option<i64>>("input_seq")?.map(i64::unsigned_abs),
        number: row.get("number")?,
        created_at: stored(row, "created_at")?,
    })
}
