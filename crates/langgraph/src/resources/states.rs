//! States of a thread: at its head, at a point of its past, over all its branches; and changing it. What a state is, and
//! what a change does, is the agent's matter.

use std::collections::VecDeque;
use std::sync::Arc;

use agent::State;
use axum::Json;
use axum::response::Response;
use futures::Stream;
use protocol::{CheckpointId, ThreadId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::page::{self, ROWS_MAX};
use super::{subset, thread};
use crate::caller::Caller;
use crate::extract::{Body, InThread, Params, PathParams, checkpoint_id};
use crate::fault::{Envelope, Fault};
use crate::requests::change::read_change;
use crate::wire::state::{Checkpoint, ThreadState, metadata};

/// States that are read at a time.
const STATES_PAGE_ROWS: usize = 20;

/// States that are looked through for one page that asks for some metadata.
const SCANNED_MAX: usize = 5_000;

/// Returns the endpoints.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> OpenApiRouter<S> {
    OpenApiRouter::new()
        .routes(routes!(get, post))
        .routes(routes!(get_at))
        .routes(routes!(post_at))
        .routes(routes!(history, post_history))
}

/// Names a point, whole or in part. Without an id it is the head.
#[derive(Debug, Default, Clone, Deserialize, ToSchema)]
struct Point {
    /// The point.
    #[serde(rename = "checkpoint_id")]
    #[schema(value_type = Option<String>)]
    point: Option<CheckpointId>,
    /// Which graph within; there are none.
    checkpoint_ns: Option<String>,
    /// The same fields, as SDKs wrap them.
    configurable: Option<Wrapped>,
}

/// A point, wrapped.
#[derive(Debug, Default, Clone, Deserialize, ToSchema)]
struct Wrapped {
    /// The point.
    #[serde(rename = "checkpoint_id")]
    #[schema(value_type = Option<String>)]
    point: Option<CheckpointId>,
    /// Which graph within; there are none.
    checkpoint_ns: Option<String>,
}

impl Point {
    fn id(self) -> Option<CheckpointId> {
        self.point.or_else(|| self.configurable?.point)
    }

    /// Returns whether the point is one of a graph within.
    fn is_within(&self) -> bool {
        let wrapped = self.configurable.as_ref().and_then(|wrapped| wrapped.checkpoint_ns.as_deref());
        [self.checkpoint_ns.as_deref(), wrapped].into_iter().flatten().any(|namespace| !namespace.is_empty())
    }
}

/// Returns what a thread holds.
#[utoipa::path(get, path = "/threads/{thread_id}/state", tag = "states",
    params(("thread_id" = String, Path, format = "uuid", description = "The thread."), ("subgraphs" = Option<bool>, Query, description = "Accepted; there are no graphs within.")),
    responses((status = 200, body = ThreadState), (status = 401, body = Envelope), (status = 404, body = Envelope), (status = 422, body = Envelope)))]
async fn get(
    caller: Caller,
    InThread(thread_id): InThread,
    params: Params,
) -> Result<Json<ThreadState>, Fault> {
    params.flag("subgraphs")?;
    head(&caller, thread_id).await.map(Json)
}

/// Returns what a thread held at a point of its past.
#[utoipa::path(get, path = "/threads/{thread_id}/state/{checkpoint_id}", tag = "states",
    params(("thread_id" = String, Path, format = "uuid", description = "The thread."), ("checkpoint_id" = String, Path, description = "The point."), ("subgraphs" = Option<bool>, Query, description = "Accepted; there are no graphs within.")),
    responses((status = 200, body = ThreadState), (status = 401, body = Envelope), (status = 404, body = Envelope), (status = 422, body = Envelope)))]
async fn get_at(
    caller: Caller,
    InThread(thread_id): InThread,
    path: PathParams,
    params: Params,
) -> Result<Json<ThreadState>, Fault> {
    params.flag("subgraphs")?;
    thread(&caller, thread_id).await?;
    let state = caller.agent.threads().state_at(thread_id, checkpoint_id(path.get("checkpoint_id"))?).await?;
    Ok(Json(ThreadState::of(thread_id, Some(&state))))
}

/// Names a point in a body.
#[derive(Debug, Deserialize, ToSchema)]
struct PointQuery {
    /// The point; without an id, the head.
    checkpoint: Point,
}

