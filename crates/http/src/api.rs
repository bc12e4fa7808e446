//! Segue's own endpoints under `/api`: history, compaction, handoffs, lineage, search, memory, import and export. They
//! serve clients that need more than the Agent Server API offers. Each handler calls the agent and converts the result
//! to a documented shape. Requests that change a thread are queued with its runs.
//!
//! A handler reads only data in the scope of its caller: the agent of a [`Caller`] is limited to the caller's owner, so
//! a thread of another user is not found. Handlers whose work may call a model respond through `slow_response`.

mod capabilities;
mod compaction;
mod export;
mod feedback;
mod handoffs;
mod history;
mod import;
mod lineage;
mod memory;
mod search;
mod slow_response;
mod threads;

use std::sync::Arc;

use agent::{Agent, CancellationToken, FrameSender};
use langgraph::extract::QueryParams;
use langgraph::{ApiError, Caller, ErrorBody};
use protocol::{Seq, ThreadId};
use scheduler::ExclusiveContext;
use utoipa::ToSchema;
use utoipa::openapi::{Content, Ref, ResponseBuilder};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::server::AppState;

/// The error responses that every endpoint of this module may return: status and description.
const ERROR_RESPONSES: [(&str, &str); 8] = [
    ("400", "The request is malformed or incomplete"),
    ("401", "The request is not authenticated"),
    ("404", "The resource does not exist, or belongs to another user"),
    ("409", "The request conflicts with the current state"),
    ("413", "The request is too large"),
    ("422", "A field, a parameter or an id is invalid"),
    ("429", "Too many requests; `retry-after` says when to try again"),
    ("503", "The server is shutting down"),
];

/// Returns the endpoints, each documented with [`ERROR_RESPONSES`].
pub(crate) fn routes() -> OpenApiRouter<AppState> {
    let mut endpoints = endpoints();
    for item in endpoints.get_openapi_mut().paths.paths.values_mut() {
        let methods = [&mut item.get, &mut item.put, &mut item.post, &mut item.patch, &mut item.delete];
        for operation in methods.into_iter().flatten() {
            for (status, text) in ERROR_RESPONSES {
                let response =
                    || ResponseBuilder::new().description(text).content("application/json", error_content());
                operation.responses.responses.entry(status.to_owned()).or_insert_with(|| response().into());
            }
        }
    }
    endpoints
}

/// Returns the schema reference of an error response.
fn error_content() -> Content {
    Content::new(Some(Ref::from_schema_name(ErrorBody::name())))
}

/// Returns the endpoints with the responses that their handlers document.
fn endpoints() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(threads::list))
        .routes(routes!(threads::show, threads::rename))
        .routes(routes!(threads::fork))
        .routes(routes!(threads::list_subagents))
        .routes(routes!(threads::workspace::rehome))
        .routes(routes!(threads::pins::list, threads::pins::create))
        .routes(routes!(threads::pins::delete))
        .routes(routes!(history::get_history))
        .routes(routes!(history::get_marker_messages))
        .routes(routes!(history::list_run_events))
        .routes(routes!(feedback::get, feedback::put, feedback::delete))
        .routes(routes!(compaction::get_context))
        .routes(routes!(compaction::compact))
        .routes(routes!(compaction::uncompact))
        .routes(routes!(compaction::rewind))
        .routes(routes!(export::export_thread))
        .routes(routes!(export::get_artifact))
        .routes(routes!(handoffs::request_handoff))
        .routes(routes!(handoffs::estimate))
        .routes(routes!(handoffs::list))
        .routes(routes!(handoffs::show))
        .routes(routes!(handoffs::decide))
        .routes(routes!(handoffs::continuity::probe))
        .routes(routes!(handoffs::edit_preview::preview))
        .routes(routes!(handoffs::package::list))
        .routes(routes!(handoffs::package::update))
        .routes(routes!(lineage::get_lineage))
        .routes(routes!(search::search))
        .routes(routes!(memory::get_memory_stats))
        .routes(routes!(memory::get_agent_md, memory::put_agent_md))
        .routes(routes!(memory::list_summaries))
        .routes(routes!(memory::remember))
        .routes(routes!(memory::facts::list_facts))
        .routes(routes!(memory::facts::decide_fact))
        .routes(routes!(memory::history::list_revisions))
        .routes(routes!(memory::history::get_revision))
        .routes(routes!(memory::history::restore_revision))
        .merge(import::routes())
        .routes(routes!(capabilities::list_models))
        .routes(routes!(capabilities::get_agent))
}

/// Executes a change of a thread in the thread's queue: after the runs that are queued already, before later ones. The
/// change is executed again if a run of another server blocked it.
async fn change_thread<T, F>(
    caller: Caller,
    thread_id: ThreadId,
    change: impl Fn(Arc<Agent>, FrameSender, CancellationToken) -> F + Send + 'static,
) -> Result<T, ApiError>
where
    F: Future<Output = agent::Result<T>> + Send + 'static,
    T: Send + 'static,
{
    let Caller { scope, agent, server, .. } = caller;
    let change = move |context: ExclusiveContext| change(Arc::clone(&agent), context.frames, context.cancel);
    Ok(server.scheduler.change_thread(&scope, thread_id, change).await?)
}

/// Executes a decision about a pending interrupt of a thread in the thread's queue. Answers that other requests give
/// meanwhile are refused with its outcome.
async fn decide_in_thread<T, F>(
    caller: Caller,
    thread_id: ThreadId,
    decide: impl Fn(Arc<Agent>, FrameSender, CancellationToken) -> F + Send + 'static,
) -> Result<T, ApiError>
where
    F: Future<Output = agent::Result<T>> + Send + 'static,
    T: Send + 'static,
{
    let Caller { scope, agent, server, .. } = caller;
    let decide = move |context: ExclusiveContext| decide(Arc::clone(&agent), context.frames, context.cancel);
    Ok(server.scheduler.decide_exclusively(&scope, thread_id, decide).await?)
}

/// Parses a query parameter that holds a position (`seq`) in a thread.
fn parse_seq(params: &QueryParams, name: &str) -> Result<Option<Seq>, ApiError> {
    let invalid = |text: &str| ApiError::invalid(format!("`{name}`: `{text}` is not a valid position"));
    params.text(name).map(|text| text.parse().map_err(|_| invalid(text))).transpose()
}
