//! The failure of a run on the wire: the name of an error class, and a message.

use protocol::RunFailure;
use serde::Serialize;

/// The failure of a run. It is the data of an `error` event, and the `error` of a thread and of a webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct WireRunFailure {
    /// The name of the error class, such as `EmptyInputError`.
    #[serde(rename = "error")]
    pub(crate) name: &'static str,
    /// The message of the failure.
    pub(crate) message: String,
    /// A suggestion for the user, in addition to the fields of the specification.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
}

impl From<RunFailure> for WireRunFailure {
    fn from(failure: RunFailure) -> Self {
        Self { name: failure.kind.class_name(), message: failure.message, hint: failure.hint }
    }
}
