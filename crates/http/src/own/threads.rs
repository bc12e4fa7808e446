//! Threads as a list of them needs them: rows that are read without looking at what was said, one row that is looked at
//! again and again, names, forks, and what sub-agents worked in. What a thread is called and how it stands is decided below.

pub(super) mod shapes;
pub(super) mod workspace;

use agent::{Direction, Sort, SortBy, TEMPORARY_KEY, ThreadFilter};
use axum::Json;
use langgraph::extract::{Body, InThread, Params};
use langgraph::{Caller, Envelope, Fault, thread};
use protocol::{Seq, Thread, ThreadId, ThreadState};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use shapes::{Around, ThreadBody, ThreadRow};

/// Rows of a page when nobody says how many.
const ROWS: usize = 50;
/// Rows of a page, at most.
const ROWS_MAX: usize = 200;
/// Rows that may be skipped.
const OFFSET_MAX: usize = 10_000_000;
/// Characters of what is looked for, at most.
const TEXT_CHARS_MAX: usize = 200;
/// Characters of a name, at most.
const NAME_CHARS_MAX: usize = 200;

/// A page of threads.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ThreadsBody {
    /// The rows.
    threads: Vec<ThreadRow>,
    /// How many there are of which this is a page.
    total: u64,
}

/// Returns a page of threads; those of sub-agents, and those that last no longer than their run, are not among them
///
/// Nothing of what was said is read for it. Of equally old ones the order is that of their ids.
#[utoipa::path(get, path = "/api/threads", tag = "segue", operation_id = "list_threads",
    params(
        ("q" = Option<String>, Query, description = "What the name or the first prompt must contain, in capitals or not"),
        ("state" = Option<String>, Query, description = "`running`, `needs_you`, `stopped`, `idle` or `error`"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 200, description = "The most rows; 50 unless given"),
        ("offset" = Option<u64>, Query, description = "How many to skip"),
        ("order" = Option<String>, Query, description = "`updated` (the default) or `created`: the latest first"),
    ),
    responses((status = 200, body = ThreadsBody), (status = 422, body = Envelope)))]
pub(crate) async fn list(caller: Caller, params: Params) -> Result<Json<ThreadsBody>, Fault> {
    let filter = filter(&caller, &params)?;
    let total = caller.agent.threads().count(filter.clone()).await?;
    let threads = caller.agent.threads().list(filter).await?;
    let around = Around::of(&caller, &threads).await?;
    Ok(Json(ThreadsBody { threads: threads.iter().map(|thread| around.row(thread)).collect(), total }))
}

fn filter(caller: &Caller, params: &Params) -> Result<ThreadFilter, Fault> {
    let wrong = |name: &str, text: &str, known: &str| {
        Fault::invalid(format!("`{name}`: `{text}` is none of {known}"))
    };
    let states = || ThreadState::ALL.map(ThreadState::as_str).join(", ");
    let state = match params.text("state") {
        None => None,
        Some(text) => Some(ThreadState::from_name(text).ok_or_else(|| wrong("state", text, &states()))?),
    };
    let by = match params.text("order") {
        None | Some("updated") => SortBy::Updated,
        Some("created") => SortBy::Created,
        Some(text) => return Err(wrong("order", text, "updated, created")),
    };
    let text = params.text("q").map(str::trim).filter(|text| !text.is_empty());
    if text.is_some_and(|text| text.chars().count() > TEXT_CHARS_MAX) {
        return Err(Fault::invalid(format!("`q` is longer than {TEXT_CHARS_MAX} characters")));
    }
    Ok(ThreadFilter {
        state,
        text: text.map(str::to_owned),
        lacking: Some(TEMPORARY_KEY),
        order: Sort { by, direction: Direction::Descending },
        offset: params.number("offset", 0..=OFFSET_MAX)?.unwrap_or(0),
        ..ThreadFilter::of(caller.scope.clone(), params.number("limit", 1..=ROWS_MAX)?.unwrap_or(ROWS))
    })
}

/// Returns one thread, with what waits in it and what works on it
///
/// Nothing of what was said is read for it, so that it may be asked for again and again.
#[utoipa::path(get, path = "/api/threads/{thread_id}", tag = "segue", operation_id = "show_thread",
    params(("thread_id" = String, Path, format = Uuid)),
    responses((status = 200, body = ThreadBody), (status = 404, body = Envelope)))]
