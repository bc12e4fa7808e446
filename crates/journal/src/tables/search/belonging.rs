//! To whom and to which thread the texts beside messages belong: summaries, handoffs and items. Messages are those of
//! their thread, which is looked up once for all of them.

use crate::engines::sql::Connection;
use protocol::{AssistantId, Scope};

use super::places::{COUNTING_PROPOSAL, LATEST_FIRST};
use super::texts::Kind;
use crate::owned::owner_expression;
use crate::tables::columns::time;
use crate::tables::memory::items;
use crate::tables::owners;
use crate::{AGENT_ITEMS, Result, SearchQuery};

/// A summary belongs to the threads that any of its turns are of.
fn summary_sql() -> String {
    format!(
        "SELECT 1 FROM summaries s JOIN medium_term_memory m ON m.id = s.id
         WHERE s.summary_key = $1 AND (CAST($2 AS TEXT) IS NULL OR m.agent_id = $2) AND (CAST($4 AS TEXT) IS NULL OR m.created_at >= $4)
             AND (CAST($5 AS TEXT) IS NULL OR {} = $5)
             AND (CAST($3 AS TEXT) IS NULL OR EXISTS (
                 SELECT 1 FROM summary_threads o JOIN thread_heads h ON h.thread_key = o.thread_key
                 WHERE o.summary_key = s.summary_key AND h.thread_id = $3))",
        owner_expression("m.agent_id")
    )
}

/// A handoff belongs to the thread it came from and to the one it seeded.
fn handoff_sql() -> String {
    format!(
        "SELECT 1 FROM ({COUNTING_PROPOSAL} WHERE i.handoff_key = $1 {LATEST_FIRST}) AS counting
         WHERE (CAST($2 AS TEXT) IS NULL OR assistant_id = $2) AND (CAST($4 AS TEXT) IS NULL OR created_at >= $4)
             AND (CAST($5 AS TEXT) IS NULL OR {} = $5)
             AND (CAST($3 AS TEXT) IS NULL OR parent_thread_id = $3 OR child_thread_id = $3)",
        owner_expression("assistant_id")
    )
}

/// Returns whether a text is of what the query is restricted to.
pub(super) fn is_text_of(db: &Connection, kind: Kind, key: i64, query: &SearchQuery) -> Result<bool> {
    let SearchQuery { assistant_id, thread_id, since, scope, .. } = query;
    let owner = owners::of(scope.as_ref());
    if assistant_id.is_none() && thread_id.is_none() && since.is_none() && owner.is_none() {
        return Ok(true);
    }
    let sql = match kind {
        Kind::Summary => summary_sql(),
        Kind::Handoff => handoff_sql(),
        Kind::Item => return is_item_of(db, key, query),
    };
    let assistant_id = assistant_id.as_ref().map(|id| id.as_str());
    let thread_id = thread_id.map(|thread_id| thread_id.to_string());
    db.prepare(&sql)?.exists((key, assistant_id, thread_id, since.map(time), owner))
}

/// Returns whether an item is of what the query is restricted to: it belongs to the assistant in whose namespace it is,
/// below the root of the assistant's owner, and to no thread.
fn is_item_of(db: &Connection, key: i64, query: &SearchQuery) -> Result<bool> {
    if query.thread_id.is_some() {
        return Ok(false);
    }
    let namespace: Option<String> = db
        .prepare(
            "SELECT namespace FROM items WHERE item_key = $1 AND (CAST($2 AS TEXT) IS NULL OR updated_at >= $2)",
        )?
        .find((key, query.since.map(time)), |row| row.get(0))?;
    let Some(labels) = namespace.map(|namespace| items::labels(&namespace)) else { return Ok(false) };
    let is_of = |id: &AssistantId| {
        let roots = usize::from(id.owner().is_some());
        items::is_of(Some(&Scope::Owner(id.owner())), &labels)
            && labels.get(roots..roots + 2).is_some_and(|own| own[0] == AGENT_ITEMS && own[1] == id.as_str())
    };
    Ok(items::is_of(query.scope.as_ref(), &labels) && query.assistant_id.as_ref().is_none_or(is_of))
}
