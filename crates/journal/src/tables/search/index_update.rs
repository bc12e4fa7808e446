//! Incremental update of the index with messages and handoffs that were stored since, and the backlog that is left. It
//! works in small batches, so that appends are not delayed. Searching is not done here.

pub(crate) mod embeddings;

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::{ControlFlow, RangeInclusive};

use protocol::{AssistantId, Thread, ThreadId};

use crate::engines::sql::{SqlConnection, SqlDialect, SqlParams, SqlRow, SqlValue};

use super::document_index::{self, DocumentKind};
use super::search_scope::SEARCHED_THREADS;
use super::{documents, index, message_row};
use crate::tables::columns::{encode_counter, encode_time};
use crate::tables::memory::turns::visible_text;
use crate::tables::threads::projects;
use crate::tables::{owners, threads};
use crate::{Error, IndexBacklog, IndexHitKind, Result, SearchQuery};

/// Maximum number of messages in a batch. An append waits for one batch at most.
const BATCH_ROWS_MAX: usize = 500;
/// Number of content bytes after which a batch ends.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// Maximum number of threads in a batch.
const BATCH_THREADS_MAX: usize = 100;
/// Maximum number of handoffs in a batch.
const BATCH_HANDOFFS_MAX: usize = 100;

/// Estimated number of messages of a thread that are not indexed yet. It is exact if nothing of the thread is indexed;
/// otherwise, messages are assumed to be spread evenly among the events.
const UNINDEXED_MESSAGES: &str = "CASE WHEN indexed_seq <= base_seq - copied_count THEN message_count
    ELSE (message_count * (last_seq - indexed_seq) + last_seq - base_seq + copied_count - 1)
        / (last_seq - base_seq + copied_count) END";

/// Returns the SQL condition for the rows of `thread_heads`, which has the name `heads` in the query, that are not of temporary
/// threads. Indexing the messages of a
/// thread that is deleted after its only run would cost more than the run, and so would removing them from the index.
fn permanent_threads_condition(dialect: SqlDialect, heads: &str) -> String {
    format!(
        "NOT EXISTS (SELECT 1 FROM threads t WHERE t.thread_key = {heads}.thread_key AND {} IS NOT NULL)",
        dialect.json_field("t.metadata", Thread::TEMPORARY_KEY)
    )
}

/// The messages that a search needs in the index.
#[derive(Debug, Clone)]
pub(crate) enum IndexScope {
    /// The messages that match the filters of a search.
    Search(SearchQuery),
    /// The messages of these threads. Those of the first thread are indexed first.
    Threads(Vec<ThreadId>),
}

impl IndexScope {
    /// Returns whether the scope contains messages.
    pub(crate) fn includes_messages(&self) -> bool {
        match self {
            Self::Search(query) => query.kinds.is_empty() || query.kinds.contains(&IndexHitKind::Message),
            Self::Threads(_) => true,
        }
    }

    /// Returns the SQL condition for the threads of the scope with unindexed events, with the parameters of
    /// [`HeadFilter::params`]. Temporary threads belong to a scope only if it names them.
    fn head_condition(&self, dialect: SqlDialect) -> String {
        let names_threads = match self {
            Self::Search(query) => query.thread_id.is_some(),
            Self::Threads(_) => true,
        };
        let kept = if names_threads {
            "TRUE".to_owned()
        } else {
            permanent_threads_condition(dialect, "thread_heads")
        };
        format!("indexed_seq < last_seq AND {SEARCHED_THREADS} AND thread_key BETWEEN $5 AND $6 AND {kept}")
    }

    /// Returns whether the scope contains handoffs.
    fn includes_handoffs(&self) -> bool {
        match self {
            Self::Search(query) => query.kinds.is_empty() || query.kinds.contains(&IndexHitKind::Handoff),
            Self::Threads(_) => false,
        }
    }
}

/// A filter of the heads of threads.
struct HeadFilter<'a> {
    /// The filters of a search; `None` if only the keys decide.
    query: Option<&'a SearchQuery>,
    /// The key of the only project; `None` means any.
    project_key: Option<i64>,
    /// The keys of the threads.
    keys: RangeInclusive<i64>,
}