pub(crate) async fn show(caller: Caller, InThread(thread_id): InThread) -> Result<Json<ThreadBody>, Fault> {
    let thread = thread(&caller, thread_id).await?;
    Ok(Json(ThreadBody::of(&caller, thread).await?))
}

/// A thread's name.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct Renaming {
    /// The name; 1 to 200 characters.
    name: String,
}

/// Gives a thread another name; its place in the list stays
#[utoipa::path(patch, path = "/api/threads/{thread_id}", tag = "segue", operation_id = "rename_thread",
    params(("thread_id" = String, Path, format = Uuid)), request_body = Renaming,
    responses((status = 200, body = ThreadRow), (status = 404, body = Envelope), (status = 422, body = Envelope)))]
pub(crate) async fn rename(
    caller: Caller,
    InThread(thread_id): InThread,
    Body(Renaming { name }): Body<Renaming>,
) -> Result<Json<ThreadRow>, Fault> {
    thread(&caller, thread_id).await?;
    let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
    if name.is_empty() || name.chars().count() > NAME_CHARS_MAX {
        return Err(Fault::invalid(format!("`name` must have 1 to {NAME_CHARS_MAX} characters")));
    }
    let renamed = caller.agent.threads().rename(thread_id, &name).await?;
    caller.server.dispatch.tell_changed(&caller.scope, thread_id);
    row(&caller, renamed).await
}

/// How much of a thread is copied.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(crate) struct ForkBody {
    /// The last position that is copied; all of it unless given.
    #[schema(value_type = Option<u64>)]
    keep_seq: Option<Seq>,
}

/// Copies a thread, up to a position, into a new one that is its child
#[utoipa::path(post, path = "/api/threads/{thread_id}/fork", tag = "segue", operation_id = "fork_thread",
    params(("thread_id" = String, Path, format = Uuid)), request_body = ForkBody,
    responses((status = 200, body = ThreadRow), (status = 404, body = Envelope, description = "No such thread, or no such position"),
        (status = 422, body = Envelope)))]
pub(crate) async fn fork(
    caller: Caller,
    InThread(thread_id): InThread,
    Body(ForkBody { keep_seq }): Body<ForkBody>,
) -> Result<Json<ThreadRow>, Fault> {
    thread(&caller, thread_id).await?;
    let forked = caller.agent.threads().fork(thread_id, keep_seq).await?;
    row(&caller, forked).await
}

async fn row(caller: &Caller, thread: Thread) -> Result<Json<ThreadRow>, Fault> {
    let around = Around::of(caller, std::slice::from_ref(&thread)).await?;
    Ok(Json(around.row(&thread)))
}

/// The sub-agents of a thread.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SubagentsBody {
    /// Each of them, oldest first.
    subagents: Vec<SubagentShape>,
    /// Whether these are all: of very many the newest are left out.
    is_complete: bool,
}

/// One sub-agent.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SubagentShape {
    /// The call that it works for.
    call_id: Option<String>,
    /// The thread it works in; its history is read like any other.
    #[schema(value_type = String, format = Uuid)]
    thread_id: ThreadId,
    /// What it is to do, in short.
    name: Option<String>,
    /// `running`, `needs_you`, `stopped`, `idle` or `error`.
    state: &'static str,
    /// Its messages.
    message_count: u64,
    /// When it was begun.
    #[schema(value_type = String, format = DateTime)]
    created_at: jiff::Timestamp,
}

/// Returns the sub-agents that worked for a thread, each with the call that began it
#[utoipa::path(get, path = "/api/threads/{thread_id}/subagents", tag = "segue", operation_id = "thread_subagents",
    params(("thread_id" = String, Path, format = Uuid)),
    responses((status = 200, body = SubagentsBody), (status = 404, body = Envelope)))]
pub(crate) async fn subagents(
    caller: Caller,
    InThread(thread_id): InThread,
) -> Result<Json<SubagentsBody>, Fault> {
    thread(&caller, thread_id).await?;
    let agent::SubagentsOf { subagents, is_complete } = caller.agent.threads().subagents(thread_id).await?;
    let states = caller.agent.threads().display_states(subagents.iter().map(|found| &found.thread)).await?;
    let shape = |found: agent::SubagentThread| SubagentShape {
        call_id: found.call_id,
        state: shapes::state_of(&found.thread, &states),
        thread_id: found.thread.thread_id,
        name: found.thread.name,
        message_count: found.thread.message_count,
        created_at: found.thread.created_at,
    };
    Ok(Json(SubagentsBody { subagents: subagents.into_iter().map(shape).collect(), is_complete }))
}
