//! The history of a thread: pages of all entries with markers where messages were compacted, the original messages
//! behind a marker, and the events of one run. The views are computed by `agent`.
//!
//! Pages are addressed by positions (`seq`), not by offsets, so that they stay the same while the thread grows. With
//! `after_seq` a page is read forwards, otherwise backwards from `before_seq` or from the newest entry. Entries are
//! always returned in ascending order.

use agent::{HistoryEntry, HistoryFilter, HistoryItem, HistoryPage, HistoryQuery, SupersededVisibility};
use axum::Json;
use langgraph::extract::{PathParams, QueryParams, RunPath, ThreadPath, parse_path_id};
use langgraph::{ApiError, Caller, ErrorBody};
use protocol::{Event, RunId, Seq, ThreadId};
use serde::Serialize;
use utoipa::ToSchema;

/// Default number of entries on a page.
const ENTRIES_DEFAULT: usize = 50;
/// Maximum number of entries on a page.
const ENTRIES_MAX: usize = 1_000;
/// Default number of events of a run on a page.
const EVENTS_DEFAULT: usize = 200;
/// Maximum number of events of a run on a page.
const EVENTS_MAX: usize = 1_000;

/// A page of a thread's history.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HistoryBody {
    /// The thread.
    #[schema(value_type = String, format = Uuid)]
    thread_id: ThreadId,
    /// The source of the entries: always `journal`, the only place where messages are stored.
    source: &'static str,
    /// The entries, in ascending order of `seq`.
    #[schema(value_type = Vec<HistoryEntryShape>)]
    entries: Vec<HistoryEntry>,
    /// True if there are more entries in the reading direction of the request.
    has_more: bool,
    /// True if there are earlier entries.
    has_more_before: bool,
    /// True if there are later entries.
    has_more_after: bool,
    /// The position of the first entry: use it as `before_seq` of the previous page. `null` on an empty page.
    #[schema(value_type = Option<u64>)]
    first_seq: Option<Seq>,
    /// The position of the last entry: use it as `after_seq` of the next page. `null` on an empty page.
    #[schema(value_type = Option<u64>)]
    last_seq: Option<Seq>,
}

/// An entry of a history: a message, or a marker where messages were compacted, rewound or archived. Ignore entries
/// with an unknown `type`.
#[derive(ToSchema)]
#[expect(dead_code, reason = "documents the JSON form of the journal's `HistoryEntry`")]
struct HistoryEntryShape {
    /// The message's id, the same in every endpoint; `summary-marker-<seq>` for a marker.
    id: String,
    /// The position of the entry. Sort by it only.
    seq: u64,
    /// The run that stored the entry.
    #[schema(value_type = Option<String>, format = Uuid)]
    run_id: Option<RunId>,
    /// When the entry was stored.
    #[schema(format = DateTime)]
    created_at: String,
    /// `human`, `ai`, `tool`, `summary_marker`, `summary_undone`, `compaction_failed`, `turns_archived`,
    /// `imported_boundary`, `imported_summary`, or `event_damaged` for an event that the database has damaged.
    r#type: String,
    /// The content blocks of a message.
    #[schema(value_type = Option<Vec<Object>>, required = false, nullable = false)]
    content: Option<Vec<()>>,
    /// `true` if a rewind or an edit has hidden the entry; absent otherwise.
    #[schema(required = false, nullable = false)]
    superseded: Option<bool>,
    /// The call that a tool result belongs to, if the call is on another page.
    #[schema(value_type = Option<Object>, required = false, nullable = false)]
    call: Option<()>,
    /// The caller's feedback on the run, at the last answer of the run only.
    #[schema(value_type = Option<Object>, required = false)]
    feedback: Option<()>,
}

