//! The endpoints for assistants. A server has one assistant for each owner, addressed by its name or by an id that is
//! derived from the name. Assistants cannot be created or changed over HTTP, because they are defined by their home
//! folder and by `config.toml`.

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

/// Returns the routes of assistants.
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

/// A search for assistants. An assistant must match every field that is set.
#[derive(Debug, Default, Deserialize, ToSchema)]
struct AssistantSearch {
    /// Fields that the assistant's metadata must contain.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
    /// The exact name of the assistant's graph.
    graph_id: Option<String>,
    /// A part of the assistant's name. Case is ignored.
    name: Option<String>,
    /// The maximum number of assistants to return; 10 by default.
    #[schema(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The number of assistants to skip; 0 by default.
    offset: Option<usize>,
    /// The fields to return. All fields by default.
    select: Option<Vec<String>>,
}

impl AssistantSearch {
    /// Returns whether the assistant matches every field that is set.
    fn matches(&self, assistant: &Assistant) -> bool {
        let name_contains = |part: &str| assistant.name.to_lowercase().contains(&part.to_lowercase());
        self.graph_id.as_ref().is_none_or(|graph_id| *graph_id == assistant.graph_id)
            && self.name.as_deref().is_none_or(name_contains)
            && self.metadata.as_ref().is_none_or(|part| subset::has_fields(&assistant.metadata.0, part))
    }
}

/// Returns the name of the assistant that `name_or_id` refers to. Only the agent's own assistant exists.
///
/// # Errors
/// Status 404 for an unknown UUID, and 422 for an unknown name, as the LangGraph server responds.
pub(crate) fn resolve_assistant(agent: &Agent, name_or_id: &str) -> Result<String, ApiError> {
    let name = agent.assistant_id().name();
    if name_or_id == name {
        return Ok(name.to_owned());
    }
    match Uuid::try_parse(name_or_id) {
        Ok(id) if id == agent.assistant_id().wire_id() => Ok(name.to_owned()),
        Ok(_) => Err(ApiError::not_found("Thread or assistant not found.")),
        Err(_) => {
            let excerpt: String = name_or_id.chars().take(80).collect();
            let hint = format!("the only assistant is `{name}`");
            Err(ApiError::invalid(format!("Invalid assistant: '{excerpt}'. Must be a graph name or a UUID."))
                .with_hint(hint))
        }
    }
}

/// Returns the assistant that the path segment `assistant_id` refers to.
fn find_assistant(caller: &Caller, path: &PathParams) -> Result<Assistant, ApiError> {
    resolve_assistant(&caller.agent, path.get("assistant_id"))?;
    Ok(Assistant::from_id(caller.agent.assistant_id(), home_created_at(&caller.agent)))
}

