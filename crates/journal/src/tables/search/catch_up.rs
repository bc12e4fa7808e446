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

/// How far a pass over all threads is. When one is at its end, everything that was stored when it began is in the index, however
/// busy the threads are that it has passed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Pass {
    /// The number of the first thread it has before it.
    first: i64,
}

/// Whether a batch left anything to index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CatchUp {
    /// There is more; the pass goes on there.
    Unfinished(Pass),
    /// The index has every message that was committed when the pass began.
    Finished,
}

/// Returns whether anything was stored since, as far as the pass has it before it, that the index has not.
pub(crate) fn is_behind(db: &Connection, pass: Pass) -> Result<bool> {
    db
        .prepare(
            "SELECT 1 FROM thread_heads WHERE indexed_seq < last_seq AND updated_at IS NOT NULL AND thread_key >= $1
             UNION ALL SELECT 1 FROM handoff_index WHERE is_due = 1 LIMIT 1",
        )?
        .exists([pass.first])
}

/// Indexes one bounded batch of messages; the caller commits.
pub(crate) fn index_batch(db: &Connection, pass: Pass) -> Result<CatchUp> {
    let heads: Vec<(i64, i64, i64)> = db
        .prepare(
            "SELECT thread_key, indexed_seq, last_seq FROM thread_heads
             WHERE indexed_seq < last_seq AND updated_at IS NOT NULL AND thread_key >= $1 ORDER BY thread_key LIMIT $2",
        )?
        .query_map([pass.first, integer(BATCH_THREADS_MAX as u64)], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
    let mut budget = Budget { rows: BATCH_ROWS_MAX, bytes: BATCH_BYTES_MAX };
    let mut reached = Vec::with_capacity(heads.len());
    let mut next = pass;
    for (key, indexed_seq, last_seq) in &heads {
        let seq = index_thread(db, *key, *indexed_seq, *last_seq, &mut budget)?;
        next.first = if seq < *last_seq { *key } else { *key + 1 };
        reached.push((key, seq));
        if budget.is_spent() {
            break;
        }
    }
    let handoffs = if budget.is_spent() { 0 } else { index_handoffs(db)? };
    // Last of all, and in the order in which others take hold of heads: whoever appends to one waits from here on.
    let mut note = db.prepare("UPDATE thread_heads SET indexed_seq = $2 WHERE thread_key = $1")?;
    reached.into_iter().try_for_each(|reached| note.send(reached))?;
    let is_full = budget.is_spent() || heads.len() == BATCH_THREADS_MAX || handoffs == BATCH_HANDOFFS_MAX;
    Ok(if is_full { CatchUp::Unfinished(next) } else { CatchUp::Finished })
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
    db: &Connection,
    key: i64,
    indexed_seq: i64,
    last_seq: i64,
    budget: &mut Budget,
) -> Result<i64> {
    let mut statement = db.prepare(
        "SELECT seq, content FROM events
         WHERE thread_key = $1 AND seq > $2 AND seq <= $3 AND category = 'message' ORDER BY seq
         LIMIT $4",
    )?;
    let mut reached = last_seq;
    let limit = integer(budget.rows as u64);
    statement.each((key, indexed_seq, last_seq, limit), |row| {
        let seq: i64 = row.get(0)?;
        let content = row.text(1)?;
        if let Some(text) = text_of(&content) {
            index::put(db, index_row(key, seq), &text)?;
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
fn index_handoffs(db: &Connection) -> Result<usize> {
    let due = db
        .prepare("SELECT handoff_key FROM handoff_index WHERE is_due = 1 LIMIT $1")?
        .query_map([integer(BATCH_HANDOFFS_MAX as u64)], |row| row.get(0))?;
    for key in &due {
        // First of all: a proposal that is stored while its handoff is read makes it due again.
        db.prepare("UPDATE handoff_index SET is_due = 0 WHERE handoff_key = $1")?.execute([key])?;
        match places::handoff_text(db, *key)? {
            Some(text) => texts::put(db, Kind::Handoff, *key, &text)?,
            None => texts::remove(db, Kind::Handoff, *key)?,
        }
    }
    Ok(due.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_ends_with_all_that_was_there_when_it_began_however_busy_others_are() {
        let sqlite = crate::engines::sqlite::memory().unwrap();
        let stored = "WITH RECURSIVE keys (key) AS (VALUES (1) UNION ALL SELECT key + 1 FROM keys WHERE key < 250)
            INSERT INTO thread_heads (thread_key, thread_id, last_seq, updated_at) SELECT key, 'thread ' || key, 1, 'now' FROM keys";
        sqlite.execute_batch(stored).unwrap();
        let db = Connection::Sqlite(&sqlite);
        let mut pass = Pass::default();
        let mut batches = 1;
        while let CatchUp::Unfinished(next) = index_batch(&db, pass).unwrap() {
            (pass, batches) = (next, batches + 1);
            // More threads than a batch looks at are said something in again.
            sqlite
                .execute_batch("UPDATE thread_heads SET last_seq = last_seq + 1 WHERE thread_key <= 150")
                .unwrap();
            assert!(batches < 10);
        }
        let left = "SELECT count(*) FROM thread_heads WHERE indexed_seq = 0";
        assert_eq!((batches, sqlite.query_row(left, [], |row| row.get(0))), (3, Ok(0)));
        assert!(is_behind(&db, Pass::default()).unwrap() && !is_behind(&db, pass).unwrap());
    }
}
