//! Rows that are inserted, replaced and deleted under a key chosen by the caller: the outbox, imported sessions and
//! API keys.

pub(crate) mod api_keys;

use crate::engines::sql::{SqlConnection, SqlRow};
use jiff::Timestamp;
use protocol::OwnerScope;
use serde_json::Value;

use super::columns::{
    encode_counter, encode_json, encode_time, read_column, read_counter, read_json_column,
    read_optional_column,
};
use super::{check_page_limit, owners, threads};
use crate::ownership::owner_label_bounds;
use crate::{Error, ImportProgress, ImportSource, OutboxItem, OutboxQuery, Result};

/// Inserts an item into the outbox, or replaces the item with the same key.
pub(crate) fn put_outbox_item(db: &SqlConnection, item: &OutboxItem) -> Result<()> {
    db.prepare(
        "INSERT INTO outbox (kind, key, payload, attempts, created_at) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (kind, key) DO UPDATE SET payload = excluded.payload, attempts = excluded.attempts,
             created_at = excluded.created_at",
    )?
    .execute_deferred((
        &item.kind,
        &item.key,
        encode_json(&item.payload)?,
        item.attempts,
        encode_time(item.created_at),
    ))
}

/// Deletes an item from the outbox. If `created_at` is given, only the item that was added at this time is deleted. A
/// missing item is not an error.
pub(crate) fn remove_outbox_item(
    db: &SqlConnection,
    kind: &str,
    key: &str,
    created_at: Option<Timestamp>,
) -> Result<()> {
    db.prepare(
        "DELETE FROM outbox WHERE kind = $1 AND key = $2 AND (CAST($3 AS TEXT) IS NULL OR created_at = $3)",
    )?
    .execute_deferred((kind, key, created_at.map(encode_time)))
}

/// Changes an outbox item that still has the expected content.
///
/// # Errors
/// [`Error::Conflict`] if the item was changed or removed.
pub(crate) fn update_outbox_item(
    db: &SqlConnection,
    expected: &OutboxItem,
    payload: &Value,
    attempts: u32,
) -> Result<()> {
    let changed = db
        .prepare(
            "UPDATE outbox SET payload = $6, attempts = $7
             WHERE kind = $1 AND key = $2 AND payload = $3 AND attempts = $4 AND created_at = $5",
        )?
        .execute((
            &expected.kind,
            &expected.key,
            encode_json(&expected.payload)?,
            expected.attempts,
            encode_time(expected.created_at),
            encode_json(payload)?,
            attempts,
        ))?;
    match changed {
        0 => Err(Error::Conflict { what: "outbox item", id: expected.key.clone() }),
        _ => Ok(()),
    }
}

/// Returns a page of the items of a kind, oldest first.
///
/// # Errors
/// [`Error::InvalidRequest`] if the limit is zero or too large.
pub(crate) fn list_outbox(db: &SqlConnection, query: &OutboxQuery) -> Result<Vec<OutboxItem>> {
    check_page_limit("the outbox", query.limit)?;
    let after = query.after.as_ref();
    let (first, end, is_inside) = outbox_key_bounds(query.scope.as_ref());
    let mut statement = db.prepare(OUTBOX_PAGE_SQL)?;
    statement.query_map(
        (
            &query.kind,
            after.map_or_else(String::new, |after| encode_time(after.created_at)),
            after.map_or("", |after| after.key.as_str()),
            first,
            end,
            is_inside,
            encode_counter(query.limit as u64),
        ),
        read_outbox_item,
    )
}

/// Reads a page of the outbox. The owner is filtered in SQL, so that items of other owners do not count toward the
/// limit.
const OUTBOX_PAGE_SQL: &str = "SELECT kind, key, payload, attempts, created_at FROM outbox
    WHERE kind = $1 AND (created_at, key) > ($2, $3) AND (CAST($4 AS TEXT) IS NULL OR (key >= $4 AND key < $5) = $6)
    ORDER BY created_at, key LIMIT $7";

