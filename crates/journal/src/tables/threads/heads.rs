//! Thread heads: the counters that an append reads and updates. On PostgreSQL, a transaction reads the heads of all
//! its threads in one query, caches them, and writes them together.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use protocol::ThreadId;

use crate::Result;
use crate::engines::sql::{self, SqlConnection, SqlDialect, SqlValue};
use crate::tables::columns::encode_counter;
use crate::tables::not_found;

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
}

/// The heads that a PostgreSQL transaction has read, with its own changes applied, and the events that it has not
/// inserted yet. The rows of the heads are locked. Pending events are written by [`Self::flush`] before the
/// transaction executes another statement.
#[derive(Debug, Default)]
pub(crate) struct ThreadHeadCache {
    /// Heads by thread id.
    cached: RefCell<HashMap<String, ThreadHead>>,
    /// Events to be inserted.
    pending_rows: RefCell<Vec<PendingEventRow>>,
    /// Heads changed by the pending events, by thread key.
    moved_heads: RefCell<BTreeMap<i64, ThreadHead>>,
}

/// The row of an event to be inserted.
#[derive(Debug)]
pub(crate) struct PendingEventRow {
    /// The key of the event's thread.
    pub(crate) thread_key: i64,
    /// The seq.
    pub(crate) seq: i64,
    /// The agent under which the event is logged as the next message; `None` if it is not logged.
    pub(crate) turn_agent_key: Option<i64>,
    /// The id of the event.
    pub(crate) event_id: [u8; 16],
    /// The run.
    pub(crate) run_id: Option<[u8; 16]>,
    /// The category.
    pub(crate) category: &'static str,
    /// The type.
    pub(crate) event_type: &'static str,
    /// The time, formatted for storage.
    pub(crate) created_at: String,
    /// The key that makes the event unique within its run.
    pub(crate) event_key: Option<String>,
    /// The metadata as JSON.
    pub(crate) metadata: Option<String>,
    /// The content as JSON.
    pub(crate) content: String,
}

/// Inserts events and logged messages of any number of threads, and updates the heads of the threads.
const STORE_EVENTS_SQL: &str = "WITH stored AS (
        INSERT INTO events (thread_key, seq, event_id, run_id, category, event_type, created_at, turn_index,
                            event_key, metadata, content)
        SELECT n.thread_key, n.seq, n.event_id, n.run_id, n.category, n.event_type, n.created_at,
            CASE WHEN n.turn_of IS NOT NULL THEN nextval(CAST('segue_turns_' || n.turn_of AS regclass)) END,
            n.event_key, n.metadata, n.content
        FROM unnest(CAST($1 AS bigint[]), CAST($2 AS bigint[]), CAST($3 AS text[]), CAST($4 AS bytea[]),
                CAST($5 AS bytea[]), CAST($6 AS text[]), CAST($7 AS text[]), CAST($8 AS text[]), CAST($9 AS text[]),
                CAST($10 AS text[]), CAST($11 AS text[]))
            AS n (thread_key, seq, turn_of, event_id, run_id, category, event_type, created_at, event_key, metadata, content)
        RETURNING event_row, turn_index, thread_key),
    turned AS (
        INSERT INTO turns (agent_key, turn_index, event_row)
        SELECT m.agent_key, s.turn_index, s.event_row
        FROM stored s JOIN unnest(CAST($12 AS bigint[]), CAST($13 AS bigint[])) AS m (thread_key, agent_key)
            ON m.thread_key = s.thread_key
        WHERE s.turn_index IS NOT NULL)
    UPDATE thread_heads h
    SET last_seq = m.last_seq, message_count = m.message_count, updated_at = m.updated_at, has_prompt = m.has_prompt
    FROM unnest(CAST($12 AS bigint[]), CAST($14 AS bigint[]), CAST($15 AS bigint[]), CAST($16 AS text[]),
            CAST($17 AS bigint[])) AS m (thread_key, last_seq, message_count, updated_at, has_prompt)
    WHERE h.thread_key = m.thread_key";

