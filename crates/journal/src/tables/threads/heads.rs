//! What an append needs to know about a thread, and moves. Where the engine is some way off, it is asked for once in a
//! transaction, for all threads that this is about.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use protocol::ThreadId;

use crate::Result;
use crate::engines::sql::{self, Connection, Dialect, Value};
use crate::tables::columns::integer;
use crate::tables::not_found;

/// What an append needs to know about a thread, and moves.
#[derive(Debug, Clone)]
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
    /// The number that the agent's turns are stored under, where the engine tells it along.
    pub(crate) agent_key: Option<i64>,
}

/// The heads that a transaction has read, each as the transaction has moved it, and the events by which it has. Their rows are
/// locked. What it has not stored yet it stores before it asks or writes anything else.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    known: RefCell<HashMap<String, Head>>,
    rows: RefCell<Vec<EventRow>>,
    /// The heads that the rows have moved.
    moved: RefCell<BTreeMap<i64, Head>>,
}

/// An event as its row will be.
#[derive(Debug)]
pub(crate) struct EventRow {
    pub(crate) thread_key: i64,
    pub(crate) seq: i64,
    /// The agent whose next turn it is.
    pub(crate) turn_of: Option<i64>,
    pub(crate) event_id: [u8; 16],
    pub(crate) run_id: Option<[u8; 16]>,
    pub(crate) category: &'static str,
    pub(crate) event_type: &'static str,
    pub(crate) created_at: String,
    pub(crate) event_key: Option<String>,
    pub(crate) metadata: Option<String>,
    pub(crate) content: String,
}

/// Stores events and turns of any number of threads, and moves their heads.
const STORE: &str = "WITH stored AS (
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

impl Heads {
    /// Remembers a head.
    pub(crate) fn put(&self, head: Head) {
        self.known.borrow_mut().insert(head.thread_id.clone(), head);
    }

    /// Forgets them all: something was written that may have changed any of them.
    pub(crate) fn forget(&self) {
        self.known.borrow_mut().clear();
    }

    /// Has an event stored, with others.
    pub(crate) fn put_row(&self, row: EventRow) {
        self.rows.borrow_mut().push(row);
    }

    /// Remembers where the events that are to be stored have moved a head.
    pub(crate) fn move_to(&self, head: Head) {
        self.moved.borrow_mut().insert(head.key, head.clone());
        self.put(head);
    }

    /// Stores what is to be stored. Nobody waits for it.
    pub(crate) fn store(&self, db: &postgres::Connection) -> Result<()> {
        let rows = self.rows.take();
        if rows.is_empty() {
            return Ok(());
        }
        let moved = self.moved.take();
        let integers = |of: fn(&Head) -> i64| Value::Integers(moved.values().map(of).collect());
        let updated = moved.values().map(|head| Some(Cow::Owned(head.updated_at.clone()))).collect();
        let mut values = columns(rows);
        values.extend([
            integers(|head| head.key),
            integers(|head| head.agent_key.unwrap_or_default()),
            integers(|head| integer(head.last_seq)),
            integers(|head| integer(head.message_count)),
            Value::Texts(updated),
            integers(|head| head.has_prompt.into()),
        ]);
        Ok(db.send(STORE, values)?)
    }
}

/// Returns the first parameters of [`STORE`].
fn columns(rows: Vec<EventRow>) -> Vec<Value<'static>> {
    let blobs = |of: fn(&EventRow) -> Option<[u8; 16]>| {
        Value::Blobs(rows.iter().map(|row| of(row).map(|id| Cow::Owned(id.to_vec()))).collect())
    };
    let named = |of: fn(&EventRow) -> &'static str| {
        Value::Texts(rows.iter().map(|row| Some(Cow::Borrowed(of(row)))).collect())
    };
    let mut values = vec![
        Value::Integers(rows.iter().map(|row| row.thread_key).collect()),
        Value::Integers(rows.iter().map(|row| row.seq).collect()),
        Value::Texts(rows.iter().map(|row| row.turn_of.map(|key| Cow::Owned(key.to_string()))).collect()),
        blobs(|row| Some(row.event_id)),
        blobs(|row| row.run_id),
        named(|row| row.category),
        named(|row| row.event_type),
    ];
    let mut texts: [Vec<Option<Cow<'static, str>>>; 4] = Default::default();
    for row in rows {
        texts[0].push(Some(Cow::Owned(row.created_at)));
        texts[1].push(row.event_key.map(Cow::Owned));
        texts[2].push(row.metadata.map(Cow::Owned));
        texts[3].push(Some(Cow::Owned(row.content)));
    }
    values.extend(texts.map(Value::Texts));
    values
}

pub(crate) fn head(db: &Connection, thread_id: ThreadId) -> Result<Head> {
    let id = thread_id.to_string();
    let known = db.heads().and_then(|heads| heads.known.borrow().get(&id).cloned());
    if let Some(known) = known {
        return Ok(known);
    }
    let found = match db.dialect() {
        Dialect::Sqlite => db
            .prepare(
                "SELECT thread_id, thread_key, last_seq, message_count, updated_at, assistant_id, has_prompt,
                     in_subagent, NULL
                 FROM thread_heads WHERE thread_id = $1 AND updated_at IS NOT NULL",
            )?
            .find([&id], read)?,
        Dialect::Postgres => locked(db, vec![Some(Cow::Borrowed(id.as_str()))])?.pop(),
    };
    let head = found.ok_or_else(|| not_found("thread", &thread_id))?;
    if let Some(heads) = db.heads() {
        heads.put(head.clone());
    }
    Ok(head)
}

/// Reads the heads of threads that a transaction is about, where that spares a journey for each.
pub(crate) fn prefetch(db: &Connection, thread_ids: &[ThreadId]) -> Result<()> {
    let Some(heads) = db.heads().filter(|_| !thread_ids.is_empty()) else { return Ok(()) };
    let ids = thread_ids.iter().map(|thread_id| Some(Cow::Owned(thread_id.to_string()))).collect();
    locked(db, ids)?.into_iter().for_each(|head| heads.put(head));
    Ok(())
}

/// Whoever writes to a thread waits for who does already, though neither may have named it.
fn locked(db: &Connection, ids: Vec<Option<Cow<'_, str>>>) -> Result<Vec<Head>> {
    db.prepare(
        "SELECT h.thread_id, h.thread_key, h.last_seq, h.message_count, h.updated_at, h.assistant_id,
             h.has_prompt, h.in_subagent, a.agent_key
         FROM thread_heads h LEFT JOIN agents a ON a.agent_id = h.assistant_id
         WHERE h.thread_id = ANY(CAST($1 AS text[])) AND h.updated_at IS NOT NULL
         ORDER BY h.thread_key FOR UPDATE OF h",
    )?
    .query_map([Value::Texts(ids)], read)
}

fn read(row: &sql::Row<'_>) -> Result<Head> {
    Ok(Head {
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
