//! The store: what clients and agents keep under names. What may be kept, and how it is found, is the memory's matter.

use agent::{ItemSearch, NamespaceSearch};
use axum::Json;
use axum::http::StatusCode;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::caller::Caller;
use crate::error::{ApiError, ErrorBody};
use crate::extract::{JsonBody, QueryParams};
use crate::wire::timestamp;

use super::page::PageRequest;

/// Returns the endpoints.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> OpenApiRouter<S> {
    OpenApiRouter::new().routes(routes!(get, put, delete)).routes(routes!(search)).routes(routes!(namespaces))
}

/// Something kept under a name.
#[derive(Debug, Serialize, ToSchema)]
struct StoreItem {
    /// Where: labels from the widest to the narrowest.
    namespace: Vec<String>,
    /// Its name there.
    key: String,
    /// The stored value.
    #[schema(value_type = Object)]
    value: Map<String, Value>,
    /// When the name was first used.
    created_at: String,
    /// When it was last put.
    updated_at: String,
}

impl From<protocol::StoredItem> for StoreItem {
    fn from(item: protocol::StoredItem) -> Self {
        let (created_at, updated_at) = (timestamp(item.created_at), timestamp(item.updated_at));
        Self { namespace: item.namespace, key: item.key, value: item.value, created_at, updated_at }
    }
}

/// An item to store.
#[derive(Debug, Deserialize, ToSchema)]
struct StoreItemPut {
    /// Where: labels from the widest to the narrowest.
    namespace: Vec<String>,
    /// The name there.
    key: String,
    /// The value: an object.
    #[schema(value_type = Object)]
    value: Map<String, Value>,
    /// Minutes after which it goes: `null`, for it stays until it is removed.
    #[serde(default)]
    ttl: Option<Value>,
}

/// Names what is kept.
#[derive(Debug, Deserialize, ToSchema)]
struct StoreItemKey {
    /// Where.
    #[serde(default)]
    namespace: Option<Vec<String>>,
    /// The name there.
    key: String,
}