impl HeadFilter<'_> {
    /// Returns the parameters of [`IndexScope::head_condition`].
    fn params(&self) -> impl SqlParams {
        (
            self.query.and_then(|query| query.assistant_id.as_ref()).map(AssistantId::as_str),
            self.query.and_then(|query| query.since).map(encode_time),
            owners::owner_column_value(self.query.and_then(|query| query.scope.as_ref())),
            self.project_key,
            *self.keys.start(),
            *self.keys.end(),
        )
    }
}

/// The state of the index for a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScopeIndexState {
    /// Everything in the scope that was committed before the update began is indexed.
    Complete,
    /// A part of the scope is not indexed yet.
    Incomplete,
}

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
        .prepare(&format!(
            "SELECT 1 FROM thread_heads WHERE indexed_seq < last_seq AND updated_at IS NOT NULL AND thread_key >= $1 AND {}
             UNION ALL SELECT 1 FROM handoff_index WHERE is_due = 1 LIMIT 1",
            permanent_threads_condition(db.dialect(), "thread_heads")
        ))?
        .exists([pass.next_thread_key])
}

/// Returns whether something in the scope is not indexed yet.
pub(crate) fn is_scope_behind(db: &SqlConnection, scope: &IndexScope) -> Result<bool> {
    let has_due_handoff = || db.prepare("SELECT 1 FROM handoff_index WHERE is_due = 1 LIMIT 1")?.exists(());
    Ok(!heads_behind(db, scope, 1)?.is_empty() || (scope.includes_handoffs() && has_due_handoff()?))
}

/// Returns the messages of the scope that are not indexed yet.
pub(crate) fn scope_backlog(db: &SqlConnection, scope: &IndexScope) -> Result<IndexBacklog> {
    let mut statement = db.prepare(&format!(
        "SELECT CAST(coalesce(sum({UNINDEXED_MESSAGES}), 0) AS BIGINT),
             CAST(coalesce(sum(CASE WHEN message_count > 0 THEN 1 ELSE 0 END), 0) AS BIGINT)
         FROM thread_heads WHERE {}",
        scope.head_condition(db.dialect())
    ))?;
    let mut backlog = IndexBacklog::default();
    for filter in head_filters(db, scope)? {
        let (messages, threads): (i64, i64) =
            statement.query_row(filter.params(), |row| Ok((row.get(0)?, row.get(1)?)))?;
        backlog.messages += messages.unsigned_abs();
        backlog.threads += threads.unsigned_abs();
    }
    Ok(backlog)
}

/// Returns the estimated number of messages of the scope that have no embedding of a model.
pub(crate) fn missing_embeddings(db: &SqlConnection, model: &str, scope: &IndexScope) -> Result<u64> {
    let model_key = embeddings::model_key(db, model)?;
    match scope {
        IndexScope::Search(_) if !scope.includes_messages() => Ok(0),
        IndexScope::Search(query) => embeddings::count_missing(db, model_key, query),
        IndexScope::Threads(threads) => threads.iter().try_fold(0, |missing, thread_id| {
            let query = SearchQuery { thread_id: Some(*thread_id), ..SearchQuery::default() };
            Ok(missing + embeddings::count_missing(db, model_key, &query)?)
        }),
    }
}

/// Indexes one batch of a scope, the most recently changed threads first. The caller commits.
pub(crate) fn index_scope_batch(db: &SqlConnection, scope: &IndexScope) -> Result<ScopeIndexState> {
    let mut heads = heads_behind(db, scope, BATCH_THREADS_MAX)?;
    let budget = index_heads(db, &mut heads)?;
    let handoffs = if scope.includes_handoffs() { index_handoffs(db)? } else { 0 };
    let is_last = heads.len() < BATCH_THREADS_MAX && handoffs < BATCH_HANDOFFS_MAX;
    Ok(match is_last && !budget.is_exhausted() {
        true => ScopeIndexState::Complete,
        false => ScopeIndexState::Incomplete,
    })
}

