//! Responses that may take as long as a model call. A fast result is sent as usual. After a timeout, the response
//! starts with whitespace, which JSON allows before a value, so that proxies and clients do not close an idle
//! connection.
//!
//! The status of such a response is already sent, so a late error cannot change it. It is sent in the body instead, in
//! the form in which the Agent Server protocol reports errors of runs.

use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes, to_bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use futures::stream;
use langgraph::ApiError;
use serde::Serialize;
use serde_json::{Value, json};

/// Maximum time to wait for the result before the status is sent. After that, the status is 200 even if the work fails.
const STATUS_TIMEOUT: Duration = Duration::from_secs(10);
/// The interval at which whitespace is sent after [`STATUS_TIMEOUT`].
const BLANK_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum size of an error body that is embedded in a late response, in bytes.
const ENVELOPE_BYTES_MAX: usize = 64 << 10;

/// The response that the work will have.
type ResponseFuture = Pin<Box<dyn Future<Output = Response> + Send>>;

/// Executes the work and responds with its result as JSON. An error after [`STATUS_TIMEOUT`] becomes the body
/// `{"__error__": …}`, which contains the usual error object and its `status`.
pub(super) async fn respond_when_done<T: Serialize + Send + 'static>(
    work: impl Future<Output = Result<T, ApiError>> + Send + 'static,
) -> Response {
    let mut response: ResponseFuture = Box::pin(async move { work.await.map(Json).into_response() });
    match tokio::time::timeout(STATUS_TIMEOUT, &mut response).await {
        Ok(response) => response,
        Err(_) => stream_response(response),
    }
}

/// Responds with 200 at once, and sends the body when the work is done.
fn stream_response(work: ResponseFuture) -> Response {
    let chunks = stream::unfold((Some(work), true), |(work, is_first)| async move {
        let mut work = work?;
        // The first whitespace is sent at once, together with the headers.
        let wait = if is_first { Duration::ZERO } else { BLANK_INTERVAL };
        let chunk = match tokio::time::timeout(wait, &mut work).await {
            Err(_) => (Bytes::from_static(b"\n"), Some(work)),
            Ok(response) => (response_bytes(response).await, None),
        };
        Some((Ok::<_, Infallible>(chunk.0), (chunk.1, false)))
    });
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    (headers, Body::from_stream(chunks)).into_response()
}

/// Returns the body of a late response; an error is wrapped into `__error__`.
async fn response_bytes(response: Response) -> Bytes {
    let status = response.status();
    let bytes_max = if status.is_success() { usize::MAX } else { ENVELOPE_BYTES_MAX };
    // Both kinds of body are already in memory, so reading them cannot fail.
    let bytes = to_bytes(response.into_body(), bytes_max).await.unwrap_or_default();
    if status.is_success() {
        return bytes;
    }
    let mut envelope: Value = serde_json::from_slice(&bytes).unwrap_or_else(|_| json!({}));
    envelope["status"] = status.as_u16().into();
    json!({"__error__": envelope}).to_string().into()
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;

    use super::*;

    async fn respond_after(delay: Duration, result: Result<Value, &'static str>) -> (StatusCode, Value) {
        let response = respond_when_done(async move {
            tokio::time::sleep(delay).await;
            result.map_err(ApiError::conflict)
        })
        .await;
        let status = response.status();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn a_fast_result_has_its_status_and_a_late_error_is_in_the_body() {
        let (short, long) = (Duration::from_secs(1), Duration::from_secs(60));
        assert_eq!(respond_after(short, Ok(json!({"a": 1}))).await, (StatusCode::OK, json!({"a": 1})));
        assert_eq!(respond_after(long, Ok(json!({"a": 1}))).await, (StatusCode::OK, json!({"a": 1})));
        assert_eq!(respond_after(short, Err("no")).await.0, StatusCode::CONFLICT);
        let (status, body) = respond_after(long, Err("no")).await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(body, json!({"__error__": {"detail": "no", "code": "conflict", "status": 409}}));
    }
}
