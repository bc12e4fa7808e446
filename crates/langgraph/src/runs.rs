//! The endpoints for runs of the Agent Server API: create, stream, wait for, list, read, cancel and delete.
//!
//! A run is created on a thread ([`create`]) or on a thread of its own ([`stateless`]). The client chooses how it
//! receives the result: not at all (a background run), as a stream, or as one response when the run has ended. A client
//! can join a run later in the same ways ([`follow`]).
//!
//! The scheduler decides when a run starts, and the agent decides how its input changes the thread.

pub(crate) mod body;
mod cancel;
mod create;
mod follow;
mod inspect;
mod stateless;
mod wait;

use protocol::{Run, RunId, RunRequest, ThreadId};
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::caller::Caller;
use crate::error::ApiError;
use crate::streams::origin::{RunOrigin, SubgraphStreaming};

/// Returns the routes of runs.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> OpenApiRouter<S> {
    OpenApiRouter::new()
        .routes(routes!(create::background, inspect::list))
        .routes(routes!(create::stream))
        .routes(routes!(create::wait))
        .routes(routes!(inspect::get, inspect::delete))
        .routes(routes!(follow::rejoin))
        .routes(routes!(follow::join))
        .routes(routes!(follow::stream_thread))
        .routes(routes!(cancel::cancel_run))
        .routes(routes!(cancel::cancel_runs))
        .routes(routes!(stateless::background))
        .routes(routes!(stateless::stream))
        .routes(routes!(stateless::wait))
        .routes(routes!(stateless::batch))
        .routes(routes!(stateless::rejoin))
}

/// Returns a run of a thread.
///
/// # Errors
/// Not found if the thread has no such run or belongs to another owner; an internal error if the journal fails.
pub async fn find_run(caller: &Caller, thread_id: ThreadId, run_id: RunId) -> Result<Run, ApiError> {
    let run = caller.agent.runs().get(run_id).await?;
    run.filter(|run| run.thread_id == thread_id).ok_or_else(|| run_not_found(run_id))
}

/// Returns a run of a thread with the request that created it. If no request is stored for the run, it is the default
/// one.
///
/// # Errors
/// Those of [`find_run`].
pub(crate) async fn find_run_with_request(
    caller: &Caller,
    thread_id: ThreadId,
    run_id: RunId,
) -> Result<(Run, RunRequest), ApiError> {
    let run = find_run(caller, thread_id, run_id).await?;
    let requests = caller.agent.runs().stored_requests(&[run_id]).await?;
    let request = requests.into_iter().next().map(|(_, request)| request).unwrap_or_default();
    Ok((run, request))
}

/// Returns the error for a run that does not exist.
fn run_not_found(run_id: RunId) -> ApiError {
    ApiError::not_found(format!("Run {run_id} not found"))
}

/// Returns the origin that the stream items of the run carry: its ids, its assistant, and the metadata and tags of its
/// request.
pub(crate) fn run_origin(run: &Run, request: &RunRequest) -> RunOrigin {
    let name = run.assistant_id.name();
    let tags = request.config.get("tags").and_then(Value::as_array);
    let tags = tags.into_iter().flatten().filter_map(|tag| tag.as_str().map(str::to_owned));
    RunOrigin {
        thread_id: run.thread_id,
        run_id: run.run_id,
        namespace: "".into(),
        call_id: None,
        message_thread_id: run.thread_id,
        graph_id: name.to_owned(),
        assistant_id: run.assistant_id.wire_id().hyphenated().to_string(),
        metadata: request.metadata.clone(),
        tags: tags.collect(),
        subgraphs: if request.stream_subgraphs {
            SubgraphStreaming::Included
        } else {
            SubgraphStreaming::Excluded
        },
    }
}