/// Returns the number of items of a kind, and the time at which the oldest was added.
pub(crate) fn outbox_backlog(
    db: &SqlConnection,
    kind: &str,
    scope: Option<&OwnerScope>,
) -> Result<(u64, Option<Timestamp>)> {
    let (first, end, is_inside) = outbox_key_bounds(scope);
    db.prepare(
        "SELECT count(*) AS items, min(created_at) AS oldest FROM outbox
         WHERE kind = $1 AND (CAST($2 AS TEXT) IS NULL OR (key >= $2 AND key < $3) = $4)",
    )?
    .query_row((kind, first, end, is_inside), |row| {
        Ok((read_counter(row, "items")?, read_optional_column(row, "oldest")?))
    })
}

/// Returns the bounds of the outbox keys of a scope (the upper one exclusive), and whether the keys of the scope are
/// inside the bounds.
fn outbox_key_bounds(scope: Option<&OwnerScope>) -> (Option<String>, Option<String>, bool) {
    match owners::owner_column_value(scope) {
        None => (None, None, true),
        Some(owner) => {
            let (first, end) = owner_label_bounds(owner, AFTER_SLASH);
            (Some(first), Some(end), !owner.is_empty())
        }
    }
}

/// The ASCII character after `/`. The key of an owner's item begins with the owner's label and `/`, so the label
/// followed by this character is an exclusive upper bound of these keys.
const AFTER_SLASH: char = '0';

/// Returns the outbox item with this key, or `None`.
pub(crate) fn outbox_item(db: &SqlConnection, kind: &str, key: &str) -> Result<Option<OutboxItem>> {
    db.prepare("SELECT kind, key, payload, attempts, created_at FROM outbox WHERE kind = $1 AND key = $2")?
        .query_optional((kind, key), read_outbox_item)
}

/// Reads an outbox item from a row.
fn read_outbox_item(row: &SqlRow<'_>) -> Result<OutboxItem> {
    Ok(OutboxItem {
        kind: row.get("kind")?,
        key: row.get("key")?,
        payload: read_json_column(row, "payload")?,
        attempts: row.get("attempts")?,
        created_at: read_column(row, "created_at")?,
    })
}

/// Stores the thread into which a session was imported, and the progress of the import.
///
/// # Errors
/// [`Error::Conflict`] if the stored progress is not the expected one.
pub(crate) fn put_import(
    db: &SqlConnection,
    source: &ImportSource,
    expected: Option<ImportProgress>,
) -> Result<()> {
    let last_seq = threads::load_head(db, source.thread_id)?.last_seq;
    let stored = import_source(db, &source.source_key)?
        .map(|stored| (stored.thread_id, ImportProgress { entries: stored.entries, last_seq }));
    if stored != expected.map(|expected| (source.thread_id, expected)) {
        return Err(Error::Conflict { what: "import", id: source.source_key.clone() });
    }
    db
        .prepare(
            "INSERT INTO imports (source_key, thread_id, entries, chain, updated_at) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (source_key) DO UPDATE SET thread_id = excluded.thread_id, entries = excluded.entries,
                 chain = excluded.chain, updated_at = excluded.updated_at",
        )?
        .execute_deferred((
            &source.source_key,
            source.thread_id.to_string(),
            encode_counter(source.entries),
            &source.chain,
            encode_time(source.updated_at),
        ))
}

/// Returns the import of a session, or `None`.
pub(crate) fn import_source(db: &SqlConnection, source_key: &str) -> Result<Option<ImportSource>> {
    db.prepare("SELECT source_key, thread_id, entries, chain, updated_at FROM imports WHERE source_key = $1")?
        .query_optional([source_key], |row| {
            Ok(ImportSource {
                source_key: row.get("source_key")?,
                thread_id: read_column(row, "thread_id")?,
                entries: read_counter(row, "entries")?,
                chain: row.get("chain")?,
                updated_at: read_column(row, "updated_at")?,
            })
        })
}

#[cfg(test)]
mod tests {
    use super::OUTBOX_PAGE_SQL;
    use crate::tables::query_plan;

    #[test]
    fn h4_a_page_of_the_outbox_reads_only_its_own_rows() {
        let plan = query_plan(OUTBOX_PAGE_SQL);
        assert!(plan[0].contains("outbox_oldest"), "{plan:?}");
        assert!(!plan.iter().any(|step| step.contains("TEMP B-TREE")), "{plan:?}");
    }
}