/// Returns what a thread held at a point of its past.
#[utoipa::path(post, path = "/threads/{thread_id}/state/checkpoint", tag = "states", params(("thread_id" = String, Path, format = "uuid", description = "The thread.")), request_body = PointQuery,
    responses((status = 200, body = ThreadState), (status = 401, body = Envelope), (status = 404, body = Envelope), (status = 422, body = Envelope)))]
async fn post_at(
    caller: Caller,
    InThread(thread_id): InThread,
    Body(query): Body<PointQuery>,
) -> Result<Json<ThreadState>, Fault> {
    thread(&caller, thread_id).await?;
    match query.checkpoint.id() {
        Some(point) => {
            let state = caller.agent.threads().state_at(thread_id, point).await?;
            Ok(Json(ThreadState::of(thread_id, Some(&state))))
        }
        None => head(&caller, thread_id).await.map(Json),
    }
}

async fn head(caller: &Caller, thread_id: ThreadId) -> Result<ThreadState, Fault> {
    thread(caller, thread_id).await?;
    let state = caller.agent.threads().state(thread_id).await?;
    Ok(ThreadState::of(thread_id, state.as_ref()))
}

/// A change of a thread's state.
#[derive(Debug, Default, Deserialize, ToSchema)]
struct StateUpdate {
    /// What is put: messages by their ids, other fields as they are.
    #[schema(value_type = Option<Object>)]
    values: Option<Value>,
    /// The node that is taken to have put it.
    as_node: Option<String>,
    /// The point from which it goes on; the head unless it is given.
    checkpoint: Option<Point>,
    /// The point from which it goes on, once more.
    #[serde(rename = "checkpoint_id")]
    #[schema(value_type = Option<String>)]
    point: Option<CheckpointId>,
}

/// Where a thread stands after a change.
#[derive(Debug, Serialize, ToSchema)]
struct StateUpdated {
    /// The point.
    checkpoint: Checkpoint,
    /// The point, once more.
    configurable: Checkpoint,
    /// The point, once more.
    #[serde(rename = "checkpoint_id")]
    point: String,
}

/// Changes what a thread holds. While something works on the thread, the change waits until it is done.
#[utoipa::path(post, path = "/threads/{thread_id}/state", tag = "states", params(("thread_id" = String, Path, format = "uuid", description = "The thread.")), request_body = StateUpdate,
    responses((status = 200, body = StateUpdated), (status = 400, body = Envelope), (status = 401, body = Envelope), (status = 404, body = Envelope), (status = 409, body = Envelope), (status = 413, body = Envelope), (status = 422, body = Envelope), (status = 429, body = Envelope)))]
async fn post(
    caller: Caller,
    InThread(thread_id): InThread,
    Body(update): Body<StateUpdate>,
) -> Result<Json<StateUpdated>, Fault> {
    thread(&caller, thread_id).await?;
    let values = match update.values {
        None => None,
        Some(Value::Object(values)) => Some(values),
        Some(_) => return Err(Fault::bad_request("`values` must be an object")),
    };
    let point = update.checkpoint.and_then(Point::id).or(update.point);
    let change = read_change(thread_id, values, update.as_node.as_deref(), point)
        .map_err(|error| Fault::from(error).or_bad_request())?;
    let agent = Arc::clone(&caller.agent);
    let put = move |_| async move { agent.threads().update_state(thread_id, change).await };
    let put = caller.server.dispatch.exclusive(&caller.scope, thread_id, put).await?;
    let point = put.map_err(|error| Fault::from(error).or_bad_request())?.to_string();
    let checkpoint = Checkpoint::new(thread_id, &point);
    Ok(Json(StateUpdated { configurable: checkpoint.clone(), checkpoint, point }))
}

/// Which states to list.
#[derive(Debug, Default, Deserialize, ToSchema)]
struct HistoryQuery {
    /// The most states.
    #[schema(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Only those before this point: its id, or an object that has it.
    before: Option<Before>,
    /// What their metadata must contain.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
    /// Of which graph.
    checkpoint: Option<Point>,
}

/// A point before which states are listed.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(untagged, expecting = "expected the id of a checkpoint, or an object that has it")]
enum Before {
    /// Its id.
    Id(String),
    /// An object that has it.
    Point(Point),
}

