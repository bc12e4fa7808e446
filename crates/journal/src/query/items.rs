//! What of the store of items to read, and what is found there. What becomes of it is not here.

use protocol::{Item, Scope};
use serde_json::Value;

/// What of the store to read; every set field must match.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ItemQuery {
    /// Only what belongs to this scope; a [`crate::Scoped`] store sets its own. `None` means everybody's.
    pub scope: Option<Scope>,
    /// Only namespaces that begin with these labels.
    pub prefix: Vec<String>,
    /// Only items with any of these words in their key or value, at most [`crate::QUERY_WORDS_MAX`]; empty means all.
    pub words: Vec<String>,
    /// What fields of the value must be.
    pub filter: Vec<Condition>,
    /// How many to skip.
    pub offset: usize,
    /// The most items to return, 1 to [`crate::PAGE_ROWS_MAX`].
    pub limit: usize,
}

/// What a field of a value must be.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// The field.
    pub field: String,
    /// How it is compared.
    pub comparison: Comparison,
    /// With what.
    pub with: Value,
}

/// How a field is compared. Numbers and texts have an order; everything else is equal or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// It is equal; an absent field is equal to nothing.
    Equal,
    /// It is not.
    NotEqual,
    /// It comes after.
    Greater,
    /// It comes after, or is equal.
    GreaterOrEqual,
    /// It comes before.
    Less,
    /// It comes before, or is equal.
    LessOrEqual,
}

/// An item found.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct FoundItem {
    /// The item.
    #[serde(flatten)]
    pub item: Item,
    /// How well it matches the words; `None` without words.
    pub score: Option<f64>,
}

/// Which namespaces to list; every set field must match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamespaceQuery {
    /// Only what belongs to this scope; a [`crate::Scoped`] store sets its own. `None` means everybody's.
    pub scope: Option<Scope>,
    /// Only those that begin with these labels; `*` stands for any one label.
    pub prefix: Vec<String>,
    /// Only those that end with these labels; `*` stands for any one label.
    pub suffix: Vec<String>,
    /// Longer ones are cut to so many labels.
    pub depth_max: Option<usize>,
    /// How many to skip.
    pub offset: usize,
    /// The most namespaces to return, 1 to [`crate::PAGE_ROWS_MAX`].
    pub limit: usize,
}
