//! The response to a failed request. An [`ApiError`] keeps the text for the client apart from the internal cause,
//! which is only logged.

use std::fmt;
use std::io;
use std::time::Duration;

use agent::ErrorClass;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

/// Maximum length in characters of the `detail` that is sent to a client; a longer text is cut.
const DETAIL_CHARS_MAX: usize = 2_000;

/// A failed request, with everything that its response needs.
#[derive(Debug)]
pub struct ApiError {
    status: StatusCode,
    /// The kind of failure, for programs. It is sent as [`ErrorBody::code`].
    code: &'static str,
    /// The text for the client. Secrets must be redacted before they get here.
    detail: String,
    /// One sentence about what the user can do.
    hint: Option<String>,
    /// The value of the `Retry-After` header, which is rounded up to whole seconds.
    retry_after: Option<Duration>,
    /// Logged with the response, and never sent.
    cause: Option<ErrorCause>,
}

/// The internal cause of a failure.
type ErrorCause = Box<dyn std::error::Error + Send + Sync>;

/// The body of every failed response.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Error)]
pub struct ErrorBody {
    /// A description of the failure, for people.
    pub detail: String,
    /// The kind of failure, for programs, such as `not_found`.
    pub code: String,
    /// The suggested remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl ApiError {
    /// Returns an error without a hint. `code` names the kind of failure for programs.
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into(), hint: None, retry_after: None, cause: None }
    }

    /// Returns a 400: the request is contradictory or cannot be processed.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", detail)
    }

    /// Returns a 401: the request is not authenticated. The response asks for a bearer token.
    pub fn unauthorized(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
    }

    /// Returns a 403: the request comes from a forbidden origin, names a forbidden host, or is not from an operator.
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", detail)
    }

    /// Returns a 404: the named object does not exist, or belongs to another owner. The two cases are not
    /// distinguished, so that a client learns nothing about the data of other owners.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", detail)
    }

    /// Returns a 409: another request was processed first, or the thread is busy.
    pub fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", detail)
    }

    /// Returns a 413: the request is too large.
    pub fn too_large(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
    }

    /// Returns a 422: a field, a parameter or an id is malformed. `detail` names it.
    pub fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail)
    }

    /// Returns a 429: a limit is reached. The client may try again after `retry_after`.
    pub fn too_many(detail: impl Into<String>, retry_after: Duration) -> Self {
        let error = Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many", detail);
        Self { retry_after: Some(retry_after), ..error }
    }

    /// Returns a 503: the server is overloaded or shutting down. The client may try again after a second.
    pub fn unavailable(detail: impl Into<String>) -> Self {
        let error = Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail);
        Self { retry_after: Some(Duration::from_secs(1)), ..error }
    }

    /// Returns a 500: the server failed. The response refers to the log, which gets the cause with its secrets
    /// redacted.
    pub fn internal(cause: impl Into<ErrorCause>) -> Self {
        let detail = "an internal error occurred; the server's log contains the cause";
        let error = Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail);
        Self { cause: Some(cause.into()), ..error }
    }

    /// Returns a 507: the disk of the server is full. The path is not named.
    fn disk_full() -> Self {
        Self::new(StatusCode::INSUFFICIENT_STORAGE, "disk_full", "the disk of the server is full").with_hint(
            "reading works; free some space on the server and try again, no partial write was kept",
        )
    }

    /// Returns the error for a file of the server that could not be written: a 507 if its disk or quota is full, otherwise a
    /// 500.
    pub fn file_failure(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::disk_full(),
            _ => Self::internal(error),
        }
    }

    /// Returns the error with a hint: one sentence about what the user can do.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Returns a 422 as a 400, for endpoints of which clients expect a 400. Other errors stay unchanged.
    #[must_use]
    pub fn or_bad_request(self) -> Self {
        match self.status {
            StatusCode::UNPROCESSABLE_ENTITY => {
                Self { status: StatusCode::BAD_REQUEST, code: "bad_request", ..self }
            }
            _ => self,
        }
    }

    /// Returns the HTTP status of the response.
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the text for the client, in full length.
    pub fn detail(&self) -> &str {
        &self.detail
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for ApiError {}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        if let Some(cause) = &self.cause {
            // The text of a provider's or system's error may quote a URL or a header that contains a key.
            let cause = ErrorChain(&**cause).to_string();
            tracing::error!(error = %agent::redact(&cause), "failed to answer a request");
        }
        let detail = match self.detail.char_indices().nth(DETAIL_CHARS_MAX) {
            Some((end, _)) => format!("{}…", &self.detail[..end]),
            None => self.detail,
        };
        let envelope = ErrorBody { detail, code: self.code.to_owned(), hint: self.hint };
        let mut response = (self.status, axum::Json(envelope)).into_response();
        if let Some(wait) = self.retry_after {
            // Rounded up: a client that returns a fraction of a second too early would be refused again.
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// Displays an error and its sources in one line, separated by colons.
struct ErrorChain<'a>(&'a (dyn std::error::Error + 'static));

impl fmt::Display for ErrorChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(cause) = source {
            write!(f, ": {cause}")?;
            source = cause.source();
        }
        Ok(())
    }
}

impl From<agent::Error> for ApiError {
    fn from(error: agent::Error) -> Self {
        let with_status = |status, code| {
            let redacted = Self::new(status, code, agent::redact(&format!("failed to {error}")));
            Self { hint: error.hint(), ..redacted }
        };
        if error.is_halted() {
            // This is no failure of the run: it resumes when the server starts again.
            return Self::unavailable("the server is shutting down");
        }
        if error.is_disk_full() {
            return Self::disk_full();
        }
        if error.is_database_unavailable() {
            tracing::error!(error = %agent::redact(&ErrorChain(&error).to_string()), "failed to use the database");
            return Self::unavailable("the database cannot be used at the moment")
                .with_hint("try again in a moment");
        }
        if error.is_database_lost() {
            return Self::unavailable("the server has lost its database and is stopping");
        }
        if error.is_event_damaged() {
            tracing::error!(%error, "a stored event is damaged");
            return with_status(StatusCode::INTERNAL_SERVER_ERROR, "damaged");
        }
        match error.class() {
            ErrorClass::User if error.is_not_found() => with_status(StatusCode::NOT_FOUND, "not_found"),
            ErrorClass::User => with_status(StatusCode::UNPROCESSABLE_ENTITY, "invalid"),
            ErrorClass::Conflict => with_status(StatusCode::CONFLICT, "conflict"),
            ErrorClass::Stopped => with_status(StatusCode::CONFLICT, "stopped"),
            ErrorClass::Config => with_status(StatusCode::INTERNAL_SERVER_ERROR, "config"),
            ErrorClass::Model => with_status(StatusCode::BAD_GATEWAY, "model"),
            ErrorClass::Store | ErrorClass::Internal => Self::internal(error),
        }
    }
}

impl From<scheduler::Error> for ApiError {
    fn from(error: scheduler::Error) -> Self {
        use scheduler::Error as Refused;
        match error {
            Refused::Agent(error) => error.into(),
            Refused::QueueFull { retry_after } => {
                Self::too_many("too many runs are queued already", retry_after)
            }
            Refused::ShuttingDown => Self::unavailable("the server is shutting down"),
            Refused::Webhook(_) => Self::invalid(format!("`webhook`: failed to {error}")),
            Refused::Busy { .. } => {
                // The text of the reference server.
                let conflict = Self::conflict(
                    "Thread is already running a task. Wait for it to finish or choose a different multitask strategy.",
                );
                Self { code: "busy", ..conflict }
            }
            Refused::UnknownRun { run_id, .. } => Self::not_found(format!("Run {run_id} not found")),
            Refused::Ended { run_id, status } => {
                let status = crate::wire::run_status(status);
                Self::conflict(format!(
                    "No matching runs to cancel: run {run_id} is not cancellable, it has ended: {status}"
                ))
            }
            error => Self::internal(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_named_without_its_path() {
        let path = || std::path::PathBuf::from("/srv/segue");
        for error in [
            agent::Error::from(journal::Error::DiskFull { path: path() }),
            agent::HomeError::Full { path: path() }.into(),
        ] {
            let error = ApiError::from(error);
            assert_eq!((error.status().as_u16(), error.code), (507, "disk_full"));
            assert!(!error.detail().contains("/srv") && error.hint.unwrap().contains("free some space"));
        }
    }

    #[test]
    fn a_file_that_cannot_be_written_for_lack_of_space_is_reported_as_a_full_disk() {
        for (kind, status, code) in [
            (io::ErrorKind::StorageFull, 507, "disk_full"),
            (io::ErrorKind::QuotaExceeded, 507, "disk_full"),
            (io::ErrorKind::PermissionDenied, 500, "internal"),
        ] {
            let error = ApiError::file_failure(kind.into());
            assert_eq!((error.status().as_u16(), error.code), (status, code), "{kind}");
        }
    }

    #[test]
    fn a_database_that_cannot_be_used_for_the_moment_is_unavailable() {
        let path = || std::path::PathBuf::from("/srv/segue.db");
        for error in [
            journal::Error::Locked { path: path() },
            journal::Error::TooManyOpenFiles { path: path() },
            journal::Error::Unreachable { location: "/srv/segue.db".into(), reason: "refused".into() },
        ] {
            let error = ApiError::from(agent::Error::from(error));
            assert_eq!((error.status().as_u16(), error.code), (503, "unavailable"), "{error:?}");
            assert!(!error.detail().contains("/srv"), "{error:?}");
        }
    }

    #[test]
    fn a_lost_database_is_unavailable() {
        let error =
            ApiError::from(agent::Error::from(journal::Error::FileReplaced { path: "/srv/segue.db".into() }));
        assert_eq!(error.status().as_u16(), 503);
    }
}