/// Returns a page of a thread's history
///
/// The history contains every message, including those that are compacted for the model. Markers show where that
/// happened.
#[utoipa::path(get, path = "/api/threads/{thread_id}/history", tag = "segue", operation_id = "thread_history_page",
    params(
        ("thread_id" = String, Path, format = Uuid),
        ("before_seq" = Option<u64>, Query, description = "Only entries before this position; the page ends there"),
        ("after_seq" = Option<u64>, Query, description = "Only entries after this position; the page begins there. Without `before_seq` and `after_seq`, the newest page is returned"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "Maximum number of entries; 50 by default. Hidden entries do not count"),
        ("superseded" = Option<bool>, Query, description = "Whether to include entries that a rewind or an edit has hidden"),
        ("shown" = Option<String>, Query, description = "`all`, or `markers` for the markers of compactions only"),
    ),
    responses((status = 200, body = HistoryBody), (status = 404, body = ErrorBody), (status = 422, body = ErrorBody)))]
pub(crate) async fn get_history(
    caller: Caller,
    ThreadPath(thread_id): ThreadPath,
    params: QueryParams,
) -> Result<Json<HistoryBody>, ApiError> {
    langgraph::find_thread(&caller, thread_id).await?;
    let query = parse_query(&caller, &params)?;
    let page = caller.agent.threads().history_page(thread_id, &query).await?;
    Ok(Json(history_body(page, &query)))
}

/// Returns the original messages behind a marker, from the first one by default
#[utoipa::path(get, path = "/api/threads/{thread_id}/history/markers/{seq}/messages", tag = "segue",
    operation_id = "thread_marker_messages",
    params(
        ("thread_id" = String, Path, format = Uuid),
        ("seq" = u64, Path, description = "The position of the marker"),
        ("before_seq" = Option<u64>, Query, description = "Only entries before this position; the page ends there"),
        ("after_seq" = Option<u64>, Query, description = "Only entries after this position; the page begins there. Without `before_seq` and `after_seq`, the newest page is returned"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "Maximum number of entries; 50 by default. Hidden entries do not count"),
        ("superseded" = Option<bool>, Query, description = "Whether to include entries that a rewind or an edit has hidden"),
        ("shown" = Option<String>, Query, description = "`all`, or `markers` for the markers of compactions only"),
    ),
    responses((status = 200, body = HistoryBody), (status = 404, body = ErrorBody, description = "The thread or the marker does not exist"),
        (status = 422, body = ErrorBody)))]
pub(crate) async fn get_marker_messages(
    caller: Caller,
    path: PathParams,
    params: QueryParams,
) -> Result<Json<HistoryBody>, ApiError> {
    let thread_id: ThreadId = parse_path_id(&path, "thread")?;
    let seq = path.get("seq");
    let seq: Seq = seq.parse().map_err(|_| ApiError::invalid(format!("`{seq}` is not a valid position")))?;
    langgraph::find_thread(&caller, thread_id).await?;
    let unknown = || ApiError::not_found(format!("thread {thread_id} has no marker at {seq}"));
    let marker_query = HistoryQuery {
        after_seq: Some(seq.saturating_sub(1)),
        before_seq: Some(seq.saturating_add(1)),
        limit: 1,
        filter: HistoryFilter::Markers,
        superseded: SupersededVisibility::Shown,
        feedback: None,
    };
    let marker = caller
        .agent
        .threads()
        .history_page(thread_id, &marker_query)
        .await?
        .entries
        .pop()
        .ok_or_else(unknown)?;
    let (first, last) = summarized_range(&marker).ok_or_else(unknown)?;
    let mut query = parse_query(&caller, &params)?;
    if marker.is_superseded {
        query.superseded = SupersededVisibility::Shown;
    }
    let (range_start, range_end) = (first.saturating_sub(1), last.saturating_add(1));
    let from = query.after_seq.filter(|after| *after > range_start);
    let until = query.before_seq.filter(|before| *before < range_end);
    query.before_seq = Some(until.unwrap_or(range_end));
    // A page with only `before_seq` is read backwards from there; any other page is read forwards.
    query.after_seq =
        if until.is_some() && from.is_none() { None } else { Some(from.unwrap_or(range_start)) };
    let mut page = caller.agent.threads().history_page(thread_id, &query).await?;
    if query.after_seq.is_none() {
        let count_before = page.entries.len();
        page.entries.retain(|entry| entry.seq > range_start);
        page.has_more_before &= page.entries.len() == count_before;
        page.has_more_after = true;
    } else {
        page.has_more_before &= from.is_some();
    }
    Ok(Json(history_body(page, &query)))
}

