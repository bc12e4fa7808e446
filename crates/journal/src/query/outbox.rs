//! Queries for pages of the outbox. The processing of items is not known here.

use jiff::Timestamp;
use protocol::OwnerScope;

use crate::OutboxItem;

/// A query for outbox items. An item must match every field that is set. The oldest item comes first; items with the
/// same time are sorted by key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxQuery {
    /// The kind.
    pub kind: String,
    /// Only items of this scope. A [`crate::ScopedStore`] sets its own. `None` means any.
    pub scope: Option<OwnerScope>,
    /// Only items after this position.
    pub after: Option<OutboxCursor>,
    /// Maximum number of items, from 1 to [`crate::PAGE_ROWS_MAX`].
    pub limit: usize,
}

/// The position of an item in the order of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxCursor {
    /// The time at which the item was added.
    pub created_at: Timestamp,
    /// The key of the item.
    pub key: String,
}

impl OutboxQuery {
    /// Returns a query for the first `limit` items of a kind.
    pub fn for_kind(kind: &str, limit: usize) -> Self {
        Self { kind: kind.to_owned(), scope: None, after: None, limit }
    }
}

impl OutboxItem {
    /// Returns the position of the item in a list.
    pub fn cursor(&self) -> OutboxCursor {
        OutboxCursor { created_at: self.created_at, key: self.key.clone() }
    }
}
