//! Scope checks for documents: summaries, handoffs and items. Messages are checked by their threads in
//! `search_scope`.

use crate::engines::sql::SqlConnection;
use protocol::{AssistantId, OwnerScope};

use super::document_index::DocumentKind;
use super::documents::{EFFECTIVE_FIRST_SQL, EFFECTIVE_PROPOSAL_SQL};
use crate::ownership::owner_sql_expression;
use crate::tables::columns::encode_time;
use crate::tables::memory::items;
use crate::tables::owners;
use crate::{AGENT_NAMESPACE_LABEL, Result, SearchQuery};

/// Returns the statement that checks a summary. It belongs to all threads of the messages that it summarizes.
fn summary_in_scope_sql() -> String {
    format!(
        "SELECT 1 FROM summaries s JOIN medium_term_memory m ON m.id = s.id
         WHERE s.summary_key = $1 AND (CAST($2 AS TEXT) IS NULL OR m.agent_id = $2) AND (CAST($4 AS TEXT) IS NULL OR m.created_at >= $4)
             AND (CAST($5 AS TEXT) IS NULL OR {} = $5)
             AND (CAST($3 AS TEXT) IS NULL OR EXISTS (
                 SELECT 1 FROM summary_threads o JOIN thread_heads h ON h.thread_key = o.thread_key
                 WHERE o.summary_key = s.summary_key AND h.thread_id = $3))",
        owner_sql_expression("m.agent_id")
    )
}

/// Returns the statement that checks a handoff. It belongs to its parent thread and its child thread.
fn handoff_in_scope_sql() -> String {
    format!(
        "SELECT 1 FROM ({EFFECTIVE_PROPOSAL_SQL} WHERE i.handoff_key = $1 {EFFECTIVE_FIRST_SQL}) AS counting
         WHERE (CAST($2 AS TEXT) IS NULL OR assistant_id = $2) AND (CAST($4 AS TEXT) IS NULL OR created_at >= $4)
             AND (CAST($5 AS TEXT) IS NULL OR {} = $5)
             AND (CAST($3 AS TEXT) IS NULL OR parent_thread_id = $3 OR child_thread_id = $3)",
        owner_sql_expression("assistant_id")
    )
}

/// Returns whether a document satisfies the filters of a query: assistant, thread, time and owner.
pub(super) fn is_document_in_scope(
    db: &SqlConnection,
    kind: DocumentKind,
    key: i64,
    query: &SearchQuery,
) -> Result<bool> {
    let SearchQuery { assistant_id, thread_id, since, scope, .. } = query;
    let owner = owners::owner_column_value(scope.as_ref());
    if assistant_id.is_none() && thread_id.is_none() && since.is_none() && owner.is_none() {
        return Ok(true);
    }
    let sql = match kind {
        DocumentKind::Summary => summary_in_scope_sql(),
        DocumentKind::Handoff => handoff_in_scope_sql(),
        DocumentKind::Item => return is_item_in_scope(db, key, query),
    };
    let assistant_id = assistant_id.as_ref().map(|id| id.as_str());
    let thread_id = thread_id.map(|thread_id| thread_id.to_string());
    db.prepare(&sql)?.exists((key, assistant_id, thread_id, since.map(encode_time), owner))
}

/// Returns whether an item satisfies the filters of a query. It belongs to the assistant whose namespace it is in,
/// below the root of the assistant's owner, and to no thread.
fn is_item_in_scope(db: &SqlConnection, key: i64, query: &SearchQuery) -> Result<bool> {
    if query.thread_id.is_some() {
        return Ok(false);
    }
    let namespace: Option<String> = db
        .prepare(
            "SELECT namespace FROM items WHERE item_key = $1 AND (CAST($2 AS TEXT) IS NULL OR updated_at >= $2)",
        )?
        .query_optional((key, query.since.map(encode_time)), |row| row.get(0))?;
    let Some(labels) = namespace.map(|namespace| items::split_labels(&namespace)) else { return Ok(false) };
    let belongs_to = |id: &AssistantId| {
        let root_labels = usize::from(id.owner().is_some());
        items::is_in_scope(Some(&OwnerScope::Owner(id.owner())), &labels)
            && labels
                .get(root_labels..root_labels + 2)
                .is_some_and(|labels| labels[0] == AGENT_NAMESPACE_LABEL && labels[1] == id.as_str())
    };
    Ok(items::is_in_scope(query.scope.as_ref(), &labels)
        && query.assistant_id.as_ref().is_none_or(belongs_to))
}
