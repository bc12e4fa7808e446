//! Threads: creation, changes, deletion, and the counters an append moves; lists are in `list`. It does not write events.

mod heads;
mod hold;
mod list;
pub(crate) mod owners;

use crate::engines::sql::{Connection, Row};
use protocol::{ParentKind, Scope, Thread, ThreadId};
use serde_json::{Map, Value};

use super::columns::{count, integer, json, json_column, stored, stored_option, time};
use super::memory::turns;
use super::{artifacts, not_found, runs, search};
use crate::owned::owner_name;
use crate::{Error, Result, ThreadPatch};

pub(crate) use heads::{EventRow, Head, Heads, head, prefetch};
pub(crate) use hold::{Held, hold, take};
pub(crate) use list::{count_of, list, states};

/// The most ids a prefix is resolved to.
pub(crate) const PREFIX_IDS_MAX: usize = 10;

const COLUMNS: &str = "h.thread_id, t.assistant_id, t.parent_id, t.parent_kind, t.name, h.status, t.metadata,
    t.first_prompt, h.message_count, h.last_seq, t.created_at, h.updated_at";

/// Stores the head's counters.
pub(crate) fn advance(db: &Connection, head: &Head) -> Result<()> {
    if let Some(heads) = db.heads() {
        heads.put(head.clone());
    }
    db.prepare(
        "UPDATE thread_heads SET last_seq = $2, message_count = $3, updated_at = $4, has_prompt = $5
         WHERE thread_key = $1",
    )?
    .send((
        head.key,
        integer(head.last_seq),
        integer(head.message_count),
        &head.updated_at,
        head.has_prompt,
    ))
}

/// Stores the beginning of the first thing a person said.
pub(crate) fn set_first_prompt(db: &Connection, head: &Head, prompt: Option<&str>) -> Result<()> {
    db.prepare("UPDATE threads SET first_prompt = $2 WHERE thread_key = $1")?.send((head.key, prompt))
}

/// Remembers how many events up to the last seq were copied; those that are appended follow them.
pub(crate) fn set_copied(db: &Connection, head: &Head, copied: u64) -> Result<()> {
    db.prepare("UPDATE thread_heads SET base_seq = $2, copied_count = $3 WHERE thread_key = $1")?.send((
        head.key,
        integer(head.last_seq),
        integer(copied),
    ))
}

/// Sets the status of a thread that is busy and in which nothing runs or waits to: the newest checkpoint says where it rests.
pub(crate) fn settle(db: &Connection, thread_id: ThreadId) -> Result<()> {
    db
        .prepare(
            "UPDATE thread_heads SET status = CASE
                 WHEN EXISTS (SELECT 1 FROM interrupts i WHERE i.thread_id = $1 AND i.status = 'pending')
                     THEN 'interrupted'
                 WHEN EXISTS (SELECT 1 FROM checkpoints c JOIN runs r ON r.run_id = c.run_id
                     WHERE c.thread_key = thread_heads.thread_key AND r.status IN ('error', 'timeout')) THEN 'error'
                 WHEN EXISTS (SELECT 1 FROM checkpoints c
                     WHERE c.thread_key = thread_heads.thread_key AND c.next IS NOT NULL) THEN 'interrupted'
                 ELSE 'idle' END
             WHERE thread_id = $1 AND status = 'busy' AND NOT EXISTS (SELECT 1 FROM runs r
                 WHERE r.thread_key = thread_heads.thread_key AND r.status = 'running')
             AND NOT EXISTS (SELECT 1 FROM runs r
                 WHERE r.thread_key = thread_heads.thread_key AND r.status = 'pending')",
        )?
        .send([thread_id.to_string()])
}

/// Sets the status of a thread in which nothing runs, and of which a part was just superseded.
pub(crate) fn settle_rewound(db: &Connection, head: &Head) -> Result<()> {
    db
        .prepare(
            "UPDATE thread_heads SET status = CASE
                 WHEN EXISTS (SELECT 1 FROM runs r WHERE r.thread_key = $1 AND r.status = 'pending') THEN 'busy'
                 WHEN EXISTS (SELECT 1 FROM interrupts i WHERE i.thread_id = $2 AND i.status = 'pending')
                     THEN 'interrupted'
                 ELSE 'idle' END
             WHERE thread_key = $1",
        )?
        .send((head.key, &head.thread_id))
}

