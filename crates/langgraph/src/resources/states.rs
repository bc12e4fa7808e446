//! The endpoints for the states of a thread: the current state, the state at a checkpoint, the history of states over
//! all branches, and updates of the state.
//!
//! A thread's head is its newest checkpoint on the current branch. The agent computes the states and applies the
//! updates; this module converts requests and responses only. The graph has no subgraphs, so a checkpoint namespace
//! other than the empty one contains no states.

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
use crate::extract::json_limits::check_channels_size;
use crate::extract::{JsonBody, PathParams, QueryParams, ThreadPath, parse_checkpoint_id};
use crate::requests::state_update::read_state_update;
use crate::wire::state::{Checkpoint, ThreadState, checkpoint_metadata};

/// The maximum number of states in one read of the journal.
const STATES_PAGE_ROWS: usize = 20;

/// The maximum number of states that are examined for one page when the client filters by metadata. The page may then
/// be incomplete.
const STATES_SCANNED_MAX: usize = 5_000;

/// Returns the routes of thread states.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> OpenApiRouter<S> {
    OpenApiRouter::new()
        .routes(routes!(get_state, update_state))
        .routes(routes!(get_state_at))
        .routes(routes!(query_state_at))
        .routes(routes!(list_states, query_states))
}

/// A reference to a checkpoint. Without an id, it refers to the head.
#[derive(Debug, Default, Clone, Deserialize, ToSchema)]
struct CheckpointSelector {
    /// The id of the checkpoint.
    #[schema(value_type = Option<String>)]
    checkpoint_id: Option<CheckpointId>,
    /// The namespace of a subgraph. Only the empty namespace contains states.
    checkpoint_ns: Option<String>,
    /// The same fields in the wrapped form that some SDKs send.
    configurable: Option<ConfigurableCheckpoint>,
}

/// The fields of a checkpoint reference, as SDKs wrap them into `configurable`.
#[derive(Debug, Default, Clone, Deserialize, ToSchema)]
struct ConfigurableCheckpoint {
    /// The id of the checkpoint.
    #[schema(value_type = Option<String>)]
    checkpoint_id: Option<CheckpointId>,
    /// The namespace of a subgraph. Only the empty namespace contains states.
    checkpoint_ns: Option<String>,
}

impl CheckpointSelector {
    /// Returns the id of the checkpoint, wrapped or not; `None` for the head.
    fn id(self) -> Option<CheckpointId> {
        self.checkpoint_id.or_else(|| self.configurable?.checkpoint_id)
    }

    /// Returns whether the reference names the namespace of a subgraph.
    fn has_namespace(&self) -> bool {
        let wrapped = self.configurable.as_ref().and_then(|wrapped| wrapped.checkpoint_ns.as_deref());
        [self.checkpoint_ns.as_deref(), wrapped].into_iter().flatten().any(|namespace| !namespace.is_empty())
    }
}

/// Returns the current state of a thread.
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

/// Returns the state of a thread at a checkpoint.
#[utoipa::path(get, path = "/threads/{thread_id}/state/{checkpoint_id}", tag = "states",
    params(("thread_id" = String, Path, format = "uuid", description = "The thread."), ("checkpoint_id" = String, Path, description = "The checkpoint."), ("subgraphs" = Option<bool>, Query, description = "Accepted; there are no graphs within.")),
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

/// The body of a request for the state at a checkpoint.
#[derive(Debug, Deserialize, ToSchema)]
struct CheckpointQuery {
    /// The checkpoint. Without an id, the current state is returned.
    checkpoint: CheckpointSelector,
}

/// Returns the state of a thread at the checkpoint in the body.
#[utoipa::path(post, path = "/threads/{thread_id}/state/checkpoint", tag = "states", params(("thread_id" = String, Path, format = "uuid", description = "The thread.")), request_body = CheckpointQuery,
    responses((status = 200, body = ThreadState), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn query_state_at(
    caller: Caller,
    ThreadPath(thread_id): ThreadPath,
    JsonBody(query): JsonBody<CheckpointQuery>,
) -> Result<Json<ThreadState>, ApiError> {
    find_thread(&caller, thread_id).await?;
    match query.checkpoint.id() {
        Some(checkpoint_id) => {
            let state = caller.agent.threads().state_at(thread_id, checkpoint_id).await?;
            Ok(Json(ThreadState::from_state(thread_id, Some(&state))))
        }
        None => head_state(&caller, thread_id).await.map(Json),
    }
}

/// Returns the state of a thread at its head. A thread without events has an empty state.
async fn head_state(caller: &Caller, thread_id: ThreadId) -> Result<ThreadState, ApiError> {
    find_thread(caller, thread_id).await?;
    let state = caller.agent.threads().state(thread_id).await?;
    Ok(ThreadState::from_state(thread_id, state.as_ref()))
}

/// An update of a thread's state.
#[derive(Debug, Default, Deserialize, ToSchema)]
struct StateUpdate {
    /// The new values. `messages` are merged by id; other fields are replaced.
    #[schema(value_type = Option<Object>)]
    values: Option<Value>,
    /// The node after which the thread continues. `__end__` ends the turn, and `__copy__` copies the checkpoint.
    /// Without it, the next node stays the same.
    as_node: Option<String>,
    /// The checkpoint to update. The head by default; an older one starts a branch.
    checkpoint: Option<CheckpointSelector>,
    /// The id of the checkpoint to update. Used if `checkpoint` has no id.
    #[schema(value_type = Option<String>)]
    checkpoint_id: Option<CheckpointId>,
}

/// The checkpoint that a state update created.
#[derive(Debug, Serialize, ToSchema)]
struct StateUpdateResult {
    /// The checkpoint.
    checkpoint: Checkpoint,
    /// The checkpoint again, under the name that older clients read.
    configurable: Checkpoint,
    /// The id of the checkpoint.
    #[schema(value_type = String)]
    checkpoint_id: CheckpointId,
}

/// Updates the state of a thread.
///
/// While a run is active on the thread, in this server or another one, the update is queued and the response comes when
/// it has been applied.
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
    values.as_ref().map_or(Ok(()), check_channels_size)?;
    let base = update.checkpoint.and_then(CheckpointSelector::id).or(update.checkpoint_id);
    let change = read_state_update(thread_id, values, update.as_node.as_deref(), base)
        .map_err(|error| ApiError::from(error).or_bad_request())?;
    let agent = Arc::clone(&caller.agent);
    let apply = move |_| {
        let (agent, change) = (Arc::clone(&agent), change.clone());
        async move { agent.threads().update_state(thread_id, change).await }
    };
    let result = caller.server.scheduler.change_thread(&caller.scope, thread_id, apply).await;
    let checkpoint_id = result.map_err(|error| ApiError::from(error).or_bad_request())?;
    let checkpoint = Checkpoint::new(thread_id, &checkpoint_id.to_string());
    Ok(Json(StateUpdateResult { configurable: checkpoint.clone(), checkpoint, checkpoint_id }))
}

