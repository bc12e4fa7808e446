//! The event-streaming protocol of threads: clients send commands, and receive one stream of numbered events that spans
//! all runs of a thread.
//!
//! This is a second protocol for the same runs that the endpoints in [`crate::runs`] serve. It contains no rules about
//! runs: commands become ordinary run requests for the scheduler, and the events are encoded from the same stream
//! items.

mod commands;
mod encode;
pub(crate) mod filter;
mod follow;
mod history;
mod messages;
pub(crate) mod writer;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Returns the routes of the commands and of the event stream.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> OpenApiRouter<S> {
    OpenApiRouter::new()
        .routes(routes!(commands::execute_command))
        .routes(routes!(follow::stream_thread_events))
}
