//! The server: the router assembled from each module's routes, what lies around it, connections, and the end. What an
//! endpoint does is in the module it comes from.

mod connections;
mod docs;
pub(crate) mod error;
pub(crate) mod metrics;
pub(crate) mod page;
mod patient;
pub(crate) mod settings;
mod system;

use std::any::Any;
use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{HeaderName, StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Redirect, Response};
use langgraph::Fault;
use scheduler::Dispatch;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::{AllowHeaders, AllowMethods, AllowOrigin, CorsLayer};
use utoipa_axum::router::OpenApiRouter;

use crate::security::places::Places;
use crate::security::{self, Door};
use crate::{Result, Settings, own};

use metrics::Counters;

/// Seconds for which a browser need not ask again whether it may.
const PREFLIGHT_SECONDS: u64 = 600;

/// Imports at a time, of one user.
const IMPORTS_PER_USER_MAX: usize = 2;

/// Imports at a time, of all users.
const IMPORTS_MAX: usize = 8;

/// What every handler is given.
#[derive(Clone)]
pub(crate) struct Gateway {
    /// The services that the Agent Server protocol needs.
    pub server: Arc<langgraph::Server>,
    /// What the server is told about itself.
    pub settings: Arc<Settings>,
    /// What is counted.
    pub counters: Arc<Counters>,
    /// Sessions that users send at the moment.
    pub imports: Arc<Places>,
}

/// Answers clients at `listener` until `shutdown` is cancelled; then runs under way reach a durable step, streams end, and
/// it returns. Recovery of what an earlier process left is the caller's, before, and so is to begin what `/metrics` counts
/// ([`agent::AdminService::send_traces_and_count`]).
///
/// # Errors
/// When the settings would let anybody in, or the address cannot be listened at.
pub async fn serve(
    listener: TcpListener,
    dispatch: Arc<Dispatch>,
    settings: Settings,
    shutdown: CancellationToken,
) -> Result<()> {
    settings.check(listener.local_addr()?)?;
    dispatch.tell_webhooks(Arc::new(|ended| Box::pin(langgraph::webhook_body(ended))));
    let grace = settings.limits.grace;
    let gateway = Gateway {
        server: Arc::new(langgraph::Server {
            dispatch: Arc::clone(&dispatch),
            streams: langgraph::OpenStreams::default(),
            closing: shutdown.clone(),
        }),
        counters: Arc::default(),
        imports: Places::new(IMPORTS_PER_USER_MAX, IMPORTS_MAX),
        settings: Arc::new(settings),
    };
    let most = gateway.settings.limits.connections_max;
    let open = connections::accept(listener, router(gateway), most, &shutdown).await;
    dispatch.shutdown(grace).await;
    open.end().await;
    Ok(())
}

/// Returns the whole server as one service.
fn router(gateway: Gateway) -> Router {
    let door = Door::new(gateway.clone());
    let (router, api) = endpoints().split_for_parts();
    let described = docs::describe(api);
    let counters = Arc::clone(&gateway.counters);
    let body_bytes_max = gateway.settings.limits.body_bytes_max;
    router
        .merge(docs::pages(described))
        .merge(page::routes())
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .with_state(gateway.clone())
        .layer(DefaultBodyLimit::max(body_bytes_max))
        .layer(middleware::from_fn_with_state(door.clone(), security::check_person))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(cors(gateway))
        .layer(middleware::from_fn_with_state(door, security::check_place))
        .layer(middleware::from_fn_with_state(counters, metrics::count))
}

/// Returns the endpoints of every module.
fn endpoints() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new().merge(system::routes()).merge(langgraph::routes()).merge(own::routes())
}

/// Which pages may read what they get, and how they ask before.
fn cors(gateway: Gateway) -> CorsLayer {
    let settings = gateway.settings;
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

/// A path that is none; with a slash too much it is told where to go.
async fn no_route(request: Request) -> Response {
    let uri = request.uri();
    match uri.path().strip_suffix('/') {
        Some(path) if leads_here(path) => {
            let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
            Redirect::temporary(&format!("{path}{query}")).into_response()
        }
        Some(_) | None => Fault::not_found("Not Found").into_response(),
    }
}

/// Returns whether a browser takes that for a path of this server. Two slashes at the beginning lead to another host, and
/// browsers read a backslash as one; endpoints need neither.
fn leads_here(path: &str) -> bool {
    path.starts_with('/') && !path.contains("//") && !path.contains('\\')
}

async fn no_method() -> Fault {
    Fault::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "Method Not Allowed")
}

/// A handler that panics fails its own request only.
fn panicked(panic: Box<dyn Any + Send + 'static>) -> Response {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    Fault::internal(format!("a handler panicked: {text}")).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k3_a_slash_too_much_leads_to_no_other_host() {
        for path in ["/threads", "/threads/%5C/x", "/a.b/c"] {
            assert!(leads_here(path), "{path}");
        }
        for path in ["", "//evil.example", "/\\evil.example", "\\\\evil.example", "///evil.example", "/a//b"]
        {
            assert!(!leads_here(path), "{path}");
        }
    }
}
