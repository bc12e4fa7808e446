//! Assistants: the one this server has, under its name and under the id that follows from it. Others cannot be made here:
//! what an assistant is stands in its folder and in `config.toml`.

use agent::Agent;
use axum::Json;
use axum::response::Response;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::page::{self, PageRequest};
use super::subset;
use crate::caller::Caller;
use crate::error::{ApiError, ErrorBody};
use crate::extract::{JsonBody, PathParams};
use crate::wire::AnyObject;
use crate::wire::assistant::{ASSISTANT_FIELDS, Assistant};
use crate::wire::graph::node_name;

/// Returns the endpoints.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> OpenApiRouter<S> {
    OpenApiRouter::new()
        .routes(routes!(search))
        .routes(routes!(count))
        .routes(routes!(get))
        .routes(routes!(graph))
        .routes(routes!(schemas))
        .routes(routes!(subgraphs))
        .routes(routes!(subgraphs_of))
}

/// Which assistants to list; every set field must match.
#[derive(Debug, Default, Deserialize, ToSchema)]
struct AssistantSearch {
    /// Fields that their metadata must contain.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
    /// Their name.
    graph_id: Option<String>,
    /// A part of their name.
    name: Option<String>,
    /// The most to return.
    #[schema(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// How many to skip.
    offset: Option<usize>,
    /// Only these fields.
    select: Option<Vec<String>>,
}

impl AssistantSearch {
    fn matches(&self, assistant: &Assistant) -> bool {
        let contains = |part: &str| assistant.name.to_lowercase().contains(&part.to_lowercase());
        self.graph_id.as_ref().is_none_or(|graph_id| *graph_id == assistant.graph_id)
            && self.name.as_deref().is_none_or(contains)
            && self.metadata.as_ref().is_none_or(|part| subset::has_fields(&assistant.metadata.0, part))
    }
}

/// Returns the plain name of the assistant that is given by its name or its id.
pub(crate) fn resolve_assistant(agent: &Agent, given: &str) -> Result<String, ApiError> {
    let name = agent.assistant_id().name();
    if given == name {
        return Ok(name.to_owned());
    }
    match Uuid::try_parse(given) {
        Ok(id) if id == agent.assistant_id().wire_id() => Ok(name.to_owned()),
        Ok(_) => Err(ApiError::not_found("Thread or assistant not found.")),
        Err(_) => {
            let shown: String = given.chars().take(80).collect();
            let hint = format!("`{name}` is the one there is");
            Err(ApiError::invalid(format!("Invalid assistant: '{shown}'. Must be a graph name or a UUID."))
                .with_hint(hint))
        }
    }
}

/// Returns the assistant that the path names.
fn find_assistant(caller: &Caller, path: &PathParams) -> Result<Assistant, ApiError> {
    resolve_assistant(&caller.agent, path.get("assistant_id"))?;
    Ok(Assistant::from_id(caller.agent.assistant_id(), home_created_at(&caller.agent)))
}

