//! Threads: creation, changes, deletion, lists, and the counters an append moves. It does not write events.

use protocol::{ParentKind, Thread, ThreadId};
use rusqlite::{Connection, OptionalExtension, Row, ToSql};
use serde_json::{Map, Value};

use super::columns::{count, integer, json, json_column, stored, stored_option, time};
use super::memory::turns;
use super::{artifacts, not_found, page_limit, runs, search};
use crate::{Error, Order, Result, Subagents, ThreadFilter, ThreadPatch};

/// The most ids a prefix is resolved to.
pub(crate) const PREFIX_IDS_MAX: usize = 10;

const COLUMNS: &str = "h.thread_id, t.assistant_id, t.parent_id, t.parent_kind, t.name, h.status, t.metadata,
    t.first_prompt, h.message_count, h.last_seq, t.created_at, h.updated_at";

/// What an append needs to know about a thread, and moves.
pub(crate) struct Head {
    /// Its id, as stored.
    pub(crate) thread_id: String,
    /// The number its events are stored under.
    pub(crate) key: i64,
    /// The highest seq handed out.
    pub(crate) last_seq: u64,
    /// Events of category `message`.
    pub(crate) message_count: u64,
    /// When something last happened, as stored.
    pub(crate) updated_at: String,
    /// Whose thread it is.
    pub(crate) assistant_id: String,
    /// Whether a person's first words are known.
    pub(crate) has_prompt: bool,
    /// Whether it is a sub-agent's, or came from one that is.
    pub(crate) is_in_subagent: bool,
    /// The agent's last turn, once it was read.
    pub(crate) last_turn: Option<turns::Turn>,
}

/// Returns the thread's head.
pub(crate) fn head(connection: &Connection, thread_id: ThreadId) -> Result<Head> {
    connection
        .prepare_cached(
            "SELECT thread_id, thread_key, last_seq, message_count, updated_at, assistant_id, has_prompt,
                 in_subagent
             FROM thread_heads WHERE thread_id = ?1 AND updated_at IS NOT NULL",
        )?
        .query_row([thread_id.to_string()], |row| {
            Ok(Head {
                thread_id: row.get(0)?,
                key: row.get(1)?,
                last_seq: row.get::<_, i64>(2)?.unsigned_abs(),
                message_count: row.get::<_, i64>(3)?.unsigned_abs(),
                updated_at: row.get(4)?,
                assistant_id: row.get(5)?,
                has_prompt: row.get(6)?,
                is_in_subagent: row.get(7)?,
                last_turn: None,
            })
        })
        .optional()?
        .ok_or_else(|| not_found("thread", &thread_id))
}

/// Stores the head's counters.
pub(crate) fn advance(connection: &Connection, head: &Head) -> Result<()> {
    connection
        .prepare_cached(
            "UPDATE thread_heads SET last_seq = ?2, message_count = ?3, updated_at = ?4, has_prompt = ?5
             WHERE thread_key = ?1",
        )?
        .execute((
            head.key,
            integer(head.last_seq),
            integer(head.message_count),
            &head.updated_at,
            head.has_prompt,
        ))?;
    Ok(())
}

/// Stores the beginning of the first thing a person said.
pub(crate) fn set_first_prompt(connection: &Connection, head: &Head, prompt: Option<&str>) -> Result<()> {
    connection
        .prepare_cached("UPDATE threads SET first_prompt = ?2 WHERE thread_key = ?1")?
        .execute((head.key, prompt))?;
    Ok(())
}

/// Remembers how many events up to the last seq were copied; those that are appended follow them.
pub(crate) fn set_copied(connection: &Connection, head: &Head, copied: u64) -> Result<()> {
    connection
        .prepare_cached("UPDATE thread_heads SET base_seq = ?2, copied_count = ?3 WHERE thread_key = ?1")?
        .execute((head.key, integer(head.last_seq), integer(copied)))?;
    Ok(())
}

/// Sets the status of a thread in which nothing runs, and of which a part was just superseded.
pub(crate) fn settle(connection: &Connection, head: &Head) -> Result<()> {
    connection
        .prepare_cached(
            "UPDATE thread_heads SET status = iif(EXISTS (
                 SELECT 1 FROM interrupts i WHERE i.thread_id = ?2 AND i.status = 'pending'), 'interrupted', 'idle')
             WHERE thread_key = ?1",
        )?
        .execute((head.key, &head.thread_id))?;
    Ok(())
}

