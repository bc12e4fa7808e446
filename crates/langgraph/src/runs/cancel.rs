//! The endpoints that cancel runs. The scheduler stops a run even if another process drives or queues it.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use protocol::{Run, RunStatus, ThreadId};
use scheduler::CancelAction;
use serde::Deserialize;
use serde_json::json;
use utoipa::ToSchema;

use super::find_run;
use crate::caller::Caller;
use crate::error::{ApiError, ErrorBody};
use crate::extract::{JsonBody, QueryParams, RunPath, parse_id};

/// The maximum number of runs that one request may cancel.
const RUNS_MAX: usize = 1_000;

/// Cancels a run. The request may be repeated until the run has stopped.
///
/// Without `wait`, the response is sent when the stop request is stored, and the run stops in the background.
#[utoipa::path(
    post, path = "/threads/{thread_id}/runs/{run_id}/cancel", tag = "runs",
    params(
        ("thread_id" = Uuid, Path, description = "The thread."),
        ("run_id" = Uuid, Path, description = "The run."),
        ("wait" = Option<bool>, Query, description = "True to respond when the run has stopped."),
        ("action" = Option<String>, Query, description = "`interrupt` (the default) keeps the events of the run; `rollback` also removes its effects from the thread."),
    ),
    responses(
        (status = 200, description = "The run has stopped.", body = serde_json::Value),
        (status = 202, description = "The run is being stopped."),
        (status = 409, description = "The run had ended before.", body = ErrorBody),
        (status = "4XX", description = "The run does not exist, or a parameter is invalid.", body = ErrorBody),
    )
)]
pub(super) async fn cancel_run(
    caller: Caller,
    path: RunPath,
    params: QueryParams,
) -> Result<Response, ApiError> {
    let action = parse_action(&params)?;
    let wait = params.flag("wait")?.unwrap_or(false);
    let run = find_run(&caller, path.thread_id, path.run_id).await?;
    if !run.status.is_active() {
        return Err(scheduler::Error::Ended { run_id: run.run_id, status: run.status }.into());
    }
    if wait {
        cancel_and_wait(&caller, &run, action).await?;
        return Ok(Json(json!({})).into_response());
    }
    caller.server.scheduler.stop_run(&caller.scope, &run, action).await?;
    Ok(StatusCode::ACCEPTED.into_response())
}

/// The runs to cancel: either `run_ids` with their `thread_id`, or all runs with a `status`.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default)]
pub(super) struct CancelBody {
    /// The thread of the runs. Required with `run_ids`; optional with `status`.
    #[schema(value_type = Option<String>)]
    thread_id: Option<ThreadId>,
    /// The ids of the runs, at most 1,000. Runs that have ended are ignored.
    run_ids: Option<Vec<String>>,
    /// The status of the runs: `pending`, `running`, or `all` for both.
    status: Option<String>,
}

/// Cancels several runs. The response is sent when all stop requests are stored; the runs stop in the background.
#[utoipa::path(
    post, path = "/runs/cancel", tag = "runs", request_body = CancelBody,
    params(("action" = Option<String>, Query, description = "`interrupt` (the default) keeps the events of the runs; `rollback` also removes their effects from the thread.")),
    responses(
        (status = 204, description = "The runs are being stopped."),
        (status = "4XX", description = "No active or queued run matches, or a field is invalid.", body = ErrorBody),
    )
)]
pub(super) async fn cancel_runs(
    caller: Caller,
    params: QueryParams,
    JsonBody(body): JsonBody<CancelBody>,
) -> Result<StatusCode, ApiError> {
    let action = parse_action(&params)?;
    let runs = match (&body.run_ids, &body.status) {
        (Some(run_ids), None) => find_active_runs(&caller, body.thread_id, run_ids).await?,
        (None, Some(status)) => list_runs_with_status(&caller, body.thread_id, status).await?,
        (Some(_), Some(_)) => return Err(ApiError::invalid("give `run_ids` or `status`, not both")),
        (None, None) => {
            return Err(ApiError::invalid("`run_ids`: missing; give it with `thread_id`, or `status`"));
        }
    };
    if runs.is_empty() {
        return Err(ApiError::not_found("No matching runs to cancel"));
    }
    for run in runs {
        caller.server.scheduler.stop_run(&caller.scope, &run, action).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Returns the active and queued runs among `run_ids`.
///
/// # Errors
/// If `thread_id` is missing, if there are too many ids, or if the thread does not have one of the runs.
async fn find_active_runs(
    caller: &Caller,
    thread_id: Option<ThreadId>,
    run_ids: &[String],
) -> Result<Vec<Run>, ApiError> {
    let thread_id =
        thread_id.ok_or_else(|| ApiError::invalid("`thread_id`: missing; `run_ids` requires it"))?;
    if run_ids.len() > RUNS_MAX {
        return Err(ApiError::invalid(format!("`run_ids`: at most {RUNS_MAX} entries")));
    }
    let mut runs = Vec::with_capacity(run_ids.len());
    for run_id in run_ids {
        let run = find_run(caller, thread_id, parse_id(run_id, "run")?).await?;
        if run.status.is_active() {
            runs.push(run);
        }
    }
    Ok(runs)
}

/// Returns at most [`RUNS_MAX`] of the caller's active and queued runs with that status, on one thread or on all.
///
/// # Errors
/// If the status is unknown, or if the journal fails.
async fn list_runs_with_status(
    caller: &Caller,
    thread_id: Option<ThreadId>,
    status: &str,
) -> Result<Vec<Run>, ApiError> {
    let statuses = match status {
        "pending" => vec![RunStatus::Pending],
        "running" => vec![RunStatus::Running],
        "all" => vec![RunStatus::Pending, RunStatus::Running],
        _ => return Err(ApiError::invalid("`status` must be one of pending, running, all")),
    };
    let filter = agent::RunFilter { thread_id, statuses, limit: RUNS_MAX, ..agent::RunFilter::default() };
    Ok(caller.agent.runs().list(filter).await?)
}

/// Parses the query parameter `action`.
///
/// # Errors
/// Status 422 if the value is unknown.
fn parse_action(params: &QueryParams) -> Result<CancelAction, ApiError> {
    match params.text("action") {
        None | Some("interrupt") => Ok(CancelAction::Interrupt),
        Some("rollback") => Ok(CancelAction::Rollback),
        Some(_) => Err(ApiError::invalid("`action` must be one of interrupt, rollback")),
    }
}

/// Cancels a run and waits until it has stopped. A run that ends on its own in the meantime counts as stopped, but it
/// cannot be rolled back.
async fn cancel_and_wait(caller: &Caller, run: &Run, action: CancelAction) -> Result<(), ApiError> {
    match caller.server.scheduler.cancel_run(&caller.scope, run.thread_id, run.run_id, action).await {
        Ok(()) => Ok(()),
        Err(scheduler::Error::Ended { .. }) if action == CancelAction::Interrupt => Ok(()),
        Err(error) => Err(error.into()),
    }
}
