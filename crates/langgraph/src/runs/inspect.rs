//! Looking at runs, and letting go of them.

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

/// Runs of a page unless the client says otherwise.
const DEFAULT_PAGE_RUNS: usize = 10;

/// Rows that may be skipped.
const OFFSET_MAX: usize = 1 << 32;

/// Lists the runs of a thread, newest first.
#[utoipa::path(
    get, path = "/threads/{thread_id}/runs", tag = "runs",
    params(
        ("thread_id" = Uuid, Path, description = "The thread."),
        ("limit" = Option<u32>, Query, description = "The most to return, 1 to 1000; 10 unless set."),
        ("offset" = Option<u32>, Query, description = "How many to skip."),
        ("status" = Option<String>, Query, description = "Only those at this status."),
        ("select" = Option<Vec<String>>, Query, description = "Only these fields."),
    ),
    responses(
        (status = 200, description = "The runs, whole or in part.", body = Vec<AnyObject>),
        (status = "4XX", description = "They cannot be listed.", body = ErrorBody),
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
        // One more tells whether others follow.
        limit: page.limit + 1,
        ..agent::RunFilter::default()
    };
    let mut runs = caller.agent.runs().list(filter).await?;
    let follow = runs.len() > page.limit;
    runs.truncate(page.limit);
    let select = page::check_select(params.all("select"), &RUN_FIELDS)?;
    let rows = to_wire_runs(&caller, runs).await?;
    let rows: Vec<Value> = rows.into_iter().map(|row| select_fields(row, &select)).collect();
    let until = page.offset + rows.len();
    let is_counted = !rows.is_empty() || page.offset == 0;
    let mut response = Json(rows).into_response();
    let headers = response.headers_mut();
    match follow {
        true => drop(headers.insert(HeaderName::from_static("x-pagination-next"), HeaderValue::from(until))),
        // The last page tells how many there are; to count those of every page would be to read them all.
        false if is_counted => drop(headers.insert(TOTAL_HEADER, HeaderValue::from(until))),
        false => {}
    }
    Ok(response)
}

/// Returns the runs as clients read them, in the same order.
pub(super) async fn to_wire_runs(caller: &Caller, runs: Vec<Run>) -> Result<Vec<WireRun>, ApiError> {
    let ids: Vec<_> = runs.iter().map(|run| run.run_id).collect();
    let mut requests = match ids.is_empty() {
        true => Vec::new(),
        false => caller.agent.runs().stored_requests(&ids).await?,
    };
    let mut request = |run: &Run| -> Option<RunRequest> {
        let at = requests.iter().position(|(run_id, _)| *run_id == run.run_id)?;
        Some(requests.swap_remove(at).1)
    };
    Ok(runs.iter().map(|run| WireRun::from_run(run, request(run))).collect())
}

fn select_fields(run: WireRun, fields: &[&str]) -> Value {
    match serde_json::to_value(run) {
        Ok(Value::Object(run)) if !fields.is_empty() => Value::Object(
            run.into_iter().filter(|(name, _)| fields.contains(&name.as_str())).collect::<Map<_, _>>(),
        ),
        Ok(run) => run,
        Err(_) => Value::Null,
    }
}

/// Returns the statuses that the wire's word stands for.
fn parse_statuses(word: &str) -> Result<Vec<RunStatus>, ApiError> {
    Ok(match word {
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
        (status = "4XX", description = "There is none.", body = ErrorBody),
    )
)]
pub(super) async fn get(caller: Caller, of: RunPath) -> Result<Json<WireRun>, ApiError> {
    let (run, request) = find_run_with_request(&caller, of.thread_id, of.run_id).await?;
    Ok(Json(WireRun::from_run(&run, Some(request))))
}

/// Forgets a run; one that works or waits is stopped first. What was said stays in the thread.
#[utoipa::path(
    delete, path = "/threads/{thread_id}/runs/{run_id}", tag = "runs",
    params(
        ("thread_id" = Uuid, Path, description = "The thread."),
        ("run_id" = Uuid, Path, description = "The run."),
    ),
    responses(
        (status = 204, description = "It is gone."),
        (status = "4XX", description = "There is none.", body = ErrorBody),
    )
)]
pub(super) async fn delete(caller: Caller, of: RunPath) -> Result<StatusCode, ApiError> {
    let run = find_run(&caller, of.thread_id, of.run_id).await?;
    if run.status.is_active() {
        let (thread_id, run_id) = (of.thread_id, of.run_id);
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
    caller.agent.runs().forget_run(of.run_id).await?;
    caller.server.scheduler.forget_stream(of.run_id);
    Ok(StatusCode::NO_CONTENT)
}