impl Before {
    fn id(self) -> Result<Option<CheckpointId>, Fault> {
        match self {
            Self::Id(given) => checkpoint_id(&given).map(Some),
            Self::Point(point) => Ok(point.id()),
        }
    }
}

/// Lists what a thread held, newest first, over all its branches.
#[utoipa::path(get, path = "/threads/{thread_id}/history", tag = "states",
    params(("thread_id" = String, Path, format = "uuid", description = "The thread."), ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "The most states, 10 unless it is given."), ("before" = Option<String>, Query, description = "Only states before this point.")),
    responses((status = 200, body = Vec<ThreadState>), (status = 401, body = Envelope), (status = 404, body = Envelope), (status = 422, body = Envelope)))]
async fn history(caller: Caller, InThread(thread_id): InThread, params: Params) -> Result<Response, Fault> {
    let limit = params.number("limit", 1..=ROWS_MAX)?.unwrap_or(10);
    let before = params.text("before").map(checkpoint_id).transpose()?;
    page_of(caller, thread_id, Past { before, left: limit, metadata: Map::new() }).await
}

/// Lists what a thread held, newest first, over all its branches.
#[utoipa::path(post, path = "/threads/{thread_id}/history", tag = "states", params(("thread_id" = String, Path, format = "uuid", description = "The thread.")), request_body = HistoryQuery,
    responses((status = 200, body = Vec<ThreadState>), (status = 401, body = Envelope), (status = 404, body = Envelope), (status = 422, body = Envelope)))]
async fn post_history(
    caller: Caller,
    InThread(thread_id): InThread,
    Body(query): Body<HistoryQuery>,
) -> Result<Response, Fault> {
    let limit = page::Page::of(query.limit, None, 1)?.limit;
    if query.checkpoint.is_some_and(|point| point.is_within()) {
        thread(&caller, thread_id).await?;
        return page::list(futures::stream::empty::<Result<ThreadState, Fault>>()).await;
    }
    let before = query.before.map(Before::id).transpose()?.flatten();
    page_of(caller, thread_id, Past { before, left: limit, metadata: query.metadata.unwrap_or_default() })
        .await
}

/// What is still to be listed of a thread's past.
struct Past {
    before: Option<CheckpointId>,
    left: usize,
    metadata: Map<String, Value>,
}

async fn page_of(caller: Caller, thread_id: ThreadId, past: Past) -> Result<Response, Fault> {
    thread(&caller, thread_id).await?;
    page::list(states(caller, thread_id, past)).await
}

/// Returns the states, of which only a few are read at a time.
fn states(
    caller: Caller,
    thread_id: ThreadId,
    past: Past,
) -> impl Stream<Item = Result<ThreadState, Fault>> + Send {
    let reading = Reading { caller, thread_id, past, read: VecDeque::new(), scanned: 0, is_over: false };
    futures::stream::try_unfold(reading, |mut reading| async move {
        let next = reading.next().await?;
        Ok(next.map(|state| (ThreadState::of(reading.thread_id, Some(&state)), reading)))
    })
}

struct Reading {
    caller: Caller,
    thread_id: ThreadId,
    past: Past,
    read: VecDeque<State>,
    scanned: usize,
    is_over: bool,
}

impl Reading {
    async fn next(&mut self) -> Result<Option<State>, Fault> {
        while self.past.left > 0 {
            let Some(state) = self.read.pop_front() else {
                if self.is_over || self.scanned >= SCANNED_MAX {
                    return Ok(None);
                }
                self.read_on().await?;
                continue;
            };
            if subset::has_fields(&metadata(self.thread_id, &state), &self.past.metadata) {
                self.past.left -= 1;
                return Ok(Some(state));
            }
        }
        Ok(None)
    }

    async fn read_on(&mut self) -> Result<(), Fault> {
        let wanted = if self.past.metadata.is_empty() { self.past.left } else { STATES_PAGE_ROWS };
        let rows = wanted.min(STATES_PAGE_ROWS);
        let page = self.caller.agent.threads().states(self.thread_id, self.past.before, rows).await?;
        self.scanned += page.len();
        self.is_over = page.len() < rows;
        if let Some(last) = page.last() {
            self.past.before = Some(last.checkpoint_id);
        }
        self.read = page.into();
        Ok(())
    }
}
