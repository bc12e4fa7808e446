//! The endpoints for lists of threads: pages of rows, one thread, renaming, forking, and sub-agents. They read no
//! message, so they can be polled often. Titles and states are computed by `agent`.

pub(super) mod pins;
pub(super) mod shapes;
pub(super) mod workspace;

use agent::{SortDirection, ThreadFilter, ThreadSort, ThreadSortKey};
use axum::Json;
use langgraph::extract::{JsonBody, QueryParams, ThreadPath};
use langgraph::{ApiError, Caller, ErrorBody, find_thread};
use protocol::{Seq, Thread, ThreadId, ThreadState};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use shapes::{RowContext, ThreadBody, ThreadRow};

/// Default number of rows on a page.
const ROWS_DEFAULT: usize = 50;
/// Maximum number of rows on a page.
const ROWS_MAX: usize = 200;
/// Maximum number of rows that can be skipped.
const OFFSET_MAX: usize = 10_000_000;
/// Number of threads at which counting stops. The time of counting grows with the number of threads: 10,000 take about
/// 45 ms on PostgreSQL.
const COUNTED_MAX: u64 = 10_000;
/// Minimum number of threads that are counted beyond the offset, so that a client that scrolls sees more rows ahead.
const COUNTED_BEYOND_OFFSET: u64 = 1_000;
/// Maximum length of a search text, in characters.
const TEXT_CHARS_MAX: usize = 200;
/// Maximum length of a name, in characters.
const NAME_CHARS_MAX: usize = 200;

/// A page of threads.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ThreadsBody {
    /// The rows.
    threads: Vec<ThreadRow>,
    /// Number of all threads that match. Counting stops at 10,000, or 1,000 beyond the offset if that is more.
    total: u64,
    /// True if counting did not stop early, so that there are no more than `total` threads.
    is_total_exact: bool,
}

/// Returns a page of threads, without those of sub-agents and temporary runs
///
/// No message is read for this. Threads with equal times are ordered by their ids.
#[utoipa::path(get, path = "/api/threads", tag = "segue", operation_id = "list_threads",
    params(
        ("q" = Option<String>, Query, description = "Text that the name or the first message must contain; case is ignored"),
        ("state" = Option<String>, Query, description = "`running`, `needs_you`, `stopped`, `idle` or `error`"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 200, description = "Maximum number of rows; 50 by default"),
        ("offset" = Option<u64>, Query, description = "Number of rows to skip"),
        ("order" = Option<String>, Query, description = "`updated` (the default) or `created`, newest first"),
    ),
    responses((status = 200, body = ThreadsBody), (status = 422, body = ErrorBody)))]
pub(crate) async fn list(caller: Caller, params: QueryParams) -> Result<Json<ThreadsBody>, ApiError> {
    let filter = parse_filter(&caller, &params)?;
    let counted_max = COUNTED_MAX.max(filter.offset as u64 + COUNTED_BEYOND_OFFSET);
    let total = caller.agent.threads().count(filter.clone(), Some(counted_max)).await?;
    let threads = caller.agent.threads().list(filter).await?;
    let context = RowContext::load(&caller, &threads).await?;
    Ok(Json(ThreadsBody {
        threads: threads.iter().map(|thread| context.row(thread)).collect(),
        total,
        is_total_exact: total < counted_max,
    }))
}

/// Parses the query parameters of a list.
fn parse_filter(caller: &Caller, params: &QueryParams) -> Result<ThreadFilter, ApiError> {
    let invalid = |name: &str, text: &str, expected: &str| {
        ApiError::invalid(format!("`{name}`: `{text}` is not one of {expected}"))
    };
    let states = || ThreadState::ALL.map(ThreadState::as_str).join(", ");
    let state = match params.text("state") {
        None => None,
        Some(text) => Some(ThreadState::from_name(text).ok_or_else(|| invalid("state", text, &states()))?),
    };
    let by = match params.text("order") {
        None | Some("updated") => ThreadSortKey::Updated,
        Some("created") => ThreadSortKey::Created,
        Some(text) => return Err(invalid("order", text, "updated, created")),
    };
    let text = params.text("q").map(str::trim).filter(|text| !text.is_empty());
    if text.is_some_and(|text| text.chars().count() > TEXT_CHARS_MAX) {
        return Err(ApiError::invalid(format!("`q` is longer than {TEXT_CHARS_MAX} characters")));
    }
    Ok(ThreadFilter {
        state,
        text: text.map(str::to_owned),
        without_metadata_key: Some(Thread::TEMPORARY_KEY),
        order: ThreadSort { by, direction: SortDirection::Descending },
        offset: params.number("offset", 0..=OFFSET_MAX)?.unwrap_or(0),
        ..ThreadFilter::for_scope(
            caller.scope.clone(),
            params.number("limit", 1..=ROWS_MAX)?.unwrap_or(ROWS_DEFAULT),
        )
    })
}

