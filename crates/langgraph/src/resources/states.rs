//! States of a thread: at its head, at a point of its past, over all its branches; and changing it. What a state is, and
//! what a change does, is the agent's matter.

use std::collections::VecDeque;
use std::sync::Arc;

use agent::ThreadSnapshot;
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
use super::{find_thread, subset};
use crate::caller::Caller;
use crate::error::{ApiError, ErrorBody};
use crate::extract::{JsonBody, PathParams, QueryParams, ThreadPath, parse_checkpoint_id};
use crate::requests::state_update::read_state_update;
use crate::wire::state::{Checkpoint, ThreadState, checkpoint_metadata};

/// States that are read at a time.
const STATES_PAGE_ROWS: usize = 20;

/// States that are looked through for one page that asks for some metadata.
const STATES_SCANNED_MAX: usize = 5_000;

/// Returns the endpoints.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> OpenApiRouter<S> {
    OpenApiRouter::new()
        .routes(routes!(get_state, update_state))
        .routes(routes!(get_state_at))
        .routes(routes!(query_state_at))
        .routes(routes!(list_states, query_states))
}

/// Names a point, whole or in part. Without an id it is the head.
#[derive(Debug, Default, Clone, Deserialize, ToSchema)]
struct CheckpointSelector {
    /// The point.
    #[serde(rename = "checkpoint_id")]
    #[schema(value_type = Option<String>)]
    point: Option<CheckpointId>,
    /// Which graph within; there are none.
    checkpoint_ns: Option<String>,
    /// The same fields, as SDKs wrap them.
    configurable: Option<ConfigurableCheckpoint>,
}

/// A point, wrapped.
#[derive(Debug, Default, Clone, Deserialize, ToSchema)]
struct ConfigurableCheckpoint {
    /// The point.
    #[serde(rename = "checkpoint_id")]
    #[schema(value_type = Option<String>)]
    point: Option<CheckpointId>,
    /// Which graph within; there are none.
    checkpoint_ns: Option<String>,
}

impl CheckpointSelector {
    fn id(self) -> Option<CheckpointId> {
        self.point.or_else(|| self.configurable?.point)
    }

    /// Returns whether the point is one of a graph within.
    fn has_namespace(&self) -> bool {
        let wrapped = self.configurable.as_ref().and_then(|wrapped| wrapped.checkpoint_ns.as_deref());
        [self.checkpoint_ns.as_deref(), wrapped].into_iter().flatten().any(|namespace| !namespace.is_empty())
    }
}

