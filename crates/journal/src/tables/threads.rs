//! Rows of threads: creation, changes, deletion, and the counters that appends update; `list` has the lists. It
//! writes no events.

mod heads;
mod list;
mod locks;
pub(crate) mod owners;
pub(crate) mod projects;
pub(crate) mod purges;

use crate::engines::sql::{SqlConnection, SqlRow};
use protocol::{OwnerScope, ParentKind, Thread, ThreadId};
use serde_json::{Map, Value};

use super::columns::{
    encode_counter, encode_json, encode_time, read_column, read_counter, read_json_column,
    read_optional_column,
};
use super::memory::{facts, turns};
use super::{artifacts, not_found, runs, search};
use crate::ownership::owner_name;
use crate::{Error, Result, ThreadPatch};

pub(crate) use heads::{
    NewestCheckpoint, PendingCheckpoint, PendingEventRow, PendingRequest, PendingRun, PendingRunChange,
    PreconditionChecks, RowQueue, ThreadHead, ThreadHeadCache, load_head, prefetch_heads,
};
pub(crate) use list::{count_threads, list_threads, thread_states};
pub(crate) use locks::{LockState, acquire_locks, lock_threads};

/// Maximum number of ids that a prefix is resolved to.
pub(crate) const PREFIX_IDS_MAX: usize = 10;

/// The columns that [`read_thread`] reads.
pub(crate) const COLUMNS: &str =
    "h.thread_id, t.assistant_id, t.parent_id, t.parent_kind, t.name, h.status, t.metadata,
    t.first_prompt, h.message_count, h.last_seq, t.created_at, h.updated_at,
    (SELECT j.path FROM projects j WHERE j.project_key = h.project_key) AS project";

/// Stores the counters of a thread head.
pub(crate) fn store_head(db: &SqlConnection, head: &ThreadHead) -> Result<()> {
    if let Some(heads) = db.heads() {
        heads.insert_head(head.clone());
    }
    db.prepare(
        "UPDATE thread_heads SET last_seq = $2, message_count = $3, updated_at = $4, has_prompt = $5
         WHERE thread_key = $1",
    )?
    .execute_deferred((
        head.key,
        encode_counter(head.last_seq),
        encode_counter(head.message_count),
        &head.updated_at,
        head.has_prompt,
    ))
}

/// Stores the beginning of a person's first message in the thread.
pub(crate) fn set_first_prompt(db: &SqlConnection, head: &ThreadHead, prompt: Option<&str>) -> Result<()> {
    if let Some((queue, prompt)) = RowQueue::of(db).zip(prompt) {
        queue.set_first_prompt(head.key, prompt);
        return Ok(());
    }
    db.prepare("UPDATE threads SET first_prompt = $2 WHERE thread_key = $1")?
        .execute_deferred((head.key, prompt))
}

/// Stores that all events up to the last seq are copies, and their number. Appended events follow the last seq.
pub(crate) fn set_copied_count(db: &SqlConnection, head: &ThreadHead, copied: u64) -> Result<()> {
    db.prepare("UPDATE thread_heads SET base_seq = $2, copied_count = $3 WHERE thread_key = $1")?
        .execute_deferred((head.key, encode_counter(head.last_seq), encode_counter(copied)))
}

/// Fails unless the thread has no message.
///
/// # Errors
/// [`Error::NotFound`] if the thread does not exist, [`Error::Conflict`] if it has a message.
pub(crate) fn expect_no_message(db: &SqlConnection, thread_id: ThreadId) -> Result<()> {
    match load_head(db, thread_id)?.message_count {
        0 => Ok(()),
        _ => Err(Error::message_conflict(thread_id)),
    }
}

/// Sets the status of a busy thread without running or queued runs. The status follows from pending interrupts and
/// from the newest checkpoint. Other threads are left unchanged.
pub(crate) fn settle_status(db: &SqlConnection, thread_id: ThreadId) -> Result<()> {
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
        .execute_deferred([thread_id.to_string()])
}

/// Sets the status of a thread without a running run after a part of it was superseded.
pub(crate) fn settle_after_rewind(db: &SqlConnection, head: &ThreadHead) -> Result<()> {
    db
        .prepare(
            "UPDATE thread_heads SET status = CASE
                 WHEN EXISTS (SELECT 1 FROM runs r WHERE r.thread_key = $1 AND r.status = 'pending') THEN 'busy'
                 WHEN EXISTS (SELECT 1 FROM interrupts i WHERE i.thread_id = $2 AND i.status = 'pending')
                     THEN 'interrupted'
                 ELSE 'idle' END
             WHERE thread_key = $1",
        )?
        .execute_deferred((head.key, &head.thread_id))
}

