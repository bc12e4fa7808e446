//! How a failed run is told to clients of the Agent Server protocol: the name of a class of errors, and a message.

use protocol::RunFailure;
use serde::Serialize;

/// A failure in the shape of the Agent Server protocol.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct WireRunFailure {
    /// The name of the class of errors, such as `EmptyInputError`.
    #[serde(rename = "error")]
    pub(crate) name: &'static str,
    /// The message of the failure.
    pub(crate) message: String,
}

impl From<RunFailure> for WireRunFailure {
    fn from(failure: RunFailure) -> Self {
        Self { name: failure.kind.class_name(), message: failure.message }
    }
}
