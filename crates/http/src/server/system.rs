//! The endpoints for the health, version and metrics of the server. The path `/` responds with the web page to browsers.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use langgraph::extract::QueryParams;
use langgraph::{AnyObject, ApiError, Caller, ErrorBody};
use protocol::OwnerScope;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::server::AppState;
use crate::server::metrics::{activity, mirror, pool};
use crate::server::page;

/// Returns the endpoints.
pub(crate) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(root))
        .layer(page::compression_layer())
        .routes(routes!(ok))
        .routes(routes!(info))
        .routes(routes!(metrics))
}

/// The health of the server.
#[derive(Debug, Serialize, ToSchema)]
struct HealthStatus {
    /// Always true.
    ok: bool,
    /// Always empty: the server depends on no other service.
    services: AnyObject,
}

/// The version and the features of the server.
#[derive(Debug, Serialize, ToSchema)]
struct ServerInfo {
    /// The version of Segue.
    version: &'static str,
    /// The parts of the API that are available.
    flags: ApiFlags,
    /// The kind of server.
    host: HostInfo,
}

/// The parts of the API that are available.
#[derive(Debug, Serialize, ToSchema)]
struct ApiFlags {
    /// Assistants.
    assistants: bool,
    /// Scheduled runs (crons).
    crons: bool,
    /// Traces in LangSmith.
    langsmith: bool,
    /// Answers to questions that are no longer pending can be refused.
    strict_resume: bool,
    /// Segue's own endpoints under `/api`.
    segue: bool,
}

/// The kind of server.
#[derive(Debug, Serialize, ToSchema)]
struct HostInfo {
    /// Always `self-hosted`.
    kind: &'static str,
}

/// Checks that the server works; a browser gets the page.
#[utoipa::path(get, path = "/", tag = "system", security(()), params(("check_db" = Option<bool>, Query, description = "Whether to check the database too.")),
    responses((status = 200, content((HealthStatus = "application/json"), (String = "text/html"))), (status = 422, body = ErrorBody), (status = 503, body = ErrorBody)))]
async fn root(state: State<AppState>, params: QueryParams, headers: HeaderMap) -> Result<Response, ApiError> {
    let mut response = match page::prefers_html(&headers) {
        true => page::index_response(&headers),
        false => ok(state, params).await?.into_response(),
    };
    response.headers_mut().append(header::VARY, HeaderValue::from_static("accept"));
    Ok(response)
}

/// Checks that the server works. It fails if the file of the database was deleted, replaced or truncated.
#[utoipa::path(get, path = "/ok", tag = "system", security(()), params(("check_db" = Option<bool>, Query, description = "Whether to check the database too.")),
    responses((status = 200, body = HealthStatus), (status = 422, body = ErrorBody), (status = 503, body = ErrorBody)))]
async fn ok(State(state): State<AppState>, params: QueryParams) -> Result<Json<HealthStatus>, ApiError> {
    let agent = state.server.scheduler.agent(&OwnerScope::Owner(None));
    if let Err(error) = agent.admin().check_database() {
        tracing::error!(%error, "the database is lost");
        // The response has no path, because it needs no authentication.
        return Err(error.into());
    }
    if params.flag("check_db")?.unwrap_or(false)
        && let Err(error) =
            agent.threads().list(agent::ThreadFilter::for_scope(OwnerScope::Owner(None), 1)).await
    {
        tracing::error!(%error, "failed to read the database");
        return Err(ApiError::unavailable("the database cannot be read"));
    }
    Ok(Json(HealthStatus { ok: true, services: AnyObject::default() }))
}

/// Returns the version and the available parts of the API.
#[utoipa::path(get, path = "/info", tag = "system", security(()), responses((status = 200, body = ServerInfo)))]
async fn info() -> Json<ServerInfo> {
    Json(ServerInfo {
        version: env!("CARGO_PKG_VERSION"),
        flags: ApiFlags {
            assistants: true,
            crons: false,
            langsmith: false,
            strict_resume: true,
            segue: true,
        },
        host: HostInfo { kind: "self-hosted" },
    })
}

/// Returns the metrics, in Prometheus' text format. They are for operators, because they concern all users.
#[utoipa::path(get, path = "/metrics", tag = "system",
    responses((status = 200, body = String, content_type = "text/plain"), (status = 401, body = ErrorBody), (status = 403, body = ErrorBody),
        (status = 429, body = ErrorBody)))]
async fn metrics(State(state): State<AppState>, caller: Caller) -> Result<Response, ApiError> {
    if !state.settings.is_operator(&caller.scope) {
        return Err(ApiError::forbidden("the metrics need the key of an operator").with_hint(
            "use the token in the home folder of the server, or the key of a user whom `segue serve --operator USER` names",
        ));
    }
    let mut text =
        state.counters.render_text(state.server.scheduler.metrics(), state.server.open_streams.count());
    let agent = state.server.scheduler.agent(&OwnerScope::Owner(None));
    text.push_str(&activity::activity_metrics(&agent.admin().trace_metrics()));
    text.push_str(&mirror::mirror_metrics(&agent).await);
    text.push_str(&pool::pool_metrics(&agent));
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}
