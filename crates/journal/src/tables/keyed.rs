//! Rows that are put, replaced and removed under a key of the caller's: the outbox and the sessions imported.

pub(crate) mod keys;

use crate::engines::sql::{Connection, Row};
use jiff::Timestamp;
use protocol::Scope;
use serde_json::Value;

use super::columns::{count, integer, json, json_column, stored, stored_option, time};
use super::{owners, page_limit, threads};
use crate::owned::bounds;
use crate::{Error, ImportSource, ImportedSoFar, OutboxItem, OutboxQuery, Result};

/// Adds an item to the outbox; one with the same key is replaced.
pub(crate) fn enqueue(db: &Connection, item: &OutboxItem) -> Result<()> {
    db.prepare(
        "INSERT INTO outbox (kind, key, payload, attempts, created_at) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (kind, key) DO UPDATE SET payload = excluded.payload, attempts = excluded.attempts,
             created_at = excluded.created_at",
    )?
    .send((&item.kind, &item.key, json(&item.payload)?, item.attempts, time(item.created_at)))
}

/// Removes an item from the outbox, or the one alone that was added at that time; one that is not there is as good as
/// removed.
pub(crate) fn dequeue(db: &Connection, kind: &str, key: &str, created_at: Option<Timestamp>) -> Result<()> {
    db.prepare(
        "DELETE FROM outbox WHERE kind = $1 AND key = $2 AND (CAST($3 AS TEXT) IS NULL OR created_at = $3)",
    )?
    .send((kind, key, created_at.map(time)))
}

/// Changes an item that is there as it was.
pub(crate) fn change(db: &Connection, was: &OutboxItem, payload: &Value, attempts: u32) -> Result<()> {
    let changed = db
        .prepare(
            "UPDATE outbox SET payload = $6, attempts = $7
             WHERE kind = $1 AND key = $2 AND payload = $3 AND attempts = $4 AND created_at = $5",
        )?
        .execute((
            &was.kind,
            &was.key,
            json(&was.payload)?,
            was.attempts,
            time(was.created_at),
            json(payload)?,
            attempts,
        ))?;
    match changed {
        0 => Err(Error::Differs { what: "outbox item", id: was.key.clone() }),
        _ => Ok(()),
    }
}

/// Returns a page of the items of a kind, oldest first.
pub(crate) fn outbox(db: &Connection, query: &OutboxQuery) -> Result<Vec<OutboxItem>> {
    page_limit("the outbox", query.limit)?;
    let after = query.after.as_ref();
    let (first, end, inside) = keys_of(query.scope.as_ref());
    let mut statement = db.prepare(OUTBOX_PAGE)?;
    statement.query_map(
        (
            &query.kind,
            after.map_or_else(String::new, |after| time(after.created_at)),
            after.map_or("", |after| after.key.as_str()),
            first,
            end,
            inside,
            integer(query.limit as u64),
        ),
        read_outbox,
    )
}

/// Whose key it is takes no place in a page.
const OUTBOX_PAGE: &str = "SELECT kind, key, payload, attempts, created_at FROM outbox
    WHERE kind = $1 AND (created_at, key) > ($2, $3) AND (CAST($4 AS TEXT) IS NULL OR (key >= $4 AND key < $5) = $6)
    ORDER BY created_at, key LIMIT $7";

/// Returns how many items of a kind there are, and when the oldest was added.
pub(crate) fn outbox_waiting(
    db: &Connection,
    kind: &str,
    scope: Option<&Scope>,
) -> Result<(u64, Option<Timestamp>)> {
    let (first, end, inside) = keys_of(scope);
    db.prepare(
        "SELECT count(*) AS items, min(created_at) AS oldest FROM outbox
         WHERE kind = $1 AND (CAST($2 AS TEXT) IS NULL OR (key >= $2 AND key < $3) = $4)",
    )?
    .query_row((kind, first, end, inside), |row| Ok((count(row, "items")?, stored_option(row, "oldest")?)))
}

/// Returns the bounds of the keys of a scope, the second one outside, and whether its keys are inside them.
fn keys_of(scope: Option<&Scope>) -> (Option<String>, Option<String>, bool) {
    match owners::of(scope) {
        None => (None, None, true),
        Some(owner) => {
            let (first, end) = bounds(owner, AFTER_SLASH);
            (Some(first), Some(end), !owner.is_empty())
        }
    }
}

/// The character behind the slash that follows an owner's label in a key.
const AFTER_SLASH: char = '0';

/// Returns the item under a key, or `None`.
pub(crate) fn outbox_item(db: &Connection, kind: &str, key: &str) -> Result<Option<OutboxItem>> {
    db.prepare("SELECT kind, key, payload, attempts, created_at FROM outbox WHERE kind = $1 AND key = $2")?
        .find((kind, key), read_outbox)
}

fn read_outbox(row: &Row<'_>) -> Result<OutboxItem> {
    Ok(OutboxItem {
        kind: row.get("kind")?,
        key: row.get("key")?,
        payload: json_column(row, "payload")?,
        attempts: row.get("attempts")?,
        created_at: stored(row, "created_at")?,
    })
}

/// Remembers which thread a session was imported into, unless what is stored is not as expected.
pub(crate) fn put_import(
    db: &Connection,
    source: &ImportSource,
    expected: Option<ImportedSoFar>,
) -> Result<()> {
    let last_seq = threads::head(db, source.thread_id)?.last_seq;
    let stored = import_source(db, &source.source_key)?
        .map(|stored| (stored.thread_id, ImportedSoFar { entries: stored.entries, last_seq }));
    if stored != expected.map(|expected| (source.thread_id, expected)) {
        return Err(Error::Differs { what: "import", id: source.source_key.clone() });
    }
    db
        .prepare(
            "INSERT INTO imports (source_key, thread_id, entries, chain, updated_at) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (source_key) DO UPDATE SET thread_id = excluded.thread_id, entries = excluded.entries,
                 chain = excluded.chain, updated_at = excluded.updated_at",
        )?
        .send((
            &source.source_key,
            source.thread_id.to_string(),
            integer(source.entries),
            &source.chain,
            time(source.updated_at),
        ))
}

/// Returns where a session was imported, or `None`.
pub(crate) fn import_source(db: &Connection, source_key: &str) -> Result<Option<ImportSource>> {
    db.prepare("SELECT source_key, thread_id, entries, chain, updated_at FROM imports WHERE source_key = $1")?
        .find([source_key], |row| {
            Ok(ImportSource {
                source_key: row.get("source_key")?,
                thread_id: stored(row, "thread_id")?,
                entries: count(row, "entries")?,
                chain: row.get("chain")?,
                updated_at: stored(row, "updated_at")?,
            })
        })
}

#[cfg(test)]
mod tests {
    use super::OUTBOX_PAGE;
    use crate::tables::plan;

    #[test]
    fn h4_a_page_of_the_outbox_reads_no_more_than_itself() {
        let plan = plan(OUTBOX_PAGE);
        assert!(plan[0].contains("outbox_oldest"), "{plan:?}");
        assert!(!plan.iter().any(|step| step.contains("TEMP B-TREE")), "{plan:?}");
    }
}