/// Returns one thread, with its pending questions and its active run
///
/// No message is read for this, so that it can be polled often.
#[utoipa::path(get, path = "/api/threads/{thread_id}", tag = "segue", operation_id = "show_thread",
    params(("thread_id" = String, Path, format = Uuid)),
    responses((status = 200, body = ThreadBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn show(
    caller: Caller,
    ThreadPath(thread_id): ThreadPath,
) -> Result<Json<ThreadBody>, ApiError> {
    let thread = find_thread(&caller, thread_id).await?;
    Ok(Json(ThreadBody::load(&caller, thread).await?))
}

/// A thread's name.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct RenameBody {
    /// The name; 1 to 200 characters.
    name: String,
}

/// Renames a thread; its position in the list does not change
#[utoipa::path(patch, path = "/api/threads/{thread_id}", tag = "segue", operation_id = "rename_thread",
    params(("thread_id" = String, Path, format = Uuid)), request_body = RenameBody,
    responses((status = 200, body = ThreadRow), (status = 404, body = ErrorBody), (status = 422, body = ErrorBody)))]
pub(crate) async fn rename(
    caller: Caller,
    ThreadPath(thread_id): ThreadPath,
    JsonBody(RenameBody { name }): JsonBody<RenameBody>,
) -> Result<Json<ThreadRow>, ApiError> {
    find_thread(&caller, thread_id).await?;
    let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
    if name.is_empty() || name.chars().count() > NAME_CHARS_MAX {
        return Err(ApiError::invalid(format!("`name` must have 1 to {NAME_CHARS_MAX} characters")));
    }
    let renamed = caller.agent.threads().rename(thread_id, &name).await?;
    caller.server.scheduler.notify_changed(&caller.scope, thread_id);
    thread_row(&caller, renamed).await
}

/// The part of a thread to copy.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(crate) struct ForkBody {
    /// The last position to copy; the whole thread by default.
    #[schema(value_type = Option<u64>)]
    keep_seq: Option<Seq>,
}

/// Copies a thread up to a position into a new child thread
#[utoipa::path(post, path = "/api/threads/{thread_id}/fork", tag = "segue", operation_id = "fork_thread",
    params(("thread_id" = String, Path, format = Uuid)), request_body = ForkBody,
    responses((status = 200, body = ThreadRow), (status = 404, body = ErrorBody, description = "The thread or the position does not exist"),
        (status = 422, body = ErrorBody)))]
pub(crate) async fn fork(
    caller: Caller,
    ThreadPath(thread_id): ThreadPath,
    JsonBody(ForkBody { keep_seq }): JsonBody<ForkBody>,
) -> Result<Json<ThreadRow>, ApiError> {
    find_thread(&caller, thread_id).await?;
    let forked = caller.agent.threads().fork(thread_id, keep_seq).await?;
    thread_row(&caller, forked).await
}

/// Returns the row of a changed or new thread.
async fn thread_row(caller: &Caller, thread: Thread) -> Result<Json<ThreadRow>, ApiError> {
    let context = RowContext::load(caller, std::slice::from_ref(&thread)).await?;
    Ok(Json(context.row(&thread)))
}

/// The sub-agents of a thread.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SubagentsBody {
    /// The sub-agents, oldest first.
    subagents: Vec<SubagentShape>,
    /// True if `subagents` is complete; of very many, the newest are omitted.
    is_complete: bool,
}

/// A sub-agent.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SubagentShape {
    /// The tool call that started the sub-agent.
    call_id: Option<String>,
    /// The thread of the sub-agent. Its history can be read like any other.
    #[schema(value_type = String, format = Uuid)]
    thread_id: ThreadId,
    /// A short description of its task.
    name: Option<String>,
    /// `running`, `needs_you`, `stopped`, `idle` or `error`.
    state: &'static str,
    /// Number of messages.
    message_count: u64,
    /// When the thread was created.
    #[schema(value_type = String, format = DateTime)]
    created_at: jiff::Timestamp,
}

/// Returns the sub-agents of a thread, each with the tool call that started it
#[utoipa::path(get, path = "/api/threads/{thread_id}/subagents", tag = "segue", operation_id = "thread_subagents",
    params(("thread_id" = String, Path, format = Uuid)),
    responses((status = 200, body = SubagentsBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn list_subagents(
    caller: Caller,
    ThreadPath(thread_id): ThreadPath,
) -> Result<Json<SubagentsBody>, ApiError> {
    find_thread(&caller, thread_id).await?;
    let agent::SubagentList { subagents, is_complete } = caller.agent.threads().subagents(thread_id).await?;
    let states =
        caller.agent.threads().display_states(subagents.iter().map(|subagent| &subagent.thread)).await?;
    let shape = |subagent: agent::SubagentThread| SubagentShape {
        call_id: subagent.call_id,
        state: shapes::state_name(&subagent.thread, &states),
        thread_id: subagent.thread.thread_id,
        name: shapes::redacted(subagent.thread.name.as_deref()),
        message_count: subagent.thread.message_count,
        created_at: subagent.thread.created_at,
    };
    Ok(Json(SubagentsBody { subagents: subagents.into_iter().map(shape).collect(), is_complete }))
}
