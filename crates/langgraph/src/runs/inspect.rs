//! The endpoints that list, read and delete runs.

use axum::Json;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use protocol::{Run, RunRequest, RunStatus};
use scheduler::CancelAction;
use serde_json::{Map, Value};

use super::{find_run, find_run_with_request};
use crate::caller::Caller;
use crate::error::{ApiError, ErrorBody};
use crate::extract::{QueryParams, RunPath, ThreadPath};
use crate::resources;
use crate::resources::page::{self, PageRequest, ROWS_MAX, TOTAL_HEADER};
use crate::wire::AnyObject;
use crate::wire::run::{RUN_FIELDS, WireRun};

/// The default number of runs in a page.
const DEFAULT_PAGE_RUNS: usize = 10;

/// The maximum number of runs that a request may skip.
const OFFSET_MAX: usize = 1 << 32;

/// Lists the runs of a thread, newest first.
#[utoipa::path(
    get, path = "/threads/{thread_id}/runs", tag = "runs",
    params(
        ("thread_id" = Uuid, Path, description = "The thread."),
        ("limit" = Option<u32>, Query, description = "The maximum number of runs, 1 to 1000; 10 by default."),
        ("offset" = Option<u32>, Query, description = "The number of runs to skip; 0 by default."),
        ("status" = Option<String>, Query, description = "Only runs with this status."),
        ("select" = Option<Vec<String>>, Query, description = "The fields to return; all by default."),
    ),
    responses(
        (status = 200, description = "The runs, with all fields or with the selected ones.", body = Vec<AnyObject>),
        (status = "4XX", description = "The thread does not exist, or a parameter is invalid.", body = ErrorBody),
    )
)]
pub(super) async fn list(
    caller: Caller,
    ThreadPath(thread_id): ThreadPath,
    params: QueryParams,
) -> Result<Response, ApiError> {
    let (limit, offset) = (params.number("limit", 1..=ROWS_MAX)?, params.number("offset", 0..=OFFSET_MAX)?);
    let page = PageRequest::from_query(limit, offset, DEFAULT_PAGE_RUNS)?;
    let statuses = params.text("status").map(parse_statuses).transpose()?.unwrap_or_default();
    resources::find_thread(&caller, thread_id).await?;
    let filter = agent::RunFilter {
        thread_id: Some(thread_id),
        statuses,
        offset: page.offset,
        // One additional row shows whether another page follows.
        limit: page.limit + 1,
        ..agent::RunFilter::default()
    };
    let mut runs = caller.agent.runs().list(filter).await?;
    let has_more = runs.len() > page.limit;
    runs.truncate(page.limit);
    let select = page::check_select(params.all("select"), &RUN_FIELDS)?;
    let rows = to_wire_runs(&caller, runs).await?;
    let rows: Vec<Value> = rows.into_iter().map(|row| select_fields(row, &select)).collect();
    let page_end = page.offset + rows.len();
    // An empty page after the end of the list does not show how long the list is.
    let is_total_known = !rows.is_empty() || page.offset == 0;
    let mut response = Json(rows).into_response();
    let headers = response.headers_mut();
    match has_more {
        true => {
            drop(headers.insert(HeaderName::from_static("x-pagination-next"), HeaderValue::from(page_end)))
        }
        // Only the last page has the total: on any other page, the total would require reading all runs.
        false if is_total_known => drop(headers.insert(TOTAL_HEADER, HeaderValue::from(page_end))),
        false => {}
    }
    Ok(response)
}

/// Converts runs into the form that clients read, in the same order. Reads their stored requests with one query.
///
/// # Errors
/// If the journal fails.
pub(super) async fn to_wire_runs(caller: &Caller, runs: Vec<Run>) -> Result<Vec<WireRun>, ApiError> {
    let ids: Vec<_> = runs.iter().map(|run| run.run_id).collect();
    let mut requests = match ids.is_empty() {
        true => Vec::new(),
        false => caller.agent.runs().stored_requests(&ids).await?,
    };
    let mut take_request = |run: &Run| -> Option<RunRequest> {
        let index = requests.iter().position(|(run_id, _)| *run_id == run.run_id)?;
        Some(requests.swap_remove(index).1)
    };
    Ok(runs.iter().map(|run| WireRun::from_run(run, take_request(run))).collect())
}

/// Returns the run as JSON, reduced to the selected fields. Without a selection, all fields are kept.
fn select_fields(run: WireRun, fields: &[&str]) -> Value {
    match serde_json::to_value(run) {
        Ok(Value::Object(run)) if !fields.is_empty() => Value::Object(
            run.into_iter().filter(|(name, _)| fields.contains(&name.as_str())).collect::<Map<_, _>>(),
        ),
        Ok(run) => run,
        Err(_) => Value::Null,
    }
}

/// Returns the statuses of runs that clients see under the status `name`.
///
/// The two sets of names differ. On the wire, a run that stopped at an interrupt of the graph is `success`, and
/// `interrupted` means that a client cancelled the run.
///
/// # Errors
/// An invalid field if the name is unknown.
fn parse_statuses(name: &str) -> Result<Vec<RunStatus>, ApiError> {
    Ok(match name {
        "pending" => vec![RunStatus::Pending],
        "running" => vec![RunStatus::Running],
        "success" => vec![RunStatus::Success, RunStatus::Interrupted],
        "error" => vec![RunStatus::Error],
        "timeout" => vec![RunStatus::Timeout],
        "interrupted" => vec![RunStatus::Cancelled],
        _ => {
            let known = "pending, running, success, error, timeout, interrupted";
            return Err(ApiError::invalid(format!("`status` must be one of {known}")));
        }
    })
}

/// Returns a run.
#[utoipa::path(
    get, path = "/threads/{thread_id}/runs/{run_id}", tag = "runs",
    params(
        ("thread_id" = Uuid, Path, description = "The thread."),
        ("run_id" = Uuid, Path, description = "The run."),
    ),
    responses(
        (status = 200, description = "The run.", body = WireRun),
        (status = "4XX", description = "The run does not exist.", body = ErrorBody),
    )
)]
pub(super) async fn get(caller: Caller, path: RunPath) -> Result<Json<WireRun>, ApiError> {
    let (run, request) = find_run_with_request(&caller, path.thread_id, path.run_id).await?;
    Ok(Json(WireRun::from_run(&run, Some(request))))
}

/// Deletes a run. An active or queued run is stopped first.
///
/// Only the run itself is deleted; its messages stay in the thread.
#[utoipa::path(
    delete, path = "/threads/{thread_id}/runs/{run_id}", tag = "runs",
    params(
        ("thread_id" = Uuid, Path, description = "The thread."),
        ("run_id" = Uuid, Path, description = "The run."),
    ),
    responses(
        (status = 204, description = "The run is deleted."),
        (status = "4XX", description = "The run does not exist.", body = ErrorBody),
    )
)]
pub(super) async fn delete(caller: Caller, path: RunPath) -> Result<StatusCode, ApiError> {
    let RunPath { thread_id, run_id } = path;
    let run = find_run(&caller, thread_id, run_id).await?;
    if run.status.is_active() {
        let stopped = caller
            .server
            .scheduler
            .cancel_run(&caller.scope, thread_id, run_id, CancelAction::Interrupt)
            .await;
        match stopped {
            Ok(()) | Err(scheduler::Error::Ended { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    caller.agent.runs().forget_run(run_id).await?;
    caller.server.scheduler.forget_stream(run_id);
    Ok(StatusCode::NO_CONTENT)
}
