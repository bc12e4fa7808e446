//! Rows that are put, replaced and removed under a key of the caller's: the outbox and the sessions imported.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension};

use super::columns::{count, integer, json, json_column, stored, time};
use super::threads;
use crate::{Error, ImportSource, ImportedSoFar, OutboxItem, Result};

/// Adds an item to the outbox; one with the same key is replaced.
pub(crate) fn enqueue(connection: &Connection, item: &OutboxItem) -> Result<()> {
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO outbox (kind, key, payload, attempts, created_at) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute((&item.kind, &item.key, json(&item.payload)?, item.attempts, time(item.created_at)))?;
    Ok(())
}

/// Removes an item from the outbox, or the one alone that was added at that time; one that is not there is as good as
/// removed.
pub(crate) fn dequeue(
    connection: &Connection,
    (kind, key): (&str, &str),
    created_at: Option<Timestamp>,
) -> Result<()> {
    connection
        .prepare_cached(
            "DELETE FROM outbox WHERE kind = ?1 AND key = ?2 AND (?3 IS NULL OR created_at = ?3)",
        )?
        .execute((kind, key, created_at.map(time)))?;
    Ok(())
}

/// Returns the items of the outbox, oldest first.
pub(crate) fn outbox(connection: &Connection, kind: &str) -> Result<Vec<OutboxItem>> {
    let mut statement = connection.prepare_cached(
        "SELECT kind, key, payload, attempts, created_at FROM outbox WHERE kind = ?1 ORDER BY created_at, key",
    )?;
    let items = statement.query_map([kind], |row| {
        Ok(OutboxItem {
            kind: row.get("kind")?,
            key: row.get("key")?,
            payload: json_column(row, "payload")?,
            attempts: row.get("attempts")?,
            created_at: stored(row, "created_at")?,
        })
    })?;
    Ok(items.collect::<rusqlite::Result<_>>()?)
}

/// Remembers which thread a session was imported into, unless what is stored is not as expected.
pub(crate) fn put_import(
    connection: &Connection,
    source: &ImportSource,
    expected: Option<ImportedSoFar>,
) -> Result<()> {
    let last_seq = threads::head(connection, source.thread_id)?.last_seq;
    let stored = import_source(connection, &source.source_key)?
        .map(|stored| (stored.thread_id, ImportedSoFar { entries: stored.entries, last_seq }));
    if stored != expected.map(|expected| (source.thread_id, expected)) {
        return Err(Error::Differs { what: "import", id: source.source_key.clone() });
    }
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO imports (source_key, thread_id, entries, chain, updated_at)
             VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute((
            &source.source_key,
            source.thread_id.to_string(),
            integer(source.entries),
            &source.chain,
            time(source.updated_at),
        ))?;
    Ok(())
}

/// Returns where a session was imported, or `None`.
pub(crate) fn import_source(connection: &Connection, source_key: &str) -> Result<Option<ImportSource>> {
    Ok(connection
        .prepare_cached(
            "SELECT source_key, thread_id, entries, chain, updated_at FROM imports WHERE source_key = ?1",
        )?
        .query_row([source_key], |row| {
            Ok(ImportSource {
                source_key: row.get("source_key")?,
                thread_id: stored(row, "thread_id")?,
                entries: count(row, "entries")?,
                chain: row.get("chain")?,
                updated_at: stored(row, "updated_at")?,
            })
        })
        .optional()?)
}
