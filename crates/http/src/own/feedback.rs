//! What a person thinks of a run: a thumb and a comment, one per run and person. Giving the same thumb twice is the same as
//! once; taking it back is a request of its own.

use axum::Json;
use langgraph::extract::{Body, OfRun};
use langgraph::{Caller, Envelope, Fault};
use protocol::{Rating, RunFeedback, RunId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A thumb.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct GivenFeedback {
    /// 1 for up, -1 for down.
    #[schema(value_type = i8)]
    rating: Rating,
    /// What there is to say about it, up to 2,000 characters. Without one, an earlier comment under the same thumb stays.
    comment: Option<String>,
}

/// What the caller thinks of a run.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FeedbackBody {
    /// The run.
    #[schema(value_type = String, format = Uuid)]
    run_id: RunId,
    /// `null` where nothing was said; otherwise `rating`, `comment`, `created_at` and `updated_at`.
    #[schema(value_type = Option<Object>)]
    feedback: Option<RunFeedback>,
}

/// Returns what the caller thinks of a run
#[utoipa::path(get, path = "/api/threads/{thread_id}/runs/{run_id}/feedback", tag = "segue",
    operation_id = "get_feedback", params(("thread_id" = String, Path, format = Uuid), ("run_id" = String, Path, format = Uuid)), 
    responses((status = 200, body = FeedbackBody), (status = 404, body = Envelope)))]
pub(crate) async fn get(
    caller: Caller,
    OfRun { thread_id, run_id }: OfRun,
) -> Result<Json<FeedbackBody>, Fault> {
    langgraph::run(&caller, thread_id, run_id).await?;
    let feedback = caller.agent.threads().feedback(thread_id, run_id).await?;
    Ok(Json(FeedbackBody { run_id, feedback }))
}

/// Remembers what the caller thinks of a run
#[utoipa::path(put, path = "/api/threads/{thread_id}/runs/{run_id}/feedback", tag = "segue",
    operation_id = "put_feedback", params(("thread_id" = String, Path, format = Uuid), ("run_id" = String, Path, format = Uuid)), request_body = GivenFeedback,
    responses((status = 200, body = FeedbackBody), (status = 404, body = Envelope),
        (status = 422, body = Envelope, description = "No such rating, or the comment is too long")))]
pub(crate) async fn put(
    caller: Caller,
    OfRun { thread_id, run_id }: OfRun,
    Body(given): Body<GivenFeedback>,
) -> Result<Json<FeedbackBody>, Fault> {
    langgraph::run(&caller, thread_id, run_id).await?;
    let feedback = caller.agent.runs().set_feedback(run_id, Some(given.rating), given.comment).await?;
    Ok(Json(FeedbackBody { run_id, feedback }))
}

/// Forgets what the caller thinks of a run
#[utoipa::path(delete, path = "/api/threads/{thread_id}/runs/{run_id}/feedback", tag = "segue",
    operation_id = "delete_feedback", params(("thread_id" = String, Path, format = Uuid), ("run_id" = String, Path, format = Uuid)), 
    responses((status = 200, body = FeedbackBody), (status = 404, body = Envelope)))]
pub(crate) async fn delete(
    caller: Caller,
    OfRun { thread_id, run_id }: OfRun,
) -> Result<Json<FeedbackBody>, Fault> {
    langgraph::run(&caller, thread_id, run_id).await?;
    let feedback = caller.agent.runs().set_feedback(run_id, None, None).await?;
    Ok(Json(FeedbackBody { run_id, feedback }))
}
