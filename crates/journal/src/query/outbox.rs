//! Pages of the outbox: which items to list, and where the next page begins. What becomes of them is not here.

use jiff::Timestamp;
use protocol::Scope;

use crate::OutboxItem;

/// Which items of the outbox to list; every set field must match. The oldest comes first, of those of one time the one whose
/// key does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxQuery {
    /// The kind.
    pub kind: String,
    /// Only those of this scope; a [`crate::Scoped`] store sets its own. `None` means everybody's.
    pub scope: Option<Scope>,
    /// Only those behind this one.
    pub after: Option<OutboxPlace>,
    /// The most items to return, 1 to [`crate::PAGE_ROWS_MAX`].
    pub limit: usize,
}

/// Where an item stands in the order of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxPlace {
    /// When it was added.
    pub created_at: Timestamp,
    /// Its key.
    pub key: String,
}

impl OutboxQuery {
    /// Returns a query for the first `limit` items of a kind.
    pub fn of(kind: &str, limit: usize) -> Self {
        Self { kind: kind.to_owned(), scope: None, after: None, limit }
    }
}

impl OutboxItem {
    /// Returns where it stands in a list.
    pub fn place(&self) -> OutboxPlace {
        OutboxPlace { created_at: self.created_at, key: self.key.clone() }
    }
}