/// Inserts a thread. An existing thread with the same id is left unchanged. The counters and the first prompt are not
/// taken from `thread`; the journal maintains them. A thread without a project gets that of its parent.
///
/// # Errors
/// [`Error::Conflict`] if the id belongs, or once belonged, to a thread of another owner.
pub(crate) fn create_thread(db: &SqlConnection, thread: &Thread) -> Result<()> {
    let thread_id = thread.thread_id.to_string();
    let parent_id = thread.parent_id.map(|id| id.to_string());
    db.prepare("INSERT INTO thread_heads (thread_id) VALUES ($1) ON CONFLICT DO NOTHING")?
        .execute_deferred([&thread_id])?;
    projects::ensure_project(db, thread.project.as_deref())?;
    let new = db
        .prepare(
            "UPDATE thread_heads SET updated_at = $2, assistant_id = $3, status = $6, base_seq = last_seq, indexed_seq = last_seq,
                 copied_count = 0, message_count = 0, has_prompt = 0,
                 in_subagent = CASE WHEN EXISTS (
                     SELECT 1 FROM thread_heads p WHERE p.thread_id = $5 AND p.in_subagent = 1) THEN 1 ELSE $4 END,
                 project_key = coalesce((SELECT j.project_key FROM projects j WHERE j.path = $8),
                     (SELECT p.project_key FROM thread_heads p WHERE p.thread_id = $5), 0)
             WHERE thread_id = $1 AND updated_at IS NULL AND (assistant_id IS NULL OR owner = $7)
             RETURNING thread_key, last_seq, in_subagent, (SELECT a.agent_key FROM agents a WHERE a.agent_id = $3)",
        )?
        .query_optional(
            (
                &thread_id,
                encode_time(thread.updated_at),
                thread.assistant_id.as_str(),
                thread.parent_kind == Some(ParentKind::Subagent),
                &parent_id,
                thread.status.as_str(),
                owner_name(thread.assistant_id.as_str()),
                &thread.project,
            ),
            |row| {
                Ok(ThreadHead {
                    thread_id: thread_id.clone(),
                    key: row.get(0)?,
                    last_seq: row.get::<_, i64>(1)?.unsigned_abs(),
                    message_count: 0,
                    updated_at: encode_time(thread.updated_at),
                    assistant_id: thread.assistant_id.as_str().to_owned(),
                    has_prompt: false,
                    is_in_subagent: row.get(2)?,
                    agent_key: row.get(3)?,
                    newest_checkpoint: NewestCheckpoint::Absent,
                })
            },
        )?;
    let Some(head) = new else { return check_same_owner(db, thread) };
    if head.last_seq > 0 {
        // The id belonged to a thread whose rows may not be purged yet. The new thread must not get them.
        purges::complete_purge(db, head.key)?;
    }
    if let Some(heads) = db.heads() {
        heads.insert_head(head);
    }
    db
        .prepare(
            "INSERT INTO threads (thread_key, thread_id, assistant_id, parent_id, parent_kind, name, metadata, created_at)
             SELECT thread_key, thread_id, $2, $3, $4, $5, $6, $7 FROM thread_heads WHERE thread_id = $1",
        )?
        .execute_deferred((
            &thread_id,
            thread.assistant_id.as_str(),
            &parent_id,
            thread.parent_kind.map(|kind| kind.as_str()),
            &thread.name,
            encode_json(&thread.metadata)?,
            encode_time(thread.created_at),
        ))
}

/// Fails with [`Error::Conflict`] if the thread with this id, existing or deleted, belongs to another owner.
fn check_same_owner(db: &SqlConnection, thread: &Thread) -> Result<()> {
    let stored: Option<String> = db
        .prepare("SELECT assistant_id FROM thread_heads WHERE thread_id = $1")?
        .query_row([thread.thread_id.to_string()], |row| row.get(0))?;
    match stored.is_none_or(|stored| owner_name(&stored) == owner_name(thread.assistant_id.as_str())) {
        true => Ok(()),
        false => Err(Error::Conflict { what: "thread", id: thread.thread_id.to_string() }),
    }
}