/// Returns the first and last position that a marker's summary covers; `None` for entries that are not markers.
fn summarized_range(entry: &HistoryEntry) -> Option<(Seq, Seq)> {
    match &entry.item {
        HistoryItem::Marker(marker) => Some((marker.first_seq, marker.last_seq)),
        HistoryItem::Archived(marker) => Some((marker.first_seq, marker.last_seq)),
        HistoryItem::Message(_)
        | HistoryItem::Boundary(_)
        | HistoryItem::Failed(_)
        | HistoryItem::Undone(_)
        | HistoryItem::Audit(_)
        | HistoryItem::Damaged(_) => None,
    }
}

/// Parses the query parameters of a history page.
fn parse_query(caller: &Caller, params: &QueryParams) -> Result<HistoryQuery, ApiError> {
    let filter = match params.text("shown") {
        None | Some("all") => HistoryFilter::All,
        Some("markers") => HistoryFilter::Markers,
        Some(other) => {
            return Err(ApiError::invalid(format!("`shown`: `{other}` is not one of all, markers")));
        }
    };
    let includes_superseded = params.flag("superseded")?.unwrap_or_default();
    Ok(HistoryQuery {
        before_seq: super::parse_seq(params, "before_seq")?,
        after_seq: super::parse_seq(params, "after_seq")?,
        limit: params.number("limit", 1..=ENTRIES_MAX)?.unwrap_or(ENTRIES_DEFAULT),
        filter,
        superseded: if includes_superseded {
            SupersededVisibility::Shown
        } else {
            SupersededVisibility::Hidden
        },
        feedback: Some(caller.agent.feedback_user().to_owned()),
    })
}

/// Returns the response for a page.
fn history_body(page: HistoryPage, query: &HistoryQuery) -> HistoryBody {
    HistoryBody {
        thread_id: page.thread_id,
        source: page.source,
        has_more: if query.after_seq.is_some() { page.has_more_after } else { page.has_more_before },
        has_more_before: page.has_more_before,
        has_more_after: page.has_more_after,
        first_seq: page.entries.first().map(|entry| entry.seq),
        last_seq: page.entries.last().map(|entry| entry.seq),
        entries: page.entries,
    }
}

/// A page of a run's events.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RunEventsBody {
    /// The thread.
    #[schema(value_type = String, format = Uuid)]
    thread_id: ThreadId,
    /// The run.
    #[schema(value_type = String, format = Uuid)]
    run_id: RunId,
    /// The events in order, including those that were compacted or rewound later.
    #[schema(value_type = Vec<Object>)]
    events: Vec<Event>,
    /// The `after` parameter of the next page; `null` on the last page.
    #[schema(value_type = Option<u64>)]
    next_after: Option<Seq>,
}

/// Returns all events of a run: messages, model calls, questions, and stored data
#[utoipa::path(get, path = "/api/threads/{thread_id}/runs/{run_id}/events", tag = "segue",
    operation_id = "run_events",
    params(
        ("thread_id" = String, Path, format = Uuid),
        ("run_id" = String, Path, format = Uuid),
        ("after" = Option<u64>, Query, description = "Only events after this position"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "Maximum number of events; 200 by default"),
    ),
    responses((status = 200, body = RunEventsBody), (status = 404, body = ErrorBody), (status = 422, body = ErrorBody)))]
pub(crate) async fn list_run_events(
    caller: Caller,
    RunPath { thread_id, run_id }: RunPath,
    params: QueryParams,
) -> Result<Json<RunEventsBody>, ApiError> {
    langgraph::find_run(&caller, thread_id, run_id).await?;
    let limit = params.number("limit", 1..=EVENTS_MAX)?.unwrap_or(EVENTS_DEFAULT);
    let after = super::parse_seq(&params, "after")?.unwrap_or(0);
    let mut events = caller.agent.runs().run_events(run_id, after, limit + 1).await?;
    let is_cut = events.len() > limit;
    events.truncate(limit);
    let next_after = events.last().filter(|_| is_cut).map(|event| event.seq);
    Ok(Json(RunEventsBody { thread_id, run_id, events, next_after }))
}
