//! What can go wrong with a model call; every variant exists because a caller acts on it.

use std::time::Duration;

use crate::name::ModelName;
use crate::transcript::Violation;

/// A failed model call.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The endpoint could not be reached, or the connection broke before anything arrived.
    #[error("reach {model} at {endpoint}: {reason}")]
    Unreachable {
        /// The model.
        model: ModelName,
        /// Scheme, host and port; never a path with a key.
        endpoint: String,
        /// What the network said.
        reason: String,
    },
    /// Nothing arrived for longer than the allowed silence.
    #[error("hear from {model}: nothing arrived for {} s, and `idle_seconds` allows no more", after.as_secs())]
    Silent {
        /// The model.
        model: ModelName,
        /// The allowed silence.
        after: Duration,
    },
    /// The key is missing, wrong or not allowed to use the model (401, 403).
    #[error("use {model}: the provider refused the key ({status})")]
    Unauthorized {
        /// The model.
        model: ModelName,
        /// HTTP status.
        status: u16,
        /// The provider's words.
        message: String,
    },
    /// Too many requests, or the provider is overloaded (429, 529, 503); retries are used up.
    #[error("use {model}: the provider asks to wait{} ({status})", wait(*retry_after))]
    Limited {
        /// The model.
        model: ModelName,
        /// HTTP status.
        status: u16,
        /// How long the provider asked to wait.
        retry_after: Option<Duration>,
    },
    /// The request does not fit the model's window.
    #[error("fit the request into {model}: {message}")]
    Overflow {
        /// The model.
        model: ModelName,
        /// The provider's words.
        message: String,
    },
    /// The provider refused the request (400, 404, 422).
    #[error("ask {model}: refused ({status}): {message}")]
    Refused {
        /// The model.
        model: ModelName,
        /// HTTP status.
        status: u16,
        /// The provider's words, cut to a line.
        message: String,
        /// The provider's id of the request, if it gave one.
        request_id: Option<String>,
    },
    /// The provider failed (other 5xx); retries are used up.
    #[error("ask {model}: the provider failed ({status}): {message}")]
    Failed {
        /// The model.
        model: ModelName,
        /// HTTP status.
        status: u16,
        /// The provider's words, cut to a line.
        message: String,
        /// The provider's id of the request, if it gave one.
        request_id: Option<String>,
    },
    /// The conversation would be refused, and was not sent: the legal form of it is not legal, a fault of this program.
    #[error("ask {model}: message {} of the request breaks the rule {:?}", violation.index, violation.rule)]
    Illegal {
        /// The model.
        model: ModelName,
        /// The first rule that is broken.
        violation: Violation,
    },
    /// What arrived is not an answer: HTML, broken JSON, half a stream.
    #[error("read the answer of {model}: {reason}")]
    Broken {
        /// The model.
        model: ModelName,
        /// What is wrong with it.
        reason: String,
    },
    /// A setting is missing or cannot be used.
    #[error("set up {what}: {reason}")]
    Setup {
        /// The provider or setting.
        what: String,
        /// What is wrong and where to set it.
        reason: String,
    },
}

/// Returns how long, as it reads after "to wait".
fn wait(retry_after: Option<Duration>) -> String {
    retry_after.map_or_else(String::new, |wait| format!(" {} s", wait.as_secs()))
}

impl Error {
    /// Returns whether the same call may succeed later without anyone changing anything.
    pub const fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. }
                | Self::Silent { .. }
                | Self::Limited { .. }
                | Self::Failed { .. }
                | Self::Broken { .. }
        )
    }
}