/// A query of a thread's past states.
#[derive(Debug, Default, Deserialize, ToSchema)]
struct StateHistoryQuery {
    /// The maximum number of states to return; 1 by default.
    #[schema(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Only states before this checkpoint: its id, or an object that contains the id.
    before: Option<StateHistoryCursor>,
    /// Fields that the metadata of the state's checkpoint must contain.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
    /// The namespace to list. With the namespace of a subgraph, the list is empty.
    checkpoint: Option<CheckpointSelector>,
}

/// The checkpoint before which states are listed.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(untagged, expecting = "expected the id of a checkpoint, or an object that has it")]
enum StateHistoryCursor {
    /// The id of the checkpoint.
    Id(String),
    /// An object that contains the id.
    Selector(CheckpointSelector),
}

impl StateHistoryCursor {
    /// Returns the id of the checkpoint; `None` if the object contains none.
    ///
    /// # Errors
    /// If the text is not a checkpoint id.
    fn id(self) -> Result<Option<CheckpointId>, ApiError> {
        match self {
            Self::Id(text) => parse_checkpoint_id(&text).map(Some),
            Self::Selector(selector) => Ok(selector.id()),
        }
    }
}

/// Lists the past states of a thread, newest first, over all branches.
#[utoipa::path(get, path = "/threads/{thread_id}/history", tag = "states",
    params(("thread_id" = String, Path, format = "uuid", description = "The thread."), ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "The maximum number of states; 10 by default."), ("before" = Option<String>, Query, description = "Only states before this checkpoint.")),
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

/// Lists the past states of a thread, newest first, over all branches, optionally filtered by metadata.
///
/// With `metadata`, at most 5,000 states are examined.
#[utoipa::path(post, path = "/threads/{thread_id}/history", tag = "states", params(("thread_id" = String, Path, format = "uuid", description = "The thread.")), request_body = StateHistoryQuery,
    responses((status = 200, body = Vec<ThreadState>), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn query_states(
    caller: Caller,
    ThreadPath(thread_id): ThreadPath,
    JsonBody(query): JsonBody<StateHistoryQuery>,
) -> Result<Response, ApiError> {
    let limit = page::PageRequest::from_query(query.limit, None, 1)?.limit;
    if query.checkpoint.is_some_and(|selector| selector.has_namespace()) {
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
    /// The checkpoint before which the scan continues; `None` at the newest one.
    before: Option<CheckpointId>,
    /// The number of states that may still be returned.
    remaining: usize,
    /// Fields that the metadata of a returned state must contain.
    metadata: Map<String, Value>,
}

/// Returns a response with the list of states that a scan finds.
async fn history_response(
    caller: Caller,
    thread_id: ThreadId,
    scan: StateHistoryScan,
) -> Result<Response, ApiError> {
    find_thread(&caller, thread_id).await?;
    page::list_response(stream_states(caller, thread_id, scan)).await
}

/// Returns the states that a scan finds as a stream. A state may contain all messages of a long thread, so only one
/// page of [`STATES_PAGE_ROWS`] states is in memory at a time.
fn stream_states(
    caller: Caller,
    thread_id: ThreadId,
    scan: StateHistoryScan,
) -> impl Stream<Item = Result<ThreadState, ApiError>> + Send {
    let reader =
        StateReader { caller, thread_id, scan, buffer: VecDeque::new(), scanned: 0, is_exhausted: false };
    futures::stream::try_unfold(reader, |mut reader| async move {
        let next = reader.next().await?;
        Ok(next.map(|state| (ThreadState::from_state(reader.thread_id, Some(&state)), reader)))
    })
}

/// A reader of past states, page by page.
struct StateReader {
    caller: Caller,
    thread_id: ThreadId,
    scan: StateHistoryScan,
    /// The states of the current page that have not been examined.
    buffer: VecDeque<ThreadSnapshot>,
    /// The number of states that were read, at most [`STATES_SCANNED_MAX`] and one page more.
    scanned: usize,
    /// True if the journal has no older states.
    is_exhausted: bool,
}

impl StateReader {
    /// Returns the next state that matches, or `None` at the end of the scan.
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

    /// Reads the next page into the buffer. Without a filter, it reads no more states than are still wanted.
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
