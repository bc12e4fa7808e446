//! The event-streaming protocol of threads: commands in, one stream of numbered events out, over runs. It is another
//! face of the same runs; what they do is decided below.

mod commands;
mod encode;
pub(crate) mod filter;
mod follow;
mod messages;
pub(crate) mod out;
mod stored;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Returns the endpoints.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> OpenApiRouter<S> {
    OpenApiRouter::new().routes(routes!(commands::command)).routes(routes!(follow::events))
}
