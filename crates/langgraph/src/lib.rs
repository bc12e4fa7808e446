//! The Agent Server protocol: the shapes of its wire, its requests, states and streams, as endpoints that a server mounts.
//!
//! A handler reads a request, asks `agent` or the scheduler, and gives the answer its shape. What a run does, and which run
//! works when, is decided in the crates below. Authentication, limits, metrics and Segue's own endpoints belong to the server
//! that mounts [`routes`]; what both need of HTTP ([`Fault`], [`extract`], [`Caller`]) is here.

mod caller;
mod events;
pub mod extract;
mod fault;
mod modes;
mod requests;
mod resources;
mod runs;
mod sse;
mod streams;
mod wire;

use utoipa_axum::router::OpenApiRouter;

pub use caller::{Caller, OpenStreams, Server};
pub use fault::{Envelope, Fault};
pub use requests::change::read_change;
pub use requests::read_request;
pub use resources::thread;
pub use runs::row as run;
pub use wire::webhook::body as webhook_body;
pub use wire::{AnyObject, Interrupt};

/// Returns the endpoints. Each request must carry its [`Caller`] as an extension.
pub fn routes<S: Clone + Send + Sync + 'static>() -> OpenApiRouter<S> {
    OpenApiRouter::new().merge(resources::routes()).merge(runs::routes()).merge(events::routes())
}
