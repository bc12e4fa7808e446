//! What agents and clients keep under names. What may be kept there, and by whom, is not known here.

pub(crate) mod matching;

use std::ops::ControlFlow;

use crate::engines::sql::{self, Connection, Dialect, Row};
use protocol::{Item, Scope};
use serde_json::{Map, Value};

use crate::owned;
use crate::query::ANY_LABEL;
use crate::tables::columns::{integer, json, json_column, stored, time};
use crate::tables::search::{self, index, texts};
use crate::tables::{owners, page_limit};
use crate::{Error, FoundItem, ItemQuery, NamespaceQuery, Result};

/// Stands between labels. It is below every character of a label, so that the order of the texts is the order of the
/// labels, and what is under a prefix is a range.
const SEPARATOR: char = '\u{1f}';
/// The character after it.
const AFTER_SEPARATOR: char = '\u{20}';
/// Behind a namespace, it makes a text before all others that begin with the namespace.
const AFTER_NAMESPACE: char = '\u{1}';

const COLUMNS: &str = "namespace, key, value, created_at, updated_at";

/// Keeps a value under a name.
pub(crate) fn put(db: &Connection, item: &Item) -> Result<()> {
    check(&item.namespace)?;
    let value = json(&item.value)?;
    let key: i64 = db
        .prepare(
            "INSERT INTO items (namespace, key, value, created_at, updated_at) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (namespace, key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at
             RETURNING item_key",
        )?
        .query_row(
            (joined(&item.namespace), &item.key, &value, time(item.created_at), time(item.updated_at)),
            |row| row.get(0),
        )?;
    texts::put(db, texts::Kind::Item, key, &text(&item.key, &item.value))
}

/// Refuses a namespace that could not be told from another.
fn check(namespace: &[String]) -> Result<()> {
    let is_label = |label: &String| !label.is_empty() && !label.contains(|char: char| char < AFTER_SEPARATOR);
    match namespace {
        [] => Err(Error::Invalid { what: "a namespace", reason: "it is empty".to_owned() }),
        labels if labels.iter().all(is_label) => Ok(()),
        _ => {
            let reason = "a label is empty or has a control character".to_owned();
            Err(Error::Invalid { what: "a namespace", reason })
        }
    }
}

fn joined(namespace: &[String]) -> String {
    namespace.join(&SEPARATOR.to_string())
}

/// Returns the labels of a stored namespace.
pub(crate) fn labels(namespace: &str) -> Vec<String> {
    namespace.split(SEPARATOR).map(str::to_owned).collect()
}

/// Returns whether what is kept there belongs to the scope.
pub(crate) fn is_of(scope: Option<&Scope>, labels: &[String]) -> bool {
    scope.is_none_or(|scope| labels.first().is_some_and(|label| owned::is_of(scope, label)))
}

/// Returns the bounds of the namespaces of an owner; of the person at the machine are those outside.
pub(crate) fn bounds(owner: &str) -> (String, String) {
    owned::bounds(owner, AFTER_SEPARATOR)
}

/// Returns the words of an item that can be found: its key, and the names and the values of fields.
pub(crate) fn text(key: &str, value: &Map<String, Value>) -> String {
    let mut text = key.to_owned();
    add_fields(&mut text, value);
    text
}

fn add_fields(text: &mut String, fields: &Map<String, Value>) {
    for (name, value) in fields {
        text.push('\n');
        text.push_str(name);
        add_value(text, value);
    }
}

fn add_value(text: &mut String, value: &Value) {
    match value {
        Value::Null => {}
        Value::String(words) => {
            text.push('\n');
            text.push_str(words);
        }
        Value::Bool(_) | Value::Number(_) => {
            text.push('\n');
            text.push_str(&value.to_string());
        }
        Value::Array(values) => values.iter().for_each(|value| add_value(text, value)),
        Value::Object(fields) => add_fields(text, fields),
    }
}

