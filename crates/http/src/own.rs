//! Segue's own endpoints, under `/api`: what people are shown of a thread, compaction, handoffs, lineage, search, memory,
//! import. They are for clients that want more than the Agent Server API knows; each asks the agent and gives its answer a
//! documented shape. What changes a thread waits in line with its runs.

mod condense;
mod feedback;
mod handoffs;
mod held;
mod history;
mod import;
mod lineage;
mod memory;
mod search;
mod server;
mod threads;
mod written;

use std::sync::Arc;

use agent::{Agent, CancellationToken, Frames};
use langgraph::extract::Params;
use langgraph::{Caller, Envelope, Fault};
use protocol::{Seq, ThreadId};
use scheduler::Alone;
use utoipa::ToSchema;
use utoipa::openapi::{Content, Ref, ResponseBuilder};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::server::Gateway;

/// What any of these endpoints may be refused with.
const REFUSALS: [(&str, &str); 8] = [
    ("400", "What is asked for makes no sense, or broke off"),
    ("401", "Nobody knows whose request it is"),
    ("404", "What is named is not there, or is somebody else's"),
    ("409", "Something else came first"),
    ("413", "The request is too large"),
    ("422", "A field, a parameter or an id has not the right shape"),
    ("429", "Too much at once; `retry-after` says when to come again"),
    ("503", "The server is about to go"),
];

/// Returns the endpoints.
pub(crate) fn routes() -> OpenApiRouter<Gateway> {
    let mut endpoints = endpoints();
    for item in endpoints.get_openapi_mut().paths.paths.values_mut() {
        let methods = [&mut item.get, &mut item.put, &mut item.post, &mut item.patch, &mut item.delete];
        for operation in methods.into_iter().flatten() {
            for (status, text) in REFUSALS {
                let told =
                    || ResponseBuilder::new().description(text).content("application/json", envelope());
                operation.responses.responses.entry(status.to_owned()).or_insert_with(|| told().into());
            }
        }
    }
    endpoints
}

fn envelope() -> Content {
    Content::new(Some(Ref::from_schema_name(Envelope::name())))
}

fn endpoints() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new()
        .routes(routes!(threads::list))
        .routes(routes!(threads::show, threads::rename))
        .routes(routes!(threads::fork))
        .routes(routes!(threads::subagents))
        .routes(routes!(threads::workspace::rehome))
        .routes(routes!(history::page))
        .routes(routes!(history::marker))
        .routes(routes!(history::events))
        .routes(routes!(feedback::get, feedback::put, feedback::delete))
        .routes(routes!(condense::context))
        .routes(routes!(condense::compact))
        .routes(routes!(condense::uncompact))
        .routes(routes!(condense::rewind))
        .routes(routes!(written::export))
        .routes(routes!(written::artifact))
        .routes(routes!(handoffs::request))
        .routes(routes!(handoffs::list))
        .routes(routes!(handoffs::show))
        .routes(routes!(handoffs::decide))
        .routes(routes!(lineage::lineage))
        .routes(routes!(search::search))
        .routes(routes!(memory::stats))
        .routes(routes!(memory::show, memory::edit))
        .routes(routes!(memory::summaries))
        .routes(routes!(memory::remember))
        .merge(import::routes())
        .routes(routes!(server::models))
        .routes(routes!(server::agent))
}

/// Does work that changes a thread in line with the thread's runs: behind those that are there, before those to come.
async fn in_line<T, F>(
    caller: Caller,
    thread_id: ThreadId,
    work: impl FnOnce(Arc<Agent>, Frames, CancellationToken) -> F + Send + 'static,
) -> Result<T, Fault>
where
    F: Future<Output = Result<T, Fault>> + Send + 'static,
    T: Send + 'static,
{
    let Caller { scope, agent, server } = caller;
    let work = move |alone: Alone| work(agent, alone.frames, alone.cancel);
    server.dispatch.exclusive(&scope, thread_id, work).await?
}

/// Returns a position in a thread.
fn seq(params: &Params, name: &str) -> Result<Option<Seq>, Fault> {
    let wrong = |text: &str| Fault::invalid(format!("`{name}`: `{text}` is no position"));
    params.text(name).map(|text| text.parse().map_err(|_| wrong(text))).transpose()
}
