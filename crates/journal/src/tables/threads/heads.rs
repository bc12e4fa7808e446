//! Thread heads: the counters that an append reads and updates. On PostgreSQL, a transaction reads the heads of all
//! its threads in one query, caches them, and writes them together.

mod pending_rows;
mod row_queue;

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;

use protocol::{CheckpointId, ThreadId};

use crate::Result;
use crate::engines::sql::{self, SqlConnection, SqlDialect, SqlValue};
use crate::tables::columns::StoredColumn;
use crate::tables::not_found;

use self::pending_rows::PendingRows;

pub(crate) use self::pending_rows::{
    PendingCheckpoint, PendingEventRow, PendingRequest, PendingRun, PendingRunChange,
};
pub(crate) use self::row_queue::RowQueue;

/// The counters and facts of a thread that an append reads and updates.
#[derive(Debug, Clone)]
pub(crate) struct ThreadHead {
    /// The thread's id, as stored.
    pub(crate) thread_id: String,
    /// The number under which the thread's events are stored.
    pub(crate) key: i64,
    /// The highest assigned seq.
    pub(crate) last_seq: u64,
    /// Number of visible events of category `message`.
    pub(crate) message_count: u64,
    /// Time of the last activity, as stored.
    pub(crate) updated_at: String,
    /// The assistant of the thread, which names its owner.
    pub(crate) assistant_id: String,
    /// `true` if the first prompt of the thread has been stored.
    pub(crate) has_prompt: bool,
    /// `true` if the thread belongs to a sub-agent, directly or through its ancestors.
    pub(crate) is_in_subagent: bool,
    /// The number under which the agent's messages are logged, if the query returned it.
    pub(crate) agent_key: Option<i64>,
    /// The newest checkpoint of the thread.
    pub(crate) newest_checkpoint: NewestCheckpoint,
}

/// The newest checkpoint of a thread, as far as a head contains it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewestCheckpoint {
    /// The head does not say which it is.
    Unknown,
    /// The thread has none.
    Absent,
    /// The thread has this one.
    Present {
        /// The checkpoint.
        checkpoint_id: CheckpointId,
        /// Its number.
        number: i64,
    },
}

impl NewestCheckpoint {
    /// Returns the id of the checkpoint, if there is one.
    pub(crate) const fn checkpoint_id(self) -> Option<CheckpointId> {
        match self {
            Self::Unknown | Self::Absent => None,
            Self::Present { checkpoint_id, .. } => Some(checkpoint_id),
        }
    }
}

/// When the preconditions of a transaction are checked. Both ways have the same outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum PreconditionChecks {
    /// Each before its write, by a query for the rows that it concerns.
    #[default]
    Immediate,
    /// Those of frequent writes by the statement that stores the pending rows. It fails if one does not hold, and the
    /// transaction has to be executed again with immediate checks.
    Deferred,
}

/// The heads that a PostgreSQL transaction has read, with its own changes applied, and the rows that it has not
/// stored yet. The rows of the heads are locked. Pending rows are written by [`Self::flush`] before the
/// transaction executes another statement.
#[derive(Debug, Default)]
pub(crate) struct ThreadHeadCache {
    /// Heads by thread id.
    cached: RefCell<HashMap<String, ThreadHead>>,
    /// Rows to be stored.
    pending: RefCell<PendingRows>,
    /// When preconditions are checked.
    checks: PreconditionChecks,
}

impl ThreadHeadCache {
    /// Returns a cache for a transaction whose preconditions are checked as `checks` says.
    pub(crate) fn new(checks: PreconditionChecks) -> Self {
        Self { checks, ..Self::default() }
    }

    /// Caches a head.
    pub(crate) fn insert_head(&self, head: ThreadHead) {
        self.cached.borrow_mut().insert(head.thread_id.clone(), head);
    }

    /// Returns the cached head of a thread.
    pub(crate) fn get(&self, thread_id: ThreadId) -> Option<ThreadHead> {
        self.cached.borrow().get(&thread_id.to_string()).cloned()
    }

    /// Clears the cache. Called after a write that may have changed any head.
    pub(crate) fn clear(&self) {
        self.cached.borrow_mut().clear();
    }

    /// Queues an event to be inserted with the next flush.
    pub(crate) fn queue_row(&self, row: PendingEventRow) {
        self.pending.borrow_mut().add_event(row);
    }

