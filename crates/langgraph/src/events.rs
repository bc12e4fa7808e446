//! The event-streaming protocol of threads: commands in, one stream of numbered events out, over runs. It is another
//! face of the same runs; what they do is decided below.

mod commands;
mod encode;
pub(crate) mod filter;
mod follow;
mod history;
mod messages;
pub(crate) mod writer;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Returns the endpoints.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> OpenApiRouter<S> {
    OpenApiRouter::new()
        .routes(routes!(commands::execute_command))
        .routes(routes!(follow::stream_thread_events))
}
