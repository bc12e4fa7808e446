//! Errors of the item store, with hints for the client or the model. Errors are not handled here.

use journal::PAGE_ROWS_MAX;

use super::{ITEM_BYTES_MAX, NAME_BYTES_MAX, NAMESPACE_LABELS_MAX};

/// Maximum number of characters of a name in an error message.
const SHOWN_CHARS_MAX: usize = 80;

/// An item could not be stored or found. Stored items are unchanged.
///
/// The messages read on after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum ItemError {
    /// The namespace has no label.
    #[error("use the store: the namespace is empty")]
    EmptyNamespace,
    /// The first label of the namespace is reserved for LangGraph.
    #[error("use the store: namespaces that begin with `langgraph` are reserved")]
    ReservedNamespace,
    /// The namespace has more than [`NAMESPACE_LABELS_MAX`] labels.
    #[error("use the store: the namespace has {labels} labels, more than {NAMESPACE_LABELS_MAX}")]
    TooDeep {
        /// Number of labels.
        labels: usize,
    },
    /// A label is empty, is longer than [`NAME_BYTES_MAX`], or contains a control character or a dot. The Agent
    /// Server API separates labels by dots.
    #[error("use the store: `{label}` is not a valid label of a namespace")]
    BadLabel {
        /// The first characters of the label.
        label: String,
    },
    /// The key is empty or longer than [`NAME_BYTES_MAX`].
    #[error("use the store: `{key}` is not a valid key")]
    BadKey {
        /// The first characters of the key.
        key: String,
    },
    /// A label, a key or the name of a field contains a secret. Names cannot be redacted.
    #[error("store an item: a name in it looks like a secret")]
    SecretName,
    /// The value is not a JSON object.
    #[error("store an item: its value is not an object")]
    NotAnObject,
    /// The value is larger than [`ITEM_BYTES_MAX`].
    #[error("store an item: its value is {bytes} bytes of JSON, more than {ITEM_BYTES_MAX}")]
    TooLarge {
        /// The size of the value in bytes, as JSON.
        bytes: usize,
    },
    /// The condition of a field is invalid.
    #[error("search the store: the filter of field `{field}` {fault}")]
    BadFilter {
        /// The field.
        field: String,
        /// The problem.
        fault: FilterError,
    },
    /// The limit of a page is zero, or larger than [`PAGE_ROWS_MAX`].
    #[error("search the store: the limit must be 1 to {PAGE_ROWS_MAX}, not {limit}")]
    BadLimit {
        /// The requested limit.
        limit: usize,
    },
    /// The journal failed.
    #[error("use the store")]
    Journal(#[from] journal::Error),
}

/// A problem of the condition of a field. The messages follow the field's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// The comparison is unknown.
    #[error("has `{name}`, which is none of $eq, $ne, $gt, $gte, $lt and $lte")]
    UnknownComparison {
        /// The name of the comparison.
        name: String,
    },
    /// A value of this type has no order.
    #[error("has `{name}` with a value that is neither a number nor a text")]
    NotOrdered {
        /// The name of the comparison.
        name: String,
    },
}

impl ItemError {
    /// Returns what the client or the model can do about the error, as a clause without a period.
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
            Self::BadLimit { .. } => format!("ask for 1 to {PAGE_ROWS_MAX}"),
            Self::Journal(_) => "try again".to_owned(),
        }
    }

    /// Returns whether the same call may succeed later without any change of its arguments.
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Journal(error) if error.is_retryable())
    }
}

/// Returns the first [`SHOWN_CHARS_MAX`] characters of a name.
pub(super) fn truncate_name(name: &str) -> String {
    name.chars().take(SHOWN_CHARS_MAX).collect()
}
