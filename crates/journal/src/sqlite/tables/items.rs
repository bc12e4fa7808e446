//! What agents and clients keep under names. What may be kept there, and by whom, is not known here.

use protocol::Item;
use rusqlite::{Connection, OptionalExtension, Row};

use super::columns::{json, json_column, stored, time};
use super::search::texts;
use crate::{FoundItem, ItemQuery, NamespaceQuery, Result};

/// Keeps a value under a name.
pub(crate) fn put(connection: &Connection, item: &Item) -> Result<()> {
    let value = json(&item.value)?;
    let key: i64 = connection
        .prepare_cached(
            "INSERT INTO items (namespace, key, value, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (namespace, key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at
             RETURNING item_key",
        )?
        .query_row(
            (json(&item.namespace)?, &item.key, &value, time(item.created_at), time(item.updated_at)),
            |row| row.get(0),
        )?;
    texts::put(connection, texts::Kind::Item, key, &format!("{}\n{value}", item.key))
}

/// Removes what is kept under a name.
pub(crate) fn delete(connection: &Connection, namespace: &[String], key: &str) -> Result<()> {
    let removed: Option<i64> = connection
        .prepare_cached("DELETE FROM items WHERE namespace = ?1 AND key = ?2 RETURNING item_key")?
        .query_row((json(&namespace)?, key), |row| row.get(0))
        .optional()?;
    removed.map_or(Ok(()), |key| texts::remove(connection, texts::Kind::Item, key))
}

/// Returns what is kept under a name, or `None`.
pub(crate) fn find(connection: &Connection, namespace: &[String], key: &str) -> Result<Option<Item>> {
    Ok(connection
        .prepare_cached(
            "SELECT namespace, key, value, created_at, updated_at FROM items WHERE namespace = ?1 AND key = ?2",
        )?
        .query_row((json(&namespace)?, key), read)
        .optional()?)
}

/// Returns a page of items.
pub(crate) fn list(connection: &Connection, query: &ItemQuery) -> Result<Vec<FoundItem>> {
    let mut statement = connection.prepare_cached(
        "SELECT namespace, key, value, created_at, updated_at FROM items ORDER BY updated_at DESC, item_key DESC",
    )?;
    let mut found = Vec::new();
    let mut passed = 0;
    for item in statement.query_map([], read)? {
        let item = item?;
        if !item.namespace.starts_with(&query.prefix) {
            continue;
        }
        passed += 1;
        if passed > query.offset && found.len() < query.limit {
            found.push(FoundItem { item, score: None });
        }
    }
    Ok(found)
}

/// Returns namespaces in use, in order.
pub(crate) fn namespaces(connection: &Connection, query: &NamespaceQuery) -> Result<Vec<Vec<String>>> {
    let mut statement = connection.prepare_cached("SELECT DISTINCT namespace FROM items ORDER BY namespace")?;
    let all = statement.query_map([], |row| json_column::<Vec<String>>(row, "namespace"))?;
    let all = all.collect::<rusqlite::Result<Vec<_>>>()?;
    let of_prefix = all.into_iter().filter(|namespace| namespace.starts_with(&query.prefix));
    Ok(of_prefix.skip(query.offset).take(query.limit).collect())
}

fn read(row: &Row<'_>) -> rusqlite::Result<Item> {
    Ok(Item {
        namespace: json_column(row, "namespace")?,
        key: row.get("key")?,
        value: json_column(row, "value")?,
        created_at: stored(row, "created_at")?,
        updated_at: stored(row, "updated_at")?,
    })
}
