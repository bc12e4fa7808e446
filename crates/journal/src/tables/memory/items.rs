//! Stored items: JSON objects that agents and clients store under a namespace and a key. Content and permissions are
//! not checked here.

pub(crate) mod field_filter;

use std::ops::ControlFlow;

use crate::engines::sql::{self, SqlConnection, SqlDialect, SqlRow};
use protocol::{OwnerScope, StoredItem};
use serde_json::{Map, Value};

use crate::ownership;
use crate::query::ANY_LABEL;
use crate::tables::columns::{encode_counter, encode_json, encode_time, read_column, read_json_column};
use crate::tables::search::{self, document_index, index};
use crate::tables::{check_page_limit, owners};
use crate::{Error, ItemHit, ItemQuery, NamespaceQuery, Result};

/// Separates labels in a stored namespace. It is less than every character of a label, so that the order of stored
/// namespaces equals the order of their labels, and the namespaces under a prefix form a range.
const SEPARATOR: char = '\u{1f}';
/// The character after [`SEPARATOR`], used in exclusive upper bounds.
const AFTER_SEPARATOR: char = '\u{20}';
/// Appended to a namespace, it forms a text greater than the namespace and less than every other text that begins
/// with it.
const AFTER_NAMESPACE: char = '\u{1}';

/// The columns that [`read_item`] reads.
const COLUMNS: &str = "namespace, key, value, created_at, updated_at";

/// Stores an item and updates the search index. An existing item with the same key is replaced and keeps its creation
/// time.
///
/// # Errors
/// [`Error::InvalidRequest`] if the namespace is invalid.
pub(crate) fn put(db: &SqlConnection, item: &StoredItem) -> Result<()> {
    check_namespace(&item.namespace)?;
    let value = encode_json(&item.value)?;
    let key: i64 = db
        .prepare(
            "INSERT INTO items (namespace, key, value, created_at, updated_at) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (namespace, key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at
             RETURNING item_key",
        )?
        .query_row(
            (join_labels(&item.namespace), &item.key, &value, encode_time(item.created_at), encode_time(item.updated_at)),
            |row| row.get(0),
        )?;
    document_index::index_document(
        db,
        document_index::DocumentKind::Item,
        key,
        &searchable_text(&item.key, &item.value),
    )
}

/// Fails if a namespace is empty or has a label that would make its stored form ambiguous.
fn check_namespace(namespace: &[String]) -> Result<()> {
    let is_label = |label: &String| !label.is_empty() && !label.contains(|char: char| char < AFTER_SEPARATOR);
    match namespace {
        [] => Err(Error::InvalidRequest { what: "a namespace", reason: "it is empty".to_owned() }),
        labels if labels.iter().all(is_label) => Ok(()),
        _ => {
            let reason = "a label is empty or has a control character".to_owned();
            Err(Error::InvalidRequest { what: "a namespace", reason })
        }
    }
}

/// Returns the stored form of a namespace.
fn join_labels(namespace: &[String]) -> String {
    namespace.join(&SEPARATOR.to_string())
}

/// Returns the labels of a stored namespace.
pub(crate) fn split_labels(namespace: &str) -> Vec<String> {
    namespace.split(SEPARATOR).map(str::to_owned).collect()
}

/// Returns whether items in a namespace belong to a scope. Without a scope, all do.
pub(crate) fn is_in_scope(scope: Option<&OwnerScope>, labels: &[String]) -> bool {
    scope.is_none_or(|scope| labels.first().is_some_and(|label| ownership::is_in_scope(scope, label)))
}

/// Returns the bounds of the namespaces of an owner (the upper one exclusive). The namespaces of the person at the
/// machine are those outside the bounds.
pub(crate) fn owner_namespace_bounds(owner: &str) -> (String, String) {
    ownership::owner_label_bounds(owner, AFTER_SEPARATOR)
}

/// Returns the searchable text of an item: its key, and the names and values of its fields.
pub(crate) fn searchable_text(key: &str, value: &Map<String, Value>) -> String {
    let mut text = key.to_owned();
    add_fields(&mut text, value);
    text
}

/// Appends the names and values of fields, one per line.
fn add_fields(text: &mut String, fields: &Map<String, Value>) {
    for (name, value) in fields {
        text.push('\n');
        text.push_str(name);
        add_value(text, value);
    }
}

/// Appends a value; texts, numbers and booleans each on a line of their own.
fn add_value(text: &mut String, value: &Value) {
    match value {
        Value::Null => {}
        Value::String(string) => {
            text.push('\n');
            text.push_str(string);
        }
        Value::Bool(_) | Value::Number(_) => {
            text.push('\n');
            text.push_str(&value.to_string());
        }
        Value::Array(values) => values.iter().for_each(|value| add_value(text, value)),
        Value::Object(fields) => add_fields(text, fields),
    }
}