/// Returns what a thread holds.
#[utoipa::path(get, path = "/threads/{thread_id}/state", tag = "states",
    params(("thread_id" = String, Path, format = "uuid", description = "The thread."), ("subgraphs" = Option<bool>, Query, description = "Accepted; there are no graphs within.")),
    responses((status = 200, body = ThreadState), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn get_state(
    caller: Caller,
    ThreadPath(thread_id): ThreadPath,
    params: QueryParams,
) -> Result<Json<ThreadState>, ApiError> {
    params.flag("subgraphs")?;
    head_state(&caller, thread_id).await.map(Json)
}

/// Returns what a thread held at a point of its past.
#[utoipa::path(get, path = "/threads/{thread_id}/state/{checkpoint_id}", tag = "states",
    params(("thread_id" = String, Path, format = "uuid", description = "The thread."), ("checkpoint_id" = String, Path, description = "The point."), ("subgraphs" = Option<bool>, Query, description = "Accepted; there are no graphs within.")),
    responses((status = 200, body = ThreadState), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn get_state_at(
    caller: Caller,
    ThreadPath(thread_id): ThreadPath,
    path: PathParams,
    params: QueryParams,
) -> Result<Json<ThreadState>, ApiError> {
    params.flag("subgraphs")?;
    find_thread(&caller, thread_id).await?;
    let state =
        caller.agent.threads().state_at(thread_id, parse_checkpoint_id(path.get("checkpoint_id"))?).await?;
    Ok(Json(ThreadState::from_state(thread_id, Some(&state))))
}

/// Names a point in a body.
#[derive(Debug, Deserialize, ToSchema)]
struct CheckpointQuery {
    /// The point; without an id, the head.
    checkpoint: CheckpointSelector,
}

/// Returns what a thread held at a point of its past.
#[utoipa::path(post, path = "/threads/{thread_id}/state/checkpoint", tag = "states", params(("thread_id" = String, Path, format = "uuid", description = "The thread.")), request_body = CheckpointQuery,
    responses((status = 200, body = ThreadState), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn query_state_at(
    caller: Caller,
    ThreadPath(thread_id): ThreadPath,
    JsonBody(query): JsonBody<CheckpointQuery>,
) -> Result<Json<ThreadState>, ApiError> {
    find_thread(&caller, thread_id).await?;
    match query.checkpoint.id() {
        Some(point) => {
            let state = caller.agent.threads().state_at(thread_id, point).await?;
            Ok(Json(ThreadState::from_state(thread_id, Some(&state))))
        }
        None => head_state(&caller, thread_id).await.map(Json),
    }
}

async fn head_state(caller: &Caller, thread_id: ThreadId) -> Result<ThreadState, ApiError> {
    find_thread(caller, thread_id).await?;
    let state = caller.agent.threads().state(thread_id).await?;
    Ok(ThreadState::from_state(thread_id, state.as_ref()))
}

/// A change of a thread's state.
#[derive(Debug, Default, Deserialize, ToSchema)]
struct StateUpdate {
    /// The new values: messages by their ids, other fields as they are.
    #[schema(value_type = Option<Object>)]
    values: Option<Value>,
    /// The node that is taken to have put it.
    as_node: Option<String>,
    /// The point from which it goes on; the head unless it is given.
    checkpoint: Option<CheckpointSelector>,
    /// The point from which it goes on, once more.
    #[serde(rename = "checkpoint_id")]
    #[schema(value_type = Option<String>)]
    point: Option<CheckpointId>,
}

/// Where a thread stands after a change.
#[derive(Debug, Serialize, ToSchema)]
struct StateUpdateResult {
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
    responses((status = 200, body = StateUpdateResult), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody), (status = 413, body = ErrorBody), (status = 422, body = ErrorBody), (status = 429, body = ErrorBody)))]
async fn update_state(
    caller: Caller,
    ThreadPath(thread_id): ThreadPath,
    JsonBody(update): JsonBody<StateUpdate>,
) -> Result<Json<StateUpdateResult>, ApiError> {
    find_thread(&caller, thread_id).await?;
    let values = match update.values {
        None => None,
        Some(Value::Object(values)) => Some(values),
        Some(_) => return Err(ApiError::bad_request("`values` must be an object")),
    };
    let point = update.checkpoint.and_then(CheckpointSelector::id).or(update.point);
    let change = read_state_update(thread_id, values, update.as_node.as_deref(), point)
        .map_err(|error| ApiError::from(error).or_bad_request())?;
    let agent = Arc::clone(&caller.agent);
    let put = move |_| async move { agent.threads().update_state(thread_id, change).await };
    let put = caller.server.scheduler.run_exclusive(&caller.scope, thread_id, put).await?;
    let point = put.map_err(|error| ApiError::from(error).or_bad_request())?.to_string();
    let checkpoint = Checkpoint::new(thread_id, &point);
    Ok(Json(StateUpdateResult { configurable: checkpoint.clone(), checkpoint, point }))
}

/// Which states to list.
#[derive(Debug, Default, Deserialize, ToSchema)]
struct StateHistoryQuery {
    /// The most states.
    #[schema(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Only those before this point: its id, or an object that has it.
    before: Option<StateHistoryCursor>,
    /// Fields that their metadata must contain.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
    /// Of which graph.
    checkpoint: Option<CheckpointSelector>,
}

/// A point before which states are listed.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(untagged, expecting = "expected the id of a checkpoint, or an object that has it")]
enum StateHistoryCursor {
    /// Its id.
    Id(String),
    /// An object that has it.
    Point(CheckpointSelector),
}

impl StateHistoryCursor {
    fn id(self) -> Result<Option<CheckpointId>, ApiError> {
        match self {
            Self::Id(given) => parse_checkpoint_id(&given).map(Some),
            Self::Point(point) => Ok(point.id()),
        }
    }
}

/// Lists what a thread held, newest first, over all its branches.
#[utoipa::path(get, path = "/threads/{thread_id}/history", tag = "states",
    params(("thread_id" = String, Path, format = "uuid", description = "The thread."), ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "The most states, 10 unless it is given."), ("before" = Option<String>, Query, description = "Only states before this point.")),
    responses((status = 200, body = Vec<ThreadState>), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn list_states(
    caller: Caller,
    ThreadPath(thread_id): ThreadPath,
    params: QueryParams,
) -> Result<Response, ApiError> {
    let limit = params.number("limit", 1..=ROWS_MAX)?.unwrap_or(10);
    let before = params.text("before").map(parse_checkpoint_id).transpose()?;
    history_response(caller, thread_id, StateHistoryScan { before, remaining: limit, metadata: Map::new() })
        .await
}

/// Lists what a thread held, newest first, over all its branches.
#[utoipa::path(post, path = "/threads/{thread_id}/history", tag = "states", params(("thread_id" = String, Path, format = "uuid", description = "The thread.")), request_body = StateHistoryQuery,
    responses((status = 200, body = Vec<ThreadState>), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn query_states(
    caller: Caller,
    ThreadPath(thread_id): ThreadPath,
    JsonBody(query): JsonBody<StateHistoryQuery>,
) -> Result<Response, ApiError> {
    let limit = page::PageRequest::from_query(query.limit, None, 1)?.limit;
    if query.checkpoint.is_some_and(|point| point.has_namespace()) {
        find_thread(&caller, thread_id).await?;
        return page::list_response(futures::stream::empty::<Result<ThreadState, ApiError>>()).await;
    }
    let before = query.before.map(StateHistoryCursor::id).transpose()?.flatten();
    history_response(
        caller,
        thread_id,
        StateHistoryScan { before, remaining: limit, metadata: query.metadata.unwrap_or_default() },
    )
    .await
}

/// A scan over the past states of a thread.
struct StateHistoryScan {
    before: Option<CheckpointId>,
    remaining: usize,
    metadata: Map<String, Value>,
}

async fn history_response(
    caller: Caller,
    thread_id: ThreadId,
    past: StateHistoryScan,
) -> Result<Response, ApiError> {
    find_thread(&caller, thread_id).await?;
    page::list_response(stream_states(caller, thread_id, past)).await
}

/// Returns the states, of which only a few are read at a time.
fn stream_states(
    caller: Caller,
    thread_id: ThreadId,
    past: StateHistoryScan,
) -> impl Stream<Item = Result<ThreadState, ApiError>> + Send {
    let reading = StateReader {
        caller,
        thread_id,
        scan: past,
        buffer: VecDeque::new(),
        scanned: 0,
        is_exhausted: false,
    };
    futures::stream::try_unfold(reading, |mut reading| async move {
        let next = reading.next().await?;
        Ok(next.map(|state| (ThreadState::from_state(reading.thread_id, Some(&state)), reading)))
    })
}

struct StateReader {
    caller: Caller,
    thread_id: ThreadId,
    scan: StateHistoryScan,
    buffer: VecDeque<ThreadSnapshot>,
    scanned: usize,
    is_exhausted: bool,
}

impl StateReader {
    async fn next(&mut self) -> Result<Option<ThreadSnapshot>, ApiError> {
        while self.scan.remaining > 0 {
            let Some(state) = self.buffer.pop_front() else {
                if self.is_exhausted || self.scanned >= STATES_SCANNED_MAX {
                    return Ok(None);
                }
                self.read_page().await?;
                continue;
            };
            if subset::has_fields(&checkpoint_metadata(self.thread_id, &state), &self.scan.metadata) {
                self.scan.remaining -= 1;
                return Ok(Some(state));
            }
        }
        Ok(None)
    }

    async fn read_page(&mut self) -> Result<(), ApiError> {
        let wanted = if self.scan.metadata.is_empty() { self.scan.remaining } else { STATES_PAGE_ROWS };
        let rows = wanted.min(STATES_PAGE_ROWS);
        let page = self.caller.agent.threads().states(self.thread_id, self.scan.before, rows).await?;
        self.scanned += page.len();
        self.is_exhausted = page.len() < rows;
        if let Some(last) = page.last() {
            self.scan.before = Some(last.checkpoint_id);
        }
        self.buffer = page.into();
        Ok(())
    }
}
