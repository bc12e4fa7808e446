//! Following a run, or the runs of a thread, by a client that did not ask for them or comes back to them.

use axum::http::{HeaderMap, header};
use axum::response::Response;
use protocol::{Run, RunRequest};

use super::create::{insert_header, run_path};
use super::wait::RunWaiter;
use super::{find_run, find_run_with_request, run_origin};
use crate::caller::Caller;
use crate::error::{ApiError, ErrorBody};
use crate::extract::{QueryParams, RunPath, ThreadPath};
use crate::modes::cursor::Cursor;
use crate::modes::follow::{DisconnectAction, RejoinOptions, RunModeStream, StreamView};
use crate::modes::mode::StreamModes;
use crate::modes::thread_stream::{ThreadModeStream, ThreadStreamKind, ThreadStreamStart};
use crate::modes::writer::EventIds;
use crate::resources;
use crate::sse;
use crate::streams::follow::ChunkStream;

/// Follows a run: behind `Last-Event-ID`, from the beginning for `-1`, and from now on without one.
#[utoipa::path(
    get, path = "/threads/{thread_id}/runs/{run_id}/stream", tag = "runs",
    params(
        ("thread_id" = Uuid, Path, description = "The thread."),
        ("run_id" = Uuid, Path, description = "The run."),
        ("Last-Event-ID" = Option<String>, Header, description = "The last event the client has had; `-1` is none."),
        ("stream_mode" = Option<Vec<String>>, Query, description = "What to show; what the run was asked to stream unless set."),
        ("cancel_on_disconnect" = Option<bool>, Query, description = "Whether the run is stopped when this client goes away."),
    ),
    responses(
        (status = 200, description = "Its events.", content_type = "text/event-stream", body = String),
        (status = "4XX", description = "There is none.", body = ErrorBody),
    )
)]
pub(super) async fn rejoin(
    caller: Caller,
    of: RunPath,
    params: QueryParams,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let (run, request) = find_run_with_request(&caller, of.thread_id, of.run_id).await?;
    rejoin_response(caller, run, request, &params, &headers).await
}

/// Returns the answer that follows a run that is there already.
pub(super) async fn rejoin_response(
    caller: Caller,
    run: Run,
    request: RunRequest,
    params: &QueryParams,
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    let cursor = read_cursor(headers)?;
    let mut wanted: Vec<&str> = params.all("stream_mode").flat_map(|modes| modes.split(',')).collect();
    if wanted.is_empty() {
        wanted.extend(request.stream_mode.iter().map(String::as_str));
    }
    let modes = StreamModes::from_names(wanted).map_err(|error| ApiError::invalid(error.to_string()))?;
    let leaving = match params.flag("cancel_on_disconnect")? {
        Some(true) => DisconnectAction::Cancel,
        Some(false) | None => DisconnectAction::Continue,
    };
    let ids = if request.stream_resumable { EventIds::Sent } else { EventIds::Omitted };
    // A run that was not to be kept has nothing a cursor could name.
    let cursor = match cursor.filter(|_| request.stream_resumable) {
        Some(after @ Cursor::After(_)) => {
            Some(after.clamp_to_thread(resources::find_thread(&caller, run.thread_id).await?.last_seq))
        }
        cursor => cursor,
    };
    let options =
        RejoinOptions { view: StreamView { modes, event_ids: ids }, cursor, on_disconnect: leaving };
    let follow = RunModeStream::rejoin(caller, run_origin(&run, &request), &run, options).await?;
    let mut response = sse::event_stream_response(follow.chunks());
    let place = run_path(run.thread_id, run.run_id);
    insert_header(&mut response, header::CONTENT_LOCATION, &place);
    insert_header(&mut response, header::LOCATION, &format!("{place}/stream"));
    Ok(response)
}

/// Reads where a client wants to go on.
pub(super) fn read_cursor(headers: &HeaderMap) -> Result<Option<Cursor>, ApiError> {
    let Some(given) = headers.get("last-event-id") else { return Ok(None) };
    let cursor = given.to_str().ok().and_then(Cursor::parse);
    cursor.map(Some).ok_or_else(|| ApiError::invalid("`Last-Event-ID`: not an id of an event"))
}

/// Waits for a run, and answers with what came of it.
#[utoipa::path(
    get, path = "/threads/{thread_id}/runs/{run_id}/join", tag = "runs",
    params(
        ("thread_id" = Uuid, Path, description = "The thread."),
        ("run_id" = Uuid, Path, description = "The run."),
    ),
    responses(
        (status = 200, description = "The state at its end; `__interrupt__` with it when it asks, `__error__` alone when it failed.", body = serde_json::Value),
        (status = "4XX", description = "There is none.", body = ErrorBody),
    )
)]
pub(super) async fn join(caller: Caller, of: RunPath) -> Result<Response, ApiError> {
    let run = find_run(&caller, of.thread_id, of.run_id).await?;
    let place = run_path(run.thread_id, run.run_id);
    let mut response = RunWaiter::for_run(caller, run).await?.response();
    insert_header(&mut response, header::CONTENT_LOCATION, &place);
    insert_header(&mut response, header::LOCATION, &format!("{place}/join"));
    Ok(response)
}

/// Follows a thread over its runs, for as long as the client stays.
#[utoipa::path(
    get, path = "/threads/{thread_id}/stream", tag = "runs",
    params(
        ("thread_id" = Uuid, Path, description = "The thread."),
        ("Last-Event-ID" = Option<String>, Header, description = "The last event the client has had; `-` is none, and shows what is kept."),
        ("stream_modes" = Option<Vec<String>>, Query, description = "`run_modes`, or `lifecycle` for beginnings and ends alone."),
    ),
    responses(
        (status = 200, description = "The events of its runs.", content_type = "text/event-stream", body = String),
        (status = "4XX", description = "There is none.", body = ErrorBody),
    )
)]
pub(super) async fn stream_thread(
    caller: Caller,
    ThreadPath(thread_id): ThreadPath,
    params: QueryParams,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let told = read_stream_kind(&params)?;
    let cursor = read_cursor(&headers)?;
    let begin =
        ThreadStreamStart::from_cursor(cursor, resources::find_thread(&caller, thread_id).await?.last_seq);
    let live = caller.server.scheduler.thread_reader(&caller.scope, thread_id);
    let live = if cursor.is_none() { live.skip_ended() } else { live };
    Ok(sse::event_stream_response(ThreadModeStream::new(caller, thread_id, live, told, begin).chunks()))
}

fn read_stream_kind(params: &QueryParams) -> Result<ThreadStreamKind, ApiError> {
    let mut modes =
        params.all("stream_modes").chain(params.all("stream_mode")).flat_map(|modes| modes.split(','));
    let mut told = None;
    modes.try_for_each(|mode| match mode {
        "lifecycle" => {
            told.get_or_insert(ThreadStreamKind::Lifecycle);
            Ok(())
        }
        "run_modes" | "state_update" => {
            told = Some(ThreadStreamKind::RunModes);
            Ok(())
        }
        _ => Err(ApiError::invalid("`stream_modes` must be one of run_modes, lifecycle, state_update")),
    })?;
    Ok(told.unwrap_or(ThreadStreamKind::RunModes))
}
