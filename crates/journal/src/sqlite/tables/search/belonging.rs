//! To whom and to which thread the texts beside messages belong: summaries, handoffs and items. Messages are those of
//! their thread, which is looked up once for all of them.

use protocol::AssistantId;
use rusqlite::{Connection, OptionalExtension};

use super::places::{COUNTING_PROPOSAL, LATEST_FIRST};
use super::texts::Kind;
use crate::sqlite::tables::columns::time;
use crate::sqlite::tables::memory::items;
use crate::{AGENT_ITEMS, Result, SearchQuery};

/// A summary belongs to the threads that any of its turns are of.
const SUMMARY: &str = "SELECT 1 FROM summaries s JOIN medium_term_memory m ON m.id = s.id
    WHERE s.summary_key = ?1 AND (?2 IS NULL OR m.agent_id = ?2) AND (?4 IS NULL OR m.created_at >= ?4)
        AND (?3 IS NULL OR EXISTS (
            SELECT 1 FROM summary_threads o JOIN thread_heads h ON h.thread_key = o.thread_key
            WHERE o.summary_key = s.summary_key AND h.thread_id = ?3))";

/// A handoff belongs to the thread it came from and to the one it seeded.
const HANDOFF: &str = "WHERE (?2 IS NULL OR assistant_id = ?2) AND (?4 IS NULL OR created_at >= ?4)
    AND (?3 IS NULL OR parent_thread_id = ?3 OR child_thread_id = ?3)";

/// Returns whether a text is of what the query is restricted to.
pub(super) fn is_text_of(
    connection: &Connection,
    (kind, key): (Kind, i64),
    query: &SearchQuery,
) -> Result<bool> {
    let SearchQuery { assistant_id, thread_id, since, .. } = query;
    if assistant_id.is_none() && thread_id.is_none() && since.is_none() {
        return Ok(true);
    }
    let sql = match kind {
        Kind::Summary => SUMMARY,
        Kind::Handoff => {
            &format!("SELECT 1 FROM ({COUNTING_PROPOSAL} WHERE i.handoff_key = ?1 {LATEST_FIRST}) {HANDOFF}")
        }
        Kind::Item => return is_item_of(connection, key, query),
    };
    let assistant_id = assistant_id.as_ref().map(|id| id.as_str());
    let thread_id = thread_id.map(|thread_id| thread_id.to_string());
    Ok(connection.prepare_cached(sql)?.exists((key, assistant_id, thread_id, since.map(time)))?)
}

/// Returns whether an item is of what the query is restricted to: it belongs to the assistant in whose namespace it is,
/// and to no thread.
fn is_item_of(connection: &Connection, key: i64, query: &SearchQuery) -> Result<bool> {
    if query.thread_id.is_some() {
        return Ok(false);
    }
    let namespace: Option<String> = connection
        .prepare_cached(
            "SELECT namespace FROM items WHERE item_key = ?1 AND (?2 IS NULL OR updated_at >= ?2)",
        )?
        .query_row((key, query.since.map(time)), |row| row.get(0))
        .optional()?;
    let is_own = |namespace: String| {
        let labels = items::labels(&namespace);
        let is_of =
            |id: &AssistantId| labels.len() > 1 && labels[0] == AGENT_ITEMS && labels[1] == id.as_str();
        query.assistant_id.as_ref().is_none_or(is_of)
    };
    Ok(namespace.is_some_and(is_own))
}
