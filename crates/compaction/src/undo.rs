//! Undoing: the newest compaction of a context is taken back by one more event, and what it stood for is sent again.

use jiff::Timestamp;
use journal::view::context::{Beginning, Undone};
use journal::{EventQuery, Store};
use protocol::{Category, Compaction, EventType, NewEvent, Seq, ThreadId};

/// Events read at a time.
const PAGE_ROWS: usize = 100;

/// The compaction a thread's context begins with.
#[derive(Debug, Clone, PartialEq)]
pub struct NewestMarker {
    /// Its event.
    pub seq: Seq,
    /// What it holds.
    pub compaction: Compaction,
    /// The results that were clipped with it.
    pub clip_seqs: Vec<Seq>,
}

/// Returns the compaction the thread's context begins with; `None` when nothing is condensed.
///
/// # Errors
/// When the journal fails.
pub async fn newest_marker(store: &dyn Store, thread_id: ThreadId) -> journal::Result<Option<NewestMarker>> {
    let mut beginning = Beginning::default();
    let mut before = None;
    let (seq, compaction) = loop {
        let query = EventQuery { before, ..page_query() };
        let page = store.events(thread_id, query).await?;
        beginning.look(&page);
        if let Some((seq, compaction)) = beginning.compaction() {
            break (seq, compaction.clone());
        }
        before = page.first().map(|event| event.seq);
        if page.len() < PAGE_ROWS || beginning.start.is_some() {
            return Ok(None);
        }
    };
    // They were stored right before it, in the same transaction.
    let page = store.events(thread_id, EventQuery { before: Some(seq), ..page_query() }).await?;
    let clips = page.iter().rev().take_while(|event| event.kind() == Some(EventType::ResultClipped));
    Ok(Some(NewestMarker { seq, compaction, clip_seqs: clips.map(|event| event.seq).collect() }))
}

/// Returns the event that takes the compaction back.
///
/// # Errors
/// When it cannot be written as JSON.
pub fn undone(marker: &NewestMarker, now: Timestamp) -> Result<NewEvent, serde_json::Error> {
    let content = Undone { marker_seq: marker.seq, clip_seqs: marker.clip_seqs.clone() };
    NewEvent::new(EventType::CompactionUndone, &content, now)
}

fn page_query() -> EventQuery {
    EventQuery { categories: vec![Category::Middleware], limit: PAGE_ROWS, ..EventQuery::default() }
}
