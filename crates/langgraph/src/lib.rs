//! The Agent Server protocol of LangGraph, as HTTP endpoints that a server mounts: the parsing of requests, the JSON
//! shapes of responses, and the event streams.
//!
//! A handler parses a request, calls `agent` or the scheduler, and converts the result into the protocol's JSON. The
//! rules of a run are in `agent` and below, and the order of runs is decided by the scheduler. Authentication,
//! limits, metrics and Segue's own endpoints belong to the server that mounts [`routes`]. The HTTP helpers that both
//! need ([`ApiError`], [`extract`], [`Caller`]) are defined here.

mod caller;
mod error;
mod events;
pub mod extract;
mod modes;
mod requests;
mod resources;
mod runs;
mod sse;
mod streams;
mod wire;

use utoipa_axum::router::OpenApiRouter;

pub use caller::{Caller, OpenStreams, SharedServices};
pub use error::{ApiError, ErrorBody};
pub use requests::read_request;
pub use requests::state_update::read_state_update;
pub use resources::find_thread;
pub use runs::find_run;
pub use wire::webhook::render_body as render_webhook_body;
pub use wire::{AnyObject, Interrupt};

/// Returns the router with all endpoints of the protocol.
///
/// The server must insert a [`Caller`] into the extensions of each request; a request without one is refused with 401.
pub fn routes<S: Clone + Send + Sync + 'static>() -> OpenApiRouter<S> {
    OpenApiRouter::new().merge(resources::routes()).merge(runs::routes()).merge(events::routes())
}