/// Returns since when there is an assistant: since its home was made.
fn home_created_at(agent: &Agent) -> Timestamp {
    let made = std::fs::metadata(agent.home().root()).and_then(|home| home.created());
    made.ok().and_then(|made| Timestamp::try_from(made).ok()).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Lists assistants; with `select`, only the fields it names.
#[utoipa::path(post, path = "/assistants/search", tag = "assistants", request_body = AssistantSearch,
    responses((status = 200, body = Vec<AnyObject>, description = "Assistants, whole or in part."), (status = 401, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn search(caller: Caller, JsonBody(search): JsonBody<AssistantSearch>) -> Result<Response, ApiError> {
    let page = PageRequest::from_query(search.limit, search.offset, 10)?;
    let found = matching_assistants(&caller, &search);
    let total = found.len() as u64;
    let rows = found.into_iter().skip(page.offset).take(page.limit).map(serde_json::to_value);
    let mut rows = rows.collect::<Result<Vec<Value>, _>>().map_err(ApiError::internal)?;
    if let Some(select) = &search.select {
        let select = page::check_select(select.iter().map(String::as_str), &ASSISTANT_FIELDS)?;
        for fields in rows.iter_mut().filter_map(Value::as_object_mut) {
            fields.retain(|name, _| select.contains(&name.as_str()));
        }
    }
    Ok(page.with_pagination_headers(Json(rows), total))
}

/// Counts assistants.
#[utoipa::path(post, path = "/assistants/count", tag = "assistants", request_body = AssistantSearch,
    responses((status = 200, body = u64, content_type = "application/json"), (status = 401, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn count(caller: Caller, JsonBody(search): JsonBody<AssistantSearch>) -> Json<u64> {
    Json(matching_assistants(&caller, &search).len() as u64)
}

fn matching_assistants(caller: &Caller, search: &AssistantSearch) -> Vec<Assistant> {
    let own = Assistant::from_id(caller.agent.assistant_id(), home_created_at(&caller.agent));
    Some(own).into_iter().filter(|assistant| search.matches(assistant)).collect()
}

/// Returns an assistant.
#[utoipa::path(get, path = "/assistants/{assistant_id}", tag = "assistants", params(("assistant_id" = String, Path, description = "Its id or its name.")),
    responses((status = 200, body = Assistant), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn get(caller: Caller, path: PathParams) -> Result<Json<Assistant>, ApiError> {
    find_assistant(&caller, &path).map(Json)
}

/// The graph of an assistant.
#[derive(Debug, Serialize, ToSchema)]
struct AssistantGraph {
    /// The places.
    nodes: Vec<AssistantGraphNode>,
    /// The ways between them.
    edges: Vec<AssistantGraphEdge>,
}

/// A place in the graph.
#[derive(Debug, Serialize, ToSchema)]
struct AssistantGraphNode {
    /// Its name.
    id: String,
    /// Always `runnable`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The data of the node.
    data: AnyObject,
}

/// A way from one place to another. It has no other fields: clients unpack it.
#[derive(Debug, Serialize, ToSchema)]
struct AssistantGraphEdge {
    /// From there.
    source: String,
    /// To there.
    target: String,
    /// True for a conditional edge.
    conditional: bool,
}

/// Returns the graph of an assistant.
#[utoipa::path(get, path = "/assistants/{assistant_id}/graph", tag = "assistants",
    params(("assistant_id" = String, Path, description = "Its id or its name."), ("xray" = Option<String>, Query, description = "Accepted; there are no graphs within.")),
    responses((status = 200, body = AssistantGraph), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn graph(caller: Caller, path: PathParams) -> Result<Json<AssistantGraph>, ApiError> {
    find_assistant(&caller, &path)?;
    let shape = caller.agent.admin().graph_shape();
    let node = |place: &agent::GraphVertex| {
        let id = node_name(*place);
        let data = Map::from_iter([("id".to_owned(), json!([id])), ("name".to_owned(), json!(id))]);
        AssistantGraphNode { id: id.to_owned(), kind: "runnable", data: AnyObject(data) }
    };
    let edge = |edge: &agent::GraphEdge| AssistantGraphEdge {
        source: node_name(edge.source).to_owned(),
        target: node_name(edge.target).to_owned(),
        conditional: edge.conditional,
    };
    Ok(Json(AssistantGraph {
        nodes: shape.vertices.iter().map(node).collect(),
        edges: shape.edges.iter().map(edge).collect(),
    }))
}

/// JSON Schemas of what goes into an assistant and comes out of it.
#[derive(Debug, Serialize, ToSchema)]
struct AssistantSchemas {
    /// The assistant's name.
    graph_id: String,
    /// The schema of a run's input.
    #[schema(value_type = Object)]
    input_schema: Value,
    /// The schema of a run's output.
    #[schema(value_type = Object)]
    output_schema: Value,
    /// The schema of a thread's state.
    #[schema(value_type = Object)]
    state_schema: Value,
    /// How a run can be configured.
    #[schema(value_type = Object)]
    config_schema: Value,
    /// The schema of a run's configuration.
    #[schema(value_type = Object)]
    context_schema: Value,
}

/// Returns JSON Schemas of what goes into an assistant and comes out of it.
#[utoipa::path(get, path = "/assistants/{assistant_id}/schemas", tag = "assistants", params(("assistant_id" = String, Path, description = "Its id or its name.")),
    responses((status = 200, body = AssistantSchemas), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn schemas(caller: Caller, path: PathParams) -> Result<Json<AssistantSchemas>, ApiError> {
    let assistant = find_assistant(&caller, &path)?;
    let message = json!({"type": "object", "properties": {
        "type": {"enum": ["human", "ai", "tool", "system", "remove"]}, "id": {"type": ["string", "null"]},
        "content": {"type": ["string", "array"]},
    }});
    let messages = json!({"type": "array", "title": "Messages", "items": message});
    let input = json!({"type": "object", "title": "Input", "properties": {"messages": messages}});
    let todos = json!({"type": "array", "title": "Todos", "items": {"type": "object"}});
    let state =
        json!({"type": "object", "title": "State", "properties": {"messages": messages, "todos": todos}});
    let nothing = json!({"type": "object", "properties": {}});
    Ok(Json(AssistantSchemas {
        graph_id: assistant.graph_id,
        input_schema: input,
        output_schema: state.clone(),
        state_schema: state,
        config_schema: nothing.clone(),
        context_schema: nothing,
    }))
}

/// Returns the graphs within an assistant's graph: there are none.
#[utoipa::path(get, path = "/assistants/{assistant_id}/subgraphs", tag = "assistants", params(("assistant_id" = String, Path, description = "Its id or its name.")),
    responses((status = 200, body = AnyObject), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn subgraphs(caller: Caller, path: PathParams) -> Result<Json<AnyObject>, ApiError> {
    find_assistant(&caller, &path)?;
    Ok(Json(AnyObject::default()))
}

/// Returns the graphs within a part of an assistant's graph: there are none.
#[utoipa::path(get, path = "/assistants/{assistant_id}/subgraphs/{namespace}", tag = "assistants",
    params(("assistant_id" = String, Path, description = "Its id or its name."), ("namespace" = String, Path, description = "The part.")),
    responses((status = 200, body = AnyObject), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn subgraphs_of(caller: Caller, path: PathParams) -> Result<Json<AnyObject>, ApiError> {
    subgraphs(caller, path).await
}
