//! The door: by which name and from which page a request comes, who sends it, how often, and how many at a time. It runs
//! before every handler; what a caller may see is then the [`protocol::Scope`] in their [`Caller`], and the journal's work.

mod identity;
mod names;
mod open;
pub(crate) mod places;
mod rate;
pub(crate) mod token;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use langgraph::{Caller, Fault};
use protocol::Scope;

use crate::server::{Gateway, page};

use identity::Identity;
use open::{Open, StreamKey};
use places::{Place, Places};
use rate::Buckets;

pub(crate) use names::allows_origin;

/// Paths that are answered to anybody: they tell of the program, not of anyone's data.
const OPEN_PATHS: [&str; 5] = ["/", "/ok", "/info", "/docs", "/openapi.json"];

/// The part of all connections that users may take together; the rest is for the person at the machine.
const USERS_SHARE: (usize, usize) = (7, 8);

/// What the door knows.
#[derive(Clone)]
pub(crate) struct Door {
    /// The server.
    pub gateway: Gateway,
    /// How often each user came.
    pub buckets: Arc<Buckets>,
    /// What is under way for each user.
    open: Arc<Places>,
}

impl Door {
    /// Returns the door of a server.
    pub fn new(gateway: Gateway) -> Self {
        let limits = &gateway.settings.limits;
        let buckets = Arc::new(Buckets::new(limits.rate));
        let all_max = limits.connections_max / USERS_SHARE.1 * USERS_SHARE.0;
        let open = Places::new(limits.open_per_user_max, all_max);
        Self { gateway, buckets, open }
    }
}

/// Refuses requests by foreign names, and those of foreign pages, before anything else looks at them.
pub(crate) async fn check_place(State(door): State<Door>, request: Request, next: Next) -> Response {
    let settings = &door.gateway.settings;
    match names::check(settings, request.headers()) {
        Ok(()) => next.run(request).await,
        Err(fault) => fault.into_response(),
    }
}

/// Finds out who sends a request, and whether they may send another one already. An answer that goes on is broken off when
/// its key is revoked.
pub(crate) async fn check_person(State(door): State<Door>, mut request: Request, next: Next) -> Response {
    if is_open(request.method(), request.uri().path()) {
        return next.run(request).await;
    }
    match admit(&door, request.headers()).await {
        Ok((caller, key_id, place)) => {
            request.extensions_mut().insert(caller);
            let at_the_machine = || door.gateway.server.dispatch.agent(&Scope::Owner(None));
            let key = key_id.map(|key_id| StreamKey { agent: at_the_machine(), key_id });
            next.run(request).await.map(|body| Open::body(body, place, key))
        }
        Err(fault) => fault.into_response(),
    }
}

async fn admit(door: &Door, headers: &HeaderMap) -> Result<(Caller, Option<String>, Option<Place>), Fault> {
    let Identity { scope, key_id } = identity::of(&door.gateway, headers).await?;
    door.buckets.take(&scope, std::time::Instant::now())?;
    let place = door.open.take(&scope, "requests and streams")?;
    Ok((Caller::new(&door.gateway.server, scope), key_id, place))
}

fn is_open(method: &Method, path: &str) -> bool {
    let is_read = method == Method::GET || method == Method::HEAD;
    is_read && (OPEN_PATHS.contains(&path) || path.starts_with(page::ASSETS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k2_only_what_tells_nothing_of_anyone_is_answered_to_anybody() {
        for path in ["/ok", "/info", "/", "/docs", "/openapi.json", "/assets/index-1.js"] {
            assert!(is_open(&Method::GET, path), "{path}");
            assert!(!is_open(&Method::POST, path), "{path}");
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
            assert!(!is_open(&Method::GET, path), "{path}");
        }
    }
}
