//! The endpoints that join a run after its creation: its stream, its result, or the stream of all runs of a thread.
//! They serve clients that reconnect, and clients that did not create the run.

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

/// Joins the stream of a run.
///
/// With `Last-Event-ID`, the stream continues after that event; with `-1` it starts at the beginning of the run.
/// Without the header, only new events are sent.
#[utoipa::path(
    get, path = "/threads/{thread_id}/runs/{run_id}/stream", tag = "runs",
    params(
        ("thread_id" = Uuid, Path, description = "The thread."),
        ("run_id" = Uuid, Path, description = "The run."),
        ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that the client has received; `-1` requests all events."),
        ("stream_mode" = Option<Vec<String>>, Query, description = "The stream modes; by default those of the request that created the run."),
        ("cancel_on_disconnect" = Option<bool>, Query, description = "True to cancel the run when this client disconnects."),
    ),
    responses(
        (status = 200, description = "The events of the run.", content_type = "text/event-stream", body = String),
        (status = "4XX", description = "The run does not exist, or a parameter is invalid.", body = ErrorBody),
    )
)]
pub(super) async fn rejoin(
    caller: Caller,
    path: RunPath,
    params: QueryParams,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let (run, request) = find_run_with_request(&caller, path.thread_id, path.run_id).await?;
    rejoin_response(caller, run, request, &params, &headers).await
}

/// Returns the response that joins the stream of an existing run.
///
/// # Errors
/// An invalid field if the cursor or a parameter is malformed; an internal error if the journal fails.
pub(super) async fn rejoin_response(
    caller: Caller,
    run: Run,
    request: RunRequest,
    params: &QueryParams,
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    let cursor = read_cursor(headers)?;
    let mut names: Vec<&str> = params.all("stream_mode").flat_map(|modes| modes.split(',')).collect();
    if names.is_empty() {
        names.extend(request.stream_mode.iter().map(String::as_str));
    }
    let modes = StreamModes::from_names(names).map_err(|error| ApiError::invalid(error.to_string()))?;
    let on_disconnect = match params.flag("cancel_on_disconnect")? {
        Some(true) => DisconnectAction::Cancel,
        Some(false) | None => DisconnectAction::Continue,
    };
    let event_ids = if request.stream_resumable { EventIds::Sent } else { EventIds::Omitted };
    // The stream of a run that is not resumable has no event ids, so a cursor cannot refer to one of its events.
    let cursor = match cursor.filter(|_| request.stream_resumable) {
        Some(after @ Cursor::After(_)) => {
            Some(after.clamp_to_thread(resources::find_thread(&caller, run.thread_id).await?.last_seq))
        }
        cursor => cursor,
    };
    let options = RejoinOptions { view: StreamView { modes, event_ids }, cursor, on_disconnect };
    let stream = RunModeStream::rejoin(caller, run_origin(&run, &request), &run, options).await?;
    let mut response = sse::event_stream_response(stream.chunks());
    let path = run_path(run.thread_id, run.run_id);
    insert_header(&mut response, header::CONTENT_LOCATION, &path);
    insert_header(&mut response, header::LOCATION, &format!("{path}/stream"));
    Ok(response)
}

/// Parses the header `Last-Event-ID`: the position from which a client continues a stream. Returns `None` without the
/// header.
///
/// # Errors
/// An invalid field if the header is not an event id.
pub(super) fn read_cursor(headers: &HeaderMap) -> Result<Option<Cursor>, ApiError> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    let cursor = value.to_str().ok().and_then(Cursor::parse);
    cursor.map(Some).ok_or_else(|| ApiError::invalid("`Last-Event-ID`: not an event id"))
}

/// Waits until a run ends, and returns the thread's state. If the run has ended, the response comes at once.
#[utoipa::path(
    get, path = "/threads/{thread_id}/runs/{run_id}/join", tag = "runs",
    params(
        ("thread_id" = Uuid, Path, description = "The thread."),
        ("run_id" = Uuid, Path, description = "The run."),
    ),
    responses(
        (status = 200, description = "The state at the end of the run; with `__interrupt__` if the run was interrupted. Only `__error__` if it failed.", body = serde_json::Value),
        (status = "4XX", description = "The run does not exist, or a parameter is invalid.", body = ErrorBody),
    )
)]
pub(super) async fn join(caller: Caller, path: RunPath) -> Result<Response, ApiError> {
    let run = find_run(&caller, path.thread_id, path.run_id).await?;
    let path = run_path(run.thread_id, run.run_id);
    let mut response = RunWaiter::for_run(caller, run).await?.response();
    insert_header(&mut response, header::CONTENT_LOCATION, &path);
    insert_header(&mut response, header::LOCATION, &format!("{path}/join"));
    Ok(response)
}

/// Streams the runs of a thread, one after another, until the client disconnects or the server shuts down.
#[utoipa::path(
    get, path = "/threads/{thread_id}/stream", tag = "runs",
    params(
        ("thread_id" = Uuid, Path, description = "The thread."),
        ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that the client has received; `-` requests all events that are kept."),
        ("stream_modes" = Option<Vec<String>>, Query, description = "`run_modes` (the default) for all events, or `lifecycle` for the start and the end of each run."),
    ),
    responses(
        (status = 200, description = "The events of the runs.", content_type = "text/event-stream", body = String),
        (status = "4XX", description = "The thread does not exist, or a parameter is invalid.", body = ErrorBody),
    )
)]
pub(super) async fn stream_thread(
    caller: Caller,
    ThreadPath(thread_id): ThreadPath,
    params: QueryParams,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let kind = read_stream_kind(&params)?;
    let cursor = read_cursor(&headers)?;
    let start =
        ThreadStreamStart::from_cursor(cursor, resources::find_thread(&caller, thread_id).await?.last_seq);
    let reader = caller.server.scheduler.thread_reader(&caller.scope, thread_id);
    let reader = if cursor.is_none() { reader.skip_ended() } else { reader };
    Ok(sse::event_stream_response(ThreadModeStream::new(caller, thread_id, reader, kind, start).chunks()))
}

/// Parses the query parameters `stream_modes` and `stream_mode` of a thread's stream. `run_modes` takes precedence over
/// `lifecycle`, because it includes the same events. `state_update` is accepted as another name of `run_modes`.
///
/// # Errors
/// An invalid field if a mode is unknown.
fn read_stream_kind(params: &QueryParams) -> Result<ThreadStreamKind, ApiError> {
    let mut modes =
        params.all("stream_modes").chain(params.all("stream_mode")).flat_map(|modes| modes.split(','));
    let mut kind = None;
    modes.try_for_each(|mode| match mode {
        "lifecycle" => {
            kind.get_or_insert(ThreadStreamKind::Lifecycle);
            Ok(())
        }
        "run_modes" | "state_update" => {
            kind = Some(ThreadStreamKind::RunModes);
            Ok(())
        }
        _ => Err(ApiError::invalid("`stream_modes` must be one of run_modes, lifecycle, state_update")),
    })?;
    Ok(kind.unwrap_or(ThreadStreamKind::RunModes))
}
