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
use crate::extract::{Body, Params};
use crate::fault::{Envelope, Fault};
use crate::wire::timestamp;

use super::page::Page;

/// Returns the endpoints.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> OpenApiRouter<S> {
    OpenApiRouter::new().routes(routes!(get, put, delete)).routes(routes!(search)).routes(routes!(namespaces))
}

/// Something kept under a name.
#[derive(Debug, Serialize, ToSchema)]
struct Item {
    /// Where: labels from the widest to the narrowest.
    namespace: Vec<String>,
    /// Its name there.
    key: String,
    /// What is kept.
    #[schema(value_type = Object)]
    value: Map<String, Value>,
    /// When the name was first used.
    created_at: String,
    /// When it was last put.
    updated_at: String,
}

impl From<protocol::Item> for Item {
    fn from(item: protocol::Item) -> Self {
        let (created_at, updated_at) = (timestamp(item.created_at), timestamp(item.updated_at));
        Self { namespace: item.namespace, key: item.key, value: item.value, created_at, updated_at }
    }
}

/// What to keep.
#[derive(Debug, Deserialize, ToSchema)]
struct ItemPut {
    /// Where: labels from the widest to the narrowest.
    namespace: Vec<String>,
    /// The name there.
    key: String,
    /// What: an object.
    #[schema(value_type = Object)]
    value: Map<String, Value>,
    /// Minutes after which it goes: `null`, for it stays until it is removed.
    #[serde(default)]
    ttl: Option<Value>,
}

/// Names what is kept.
#[derive(Debug, Deserialize, ToSchema)]
struct ItemName {
    /// Where.
    #[serde(default)]
    namespace: Option<Vec<String>>,
    /// The name there.
    key: String,
}

/// Keeps something under a name, in place of what was kept there.
#[utoipa::path(put, path = "/store/items", tag = "store", request_body = ItemPut,
    responses((status = 204), (status = 400, body = Envelope), (status = 401, body = Envelope), (status = 413, body = Envelope), (status = 422, body = Envelope)))]
async fn put(caller: Caller, Body(item): Body<ItemPut>) -> Result<StatusCode, Fault> {
    check(&item.namespace)?;
    if item.ttl.is_some() {
        return Err(Fault::invalid("`ttl` must be null: items stay until they are removed"));
    }
    let (items, value) = (caller.agent.memory().items(), Value::Object(item.value));
    items.put(&item.namespace, &item.key, value, Timestamp::now()).await.map_err(agent::Error::from)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Returns what is kept under a name, or `null`.
#[utoipa::path(get, path = "/store/items", tag = "store",
    params(("key" = String, Query, description = "The name."), ("namespace" = Option<String>, Query, description = "Where: labels joined by dots.")),
    responses((status = 200, body = Option<Item>), (status = 400, body = Envelope), (status = 401, body = Envelope), (status = 422, body = Envelope)))]
async fn get(caller: Caller, params: Params) -> Result<Json<Option<Item>>, Fault> {
    let key = params.text("key").ok_or_else(|| Fault::invalid("`key` is missing"))?;
    let labels = params.all("namespace").flat_map(|labels| labels.split('.'));
    let namespace: Vec<String> = labels.map(str::to_owned).collect();
    check(&namespace)?;
    let found = caller.agent.memory().items().get(&namespace, key).await.map_err(agent::Error::from)?;
    Ok(Json(found.map(Item::from)))
}

/// Removes what is kept under a name; nothing when there is nothing.
#[utoipa::path(delete, path = "/store/items", tag = "store", request_body = ItemName,
    responses((status = 204), (status = 400, body = Envelope), (status = 401, body = Envelope), (status = 422, body = Envelope)))]
async fn delete(caller: Caller, Body(name): Body<ItemName>) -> Result<StatusCode, Fault> {
    let namespace = name.namespace.unwrap_or_default();
    check(&namespace)?;
    caller.agent.memory().items().delete(&namespace, &name.key).await.map_err(agent::Error::from)?;
    Ok(StatusCode::NO_CONTENT)
}

/// What to look for.
#[derive(Debug, Default, Deserialize, ToSchema)]
struct ItemQuery {
    /// Only namespaces that begin with these labels.
    namespace_prefix: Option<Vec<String>>,
    /// What fields must be: a value, or an object of `$eq`, `$ne`, `$gt`, `$gte`, `$lt` and `$lte`.
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

/// What was found.
#[derive(Debug, Serialize, ToSchema)]
struct FoundItems {
    /// The items.
    items: Vec<FoundItem>,
}

/// An item, and how well it matches.
#[derive(Debug, Serialize, ToSchema)]
struct FoundItem {
    #[serde(flatten)]
    item: Item,
    /// How well it matches the words; `null` without words.
    score: Option<f64>,
}

/// Finds what is kept.
#[utoipa::path(post, path = "/store/items/search", tag = "store", request_body = ItemQuery,
    responses((status = 200, body = FoundItems), (status = 401, body = Envelope), (status = 422, body = Envelope)))]
async fn search(caller: Caller, Body(query): Body<ItemQuery>) -> Result<Json<FoundItems>, Fault> {
    let page = Page::of(query.limit, query.offset, 10)?;
    let search = ItemSearch {
        namespace_prefix: query.namespace_prefix.unwrap_or_default(),
        filter: query.filter,
        query: query.query,
        limit: page.limit,
        offset: page.offset,
    };
    let found = caller.agent.memory().items().search(&search).await.map_err(agent::Error::from)?;
    let items = found.into_iter().map(|found| FoundItem { item: found.item.into(), score: found.score });
    Ok(Json(FoundItems { items: items.collect() }))
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
struct Namespaces {
    /// Each once, in order.
    namespaces: Vec<Vec<String>>,
}

/// Lists the namespaces in use.
#[utoipa::path(post, path = "/store/namespaces", tag = "store", request_body = NamespaceQuery,
    responses((status = 200, body = Namespaces), (status = 401, body = Envelope), (status = 422, body = Envelope)))]
async fn namespaces(caller: Caller, Body(query): Body<NamespaceQuery>) -> Result<Json<Namespaces>, Fault> {
    let page = Page::of(query.limit, query.offset, 100)?;
    let search = NamespaceSearch {
        prefix: query.prefix,
        suffix: query.suffix,
        max_depth: query.max_depth,
        limit: page.limit,
        offset: page.offset,
    };
    let namespaces =
        caller.agent.memory().items().list_namespaces(&search).await.map_err(agent::Error::from)?;
    Ok(Json(Namespaces { namespaces }))
}

/// Refuses namespaces that make no sense with the status clients expect; everything else is the memory's to refuse.
fn check(namespace: &[String]) -> Result<(), Fault> {
    match namespace.first().map(String::as_str) {
        None => Err(Fault::bad_request("the namespace is empty")),
        Some("langgraph") => Err(Fault::bad_request("namespaces that begin with `langgraph` are reserved")),
        Some(_) => Ok(()),
    }
}
