//! Medium-term memory: summaries, and the messages that each of them summarizes. The `memory` crate decides when
//! messages are summarized and writes the text; `summary_removal` removes summaries. The tables call a logged message
//! a turn.

use crate::engines::sql::{SqlConnection, SqlDialect, SqlRow};
use protocol::{MediumTermSummary, Seq, ThreadId};

use super::items;
use crate::ownership::owner_name;
use crate::tables::columns::{encode_counter, encode_time, read_column, read_counter, read_optional_column};
use crate::tables::events::{CONTEXT_CHANGE_EVENTS, rewinds};
use crate::tables::threads::projects;
use crate::tables::{runs, search, threads};
use crate::{
    Error, MemoryCounts, ProjectScope, Result, StoredSummary, SummaryProject, SummaryQuery, ThreadVersion,
    TurnSummarization,
};

/// Archives the active messages of the agent `$2` with indexes from `$3` to `$4` under the summary `$1`.
const ARCHIVE_TURNS_SQL: &str = "UPDATE turns SET archived = 1, summary_key = $1
    WHERE agent_key = (SELECT agent_key FROM agents WHERE agent_id = $2)
      AND turn_index BETWEEN $3 AND $4 AND archived = 0";

/// Returns the same statement for the thread `$5` only. It finds the messages through the events of the thread,
/// because any number of messages of other threads can lie between them.
fn archive_thread_turns_sql(dialect: SqlDialect) -> String {
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
                               WHERE a.agent_id = $2), 4294967295))", dialect.without_index("turn_index"))
}

/// Records the threads of the messages that the summary `$1` covers, with the last seq in each.
const RECORD_THREADS_SQL: &str = "INSERT INTO summary_threads (thread_key, last_seq, summary_key)
    SELECT e.thread_key, max(e.seq), $1 FROM turns t CROSS JOIN events e
    WHERE e.event_row = t.event_row AND t.summary_key = $1 GROUP BY e.thread_key";

/// Stores a summary and archives its messages.
///
/// # Errors
/// [`Error::Conflict`] if the messages or the context of a thread have changed since the summary was planned,
/// [`Error::Busy`] if a run of one of the threads is active.
pub(crate) fn summarize_turns(db: &SqlConnection, summarization: &TurnSummarization) -> Result<()> {
    if summarization.turns == 0 {
        let reason = "the range contains no message".to_owned();
        return Err(Error::InvalidRequest { what: "messages to summarize", reason });
    }
    let conflict =
        || Error::Conflict { what: "message range of summary", id: summarization.summary.id.to_string() };
    let mut thread_keys = Vec::with_capacity(summarization.thread_versions.len());
    for ThreadVersion { thread_id, last_seq } in &summarization.thread_versions {
        let key = existing_thread_key(db, *thread_id, &summarization.summary)?.ok_or_else(conflict)?;
        if let Some(run_id) = runs::active_run_id(db, key)? {
            return Err(Error::Busy { thread_id: *thread_id, run_id });
        }
        if has_context_changed(db, key, *last_seq)? {
            return Err(conflict());
        }
        thread_keys.push(key);
    }
    let thread_key = match summarization.thread_id {
        Some(thread_id) => {
            Some(existing_thread_key(db, thread_id, &summarization.summary)?.ok_or_else(conflict)?)
        }
        None => None,
    };
    let key = insert_summary(db, &summarization.summary)?.ok_or_else(conflict)?;
    let archived = archive_turns(db, &summarization.summary, key, thread_key)?;
    let are_threads_expected = record_threads(db, key)?.iter().all(|key| thread_keys.contains(key));
    if archived != summarization.turns || !are_threads_expected {
        return Err(conflict());
    }
    store_turn_count(db, key, archived)?;
    search::document_index::index_document(
        db,
        search::document_index::DocumentKind::Summary,
        key,
        &summarization.summary.summary_text,
    )
}

/// Fails with [`Error::Conflict`] if the context of a thread has changed since a given version, other than by further
/// messages.
pub(crate) fn expect_unchanged_context(db: &SqlConnection, version: ThreadVersion) -> Result<()> {
    let ThreadVersion { thread_id, last_seq } = version;
    match has_context_changed(db, threads::load_head(db, thread_id)?.key, last_seq)? {
        true => Err(Error::Conflict { what: "context of the thread", id: thread_id.to_string() }),
        false => Ok(()),
    }
}

/// Returns whether the context of a thread has changed after `last_seq`, other than by further messages: by a
/// compaction, by archived or restored messages, or by a rewind.
fn has_context_changed(db: &SqlConnection, key: i64, last_seq: Seq) -> Result<bool> {
    let has_change_event = db.prepare(&context_changed_sql())?.exists((key, encode_counter(last_seq)))?;
    Ok(has_change_event || rewinds::has_superseded_from(db, key, last_seq)?)
}

/// Returns the statement that finds an event after `$2` that changed the context of the thread `$1`.
fn context_changed_sql() -> String {
    format!(
        "SELECT 1 FROM events e WHERE e.thread_key = $1 AND e.seq > $2 AND {CONTEXT_CHANGE_EVENTS} LIMIT 1"
    )
}

