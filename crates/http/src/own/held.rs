//! Answers that may take as long as a model does. What is quickly known is answered as usual; from then on blanks are sent,
//! which mean nothing in front of JSON, so that nobody between here and the client takes the connection for dead.

use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes, to_bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use futures::stream;
use langgraph::Fault;
use serde::Serialize;
use serde_json::{Value, json};

/// How long a client waits for the status of the answer. After it the status is 200, whatever comes of the work.
const STATUS_WITHIN: Duration = Duration::from_secs(10);
/// How often a blank is sent then.
const BLANK_EVERY: Duration = Duration::from_secs(5);
/// Bytes of a failure that is told late.
const ENVELOPE_BYTES_MAX: usize = 64 << 10;

/// Work that goes on.
type Working = Pin<Box<dyn Future<Output = Response> + Send>>;

/// Does the work and answers with what came of it. Failures that come after the status was sent are the body:
/// `{"__error__": …}` with the envelope and its `status`.
pub(super) async fn held<T: Serialize + Send + 'static>(
    work: impl Future<Output = Result<T, Fault>> + Send + 'static,
) -> Response {
    let mut working: Working = Box::pin(async move { work.await.map(Json).into_response() });
    match tokio::time::timeout(STATUS_WITHIN, &mut working).await {
        Ok(done) => done,
        Err(_) => late(working),
    }
}

/// Answers with 200 at once, and with the outcome when it is there.
fn late(working: Working) -> Response {
    let parts = stream::unfold((Some(working), true), |(working, is_first)| async move {
        let mut working = working?;
        // The first blank takes the headers along.
        let wait = if is_first { Duration::ZERO } else { BLANK_EVERY };
        let part = match tokio::time::timeout(wait, &mut working).await {
            Err(_) => (Bytes::from_static(b"\n"), Some(working)),
            Ok(done) => (outcome(done).await, None),
        };
        Some((Ok::<_, Infallible>(part.0), (part.1, false)))
    });
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    (headers, Body::from_stream(parts)).into_response()
}

async fn outcome(done: Response) -> Bytes {
    let status = done.status();
    let bytes_max = if status.is_success() { usize::MAX } else { ENVELOPE_BYTES_MAX };
    // Both are in memory already.
    let bytes = to_bytes(done.into_body(), bytes_max).await.unwrap_or_default();
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

    async fn answer(takes: Duration, result: Result<Value, &'static str>) -> (StatusCode, Value) {
        let response = held(async move {
            tokio::time::sleep(takes).await;
            result.map_err(Fault::conflict)
        })
        .await;
        let status = response.status();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_quickly_known_has_its_status_and_what_is_not_is_told_in_the_body() {
        let (short, long) = (Duration::from_secs(1), Duration::from_secs(60));
        assert_eq!(answer(short, Ok(json!({"a": 1}))).await, (StatusCode::OK, json!({"a": 1})));
        assert_eq!(answer(long, Ok(json!({"a": 1}))).await, (StatusCode::OK, json!({"a": 1})));
        assert_eq!(answer(short, Err("no")).await.0, StatusCode::CONFLICT);
        let (status, body) = answer(long, Err("no")).await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(body, json!({"__error__": {"detail": "no", "code": "conflict", "status": 409}}));
    }
}
