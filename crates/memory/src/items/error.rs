//! Errors of the item store, with hints for the client or the model. Errors are not handled here.

use journal::PAGE_ROWS_MAX;

use super::{ITEM_BYTES_MAX, NAME_BYTES_MAX, NAMESPACE_LABELS_MAX};

/// The most characters of a name that are shown.
const SHOWN_CHARS_MAX: usize = 80;

/// An item could not be stored or found. Stored items are unchanged.
#[derive(Debug, thiserror::Error)]
pub enum ItemError {
    /// There is no label.
    #[error("use the store: the namespace is empty")]
    EmptyNamespace,
    /// The namespace is nobody's here.
    #[error("use the store: namespaces that begin with `langgraph` are reserved")]
    ReservedNamespace,
    /// There are too many labels.
    #[error("use the store: the namespace has {labels} labels, more than {NAMESPACE_LABELS_MAX}")]
    TooDeep {
        /// How many there are.
        labels: usize,
    },
    /// A label is empty or too long, or has a control character in it, or a dot, which would make two of it.
    #[error("use the store: `{label}` is no label of a namespace")]
    BadLabel {
        /// The beginning of it.
        label: String,
    },
    /// The key is empty or too long.
    #[error("use the store: `{key}` is no key")]
    BadKey {
        /// The beginning of it.
        key: String,
    },
    /// A label, a key or the name of a field is a secret, and names are not withheld.
    #[error("keep an item: a name in it looks like a secret")]
    SecretName,
    /// The value is no object.
    #[error("keep an item: its value is no object")]
    NotAnObject,
    /// The value is larger than [`ITEM_BYTES_MAX`].
    #[error("keep an item: its value is {bytes} bytes of JSON, more than {ITEM_BYTES_MAX}")]
    TooLarge {
        /// How large it is.
        bytes: usize,
    },
    /// The filter says nothing that a field can be compared by.
    #[error("search the store: the filter of field `{field}` {fault}")]
    BadFilter {
        /// The field.
        field: String,
        /// The problem.
        fault: FilterError,
    },
    /// The page would be empty, or too large.
    #[error("search the store: the limit must be 1 to {PAGE_ROWS_MAX}, not {limit}")]
    BadLimit {
        /// The requested limit.
        limit: usize,
    },
    /// The journal failed.
    #[error("use the store")]
    Journal(#[from] journal::Error),
}

/// A problem of a filter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// The comparison is unknown.
    #[error("has `{name}`, which is none of $eq, $ne, $gt, $gte, $lt and $lte")]
    UnknownComparison {
        /// The name.
        name: String,
    },
    /// The value has no order to compare by.
    #[error("has `{name}` with a value that is neither a number nor a text")]
    NotOrdered {
        /// The comparison.
        name: String,
    },
}

impl ItemError {
    /// Returns what to do about it, as one sentence.
    pub fn hint(&self) -> String {
        match self {
            Self::EmptyNamespace => "give at least one label".to_owned(),
            Self::ReservedNamespace => "begin the namespace with another label".to_owned(),
            Self::TooDeep { .. } => format!("use at most {NAMESPACE_LABELS_MAX} labels"),
            Self::BadLabel { .. } => {
                format!(
                    "a label has 1 to {NAME_BYTES_MAX} bytes and neither a dot nor a control character; give the labels one by one"
                )
            }
            Self::BadKey { .. } => format!("a key has 1 to {NAME_BYTES_MAX} bytes"),
            Self::SecretName => "name it by what it is for, without the secret".to_owned(),
            Self::NotAnObject => "put the value into an object, such as {\"text\": …}".to_owned(),
            Self::TooLarge { .. } => "keep it in parts, or in a file".to_owned(),
            Self::BadFilter { .. } => {
                "give each field a value that it equals, or an object such as {\"$gte\": 3}".to_owned()
            }
            Self::BadLimit { .. } => "give another limit".to_owned(),
            Self::Journal(_) => "try again".to_owned(),
        }
    }

    /// Returns whether the same call may succeed without anyone changing anything.
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Journal(error) if error.is_retryable())
    }
}

pub(super) fn truncate_name(name: &str) -> String {
    name.chars().take(SHOWN_CHARS_MAX).collect()
}
