//! The endpoints that create a run on a thread: in the background, with a stream, or with the result as the response.
//!
//! The submission and the responses are shared with [`super::stateless`].

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

/// A run request that passed every check that is possible without reading the thread.
pub(crate) struct CheckedRunRequest {
    /// The request to submit.
    pub(crate) request: RunRequest,
    /// The stream modes that the client wants to receive.
    pub(crate) modes: StreamModes,
    /// The behaviour if the thread does not exist.
    pub(crate) if_not_exists: IfNotExists,
    /// The effect on the run's own thread when the run ends. Used by [`Self::on_own_thread`].
    on_completion: OnCompletion,
}

impl CheckedRunRequest {
    /// Checks the body of a request.
    ///
    /// # Errors
    /// If the assistant does not exist, if a field is invalid, or if the input or the command cannot be interpreted on
    /// any thread.
    pub(super) fn from_body(caller: &Caller, body: RunBody) -> Result<Self, ApiError> {
        resolve_assistant(&caller.agent, &body.assistant_id)?;
        let if_not_exists = match body.if_not_exists {
            Some(IfNotExistsBody::Create) => IfNotExists::Create,
            Some(IfNotExistsBody::Reject) | None => IfNotExists::Reject,
        };
        let on_completion = body.on_completion.unwrap_or(OnCompletion::Delete);
        let (request, modes) = body.into_request()?;
        check_readable(&request).map_err(|error| ApiError::invalid(error.message))?;
        Ok(Self { request, modes, if_not_exists, on_completion })
    }

    /// Returns the request for a run on a thread of its own. The thread is created for the run and deleted at its end,
    /// unless the client asked to keep it.
    ///
    /// # Errors
    /// A conflict if the request contains an answer, because no question is pending in a new thread.
    pub(super) fn on_own_thread(mut self) -> Result<Self, ApiError> {
        if self.request.has_answer() {
            let refused = ApiError::conflict("no question is pending: the run would start on a new thread");
            return Err(refused.with_hint("send the answer to the runs of the thread that has the question"));
        }
        self.if_not_exists = IfNotExists::Create;
        self.request.temporary = self.on_completion == OnCompletion::Delete;
        Ok(self)
    }

    /// Submits the run to the scheduler. `None` creates a new thread for it. Dropping the returned future does not
    /// withdraw the run.
    ///
    /// # Errors
    /// Not found if the thread does not exist or belongs to another owner; otherwise the errors of
    /// [`scheduler::Scheduler::create_run`].
    pub(crate) async fn submit(
        self,
        caller: &Caller,
        thread_id: Option<ThreadId>,
    ) -> Result<CreatedRun, ApiError> {
        let request = RunRequest { client: Some(caller.client.as_ref().to_owned()), ..self.request };
        let new = NewRun { thread_id, request, if_not_exists: self.if_not_exists };
        match caller.server.scheduler.create_run(&caller.scope, new).await {
            Err(scheduler::Error::Agent(error @ agent::Error::Thread(agent::ThreadError::Exists(_)))) => {
                Err(resources::create_thread_error(caller, error).await)
            }
            created => created.map_err(submission_error),
        }
    }
}

/// Submits several runs, each on a new thread: all of them or none.
///
/// # Errors
/// The error of the first run that the scheduler refuses.
pub(super) async fn submit_all(
    requests: Vec<CheckedRunRequest>,
    caller: &Caller,
) -> Result<Vec<CreatedRun>, ApiError> {
    let new = requests.into_iter().map(|checked| {
        let CheckedRunRequest { request, if_not_exists, .. } = checked;
        NewRun { thread_id: None, request, if_not_exists }
    });
    caller.server.scheduler.create_runs(&caller.scope, new.collect()).await.map_err(submission_error)
}

/// Converts an error of the scheduler into a response. A missing thread has the text that clients of the reference
/// server expect.
fn submission_error(error: scheduler::Error) -> ApiError {
    match error {
        scheduler::Error::Agent(agent::Error::Thread(agent::ThreadError::Unknown(_))) => {
            ApiError::not_found("Thread or assistant not found.")
        }
        other => other.into(),
    }
}