/// Stores a thread; one with this id stays as it is, unless it is or was another owner's. Counters and the first prompt are the journal's own.
pub(crate) fn create(db: &Connection, thread: &Thread) -> Result<()> {
    let thread_id = thread.thread_id.to_string();
    let parent_id = thread.parent_id.map(|id| id.to_string());
    db.prepare("INSERT INTO thread_heads (thread_id) VALUES ($1) ON CONFLICT DO NOTHING")?
        .send([&thread_id])?;
    let is_new = db
        .prepare(
            "UPDATE thread_heads SET updated_at = $2, assistant_id = $3, status = $6, base_seq = last_seq, indexed_seq = last_seq,
                 copied_count = 0, message_count = 0, has_prompt = 0,
                 in_subagent = CASE WHEN EXISTS (
                     SELECT 1 FROM thread_heads p WHERE p.thread_id = $5 AND p.in_subagent = 1) THEN 1 ELSE $4 END
             WHERE thread_id = $1 AND updated_at IS NULL AND (assistant_id IS NULL OR owner = $7)",
        )?
        .execute((
            &thread_id,
            time(thread.updated_at),
            thread.assistant_id.as_str(),
            thread.parent_kind == Some(ParentKind::Subagent),
            &parent_id,
            thread.status.as_str(),
            owner_name(thread.assistant_id.as_str()),
        ))?;
    if is_new == 0 {
        return is_of_owner(db, thread);
    }
    db
        .prepare(
            "INSERT INTO threads (thread_key, thread_id, assistant_id, parent_id, parent_kind, name, metadata, created_at)
             SELECT thread_key, thread_id, $2, $3, $4, $5, $6, $7 FROM thread_heads WHERE thread_id = $1",
        )?
        .send((
            &thread_id,
            thread.assistant_id.as_str(),
            &parent_id,
            thread.parent_kind.map(|kind| kind.as_str()),
            &thread.name,
            json(&thread.metadata)?,
            time(thread.created_at),
        ))
}

/// Fails unless the thread of this id, or the last one there was, belongs to the same owner.
fn is_of_owner(db: &Connection, thread: &Thread) -> Result<()> {
    let known: Option<String> = db
        .prepare("SELECT assistant_id FROM thread_heads WHERE thread_id = $1")?
        .query_row([thread.thread_id.to_string()], |row| row.get(0))?;
    match known.is_none_or(|known| owner_name(&known) == owner_name(thread.assistant_id.as_str())) {
        true => Ok(()),
        false => Err(Error::Differs { what: "thread", id: thread.thread_id.to_string() }),
    }
}

/// Changes a thread. It is busy as long as a run waits for it: nobody sees it at rest between two runs.
pub(crate) fn update(db: &Connection, thread_id: ThreadId, patch: &ThreadPatch) -> Result<()> {
    let id = thread_id.to_string();
    let changed = db
        .prepare(
            "UPDATE thread_heads SET updated_at = coalesce($3, updated_at), status = CASE
                 WHEN CAST($2 AS TEXT) IS NULL THEN status
                 WHEN EXISTS (SELECT 1 FROM runs r
                     WHERE r.thread_key = thread_heads.thread_key AND r.status = 'pending') THEN 'busy'
                 ELSE $2 END
             WHERE thread_id = $1 AND updated_at IS NOT NULL",
        )?
        .execute((&id, patch.status.map(|status| status.as_str()), patch.updated_at.map(time)))?;
    if changed == 0 {
        return Err(not_found("thread", &thread_id));
    }
    if patch.name.is_some() || !patch.metadata.is_empty() || !patch.remove.is_empty() {
        let metadata = json(&patched_metadata(db, thread_id, patch)?)?;
        db.prepare("UPDATE threads SET name = coalesce($2, name), metadata = $3 WHERE thread_id = $1")?
            .send((&id, &patch.name, metadata))?;
    }
    Ok(())
}

fn patched_metadata(db: &Connection, thread_id: ThreadId, patch: &ThreadPatch) -> Result<Map<String, Value>> {
    let mut metadata: Map<String, Value> = db
        .prepare("SELECT metadata FROM threads WHERE thread_id = $1")?
        .find([thread_id.to_string()], |row| json_column(row, "metadata"))?
        .ok_or_else(|| not_found("thread", &thread_id))?;
    metadata.retain(|key, _| !patch.remove.contains(key));
    metadata.extend(patch.metadata.clone());
    Ok(metadata)
}

