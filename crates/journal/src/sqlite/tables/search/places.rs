//! What a row of the index stands for, read from its own table, if a search may find it. What matches is not known here.

use jiff::Timestamp;
use protocol::{HandoffSummary, Seq, ThreadId};
use rusqlite::{Connection, OptionalExtension, Row};

use super::texts::{self, Kind};
use super::{seq_of, thread_of};
use crate::sqlite::tables::columns::{count, json_column, stored, stored_option};
use crate::sqlite::tables::events::rewinds;
use crate::sqlite::tables::memory::items;
use crate::sqlite::tables::memory::turns::text_of;
use crate::{Place, Result, SearchQuery};

/// Something that may be found.
pub(super) struct Found {
    /// Where.
    pub(super) place: Place,
    /// When it was said or stored.
    pub(super) created_at: Timestamp,
    /// Its text.
    pub(super) text: String,
}

/// Returns what the row stands for; `None` when it is gone, superseded, or not what the query asks for.
pub(super) fn read(connection: &Connection, row: i64, query: &SearchQuery) -> Result<Option<Found>> {
    let found = match texts::of_row(row) {
        None => message(connection, row, query)?,
        Some((Kind::Summary, key)) => summary(connection, key, query)?,
        Some((Kind::Handoff, key)) => handoff(connection, key, query)?,
        Some((Kind::Item, key)) => item(connection, key, query)?,
    };
    Ok(found.filter(|found| query.since.is_none_or(|since| found.created_at >= since)))
}

/// Returns when a message was said; `None` when the row is not one's.
pub(super) fn said_at(connection: &Connection, row: i64) -> Result<Option<Timestamp>> {
    if row < 0 {
        return Ok(None);
    }
    Ok(connection
        .prepare_cached("SELECT created_at FROM events WHERE thread_key = ?1 AND seq = ?2")?
        .query_row((thread_of(row), seq_of(row)), |row| stored(row, "created_at"))
        .optional()?)
}

fn is_of_assistant(query: &SearchQuery, assistant_id: &str) -> bool {
    query.assistant_id.as_ref().is_none_or(|wanted| wanted.as_str() == assistant_id)
}

fn message(connection: &Connection, row: i64, query: &SearchQuery) -> Result<Option<Found>> {
    let found = connection
        .prepare_cached(&format!(
            "SELECT h.thread_id, h.assistant_id, e.seq, e.event_type, e.created_at, e.content
             FROM events e JOIN thread_heads h ON h.thread_key = e.thread_key
             WHERE e.thread_key = ?1 AND e.seq = ?2 AND {}",
            rewinds::is_visible("e.seq")
        ))?
        .query_row((thread_of(row), seq_of(row)), |row| {
            let thread_id = stored::<ThreadId>(row, "thread_id")?;
            if query.thread_id.is_some_and(|wanted| wanted != thread_id)
                || !is_of_assistant(query, row.get_ref("assistant_id")?.as_str()?)
            {
                return Ok(None);
            }
            let role = row.get_ref("event_type")?.as_str()?.trim_end_matches("_message").to_owned();
            let seq = Seq::from(row.get::<_, u32>("seq")?);
            let place = Place::Message { thread_id, seq, role };
            let text = text_of(row.get_ref("content")?.as_str()?).unwrap_or_default().into_owned();
            Ok(Some(Found { place, created_at: stored(row, "created_at")?, text }))
        })
        .optional()?;
    Ok(found.flatten())
}