/// Creates a run on a thread, and responds without waiting for it.
#[utoipa::path(
    post, path = "/threads/{thread_id}/runs", tag = "runs",
    params(("thread_id" = Uuid, Path, description = "The thread.")),
    request_body = RunBody,
    responses(
        (status = 200, description = "The run has started or is queued.", body = WireRun),
        (status = "4XX", description = "The run was not created.", body = ErrorBody),
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

/// Creates a run on a thread, and streams its events until it ends.
#[utoipa::path(
    post, path = "/threads/{thread_id}/runs/stream", tag = "runs",
    params(("thread_id" = Uuid, Path, description = "The thread.")),
    request_body = RunBody,
    responses(
        (status = 200, description = "The events of the run.", content_type = "text/event-stream", body = String),
        (status = "4XX", description = "The run was not created.", body = ErrorBody),
    )
)]
pub(super) async fn stream(
    caller: Caller,
    ThreadPath(thread_id): ThreadPath,
    JsonBody(body): JsonBody<RunBody>,
) -> Result<Response, ApiError> {
    let checked = CheckedRunRequest::from_body(&caller, body)?;
    let modes = checked.modes;
    let created = checked.submit(&caller, Some(thread_id)).await?;
    let path = run_path(created.run.thread_id, created.run.run_id);
    Ok(stream_response(caller, created, modes, &path))
}

/// Creates a run on a thread, waits until it ends, and returns the thread's state.
#[utoipa::path(
    post, path = "/threads/{thread_id}/runs/wait", tag = "runs",
    params(("thread_id" = Uuid, Path, description = "The thread.")),
    request_body = RunBody,
    responses(
        (status = 200, description = "The state at the end of the run; with `__interrupt__` if the run was interrupted. Only `__error__` if it failed.", body = serde_json::Value),
        (status = "4XX", description = "The run was not created.", body = ErrorBody),
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

/// Returns the response to the creation of a background run. The run does not depend on the connection.
pub(super) fn background_response(created: CreatedRun) -> Response {
    let CreatedRun { run, request, reader } = created;
    reader.detach();
    let path = run_path(run.thread_id, run.run_id);
    let run = WireRun::from_run(&run, Some(Arc::unwrap_or_clone(request)));
    // The status is always `pending`, as in the reference server, even if the run has started already.
    let mut response = Json(WireRun { status: "pending", ..run }).into_response();
    insert_header(&mut response, header::CONTENT_LOCATION, &path);
    response
}

/// Returns the response that streams a run. `path` becomes the `Content-Location`; `Location` is the path at which a
/// client can join the stream again.
pub(super) fn stream_response(
    caller: Caller,
    created: CreatedRun,
    modes: StreamModes,
    path: &str,
) -> Response {
    let CreatedRun { run, request, reader } = created;
    let event_ids = if request.stream_resumable { EventIds::Sent } else { EventIds::Omitted };
    let rejoin_path = format!("{}/stream", run_path(run.thread_id, run.run_id));
    let stream =
        RunModeStream::new(caller, run_origin(&run, &request), reader, StreamView { modes, event_ids });
    let mut response = sse::event_stream_response(stream.chunks());
    insert_header(&mut response, header::CONTENT_LOCATION, path);
    insert_header(&mut response, header::LOCATION, &rejoin_path);
    response
}

/// Returns the response that waits for a run and then contains its result.
pub(super) fn wait_response(caller: Caller, created: CreatedRun) -> Response {
    let path = run_path(created.run.thread_id, created.run.run_id);
    let waiter = RunWaiter::for_reader(caller, created.reader);
    let mut response = waiter.response();
    insert_header(&mut response, header::CONTENT_LOCATION, &path);
    insert_header(&mut response, header::LOCATION, &format!("{path}/join"));
    response
}

/// Returns the path of a run, relative to the API root. Clients extract both ids from it with a greedy regular
/// expression, so nothing may follow the run id in `Content-Location`.
pub(super) fn run_path(thread_id: ThreadId, run_id: RunId) -> String {
    format!("/threads/{thread_id}/runs/{run_id}")
}

/// Sets a header of the response. A value that is not a valid header value is left out.
pub(super) fn insert_header(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}
