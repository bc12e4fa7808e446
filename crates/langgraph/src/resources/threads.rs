//! The endpoints for threads: create, read, update metadata, delete and copy. The submodule [`search`] searches and
//! counts threads.
//!
//! Changes that must not overlap with a run (a thread with initial state, a deletion) take a slot of the thread's
//! queue.

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
use crate::extract::json_limits::check_channels_size;
use crate::extract::{JsonBody, ThreadPath};
use crate::requests::state_update::read_state_update;
use crate::wire::failure::WireRunFailure;
use crate::wire::thread::WireThread;

/// The maximum number of state updates, over all supersteps, in the request that creates a thread.
const SUPERSTEPS_MAX: usize = 1_000;

/// The number of runs that are read and stopped at a time when a thread is deleted.
const RUNS_PAGE_ROWS: usize = 100;

/// Returns the routes of threads.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> OpenApiRouter<S> {
    OpenApiRouter::new()
        .routes(routes!(create))
        .routes(routes!(search::search))
        .routes(routes!(search::count))
        .routes(routes!(get, patch, delete))
        .routes(routes!(copy))
}

/// The body of a request that creates a thread.
#[derive(Debug, Default, Deserialize, ToSchema)]
struct ThreadCreate {
    /// The id of the thread. Generated if it is missing.
    #[schema(value_type = Option<String>, format = Uuid)]
    thread_id: Option<ThreadId>,
    /// The client's metadata about the thread.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
    /// The behaviour if a thread with that id exists: `raise` (the default) or `do_nothing`.
    if_exists: Option<IfThreadExists>,
    /// State updates that give the thread its initial state, applied in order. At most 1,000 in total.
    supersteps: Option<Vec<Superstep>>,
    /// Accepted and ignored: threads stay until they are deleted.
    #[serde(rename = "ttl")]
    #[schema(value_type = Option<Object>)]
    _ttl: Option<Map<String, Value>>,
}

/// The behaviour if a thread with that id exists.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum IfThreadExists {
    /// The request fails with status 409.
    Raise,
    /// The existing thread is returned unchanged. Supersteps are not applied to it.
    DoNothing,
}

/// A group of state updates.
#[derive(Debug, Deserialize, ToSchema)]
struct Superstep {
    /// The updates, in order.
    #[serde(default)]
    updates: Vec<SuperstepUpdate>,
}

/// One update of the initial state.
#[derive(Debug, Deserialize, ToSchema)]
struct SuperstepUpdate {
    /// The new values. `messages` are merged by id; other fields are replaced.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    values: Option<Map<String, Value>>,
    /// The node after which the thread continues. Without it, the next node stays the same.
    #[serde(default)]
    as_node: Option<String>,
}

