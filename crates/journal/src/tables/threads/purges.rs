//! Purges: the rows that the deletion of a long thread leaves, and their removal in parts of limited size. No read finds these
//! rows, because every read of events goes through the head of a thread that exists. What can be found in another way is
//! deleted together with the thread (`threads::delete_thread`).

use serde::{Deserialize, Serialize};

use super::ThreadHead;
use crate::engines::sql::{SqlConnection, SqlDialect};
use crate::tables::columns::{encode_json, read_json_column};
use crate::tables::keyed_rows;
use crate::tables::search::{self, PurgeState};
use crate::{Error, Result};

/// The kind of the outbox items of pending purges, whose keys are those of the deleted threads. The queries in
/// `consistency` name it too.
const PURGE_KIND: &str = "purge_thread";

/// Maximum number of events that a transaction of a purge removes. With their rows in the search index, this takes about as
/// long as indexing a batch of messages, for which an append waits too.
pub(crate) const PURGED_EVENTS_MAX: i64 = 500;

/// Finds the purge that has been pending longest.
const NEXT_PURGE_SQL: &str = "SELECT key FROM outbox WHERE kind = $1 ORDER BY created_at, key LIMIT 1";

/// Finds the last of the first `$3` events of the thread `$1` up to the seq `$2`, and their number.
const PART_SQL: &str = "SELECT max(part.seq), count(*) FROM (
         SELECT seq FROM events WHERE thread_key = $1 AND seq <= $2 ORDER BY seq LIMIT $3) AS part";

/// Deletes the events of the thread `$1` up to the seq `$2`.
const DELETE_EVENTS_SQL: &str = "DELETE FROM events WHERE thread_key = $1 AND seq <= $2";

/// The rows of a deleted thread that a purge removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PurgeBounds {
    /// The last seq of the thread. A later thread with the same id has only higher ones.
    pub(crate) last_seq: i64,
    /// The seq up to which the messages of the thread are in the search index.
    pub(crate) indexed_seq: i64,
}

/// Records that the rows of a thread remain when it is deleted.
pub(super) fn queue_purge(db: &SqlConnection, head: &ThreadHead, bounds: PurgeBounds) -> Result<()> {
    db.prepare("INSERT INTO outbox (kind, key, payload, attempts, created_at) VALUES ($1, $2, $3, 0, $4)")?
        .execute_deferred((PURGE_KIND, head.key.to_string(), encode_json(&bounds)?, &head.updated_at))
}

/// Removes the rows of a deleted thread within bounds: its messages from the search index, their embeddings, and its events.
pub(super) fn delete_rows(db: &SqlConnection, thread_key: i64, bounds: PurgeBounds) -> Result<()> {
    db.prepare(
        "DELETE FROM search_index WHERE rowid IN (
             SELECT e.thread_key << 32 | e.seq FROM events e
             WHERE e.thread_key = $1 AND e.seq <= $2 AND e.category = 'message')",
    )?
    .execute_deferred((thread_key, bounds.last_seq.min(bounds.indexed_seq)))?;
    search::embeddings::delete_embeddings(db, thread_key, bounds.last_seq)?;
    db.prepare(DELETE_EVENTS_SQL)?.execute_deferred((thread_key, bounds.last_seq))
}

/// Performs a step of the purge that has been pending longest. The caller commits after each step, and repeats until no
/// purge is pending.
pub(crate) fn purge_next_part(db: &SqlConnection) -> Result<PurgeState> {
    match next_purge(db)? {
        Some(thread_key) => purge_part(db, thread_key).map(|_| PurgeState::Incomplete),
        None => Ok(PurgeState::Complete),
    }
}

/// Returns the key of the thread whose purge has been pending longest, or `None`.
pub(crate) fn next_purge(db: &SqlConnection) -> Result<Option<i64>> {
    let key: Option<String> = db.prepare(NEXT_PURGE_SQL)?.query_optional([PURGE_KIND], |row| row.get(0))?;
    let parse = |key: String| {
        key.parse::<i64>().map_err(|_| Error::Malformed(format!("the purge of the thread key `{key}`")))
    };
    key.map(parse).transpose()
}

/// Removes at most [`PURGED_EVENTS_MAX`] events of a deleted thread, the oldest first, with everything that refers to them. The
/// purge is no longer pending afterwards if these were the last. A purge that is not pending is complete.
pub(crate) fn purge_part(db: &SqlConnection, thread_key: i64) -> Result<PurgeState> {
    let Some(bounds) = lock_purge(db, thread_key)? else { return Ok(PurgeState::Complete) };
    let (last_seq, events): (Option<i64>, i64) = db
        .prepare(PART_SQL)?
        .query_row((thread_key, bounds.last_seq, PURGED_EVENTS_MAX), |row| Ok((row.get(0)?, row.get(1)?)))?;
    if let Some(last_seq) = last_seq {
        delete_rows(db, thread_key, PurgeBounds { last_seq, ..bounds })?;
    }
    if events == PURGED_EVENTS_MAX {
        return Ok(PurgeState::Incomplete);
    }
    keyed_rows::remove_outbox_item(db, PURGE_KIND, &thread_key.to_string(), None)?;
    Ok(PurgeState::Complete)
}

/// Completes the pending purge of a deleted thread within the transaction, because a new thread gets its id.
pub(super) fn complete_purge(db: &SqlConnection, thread_key: i64) -> Result<()> {
    while purge_part(db, thread_key)? == PurgeState::Incomplete {}
    Ok(())
}

/// Returns the bounds of a pending purge, or `None`. On PostgreSQL it locks the row, so that two processes do not delete the
/// same rows in different orders.
fn lock_purge(db: &SqlConnection, thread_key: i64) -> Result<Option<PurgeBounds>> {
    let lock = match db.dialect() {
        SqlDialect::Sqlite => "",
        SqlDialect::Postgres => " FOR UPDATE",
    };
    db.prepare(&format!("SELECT payload FROM outbox WHERE kind = $1 AND key = $2{lock}"))?
        .query_optional((PURGE_KIND, thread_key.to_string()), |row| read_json_column(row, "payload"))
}

#[cfg(test)]
mod tests;
