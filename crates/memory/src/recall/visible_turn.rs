//! Determines which part of a thread the requesting model already sees: its current turn, except for compacted
//! messages. Damaged events are ignored, because this only decides which messages need not be found.

use journal::view::context::ContextOutline;
use journal::{DamageHandling, EventQuery, Store};
use protocol::{Category, Event, EventType, Seq, ThreadId, TurnsArchived};

use super::RecallError;
use super::messages::is_injected;

/// Number of messages that are read at a time to find the start of a turn.
const TURN_PAGE_ROWS: usize = 50;
/// Number of boundary events, such as compactions, that are read at a time.
const BOUNDARIES_PAGE_ROWS: usize = 20;

/// The part of a thread that its model sees in addition to a summary.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct VisibleTurn {
    /// The seq from which on everything is visible; `None` for a thread without a user message.
    pub(super) from: Option<Seq>,
    /// The seq of the user's request, if messages after it were compacted. A compaction keeps the request verbatim.
    pub(super) request: Option<Seq>,
}

/// Returns the part of its current turn that the thread's model sees.
///
/// # Errors
/// When the journal fails.
pub(super) async fn read_visible_turn(
    store: &dyn Store,
    thread_id: ThreadId,
) -> Result<VisibleTurn, RecallError> {
    let Some(turn_start) = turn_start_seq(store, thread_id).await? else { return Ok(VisibleTurn::default()) };
    let mut boundaries: Vec<Event> = Vec::new();
    loop {
        // Events before the turn are not read: a compaction that covers a part of the turn was made during the turn.
        let after = boundaries.last().map_or(turn_start, |last| last.seq);
        let page = store.events(thread_id, boundaries_query(Some(after))).await?;
        let is_last = page.len() < BOUNDARIES_PAGE_ROWS;
        boundaries.extend(page);
        if is_last {
            break;
        }
    }
    let mut outline = ContextOutline::default();
    outline.scan_page(&boundaries);
    let compaction = outline.compaction().map(|(_, compaction)| compaction);
    Ok(match compaction.filter(|compaction| compaction.last_seq >= turn_start) {
        Some(compaction) => {
            VisibleTurn { from: Some(compaction.last_seq + 1), request: compaction.last_request_seq }
        }
        None => VisibleTurn { from: Some(turn_start), request: None },
    })
}

/// Returns whether the model sees a summary of messages of the thread itself, made by a compaction or by memory.
///
/// # Errors
/// When the journal fails.
pub(super) async fn is_compacted(store: &dyn Store, thread_id: ThreadId) -> Result<bool, RecallError> {
    let mut outline = ContextOutline::default();
    let mut query = boundaries_query(None);
    // The newest events are read first, because the newest boundary usually decides.
    loop {
        let page = store.events(thread_id, query.clone()).await?;
        outline.scan_page(&page);
        if page.iter().any(is_context_departure) {
            return Ok(true);
        }
        match page.first() {
            Some(first) if page.len() == BOUNDARIES_PAGE_ROWS && outline.start.is_none() => {
                query.before = Some(first.seq);
            }
            Some(_) | None => return Ok(outline.compaction().is_some()),
        }
    }
}

/// Returns whether the event removed messages from the context. The model then sees memory's summary of them.
fn is_context_departure(event: &Event) -> bool {
    event.kind() == Some(EventType::TurnsArchived)
        && event.body::<TurnsArchived>().is_ok_and(|archived| archived.reason.is_removed_from_context())
}

/// Returns a query for one page of the events that remove messages from a thread's context or undo such a removal: the
/// first page after the seq `after`, or the newest page.
fn boundaries_query(after: Option<Seq>) -> EventQuery {
    let types = vec![EventType::Compacted, EventType::CompactionUndone, EventType::TurnsArchived];
    let damage = DamageHandling::Mark;
    EventQuery { after, types, damage, limit: BOUNDARIES_PAGE_ROWS, ..EventQuery::default() }
}

/// Returns the seq of the user's newest message, which begins the current turn. Messages that a program injected in the
/// user's role are skipped.
async fn turn_start_seq(store: &dyn Store, thread_id: ThreadId) -> Result<Option<Seq>, RecallError> {
    let mut query = EventQuery {
        categories: vec![Category::Message],
        damage: DamageHandling::Mark,
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