/// Changes a thread. Its status stays `busy` as long as it has queued runs, so that it does not appear idle between
/// two runs.
///
/// # Errors
/// [`Error::NotFound`] if the thread does not exist.
pub(crate) fn update_thread(db: &SqlConnection, thread_id: ThreadId, patch: &ThreadPatch) -> Result<()> {
    match RowQueue::of(db) {
        Some(queue) => {
            let head = load_head(db, thread_id)?;
            let updated_at = patch.updated_at.map_or_else(|| head.updated_at.clone(), encode_time);
            let status = patch.status.map(|status| status.as_str());
            queue.set_status(ThreadHead { updated_at, ..head }, status);
        }
        None => update_head_row(db, thread_id, patch)?,
    }
    let id = thread_id.to_string();
    if let Some(project) = &patch.project {
        projects::set_thread_project(db, thread_id, project)?;
    }
    if patch.name.is_some() || !patch.metadata.is_empty() || !patch.remove_metadata.is_empty() {
        let metadata = encode_json(&apply_metadata_patch(db, thread_id, patch)?)?;
        db.prepare("UPDATE threads SET name = coalesce($2, name), metadata = $3 WHERE thread_id = $1")?
            .execute_deferred((&id, &patch.name, metadata))?;
    }
    Ok(())
}

/// Changes the status of a thread and the time of its last change.
///
/// # Errors
/// [`Error::NotFound`] if the thread does not exist.
fn update_head_row(db: &SqlConnection, thread_id: ThreadId, patch: &ThreadPatch) -> Result<()> {
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
        .execute((&id, patch.status.map(|status| status.as_str()), patch.updated_at.map(encode_time)))?;
    if changed == 0 { Err(not_found("thread", &thread_id)) } else { Ok(()) }
}

/// Returns the metadata of a thread with a patch applied.
fn apply_metadata_patch(
    db: &SqlConnection,
    thread_id: ThreadId,
    patch: &ThreadPatch,
) -> Result<Map<String, Value>> {
    let mut metadata: Map<String, Value> = db
        .prepare("SELECT metadata FROM threads WHERE thread_id = $1")?
        .query_optional([thread_id.to_string()], |row| read_json_column(row, "metadata"))?
        .ok_or_else(|| not_found("thread", &thread_id))?;
    metadata.retain(|key, _| !patch.remove_metadata.contains(key));
    metadata.extend(patch.metadata.clone());
    Ok(metadata)
}

/// The result of the deletions of threads in a transaction.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct DeletionReceipt {
    /// Number of removed events.
    removed_events: i64,
    /// The keys of the deleted threads whose events remain to be purged (`purges`).
    pub(crate) unpurged_threads: Vec<i64>,
}

/// Deletes a thread with everything that belongs to it. Only its id, owner and last seq are kept. Its words are found by no
/// search afterwards; the engine purges them from the file of the index later.
///
/// If the transaction would remove more than [`purges::PURGED_EVENTS_MAX`] events, those of this thread remain, together with
/// their index rows and embeddings. No read finds them. The caller purges them in further transactions.
///
/// # Errors
/// [`Error::Busy`] if a run of the thread is active.
pub(crate) fn delete_thread(
    db: &SqlConnection,
    thread_id: ThreadId,
    receipt: &mut DeletionReceipt,
) -> Result<()> {
    let head = load_head(db, thread_id)?;
    if let Some(run_id) = runs::active_run_id(db, head.key)? {
        return Err(Error::Busy { thread_id, run_id });
    }
    let DeletedThread { project_key, events, bounds } = deleted_thread(db, head.key)?;
    turns::delete(db, &head)?;
    artifacts::delete(db, head.key)?;
    facts::delete_thread(db, head.key)?;
    search::embeddings::delete_embedding_head(db, head.key)?;
    if receipt.removed_events + events <= purges::PURGED_EVENTS_MAX {
        purges::delete_rows(db, head.key, bounds)?;
        receipt.removed_events += events;
    } else {
        purges::queue_purge(db, &head, bounds)?;
        receipt.unpurged_threads.push(head.key);
    }
    db.prepare("DELETE FROM threads WHERE thread_key = $1")?.execute_deferred([head.key])?;
    // A handoff is deleted with the last of its two threads: the child needs its summary, and the parent keeps the
    // record.
    db.prepare(
        "DELETE FROM handoffs WHERE (parent_thread_id = $1 OR child_thread_id = $1)
         AND NOT EXISTS (SELECT 1 FROM threads t WHERE t.thread_id IN (parent_thread_id, child_thread_id))",
    )?
    .execute_deferred([thread_id.to_string()])?;
    db.prepare(
        "UPDATE thread_heads SET updated_at = NULL, message_count = 0, base_seq = last_seq, copied_count = 0,
             indexed_seq = last_seq, project_key = 0
         WHERE thread_key = $1",
    )?
    .execute_deferred([head.key])?;
    projects::delete_if_unused(db, project_key)
}

/// The facts about a thread that its deletion uses.
struct DeletedThread {
    /// The key of its project.
    project_key: i64,
    /// Number of its events, including superseded ones.
    events: i64,
    /// The bounds of its rows.
    bounds: purges::PurgeBounds,
}