/// Deletes an item. A missing item is not an error.
pub(crate) fn delete(db: &SqlConnection, namespace: &[String], key: &str) -> Result<()> {
    let removed: Option<i64> = db
        .prepare("DELETE FROM items WHERE namespace = $1 AND key = $2 RETURNING item_key")?
        .query_optional((join_labels(namespace), key), |row| row.get(0))?;
    let Some(key) = removed else { return Ok(()) };
    document_index::remove_document(db, document_index::DocumentKind::Item, key)
}

/// Returns an item, or `None`.
pub(crate) fn find(db: &SqlConnection, namespace: &[String], key: &str) -> Result<Option<StoredItem>> {
    db.prepare(&format!("SELECT {COLUMNS} FROM items WHERE namespace = $1 AND key = $2"))?
        .query_optional((join_labels(namespace), key), read_item)
}

/// Returns a page of items that match a query: the best matches of its words first, or the most recently updated
/// first. Items are filtered one by one, so only those of the page are held in memory.
///
/// # Errors
/// [`Error::InvalidRequest`] if the limit is zero or too large, or the query has too many words.
pub(crate) fn list(db: &SqlConnection, query: &ItemQuery) -> Result<Vec<ItemHit>> {
    check_page_limit("items", query.limit)?;
    search::check_word_count(query.words.len())?;
    if query.words.is_empty() {
        let (sql, parameters) = newest_sql(db.dialect(), query);
        // Without a field filter, the offset is applied in SQL.
        let offset = if query.filter.is_empty() { 0 } else { query.offset };
        return read_page(db, &sql, &parameters, query, offset);
    }
    let Some(any) = index::any_word_expression(db.dialect(), &query.words) else { return Ok(Vec::new()) };
    let rows = document_index::document_rows(document_index::DocumentKind::Item);
    let parameters = [sql::SqlValue::from(any), rows.start.into(), rows.end.into()];
    read_page(db, index::best_first_sql(db.dialect()), &parameters, query, query.offset)
}

/// Returns the statement for the items under a prefix, most recently updated first.
fn newest_sql(dialect: SqlDialect, query: &ItemQuery) -> (String, Vec<sql::SqlValue<'static>>) {
    let mut parameters = vec![];
    let mut sql = "SELECT item_key, NULL FROM items".to_owned();
    if query.prefix.is_empty() {
        // The owner is at the beginning of the namespace.
        if let Some(owner) = owners::owner_column_value(query.scope.as_ref()) {
            let (first, end) = owner_namespace_bounds(owner);
            let negation = if owner.is_empty() { "NOT " } else { "" };
            parameters.extend([first.into(), end.into()]);
            sql.push_str(&format!(" WHERE {negation}(namespace >= $1 AND namespace < $2)"));
        }
        sql.push_str(" ORDER BY updated_at DESC, item_key DESC");
    } else {
        let exact = join_labels(&query.prefix);
        parameters.push(format!("{exact}{SEPARATOR}").into());
        parameters.push(format!("{exact}{AFTER_SEPARATOR}").into());
        parameters.push(exact.into());
        // Sort the items of the prefix, instead of searching for them in the index of recent items.
        sql.push_str(&format!(
            " WHERE namespace = $3 OR (namespace >= $1 AND namespace < $2) ORDER BY {} DESC, {} DESC",
            dialect.without_index("updated_at"),
            dialect.without_index("item_key")
        ));
    }
    if query.filter.is_empty() {
        parameters.push(encode_counter(query.limit as u64).into());
        parameters.push(encode_counter(query.offset as u64).into());
        sql.push_str(&format!(" LIMIT ${} OFFSET ${}", parameters.len() - 1, parameters.len()));
    }
    (sql, parameters)
}

