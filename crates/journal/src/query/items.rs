//! Queries for stored items and namespaces, and their results.

use protocol::{OwnerScope, StoredItem};
use serde_json::Value;

/// A query for stored items. An item must match every field that is set.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ItemQuery {
    /// Only items of this scope. A [`crate::ScopedStore`] sets its own. `None` means any.
    pub scope: Option<OwnerScope>,
    /// Only namespaces that begin with these labels.
    pub prefix: Vec<String>,
    /// Only items with any of these words in their key or value, at most [`crate::QUERY_WORDS_MAX`]; empty means all.
    pub words: Vec<String>,
    /// Conditions on the fields of the value; all must be met.
    pub filter: Vec<FieldCondition>,
    /// Number of items to skip.
    pub offset: usize,
    /// Maximum number of items, from 1 to [`crate::PAGE_ROWS_MAX`].
    pub limit: usize,
}

/// A condition on a field of a value.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldCondition {
    /// The name of the field.
    pub field: String,
    /// The comparison operator.
    pub comparison: FieldComparison,
    /// The value to compare with.
    pub value: Value,
}

/// A comparison operator. Numbers and texts are ordered; other values can only be equal or unequal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldComparison {
    /// The field equals the value. A missing field equals no value.
    Equal,
    /// The field does not equal the value.
    NotEqual,
    /// The field is greater than the value.
    Greater,
    /// The field is greater than or equal to the value.
    GreaterOrEqual,
    /// The field is less than the value.
    Less,
    /// The field is less than or equal to the value.
    LessOrEqual,
}

/// A stored item that matches a query.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct ItemHit {
    /// The item.
    #[serde(flatten)]
    pub item: StoredItem,
    /// The score of the words; `None` for a query without words.
    pub score: Option<f64>,
}

/// A query for namespaces. A namespace must match every field that is set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamespaceQuery {
    /// Only namespaces of this scope. A [`crate::ScopedStore`] sets its own. `None` means any.
    pub scope: Option<OwnerScope>,
    /// Only namespaces that begin with these labels. `*` matches any label.
    pub prefix: Vec<String>,
    /// Only namespaces that end with these labels. `*` matches any label.
    pub suffix: Vec<String>,
    /// Truncates namespaces to this number of labels.
    pub depth_max: Option<usize>,
    /// Number of namespaces to skip.
    pub offset: usize,
    /// Maximum number of namespaces, from 1 to [`crate::PAGE_ROWS_MAX`].
    pub limit: usize,
}
