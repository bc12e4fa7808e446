//! Undoing: the newest compaction of a context is taken back by one more event, and what it stood for is sent again.

use jiff::Timestamp;
use journal::view::context::{Beginning, Undone};
use journal::{EventQuery, Store};
use protocol::{Category, Compaction, EventType, NewEvent, Seq, ThreadId};

/// Results that are clipped with one compaction, at most: as many as are looked at.
const CLIPS_MAX: usize = 100;

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

/// Returns the compaction that the thread's context, which has this beginning, begins with; `None` when nothing is
/// condensed.
///
/// # Errors
/// When the journal fails.
pub async fn newest_marker(
    store: &dyn Store,
    thread_id: ThreadId,
    beginning: &Beginning,
) -> journal::Result<Option<NewestMarker>> {
    let Some((seq, compaction)) = beginning.compaction() else { return Ok(None) };
    let compaction = compaction.clone();
    // They were stored right before it, in the same transaction. Those of an earlier one stay clipped.
    let page = store.events(thread_id, EventQuery { before: Some(seq), ..page_query() }).await?;
    let before = page.iter().rev().zip((0..seq).rev());
    let clips =
        before.take_while(|(event, at)| event.kind() == Some(EventType::ResultClipped) && event.seq == *at);
    Ok(Some(NewestMarker { seq, compaction, clip_seqs: clips.map(|(event, _)| event.seq).collect() }))
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
    EventQuery { categories: vec![Category::Middleware], limit: CLIPS_MAX, ..EventQuery::default() }
}
