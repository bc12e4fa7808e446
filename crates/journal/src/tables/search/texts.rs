//! Texts that are found beside messages: summaries, handoffs, items. They are few, so that each is indexed in the
//! transaction that stores it. Messages follow later, in `search`.

use std::ops::Range;

use crate::engines::sql::Connection;
use protocol::HandoffId;

use super::index;
use crate::Result;
use crate::tables::memory::items;

/// Texts that are read at a time.
const TEXTS_MAX: i64 = 500;

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

impl Kind {
    const fn number(self) -> i64 {
        match self {
            Self::Summary => 1,
            Self::Handoff => 2,
            Self::Item => 3,
        }
    }
}

/// Returns the id of a text's row in the index, below 0: those of messages are above, and those of one kind a range.
pub(crate) const fn row(kind: Kind, key: i64) -> i64 {
    -(kind.number() << KEY_BITS) + key
}

/// Returns the ids that rows of a kind have.
pub(crate) const fn rows(kind: Kind) -> Range<i64> {
    row(kind, 0)..row(kind, 1 << KEY_BITS)
}

/// Returns the kind and the key of a text's row; `None` when it is a message's.
pub(crate) const fn of_row(row: i64) -> Option<(Kind, i64)> {
    if row >= 0 {
        return None;
    }
    let number = -(row >> KEY_BITS);
    let kind = match number {
        1 => Kind::Summary,
        2 => Kind::Handoff,
        _ => Kind::Item,
    };
    Some((kind, row + (number << KEY_BITS)))
}

/// Makes a text findable, in place of the one the key had.
pub(crate) fn put(db: &Connection, kind: Kind, key: i64, text: &str) -> Result<()> {
    remove(db, kind, key)?;
    index::put(db, row(kind, key), text)
}

/// Makes a text unfindable; nothing when there is none.
pub(crate) fn remove(db: &Connection, kind: Kind, key: i64) -> Result<()> {
    index::remove(db, row(kind, key))
}

/// Makes all summaries and items findable; messages and handoffs follow with the next catching up.
pub(crate) fn index_all(db: &Connection) -> Result<()> {
    for kind in [Kind::Summary, Kind::Item] {
        let mut behind = 0;
        while let Some(last) = index_behind(db, kind, behind)? {
            behind = last;
        }
    }
    Ok(())
}

/// Makes some texts behind a key findable that no catching up would, and returns the key of the last one; `None` when there are
/// none.
pub(crate) fn index_behind(db: &Connection, kind: Kind, behind: i64) -> Result<Option<i64>> {
    let found: Vec<(i64, String)> = match kind {
        Kind::Summary => db
            .prepare(
                "SELECT s.summary_key, m.summary_text FROM summaries s JOIN medium_term_memory m ON m.id = s.id
                 WHERE s.summary_key > $1 ORDER BY s.summary_key LIMIT $2",
            )?
            .query_map([behind, TEXTS_MAX], |row| Ok((row.get(0)?, row.get(1)?)))?,
        Kind::Item => items::texts_behind(db, behind, TEXTS_MAX)?,
        // They have rows of their own that say what is to be read.
        Kind::Handoff => Vec::new(),
    };
    for (key, text) in &found {
        put(db, kind, *key, text)?;
    }
    Ok(found.last().map(|(key, _)| *key))
}

/// Remembers that the proposal that counts of a handoff may be another one than is indexed: the next catching up reads it.
pub(crate) fn mark_handoff(db: &Connection, handoff_id: HandoffId) -> Result<()> {
    db.prepare(
        "INSERT INTO handoff_index (handoff_id) SELECT $1 WHERE EXISTS (
             SELECT 1 FROM proposals WHERE handoff_id = $1)
         ON CONFLICT (handoff_id) DO UPDATE SET is_due = 1",
    )?
    .send([handoff_id.to_string()])
}
