//! Threads: made, read, noted on, removed, copied. Searching them is in a file of its own.

mod search;

use std::sync::Arc;

use agent::{Agent, IfExists, RunFilter};
use axum::Json;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use protocol::{Run, RunStatus, Thread, ThreadId, ThreadStatus};
use scheduler::CancelAction;
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::find_thread;
use crate::caller::Caller;
use crate::error::{ApiError, ErrorBody};
use crate::extract::{JsonBody, ThreadPath};
use crate::requests::state_update::read_state_update;
use crate::wire::failure::WireRunFailure;
use crate::wire::thread::WireThread;

/// Steps that a new thread may be given at once.
const SUPERSTEPS_MAX: usize = 1_000;

/// Runs that are stopped at a time when a thread is removed.
const RUNS_PAGE_ROWS: usize = 100;

/// Returns the endpoints.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> OpenApiRouter<S> {
    OpenApiRouter::new()
        .routes(routes!(create))
        .routes(routes!(search::search))
        .routes(routes!(search::count))
        .routes(routes!(get, patch, delete))
        .routes(routes!(copy))
}

/// A thread to be made.
#[derive(Debug, Default, Deserialize, ToSchema)]
struct ThreadCreate {
    /// Its id; one is made when there is none.
    #[schema(value_type = Option<String>, format = Uuid)]
    thread_id: Option<ThreadId>,
    /// Notes about it.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
    /// The behaviour if a thread with that id exists: `raise` or `do_nothing`.
    if_exists: Option<IfThreadExists>,
    /// Changes of its state to begin with.
    supersteps: Option<Vec<Superstep>>,
    /// Taken and not looked at: threads stay until they are deleted.
    #[serde(rename = "ttl")]
    #[schema(value_type = Option<Object>)]
    _ttl: Option<Map<String, Value>>,
}

/// The behaviour if a thread with that id exists.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum IfThreadExists {
    /// It is refused.
    Raise,
    /// It returns the thread.
    DoNothing,
}

/// Changes that are made together.
#[derive(Debug, Deserialize, ToSchema)]
struct Superstep {
    /// The changes, in order.
    #[serde(default)]
    updates: Vec<SuperstepUpdate>,
}

/// A change of a thread's state.
#[derive(Debug, Deserialize, ToSchema)]
struct SuperstepUpdate {
    /// The new values.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    values: Option<Map<String, Value>>,
    /// The node that is taken to have put it.
    #[serde(default)]
    as_node: Option<String>,
}

