//! Asking for a run on a thread: in the background, streamed, or waited for.

use std::sync::Arc;

use axum::Json;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use protocol::{RunId, RunRequest, ThreadId};
use scheduler::{Created, IfNotExists, NewRun};

use super::about;
use super::body::{IfNotExistsBody, OnCompletion, RunBody};
use super::wait::Wait;
use crate::caller::Caller;
use crate::extract::{Body, InThread};
use crate::fault::{Envelope, Fault};
use crate::modes::follow::{Follow, View};
use crate::modes::mode::Modes;
use crate::modes::out::Ids;
use crate::requests::check_readable;
use crate::resources::{self, assistants::resolve};
use crate::sse;
use crate::wire::run::WireRun;

/// A run that is asked for, checked as far as it can be without the thread.
pub(crate) struct Asked {
    pub(crate) request: RunRequest,
    pub(crate) modes: Modes,
    pub(crate) if_not_exists: IfNotExists,
    on_completion: OnCompletion,
}

impl Asked {
    /// Reads what is asked of the caller's assistant.
    pub(super) fn of(caller: &Caller, body: RunBody) -> Result<Self, Fault> {
        resolve(&caller.agent, &body.assistant_id)?;
        let if_not_exists = match body.if_not_exists {
            Some(IfNotExistsBody::Create) => IfNotExists::Create,
            Some(IfNotExistsBody::Reject) | None => IfNotExists::Reject,
        };
        let on_completion = body.on_completion.unwrap_or(OnCompletion::Delete);
        let (request, modes) = body.request()?;
        check_readable(&request).map_err(|fault| Fault::invalid(fault.message))?;
        Ok(Self { request, modes, if_not_exists, on_completion })
    }

    /// Returns the same in a thread of its own, which goes with the run unless it is to be kept.
    pub(super) fn alone(mut self) -> Self {
        self.if_not_exists = IfNotExists::Create;
        self.request.temporary = self.on_completion == OnCompletion::Delete;
        self
    }

    /// Has the run taken.
    pub(crate) async fn create(self, caller: &Caller, thread_id: Option<ThreadId>) -> Result<Created, Fault> {
        let new = NewRun { thread_id, request: self.request, if_not_exists: self.if_not_exists };
        match caller.server.dispatch.create(&caller.scope, new).await {
            Err(scheduler::Error::Agent(error @ agent::Error::Thread(agent::ThreadError::Exists(_)))) => {
                Err(resources::not_made(caller, error).await)
            }
            created => created.map_err(refused),
        }
    }
}

/// Has several runs taken, or none of them.
pub(super) async fn create_all(asked: Vec<Asked>, caller: &Caller) -> Result<Vec<Created>, Fault> {
    let new = asked.into_iter().map(|asked| {
        let Asked { request, if_not_exists, .. } = asked;
        NewRun { thread_id: None, request, if_not_exists }
    });
    caller.server.dispatch.create_all(&caller.scope, new.collect()).await.map_err(refused)
}

/// Returns how a client is told that the run was not taken.
fn refused(error: scheduler::Error) -> Fault {
    match error {
        scheduler::Error::Agent(agent::Error::Thread(agent::ThreadError::Unknown(_))) => {
            Fault::not_found("Thread or assistant not found.")
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
        (status = "4XX", description = "It was not taken.", body = Envelope),
    )
)]
pub(super) async fn background(
    caller: Caller,
    InThread(thread_id): InThread,
    Body(body): Body<RunBody>,
) -> Result<Response, Fault> {
    let created = Asked::of(&caller, body)?.create(&caller, Some(thread_id)).await?;
    Ok(taken(created))
}

/// Asks for a run, and follows it to its end.
#[utoipa::path(
    post, path = "/threads/{thread_id}/runs/stream", tag = "runs",
    params(("thread_id" = Uuid, Path, description = "The thread.")),
    request_body = RunBody,
    responses(
        (status = 200, description = "Its events.", content_type = "text/event-stream", body = String),
        (status = "4XX", description = "It was not taken.", body = Envelope),
    )
)]
pub(super) async fn stream(
    caller: Caller,
    InThread(thread_id): InThread,
    Body(body): Body<RunBody>,
) -> Result<Response, Fault> {
    let asked = Asked::of(&caller, body)?;
    let modes = asked.modes;
    let created = asked.create(&caller, Some(thread_id)).await?;
    let place = place_of(created.run.thread_id, created.run.run_id);
    Ok(streamed(caller, created, modes, &place))
}

/// Asks for a run, and answers with what came of it.
#[utoipa::path(
    post, path = "/threads/{thread_id}/runs/wait", tag = "runs",
    params(("thread_id" = Uuid, Path, description = "The thread.")),
    request_body = RunBody,
    responses(
        (status = 200, description = "The state at its end; `__interrupt__` with it when it asks, `__error__` alone when it failed.", body = serde_json::Value),
        (status = "4XX", description = "It was not taken.", body = Envelope),
    )
)]
pub(super) async fn wait(
    caller: Caller,
    InThread(thread_id): InThread,
    Body(body): Body<RunBody>,
) -> Result<Response, Fault> {
    let created = Asked::of(&caller, body)?.create(&caller, Some(thread_id)).await?;
    Ok(waited(caller, created))
}

/// Returns the answer to a run in the background, whose client sees to it later.
pub(super) fn taken(created: Created) -> Response {
    let Created { run, request, live } = created;
    live.leave();
    let place = place_of(run.thread_id, run.run_id);
    let run = WireRun::of(&run, Some(Arc::unwrap_or_clone(request)));
    // What a client is told of a run it asked for in the background is that it was taken.
    let mut response = Json(WireRun { status: "pending", ..run }).into_response();
    put(&mut response, header::CONTENT_LOCATION, &place);
    response
}

/// Returns the answer that follows a run; `place` is where the run is found.
pub(super) fn streamed(caller: Caller, created: Created, modes: Modes, place: &str) -> Response {
    let Created { run, request, live } = created;
    let ids = if request.stream_resumable { Ids::Sent } else { Ids::LeftOut };
    let again = format!("{}/stream", place_of(run.thread_id, run.run_id));
    let follow = Follow::new(caller, about(&run, &request), live, View { modes, ids });
    let mut response = sse::response(follow.chunks());
    put(&mut response, header::CONTENT_LOCATION, place);
    put(&mut response, header::LOCATION, &again);
    response
}

/// Returns the answer that waits for a run.
pub(super) fn waited(caller: Caller, created: Created) -> Response {
    let place = place_of(created.run.thread_id, created.run.run_id);
    let wait = Wait::of(caller, created.live);
    let mut response = wait.response();
    put(&mut response, header::CONTENT_LOCATION, &place);
    put(&mut response, header::LOCATION, &format!("{place}/join"));
    response
}

/// Returns where a run is found. Clients read both ids from it, to its very end.
pub(super) fn place_of(thread_id: ThreadId, run_id: RunId) -> String {
    format!("/threads/{thread_id}/runs/{run_id}")
}

pub(super) fn put(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}
