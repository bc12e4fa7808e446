//! Incremental update of the index with messages and handoffs that were stored since. It works in small batches, so
//! that appends are not delayed. Searching is not done here.

use std::ops::ControlFlow;

use crate::engines::sql::SqlConnection;

use super::document_index::{self, DocumentKind};
use super::{documents, index, message_row};
use crate::Result;
use crate::tables::columns::encode_counter;
use crate::tables::memory::turns::visible_text;

/// Maximum number of messages in a batch. An append waits for one batch at most.
const BATCH_ROWS_MAX: usize = 500;
/// Number of content bytes after which a batch ends.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// Maximum number of threads in a batch.
const BATCH_THREADS_MAX: usize = 100;
/// Maximum number of handoffs in a batch.
const BATCH_HANDOFFS_MAX: usize = 100;

/// The position of a pass over all threads. A finished pass guarantees that everything committed before it started is
/// indexed, even if the threads that it has passed receive further messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct IndexPass {
    /// The key of the first thread that the pass has not processed yet.
    next_thread_key: i64,
}

/// The result of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IndexBatchResult {
    /// The pass has to continue at this position.
    Unfinished(IndexPass),
    /// The pass is complete: all messages committed before it started are indexed.
    Finished,
}

/// Returns whether there are unindexed rows in the part that the pass has not processed yet.
pub(crate) fn is_behind(db: &SqlConnection, pass: IndexPass) -> Result<bool> {
    db
        .prepare(
            "SELECT 1 FROM thread_heads WHERE indexed_seq < last_seq AND updated_at IS NOT NULL AND thread_key >= $1
             UNION ALL SELECT 1 FROM handoff_index WHERE is_due = 1 LIMIT 1",
        )?
        .exists([pass.next_thread_key])
}

/// Indexes one batch. The caller commits.
pub(crate) fn index_batch(db: &SqlConnection, pass: IndexPass) -> Result<IndexBatchResult> {
    let heads: Vec<(i64, i64, i64)> = db
        .prepare(
            "SELECT thread_key, indexed_seq, last_seq FROM thread_heads
             WHERE indexed_seq < last_seq AND updated_at IS NOT NULL AND thread_key >= $1 ORDER BY thread_key LIMIT $2",
        )?
        .query_map([pass.next_thread_key, encode_counter(BATCH_THREADS_MAX as u64)], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
    let mut budget = IndexBatchBudget { rows: BATCH_ROWS_MAX, bytes: BATCH_BYTES_MAX };
    let mut reached = Vec::with_capacity(heads.len());
    let mut next = pass;
    for (key, indexed_seq, last_seq) in &heads {
        let seq = index_thread(db, *key, *indexed_seq, *last_seq, &mut budget)?;
        next.next_thread_key = if seq < *last_seq { *key } else { *key + 1 };
        reached.push((key, seq));
        if budget.is_exhausted() {
            break;
        }
    }
    let handoffs = if budget.is_exhausted() { 0 } else { index_handoffs(db)? };
    // Heads are updated at the end and in ascending order, like in other transactions, because appends to a locked
    // head wait until the commit.
    let mut update = db.prepare("UPDATE thread_heads SET indexed_seq = $2 WHERE thread_key = $1")?;
    reached.into_iter().try_for_each(|position| update.execute_deferred(position))?;
    let is_full = budget.is_exhausted() || heads.len() == BATCH_THREADS_MAX || handoffs == BATCH_HANDOFFS_MAX;
    Ok(if is_full { IndexBatchResult::Unfinished(next) } else { IndexBatchResult::Finished })
}

/// The remaining capacity of a batch.
struct IndexBatchBudget {
    /// Remaining number of messages.
    rows: usize,
    /// Remaining number of content bytes.
    bytes: usize,
}

impl IndexBatchBudget {
    /// Returns whether the batch is full.
    fn is_exhausted(&self) -> bool {
        self.rows == 0 || self.bytes == 0
    }
}

/// Indexes messages of a thread until the budget is exhausted, and returns the seq up to which the thread is indexed.
fn index_thread(
    db: &SqlConnection,
    key: i64,
    indexed_seq: i64,
    last_seq: i64,
    budget: &mut IndexBatchBudget,
) -> Result<i64> {
    let mut statement = db.prepare(
        "SELECT seq, content FROM events
         WHERE thread_key = $1 AND seq > $2 AND seq <= $3 AND category = 'message' ORDER BY seq
         LIMIT $4",
    )?;
    let mut reached = last_seq;
    let limit = encode_counter(budget.rows as u64);
    statement.for_each_row((key, indexed_seq, last_seq, limit), |row| {
        let seq: i64 = row.get(0)?;
        let content = row.get_text(1)?;
        if let Some(text) = visible_text(&content) {
            index::insert_row(db, message_row(key, seq), &text)?;
        }
        budget.rows -= 1;
        budget.bytes = budget.bytes.saturating_sub(content.len());
        if budget.is_exhausted() {
            reached = seq;
            return Ok(ControlFlow::Break(()));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(reached)
}

/// Indexes handoffs whose effective proposal has changed, and returns their number.
fn index_handoffs(db: &SqlConnection) -> Result<usize> {
    let due = db
        .prepare("SELECT handoff_key FROM handoff_index WHERE is_due = 1 LIMIT $1")?
        .query_map([encode_counter(BATCH_HANDOFFS_MAX as u64)], |row| row.get(0))?;
    for key in &due {
        // Clear the mark first, so that a proposal stored while the handoff is read marks it again.
        db.prepare("UPDATE handoff_index SET is_due = 0 WHERE handoff_key = $1")?.execute([key])?;
        match documents::handoff_text(db, *key)? {
            Some(text) => document_index::index_document(db, DocumentKind::Handoff, *key, &text)?,
            None => document_index::remove_document(db, DocumentKind::Handoff, *key)?,
        }
    }
    Ok(due.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finished_pass_has_indexed_all_earlier_messages_even_if_threads_stay_busy() {
        let sqlite = crate::engines::sqlite::open_in_memory().unwrap();
        let insert_threads = "WITH RECURSIVE keys (key) AS (VALUES (1) UNION ALL SELECT key + 1 FROM keys WHERE key < 250)
            INSERT INTO thread_heads (thread_key, thread_id, last_seq, updated_at) SELECT key, 'thread ' || key, 1, 'now' FROM keys";
        sqlite.execute_batch(insert_threads).unwrap();
        let db = SqlConnection::Sqlite(&sqlite);
        let mut pass = IndexPass::default();
        let mut batches = 1;
        while let IndexBatchResult::Unfinished(next) = index_batch(&db, pass).unwrap() {
            (pass, batches) = (next, batches + 1);
            // Append to more threads than a batch covers.
            sqlite
                .execute_batch("UPDATE thread_heads SET last_seq = last_seq + 1 WHERE thread_key <= 150")
                .unwrap();
            assert!(batches < 10);
        }
        let unindexed = "SELECT count(*) FROM thread_heads WHERE indexed_seq = 0";
        assert_eq!((batches, sqlite.query_row(unindexed, [], |row| row.get(0))), (3, Ok(0)));
        assert!(is_behind(&db, IndexPass::default()).unwrap() && !is_behind(&db, pass).unwrap());
    }
}