/// Removes what is kept under a name.
pub(crate) fn delete(db: &Connection, namespace: &[String], key: &str) -> Result<()> {
    let removed: Option<i64> = db
        .prepare("DELETE FROM items WHERE namespace = $1 AND key = $2 RETURNING item_key")?
        .find((joined(namespace), key), |row| row.get(0))?;
    let Some(key) = removed else { return Ok(()) };
    texts::remove(db, texts::Kind::Item, key)?;
    search::purge(db)
}

/// Returns what is kept under a name, or `None`.
pub(crate) fn find(db: &Connection, namespace: &[String], key: &str) -> Result<Option<Item>> {
    db.prepare(&format!("SELECT {COLUMNS} FROM items WHERE namespace = $1 AND key = $2"))?
        .find((joined(namespace), key), read)
}

/// Returns a page of items. One is read after the other, and only those of the page are held.
pub(crate) fn list(db: &Connection, query: &ItemQuery) -> Result<Vec<FoundItem>> {
    page_limit("items", query.limit)?;
    search::check_words(query.words.len())?;
    if query.words.is_empty() {
        let (sql, parameters) = newest(db.dialect(), query);
        // What is not filtered is counted by the engine.
        let offset = if query.filter.is_empty() { 0 } else { query.offset };
        return read_page(db, &sql, &parameters, query, offset);
    }
    let Some(any) = index::any_of(db.dialect(), &query.words) else { return Ok(Vec::new()) };
    let rows = texts::rows(texts::Kind::Item);
    let parameters = [sql::Value::from(any), rows.start.into(), rows.end.into()];
    read_page(db, index::best_first(db.dialect()), &parameters, query, query.offset)
}

/// Returns the statement for the keys of items of a prefix, those that were put last first.
fn newest(dialect: Dialect, query: &ItemQuery) -> (String, Vec<sql::Value<'static>>) {
    let mut parameters = vec![];
    let mut sql = "SELECT item_key, NULL FROM items".to_owned();
    if query.prefix.is_empty() {
        // Whose it is stands at the beginning of the namespace.
        if let Some(owner) = owners::of(query.scope.as_ref()) {
            let (first, end) = bounds(owner);
            let is = if owner.is_empty() { "NOT " } else { "" };
            parameters.extend([first.into(), end.into()]);
            sql.push_str(&format!(" WHERE {is}(namespace >= $1 AND namespace < $2)"));
        }
        sql.push_str(" ORDER BY updated_at DESC, item_key DESC");
    } else {
        let exact = joined(&query.prefix);
        parameters.push(format!("{exact}{SEPARATOR}").into());
        parameters.push(format!("{exact}{AFTER_SEPARATOR}").into());
        parameters.push(exact.into());
        // Sorted, and not looked for among everything that was put lately.
        sql.push_str(&format!(
            " WHERE namespace = $3 OR (namespace >= $1 AND namespace < $2) ORDER BY {} DESC, {} DESC",
            dialect.unindexed("updated_at"),
            dialect.unindexed("item_key")
        ));
    }
    if query.filter.is_empty() {
        parameters.push(integer(query.limit as u64).into());
        parameters.push(integer(query.offset as u64).into());
        sql.push_str(&format!(" LIMIT ${} OFFSET ${}", parameters.len() - 1, parameters.len()));
    }
    (sql, parameters)
}

