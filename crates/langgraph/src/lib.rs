//! The Agent Server protocol: the shapes of its wire, its requests, states and streams, as endpoints that a server mounts.
//!
//! A handler reads a request, asks `agent` or the scheduler, and gives the answer its shape. What a run does, and which run
//! works when, is decided in the crates below. Authentication, limits, metrics and Segue's own endpoints belong to the server
//! that mounts [`routes`]; what both need of HTTP ([`ApiError`], [`extract`], [`Caller`]) is here.

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

/// Returns the endpoints. Each request must carry its [`Caller`] as an extension.
pub fn routes<S: Clone + Send + Sync + 'static>() -> OpenApiRouter<S> {
    OpenApiRouter::new().merge(resources::routes()).merge(runs::routes()).merge(events::routes())
}
