//! Catching up the index with what was stored since, in batches that hold up no append. Looking for anything in it is
//! not done here.

use std::ops::ControlFlow;

use crate::engines::sql::Connection;

use super::texts::{self, Kind};
use super::{index, index_row, places};
use crate::Result;
use crate::tables::columns::integer;
use crate::tables::memory::turns::text_of;

/// Messages one batch of catching up reads, so that appends wait no longer than for one batch.
const BATCH_ROWS_MAX: usize = 500;
/// Bytes of content one batch reads before it ends.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// Threads one batch looks at.
const BATCH_THREADS_MAX: usize = 100;
/// Handoffs one batch indexes.
const BATCH_HANDOFFS_MAX: usize = 100;

/// Whether a batch left anything to index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CatchUp {
    /// There is more.
    Unfinished,
    /// The index has every message committed so far.
    Finished,
}

/// Returns whether anything was stored since that the index has not.
pub(crate) fn is_behind(connection: &Connection) -> Result<bool> {
    connection
        .prepare_cached(
            "SELECT 1 FROM thread_heads WHERE indexed_seq < last_seq AND updated_at IS NOT NULL
             UNION ALL SELECT 1 FROM handoff_index WHERE is_due = 1 LIMIT 1",
        )?
        .exists(())
}

/// Indexes one bounded batch of messages; the caller commits.
pub(crate) fn index_batch(connection: &Connection) -> Result<CatchUp> {
    let heads = connection
        .prepare_cached(
            "SELECT thread_key, indexed_seq, last_seq FROM thread_heads
             WHERE indexed_seq < last_seq AND updated_at IS NOT NULL ORDER BY thread_key LIMIT ?1",
        )?
        .query_map([integer(BATCH_THREADS_MAX as u64)], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let mut budget = Budget { rows: BATCH_ROWS_MAX, bytes: BATCH_BYTES_MAX };
    let mut reached = Vec::with_capacity(heads.len());
    for (key, indexed_seq, last_seq) in &heads {
        reached.push((key, index_thread(connection, *key, (*indexed_seq, *last_seq), &mut budget)?));
        if budget.is_spent() {
            break;
        }
    }
    let handoffs = if budget.is_spent() { 0 } else { index_handoffs(connection)? };
    // Last of all, and in the order in which others take hold of heads: whoever appends to one waits from here on.
    let mut note =
        connection.prepare_cached("UPDATE thread_heads SET indexed_seq = ?2 WHERE thread_key = ?1")?;
    reached.into_iter().try_for_each(|reached| note.send(reached))?;
    if budget.is_spent() {
        return Ok(CatchUp::Unfinished);
    }
    let is_full = heads.len() == BATCH_THREADS_MAX || handoffs == BATCH_HANDOFFS_MAX;
    Ok(if is_full { CatchUp::Unfinished } else { CatchUp::Finished })
}

struct Budget {
    rows: usize,
    bytes: usize,
}

impl Budget {
    fn is_spent(&self) -> bool {
        self.rows == 0 || self.bytes == 0
    }
}

/// Returns the seq up to which the thread is indexed.
fn index_thread(
    connection: &Connection,
    key: i64,
    (indexed_seq, last_seq): (i64, i64),
    budget: &mut Budget,
) -> Result<i64> {
    let mut statement = connection.prepare_cached(
        "SELECT seq, content FROM events
         WHERE thread_key = ?1 AND seq > ?2 AND seq <= ?3 AND category = 'message' ORDER BY seq
         LIMIT ?4",
    )?;
    let mut reached = last_seq;
    let limit = integer(budget.rows as u64);
    statement.each((key, indexed_seq, last_seq, limit), |row| {
        let seq: i64 = row.get(0)?;
        let content = row.text(1)?;
        if let Some(text) = text_of(&content) {
            index::put(connection, index_row(key, seq), &text)?;
        }
        budget.rows -= 1;
        budget.bytes = budget.bytes.saturating_sub(content.len());
        if budget.is_spent() {
            reached = seq;
            return Ok(ControlFlow::Break(()));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(reached)
}

/// Indexes handoffs whose proposal that counts is another one since, and returns how many there were.
fn index_handoffs(connection: &Connection) -> Result<usize> {
    let due = connection
        .prepare_cached("SELECT handoff_key FROM handoff_index WHERE is_due = 1 LIMIT ?1")?
        .query_map([integer(BATCH_HANDOFFS_MAX as u64)], |row| row.get(0))?;
    for key in &due {
        // First of all: a proposal that is stored while its handoff is read makes it due again.
        connection
            .prepare_cached("UPDATE handoff_index SET is_due = 0 WHERE handoff_key = ?1")?
            .execute([key])?;
        match places::handoff_text(connection, *key)? {
            Some(text) => texts::put(connection, Kind::Handoff, *key, &text)?,
            None => texts::remove(connection, Kind::Handoff, *key)?,
        }
    }
    Ok(due.len())
}