/// Makes a thread.
#[utoipa::path(post, path = "/threads", tag = "threads", request_body = ThreadCreate,
    responses((status = 200, body = WireThread), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody), (status = 409, body = ErrorBody), (status = 413, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn create(caller: Caller, JsonBody(new): JsonBody<ThreadCreate>) -> Result<Json<WireThread>, ApiError> {
    let supersteps = new.supersteps.unwrap_or_default();
    let updates: Vec<SuperstepUpdate> = supersteps.into_iter().flat_map(|step| step.updates).collect();
    if updates.len() > SUPERSTEPS_MAX {
        return Err(ApiError::invalid(format!("`supersteps` holds more than {SUPERSTEPS_MAX} updates")));
    }
    let if_exists = match new.if_exists.unwrap_or(IfThreadExists::Raise) {
        IfThreadExists::Raise => IfExists::Raise,
        IfThreadExists::DoNothing => IfExists::DoNothing,
    };
    let metadata = new.metadata.unwrap_or_default();
    let thread = if updates.is_empty() {
        match caller.agent.threads().ensure_thread(new.thread_id, metadata, if_exists).await {
            Ok((thread, _)) => thread,
            Err(error) => return Err(super::create_thread_error(&caller, error).await),
        }
    } else {
        let thread_id = new.thread_id.unwrap_or_else(ThreadId::generate);
        let maker = caller.clone();
        let make = move |_| async move {
            match maker.agent.threads().ensure_thread(Some(thread_id), metadata, if_exists).await {
                Ok((thread, false)) => Ok(thread),
                Ok((_, true)) => apply_supersteps(&maker.agent, thread_id, updates).await,
                Err(error) => Err(super::create_thread_error(&maker, error).await),
            }
        };
        // No run begins on a thread that is made in part.
        caller.server.scheduler.run_exclusive(&caller.scope, thread_id, make).await??
    };
    thread_with_state(&caller, &thread).await.map(Json)
}

/// Changes the state of a thread that was just made; a change that cannot be made takes the thread along.
async fn apply_supersteps(
    agent: &Agent,
    thread_id: ThreadId,
    updates: Vec<SuperstepUpdate>,
) -> Result<Thread, ApiError> {
    for update in updates {
        let change = read_state_update(thread_id, update.values, update.as_node.as_deref(), None);
        let changed = match change {
            Ok(change) => agent.threads().update_state(thread_id, change).await,
            Err(error) => Err(error),
        };
        if let Err(error) = changed {
            agent.threads().delete(thread_id).await?;
            return Err(ApiError::from(error).or_bad_request());
        }
    }
    let made = agent.threads().get(thread_id).await?;
    made.ok_or_else(|| super::thread_not_found(thread_id))
}

/// Returns a thread.
#[utoipa::path(get, path = "/threads/{thread_id}", tag = "threads", params(("thread_id" = String, Path, format = "uuid", description = "The thread.")),
    responses((status = 200, body = WireThread), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn get(caller: Caller, ThreadPath(thread_id): ThreadPath) -> Result<Json<WireThread>, ApiError> {
    let thread = find_thread(&caller, thread_id).await?;
    thread_with_state(&caller, &thread).await.map(Json)
}

/// Changes to a thread.
#[derive(Debug, Default, Deserialize, ToSchema)]
struct ThreadPatch {
    /// Notes about it: those given take the place of those of the same name, the others stay.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
}

/// Changes the notes about a thread. With the header `Prefer: return=minimal` the answer is empty.
#[utoipa::path(patch, path = "/threads/{thread_id}", tag = "threads", params(("thread_id" = String, Path, format = "uuid", description = "The thread.")), request_body = ThreadPatch,
    responses((status = 200, body = WireThread), (status = 204), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody), (status = 413, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn patch(
    caller: Caller,
    ThreadPath(thread_id): ThreadPath,
    headers: HeaderMap,
    JsonBody(patch): JsonBody<ThreadPatch>,
) -> Result<Response, ApiError> {
    find_thread(&caller, thread_id).await?;
    let thread = caller.agent.threads().patch_metadata(thread_id, patch.metadata.unwrap_or_default()).await?;
    let mut preferences = headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
    match preferences.any(|value| value.split(',').any(|one| one.trim() == "return=minimal")) {
        true => Ok(StatusCode::NO_CONTENT.into_response()),
        false => Ok(Json(thread_with_state(&caller, &thread).await?).into_response()),
    }
}

/// Removes a thread with everything that belongs to it. What works on it is stopped first.
#[utoipa::path(delete, path = "/threads/{thread_id}", tag = "threads", params(("thread_id" = String, Path, format = "uuid", description = "The thread.")),
    responses((status = 204), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn delete(caller: Caller, ThreadPath(thread_id): ThreadPath) -> Result<StatusCode, ApiError> {
    find_thread(&caller, thread_id).await?;
    cancel_active_runs(&caller, thread_id).await?;
    let agent = Arc::clone(&caller.agent);
    let remove = move |_| async move { agent.threads().delete(thread_id).await };
    caller.server.scheduler.run_exclusive(&caller.scope, thread_id, remove).await??;
    caller.server.scheduler.forget_streams(&caller.scope, thread_id);
    Ok(StatusCode::NO_CONTENT)
}

/// Stops what works on the thread, and what waits.
async fn cancel_active_runs(caller: &Caller, thread_id: ThreadId) -> Result<(), ApiError> {
    loop {
        let filter = RunFilter {
            thread_id: Some(thread_id),
            statuses: vec![RunStatus::Pending, RunStatus::Running],
            limit: RUNS_PAGE_ROWS,
            ..RunFilter::default()
        };
        let active = caller.agent.runs().list(filter).await?;
        if active.is_empty() {
            return Ok(());
        }
        // The newest are stopped first: they wait, and would begin when the one that works is stopped.
        for run in active {
            match caller
                .server
                .scheduler
                .cancel_run(&caller.scope, thread_id, run.run_id, CancelAction::Interrupt)
                .await
            {
                Ok(()) | Err(scheduler::Error::Ended { .. } | scheduler::Error::UnknownRun { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Copies a thread with its history into a new one.
#[utoipa::path(post, path = "/threads/{thread_id}/copy", tag = "threads", params(("thread_id" = String, Path, format = "uuid", description = "The thread.")),
    responses((status = 200, body = WireThread), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn copy(caller: Caller, ThreadPath(thread_id): ThreadPath) -> Result<Json<WireThread>, ApiError> {
    find_thread(&caller, thread_id).await?;
    let copy = caller.agent.threads().copy_thread(thread_id).await?;
    thread_with_state(&caller, &copy).await.map(Json)
}

/// Returns a thread with what stands at its head.
async fn thread_with_state(caller: &Caller, thread: &Thread) -> Result<WireThread, ApiError> {
    let state = caller.agent.threads().state(thread.thread_id).await?;
    let failure = last_run_failure(caller, thread).await?;
    Ok(WireThread::from_thread(thread, state.as_ref(), failure.as_ref()))
}

/// Returns how the thread's last run failed, or that it was stopped. One that left the thread as it was has not failed it.
async fn last_run_failure(caller: &Caller, thread: &Thread) -> Result<Option<WireRunFailure>, ApiError> {
    if thread.status == ThreadStatus::Busy {
        return Ok(None);
    }
    let filter = RunFilter { thread_id: Some(thread.thread_id), limit: 1, ..RunFilter::default() };
    let last = caller.agent.runs().list(filter).await?.pop();
    let counts = |run: &Run| run.status == RunStatus::Cancelled || thread.status == ThreadStatus::Error;
    Ok(last.filter(counts).and_then(|run| run.failure).map(WireRunFailure::from))
}
