//! Runs over HTTP: asking for one, following it, waiting for it, looking at it, stopping it. What a request means for its
//! thread, and which run works when, is decided in the rooms below.

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

/// Returns the endpoints.
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

/// Returns the run.
///
/// # Errors
/// When the thread has no such run, or is somebody else's.
pub async fn find_run(caller: &Caller, thread_id: ThreadId, run_id: RunId) -> Result<Run, ApiError> {
    let run = caller.agent.runs().get(run_id).await?;
    run.filter(|run| run.thread_id == thread_id).ok_or_else(|| run_not_found(run_id))
}

/// Returns the run with what was asked of it.
///
/// # Errors
/// When the thread has no such run, or is somebody else's.
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

/// The answer to a run that is not there.
fn run_not_found(run_id: RunId) -> ApiError {
    ApiError::not_found(format!("Run {run_id} not found"))
}

/// Returns what the events of the run say of where they come from.
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