/// Indexes one batch. The caller commits.
pub(crate) fn index_batch(db: &SqlConnection, pass: IndexPass) -> Result<IndexBatchResult> {
    let mut heads = db
        .prepare(&format!(
            "SELECT thread_key, indexed_seq, last_seq FROM thread_heads
             WHERE indexed_seq < last_seq AND updated_at IS NOT NULL AND thread_key >= $1 AND {}
             ORDER BY thread_key LIMIT $2",
            permanent_threads_condition(db.dialect(), "thread_heads")
        ))?
        .query_map([pass.next_thread_key, encode_counter(BATCH_THREADS_MAX as u64)], read_head)?;
    let budget = index_heads(db, &mut heads)?;
    // After the threads, because a transaction that creates a handoff writes to its threads first. In the other order the
    // two would wait for each other's rows.
    let handoffs = index_handoffs(db)?;
    let is_last = heads.len() < BATCH_THREADS_MAX && handoffs < BATCH_HANDOFFS_MAX;
    let next_thread_key = match heads.last() {
        Some(head) if head.indexed_seq < head.last_seq => head.key,
        Some(head) => head.key + 1,
        None => pass.next_thread_key,
    };
    Ok(match is_last && !budget.is_exhausted() {
        true => IndexBatchResult::Finished,
        false => IndexBatchResult::Unfinished(IndexPass { next_thread_key }),
    })
}

/// How far a thread is indexed.
struct UnindexedHead {
    /// The key of the thread.
    key: i64,
    /// The seq up to which the thread is indexed.
    indexed_seq: i64,
    /// The last seq of the thread.
    last_seq: i64,
}

/// Reads the columns `thread_key`, `indexed_seq` and `last_seq`.
fn read_head(row: &SqlRow<'_>) -> Result<UnindexedHead> {
    Ok(UnindexedHead { key: row.get(0)?, indexed_seq: row.get(1)?, last_seq: row.get(2)? })
}

/// Returns the filters that match the threads of a scope.
fn head_filters<'a>(db: &SqlConnection, scope: &'a IndexScope) -> Result<Vec<HeadFilter<'a>>> {
    // A thread that does not exist has no messages, and no thread has the key 0.
    let keys = |thread_id| threads::thread_key(db, thread_id).map(|key| key.map_or(0..=0, |key| key..=key));
    match scope {
        IndexScope::Search(_) if !scope.includes_messages() => Ok(Vec::new()),
        IndexScope::Search(query) => Ok(vec![HeadFilter {
            query: Some(query),
            project_key: projects::scope_key(db, &query.project)?,
            keys: query.thread_id.map_or(Ok(0..=i64::MAX), keys)?,
        }]),
        IndexScope::Threads(thread_ids) => {
            let mut filters: Vec<HeadFilter<'_>> = Vec::with_capacity(thread_ids.len());
            for thread_id in thread_ids {
                let keys = keys(*thread_id)?;
                // A thread that is named twice must not be indexed twice.
                if filters.iter().all(|filter| filter.keys != keys) {
                    filters.push(HeadFilter { query: None, project_key: None, keys });
                }
            }
            Ok(filters)
        }
    }
}

/// Returns up to `limit` threads of the scope with unindexed events. Named threads keep their order. Threads of a search are
/// sorted by the time of their last change, so that the messages of a turn that has just ended come before those of an
/// import.
fn heads_behind(db: &SqlConnection, scope: &IndexScope, limit: usize) -> Result<Vec<UnindexedHead>> {
    let mut statement = db.prepare(&format!(
        "SELECT thread_key, indexed_seq, last_seq FROM thread_heads WHERE {}
         ORDER BY updated_at DESC, thread_key DESC LIMIT {limit}",
        scope.head_condition(db.dialect())
    ))?;
    let mut heads = Vec::new();
    for filter in head_filters(db, scope)? {
        heads.extend(statement.query_map(filter.params(), read_head)?);
    }
    heads.truncate(limit);
    Ok(heads)
}

