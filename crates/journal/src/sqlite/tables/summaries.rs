//! Medium-term memory: the summaries, which turns each stands for, and reading both. When turns become a summary is
//! not decided here.

use protocol::{LoggedTurn, MediumTermSummary, SummaryId, ThreadId};
use rusqlite::{Connection, OptionalExtension, Row, ToSql};

use super::columns::{count, integer, stored, stored_option, time};
use super::{page_limit, runs, search, threads};
use crate::{Error, MemoryCounts, Result, StoredSummary, SummaryQuery, Transfer, TurnQuery};

/// Stores a summary and archives its turns.
pub(crate) fn transfer(connection: &Connection, transfer: &Transfer) -> Result<()> {
    let summary = &transfer.summary;
    for thread_id in &transfer.threads {
        let key = threads::head(connection, *thread_id)?.key;
        if let Some(run_id) = runs::active_run_of(connection, key)? {
            return Err(Error::Busy { thread_id: *thread_id, run_id });
        }
    }
    connection
        .prepare_cached(
            "INSERT INTO medium_term_memory
                 (id, agent_id, summary_text, turn_range_start, turn_range_end, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute((
            summary.id.to_string(),
            summary.agent_id.as_str(),
            &summary.summary_text,
            integer(summary.turn_range_start),
            integer(summary.turn_range_end),
            time(summary.created_at),
        ))?;
    let key = connection.last_insert_rowid();
    if archive(connection, transfer, key)? as u64 != transfer.turns {
        return Err(Error::Differs { what: "window of turns", id: summary.id.to_string() });
    }
    search::texts::put(connection, search::texts::Kind::Summary, key, &summary.summary_text)
}

/// Archives the turns that are left of the window, and returns how many there were.
fn archive(connection: &Connection, transfer: &Transfer, key: i64) -> Result<usize> {
    let thread_key = match transfer.thread_id {
        Some(thread_id) => Some(threads::head(connection, thread_id)?.key),
        None => None,
    };
    let summary = &transfer.summary;
    Ok(connection
        .prepare_cached(
            "UPDATE turns SET archived = 1, summary_key = ?1
             WHERE agent_key = (SELECT agent_key FROM agents WHERE agent_id = ?2)
               AND turn_index BETWEEN ?3 AND ?4 AND archived = 0
               AND (?5 IS NULL OR (SELECT e.thread_key FROM events e WHERE e.event_row = turns.event_row) = ?5)",
        )?
        .execute((
            key,
            summary.agent_id.as_str(),
            integer(summary.turn_range_start),
            integer(summary.turn_range_end),
            thread_key,
        ))?)
}

/// Removes summaries, and makes their turns active again.
pub(crate) fn restore(connection: &Connection, summary_ids: &[SummaryId]) -> Result<()> {
    for id in summary_ids {
        let key: Option<i64> = connection
            .prepare_cached("SELECT summary_key FROM medium_term_memory WHERE id = ?1")?
            .query_row([id.to_string()], |row| row.get(0))
            .optional()?;
        if let Some(key) = key {
            dissolve(connection, key)?;
        }
    }
    Ok(())
}

/// Removes one summary, and makes its turns active again.
pub(crate) fn dissolve(connection: &Connection, key: i64) -> Result<()> {
    connection
        .prepare_cached("UPDATE turns SET archived = 0, summary_key = NULL WHERE summary_key = ?1")?
        .execute([key])?;
    connection.prepare_cached("DELETE FROM medium_term_memory WHERE summary_key = ?1")?.execute([key])?;
    search::texts::remove(connection, search::texts::Kind::Summary, key)
}

/// Returns the summaries that stand for any turn of the thread after `seq`, and those whose event is after it.
pub(crate) fn told_after(connection: &Connection, thread_key: i64, seq: i64) -> Result<Vec<i64>> {
    let mut statement = connection.prepare_cached(
        "SELECT t.summary_key FROM events e JOIN turns t ON t.event_row = e.event_row AND t.turn_index = e.turn_index
         WHERE e.thread_key = ?1 AND e.seq > ?2 AND e.turn_index IS NOT NULL AND t.summary_key IS NOT NULL
         UNION
         SELECT m.summary_key FROM events e
         JOIN medium_term_memory m ON m.id = json_extract(e.content, '$.summary_id')
         WHERE e.thread_key = ?1 AND e.seq > ?2 AND e.event_type = 'turns_archived'",
    )?;
    let keys = statement.query_map((thread_key, seq), |row| row.get(0))?;
    Ok(keys.collect::<rusqlite::Result<_>>()?)
}

/// Returns summaries, newest first.
pub(crate) fn list(connection: &Connection, query: &SummaryQuery) -> Result<Vec<StoredSummary>> {
    let except = match query.except_thread {
        Some(thread_id) => threads::key(connection, thread_id)?,
        None => None,
    };
    let mut statement = connection.prepare_cached(
        "SELECT m.id, m.agent_id, m.summary_text, m.turn_range_start, m.turn_range_end, m.created_at,
             (SELECT count(*) FROM turns t WHERE t.summary_key = m.summary_key) AS turns,
             (SELECT h.thread_id FROM turns t JOIN events e ON e.event_row = t.event_row
              JOIN thread_heads h ON h.thread_key = e.thread_key
              WHERE t.summary_key = m.summary_key ORDER BY t.turn_index LIMIT 1) AS thread_id
         FROM medium_term_memory m
         WHERE m.agent_id = ?1 AND (?2 IS NULL OR NOT EXISTS (
             SELECT 1 FROM turns t JOIN events e ON e.event_row = t.event_row
             WHERE t.summary_key = m.summary_key AND e.thread_key = ?2))
         ORDER BY m.created_at DESC, m.id DESC LIMIT ?3 OFFSET ?4",
    )?;
    let (limit, offset) = (integer(query.limit as u64), integer(query.offset as u64));
    let summaries = statement.query_map((query.agent_id.as_str(), except, limit, offset), |row| {
        Ok(StoredSummary {
            summary: read(row)?,
            thread_id: stored_option(row, "thread_id")?,
            turns: count(row, "turns")?,
        })
    })?;
    Ok(summaries.collect::<rusqlite::Result<_>>()?)
}

fn read(row: &Row<'_>) -> rusqlite::Result<MediumTermSummary> {
    Ok(MediumTermSummary {
        id: stored(row, "id")?,
        agent_id: stored(row, "agent_id")?,
        summary_text: row.get("summary_text")?,
        turn_range_start: count(row, "turn_range_start")?,
        turn_range_end: count(row, "turn_range_end")?,
        created_at: stored(row, "created_at")?,
    })
}

/// Returns a page of turns.
pub(crate) fn turns(connection: &Connection, query: &TurnQuery) -> Result<Vec<LoggedTurn>> {
    let limit = page_limit("turns", query.limit)?;
    let agent_id = query.agent_id.as_str().to_owned();
    let (first, last) = (integer(query.first), integer(query.last));
    let (thread_id, archived) = (query.thread_id.map(|id: ThreadId| id.to_string()), query.archived);
    let (after, before) = (query.after_seq.map(integer), query.before_seq.map(integer));
    let mut parameters: Vec<&dyn ToSql> = vec![&limit, &agent_id, &first, &last];
    let mut conditions = String::new();
    let mut require = |condition: &str, value| {
        parameters.push(value);
        conditions.push_str(&format!(" AND {condition} ?{}", parameters.len()));
    };
    if let Some(thread_id) = &thread_id {
        require("thread_id =", thread_id);
    }
    if let Some(archived) = &archived {
        require("archived =", archived);
    }
    if let Some(after) = &after {
        require("seq >", after);
    }
    if let Some(before) = &before {
        require("seq <", before);
    }
    let mut statement = connection.prepare_cached(&format!(
        "SELECT * FROM turn_log WHERE agent_id = ?2 AND turn_index BETWEEN ?3 AND ?4{conditions}
         ORDER BY turn_index LIMIT ?1"
    ))?;
    let turns = statement.query_map(parameters.as_slice(), |row| {
        Ok(LoggedTurn {
            agent_id: stored(row, "agent_id")?,
            thread_id: stored(row, "thread_id")?,
            turn_index: count(row, "turn_index")?,
            role: stored(row, "role")?,
            content: row.get("content")?,
            created_at: stored(row, "created_at")?,
            is_archived: row.get("archived")?,
            seq: count(row, "seq")?,
            summary_id: stored_option(row, "summary_id")?,
        })
    })?;
    Ok(turns.collect::<rusqlite::Result<_>>()?)
}

/// Counts an agent's turns and summaries, and all items.
pub(crate) fn counts(connection: &Connection, agent_id: &str) -> Result<MemoryCounts> {
    Ok(connection.query_row(
        "SELECT ifnull(sum(t.archived = 0), 0) AS active, ifnull(sum(t.summary_key IS NOT NULL), 0) AS summarised,
             ifnull(sum(t.archived = 1 AND t.summary_key IS NULL), 0) AS withdrawn,
             (SELECT count(*) FROM medium_term_memory WHERE agent_id = ?1) AS summaries,
             (SELECT count(*) FROM items) AS items
         FROM turns t WHERE t.agent_key = (SELECT agent_key FROM agents WHERE agent_id = ?1)",
        [agent_id],
        |row| {
            Ok(MemoryCounts {
                active_turns: count(row, "active")?,
                summarised_turns: count(row, "summarised")?,
                withdrawn_turns: count(row, "withdrawn")?,
                summaries: count(row, "summaries")?,
                items: count(row, "items")?,
            })
        },
    )?)
}
