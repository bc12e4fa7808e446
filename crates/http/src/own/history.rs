//! What people are shown of a thread: pages of its whole history with markers where messages were condensed, the
//! originals behind a marker, and everything that happened in one run. Nothing is decided here.

use agent::{HistoryEntry, HistoryItem, HistoryPage, HistoryQuery, Shown, Superseded};
use axum::Json;
use langgraph::extract::{InThread, OfRun, Params, PathParams, path_id};
use langgraph::{Caller, Envelope, Fault};
use protocol::{Event, RunId, Seq, ThreadId};
use serde::Serialize;
use utoipa::ToSchema;

/// Entries of a page when nobody says how many.
const ENTRIES: usize = 50;
/// Entries of a page, at most.
const ENTRIES_MAX: usize = 1_000;
/// Events of a run on a page when nobody says how many.
const EVENTS: usize = 200;
/// Events of a run on a page, at most.
const EVENTS_MAX: usize = 1_000;

/// A page of a thread's history.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HistoryBody {
    /// The thread.
    #[schema(value_type = String, format = Uuid)]
    thread_id: ThreadId,
    /// Where the entries are from: always `journal`. Messages are kept nowhere else, so that nothing could stand in for it.
    source: &'static str,
    /// The entries, in ascending order of `seq`.
    #[schema(value_type = Vec<EntryShape>)]
    entries: Vec<HistoryEntry>,
    /// Whether there are more in the direction the page was read in.
    has_more: bool,
    /// Whether there are earlier ones.
    has_more_before: bool,
    /// Whether there are later ones.
    has_more_after: bool,
    /// The page's first position: the `before_seq` of the page before it; `null` on an empty page.
    #[schema(value_type = Option<u64>)]
    first_seq: Option<Seq>,
    /// The page's last position: the `after_seq` of the page after it; `null` on an empty page.
    #[schema(value_type = Option<u64>)]
    last_seq: Option<Seq>,
}

/// An entry of a history: a message, or a place where something was condensed, taken back or archived. Ignore entries of a
/// `type` you do not know.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes what the journal's own shape is written as")]
struct EntryShape {
    /// The message's id, the same everywhere; `summary-marker-<seq>` for a marker.
    id: String,
    /// Its position: the one thing to sort by.
    seq: u64,
    /// The run it came from.
    #[schema(value_type = Option<String>, format = Uuid)]
    run_id: Option<RunId>,
    /// When it was said.
    #[schema(format = DateTime)]
    created_at: String,
    /// `human`, `ai`, `tool`, `summary_marker`, `summary_undone`, `compaction_failed`, `turns_archived`, `imported_boundary` or
    /// `imported_summary`.
    r#type: String,
    /// The blocks of a message.
    #[schema(value_type = Option<Vec<Object>>, required = false, nullable = false)]
    content: Option<Vec<()>>,
    /// Whether it was taken out of sight; absent otherwise.
    #[schema(required = false, nullable = false)]
    superseded: Option<bool>,
    /// The call a tool's result answers, where it is on another page.
    #[schema(value_type = Option<Object>, required = false, nullable = false)]
    call: Option<()>,
    /// What the caller thinks of the run: on its last answer only.
    #[schema(value_type = Option<Object>, required = false)]
    feedback: Option<()>,
}

/// Returns a page of what people are shown of a thread
///
/// It is complete, whatever was condensed for the model; where that happened there is a marker.
#[utoipa::path(get, path = "/api/threads/{thread_id}/history", tag = "segue", operation_id = "thread_history_page",
    params(
        ("thread_id" = String, Path, format = Uuid),
        ("before_seq" = Option<u64>, Query, description = "Only entries before this position; the page ends there"),
        ("after_seq" = Option<u64>, Query, description = "Only entries after this position; the page begins there. Without either it is the newest page"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "The most entries; 50 unless given. What is not shown takes no place"),
        ("superseded" = Option<bool>, Query, description = "Whether what a rewind or an edit took out of sight is there too"),
        ("shown" = Option<String>, Query, description = "`all`, or `markers`: only the places where something was condensed"),
    ),
    responses((status = 200, body = HistoryBody), (status = 404, body = Envelope), (status = 422, body = Envelope)))]
pub(crate) async fn page(
    caller: Caller,
    InThread(thread_id): InThread,
    params: Params,
) -> Result<Json<HistoryBody>, Fault> {
    langgraph::thread(&caller, thread_id).await?;
    let query = query(&caller, &params)?;
    let page = caller.agent.threads().history_page(thread_id, &query).await?;
    Ok(Json(body(page, &query)))
}

/// Returns the original messages behind a marker, from the first one on
#[utoipa::path(get, path = "/api/threads/{thread_id}/history/markers/{seq}/messages", tag = "segue",
    operation_id = "thread_marker_messages",
    params(
        ("thread_id" = String, Path, format = Uuid),
        ("seq" = u64, Path, description = "The marker's position"),
        ("before_seq" = Option<u64>, Query, description = "Only entries before this position; the page ends there"),
        ("after_seq" = Option<u64>, Query, description = "Only entries after this position; the page begins there. Without either it is the newest page"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "The most entries; 50 unless given. What is not shown takes no place"),
        ("superseded" = Option<bool>, Query, description = "Whether what a rewind or an edit took out of sight is there too"),
        ("shown" = Option<String>, Query, description = "`all`, or `markers`: only the places where something was condensed"),
    ),
    responses((status = 200, body = HistoryBody), (status = 404, body = Envelope, description = "There is no such marker"),
        (status = 422, body = Envelope)))]
