//! Runs without a thread: each has one of its own, which goes with it unless it is to be kept.

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

/// Runs that one request may ask for.
const BATCH_MAX: usize = 100;

/// Asks for a run in a thread of its own, and answers at once.
#[utoipa::path(
    post, path = "/runs", tag = "stateless runs", request_body = RunBody,
    responses(
        (status = 200, description = "It works or waits.", body = WireRun),
        (status = "4XX", description = "It was not taken.", body = ErrorBody),
    )
)]
pub(super) async fn background(
    caller: Caller,
    JsonBody(body): JsonBody<RunBody>,
) -> Result<Response, ApiError> {
    let created = CheckedRunRequest::from_body(&caller, body)?.on_own_thread().submit(&caller, None).await?;
    Ok(create::background_response(created))
}

/// Asks for a run in a thread of its own, and follows it to its end.
#[utoipa::path(
    post, path = "/runs/stream", tag = "stateless runs", request_body = RunBody,
    responses(
        (status = 200, description = "Its events.", content_type = "text/event-stream", body = String),
        (status = "4XX", description = "It was not taken.", body = ErrorBody),
    )
)]
pub(super) async fn stream(caller: Caller, JsonBody(body): JsonBody<RunBody>) -> Result<Response, ApiError> {
    let asked = CheckedRunRequest::from_body(&caller, body)?.on_own_thread();
    let modes = asked.modes;
    let created = asked.submit(&caller, None).await?;
    let place = format!("/runs/{}", created.run.run_id);
    Ok(create::stream_response(caller, created, modes, &place))
}

/// Asks for a run in a thread of its own, and answers with what came of it.
#[utoipa::path(
    post, path = "/runs/wait", tag = "stateless runs", request_body = RunBody,
    responses(
        (status = 200, description = "The state at its end; `__interrupt__` with it when it asks, `__error__` alone when it failed.", body = serde_json::Value),
        (status = "4XX", description = "It was not taken.", body = ErrorBody),
    )
)]
pub(super) async fn wait(caller: Caller, JsonBody(body): JsonBody<RunBody>) -> Result<Response, ApiError> {
    let created = CheckedRunRequest::from_body(&caller, body)?.on_own_thread().submit(&caller, None).await?;
    Ok(create::wait_response(caller, created))
}

/// Asks for several runs, each in a thread of its own. Either all of them make sense and find a place or none is taken.
#[utoipa::path(
    post, path = "/runs/batch", tag = "stateless runs", request_body = Vec<RunBody>,
    responses(
        (status = 200, description = "They work or wait.", body = Vec<WireRun>),
        (status = "4XX", description = "They were not taken.", body = ErrorBody),
    )
)]
pub(super) async fn batch(caller: Caller, request: Request) -> Result<Response, ApiError> {
    let bytes = extract::read_body(request).await?;
    let bodies: Vec<RunBody> = extract::parse_json(&bytes)?;
    if bodies.is_empty() || bodies.len() > BATCH_MAX {
        return Err(ApiError::invalid(format!("the request body must be an array of 1 to {BATCH_MAX} runs")));
    }
    let asked =
        bodies.into_iter().map(|body| Ok(CheckedRunRequest::from_body(&caller, body)?.on_own_thread()));
    let asked: Vec<CheckedRunRequest> = asked.collect::<Result<_, ApiError>>()?;
    let mut runs = Vec::with_capacity(asked.len());
    for created in create::submit_all(asked, &caller).await? {
        created.reader.detach();
        let run = WireRun::from_run(&created.run, Some(Arc::unwrap_or_clone(created.request)));
        runs.push(WireRun { status: "pending", ..run });
    }
    Ok(Json(runs).into_response())
}

/// Follows a run that was asked for without a thread.
#[utoipa::path(
    get, path = "/runs/{run_id}/stream", tag = "stateless runs",
    params(
        ("run_id" = Uuid, Path, description = "The run."),
        ("Last-Event-ID" = Option<String>, Header, description = "The last event the client has had; `-1` is none."),
        ("stream_mode" = Option<Vec<String>>, Query, description = "What to show; what the run was asked to stream unless set."),
        ("cancel_on_disconnect" = Option<bool>, Query, description = "Whether the run is stopped when this client goes away."),
    ),
    responses(
        (status = 200, description = "Its events.", content_type = "text/event-stream", body = String),
        (status = "4XX", description = "There is none.", body = ErrorBody),
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