/// Reads the facts about a thread that its deletion uses.
fn deleted_thread(db: &SqlConnection, thread_key: i64) -> Result<DeletedThread> {
    db.prepare(
        "SELECT project_key, last_seq - base_seq + copied_count, last_seq, indexed_seq
         FROM thread_heads WHERE thread_key = $1",
    )?
    .query_row([thread_key], |row| {
        Ok(DeletedThread {
            project_key: row.get(0)?,
            events: row.get(1)?,
            bounds: purges::PurgeBounds { last_seq: row.get(2)?, indexed_seq: row.get(3)? },
        })
    })
}

/// Returns the number under which the events of a thread are stored, or `None` if the thread does not exist. A deleted thread
/// has a head, and perhaps rows that are not purged yet.
pub(crate) fn thread_key(db: &SqlConnection, thread_id: ThreadId) -> Result<Option<i64>> {
    db.prepare("SELECT thread_key FROM thread_heads WHERE thread_id = $1 AND updated_at IS NOT NULL")?
        .query_optional([thread_id.to_string()], |row| row.get(0))
}

/// Returns the number under which the events of a thread are stored and the key of its project, or `None`.
pub(crate) fn key_and_project(db: &SqlConnection, thread_id: ThreadId) -> Result<Option<(i64, i64)>> {
    db.prepare(
        "SELECT thread_key, project_key FROM thread_heads WHERE thread_id = $1 AND updated_at IS NOT NULL",
    )?
    .query_optional([thread_id.to_string()], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Returns the number under which the events of a thread are stored and its highest assigned seq, or `None`.
pub(crate) fn key_and_last_seq(db: &SqlConnection, thread_id: ThreadId) -> Result<Option<(i64, i64)>> {
    db.prepare(
        "SELECT thread_key, last_seq FROM thread_heads WHERE thread_id = $1 AND updated_at IS NOT NULL",
    )?
    .query_optional([thread_id.to_string()], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Returns the thread with this id, or `None`.
pub(crate) fn find(db: &SqlConnection, thread_id: ThreadId) -> Result<Option<Thread>> {
    db.prepare(&format!(
        "SELECT {COLUMNS} FROM thread_heads h JOIN threads t ON t.thread_key = h.thread_key
         WHERE h.thread_id = $1"
    ))?
    .query_optional([thread_id.to_string()], read_thread)
}

/// Returns up to [`PREFIX_IDS_MAX`] ids of threads of a scope that begin with `prefix`. Hyphens in the prefix are
/// ignored.
pub(crate) fn ids_by_prefix(db: &SqlConnection, prefix: &str, scope: &OwnerScope) -> Result<Vec<ThreadId>> {
    let Some(prefix) = hyphenate_prefix(prefix) else { return Ok(Vec::new()) };
    // `g` follows all hex digits and the hyphen, so this is an exclusive upper bound.
    let end = format!("{prefix}g");
    let mut statement = db.prepare(
        "SELECT thread_id FROM threads WHERE thread_id >= $1 AND thread_id < $2 AND (CAST($4 AS TEXT) IS NULL OR owner = $4)
         ORDER BY thread_id LIMIT $3",
    )?;
    let parameters =
        (prefix, end, encode_counter(PREFIX_IDS_MAX as u64), owners::owner_column_value(Some(scope)));
    statement.query_map(parameters, |row| read_column::<ThreadId>(row, "thread_id"))
}

/// Returns the prefix of a UUID in hyphenated form, or `None` if no UUID begins with it.
pub(crate) fn hyphenate_prefix(prefix: &str) -> Option<String> {
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

/// Reads a thread from a row with [`COLUMNS`].
pub(crate) fn read_thread(row: &SqlRow<'_>) -> Result<Thread> {
    read_thread_with_metadata(row, read_json_column(row, "metadata")?)
}

/// Reads a thread whose metadata has been read already.
fn read_thread_with_metadata(row: &SqlRow<'_>, metadata: Map<String, Value>) -> Result<Thread> {
    Ok(Thread {
        thread_id: read_column(row, "thread_id")?,
        assistant_id: read_column(row, "assistant_id")?,
        parent_id: read_optional_column(row, "parent_id")?,
        parent_kind: read_optional_column(row, "parent_kind")?,
        name: row.get("name")?,
        status: read_column(row, "status")?,
        metadata,
        first_prompt: row.get("first_prompt")?,
        message_count: read_counter(row, "message_count")?,
        last_seq: read_counter(row, "last_seq")?,
        created_at: read_column(row, "created_at")?,
        updated_at: read_column(row, "updated_at")?,
        project: row.get("project")?,
    })
}