fn read_page(
    db: &Connection,
    sql: &str,
    parameters: &[sql::Value<'static>],
    query: &ItemQuery,
    offset: usize,
) -> Result<Vec<FoundItem>> {
    let mut keys = db.prepare(sql)?;
    let mut of_key = db.prepare(&format!("SELECT {COLUMNS} FROM items WHERE item_key = $1"))?;
    let mut found = Vec::new();
    let mut skipped = 0;
    keys.stream(parameters, |row| {
        let (row, score): (i64, Option<f64>) = (row.get(0)?, row.get(1)?);
        let key = texts::of_row(row).map_or(row, |(_, key)| key);
        let item = of_key.query_row([key], read)?;
        let is_own = is_of(query.scope.as_ref(), &item.namespace);
        if !is_own || !item.namespace.starts_with(&query.prefix) || !matching::all(&query.filter, &item.value)
        {
            return Ok(ControlFlow::Continue(()));
        }
        match skipped < offset {
            true => skipped += 1,
            false => found.push(FoundItem { item, score }),
        }
        Ok(match found.len() < query.limit {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        })
    })?;
    Ok(found)
}

const NEXT_NAMESPACE: &str =
    "SELECT namespace FROM items WHERE namespace >= $1 AND namespace < $2 ORDER BY namespace LIMIT 1";

/// Returns namespaces in use, in order. From each, the engine goes straight to the next.
pub(crate) fn namespaces(db: &Connection, query: &NamespaceQuery) -> Result<Vec<Vec<String>>> {
    page_limit("namespaces", query.limit)?;
    let known: Vec<String> = query.prefix.iter().take_while(|label| *label != ANY_LABEL).cloned().collect();
    let mut from = joined(&known);
    let end = if known.is_empty() { char::MAX.to_string() } else { format!("{from}{AFTER_SEPARATOR}") };
    let mut statement = db.prepare(NEXT_NAMESPACE)?;
    let mut namespaces = Vec::new();
    let mut skipped = 0;
    while namespaces.len() < query.limit {
        let next: Option<String> = statement.find((&from, &end), |row| row.get(0))?;
        let Some(next) = next else { break };
        let mut labels = labels(&next);
        if !is_of(query.scope.as_ref(), &labels) {
            // What others keep is next to each other: none of it is looked at.
            from = format!("{}{AFTER_SEPARATOR}", labels[0]);
            continue;
        }
        if !matches(query, &labels) {
            from = format!("{next}{AFTER_NAMESPACE}");
            continue;
        }
        labels.truncate(query.depth_max.unwrap_or(usize::MAX));
        from = match labels.len() {
            0 => end.clone(),
            _ if query.depth_max == Some(labels.len()) => format!("{}{AFTER_SEPARATOR}", joined(&labels)),
            _ => format!("{next}{AFTER_NAMESPACE}"),
        };
        match skipped < query.offset {
            true => skipped += 1,
            false => namespaces.push(labels),
        }
    }
    Ok(namespaces)
}

/// Returns the words of items behind a key, in the order of their keys.
pub(crate) fn texts_behind(db: &Connection, behind: i64, limit: i64) -> Result<Vec<(i64, String)>> {
    db.prepare("SELECT item_key, key, value FROM items WHERE item_key > $1 ORDER BY item_key LIMIT $2")?
        .query_map([behind, limit], |row| {
            Ok((row.get("item_key")?, text(&row.text("key")?, &json_column(row, "value")?)))
        })
}

fn matches(query: &NamespaceQuery, labels: &[String]) -> bool {
    let alike = |(wanted, label): (&String, &String)| wanted == ANY_LABEL || wanted == label;
    let (prefix, suffix) = (&query.prefix, &query.suffix);
    labels.len() >= prefix.len().max(suffix.len())
        && prefix.iter().zip(labels).all(alike)
        && suffix.iter().rev().zip(labels.iter().rev()).all(alike)
}

fn read(row: &Row<'_>) -> Result<Item> {
    Ok(Item {
        namespace: labels(&row.text("namespace")?),
        key: row.get("key")?,
        value: json_column(row, "value")?,
        created_at: stored(row, "created_at")?,
        updated_at: stored(row, "updated_at")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::plan;

    #[test]
    fn items_and_namespaces_come_from_an_index() {
        let of = |prefix: &[&str]| ItemQuery {
            prefix: prefix.iter().map(|label| (*label).to_owned()).collect(),
            limit: 10,
            ..ItemQuery::default()
        };
        assert_eq!(
            plan(&newest(Dialect::Sqlite, &of(&[])).0),
            ["SCAN items USING COVERING INDEX items_recent"]
        );
        let of_prefix = plan(&newest(Dialect::Sqlite, &of(&["a"])).0);
        assert!(!of_prefix.iter().any(|step| step.contains("SCAN")), "{of_prefix:?}");
        let namespace =
            "SEARCH items USING COVERING INDEX sqlite_autoindex_items_1 (namespace>? AND namespace<?)";
        assert_eq!(plan(NEXT_NAMESPACE), [namespace]);
    }
}