impl ThreadHeadCache {
    /// Caches a head.
    pub(crate) fn insert_head(&self, head: ThreadHead) {
        self.cached.borrow_mut().insert(head.thread_id.clone(), head);
    }

    /// Clears the cache. Called after a write that may have changed any head.
    pub(crate) fn clear(&self) {
        self.cached.borrow_mut().clear();
    }

    /// Queues an event to be inserted with the next flush.
    pub(crate) fn queue_row(&self, row: PendingEventRow) {
        self.pending_rows.borrow_mut().push(row);
    }

    /// Caches a head that pending events have changed, and stores it with the next flush.
    pub(crate) fn update_head(&self, head: ThreadHead) {
        self.moved_heads.borrow_mut().insert(head.key, head.clone());
        self.insert_head(head);
    }

    /// Sends the statement that inserts the pending events and updates their heads, without waiting for the response.
    pub(crate) fn flush(&self, db: &postgres::Connection) -> Result<()> {
        let rows = self.pending_rows.take();
        if rows.is_empty() {
            return Ok(());
        }
        let changed = self.moved_heads.take();
        let integers =
            |field: fn(&ThreadHead) -> i64| SqlValue::Integers(changed.values().map(field).collect());
        let updated = changed.values().map(|head| Some(Cow::Owned(head.updated_at.clone()))).collect();
        let mut values = row_parameters(rows);
        values.extend([
            integers(|head| head.key),
            integers(|head| head.agent_key.unwrap_or_default()),
            integers(|head| encode_counter(head.last_seq)),
            integers(|head| encode_counter(head.message_count)),
            SqlValue::Texts(updated),
            integers(|head| head.has_prompt.into()),
        ]);
        Ok(db.send(STORE_EVENTS_SQL, values)?)
    }
}

/// Returns the parameters `$1` to `$11` of [`STORE_EVENTS_SQL`].
fn row_parameters(rows: Vec<PendingEventRow>) -> Vec<SqlValue<'static>> {
    let blobs = |field: fn(&PendingEventRow) -> Option<[u8; 16]>| {
        SqlValue::Blobs(rows.iter().map(|row| field(row).map(|id| Cow::Owned(id.to_vec()))).collect())
    };
    let names = |field: fn(&PendingEventRow) -> &'static str| {
        SqlValue::Texts(rows.iter().map(|row| Some(Cow::Borrowed(field(row)))).collect())
    };
    let mut values = vec![
        SqlValue::Integers(rows.iter().map(|row| row.thread_key).collect()),
        SqlValue::Integers(rows.iter().map(|row| row.seq).collect()),
        SqlValue::Texts(
            rows.iter().map(|row| row.turn_agent_key.map(|key| Cow::Owned(key.to_string()))).collect(),
        ),
        blobs(|row| Some(row.event_id)),
        blobs(|row| row.run_id),
        names(|row| row.category),
        names(|row| row.event_type),
    ];
    let mut texts: [Vec<Option<Cow<'static, str>>>; 4] = Default::default();
    for row in rows {
        texts[0].push(Some(Cow::Owned(row.created_at)));
        texts[1].push(row.event_key.map(Cow::Owned));
        texts[2].push(row.metadata.map(Cow::Owned));
        texts[3].push(Some(Cow::Owned(row.content)));
    }
    values.extend(texts.map(SqlValue::Texts));
    values
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
                     in_subagent, NULL
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
             h.has_prompt, h.in_subagent, a.agent_key
         FROM thread_heads h LEFT JOIN agents a ON a.agent_id = h.assistant_id
         WHERE h.thread_id = ANY(CAST($1 AS text[])) AND h.updated_at IS NOT NULL
         ORDER BY h.thread_key FOR UPDATE OF h",
    )?
    .query_map([SqlValue::Texts(ids)], read_head)
}

/// Reads a head from a row.
fn read_head(row: &sql::SqlRow<'_>) -> Result<ThreadHead> {
    Ok(ThreadHead {
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
