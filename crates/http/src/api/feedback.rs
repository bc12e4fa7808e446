//! Feedback on runs: one rating and comment for each run and user. Requests are idempotent: sending the same rating
//! again does not remove it, because removing it is a separate request.

use axum::Json;
use langgraph::extract::{JsonBody, RunPath};
use langgraph::{ApiError, Caller, ErrorBody};
use protocol::{Rating, RunFeedback, RunId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A rating of a run.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct FeedbackRequestBody {
    /// 1 for thumbs up, -1 for thumbs down.
    #[schema(value_type = i8)]
    rating: Rating,
    /// A comment, up to 2,000 characters. Without it, an earlier comment with the same rating is kept.
    comment: Option<String>,
}

/// The caller's feedback on a run.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FeedbackBody {
    /// The run.
    #[schema(value_type = String, format = Uuid)]
    run_id: RunId,
    /// `rating`, `comment`, `created_at` and `updated_at`; `null` without feedback.
    #[schema(value_type = Option<Object>)]
    feedback: Option<RunFeedback>,
}

/// Returns the caller's feedback on a run
#[utoipa::path(get, path = "/api/threads/{thread_id}/runs/{run_id}/feedback", tag = "segue",
    operation_id = "get_feedback", params(("thread_id" = String, Path, format = Uuid), ("run_id" = String, Path, format = Uuid)), 
    responses((status = 200, body = FeedbackBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn get(
    caller: Caller,
    RunPath { thread_id, run_id }: RunPath,
) -> Result<Json<FeedbackBody>, ApiError> {
    langgraph::find_run(&caller, thread_id, run_id).await?;
    let feedback = caller.agent.threads().feedback(thread_id, run_id).await?;
    Ok(Json(FeedbackBody { run_id, feedback }))
}

/// Stores the caller's feedback on a run
#[utoipa::path(put, path = "/api/threads/{thread_id}/runs/{run_id}/feedback", tag = "segue",
    operation_id = "put_feedback", params(("thread_id" = String, Path, format = Uuid), ("run_id" = String, Path, format = Uuid)), request_body = FeedbackRequestBody,
    responses((status = 200, body = FeedbackBody), (status = 404, body = ErrorBody),
        (status = 422, body = ErrorBody, description = "The rating is invalid, or the comment is too long")))]
pub(crate) async fn put(
    caller: Caller,
    RunPath { thread_id, run_id }: RunPath,
    JsonBody(body): JsonBody<FeedbackRequestBody>,
) -> Result<Json<FeedbackBody>, ApiError> {
    langgraph::find_run(&caller, thread_id, run_id).await?;
    let feedback = caller.agent.runs().set_feedback(run_id, Some(body.rating), body.comment).await?;
    Ok(Json(FeedbackBody { run_id, feedback }))
}

/// Removes the caller's feedback on a run
#[utoipa::path(delete, path = "/api/threads/{thread_id}/runs/{run_id}/feedback", tag = "segue",
    operation_id = "delete_feedback", params(("thread_id" = String, Path, format = Uuid), ("run_id" = String, Path, format = Uuid)), 
    responses((status = 200, body = FeedbackBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn delete(
    caller: Caller,
    RunPath { thread_id, run_id }: RunPath,
) -> Result<Json<FeedbackBody>, ApiError> {
    langgraph::find_run(&caller, thread_id, run_id).await?;
    let feedback = caller.agent.runs().set_feedback(run_id, None, None).await?;
    Ok(Json(FeedbackBody { run_id, feedback }))
}
