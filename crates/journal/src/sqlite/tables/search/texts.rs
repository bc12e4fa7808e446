//! Texts that are found beside messages: summaries, handoffs, items. They are few, so that each is indexed in the
//! transaction that stores it. Messages follow later, in `search`.

use rusqlite::Connection;

use super::{beginning, spaced};
use crate::Result;

/// What a text is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A summary of medium-term memory, by its `summary_key`.
    Summary,
    /// A handoff, by its row.
    Handoff,
    /// An item of the store, by its `item_key`.
    Item,
}

/// Bits of a key; those above tell the kind.
const KEY_BITS: u32 = 48;

/// Returns the id of a text's row in the index, below 0: those of messages are above, and those of one kind a range.
pub(crate) const fn row(kind: Kind, key: i64) -> i64 {
    let number = match kind {
        Kind::Summary => 1,
        Kind::Handoff => 2,
        Kind::Item => 3,
    };
    -(number << KEY_BITS) + key
}

/// Makes a text findable, in place of the one the key had.
pub(crate) fn put(connection: &Connection, kind: Kind, key: i64, text: &str) -> Result<()> {
    remove(connection, kind, key)?;
    connection
        .prepare_cached("INSERT INTO search_index (rowid, text) VALUES (?1, ?2)")?
        .execute((row(kind, key), spaced(beginning(text))))?;
    Ok(())
}

/// Makes a text unfindable; nothing when there is none.
pub(crate) fn remove(connection: &Connection, kind: Kind, key: i64) -> Result<()> {
    connection.prepare_cached("DELETE FROM search_index WHERE rowid = ?1")?.execute([row(kind, key)])?;
    Ok(())
}
