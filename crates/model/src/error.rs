//! Errors of model calls. Each variant exists because a caller acts on it.

use std::time::Duration;

use crate::name::ModelName;
use crate::transcript::Violation;

/// An error of a model call.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The endpoint could not be reached, or the connection broke before the first byte of the answer.
    #[error("reach {model} at {endpoint}: {reason}")]
    Unreachable {
        /// The model that was called.
        model: ModelName,
        /// The endpoint's scheme, host and port. Never the path, which may contain a key.
        endpoint: String,
        /// The error of the network layer.
        reason: String,
    },
    /// No event arrived for longer than the idle timeout, or only keep-alives for ten times as long.
    #[error("wait for {model}: nothing of the answer arrived for {} s, the limit set by `idle_seconds`", after.as_secs())]
    IdleTimeout {
        /// The model that was called.
        model: ModelName,
        /// The time limit that was exceeded.
        after: Duration,
    },
    /// The key is missing, wrong or not allowed to use the model (401, 403).
    #[error("use {model}: the provider refused the key ({status})")]
    Unauthorized {
        /// The model that was called.
        model: ModelName,
        /// The HTTP status.
        status: u16,
        /// The provider's message.
        message: String,
    },
    /// The provider limits the rate of requests or is overloaded (429, 503, 529), and all retries were used.
    #[error("use {model}: the provider asks to wait{} ({status})", wait_text(*retry_after))]
    RateLimited {
        /// The model that was called.
        model: ModelName,
        /// The HTTP status.
        status: u16,
        /// The time after which the provider allows another request, if it said so.
        retry_after: Option<Duration>,
    },
    /// The request does not fit the model's context window.
    #[error("fit the request into {model}: {message}")]
    ContextOverflow {
        /// The model that was called.
        model: ModelName,
        /// The provider's message.
        message: String,
    },
    /// The provider rejected the request (400, 404, 422).
    #[error("ask {model}: refused ({status}): {message}")]
    Refused {
        /// The model that was called.
        model: ModelName,
        /// The HTTP status.
        status: u16,
        /// The provider's message, cut to one line.
        message: String,
        /// The provider's id of the request, if it sent one.
        request_id: Option<String>,
    },
    /// The provider failed (other statuses of 5xx), and all retries were used.
    #[error("ask {model}: the provider failed ({status}): {message}")]
    Failed {
        /// The model that was called.
        model: ModelName,
        /// The HTTP status.
        status: u16,
        /// The provider's message, cut to one line.
        message: String,
        /// The provider's id of the request, if it sent one.
        request_id: Option<String>,
    },
    /// The legal form of the conversation still breaks a rule, so it was not sent. This is a defect of this
    /// program.
    #[error("ask {model}: message {} of the request breaks the rule {:?}", violation.index, violation.rule)]
    IllegalConversation {
        /// The model that was called.
        model: ModelName,
        /// The first violation.
        violation: Violation,
    },
    /// The response is not an answer, for example HTML, invalid JSON or a truncated stream.
    #[error("read the answer of {model}: {reason}")]
    MalformedAnswer {
        /// The model that was called.
        model: ModelName,
        /// The problem with the response.
        reason: String,
    },
    /// A setting is missing or invalid.
    #[error("set up {what}: {reason}")]
    Setup {
        /// The provider or the setting.
        what: String,
        /// The problem and where to fix it.
        reason: String,
    },
}

/// Returns the wait time as the text after "to wait"; empty if it is unknown.
fn wait_text(retry_after: Option<Duration>) -> String {
    retry_after.map_or_else(String::new, |wait| format!(" {} s", wait.as_secs()))
}

impl Error {
    /// Returns whether the same call may succeed later without any change by a person.
    pub const fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. }
                | Self::IdleTimeout { .. }
                | Self::RateLimited { .. }
                | Self::Failed { .. }
                | Self::MalformedAnswer { .. }
        )
    }
}
