//! The endpoints of the store: JSON objects that clients and agents keep under a namespace and a key. A namespace is a
//! list of labels. The `memory` crate defines the limits of items and the search.

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

/// Returns the routes of the store.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> OpenApiRouter<S> {
    OpenApiRouter::new().routes(routes!(get, put, delete)).routes(routes!(search)).routes(routes!(namespaces))
}

/// An item of the store.
#[derive(Debug, Serialize, ToSchema)]
struct StoreItem {
    /// The namespace: labels from the widest to the narrowest.
    namespace: Vec<String>,
    /// The key of the item in its namespace.
    key: String,
    /// The stored value.
    #[schema(value_type = Object)]
    value: Map<String, Value>,
    /// The time at which the key was first stored.
    created_at: String,
    /// The time at which the value was last stored.
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
    /// The namespace: labels from the widest to the narrowest. It must not be empty.
    namespace: Vec<String>,
    /// The key of the item in its namespace.
    key: String,
    /// The value, an object. It replaces an earlier value as a whole.
    #[schema(value_type = Object)]
    value: Map<String, Value>,
    /// The time to live. It must be `null`, because items stay until they are deleted.
    #[serde(default)]
    ttl: Option<Value>,
}

/// The address of an item.
#[derive(Debug, Deserialize, ToSchema)]
struct StoreItemKey {
    /// The namespace.
    #[serde(default)]
    namespace: Option<Vec<String>>,
    /// The key of the item in its namespace.
    key: String,
}

/// Stores an item. An earlier value of the same key is replaced.
#[utoipa::path(put, path = "/store/items", tag = "store", request_body = StoreItemPut,
    responses((status = 204), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody), (status = 413, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn put(caller: Caller, JsonBody(item): JsonBody<StoreItemPut>) -> Result<StatusCode, ApiError> {
    check_namespace(&item.namespace)?;
    if item.ttl.is_some() {
        return Err(ApiError::invalid("`ttl` must be null: items stay until they are deleted"));
    }
    let (items, value) = (caller.agent.memory().items(), Value::Object(item.value));
    items.put(&item.namespace, &item.key, value, Timestamp::now()).await.map_err(agent::Error::from)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Returns an item, or `null` if there is none with that key.
#[utoipa::path(get, path = "/store/items", tag = "store",
    params(("key" = String, Query, description = "The key of the item."), ("namespace" = Option<String>, Query, description = "The namespace: labels joined by dots.")),
    responses((status = 200, body = Option<StoreItem>), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn get(caller: Caller, params: QueryParams) -> Result<Json<Option<StoreItem>>, ApiError> {
    let key = params.text("key").ok_or_else(|| ApiError::invalid("`key` is missing"))?;
    let labels = params.all("namespace").flat_map(|labels| labels.split('.'));
    let namespace: Vec<String> = labels.map(str::to_owned).collect();
    check_namespace(&namespace)?;
    let item = caller.agent.memory().items().get(&namespace, key).await.map_err(agent::Error::from)?;
    Ok(Json(item.map(StoreItem::from)))
}

/// Deletes an item. The request also succeeds if there is none with that key.
#[utoipa::path(delete, path = "/store/items", tag = "store", request_body = StoreItemKey,
    responses((status = 204), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody), (status = 422, body = ErrorBody)))]
async fn delete(caller: Caller, JsonBody(address): JsonBody<StoreItemKey>) -> Result<StatusCode, ApiError> {
    let namespace = address.namespace.unwrap_or_default();
    check_namespace(&namespace)?;
    caller.agent.memory().items().delete(&namespace, &address.key).await.map_err(agent::Error::from)?;
    Ok(StatusCode::NO_CONTENT)
}

/// A search for items. An item must match every condition.
#[derive(Debug, Default, Deserialize, ToSchema)]
struct StoreItemQuery {
    /// Only items whose namespace begins with these labels.
    namespace_prefix: Option<Vec<String>>,
    /// Conditions on fields: a value, or an object of `$eq`, `$ne`, `$gt`, `$gte`, `$lt` and `$lte`.
    #[schema(value_type = Option<Object>)]
    filter: Option<Map<String, Value>>,
    /// The words to search and rank by. Without words, the items that were stored last come first.
    query: Option<String>,
    /// The maximum number of items to return; 10 by default.
    #[schema(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The number of items to skip; 0 by default.
    offset: Option<usize>,
}

/// The result of a search for items.
#[derive(Debug, Serialize, ToSchema)]
struct StoreSearchResults {
    /// The items: the best matches first, or without words the items that were stored last.
    items: Vec<StoreSearchHit>,
}

/// An item that a search found, with its score.
#[derive(Debug, Serialize, ToSchema)]
struct StoreSearchHit {
    #[serde(flatten)]
    item: StoreItem,
    /// The relevance of the item for the words of the search; `null` without words.
    score: Option<f64>,
}

/// Searches the items of the store.
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
    let hits = caller.agent.memory().items().search(&search).await.map_err(agent::Error::from)?;
    let items = hits.into_iter().map(|hit| StoreSearchHit { item: hit.item.into(), score: hit.score });
    Ok(Json(StoreSearchResults { items: items.collect() }))
}

/// A query of the namespaces in use. A namespace must match every condition.
#[derive(Debug, Default, Deserialize, ToSchema)]
struct NamespaceQuery {
    /// Only namespaces that begin with these labels. `*` matches any one label.
    prefix: Option<Vec<String>>,
    /// Only namespaces that end with these labels. `*` matches any one label.
    suffix: Option<Vec<String>>,
    /// The maximum number of labels. Longer namespaces are truncated to their first labels.
    max_depth: Option<usize>,
    /// The maximum number of namespaces to return; 100 by default.
    #[schema(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The number of namespaces to skip; 0 by default.
    offset: Option<usize>,
}

/// A list of namespaces.
#[derive(Debug, Serialize, ToSchema)]
struct NamespaceList {
    /// The namespaces in ascending order, without duplicates.
    namespaces: Vec<Vec<String>>,
}

/// Lists the namespaces that contain items.
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

/// Checks the two rules about namespaces that clients expect to fail with status 400. The `memory` crate checks all
/// other limits.
///
/// # Errors
/// A bad request if the namespace is empty or begins with the reserved label `langgraph`.
fn check_namespace(namespace: &[String]) -> Result<(), ApiError> {
    match namespace.first().map(String::as_str) {
        None => Err(ApiError::bad_request("the namespace is empty")),
        Some("langgraph") => {
            Err(ApiError::bad_request("namespaces that begin with `langgraph` are reserved"))
        }
        Some(_) => Ok(()),
    }
}