    /// Caches a changed head, and stores it with the next flush. `None` keeps the status of the thread.
    pub(crate) fn update_head(&self, head: ThreadHead, status: Option<&'static str>) {
        self.pending.borrow_mut().set_head(head.clone(), status);
        self.insert_head(head);
    }

    /// Sends the statement that stores the pending rows, without waiting for the response.
    pub(crate) fn flush(&self, db: &postgres::Connection) -> Result<()> {
        let pending = self.pending.take();
        if pending.is_empty() {
            return Ok(());
        }
        let (sql, values) = pending.into_statement();
        Ok(db.send(&sql, values)?)
    }
}

/// Returns the head of a thread, from the cache if possible. On PostgreSQL it locks the row.
///
/// # Errors
/// [`Error::NotFound`](crate::Error::NotFound) if the thread does not exist.
pub(crate) fn load_head(db: &SqlConnection, thread_id: ThreadId) -> Result<ThreadHead> {
    let id = thread_id.to_string();
    let cached = db.heads().and_then(|heads| heads.cached.borrow().get(&id).cloned());
    if let Some(cached) = cached {
        return Ok(cached);
    }
    let head = match db.dialect() {
        SqlDialect::Sqlite => db
            .prepare(
                "SELECT thread_id, thread_key, last_seq, message_count, updated_at, assistant_id, has_prompt,
                     in_subagent, NULL, 0
                 FROM thread_heads WHERE thread_id = $1 AND updated_at IS NOT NULL",
            )?
            .query_optional([&id], read_head)?,
        SqlDialect::Postgres => lock_heads(db, vec![Some(Cow::Borrowed(id.as_str()))])?.pop(),
    };
    let head = head.ok_or_else(|| not_found("thread", &thread_id))?;
    if let Some(heads) = db.heads() {
        heads.insert_head(head.clone());
    }
    Ok(head)
}

/// Reads the heads of all threads that a transaction appends to, which saves a round trip for each. Does nothing on
/// SQLite.
pub(crate) fn prefetch_heads(db: &SqlConnection, thread_ids: &[ThreadId]) -> Result<()> {
    let Some(heads) = db.heads().filter(|_| !thread_ids.is_empty()) else { return Ok(()) };
    let ids = thread_ids.iter().map(|thread_id| Some(Cow::Owned(thread_id.to_string()))).collect();
    lock_heads(db, ids)?.into_iter().for_each(|head| heads.insert_head(head));
    Ok(())
}

/// Reads and locks the rows of heads. A transaction that writes to a thread thereby waits for others that do, even if
/// neither has named the thread in advance.
fn lock_heads(db: &SqlConnection, ids: Vec<Option<Cow<'_, str>>>) -> Result<Vec<ThreadHead>> {
    db.prepare(
        "SELECT h.thread_id, h.thread_key, h.last_seq, h.message_count, h.updated_at, h.assistant_id,
             h.has_prompt, h.in_subagent, a.agent_key, 1, c.checkpoint_id, c.number
         FROM thread_heads h LEFT JOIN agents a ON a.agent_id = h.assistant_id
             LEFT JOIN checkpoints c ON c.thread_key = h.thread_key
         WHERE h.thread_id = ANY(CAST($1 AS text[])) AND h.updated_at IS NOT NULL
         ORDER BY h.thread_key FOR UPDATE OF h",
    )?
    .query_map([SqlValue::Texts(ids)], read_head)
}

/// Reads a head from a row.
fn read_head(row: &sql::SqlRow<'_>) -> Result<ThreadHead> {
    let newest_checkpoint = match row.get::<_, bool>(9)? {
        false => NewestCheckpoint::Unknown,
        true => match row.get::<_, Option<StoredColumn<CheckpointId>>>(10)? {
            Some(StoredColumn(checkpoint_id)) => {
                NewestCheckpoint::Present { checkpoint_id, number: row.get(11)? }
            }
            None => NewestCheckpoint::Absent,
        },
    };
    Ok(ThreadHead {
        newest_checkpoint,
        thread_id: row.get(0)?,
        key: row.get(1)?,
        last_seq: row.get::<_, i64>(2)?.unsigned_abs(),
        message_count: row.get::<_, i64>(3)?.unsigned_abs(),
        updated_at: row.get(4)?,
        assistant_id: row.get(5)?,
        has_prompt: row.get(6)?,
        is_in_subagent: row.get(7)?,
        agent_key: row.get(8)?,
    })
}
