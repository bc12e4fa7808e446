//! Asking for a run on a thread: in the background, streamed, or waited for.

use std::sync::Arc;

use axum::Json;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use protocol::{RunId, RunRequest, ThreadId};
use scheduler::{CreatedRun, IfNotExists, NewRun};

use super::body::{IfNotExistsBody, OnCompletion, RunBody};
use super::run_origin;
use super::wait::RunWaiter;
use crate::caller::Caller;
use crate::error::{ApiError, ErrorBody};
use crate::extract::{JsonBody, ThreadPath};
use crate::modes::follow::{RunModeStream, StreamView};
use crate::modes::mode::StreamModes;
use crate::modes::writer::EventIds;
use crate::requests::check_readable;
use crate::resources::{self, assistants::resolve_assistant};
use crate::sse;
use crate::wire::run::WireRun;

/// A run that is asked for, checked as far as it can be without the thread.
pub(crate) struct CheckedRunRequest {
    pub(crate) request: RunRequest,
    pub(crate) modes: StreamModes,
    pub(crate) if_not_exists: IfNotExists,
    on_completion: OnCompletion,
}

impl CheckedRunRequest {
    /// Reads what is asked of the caller's assistant.
    pub(super) fn from_body(caller: &Caller, body: RunBody) -> Result<Self, ApiError> {
        resolve_assistant(&caller.agent, &body.assistant_id)?;
        let if_not_exists = match body.if_not_exists {
            Some(IfNotExistsBody::Create) => IfNotExists::Create,
            Some(IfNotExistsBody::Reject) | None => IfNotExists::Reject,
        };
        let on_completion = body.on_completion.unwrap_or(OnCompletion::Delete);
        let (request, modes) = body.into_request()?;
        check_readable(&request).map_err(|fault| ApiError::invalid(fault.message))?;
        Ok(Self { request, modes, if_not_exists, on_completion })
    }

    /// Returns the same in a thread of its own, which goes with the run unless it is to be kept.
    pub(super) fn on_own_thread(mut self) -> Self {
        self.if_not_exists = IfNotExists::Create;
        self.request.temporary = self.on_completion == OnCompletion::Delete;
        self
    }

    /// Has the run taken.
    pub(crate) async fn submit(
        self,
        caller: &Caller,
        thread_id: Option<ThreadId>,
    ) -> Result<CreatedRun, ApiError> {
        let new = NewRun { thread_id, request: self.request, if_not_exists: self.if_not_exists };
        match caller.server.scheduler.create_run(&caller.scope, new).await {
            Err(scheduler::Error::Agent(error @ agent::Error::Thread(agent::ThreadError::Exists(_)))) => {
                Err(resources::create_thread_error(caller, error).await)
            }
            created => created.map_err(submission_error),
        }
    }
}

/// Has several runs taken, or none of them.
pub(super) async fn submit_all(
    asked: Vec<CheckedRunRequest>,
    caller: &Caller,
) -> Result<Vec<CreatedRun>, ApiError> {
    let new = asked.into_iter().map(|asked| {
        let CheckedRunRequest { request, if_not_exists, .. } = asked;
        NewRun { thread_id: None, request, if_not_exists }
    });
    caller.server.scheduler.create_runs(&caller.scope, new.collect()).await.map_err(submission_error)
}

/// Returns how a client is told that the run was not taken.
fn submission_error(error: scheduler::Error) -> ApiError {
    match error {
        scheduler::Error::Agent(agent::Error::Thread(agent::ThreadError::Unknown(_))) => {
            ApiError::not_found("Thread or assistant not found.")
        }
        other => other.into(),
    }
}

/// Asks for a run, and answers at once.
#[utoipa::path(
    post, path = "/threads/{thread_id}/runs", tag = "runs",
    params(("thread_id" = Uuid, Path, description = "The thread.")),
    request_body = RunBody,
    responses(
        (status = 200, description = "It works or waits.", body = WireRun),
        (status = "4XX", description = "It was not taken.", body = ErrorBody),
    )
)]
pub(super) async fn background(
    caller: Caller,
    ThreadPath(thread_id): ThreadPath,
    JsonBody(body): JsonBody<RunBody>,
) -> Result<Response, ApiError> {
    let created = CheckedRunRequest::from_body(&caller, body)?.submit(&caller, Some(thread_id)).await?;
    Ok(background_response(created))
}