/// Returns the key of a thread if it exists and belongs to the agent of the summary.
fn existing_thread_key(
    db: &SqlConnection,
    thread_id: ThreadId,
    summary: &MediumTermSummary,
) -> Result<Option<i64>> {
    db.prepare(
        "SELECT thread_key FROM thread_heads
         WHERE thread_id = $1 AND assistant_id = $2 AND updated_at IS NOT NULL",
    )?
    .query_optional((thread_id.to_string(), summary.agent_id.as_str()), |row| row.get(0))
}

/// Inserts a summary and returns its key, or `None` if a summary with this id exists.
fn insert_summary(db: &SqlConnection, summary: &MediumTermSummary) -> Result<Option<i64>> {
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
            encode_counter(summary.turn_range_start),
            encode_counter(summary.turn_range_end),
            encode_time(summary.created_at),
        ))?;
    if inserted == 0 {
        return Ok(None);
    }
    // A trigger has stored the row of `summaries`.
    db.prepare("SELECT summary_key FROM summaries WHERE id = $1")?
        .query_row([&id], |row| row.get(0))
        .map(Some)
}

/// Archives the active messages of a summary in one statement, and returns their number.
fn archive_turns(
    db: &SqlConnection,
    summary: &MediumTermSummary,
    key: i64,
    thread_key: Option<i64>,
) -> Result<u64> {
    let agent_id = summary.agent_id.as_str();
    let (first, last) = (encode_counter(summary.turn_range_start), encode_counter(summary.turn_range_end));
    let archived = match thread_key {
        Some(thread_key) => db
            .prepare(&archive_thread_turns_sql(db.dialect()))?
            .execute((key, agent_id, first, last, thread_key))?,
        None => db.prepare(ARCHIVE_TURNS_SQL)?.execute((key, agent_id, first, last))?,
    };
    Ok(archived as u64)
}

/// Records the threads of a summary's messages, and returns their keys.
fn record_threads(db: &SqlConnection, key: i64) -> Result<Vec<i64>> {
    db.prepare(RECORD_THREADS_SQL)?.execute_deferred([key])?;
    let mut statement = db.prepare("SELECT thread_key FROM summary_threads WHERE summary_key = $1")?;
    statement.query_map([key], |row| row.get(0))
}

/// Stores the number of a summary's messages, the thread of the first of them, and the project of their threads. A
/// summary of the threads of several projects has none of them.
fn store_turn_count(db: &SqlConnection, key: i64, turns: u64) -> Result<()> {
    db.prepare(
        "UPDATE summaries SET turn_count = $2, thread_key = (
             SELECT e.thread_key FROM turns t CROSS JOIN events e
             WHERE e.event_row = t.event_row AND t.summary_key = $1 ORDER BY t.turn_index LIMIT 1),
             project_key = (
             SELECT CASE WHEN min(h.project_key) = max(h.project_key) THEN min(h.project_key) END
             FROM summary_threads o JOIN thread_heads h ON h.thread_key = o.thread_key WHERE o.summary_key = $1)
         WHERE summary_key = $1",
    )?
    .execute_deferred((key, encode_counter(turns)))
}

/// Returns a page of the summaries of an agent, newest first.
pub(crate) fn list(db: &SqlConnection, query: &SummaryQuery) -> Result<Vec<StoredSummary>> {
    let (agent_id, limit) = (query.agent_id.as_str(), encode_counter(query.limit as u64));
    let offset = encode_counter(query.offset as u64);
    if let (SqlDialect::Postgres, Some(thread_id)) = (db.dialect(), query.adjacent_thread()) {
        return db
            .prepare(&list_adjacent_sql())?
            .query_map((agent_id, thread_id.to_string(), limit, offset), read_stored_summary);
    }
    let excluded_thread = match query.except_thread {
        Some(thread_id) => threads::key_and_project(db, thread_id)?,
        None => None,
    };
    let project_key = match (&query.project, query.except_thread, excluded_thread) {
        (ProjectScope::OfThread(thread_id), Some(excluded), Some((_, project_key)))
            if *thread_id == excluded =>
        {
            Some(project_key)
        }
        (scope, ..) => projects::scope_key(db, scope)?,
    };
    let excluded_thread = excluded_thread.map(|(key, _)| key);
    match project_key {
        None => db
            .prepare(&list_sql())?
            .query_map((agent_id, excluded_thread, limit, offset), read_stored_summary),
        Some(project_key) => db
            .prepare(&list_project_sql())?
            .query_map((agent_id, excluded_thread, limit, offset, project_key), read_stored_summary),
    }
}

/// The columns of a listed summary.
const LIST_COLUMNS: &str =
    "m.id, m.agent_id, m.summary_text, m.turn_range_start, m.turn_range_end, m.created_at, s.turn_count, s.project_key,
        (SELECT h.thread_id FROM thread_heads h WHERE h.thread_key = s.thread_key) AS thread_id,
        (SELECT j.path FROM projects j WHERE j.project_key = s.project_key) AS project";

