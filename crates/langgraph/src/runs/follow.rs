//! Following a run, or the runs of a thread, by a client that did not ask for them or comes back to them.

use axum::http::{HeaderMap, header};
use axum::response::Response;
use protocol::{Run, RunRequest};

use super::ask::{place_of, put};
use super::wait::Wait;
use super::{about, found, row};
use crate::caller::Caller;
use crate::extract::{InThread, OfRun, Params};
use crate::fault::{Envelope, Fault};
use crate::modes::cursor::Cursor;
use crate::modes::follow::{Follow, Leaving, RejoinOptions, View};
use crate::modes::mode::Modes;
use crate::modes::out::Ids;
use crate::modes::thread::{Begin, FollowThread, Told};
use crate::resources;
use crate::sse;
use crate::streams::follow::Follower;

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
        (status = "4XX", description = "There is none.", body = Envelope),
    )
)]
pub(super) async fn rejoin(
    caller: Caller,
    of: OfRun,
    params: Params,
    headers: HeaderMap,
) -> Result<Response, Fault> {
    let (run, request) = found(&caller, of.thread_id, of.run_id).await?;
    rejoined(caller, run, request, &params, &headers).await
}

/// Returns the answer that follows a run that is there already.
pub(super) async fn rejoined(
    caller: Caller,
    run: Run,
    request: RunRequest,
    params: &Params,
    headers: &HeaderMap,
) -> Result<Response, Fault> {
    let cursor = cursor(headers)?;
    let mut wanted: Vec<&str> = params.all("stream_mode").flat_map(|modes| modes.split(',')).collect();
    if wanted.is_empty() {
        wanted.extend(request.stream_mode.iter().map(String::as_str));
    }
    let modes = Modes::named(wanted).map_err(|error| Fault::invalid(error.to_string()))?;
    let leaving = match params.flag("cancel_on_disconnect")? {
        Some(true) => Leaving::Stops,
        Some(false) | None => Leaving::GoesOn,
    };
    let ids = if request.stream_resumable { Ids::Sent } else { Ids::LeftOut };
    // A run that was not to be kept has nothing a cursor could name.
    let cursor = match cursor.filter(|_| request.stream_resumable) {
        Some(after @ Cursor::After(_)) => {
            Some(after.within(resources::thread(&caller, run.thread_id).await?.last_seq))
        }
        cursor => cursor,
    };
    let options = RejoinOptions { view: View { modes, ids }, cursor, leaving };
    let follow = Follow::rejoin(caller, about(&run, &request), &run, options).await?;
    let mut response = sse::response(follow.chunks());
    let place = place_of(run.thread_id, run.run_id);
    put(&mut response, header::CONTENT_LOCATION, &place);
    put(&mut response, header::LOCATION, &format!("{place}/stream"));
    Ok(response)
}

/// Reads where a client wants to go on.
pub(super) fn cursor(headers: &HeaderMap) -> Result<Option<Cursor>, Fault> {
    let Some(given) = headers.get("last-event-id") else { return Ok(None) };
    let cursor = given.to_str().ok().and_then(Cursor::parse);
    cursor.map(Some).ok_or_else(|| Fault::invalid("`Last-Event-ID`: not an id of an event"))
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
        (status = "4XX", description = "There is none.", body = Envelope),
    )
)]
pub(super) async fn join(caller: Caller, of: OfRun) -> Result<Response, Fault> {
    let run = row(&caller, of.thread_id, of.run_id).await?;
    let place = place_of(run.thread_id, run.run_id);
    let mut response = Wait::for_run(caller, run).await?.response();
    put(&mut response, header::CONTENT_LOCATION, &place);
    put(&mut response, header::LOCATION, &format!("{place}/join"));
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
        (status = "4XX", description = "There is none.", body = Envelope),
    )
)]
pub(super) async fn thread(
    caller: Caller,
    InThread(thread_id): InThread,
    params: Params,
    headers: HeaderMap,
) -> Result<Response, Fault> {
    let told = told(&params)?;
    let cursor = cursor(&headers)?;
    let begin = Begin::of(cursor, resources::thread(&caller, thread_id).await?.last_seq);
    let live = caller.server.dispatch.thread_live(&caller.scope, thread_id);
    let live = if cursor.is_none() { live.from_now() } else { live };
    Ok(sse::response(FollowThread::new(caller, thread_id, live, told, begin).chunks()))
}

fn told(params: &Params) -> Result<Told, Fault> {
    let mut modes =
        params.all("stream_modes").chain(params.all("stream_mode")).flat_map(|modes| modes.split(','));
    let mut told = None;
    modes.try_for_each(|mode| match mode {
        "lifecycle" => {
            told.get_or_insert(Told::Lifecycle);
            Ok(())
        }
        "run_modes" | "state_update" => {
            told = Some(Told::Runs);
            Ok(())
        }
        _ => Err(Fault::invalid("`stream_modes` must be one of run_modes, lifecycle, state_update")),
    })?;
    Ok(told.unwrap_or(Told::Runs))
}