/// Returns the creation time of the assistant, which is the creation time of its home folder. Returns the Unix epoch if
/// the file system does not record creation times.
fn home_created_at(agent: &Agent) -> Timestamp {
    let created = std::fs::metadata(agent.home().root()).and_then(|home| home.created());
    created.ok().and_then(|created| Timestamp::try_from(created).ok()).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Searches assistants. With `select`, only the named fields are returned.
#[utoipa::path(post, path = "/assistants/search", tag = "assistants", request_body = AssistantSearch,
    responses((status = 200, body = Vec<AnyObject>, description = "The assistants, with all fields or with the selected ones."), (status = 401, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn search(caller: Caller, JsonBody(search): JsonBody<AssistantSearch>) -> Result<Response, ApiError> {
    let page = PageRequest::from_query(search.limit, search.offset, 10)?;
    let assistants = matching_assistants(&caller, &search);
    let total = assistants.len() as u64;
    let rows = assistants.into_iter().skip(page.offset).take(page.limit).map(serde_json::to_value);
    let mut rows = rows.collect::<Result<Vec<Value>, _>>().map_err(ApiError::internal)?;
    if let Some(select) = &search.select {
        let select = page::check_select(select.iter().map(String::as_str), &ASSISTANT_FIELDS)?;
        for fields in rows.iter_mut().filter_map(Value::as_object_mut) {
            fields.retain(|name, _| select.contains(&name.as_str()));
        }
    }
    Ok(page.with_pagination_headers(Json(rows), total))
}

/// Counts the assistants that match a search.
#[utoipa::path(post, path = "/assistants/count", tag = "assistants", request_body = AssistantSearch,
    responses((status = 200, body = u64, content_type = "application/json"), (status = 401, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn count(caller: Caller, JsonBody(search): JsonBody<AssistantSearch>) -> Json<u64> {
    Json(matching_assistants(&caller, &search).len() as u64)
}

/// Returns the caller's assistant if it matches the search, and otherwise nothing.
fn matching_assistants(caller: &Caller, search: &AssistantSearch) -> Vec<Assistant> {
    let assistant = Assistant::from_id(caller.agent.assistant_id(), home_created_at(&caller.agent));
    Some(assistant).into_iter().filter(|assistant| search.matches(assistant)).collect()
}

/// Returns an assistant.
#[utoipa::path(get, path = "/assistants/{assistant_id}", tag = "assistants", params(("assistant_id" = String, Path, description = "The assistant's id or its name.")),
    responses((status = 200, body = Assistant), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn get(caller: Caller, path: PathParams) -> Result<Json<Assistant>, ApiError> {
    find_assistant(&caller, &path).map(Json)
}

/// The graph of an assistant.
#[derive(Debug, Serialize, ToSchema)]
struct AssistantGraph {
    /// The nodes.
    nodes: Vec<AssistantGraphNode>,
    /// The edges between the nodes.
    edges: Vec<AssistantGraphEdge>,
}

/// A node of the graph.
#[derive(Debug, Serialize, ToSchema)]
struct AssistantGraphNode {
    /// The name of the node.
    id: String,
    /// Always `runnable`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The node's name again, as `id` (a list with one segment) and as `name`.
    data: AnyObject,
}

/// An edge of the graph. It must not have other fields, because clients pass all fields to a constructor.
#[derive(Debug, Serialize, ToSchema)]
struct AssistantGraphEdge {
    /// The node that the edge leaves.
    source: String,
    /// The node that the edge enters.
    target: String,
    /// True for a conditional edge.
    conditional: bool,
}

/// Returns the graph of an assistant.
#[utoipa::path(get, path = "/assistants/{assistant_id}/graph", tag = "assistants",
    params(("assistant_id" = String, Path, description = "The assistant's id or its name."), ("xray" = Option<String>, Query, description = "Accepted and ignored; the graph has no subgraphs.")),
    responses((status = 200, body = AssistantGraph), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn graph(caller: Caller, path: PathParams) -> Result<Json<AssistantGraph>, ApiError> {
    find_assistant(&caller, &path)?;
    let shape = caller.agent.admin().graph_shape();
    let node = |vertex: &agent::GraphVertex| {
        let id = node_name(*vertex);
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

/// The JSON Schemas of an assistant's input, output, state and configuration.
#[derive(Debug, Serialize, ToSchema)]
struct AssistantSchemas {
    /// The name of the assistant's graph.
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
    /// The schema of a run's `config.configurable`.
    #[schema(value_type = Object)]
    config_schema: Value,
    /// The schema of a run's `context`.
    #[schema(value_type = Object)]
    context_schema: Value,
}

/// Returns the JSON Schemas of an assistant's input, output, state and configuration.
#[utoipa::path(get, path = "/assistants/{assistant_id}/schemas", tag = "assistants", params(("assistant_id" = String, Path, description = "The assistant's id or its name.")),
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
    let no_properties = json!({"type": "object", "properties": {}});
    Ok(Json(AssistantSchemas {
        graph_id: assistant.graph_id,
        input_schema: input,
        output_schema: state.clone(),
        state_schema: state,
        config_schema: no_properties.clone(),
        context_schema: no_properties,
    }))
}

/// Returns the subgraphs of an assistant's graph: an empty object, because the graph has none.
#[utoipa::path(get, path = "/assistants/{assistant_id}/subgraphs", tag = "assistants", params(("assistant_id" = String, Path, description = "The assistant's id or its name.")),
    responses((status = 200, body = AnyObject), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn subgraphs(caller: Caller, path: PathParams) -> Result<Json<AnyObject>, ApiError> {
    find_assistant(&caller, &path)?;
    Ok(Json(AnyObject::default()))
}

/// Returns the subgraphs in one namespace of an assistant's graph: an empty object, because the graph has none.
#[utoipa::path(get, path = "/assistants/{assistant_id}/subgraphs/{namespace}", tag = "assistants",
    params(("assistant_id" = String, Path, description = "The assistant's id or its name."), ("namespace" = String, Path, description = "The namespace.")),
    responses((status = 200, body = AnyObject), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn subgraphs_of(caller: Caller, path: PathParams) -> Result<Json<AnyObject>, ApiError> {
    subgraphs(caller, path).await
}
