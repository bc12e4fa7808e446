//! Scope checks for documents: summaries, handoffs and items. Messages are checked by their threads in
//! `search_scope`.

use crate::engines::sql::SqlConnection;
use protocol::{AssistantId, OwnerScope};

use super::document_index::DocumentKind;
use super::documents::{EFFECTIVE_FIRST_SQL, EFFECTIVE_PROPOSAL_SQL};
use super::search_scope::ScopeFilter;
use crate::ownership::owner_sql_expression;
use crate::tables::columns::encode_time;
use crate::tables::memory::items;
use crate::tables::owners;
use crate::tables::threads::projects;
use crate::{AGENT_NAMESPACE_LABEL, Result, SearchQuery};

/// Returns the statement that checks a summary. It belongs to all threads of the messages that it summarizes.
fn summary_in_scope_sql() -> String {
    format!(
        "SELECT 1 FROM summaries s JOIN medium_term_memory m ON m.id = s.id
         WHERE s.summary_key = $1 AND (CAST($2 AS TEXT) IS NULL OR m.agent_id = $2) AND (CAST($4 AS TEXT) IS NULL OR m.created_at >= $4)
             AND (CAST($5 AS TEXT) IS NULL OR {} = $5) AND (CAST($6 AS BIGINT) IS NULL OR s.project_key = $6)
             AND (CAST($3 AS TEXT) IS NULL OR EXISTS (
                 SELECT 1 FROM summary_threads o JOIN thread_heads h ON h.thread_key = o.thread_key
                 WHERE o.summary_key = s.summary_key AND h.thread_id = $3))",
        owner_sql_expression("m.agent_id")
    )
}

/// Returns the statement that checks a handoff. It belongs to its parent thread and its child thread, and to the project
/// of the parent, or of the child if the parent was deleted.
fn handoff_in_scope_sql() -> String {
    format!(
        "SELECT 1 FROM ({EFFECTIVE_PROPOSAL_SQL} WHERE i.handoff_key = $1 {EFFECTIVE_FIRST_SQL}) AS counting
         WHERE (CAST($2 AS TEXT) IS NULL OR assistant_id = $2) AND (CAST($4 AS TEXT) IS NULL OR created_at >= $4)
             AND (CAST($5 AS TEXT) IS NULL OR {} = $5)
             AND (CAST($6 AS BIGINT) IS NULL OR $6 = coalesce(
                 (SELECT h.project_key FROM thread_heads h WHERE h.thread_id = parent_thread_id AND h.updated_at IS NOT NULL),
                 (SELECT h.project_key FROM thread_heads h WHERE h.thread_id = child_thread_id AND h.updated_at IS NOT NULL)))
             AND (CAST($3 AS TEXT) IS NULL OR parent_thread_id = $3 OR child_thread_id = $3)",
        owner_sql_expression("assistant_id")
    )
}

/// Returns whether a document satisfies the filters of a query: assistant, thread, project, time and owner.
pub(super) fn is_document_in_scope(
    db: &SqlConnection,
    kind: DocumentKind,
    key: i64,
    filter: ScopeFilter<'_>,
) -> Result<bool> {
    let ScopeFilter { query, project_key } = filter;
    let SearchQuery { assistant_id, thread_id, since, scope, .. } = query;
    let owner = owners::owner_column_value(scope.as_ref());
    let has_no_owner_filter = assistant_id.is_none() && owner.is_none();
    if has_no_owner_filter && thread_id.is_none() && since.is_none() && project_key.is_none() {
        return Ok(true);
    }
    let sql = match kind {
        DocumentKind::Summary => summary_in_scope_sql(),
        DocumentKind::Handoff => handoff_in_scope_sql(),
        DocumentKind::Item => return is_item_in_scope(db, key, filter),
    };
    let assistant_id = assistant_id.as_ref().map(|id| id.as_str());
    let thread_id = thread_id.map(|thread_id| thread_id.to_string());
    db.prepare(&sql)?.exists((key, assistant_id, thread_id, since.map(encode_time), owner, project_key))
}

/// Returns whether an item satisfies the filters of a query. It belongs to the assistant whose namespace it is in,
/// below the root of the assistant's owner, and to no thread.
fn is_item_in_scope(db: &SqlConnection, key: i64, filter: ScopeFilter<'_>) -> Result<bool> {
    let query = filter.query;
    if query.thread_id.is_some() {
        return Ok(false);
    }
    let namespace: Option<String> = db
        .prepare(
            "SELECT namespace FROM items WHERE item_key = $1 AND (CAST($2 AS TEXT) IS NULL OR updated_at >= $2)",
        )?
        .query_optional((key, query.since.map(encode_time)), |row| row.get(0))?;
    let Some(labels) = namespace.map(|namespace| items::split_labels(&namespace)) else { return Ok(false) };
    let assistant_item = assistant_item(&labels);
    let belongs_to = |id: &AssistantId| {
        items::is_in_scope(Some(&OwnerScope::Owner(id.owner())), &labels)
            && assistant_item.is_some_and(|item| item.assistant_id == id.as_str())
    };
    let is_in_project = match (filter.project_key, assistant_item) {
        (None, _) | (_, None) => true,
        (Some(project_key), Some(item)) => is_item_in_project(db, project_key, item)?,
    };
    Ok(is_in_project
        && items::is_in_scope(query.scope.as_ref(), &labels)
        && query.assistant_id.as_ref().is_none_or(belongs_to))
}

/// The assistant and the project that the namespace of an item names.
#[derive(Clone, Copy)]
struct AssistantItem<'a> {
    /// The id of the assistant.
    assistant_id: &'a str,
    /// The hash of the project's path; `None` if the item is personal.
    project_hash: Option<&'a str>,
}

/// Returns the assistant and the project of an assistant's item; `None` for other items. The label of an owner may come
/// first.
fn assistant_item(labels: &[String]) -> Option<AssistantItem<'_>> {
    let (first, rest) = labels.split_first()?;
    let labels = if first.starts_with('@') { rest } else { labels };
    let [root, label, ..] = labels else { return None };
    if root != AGENT_NAMESPACE_LABEL {
        return None;
    }
    Some(match label.split_once('/') {
        Some((assistant_id, hash)) => AssistantItem { assistant_id, project_hash: Some(hash) },
        None => AssistantItem { assistant_id: label, project_hash: None },
    })
}

/// Returns whether an item belongs to the project with this key, or to none if the key is that of personal items.
fn is_item_in_project(db: &SqlConnection, project_key: i64, item: AssistantItem<'_>) -> Result<bool> {
    let path: Option<String> = db
        .prepare("SELECT path FROM projects WHERE project_key = $1")?
        .query_optional([project_key], |row| row.get(0))?;
    Ok(match (path, item.project_hash) {
        (Some(path), Some(hash)) => hash == crate::project_hash(&path),
        (None, None) => project_key == projects::PERSONAL_KEY,
        (Some(_), None) | (None, Some(_)) => false,
    })
}