/// Stores a thread; one with this id stays as it is. Counters and the first prompt are the journal's own.
pub(crate) fn create(connection: &Connection, thread: &Thread) -> Result<()> {
    let thread_id = thread.thread_id.to_string();
    let parent_id = thread.parent_id.map(|id| id.to_string());
    connection
        .prepare_cached("INSERT INTO thread_heads (thread_id) VALUES (?1) ON CONFLICT DO NOTHING")?
        .execute([&thread_id])?;
    let is_new = connection
        .prepare_cached(
            "UPDATE thread_heads SET updated_at = ?2, assistant_id = ?3, status = ?6, base_seq = last_seq, indexed_seq = last_seq,
                 copied_count = 0, message_count = 0, has_prompt = 0,
                 in_subagent = ?4 OR ifnull((SELECT p.in_subagent FROM thread_heads p WHERE p.thread_id = ?5), 0)
             WHERE thread_id = ?1 AND updated_at IS NULL",
        )?
        .execute((
            &thread_id,
            time(thread.updated_at),
            thread.assistant_id.as_str(),
            thread.parent_kind == Some(ParentKind::Subagent),
            &parent_id,
            thread.status.as_str(),
        ))?;
    if is_new == 0 {
        return Ok(());
    }
    connection
        .prepare_cached(
            "INSERT INTO threads (thread_key, thread_id, assistant_id, parent_id, parent_kind, name, metadata, created_at)
             SELECT thread_key, thread_id, ?2, ?3, ?4, ?5, ?6, ?7 FROM thread_heads WHERE thread_id = ?1",
        )?
        .execute((
            &thread_id,
            thread.assistant_id.as_str(),
            &parent_id,
            thread.parent_kind.map(|kind| kind.as_str()),
            &thread.name,
            json(&thread.metadata)?,
            time(thread.created_at),
        ))?;
    Ok(())
}

/// Changes a thread.
pub(crate) fn update(connection: &Connection, thread_id: ThreadId, patch: &ThreadPatch) -> Result<()> {
    let id = thread_id.to_string();
    let changed = connection
        .prepare_cached(
            "UPDATE thread_heads SET status = ifnull(?2, status), updated_at = ifnull(?3, updated_at)
             WHERE thread_id = ?1 AND updated_at IS NOT NULL",
        )?
        .execute((&id, patch.status.map(|status| status.as_str()), patch.updated_at.map(time)))?;
    if changed == 0 {
        return Err(not_found("thread", &thread_id));
    }
    if patch.name.is_some() || !patch.metadata.is_empty() {
        let metadata = json(&patched_metadata(connection, thread_id, &patch.metadata)?)?;
        connection
            .prepare_cached("UPDATE threads SET name = ifnull(?2, name), metadata = ?3 WHERE thread_id = ?1")?
            .execute((&id, &patch.name, metadata))?;
    }
    Ok(())
}

fn patched_metadata(
    connection: &Connection,
    thread_id: ThreadId,
    patch: &Map<String, Value>,
) -> Result<Map<String, Value>> {
    let mut metadata: Map<String, Value> = connection
        .prepare_cached("SELECT metadata FROM threads WHERE thread_id = ?1")?
        .query_row([thread_id.to_string()], |row| json_column(row, "metadata"))
        .optional()?
        .ok_or_else(|| not_found("thread", &thread_id))?;
    for (key, value) in patch {
        if value.is_null() {
            metadata.shift_remove(key);
        } else {
            metadata.insert(key.clone(), value.clone());
        }
    }
    Ok(metadata)
}

/// Removes a thread with everything that belongs to it; only its id and its last seq stay.
pub(crate) fn delete(connection: &Connection, thread_id: ThreadId) -> Result<()> {
    let head = head(connection, thread_id)?;
    if let Some(run_id) = runs::active_run_of(connection, head.key)? {
        return Err(Error::Busy { thread_id, run_id });
    }
    connection.execute(
        "DELETE FROM search_index WHERE rowid IN (
             SELECT e.thread_key << 32 | e.seq FROM events e JOIN thread_heads h ON h.thread_key = e.thread_key
             WHERE e.thread_key = ?1 AND e.seq <= h.indexed_seq AND e.category = 'message')",
        [head.key],
    )?;
    turns::delete(connection, &head)?;
    artifacts::delete(connection, head.key)?;
    connection.execute("DELETE FROM events WHERE thread_key = ?1", [head.key])?;
    connection.execute("DELETE FROM threads WHERE thread_key = ?1", [head.key])?;
    // A handoff goes with its last thread: a child has its summary from here, and a parent keeps the record.
    connection.execute(
        "DELETE FROM handoffs WHERE (parent_thread_id = ?1 OR child_thread_id = ?1)
         AND NOT EXISTS (SELECT 1 FROM threads t WHERE t.thread_id IN (parent_thread_id, child_thread_id))",
        [thread_id.to_string()],
    )?;
    search::purge(connection)?;
    connection.execute(
        "UPDATE thread_heads SET updated_at = NULL, message_count = 0, base_seq = last_seq, copied_count = 0,
             indexed_seq = last_seq
         WHERE thread_key = ?1",
        [head.key],
    )?;
    Ok(())
}

