//! Health, version and figures of the server.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use langgraph::extract::Params;
use langgraph::{AnyObject, Caller, Envelope, Fault};
use protocol::Scope;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::server::Gateway;
use crate::server::metrics::{mirror, pool, work};
use crate::server::page;

/// Returns the endpoints.
pub(crate) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new()
        .routes(routes!(root))
        .layer(page::smaller())
        .routes(routes!(ok))
        .routes(routes!(info))
        .routes(routes!(metrics))
}

/// That the server works.
#[derive(Debug, Serialize, ToSchema)]
struct Health {
    /// Always true.
    ok: bool,
    /// Nothing else has to work for it.
    services: AnyObject,
}

/// What the server is.
#[derive(Debug, Serialize, ToSchema)]
struct Info {
    /// The version of Segue.
    version: &'static str,
    /// Which parts of the API there are.
    flags: Flags,
    /// What kind of server it is.
    host: Host,
}

/// Which parts of the API there are.
#[derive(Debug, Serialize, ToSchema)]
struct Flags {
    /// Assistants.
    assistants: bool,
    /// Runs at set times.
    crons: bool,
    /// Traces in LangSmith.
    langsmith: bool,
    /// Answers to what does not wait can be refused.
    strict_resume: bool,
    /// Segue's own endpoints under `/api`.
    segue: bool,
}

/// What kind of server it is.
#[derive(Debug, Serialize, ToSchema)]
struct Host {
    /// Always `self-hosted`.
    kind: &'static str,
}

/// Says that the server works; a browser is shown the page.
#[utoipa::path(get, path = "/", tag = "system", security(()), params(("check_db" = Option<bool>, Query, description = "Whether to look into the database too.")),
    responses((status = 200, content((Health = "application/json"), (String = "text/html"))), (status = 422, body = Envelope), (status = 503, body = Envelope)))]
async fn root(gateway: State<Gateway>, params: Params, headers: HeaderMap) -> Result<Response, Fault> {
    let mut response = match page::is_wanted(&headers) {
        true => page::index(&headers),
        false => ok(gateway, params).await?.into_response(),
    };
    response.headers_mut().append(header::VARY, HeaderValue::from_static("accept"));
    Ok(response)
}

/// Says that the server works.
#[utoipa::path(get, path = "/ok", tag = "system", security(()), params(("check_db" = Option<bool>, Query, description = "Whether to look into the database too.")),
    responses((status = 200, body = Health), (status = 422, body = Envelope), (status = 503, body = Envelope)))]
async fn ok(State(gateway): State<Gateway>, params: Params) -> Result<Json<Health>, Fault> {
    if params.flag("check_db")?.unwrap_or(false) {
        let agent = gateway.server.dispatch.agent(&Scope::Owner(None));
        if let Err(error) = agent.threads().list(agent::ThreadFilter::of(Scope::Owner(None), 1)).await {
            tracing::error!(%error, "the database cannot be read");
            return Err(Fault::unavailable("the database cannot be read"));
        }
    }
    Ok(Json(Health { ok: true, services: AnyObject::default() }))
}

/// Tells the version and which parts of the API there are.
#[utoipa::path(get, path = "/info", tag = "system", security(()), responses((status = 200, body = Info)))]
async fn info() -> Json<Info> {
    Json(Info {
        version: env!("CARGO_PKG_VERSION"),
        flags: Flags { assistants: true, crons: false, langsmith: false, strict_resume: true, segue: true },
        host: Host { kind: "self-hosted" },
    })
}

/// Tells what was counted, in Prometheus' text form.
#[utoipa::path(get, path = "/metrics", tag = "system",
    responses((status = 200, body = String, content_type = "text/plain"), (status = 401, body = Envelope), (status = 429, body = Envelope)))]
async fn metrics(State(gateway): State<Gateway>, _: Caller) -> Response {
    let mut text = gateway.counters.text(gateway.server.dispatch.figures(), gateway.server.streams.count());
    let agent = gateway.server.dispatch.agent(&Scope::Owner(None));
    text.push_str(&work::text(&agent.admin().counted()));
    text.push_str(&mirror::text(&agent).await);
    text.push_str(&pool::text(&agent));
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}
