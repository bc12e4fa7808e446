//! Medium-term memory: the summaries, and which turns of which threads each stands for. When turns become a summary,
//! and what is written into it, is not decided here; how one goes is in `dissolving`.

use crate::engines::sql::{Connection, Dialect, Row};
use protocol::{MediumTermSummary, Seq, ThreadId};

use super::items;
use crate::owned::owner_name;
use crate::tables::columns::{count, integer, stored, stored_option, time};
use crate::tables::events::{MARKER_EVENTS, rewinds};
use crate::tables::{runs, search, threads};
use crate::{Error, MemoryCounts, Planned, Result, StoredSummary, SummaryQuery, Transfer};

/// Archives what is left of a window of turns: of the agent `$2` those with the indexes `$3` to `$4`.
const ARCHIVE: &str = "UPDATE turns SET archived = 1, summary_key = $1
    WHERE agent_key = (SELECT agent_key FROM agents WHERE agent_id = $2)
      AND turn_index BETWEEN $3 AND $4 AND archived = 0";

/// The same of the thread `$5` alone, whose turns are found through its events: between them there may be any number of
/// turns of other threads.
fn archive_of_thread(dialect: Dialect) -> String {
    format!("UPDATE turns SET archived = 1, summary_key = $1
    WHERE agent_key = (SELECT agent_key FROM agents WHERE agent_id = $2)
      AND {} BETWEEN $3 AND $4 AND archived = 0 AND turn_index IN (
        SELECT e.turn_index FROM events e
        WHERE e.thread_key = $5 AND e.turn_index IS NOT NULL
          AND e.seq >= coalesce((SELECT f.seq FROM agents a JOIN turns t ON t.agent_key = a.agent_key AND t.turn_index = $3
                               JOIN events f ON f.event_row = t.event_row AND f.thread_key = $5
                               WHERE a.agent_id = $2), 0)
          AND e.seq <= coalesce((SELECT l.seq FROM agents a JOIN turns t ON t.agent_key = a.agent_key AND t.turn_index = $4
                               JOIN events l ON l.event_row = t.event_row AND l.thread_key = $5
                               WHERE a.agent_id = $2), 4294967295))", dialect.unindexed("turn_index"))
}

/// Notes the threads of the turns that the summary `$1` stands for.
const NOTE_THREADS: &str = "INSERT INTO summary_threads (thread_key, last_seq, summary_key)
    SELECT e.thread_key, max(e.seq), $1 FROM turns t CROSS JOIN events e
    WHERE e.event_row = t.event_row AND t.summary_key = $1 GROUP BY e.thread_key";

/// Stores a summary and archives its turns.
pub(crate) fn transfer(db: &Connection, transfer: &Transfer) -> Result<()> {
    if transfer.turns == 0 {
        return Err(Error::Invalid { what: "a window of turns", reason: "it is empty".to_owned() });
    }
    let differs = || Error::Differs { what: "window of turns", id: transfer.summary.id.to_string() };
    let mut thread_keys = Vec::with_capacity(transfer.threads.len());
    for Planned { thread_id, last_seq } in &transfer.threads {
        let key = living(db, *thread_id, &transfer.summary)?.ok_or_else(differs)?;
        if let Some(run_id) = runs::active_run_of(db, key)? {
            return Err(Error::Busy { thread_id: *thread_id, run_id });
        }
        if has_changed(db, key, *last_seq)? {
            return Err(differs());
        }
        thread_keys.push(key);
    }
    let scope = match transfer.thread_id {
        Some(thread_id) => Some(living(db, thread_id, &transfer.summary)?.ok_or_else(differs)?),
        None => None,
    };
    let key = insert(db, &transfer.summary)?.ok_or_else(differs)?;
    let archived = archive(db, &transfer.summary, key, scope)?;
    let are_those_given = note_threads(db, key)?.iter().all(|found| thread_keys.contains(found));
    if archived != transfer.turns || !are_those_given {
        return Err(differs());
    }
    complete(db, key, archived)?;
    search::texts::put(db, search::texts::Kind::Summary, key, &transfer.summary.summary_text)
}

/// Fails unless the thread's context is as it was then, but for what was said since.
pub(crate) fn expect(db: &Connection, planned: Planned) -> Result<()> {
    let Planned { thread_id, last_seq } = planned;
    match has_changed(db, threads::head(db, thread_id)?.key, last_seq)? {
        true => Err(Error::Differs { what: "context of the thread", id: thread_id.to_string() }),
        false => Ok(()),
    }
}

/// Returns whether the thread's context became another one since its last seq was that: by more than what was said.
fn has_changed(db: &Connection, key: i64, last_seq: Seq) -> Result<bool> {
    let is_marked = db.prepare(&changed_sql())?.exists((key, integer(last_seq)))?;
    Ok(is_marked || rewinds::reaches(db, key, last_seq)?)
}

fn changed_sql() -> String {
    format!("SELECT 1 FROM events e WHERE e.thread_key = $1 AND e.seq > $2 AND {MARKER_EVENTS} LIMIT 1")
}

/// Returns the key of the thread if it is there and the agent's.
fn living(db: &Connection, thread_id: ThreadId, summary: &MediumTermSummary) -> Result<Option<i64>> {
    db.prepare(
        "SELECT thread_key FROM thread_heads
         WHERE thread_id = $1 AND assistant_id = $2 AND updated_at IS NOT NULL",
    )?
    .find((thread_id.to_string(), summary.agent_id.as_str()), |row| row.get(0))
}

/// Returns the summary's key; `None` when one with its id is there.
fn insert(db: &Connection, summary: &MediumTermSummary) -> Result<Option<i64>> {
    let id = summary.id.to_string();
    let inserted = db
        .prepare(
            "INSERT INTO medium_term_memory
                 (id, agent_id, summary_text, turn_range_start, turn_range_end, created_at)
             VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING",
        )?
        .execute((
            &id,
            summary.agent_id.as_str(),
            &summary.summary_text,
            integer(summary.turn_range_start),
            integer(summary.turn_range_end),
            time(summary.created_at),
        ))?;
    if inserted == 0 {
        return Ok(None);
    }
    db.prepare("INSERT INTO summaries (id) VALUES ($1) RETURNING summary_key")?
        .query_row([&id], |row| row.get(0))
        .map(Some)
}

/// Archives the turns that are left of the window in one statement, and returns how many there were.
fn archive(db: &Connection, summary: &MediumTermSummary, key: i64, thread_key: Option<i64>) -> Result<u64> {
    let agent_id = summary.agent_id.as_str();
    let (first, last) = (integer(summary.turn_range_start), integer(summary.turn_range_end));
    let archived = match thread_key {
        Some(thread_key) => {
            db.prepare(&archive_of_thread(db.dialect()))?.execute((key, agent_id, first, last, thread_key))?
        }
        None => db.prepare(ARCHIVE)?.execute((key, agent_id, first, last))?,
    };
    Ok(archived as u64)
}

/// Notes which threads the summary tells of, and returns their keys.
fn note_threads(db: &Connection, key: i64) -> Result<Vec<i64>> {
    db.prepare(NOTE_THREADS)?.send([key])?;
    let mut statement = db.prepare("SELECT thread_key FROM summary_threads WHERE summary_key = $1")?;
    statement.query_map([key], |row| row.get(0))
}

fn complete(db: &Connection, key: i64, turns: u64) -> Result<()> {
    db.prepare(
        "UPDATE summaries SET turn_count = $2, thread_key = (
             SELECT e.thread_key FROM turns t CROSS JOIN events e
             WHERE e.event_row = t.event_row AND t.summary_key = $1 ORDER BY t.turn_index LIMIT 1)
         WHERE summary_key = $1",
    )?
    .send((key, integer(turns)))
}