pub(crate) async fn marker(
    caller: Caller,
    path: PathParams,
    params: Params,
) -> Result<Json<HistoryBody>, Fault> {
    let thread_id: ThreadId = path_id(&path, "thread")?;
    let seq = path.get("seq");
    let seq: Seq = seq.parse().map_err(|_| Fault::invalid(format!("`{seq}` is no position")))?;
    langgraph::thread(&caller, thread_id).await?;
    let unknown = || Fault::not_found(format!("thread {thread_id} has no marker at {seq}"));
    let at = HistoryQuery {
        after_seq: Some(seq.saturating_sub(1)),
        before_seq: Some(seq.saturating_add(1)),
        limit: 1,
        shown: Shown::Markers,
        superseded: Superseded::Shown,
        feedback: None,
    };
    let found =
        caller.agent.threads().history_page(thread_id, &at).await?.entries.pop().ok_or_else(unknown)?;
    let (first, last) = stands_for(&found).ok_or_else(unknown)?;
    let mut query = query(&caller, &params)?;
    if found.is_superseded {
        query.superseded = Superseded::Shown;
    }
    let (begin, end) = (first.saturating_sub(1), last.saturating_add(1));
    let from = query.after_seq.filter(|after| *after > begin);
    let until = query.before_seq.filter(|before| *before < end);
    query.before_seq = Some(until.unwrap_or(end));
    // Read back from a position, or else forward from the beginning.
    query.after_seq = if until.is_some() && from.is_none() { None } else { Some(from.unwrap_or(begin)) };
    let mut page = caller.agent.threads().history_page(thread_id, &query).await?;
    if query.after_seq.is_none() {
        let before = page.entries.len();
        page.entries.retain(|entry| entry.seq > begin);
        page.has_more_before &= page.entries.len() == before;
        page.has_more_after = true;
    } else {
        page.has_more_before &= from.is_some();
    }
    Ok(Json(body(page, &query)))
}

/// Returns the first and the last event that a marker's summary stands for; other entries stand for themselves.
fn stands_for(entry: &HistoryEntry) -> Option<(Seq, Seq)> {
    match &entry.what {
        HistoryItem::Marker(marker) => Some((marker.first_seq, marker.last_seq)),
        HistoryItem::Archived(marker) => Some((marker.first_seq, marker.last_seq)),
        HistoryItem::Message(_)
        | HistoryItem::Boundary(_)
        | HistoryItem::Failed(_)
        | HistoryItem::Undone(_) => None,
    }
}

fn query(caller: &Caller, params: &Params) -> Result<HistoryQuery, Fault> {
    let shown = match params.text("shown") {
        None | Some("all") => Shown::All,
        Some("markers") => Shown::Markers,
        Some(other) => return Err(Fault::invalid(format!("`shown`: `{other}` is none of all, markers"))),
    };
    let is_shown = params.flag("superseded")?.unwrap_or_default();
    Ok(HistoryQuery {
        before_seq: super::seq(params, "before_seq")?,
        after_seq: super::seq(params, "after_seq")?,
        limit: params.number("limit", 1..=ENTRIES_MAX)?.unwrap_or(ENTRIES),
        shown,
        superseded: if is_shown { Superseded::Shown } else { Superseded::Hidden },
        feedback: Some(caller.agent.feedback_user().to_owned()),
    })
}

fn body(page: HistoryPage, query: &HistoryQuery) -> HistoryBody {
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

/// A page of what happened in a run.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EventsBody {
    /// The thread.
    #[schema(value_type = String, format = Uuid)]
    thread_id: ThreadId,
    /// The run.
    #[schema(value_type = String, format = Uuid)]
    run_id: RunId,
    /// The events in order: what was condensed or taken back since, too.
    #[schema(value_type = Vec<Object>)]
    events: Vec<Event>,
    /// The `after` of the next page; `null` when this is the last one.
    #[schema(value_type = Option<u64>)]
    next_after: Option<Seq>,
}

/// Returns everything that happened in a run: messages, model calls, questions, what was written
#[utoipa::path(get, path = "/api/threads/{thread_id}/runs/{run_id}/events", tag = "segue",
    operation_id = "run_events",
    params(
        ("thread_id" = String, Path, format = Uuid),
        ("run_id" = String, Path, format = Uuid),
        ("after" = Option<u64>, Query, description = "Only events after this position"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "The most events; 200 unless given"),
    ),
    responses((status = 200, body = EventsBody), (status = 404, body = Envelope), (status = 422, body = Envelope)))]
pub(crate) async fn events(
    caller: Caller,
    OfRun { thread_id, run_id }: OfRun,
    params: Params,
) -> Result<Json<EventsBody>, Fault> {
    langgraph::run(&caller, thread_id, run_id).await?;
    let limit = params.number("limit", 1..=EVENTS_MAX)?.unwrap_or(EVENTS);
    let after = super::seq(&params, "after")?.unwrap_or(0);
    let mut events = caller.agent.runs().events_of(run_id, after, limit + 1).await?;
    let is_cut = events.len() > limit;
    events.truncate(limit);
    let next_after = events.last().filter(|_| is_cut).map(|event| event.seq);
    Ok(Json(EventsBody { thread_id, run_id, events, next_after }))
}
