//! Runs over HTTP: asking for one, following it, waiting for it, looking at it, stopping it. What a request means for its
//! thread, and which run works when, is decided in the rooms below.

mod ask;
pub(crate) mod body;
mod cancel;
mod follow;
mod look;
mod stateless;
mod wait;

use protocol::{Run, RunId, RunRequest, ThreadId};
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::caller::Caller;
use crate::fault::Fault;
use crate::streams::about::{About, Subgraphs};

/// Returns the endpoints.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> OpenApiRouter<S> {
    OpenApiRouter::new()
        .routes(routes!(ask::background, look::list))
        .routes(routes!(ask::stream))
        .routes(routes!(ask::wait))
        .routes(routes!(look::get, look::delete))
        .routes(routes!(follow::rejoin))
        .routes(routes!(follow::join))
        .routes(routes!(follow::thread))
        .routes(routes!(cancel::one))
        .routes(routes!(cancel::many))
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
pub async fn row(caller: &Caller, thread_id: ThreadId, run_id: RunId) -> Result<Run, Fault> {
    let run = caller.agent.runs().get(run_id).await?;
    run.filter(|run| run.thread_id == thread_id).ok_or_else(|| unknown(run_id))
}

/// Returns the run with what was asked of it.
///
/// # Errors
/// When the thread has no such run, or is somebody else's.
pub(crate) async fn found(
    caller: &Caller,
    thread_id: ThreadId,
    run_id: RunId,
) -> Result<(Run, RunRequest), Fault> {
    let run = row(caller, thread_id, run_id).await?;
    let requests = caller.agent.runs().requests(&[run_id]).await?;
    let request = requests.into_iter().next().map(|(_, request)| request).unwrap_or_default();
    Ok((run, request))
}

/// The answer to a run that is not there.
fn unknown(run_id: RunId) -> Fault {
    Fault::not_found(format!("Run {run_id} not found"))
}

/// Returns what the events of the run say of where they come from.
pub(crate) fn about(run: &Run, request: &RunRequest) -> About {
    let name = run.assistant_id.name();
    let tags = request.config.get("tags").and_then(Value::as_array);
    let tags = tags.into_iter().flatten().filter_map(|tag| tag.as_str().map(str::to_owned));
    About {
        thread_id: run.thread_id,
        run_id: run.run_id,
        namespace: "".into(),
        call_id: None,
        held_in: run.thread_id,
        graph_id: name.to_owned(),
        assistant_id: run.assistant_id.wire_id().hyphenated().to_string(),
        metadata: request.metadata.clone(),
        tags: tags.collect(),
        subgraphs: if request.stream_subgraphs { Subgraphs::Told } else { Subgraphs::LeftOut },
    }
}