fn summary(connection: &Connection, key: i64, query: &SearchQuery) -> Result<Option<Found>> {
    let thread_id = query.thread_id.map(|thread_id| thread_id.to_string());
    Ok(connection
        .prepare_cached(
            "SELECT m.id, m.summary_text, m.turn_range_start, m.turn_range_end, m.created_at,
                 (SELECT h.thread_id FROM thread_heads h WHERE h.thread_key = s.thread_key) AS thread_id
             FROM summaries s JOIN medium_term_memory m ON m.id = s.id
             WHERE s.summary_key = ?1 AND (?2 IS NULL OR m.agent_id = ?2) AND (?3 IS NULL OR EXISTS (
                 SELECT 1 FROM summary_threads o JOIN thread_heads h ON h.thread_key = o.thread_key
                 WHERE o.summary_key = s.summary_key AND h.thread_id = ?3))",
        )?
        .query_row((key, query.assistant_id.as_ref().map(|id| id.as_str()), thread_id), |row| {
            let place = Place::Summary {
                summary_id: stored(row, "id")?,
                thread_id: stored_option(row, "thread_id")?,
                first_turn: count(row, "turn_range_start")?,
                last_turn: count(row, "turn_range_end")?,
            };
            Ok(Found { place, created_at: stored(row, "created_at")?, text: row.get("summary_text")? })
        })
        .optional()?)
}

fn handoff(connection: &Connection, key: i64, query: &SearchQuery) -> Result<Option<Found>> {
    let found = connection
        .prepare_cached(&format!("{COUNTING_PROPOSAL} WHERE i.handoff_key = ?1 {LATEST_FIRST}"))?
        .query_row([key], |row| {
            let (parent, child) = (stored(row, "parent_thread_id")?, stored(row, "child_thread_id")?);
            if query.thread_id.is_some_and(|wanted| wanted != parent && wanted != child)
                || !is_of_assistant(query, row.get_ref("assistant_id")?.as_str()?)
            {
                return Ok(None);
            }
            let place = Place::Handoff {
                handoff_id: stored(row, "handoff_id")?,
                parent_thread_id: parent,
                child_thread_id: child,
            };
            Ok(Some(Found { place, created_at: stored(row, "created_at")?, text: proposal_text(row)? }))
        })
        .optional()?;
    Ok(found.flatten())
}

/// The proposals of handoffs, each with the row that tells where its handoff is in the index.
const COUNTING_PROPOSAL: &str = "SELECT h.handoff_id, h.assistant_id, h.parent_thread_id, h.child_thread_id,
        p.summary_json, p.created_at
    FROM handoff_index i JOIN handoffs h ON h.handoff_id = i.handoff_id
    JOIN proposals p ON p.handoff_id = h.handoff_id";

/// The accepted proposal comes first, and otherwise the latest.
const LATEST_FIRST: &str =
    "ORDER BY p.summary_sha256 = ifnull(h.accepted_sha256, '') DESC, p.iteration DESC LIMIT 1";

/// Returns the words of the proposal that counts; `None` when the handoff has none.
pub(super) fn handoff_text(connection: &Connection, key: i64) -> Result<Option<String>> {
    Ok(connection
        .prepare_cached(&format!("{COUNTING_PROPOSAL} WHERE i.handoff_key = ?1 {LATEST_FIRST}"))?
        .query_row([key], proposal_text)
        .optional()?)
}

fn proposal_text(row: &Row<'_>) -> rusqlite::Result<String> {
    let summary: HandoffSummary = json_column(row, "summary_json")?;
    let body = summary.body.into_iter().map(|item| item.text);
    Ok([summary.title, summary.tldr].into_iter().chain(body).collect::<Vec<_>>().join("\n"))
}

fn item(connection: &Connection, key: i64, query: &SearchQuery) -> Result<Option<Found>> {
    if query.thread_id.is_some() || query.assistant_id.is_some() {
        return Ok(None);
    }
    Ok(connection
        .prepare_cached("SELECT namespace, key, value, updated_at FROM items WHERE item_key = ?1")?
        .query_row([key], |row| {
            let key: String = row.get("key")?;
            let text = items::text(&key, &json_column(row, "value")?);
            let place = Place::Item { namespace: items::labels(row.get_ref("namespace")?.as_str()?), key };
            Ok(Found { place, created_at: stored(row, "updated_at")?, text })
        })
        .optional()?)
}
