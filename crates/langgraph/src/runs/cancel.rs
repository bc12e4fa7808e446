//! Stopping runs. How a run is stopped, wherever it works, is dispatch's business.

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

/// Runs that one request may stop.
const RUNS_MAX: usize = 1_000;

/// Stops a run. It may be asked for again as long as the run has not stopped.
#[utoipa::path(
    post, path = "/threads/{thread_id}/runs/{run_id}/cancel", tag = "runs",
    params(
        ("thread_id" = Uuid, Path, description = "The thread."),
        ("run_id" = Uuid, Path, description = "The run."),
        ("wait" = Option<bool>, Query, description = "Whether the answer comes when it has stopped."),
        ("action" = Option<String>, Query, description = "`interrupt` keeps what it did, `rollback` takes it back."),
    ),
    responses(
        (status = 200, description = "It has stopped.", body = serde_json::Value),
        (status = 202, description = "It is being stopped."),
        (status = 409, description = "It has ended.", body = ErrorBody),
        (status = "4XX", description = "There is none.", body = ErrorBody),
    )
)]
pub(super) async fn cancel_run(
    caller: Caller,
    of: RunPath,
    params: QueryParams,
) -> Result<Response, ApiError> {
    let action = parse_action(&params)?;
    let waits = params.flag("wait")?.unwrap_or(false);
    let run = find_run(&caller, of.thread_id, of.run_id).await?;
    if !run.status.is_active() {
        return Err(scheduler::Error::Ended { run_id: run.run_id, status: run.status }.into());
    }
    if waits {
        cancel_and_wait(&caller, &run, action).await?;
        return Ok(Json(json!({})).into_response());
    }
    caller.server.scheduler.stop_run(&caller.scope, &run, action).await?;
    Ok(StatusCode::ACCEPTED.into_response())
}

/// Which runs to stop.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default)]
pub(super) struct CancelBody {
    /// The thread of those named.
    #[schema(value_type = Option<String>)]
    thread_id: Option<ThreadId>,
    /// These.
    run_ids: Option<Vec<String>>,
    /// Or all that are `pending`, `running`, or either: `all`.
    status: Option<String>,
}

/// Stops several runs.
#[utoipa::path(
    post, path = "/runs/cancel", tag = "runs", request_body = CancelBody,
    params(("action" = Option<String>, Query, description = "`interrupt` keeps what they did, `rollback` takes it back.")),
    responses(
        (status = 204, description = "They are being stopped."),
        (status = "4XX", description = "There are none.", body = ErrorBody),
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

async fn find_active_runs(
    caller: &Caller,
    thread_id: Option<ThreadId>,
    run_ids: &[String],
) -> Result<Vec<Run>, ApiError> {
    let thread_id = thread_id.ok_or_else(|| ApiError::invalid("`thread_id`: missing beside `run_ids`"))?;
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

fn parse_action(params: &QueryParams) -> Result<CancelAction, ApiError> {
    match params.text("action") {
        None | Some("interrupt") => Ok(CancelAction::Interrupt),
        Some("rollback") => Ok(CancelAction::Rollback),
        Some(_) => Err(ApiError::invalid("`action` must be one of interrupt, rollback")),
    }
}

/// Returns when the run has stopped. One that came to its end by itself meanwhile has stopped too.
async fn cancel_and_wait(caller: &Caller, run: &Run, action: CancelAction) -> Result<(), ApiError> {
    match caller.server.scheduler.cancel_run(&caller.scope, run.thread_id, run.run_id, action).await {
        Ok(()) => Ok(()),
        Err(scheduler::Error::Ended { .. }) if action == CancelAction::Interrupt => Ok(()),
        Err(error) => Err(error.into()),
    }
}
