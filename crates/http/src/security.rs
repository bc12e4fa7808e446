//! The security middleware: Host and Origin checks, authentication, and rate and concurrency limits. It runs before
//! every handler. The result is a [`Caller`], whose [`protocol::OwnerScope`] limits what the handler can see in the
//! journal.
//!
//! The *local operator* is the person who runs the server and can read the install token; *users* have keys. The local
//! operator is not limited, because the owner of the process has other ways to use up its resources.
//!
//! The checks are made in this order, and the first that fails ends the request: host name and origin (403),
//! authentication (401), rate limit (429), limit of concurrent requests and streams (429), budget of large bodies (429 or
//! 503). The concurrency permit is held until the body of the response is sent.

mod body_budget;
pub(crate) mod concurrency_limit;
mod host_check;
mod identity;
mod rate_limit;
mod response_body;
pub(crate) mod token;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use langgraph::{ApiError, Caller};
use protocol::OwnerScope;

use crate::server::{AppState, page};

use body_budget::BodyBudget;
use concurrency_limit::{ConcurrencyLimiter, ConcurrencyPermit};
use identity::Identity;
use rate_limit::RateLimiter;
use response_body::{GuardedBody, StreamKey};

pub(crate) use host_check::allows_origin;

/// Paths that need no authentication: their responses describe the program and contain no user data.
const PUBLIC_PATHS: [&str; 5] = ["/", "/ok", "/info", "/docs", "/openapi.json"];

/// The path of imports, whose bodies are not in memory.
const IMPORT_PATH: &str = "/api/import";

/// The share of all connections that users may occupy together (numerator, denominator). The others are reserved for
/// the local operator.
const USERS_CONNECTION_SHARE: (usize, usize) = (7, 8);

/// The state of the security middleware.
#[derive(Clone)]
pub(crate) struct AuthLayer {
    /// The state of the server.
    pub app: AppState,
    /// The rate limits of all users.
    pub rate_limiter: Arc<RateLimiter>,
    /// The limits on concurrent requests and streams.
    concurrency: Arc<ConcurrencyLimiter>,
    /// The budget of request bodies.
    bodies: Arc<BodyBudget>,
}

impl AuthLayer {
    /// Returns the middleware for a server.
    pub fn new(app: AppState) -> Self {
        let limits = &app.settings.limits;
        let rate_limiter = Arc::new(RateLimiter::new(limits.rate));
        let total_max = limits.connections_max / USERS_CONNECTION_SHARE.1 * USERS_CONNECTION_SHARE.0;
        let concurrency = ConcurrencyLimiter::new(limits.open_per_user_max, total_max);
        let bodies = Arc::new(BodyBudget::new(limits.body_bytes_max));
        Self { app, rate_limiter, concurrency, bodies }
    }
}

/// Refuses requests with a foreign host name or origin, before any other middleware or handler.
pub(crate) async fn check_host_and_origin(
    State(auth): State<AuthLayer>,
    request: Request,
    next: Next,
) -> Response {
    let settings = &auth.app.settings;
    match host_check::check_headers(settings, request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    }
}

/// Authenticates a request and applies the limits of its user. The body of a streamed response ends when the key of the
/// request is revoked.
pub(crate) async fn authenticate(
    State(auth): State<AuthLayer>,
    mut request: Request,
    next: Next,
) -> Response {
    if is_public_path(request.method(), request.uri().path()) {
        return next.run(request).await;
    }
    match admit_request(&auth, request.headers()).await {
        Ok((caller, key_id, permit)) => {
            // An import writes its body to a file.
            let body_permit = match request.uri().path() {
                IMPORT_PATH => Ok(None),
                _ => auth.bodies.acquire(&caller.scope, request.headers()).await,
            };
            let body_permit = match body_permit {
                Ok(body_permit) => body_permit,
                Err(refusal) => return refusal.into_response(),
            };
            request.extensions_mut().insert(caller);
            let local_agent = || auth.app.server.scheduler.agent(&OwnerScope::Owner(None));
            let key = key_id.map(|key_id| StreamKey { agent: local_agent(), key_id });
            let response = next.run(request).await;
            drop(body_permit);
            response.map(|body| GuardedBody::wrap(body, permit, key))
        }
        Err(refusal) => refusal.into_response(),
    }
}

/// Returns the caller of a request, the id of the key if one was used, and a concurrency permit for a user.
async fn admit_request(
    auth: &AuthLayer,
    headers: &HeaderMap,
) -> Result<(Caller, Option<String>, Option<ConcurrencyPermit>), ApiError> {
    let Identity { scope, key_id } = identity::resolve_identity(&auth.app, headers).await?;
    auth.rate_limiter.acquire(&scope, std::time::Instant::now())?;
    let permit = auth.concurrency.acquire(&scope, "requests and streams")?;
    let client = client_fingerprint(headers, key_id.as_deref());
    Ok((Caller::new(&auth.app.server, scope, client), key_id, permit))
}

/// Returns a fingerprint of the credential, the program and the page that sent a request. It is the same for all requests
/// of one client, and it is stored with runs instead of the values themselves.
fn client_fingerprint(headers: &HeaderMap, key_id: Option<&str>) -> Arc<str> {
    let named = [header::USER_AGENT, header::ORIGIN].map(|name| headers.get(name).map(HeaderValue::as_bytes));
    let mut text = key_id.unwrap_or_default().as_bytes().to_vec();
    for value in named {
        text.push(b'\n');
        text.extend_from_slice(value.unwrap_or_default());
    }
    protocol::sha256_hex(text).into()
}

/// Returns whether a request needs no authentication.
fn is_public_path(method: &Method, path: &str) -> bool {
    let is_read = method == Method::GET || method == Method::HEAD;
    is_read && (PUBLIC_PATHS.contains(&path) || path.starts_with(page::ASSETS_PATH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k2_only_paths_without_anyones_data_need_no_authentication() {
        for path in ["/ok", "/info", "/", "/docs", "/openapi.json", "/assets/index-1.js"] {
            assert!(is_public_path(&Method::GET, path), "{path}");
            assert!(!is_public_path(&Method::POST, path), "{path}");
        }
        for path in [
            "/metrics",
            "/threads",
            "/api/memory",
            "/ok/",
            "//ok",
            "/OK",
            "/threads/search",
            "/assets",
            "/api/assets/x",
        ] {
            assert!(!is_public_path(&Method::GET, path), "{path}");
        }
    }
}