/// Keeps something under a name, in place of what was kept there.
#[utoipa::path(put, path = "/store/items", tag = "store", request_body = StoreItemPut,
    responses((status = 204), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody), (status = 413, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn put(caller: Caller, JsonBody(item): JsonBody<StoreItemPut>) -> Result<StatusCode, ApiError> {
    check_namespace(&item.namespace)?;
    if item.ttl.is_some() {
        return Err(ApiError::invalid("`ttl` must be null: items stay until they are removed"));
    }
    let (items, value) = (caller.agent.memory().items(), Value::Object(item.value));
    items.put(&item.namespace, &item.key, value, Timestamp::now()).await.map_err(agent::Error::from)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Returns what is kept under a name, or `null`.
#[utoipa::path(get, path = "/store/items", tag = "store",
    params(("key" = String, Query, description = "The name."), ("namespace" = Option<String>, Query, description = "Where: labels joined by dots.")),
    responses((status = 200, body = Option<StoreItem>), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn get(caller: Caller, params: QueryParams) -> Result<Json<Option<StoreItem>>, ApiError> {
    let key = params.text("key").ok_or_else(|| ApiError::invalid("`key` is missing"))?;
    let labels = params.all("namespace").flat_map(|labels| labels.split('.'));
    let namespace: Vec<String> = labels.map(str::to_owned).collect();
    check_namespace(&namespace)?;
    let found = caller.agent.memory().items().get(&namespace, key).await.map_err(agent::Error::from)?;
    Ok(Json(found.map(StoreItem::from)))
}

/// Removes what is kept under a name; nothing when there is nothing.
#[utoipa::path(delete, path = "/store/items", tag = "store", request_body = StoreItemKey,
    responses((status = 204), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn delete(caller: Caller, JsonBody(name): JsonBody<StoreItemKey>) -> Result<StatusCode, ApiError> {
    let namespace = name.namespace.unwrap_or_default();
    check_namespace(&namespace)?;
    caller.agent.memory().items().delete(&namespace, &name.key).await.map_err(agent::Error::from)?;
    Ok(StatusCode::NO_CONTENT)
}

/// A search for items.
#[derive(Debug, Default, Deserialize, ToSchema)]
struct StoreItemQuery {
    /// Only namespaces that begin with these labels.
    namespace_prefix: Option<Vec<String>>,
    /// Conditions on fields: a value, or an object of `$eq`, `$ne`, `$gt`, `$gte`, `$lt` and `$lte`.
    #[schema(value_type = Option<Object>)]
    filter: Option<Map<String, Value>>,
    /// Words to rank by; without any, what was put last comes first.
    query: Option<String>,
    /// The most items to return.
    #[schema(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// How many to skip.
    offset: Option<usize>,
}

/// The items that were found.
#[derive(Debug, Serialize, ToSchema)]
struct StoreSearchResults {
    /// The items.
    items: Vec<StoreSearchHit>,
}

/// An item, and how well it matches.
#[derive(Debug, Serialize, ToSchema)]
struct StoreSearchHit {
    #[serde(flatten)]
    item: StoreItem,
    /// How well it matches the words; `null` without words.
    score: Option<f64>,
}

/// Finds what is kept.
#[utoipa::path(post, path = "/store/items/search", tag = "store", request_body = StoreItemQuery,
    responses((status = 200, body = StoreSearchResults), (status = 401, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn search(
    caller: Caller,
    JsonBody(query): JsonBody<StoreItemQuery>,
) -> Result<Json<StoreSearchResults>, ApiError> {
    let page = PageRequest::from_query(query.limit, query.offset, 10)?;
    let search = ItemSearch {
        namespace_prefix: query.namespace_prefix.unwrap_or_default(),
        filter: query.filter,
        query: query.query,
        limit: page.limit,
        offset: page.offset,
    };
    let found = caller.agent.memory().items().search(&search).await.map_err(agent::Error::from)?;
    let items = found.into_iter().map(|found| StoreSearchHit { item: found.item.into(), score: found.score });
    Ok(Json(StoreSearchResults { items: items.collect() }))
}

/// Which namespaces to list.
#[derive(Debug, Default, Deserialize, ToSchema)]
struct NamespaceQuery {
    /// Only those that begin with these labels; `*` stands for any one.
    prefix: Option<Vec<String>>,
    /// Only those that end with these labels; `*` stands for any one.
    suffix: Option<Vec<String>>,
    /// Longer ones are cut to so many labels.
    max_depth: Option<usize>,
    /// The most to return.
    #[schema(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// How many to skip.
    offset: Option<usize>,
}

/// Namespaces in use.
#[derive(Debug, Serialize, ToSchema)]
struct NamespaceList {
    /// Each once, in order.
    namespaces: Vec<Vec<String>>,
}

/// Lists the namespaces in use.
#[utoipa::path(post, path = "/store/namespaces", tag = "store", request_body = NamespaceQuery,
    responses((status = 200, body = NamespaceList), (status = 401, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn namespaces(
    caller: Caller,
    JsonBody(query): JsonBody<NamespaceQuery>,
) -> Result<Json<NamespaceList>, ApiError> {
    let page = PageRequest::from_query(query.limit, query.offset, 100)?;
    let search = NamespaceSearch {
        prefix: query.prefix,
        suffix: query.suffix,
        max_depth: query.max_depth,
        limit: page.limit,
        offset: page.offset,
    };
    let namespaces =
        caller.agent.memory().items().list_namespaces(&search).await.map_err(agent::Error::from)?;
    Ok(Json(NamespaceList { namespaces }))
}

/// Refuses namespaces that make no sense with the status clients expect; everything else is the memory's to refuse.
fn check_namespace(namespace: &[String]) -> Result<(), ApiError> {
    match namespace.first().map(String::as_str) {
        None => Err(ApiError::bad_request("the namespace is empty")),
        Some("langgraph") => {
            Err(ApiError::bad_request("namespaces that begin with `langgraph` are reserved"))
        }
        Some(_) => Ok(()),
    }
}