/// Creates a thread.
#[utoipa::path(post, path = "/threads", tag = "threads", request_body = ThreadCreate,
    responses((status = 200, body = WireThread), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody), (status = 409, body = ErrorBody), (status = 413, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn create(caller: Caller, JsonBody(new): JsonBody<ThreadCreate>) -> Result<Json<WireThread>, ApiError> {
    let supersteps = new.supersteps.unwrap_or_default();
    let updates: Vec<SuperstepUpdate> = supersteps.into_iter().flat_map(|step| step.updates).collect();
    if updates.len() > SUPERSTEPS_MAX {
        return Err(ApiError::invalid(format!("`supersteps` holds more than {SUPERSTEPS_MAX} updates")));
    }
    for update in &updates {
        update.values.as_ref().map_or(Ok(()), check_channels_size)?;
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
        let creator = caller.clone();
        let create = move |_| async move {
            match creator.agent.threads().ensure_thread(Some(thread_id), metadata, if_exists).await {
                Ok((thread, false)) => Ok(thread),
                Ok((_, true)) => apply_supersteps(&creator.agent, thread_id, updates).await,
                Err(error) => Err(super::create_thread_error(&creator, error).await),
            }
        };
        // The slot of the thread's queue keeps a run from starting before all updates are applied.
        caller.server.scheduler.run_exclusive(&caller.scope, thread_id, create).await??
    };
    thread_with_state(&caller, &thread).await.map(Json)
}

/// Applies state updates to a thread that was just created, and returns the thread. If an update fails, the thread is
/// deleted, so that the request leaves nothing behind.
///
/// # Errors
/// The error of the first update that fails.
async fn apply_supersteps(
    agent: &Agent,
    thread_id: ThreadId,
    updates: Vec<SuperstepUpdate>,
) -> Result<Thread, ApiError> {
    for update in updates {
        let change = read_state_update(thread_id, update.values, update.as_node.as_deref(), None);
        let result = match change {
            Ok(change) => agent.threads().update_state(thread_id, change).await,
            Err(error) => Err(error),
        };
        if let Err(error) = result {
            agent.threads().delete(thread_id).await?;
            return Err(ApiError::from(error).or_bad_request());
        }
    }
    let thread = agent.threads().get(thread_id).await?;
    thread.ok_or_else(|| super::thread_not_found(thread_id))
}

/// Returns a thread with its current state.
#[utoipa::path(get, path = "/threads/{thread_id}", tag = "threads", params(("thread_id" = String, Path, format = "uuid", description = "The thread.")),
    responses((status = 200, body = WireThread), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn get(caller: Caller, ThreadPath(thread_id): ThreadPath) -> Result<Json<WireThread>, ApiError> {
    let thread = find_thread(&caller, thread_id).await?;
    thread_with_state(&caller, &thread).await.map(Json)
}

/// The body of a request that updates a thread.
#[derive(Debug, Default, Deserialize, ToSchema)]
struct ThreadPatch {
    /// Metadata to merge into the thread's metadata. Fields that are not named stay unchanged.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
}

/// Updates the metadata of a thread. With the header `Prefer: return=minimal`, the response has no body.
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
    match preferences.any(|value| value.split(',').any(|preference| preference.trim() == "return=minimal")) {
        true => Ok(StatusCode::NO_CONTENT.into_response()),
        false => Ok(Json(thread_with_state(&caller, &thread).await?).into_response()),
    }
}

/// Deletes a thread with everything that belongs to it. Active and queued runs are stopped first.
#[utoipa::path(delete, path = "/threads/{thread_id}", tag = "threads", params(("thread_id" = String, Path, format = "uuid", description = "The thread.")),
    responses((status = 204), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn delete(caller: Caller, ThreadPath(thread_id): ThreadPath) -> Result<StatusCode, ApiError> {
    find_thread(&caller, thread_id).await?;
    cancel_active_runs(&caller, thread_id).await?;
    let agent = Arc::clone(&caller.agent);
    let delete = move |_| {
        let agent = Arc::clone(&agent);
        async move { agent.threads().delete(thread_id).await }
    };
    caller.server.scheduler.change_thread(&caller.scope, thread_id, delete).await?;
    caller.server.scheduler.forget_streams(&caller.scope, thread_id);
    Ok(StatusCode::NO_CONTENT)
}

/// Stops all active and queued runs of a thread, and returns when none is left. The runs are read page by page until a
/// page is empty, because new ones may be created in the meantime.
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
        // The newest runs are stopped first. They are queued, and one of them would start if the active run stopped
        // first.
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

/// Copies a thread with its history into a new thread.
#[utoipa::path(post, path = "/threads/{thread_id}/copy", tag = "threads", params(("thread_id" = String, Path, format = "uuid", description = "The thread.")),
    responses((status = 200, body = WireThread), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn copy(caller: Caller, ThreadPath(thread_id): ThreadPath) -> Result<Json<WireThread>, ApiError> {
    find_thread(&caller, thread_id).await?;
    let copy = caller.agent.threads().copy_thread(thread_id).await?;
    thread_with_state(&caller, &copy).await.map(Json)
}

/// Returns a thread as clients read it: with its current state and the failure of its last run.
async fn thread_with_state(caller: &Caller, thread: &Thread) -> Result<WireThread, ApiError> {
    let state = caller.agent.threads().state(thread.thread_id).await?;
    let failure = last_run_failure(caller, thread).await?;
    Ok(WireThread::from_thread(thread, state.as_ref(), failure.as_ref()))
}

/// Returns the failure of the thread's last run, if it counts as an error of the thread: the run was cancelled, or the
/// thread has the status `error`. A run that failed without changing the status of the thread does not count. Returns
/// `None` while a run is active.
async fn last_run_failure(caller: &Caller, thread: &Thread) -> Result<Option<WireRunFailure>, ApiError> {
    if thread.status == ThreadStatus::Busy {
        return Ok(None);
    }
    let filter = RunFilter { thread_id: Some(thread.thread_id), limit: 1, ..RunFilter::default() };
    let last_run = caller.agent.runs().list(filter).await?.pop();
    let counts = |run: &Run| run.status == RunStatus::Cancelled || thread.status == ThreadStatus::Error;
    Ok(last_run.filter(counts).and_then(|run| run.failure).map(WireRunFailure::from))
}
