//! Determines which part of a thread the requesting model already sees: its current turn, except for compacted
//! messages.

use journal::view::context::ContextOutline;
use journal::{EventQuery, Store};
use protocol::{Category, Event, EventType, Seq, ThreadId, TurnsArchived};

use super::RecallError;
use super::messages::is_injected;

/// Messages that are read at a time to find where a turn began.
const TURN_PAGE_ROWS: usize = 50;
/// Compactions and the like that are read at a time.
const BOUNDARIES_PAGE_ROWS: usize = 20;

/// The part of a thread that its model sees in addition to a summary.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct VisibleTurn {
    /// Everything of its turn from this seq on.
    pub(super) from: Option<Seq>,
    /// The person's request, when what follows it was condensed.
    pub(super) request: Option<Seq>,
}

/// Returns what the thread's model sees of the turn it works in.
pub(super) async fn read_visible_turn(
    store: &dyn Store,
    thread_id: ThreadId,
) -> Result<VisibleTurn, RecallError> {
    let Some(begin) = turn_start_seq(store, thread_id).await? else { return Ok(VisibleTurn::default()) };
    let mut markers: Vec<Event> = Vec::new();
    loop {
        // A compaction that reaches into the turn happened in it.
        let after = markers.last().map_or(begin, |last| last.seq);
        let page = store.events(thread_id, boundaries_query(Some(after))).await?;
        let is_last = page.len() < BOUNDARIES_PAGE_ROWS;
        markers.extend(page);
        if is_last {
            break;
        }
    }
    let mut beginning = ContextOutline::default();
    beginning.scan_page(&markers);
    let compaction = beginning.compaction().map(|(_, compaction)| compaction);
    Ok(match compaction.filter(|compaction| compaction.last_seq >= begin) {
        Some(compaction) => {
            VisibleTurn { from: Some(compaction.last_seq + 1), request: compaction.last_request_seq }
        }
        None => VisibleTurn { from: Some(begin), request: None },
    })
}

/// Returns whether summaries stand for messages of the thread itself, one of its compaction or of memory.
pub(super) async fn is_compacted(store: &dyn Store, thread_id: ThreadId) -> Result<bool, RecallError> {
    let mut beginning = ContextOutline::default();
    let mut query = boundaries_query(None);
    loop {
        let page = store.events(thread_id, query.clone()).await?;
        beginning.scan_page(&page);
        if page.iter().any(is_context_departure) {
            return Ok(true);
        }
        match page.first() {
            Some(first) if page.len() == BOUNDARIES_PAGE_ROWS && beginning.start.is_none() => {
                query.before = Some(first.seq);
            }
            Some(_) | None => return Ok(beginning.compaction().is_some()),
        }
    }
}

/// Returns whether turns left the context by the event: what memory says of them is in sight.
fn is_context_departure(event: &Event) -> bool {
    event.kind() == Some(EventType::TurnsArchived)
        && event.body::<TurnsArchived>().is_ok_and(|archived| archived.reason.is_removed_from_context())
}

/// Returns a query of a page of what took messages out of a thread's context and what took that back: the first behind a
/// seq, or the newest.
fn boundaries_query(after: Option<Seq>) -> EventQuery {
    let types = vec![EventType::Compacted, EventType::CompactionUndone, EventType::TurnsArchived];
    EventQuery { after, types, limit: BOUNDARIES_PAGE_ROWS, ..EventQuery::default() }
}

/// Returns the seq of what the person said last.
async fn turn_start_seq(store: &dyn Store, thread_id: ThreadId) -> Result<Option<Seq>, RecallError> {
    let mut query = EventQuery {
        categories: vec![Category::Message],
        after: None,
        ..EventQuery::after(0, TURN_PAGE_ROWS)
    };
    let is_human = |event: &&Event| event.kind() == Some(EventType::HumanMessage) && !is_injected(event);
    loop {
        let page = store.events(thread_id, query.clone()).await?;
        match (page.iter().rev().find(is_human), page.first()) {
            (Some(human), _) => return Ok(Some(human.seq)),
            (None, Some(first)) => query.before = Some(first.seq),
            (None, None) => return Ok(None),
        }
    }
}
