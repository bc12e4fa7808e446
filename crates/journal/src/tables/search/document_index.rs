//! Index rows of documents: summaries, handoffs and items. Summaries and items are indexed in the transaction that
//! stores them, because there are few of them. Handoffs and messages are indexed later by `index_update`.

use std::ops::Range;

use crate::engines::sql::SqlConnection;
use protocol::HandoffId;

use super::index;
use crate::Result;
use crate::tables::memory::items;

/// Number of documents that are read at a time.
const DOCUMENTS_MAX: i64 = 500;

/// The kind of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DocumentKind {
    /// A summary of medium-term memory, identified by its `summary_key`.
    Summary,
    /// A handoff, identified by its `handoff_key`.
    Handoff,
    /// A stored item, identified by its `item_key`.
    Item,
}

/// Number of bits of a key in a row id. The bits above hold the kind.
const KEY_BITS: u32 = 48;

impl DocumentKind {
    /// Returns the number of the kind in a row id.
    const fn code(self) -> i64 {
        match self {
            Self::Summary => 1,
            Self::Handoff => 2,
            Self::Item => 3,
        }
    }
}

/// Returns the index row id of a document. It is negative, while those of messages are positive. The documents of one
/// kind form a range.
pub(crate) const fn document_row(kind: DocumentKind, key: i64) -> i64 {
    -(kind.code() << KEY_BITS) + key
}

/// Returns the range of index row ids of a kind.
pub(crate) const fn document_rows(kind: DocumentKind) -> Range<i64> {
    document_row(kind, 0)..document_row(kind, 1 << KEY_BITS)
}

/// Returns the kind and key of a document's row id, or `None` for the row id of a message.
pub(crate) const fn decode_row(row: i64) -> Option<(DocumentKind, i64)> {
    if row >= 0 {
        return None;
    }
    let code = -(row >> KEY_BITS);
    let kind = match code {
        1 => DocumentKind::Summary,
        2 => DocumentKind::Handoff,
        _ => DocumentKind::Item,
    };
    Some((kind, row + (code << KEY_BITS)))
}

/// Indexes a text for a document, replacing its previous text.
pub(crate) fn index_document(db: &SqlConnection, kind: DocumentKind, key: i64, text: &str) -> Result<()> {
    remove_document(db, kind, key)?;
    index::insert_row(db, document_row(kind, key), text)
}

/// Removes a document from the index. A missing document is not an error.
pub(crate) fn remove_document(db: &SqlConnection, kind: DocumentKind, key: i64) -> Result<()> {
    index::delete_row(db, document_row(kind, key))
}

/// Indexes all summaries and items. Messages and handoffs follow with the next index update.
pub(crate) fn index_all(db: &SqlConnection) -> Result<()> {
    for kind in [DocumentKind::Summary, DocumentKind::Item] {
        let mut last_key = 0;
        while let Some(next_key) = index_after(db, kind, last_key)? {
            last_key = next_key;
        }
    }
    Ok(())
}

/// Indexes the next batch of documents with a key greater than `after`, and returns the last key of the batch, or
/// `None` if there are no more. Handoffs are left to the index update.
pub(crate) fn index_after(db: &SqlConnection, kind: DocumentKind, after: i64) -> Result<Option<i64>> {
    let documents: Vec<(i64, String)> = match kind {
        DocumentKind::Summary => db
            .prepare(
                "SELECT s.summary_key, m.summary_text FROM summaries s JOIN medium_term_memory m ON m.id = s.id
                 WHERE s.summary_key > $1 ORDER BY s.summary_key LIMIT $2",
            )?
            .query_map([after, DOCUMENTS_MAX], |row| Ok((row.get(0)?, row.get(1)?)))?,
        DocumentKind::Item => items::texts_after(db, after, DOCUMENTS_MAX)?,
        // Handoffs are marked in `handoff_index`, and the index update reads them.
        DocumentKind::Handoff => Vec::new(),
    };
    for (key, text) in &documents {
        index_document(db, kind, *key, text)?;
    }
    Ok(documents.last().map(|(key, _)| *key))
}

/// Marks a handoff for the next index update, because the proposal that represents it may have changed.
pub(crate) fn mark_handoff_stale(db: &SqlConnection, handoff_id: HandoffId) -> Result<()> {
    db.prepare(
        "INSERT INTO handoff_index (handoff_id) SELECT $1 WHERE EXISTS (
             SELECT 1 FROM proposals WHERE handoff_id = $1)
         ON CONFLICT (handoff_id) DO UPDATE SET is_due = 1",
    )?
    .execute_deferred([handoff_id.to_string()])
}
