//! The event-streaming protocol of threads: commands in, one stream of numbered events out, over runs. It is another
//! face of the same runs; what they do is decided below.

mod commands;
mod filter;
mod follow;
mod out;
mod said;
mod stored;
mod translate;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::server::Gateway;

/// Returns the endpoints.
pub(crate) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new().routes(routes!(commands::command)).routes(routes!(follow::events))
}