/// The condition that a summary covers no message of the thread `$2`.
const IS_OF_OTHER_THREADS: &str = "(CAST($2 AS BIGINT) IS NULL OR NOT EXISTS (
        SELECT 1 FROM summary_threads o WHERE o.summary_key = s.summary_key AND o.thread_key = $2))";

/// Returns the statement for a page of the summaries of the agent `$1`, without those of the thread `$2`.
fn list_sql() -> String {
    format!(
        "SELECT {LIST_COLUMNS} FROM medium_term_memory m CROSS JOIN summaries s
         WHERE s.id = m.id AND m.agent_id = $1 AND {IS_OF_OTHER_THREADS}
         ORDER BY m.created_at DESC, m.id DESC LIMIT $3 OFFSET $4"
    )
}

/// Returns the same statement for the summaries of the project `$5` only. Those of other projects are not read.
fn list_project_sql() -> String {
    format!(
        "SELECT {LIST_COLUMNS} FROM summaries s CROSS JOIN medium_term_memory m
         WHERE m.id = s.id AND s.agent_id = $1 AND s.project_key = $5 AND {IS_OF_OTHER_THREADS}
         ORDER BY s.created_at DESC, s.id DESC LIMIT $3 OFFSET $4"
    )
}

/// Returns the same statement for the project of the thread `$2`, whose summaries are left out. It finds the keys of the
/// thread itself.
fn list_adjacent_sql() -> String {
    let column = |name: &str| format!("(SELECT h.{name} FROM thread_heads h WHERE h.thread_id = $2)");
    let (thread_key, project_key) = (column("thread_key"), column("project_key"));
    format!(
        "SELECT {LIST_COLUMNS} FROM summaries s CROSS JOIN medium_term_memory m
         WHERE m.id = s.id AND s.agent_id = $1 AND s.project_key = {project_key} AND NOT EXISTS (
             SELECT 1 FROM summary_threads o WHERE o.summary_key = s.summary_key AND o.thread_key = {thread_key})
         ORDER BY s.created_at DESC, s.id DESC LIMIT $3 OFFSET $4"
    )
}

/// Reads a listed summary from a row with [`LIST_COLUMNS`].
fn read_stored_summary(row: &SqlRow<'_>) -> Result<StoredSummary> {
    Ok(StoredSummary {
        summary: read_summary(row)?,
        thread_id: read_optional_column(row, "thread_id")?,
        turns: read_counter(row, "turn_count")?,
        project: read_summary_project(row)?,
    })
}

/// Reads the project of a listed summary.
fn read_summary_project(row: &SqlRow<'_>) -> Result<SummaryProject> {
    Ok(match (row.get::<_, Option<i64>>("project_key")?, row.get::<_, Option<String>>("project")?) {
        (_, Some(path)) => SummaryProject::Project(path),
        (Some(_), None) => SummaryProject::Personal,
        (None, None) => SummaryProject::Several,
    })
}

/// Reads a summary from a row.
fn read_summary(row: &SqlRow<'_>) -> Result<MediumTermSummary> {
    Ok(MediumTermSummary {
        id: read_column(row, "id")?,
        agent_id: read_column(row, "agent_id")?,
        summary_text: row.get("summary_text")?,
        turn_range_start: read_counter(row, "turn_range_start")?,
        turn_range_end: read_counter(row, "turn_range_end")?,
        created_at: read_column(row, "created_at")?,
    })
}

/// Returns the numbers of an agent's messages and summaries, and of the items of its owner.
pub(crate) fn memory_counts(db: &SqlConnection, agent_id: &str) -> Result<MemoryCounts> {
    let owner = owner_name(agent_id);
    let (first, end) = items::owner_namespace_bounds(owner);
    db.prepare(
        "SELECT count(*) FILTER (WHERE t.archived = 0) AS active,
             count(*) FILTER (WHERE t.summary_key IS NOT NULL) AS summarised,
             count(*) FILTER (WHERE t.archived = 1 AND t.summary_key IS NULL) AS withdrawn,
             (SELECT count(*) FROM medium_term_memory WHERE agent_id = $1) AS summaries,
             (SELECT count(*) FROM items WHERE (namespace >= $2 AND namespace < $3) = $4) AS items,
             (SELECT count(*) FROM memory_facts WHERE agent_id = $1 AND state = 'proposed') AS proposed_facts
         FROM turns t WHERE t.agent_key = (SELECT agent_key FROM agents WHERE agent_id = $1)",
    )?
    .query_row((agent_id, first, end, !owner.is_empty()), |row| {
        Ok(MemoryCounts {
            active_turns: read_counter(row, "active")?,
            summarised_turns: read_counter(row, "summarised")?,
            rewound_turns: read_counter(row, "withdrawn")?,
            summaries: read_counter(row, "summaries")?,
            items: read_counter(row, "items")?,
            proposed_facts: read_counter(row, "proposed_facts")?,
        })
    })
}

#[cfg(test)]
mod tests;
