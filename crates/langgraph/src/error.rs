//! The response to a failed request. A [`Fault`] keeps what a client is told apart from what is logged.

use std::fmt;
use std::time::Duration;

use agent::ErrorClass;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

/// Characters of a message that a client is told.
const DETAIL_CHARS_MAX: usize = 2_000;

/// The answer to a request that cannot be done.
#[derive(Debug)]
pub struct ApiError {
    status: StatusCode,
    code: &'static str,
    detail: String,
    hint: Option<String>,
    retry_after: Option<Duration>,
    cause: Option<ErrorCause>,
}

/// The internal cause, which is logged and never sent.
type ErrorCause = Box<dyn std::error::Error + Send + Sync>;

/// The body of every failed response.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Error)]
pub struct ErrorBody {
    /// The failure, for people.
    pub detail: String,
    /// The failure, for programs: one word for each kind.
    pub code: String,
    /// The suggested remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl ApiError {
    /// Returns the answer with that status; `code` names the kind of failure for programs.
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into(), hint: None, retry_after: None, cause: None }
    }

    /// 400: what is asked for makes no sense.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", detail)
    }

    /// 401: nobody knows whose request it is.
    pub fn unauthorized(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
    }

    /// 403: from there, or by that name, nobody is let in.
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", detail)
    }

    /// 404: what is named is not there, or is somebody else's.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", detail)
    }

    /// 409: something else came first.
    pub fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", detail)
    }

    /// 413: the request is too large.
    pub fn too_large(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
    }

    /// 422: a field, a parameter or an id has not the right shape; the text names it.
    pub fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail)
    }

    /// 429: too much at once; the client is told when to come again.
    pub fn too_many(detail: impl Into<String>, retry_after: Duration) -> Self {
        let fault = Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many", detail);
        Self { retry_after: Some(retry_after), ..fault }
    }

    /// 503: the server is about to go.
    pub fn unavailable(detail: impl Into<String>) -> Self {
        let fault = Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail);
        Self { retry_after: Some(Duration::from_secs(1)), ..fault }
    }

    /// 500: Segue is at fault. What happened is logged, and the client is told that it was.
    pub fn internal(cause: impl Into<ErrorCause>) -> Self {
        let detail = "something failed inside the server; its log says what";
        let fault = Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail);
        Self { cause: Some(cause.into()), ..fault }
    }

    /// Says what can be done about it.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Answers 400 instead of 422, where clients expect it of what makes no sense.
    #[must_use]
    pub fn or_bad_request(self) -> Self {
        match self.status {
            StatusCode::UNPROCESSABLE_ENTITY => {
                Self { status: StatusCode::BAD_REQUEST, code: "bad_request", ..self }
            }
            _ => self,
        }
    }

    /// Returns the status it is answered with.
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns what the client is told.
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
            // An address or a header in what a provider or the system said may hold a key.
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
            // A client that waits a part of a second too short is told the same again.
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// An error with those it came from, in one line.
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
        let told = |status, code| {
            let fault = Self::new(status, code, agent::redact(&format!("failed to {error}")));
            Self { hint: error.hint(), ..fault }
        };
        if error.is_halted() {
            // The work goes on at the next start.
            return Self::unavailable("the server is stopping");
        }
        match error.class() {
            ErrorClass::User if error.is_not_found() => told(StatusCode::NOT_FOUND, "not_found"),
            ErrorClass::User => told(StatusCode::UNPROCESSABLE_ENTITY, "invalid"),
            ErrorClass::Conflict => told(StatusCode::CONFLICT, "conflict"),
            ErrorClass::Stopped => told(StatusCode::CONFLICT, "stopped"),
            ErrorClass::Config => told(StatusCode::INTERNAL_SERVER_ERROR, "config"),
            ErrorClass::Model => told(StatusCode::BAD_GATEWAY, "model"),
            ErrorClass::Store | ErrorClass::Internal => Self::internal(error),
        }
    }
}

impl From<scheduler::Error> for ApiError {
    fn from(error: scheduler::Error) -> Self {
        use scheduler::Error as Refused;
        match error {
            Refused::Agent(error) => error.into(),
            Refused::QueueFull { retry_after } => Self::too_many("too many runs wait already", retry_after),
            Refused::ShuttingDown => Self::unavailable("the server is stopping"),
            Refused::Webhook(_) => Self::invalid(format!("`webhook`: failed to {error}")),
            Refused::Busy { .. } => {
                let refused = Self::conflict(
                    "Thread is already running a task. Wait for it to finish or choose a different multitask strategy.",
                );
                Self { code: "busy", ..refused }
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
