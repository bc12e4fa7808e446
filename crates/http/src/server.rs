//! The HTTP server: assembles the router from the routes and middleware of all modules, serves connections, and shuts
//! down. Each endpoint is implemented in its own module.

mod connections;
pub(crate) mod error;
pub(crate) mod metrics;
mod openapi;
pub(crate) mod page;
pub(crate) mod settings;
mod system;
mod write_timeout;

use std::any::Any;
use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{HeaderName, StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Redirect, Response};
use langgraph::ApiError;
use scheduler::Scheduler;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::{AllowHeaders, AllowMethods, AllowOrigin, CorsLayer};
use utoipa_axum::router::OpenApiRouter;

use crate::security::concurrency_limit::ConcurrencyLimiter;
use crate::security::{self, AuthLayer};
use crate::{Result, ServerSettings, api};

use metrics::RequestCounters;

/// Seconds for which a browser may cache the response to a CORS preflight request.
const PREFLIGHT_SECONDS: u64 = 600;

/// Imports of one user that may run at the same time.
const IMPORTS_PER_USER_MAX: usize = 2;

/// Imports of all users that may run at the same time.
const IMPORTS_MAX: usize = 8;

/// The state that every handler receives.
#[derive(Clone)]
pub(crate) struct AppState {
    /// The services that the Agent Server protocol needs.
    pub server: Arc<langgraph::SharedServices>,
    /// The settings of the server.
    pub settings: Arc<ServerSettings>,
    /// The request counters for `/metrics`.
    pub counters: Arc<RequestCounters>,
    /// The limits of concurrent imports.
    pub imports: Arc<ConcurrencyLimiter>,
}

/// Serves clients at `listener` until `shutdown` is cancelled. Then it lets active runs reach a durable step, ends
/// streams, and returns.
///
/// The shutdown takes at most [`crate::ServerLimits::grace`] for the runs, and a few seconds more for responses in
/// progress. Runs that do not reach a durable step in time are resumed by another process or the next start.
///
/// Before calling it, the caller recovers the work of earlier processes ([`Scheduler::recover`]) and starts the
/// counting for `/metrics` ([`agent::AdminService::start_trace_export_with_metrics`]).
///
/// # Errors
/// [`crate::Error::Unprotected`] if the settings would let any client in without authentication, and
/// [`crate::Error::Listen`] if the address of the listener cannot be read.
pub async fn serve(
    listener: TcpListener,
    scheduler: Arc<Scheduler>,
    settings: ServerSettings,
    shutdown: CancellationToken,
) -> Result<()> {
    settings.check_exposure(listener.local_addr()?)?;
    scheduler.enable_webhooks(Arc::new(|ended| Box::pin(langgraph::render_webhook_body(ended))));
    let grace = settings.limits.grace;
    let state = AppState {
        server: Arc::new(langgraph::SharedServices {
            scheduler: Arc::clone(&scheduler),
            open_streams: langgraph::OpenStreams::default(),
            closing: shutdown.clone(),
        }),
        counters: Arc::default(),
        imports: ConcurrencyLimiter::new(IMPORTS_PER_USER_MAX, IMPORTS_MAX),
        settings: Arc::new(settings),
    };
    let connections_max = state.settings.limits.connections_max;
    let connections =
        connections::accept_connections(listener, build_router(state), connections_max, &shutdown).await;
    scheduler.shutdown(grace).await;
    connections.drain().await;
    Ok(())
}

/// Returns the whole server as one service. Layers added last run first: metrics, Host and Origin checks, CORS, panics,
/// authentication, and the body limit.
fn build_router(state: AppState) -> Router {
    let auth = AuthLayer::new(state.clone());
    let (router, api) = endpoints().split_for_parts();
    let document = openapi::render_document(api);
    let counters = Arc::clone(&state.counters);
    let body_bytes_max = state.settings.limits.body_bytes_max;
    router
        .merge(openapi::docs_routes(document))
        .merge(page::routes())
        .fallback(handle_unknown_path)
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(state.clone())
        .layer(DefaultBodyLimit::max(body_bytes_max))
        .layer(middleware::from_fn_with_state(auth.clone(), security::authenticate))
        .layer(CatchPanicLayer::custom(panic_response))
        .layer(cors_layer(state))
        .layer(middleware::from_fn_with_state(auth, security::check_host_and_origin))
        .layer(middleware::from_fn_with_state(counters, metrics::count_request))
}

/// Returns the endpoints of all modules.
fn endpoints() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().merge(system::routes()).merge(langgraph::routes()).merge(api::routes())
}

/// Returns the CORS layer: it lets pages of allowed origins read responses, and answers preflight requests.
fn cors_layer(state: AppState) -> CorsLayer {
    let settings = state.settings;
    let exposed = [
        header::CONTENT_LOCATION,
        header::LOCATION,
        header::RETRY_AFTER,
        HeaderName::from_static("x-pagination-total"),
        HeaderName::from_static("x-pagination-next"),
        HeaderName::from_static("x-search-cut"),
    ];
    CorsLayer::new()
        .allow_origin(AllowOrigin::predicate(move |origin, _| security::allows_origin(&settings, origin)))
        .allow_methods(AllowMethods::mirror_request())
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers(exposed)
        .max_age(std::time::Duration::from_secs(PREFLIGHT_SECONDS))
}

/// Handles an unknown path: redirects if a trailing slash is the only difference, and responds with 404 otherwise.
async fn handle_unknown_path(request: Request) -> Response {
    let uri = request.uri();
    match uri.path().strip_suffix('/') {
        Some(path) if is_local_path(path) => {
            let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
            Redirect::temporary(&format!("{path}{query}")).into_response()
        }
        Some(_) | None => ApiError::not_found("Not Found").into_response(),
    }
}

/// Returns whether a browser resolves the path on this server. Two leading slashes would lead to another host, and
/// browsers read a backslash as a slash. No endpoint needs either.
fn is_local_path(path: &str) -> bool {
    path.starts_with('/') && !path.contains("//") && !path.contains('\\')
}

/// Responds to a method that the path does not support.
async fn method_not_allowed() -> ApiError {
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "Method Not Allowed")
}

/// Returns the response of a handler that panicked. Only its own request fails.
fn panic_response(panic: Box<dyn Any + Send + 'static>) -> Response {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    ApiError::internal(format!("a handler panicked: {text}")).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k3_a_trailing_slash_never_redirects_to_another_host() {
        for path in ["/threads", "/threads/%5C/x", "/a.b/c"] {
            assert!(is_local_path(path), "{path}");
        }
        for path in ["", "//evil.example", "/\\evil.example", "\\\\evil.example", "///evil.example", "/a//b"]
        {
            assert!(!is_local_path(path), "{path}");
        }
    }
}