/// Asks for a run, and follows it to its end.
#[utoipa::path(
    post, path = "/threads/{thread_id}/runs/stream", tag = "runs",
    params(("thread_id" = Uuid, Path, description = "The thread.")),
    request_body = RunBody,
    responses(
        (status = 200, description = "Its events.", content_type = "text/event-stream", body = String),
        (status = "4XX", description = "It was not taken.", body = ErrorBody),
    )
)]
pub(super) async fn stream(
    caller: Caller,
    ThreadPath(thread_id): ThreadPath,
    JsonBody(body): JsonBody<RunBody>,
) -> Result<Response, ApiError> {
    let asked = CheckedRunRequest::from_body(&caller, body)?;
    let modes = asked.modes;
    let created = asked.submit(&caller, Some(thread_id)).await?;
    let place = run_path(created.run.thread_id, created.run.run_id);
    Ok(stream_response(caller, created, modes, &place))
}

/// Asks for a run, and answers with what came of it.
#[utoipa::path(
    post, path = "/threads/{thread_id}/runs/wait", tag = "runs",
    params(("thread_id" = Uuid, Path, description = "The thread.")),
    request_body = RunBody,
    responses(
        (status = 200, description = "The state at its end; `__interrupt__` with it when it asks, `__error__` alone when it failed.", body = serde_json::Value),
        (status = "4XX", description = "It was not taken.", body = ErrorBody),
    )
)]
pub(super) async fn wait(
    caller: Caller,
    ThreadPath(thread_id): ThreadPath,
    JsonBody(body): JsonBody<RunBody>,
) -> Result<Response, ApiError> {
    let created = CheckedRunRequest::from_body(&caller, body)?.submit(&caller, Some(thread_id)).await?;
    Ok(wait_response(caller, created))
}

/// Returns the answer to a run in the background, whose client sees to it later.
pub(super) fn background_response(created: CreatedRun) -> Response {
    let CreatedRun { run, request, reader: live } = created;
    live.detach();
    let place = run_path(run.thread_id, run.run_id);
    let run = WireRun::from_run(&run, Some(Arc::unwrap_or_clone(request)));
    // What a client is told of a run it asked for in the background is that it was taken.
    let mut response = Json(WireRun { status: "pending", ..run }).into_response();
    insert_header(&mut response, header::CONTENT_LOCATION, &place);
    response
}

/// Returns the answer that follows a run; `place` is where the run is found.
pub(super) fn stream_response(
    caller: Caller,
    created: CreatedRun,
    modes: StreamModes,
    place: &str,
) -> Response {
    let CreatedRun { run, request, reader: live } = created;
    let ids = if request.stream_resumable { EventIds::Sent } else { EventIds::Omitted };
    let again = format!("{}/stream", run_path(run.thread_id, run.run_id));
    let follow =
        RunModeStream::new(caller, run_origin(&run, &request), live, StreamView { modes, event_ids: ids });
    let mut response = sse::event_stream_response(follow.chunks());
    insert_header(&mut response, header::CONTENT_LOCATION, place);
    insert_header(&mut response, header::LOCATION, &again);
    response
}

/// Returns the answer that waits for a run.
pub(super) fn wait_response(caller: Caller, created: CreatedRun) -> Response {
    let place = run_path(created.run.thread_id, created.run.run_id);
    let wait = RunWaiter::for_reader(caller, created.reader);
    let mut response = wait.response();
    insert_header(&mut response, header::CONTENT_LOCATION, &place);
    insert_header(&mut response, header::LOCATION, &format!("{place}/join"));
    response
}

/// Returns where a run is found. Clients read both ids from it, to its very end.
pub(super) fn run_path(thread_id: ThreadId, run_id: RunId) -> String {
    format!("/threads/{thread_id}/runs/{run_id}")
}

pub(super) fn insert_header(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}