/// Removes a thread with everything that belongs to it; only its id and its last seq stay.
pub(crate) fn delete(db: &Connection, thread_id: ThreadId) -> Result<()> {
    let head = head(db, thread_id)?;
    if let Some(run_id) = runs::active_run_of(db, head.key)? {
        return Err(Error::Busy { thread_id, run_id });
    }
    db.execute(
        "DELETE FROM search_index WHERE rowid IN (
             SELECT e.thread_key << 32 | e.seq FROM events e JOIN thread_heads h ON h.thread_key = e.thread_key
             WHERE e.thread_key = $1 AND e.seq <= h.indexed_seq AND e.category = 'message')",
        [head.key],
    )?;
    turns::delete(db, &head)?;
    artifacts::delete(db, head.key)?;
    db.execute("DELETE FROM events WHERE thread_key = $1", [head.key])?;
    db.execute("DELETE FROM threads WHERE thread_key = $1", [head.key])?;
    // A handoff goes with its last thread: a child has its summary from here, and a parent keeps the record.
    db.execute(
        "DELETE FROM handoffs WHERE (parent_thread_id = $1 OR child_thread_id = $1)
         AND NOT EXISTS (SELECT 1 FROM threads t WHERE t.thread_id IN (parent_thread_id, child_thread_id))",
        [thread_id.to_string()],
    )?;
    search::purge(db)?;
    db.execute(
        "UPDATE thread_heads SET updated_at = NULL, message_count = 0, base_seq = last_seq, copied_count = 0,
             indexed_seq = last_seq
         WHERE thread_key = $1",
        [head.key],
    )?;
    Ok(())
}

/// Returns the number a thread's events are stored under, or `None`.
pub(crate) fn key(db: &Connection, thread_id: ThreadId) -> Result<Option<i64>> {
    db.prepare("SELECT thread_key FROM thread_heads WHERE thread_id = $1")?
        .find([thread_id.to_string()], |row| row.get(0))
}

/// Returns the number a thread's events are stored under and the highest seq handed out, or `None`.
pub(crate) fn end(db: &Connection, thread_id: ThreadId) -> Result<Option<(i64, i64)>> {
    db.prepare("SELECT thread_key, last_seq FROM thread_heads WHERE thread_id = $1")?
        .find([thread_id.to_string()], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Returns the thread, or `None`.
pub(crate) fn find(db: &Connection, thread_id: ThreadId) -> Result<Option<Thread>> {
    db.prepare(&format!(
        "SELECT {COLUMNS} FROM thread_heads h JOIN threads t ON t.thread_key = h.thread_key
         WHERE h.thread_id = $1"
    ))?
    .find([thread_id.to_string()], read)
}

/// Returns up to ten ids of a scope that begin with `prefix`.
pub(crate) fn by_prefix(db: &Connection, prefix: &str, scope: &Scope) -> Result<Vec<ThreadId>> {
    let Some(prefix) = hyphenated(prefix) else { return Ok(Vec::new()) };
    // `g` follows every hex digit, and a hyphen precedes them.
    let end = format!("{prefix}g");
    let mut statement = db.prepare(
        "SELECT thread_id FROM threads WHERE thread_id >= $1 AND thread_id < $2 AND (CAST($4 AS TEXT) IS NULL OR owner = $4)
         ORDER BY thread_id LIMIT $3",
    )?;
    let parameters = (prefix, end, integer(PREFIX_IDS_MAX as u64), owners::of(Some(scope)));
    statement.query_map(parameters, |row| stored::<ThreadId>(row, "thread_id"))
}

/// Returns the beginning of a UUID in its usual form, or `None` when no UUID begins like that.
fn hyphenated(prefix: &str) -> Option<String> {
    const HYPHENS_BEFORE: [usize; 4] = [8, 12, 16, 20];
    const DIGITS_MAX: usize = 32;
    let mut text = String::new();
    for (digits, digit) in prefix.chars().filter(|char| *char != '-').enumerate() {
        if !digit.is_ascii_hexdigit() || digits == DIGITS_MAX {
            return None;
        }
        if HYPHENS_BEFORE.contains(&digits) {
            text.push('-');
        }
        text.push(digit.to_ascii_lowercase());
    }
    Some(text)
}

fn read(row: &Row<'_>) -> Result<Thread> {
    read_with(row, json_column(row, "metadata")?)
}

/// Reads a thread whose metadata were read already.
fn read_with(row: &Row<'_>, metadata: Map<String, Value>) -> Result<Thread> {
    Ok(Thread {
        thread_id: stored(row, "thread_id")?,
        assistant_id: stored(row, "assistant_id")?,
        parent_id: stored_option(row, "parent_id")?,
        parent_kind: stored_option(row, "parent_kind")?,
        name: row.get("name")?,
        status: stored(row, "status")?,
        metadata,
        first_prompt: row.get("first_prompt")?,
        message_count: count(row, "message_count")?,
        last_seq: count(row, "last_seq")?,
        created_at: stored(row, "created_at")?,
        updated_at: stored(row, "updated_at")?,
    })
}