/// Returns the number a thread's events are stored under, or `None`.
pub(crate) fn key(connection: &Connection, thread_id: ThreadId) -> Result<Option<i64>> {
    Ok(connection
        .prepare_cached("SELECT thread_key FROM thread_heads WHERE thread_id = ?1")?
        .query_row([thread_id.to_string()], |row| row.get(0))
        .optional()?)
}

/// Returns the number a thread's events are stored under and the highest seq handed out, or `None`.
pub(crate) fn end(connection: &Connection, thread_id: ThreadId) -> Result<Option<(i64, i64)>> {
    Ok(connection
        .prepare_cached("SELECT thread_key, last_seq FROM thread_heads WHERE thread_id = ?1")?
        .query_row([thread_id.to_string()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?)
}

/// Returns the thread, or `None`.
pub(crate) fn find(connection: &Connection, thread_id: ThreadId) -> Result<Option<Thread>> {
    Ok(connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM thread_heads h JOIN threads t ON t.thread_key = h.thread_key
             WHERE h.thread_id = ?1"
        ))?
        .query_row([thread_id.to_string()], read)
        .optional()?)
}

/// Returns a page of threads.
pub(crate) fn list(connection: &Connection, filter: &ThreadFilter) -> Result<Vec<Thread>> {
    let limit = page_limit("threads", filter.limit)?;
    let offset = integer(filter.offset as u64);
    let assistant_id = filter.assistant_id.as_ref().map(|id| id.as_str().to_owned());
    let parent_id = filter.parent_id.map(|id| id.to_string());
    let mut parameters: Vec<&dyn ToSql> = vec![&limit, &offset];
    let mut conditions = String::new();
    if let Some(assistant_id) = &assistant_id {
        parameters.push(assistant_id);
        conditions.push_str(&format!(" AND t.assistant_id = ?{}", parameters.len()));
    }
    if let Some(parent_id) = &parent_id {
        parameters.push(parent_id);
        conditions.push_str(&format!(" AND t.parent_id = ?{}", parameters.len()));
    }
    if filter.subagents == Subagents::Hidden {
        conditions.push_str(" AND h.in_subagent = 0");
    }
    let order = match filter.order {
        Order::Recent => "h.updated_at DESC, h.thread_id DESC",
        Order::Created => "t.created_at DESC, t.thread_id DESC",
    };
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM thread_heads h JOIN threads t ON t.thread_key = h.thread_key
         WHERE h.updated_at IS NOT NULL{conditions} ORDER BY {order} LIMIT ?1 OFFSET ?2"
    ))?;
    let threads = statement.query_map(parameters.as_slice(), read)?;
    Ok(threads.collect::<rusqlite::Result<_>>()?)
}

/// Returns up to ten ids that begin with `prefix`.
pub(crate) fn by_prefix(connection: &Connection, prefix: &str) -> Result<Vec<ThreadId>> {
    let Some(prefix) = hyphenated(prefix) else { return Ok(Vec::new()) };
    // `g` follows every hex digit, and a hyphen precedes them.
    let end = format!("{prefix}g");
    let mut statement = connection.prepare_cached(
        "SELECT thread_id FROM threads WHERE thread_id >= ?1 AND thread_id < ?2 ORDER BY thread_id LIMIT ?3",
    )?;
    let ids = statement.query_map((prefix, end, integer(PREFIX_IDS_MAX as u64)), |row| {
        stored::<ThreadId>(row, "thread_id")
    })?;
    Ok(ids.collect::<rusqlite::Result<_>>()?)
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

fn read(row: &Row<'_>) -> rusqlite::Result<Thread> {
    Ok(Thread {
        thread_id: stored(row, "thread_id")?,
        assistant_id: stored(row, "assistant_id")?,
        parent_id: stored_option(row, "parent_id")?,
        parent_kind: stored_option(row, "parent_kind")?,
        name: row.get("name")?,
        status: stored(row, "status")?,
        metadata: json_column(row, "metadata")?,
        first_prompt: row.get("first_prompt")?,
        message_count: count(row, "message_count")?,
        last_seq: count(row, "last_seq")?,
        created_at: stored(row, "created_at")?,
        updated_at: stored(row, "updated_at")?,
    })
}