/// Reads the items whose keys a statement returns, filters them, and returns a page of them.
fn read_page(
    db: &SqlConnection,
    sql: &str,
    parameters: &[sql::SqlValue<'static>],
    query: &ItemQuery,
    offset: usize,
) -> Result<Vec<ItemHit>> {
    let mut keys = db.prepare(sql)?;
    let mut item_statement = db.prepare(&format!("SELECT {COLUMNS} FROM items WHERE item_key = $1"))?;
    let mut hits = Vec::new();
    let mut skipped = 0;
    keys.stream_rows(parameters, |row| {
        let (row, score): (i64, Option<f64>) = (row.get(0)?, row.get(1)?);
        let key = document_index::decode_row(row).map_or(row, |(_, key)| key);
        let item = item_statement.query_row([key], read_item)?;
        let is_in_own_scope = is_in_scope(query.scope.as_ref(), &item.namespace);
        if !is_in_own_scope
            || !item.namespace.starts_with(&query.prefix)
            || !field_filter::meets_all(&query.filter, &item.value)
        {
            return Ok(ControlFlow::Continue(()));
        }
        match skipped < offset {
            true => skipped += 1,
            false => hits.push(ItemHit { item, score }),
        }
        Ok(match hits.len() < query.limit {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        })
    })?;
    Ok(hits)
}

/// Selects the first namespace in a range.
const NEXT_NAMESPACE_SQL: &str =
    "SELECT namespace FROM items WHERE namespace >= $1 AND namespace < $2 ORDER BY namespace LIMIT 1";

/// Returns a page of the namespaces in use, in ascending order. Each namespace is found with one index lookup,
/// regardless of the number of its items.
///
/// # Errors
/// [`Error::InvalidRequest`] if the limit is zero or too large.
pub(crate) fn namespaces(db: &SqlConnection, query: &NamespaceQuery) -> Result<Vec<Vec<String>>> {
    check_page_limit("namespaces", query.limit)?;
    let fixed_prefix: Vec<String> =
        query.prefix.iter().take_while(|label| *label != ANY_LABEL).cloned().collect();
    let mut start = join_labels(&fixed_prefix);
    let end =
        if fixed_prefix.is_empty() { char::MAX.to_string() } else { format!("{start}{AFTER_SEPARATOR}") };
    let mut statement = db.prepare(NEXT_NAMESPACE_SQL)?;
    let mut namespaces = Vec::new();
    let mut skipped = 0;
    while namespaces.len() < query.limit {
        let next: Option<String> = statement.query_optional((&start, &end), |row| row.get(0))?;
        let Some(next) = next else { break };
        let mut labels = split_labels(&next);
        if !is_in_scope(query.scope.as_ref(), &labels) {
            // The namespaces of other owners are adjacent, so skip all of them at once.
            start = format!("{}{AFTER_SEPARATOR}", labels[0]);
            continue;
        }
        if !matches_namespace(query, &labels) {
            start = format!("{next}{AFTER_NAMESPACE}");
            continue;
        }
        labels.truncate(query.depth_max.unwrap_or(usize::MAX));
        start = match labels.len() {
            0 => end.clone(),
            _ if query.depth_max == Some(labels.len()) => {
                format!("{}{AFTER_SEPARATOR}", join_labels(&labels))
            }
            _ => format!("{next}{AFTER_NAMESPACE}"),
        };
        match skipped < query.offset {
            true => skipped += 1,
            false => namespaces.push(labels),
        }
    }
    Ok(namespaces)
}

/// Returns the searchable texts of the items with a key greater than `after`, in the order of their keys.
pub(crate) fn texts_after(db: &SqlConnection, after: i64, limit: i64) -> Result<Vec<(i64, String)>> {
    db.prepare("SELECT item_key, key, value FROM items WHERE item_key > $1 ORDER BY item_key LIMIT $2")?
        .query_map([after, limit], |row| {
            Ok((
                row.get("item_key")?,
                searchable_text(&row.get_text("key")?, &read_json_column(row, "value")?),
            ))
        })
}

/// Returns whether labels match the prefix and the suffix of a query, in which [`ANY_LABEL`] matches every label.
fn matches_namespace(query: &NamespaceQuery, labels: &[String]) -> bool {
    let matches = |(pattern, label): (&String, &String)| pattern == ANY_LABEL || pattern == label;
    let (prefix, suffix) = (&query.prefix, &query.suffix);
    labels.len() >= prefix.len().max(suffix.len())
        && prefix.iter().zip(labels).all(matches)
        && suffix.iter().rev().zip(labels.iter().rev()).all(matches)
}

/// Reads an item from a row with [`COLUMNS`].
fn read_item(row: &SqlRow<'_>) -> Result<StoredItem> {
    Ok(StoredItem {
        namespace: split_labels(&row.get_text("namespace")?),
        key: row.get("key")?,
        value: read_json_column(row, "value")?,
        created_at: read_column(row, "created_at")?,
        updated_at: read_column(row, "updated_at")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::query_plan;

    #[test]
    fn pages_of_items_and_namespaces_are_read_from_an_index() {
        let query_for_prefix = |prefix: &[&str]| ItemQuery {
            prefix: prefix.iter().map(|label| (*label).to_owned()).collect(),
            limit: 10,
            ..ItemQuery::default()
        };
        assert_eq!(
            query_plan(&newest_sql(SqlDialect::Sqlite, &query_for_prefix(&[])).0),
            ["SCAN items USING COVERING INDEX items_recent"]
        );
        let prefix_plan = query_plan(&newest_sql(SqlDialect::Sqlite, &query_for_prefix(&["a"])).0);
        assert!(!prefix_plan.iter().any(|step| step.contains("SCAN")), "{prefix_plan:?}");
        let namespace =
            "SEARCH items USING COVERING INDEX sqlite_autoindex_items_1 (namespace>? AND namespace<?)";
        assert_eq!(query_plan(NEXT_NAMESPACE_SQL), [namespace]);
    }
}
