//! The endpoints for stateless runs: runs for which the client names no thread. Each run gets a thread of its own,
//! which is deleted at the end of the run unless the client sets `on_completion` to `keep`.

use axum::Json;
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use protocol::RunId;
use std::sync::Arc;

use super::body::RunBody;
use super::create::{self, CheckedRunRequest};
use super::follow::rejoin_response;
use super::{find_run_with_request, run_not_found};
use crate::caller::Caller;
use crate::error::{ApiError, ErrorBody};
use crate::extract::{self, JsonBody, PathParams, QueryParams};
use crate::wire::run::WireRun;

/// The maximum number of runs in one batch.
const BATCH_MAX: usize = 100;

/// Creates a run on a thread of its own, and responds without waiting for it.
#[utoipa::path(
    post, path = "/runs", tag = "stateless runs", request_body = RunBody,
    responses(
        (status = 200, description = "The run has started or is queued.", body = WireRun),
        (status = "4XX", description = "The run was not created.", body = ErrorBody),
    )
)]
pub(super) async fn background(
    caller: Caller,
    JsonBody(body): JsonBody<RunBody>,
) -> Result<Response, ApiError> {
    let created = CheckedRunRequest::from_body(&caller, body)?.on_own_thread()?.submit(&caller, None).await?;
    Ok(create::background_response(created))
}

/// Creates a run on a thread of its own, and streams its events until it ends.
#[utoipa::path(
    post, path = "/runs/stream", tag = "stateless runs", request_body = RunBody,
    responses(
        (status = 200, description = "The events of the run.", content_type = "text/event-stream", body = String),
        (status = "4XX", description = "The run was not created.", body = ErrorBody),
    )
)]
pub(super) async fn stream(caller: Caller, JsonBody(body): JsonBody<RunBody>) -> Result<Response, ApiError> {
    let checked = CheckedRunRequest::from_body(&caller, body)?.on_own_thread()?;
    let modes = checked.modes;
    let created = checked.submit(&caller, None).await?;
    let path = format!("/runs/{}", created.run.run_id);
    Ok(create::stream_response(caller, created, modes, &path))
}

/// Creates a run on a thread of its own, waits until it ends, and returns the thread's state.
#[utoipa::path(
    post, path = "/runs/wait", tag = "stateless runs", request_body = RunBody,
    responses(
        (status = 200, description = "The state at the end of the run; with `__interrupt__` if the run was interrupted. Only `__error__` if it failed.", body = serde_json::Value),
        (status = "4XX", description = "The run was not created.", body = ErrorBody),
    )
)]
pub(super) async fn wait(caller: Caller, JsonBody(body): JsonBody<RunBody>) -> Result<Response, ApiError> {
    let created = CheckedRunRequest::from_body(&caller, body)?.on_own_thread()?.submit(&caller, None).await?;
    Ok(create::wait_response(caller, created))
}

/// Creates several background runs, each on a thread of its own: all of them or none.
///
/// If one run is invalid or cannot be queued, no run is created.
#[utoipa::path(
    post, path = "/runs/batch", tag = "stateless runs", request_body = Vec<RunBody>,
    responses(
        (status = 200, description = "The runs, in the order of the request. Each has started or is queued.", body = Vec<WireRun>),
        (status = "4XX", description = "No run was created.", body = ErrorBody),
    )
)]
pub(super) async fn batch(caller: Caller, request: Request) -> Result<Response, ApiError> {
    let bytes = extract::read_body(request).await?;
    let bodies: Vec<RunBody> = extract::parse_json(&bytes)?;
    if bodies.is_empty() || bodies.len() > BATCH_MAX {
        return Err(ApiError::invalid(format!("the request body must be an array of 1 to {BATCH_MAX} runs")));
    }
    // Every body is checked before the first run is submitted.
    let requests: Vec<CheckedRunRequest> = bodies
        .into_iter()
        .map(|body| CheckedRunRequest::from_body(&caller, body)?.on_own_thread())
        .collect::<Result<_, ApiError>>()?;
    let mut runs = Vec::with_capacity(requests.len());
    for created in create::submit_all(requests, &caller).await? {
        created.reader.detach();
        let run = WireRun::from_run(&created.run, Some(Arc::unwrap_or_clone(created.request)));
        runs.push(WireRun { status: "pending", ..run });
    }
    Ok(Json(runs).into_response())
}

/// Joins the stream of a stateless run.
///
/// With `Last-Event-ID`, the stream continues after that event. Without it, only new events are sent.
#[utoipa::path(
    get, path = "/runs/{run_id}/stream", tag = "stateless runs",
    params(
        ("run_id" = Uuid, Path, description = "The run."),
        ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that the client has received; `-1` requests all events."),
        ("stream_mode" = Option<Vec<String>>, Query, description = "The stream modes; by default those of the request that created the run."),
        ("cancel_on_disconnect" = Option<bool>, Query, description = "True to cancel the run when this client disconnects."),
    ),
    responses(
        (status = 200, description = "The events of the run.", content_type = "text/event-stream", body = String),
        (status = "4XX", description = "The run does not exist, or a parameter is invalid.", body = ErrorBody),
    )
)]
pub(super) async fn rejoin(
    caller: Caller,
    path: PathParams,
    params: QueryParams,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let run_id: RunId = extract::parse_path_id(&path, "run")?;
    let run = caller.agent.runs().get(run_id).await?;
    let thread_id = run.ok_or_else(|| run_not_found(run_id))?.thread_id;
    let (run, request) = find_run_with_request(&caller, thread_id, run_id).await?;
    rejoin_response(caller, run, request, &params, &headers).await
}