/// Returns summaries, newest first.
pub(crate) fn list(db: &Connection, query: &SummaryQuery) -> Result<Vec<StoredSummary>> {
    let except = match query.except_thread {
        Some(thread_id) => threads::key(db, thread_id)?,
        None => None,
    };
    let mut statement = db.prepare(LIST)?;
    let (limit, offset) = (integer(query.limit as u64), integer(query.offset as u64));
    statement.query_map((query.agent_id.as_str(), except, limit, offset), |row| {
        Ok(StoredSummary {
            summary: read(row)?,
            thread_id: stored_option(row, "thread_id")?,
            turns: count(row, "turn_count")?,
        })
    })
}

const LIST: &str =
    "SELECT m.id, m.agent_id, m.summary_text, m.turn_range_start, m.turn_range_end, m.created_at,
        s.turn_count, (SELECT h.thread_id FROM thread_heads h WHERE h.thread_key = s.thread_key) AS thread_id
    FROM medium_term_memory m CROSS JOIN summaries s
    WHERE s.id = m.id AND m.agent_id = $1 AND (CAST($2 AS BIGINT) IS NULL OR NOT EXISTS (
        SELECT 1 FROM summary_threads o WHERE o.summary_key = s.summary_key AND o.thread_key = $2))
    ORDER BY m.created_at DESC, m.id DESC LIMIT $3 OFFSET $4";

fn read(row: &Row<'_>) -> Result<MediumTermSummary> {
    Ok(MediumTermSummary {
        id: stored(row, "id")?,
        agent_id: stored(row, "agent_id")?,
        summary_text: row.get("summary_text")?,
        turn_range_start: count(row, "turn_range_start")?,
        turn_range_end: count(row, "turn_range_end")?,
        created_at: stored(row, "created_at")?,
    })
}

/// Counts an agent's turns and summaries, and the items of its owner.
pub(crate) fn counts(db: &Connection, agent_id: &str) -> Result<MemoryCounts> {
    let owner = owner_name(agent_id);
    let (first, end) = items::bounds(owner);
    db.prepare(
        "SELECT count(*) FILTER (WHERE t.archived = 0) AS active,
             count(*) FILTER (WHERE t.summary_key IS NOT NULL) AS summarised,
             count(*) FILTER (WHERE t.archived = 1 AND t.summary_key IS NULL) AS withdrawn,
             (SELECT count(*) FROM medium_term_memory WHERE agent_id = $1) AS summaries,
             (SELECT count(*) FROM items WHERE (namespace >= $2 AND namespace < $3) = $4) AS items
         FROM turns t WHERE t.agent_key = (SELECT agent_key FROM agents WHERE agent_id = $1)",
    )?
    .query_row((agent_id, first, end, !owner.is_empty()), |row| {
        Ok(MemoryCounts {
            active_turns: count(row, "active")?,
            summarised_turns: count(row, "summarised")?,
            withdrawn_turns: count(row, "withdrawn")?,
            summaries: count(row, "summaries")?,
            items: count(row, "items")?,
        })
    })
}

#[cfg(test)]
mod tests;