/// Indexes the unindexed messages of threads in this order until the batch is full. Removes the threads that it has not
/// reached from `heads`, and returns the rest of the budget.
fn index_heads(db: &SqlConnection, heads: &mut Vec<UnindexedHead>) -> Result<IndexBatchBudget> {
    let mut budget = IndexBatchBudget { rows: BATCH_ROWS_MAX, bytes: BATCH_BYTES_MAX };
    let mut reached = 0;
    let mut ranges = Vec::with_capacity(heads.len());
    for head in heads.iter_mut() {
        if budget.is_exhausted() {
            break;
        }
        let from = head.indexed_seq;
        head.indexed_seq = index_thread(db, head, &mut budget)?;
        ranges.push(IndexedRange { key: head.key, from, to: head.indexed_seq });
        reached += 1;
    }
    heads.truncate(reached);
    store_positions(db, ranges)?;
    Ok(budget)
}

/// A thread of a batch, of which the messages after one seq and up to another were indexed.
struct IndexedRange {
    /// The key of the thread.
    key: i64,
    /// The seq up to which the thread was indexed before.
    from: i64,
    /// The seq up to which it is indexed now.
    to: i64,
}

/// Stores how far the threads of a batch are indexed. The rows of threads that were deleted since they were read are removed
/// again.
///
/// The heads are locked here, at the end and in ascending order, like in other transactions, because appends to a locked head
/// wait until the commit. A thread that is deleted after this point is deleted together with its new rows.
fn store_positions(db: &SqlConnection, mut ranges: Vec<IndexedRange>) -> Result<()> {
    ranges.sort_unstable_by_key(|range| range.key);
    let deleted = deleted_threads(db, &ranges)?;
    let mut update = db.prepare("UPDATE thread_heads SET indexed_seq = $2 WHERE thread_key = $1")?;
    for IndexedRange { key, from, to } in ranges {
        match deleted.contains(&key) {
            false => update.execute_deferred((key, to))?,
            true => index::delete_rows(db, message_row(key, from + 1)..message_row(key, to + 1))?,
        }
    }
    Ok(())
}

/// Locks the heads of the threads on PostgreSQL, and returns the keys of those that were deleted since they were read. A deletion
/// sets the position to the last seq, and no other write changes it.
fn deleted_threads(db: &SqlConnection, ranges: &[IndexedRange]) -> Result<Vec<i64>> {
    if db.dialect() == SqlDialect::Sqlite || ranges.is_empty() {
        return Ok(Vec::new());
    }
    let keys: Vec<i64> = ranges.iter().map(|range| range.key).collect();
    let stored: HashMap<i64, i64> = db
        .prepare(
            "SELECT thread_key, indexed_seq FROM thread_heads WHERE thread_key = ANY(CAST($1 AS bigint[]))
             ORDER BY thread_key FOR NO KEY UPDATE",
        )?
        .query_map([SqlValue::Integers(keys.into())], |row| Ok((row.get(0)?, row.get(1)?)))?
        .into_iter()
        .collect();
    let deleted = ranges.iter().filter(|range| stored.get(&range.key) != Some(&range.from));
    Ok(deleted.map(|range| range.key).collect())
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
fn index_thread(db: &SqlConnection, head: &UnindexedHead, budget: &mut IndexBatchBudget) -> Result<i64> {
    let UnindexedHead { key, indexed_seq, last_seq } = *head;
    let mut statement = db.prepare(
        "SELECT seq, content FROM events
         WHERE thread_key = $1 AND seq > $2 AND seq <= $3 AND category = 'message' ORDER BY seq
         LIMIT $4",
    )?;
    let mut reached = last_seq;
    let limit = encode_counter(budget.rows as u64);
    statement.for_each_row((key, indexed_seq, last_seq, limit), |row| {
        let seq: i64 = row.get(0)?;
        // A damaged text is not found, and does not keep the others out of the index.
        let content = match row.get_text(1) {
            Err(Error::Malformed(_)) => Cow::Borrowed(""),
            content => content?,
        };
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
        .prepare("SELECT handoff_key FROM handoff_index WHERE is_due = 1 ORDER BY handoff_key LIMIT $1")?
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
