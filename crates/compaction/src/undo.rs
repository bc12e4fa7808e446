//! Undoing: the newest compaction of a context is taken back by one more event, and what it stood for is sent again.

use jiff::Timestamp;
use journal::view::context::Beginning;
use journal::{EventQuery, Store};
use protocol::{Compaction, CompactionUndone, EventType, NewEvent, Seq, ThreadId};

/// Events read at a time.
const PAGE_ROWS: usize = 50;

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
pub async fn newest_marker(
    store: &dyn Store,
    thread_id: ThreadId,
    beginning: &Beginning,
) -> journal::Result<Option<NewestMarker>> {
    let Some((seq, compaction)) = beginning.compaction() else { return Ok(None) };
    let compaction = compaction.clone();
    // They were stored right before it, in the same transaction. Those of an earlier one stay clipped.
    let mut clip_seqs = Vec::new();
    let mut before = seq;
    loop {
        // Every event is looked at: to look for those of one type would be to look through the thread.
        let query = EventQuery { before: Some(before), limit: PAGE_ROWS, ..EventQuery::default() };
        let page = store.events(thread_id, query).await?;
        let nearest = page.iter().rev().zip((0..before).rev());
        let clips = nearest
            .take_while(|(event, at)| event.kind() == Some(EventType::ResultClipped) && event.seq == *at);
        let found = clip_seqs.len();
        clip_seqs.extend(clips.map(|(event, _)| event.seq));
        match clip_seqs.last() {
            Some(last) if clip_seqs.len() - found == PAGE_ROWS => before = *last,
            Some(_) | None => break,
        }
    }
    Ok(Some(NewestMarker { seq, compaction, clip_seqs }))
}

/// Returns the event that takes the compaction back.
pub fn undone(marker: &NewestMarker, now: Timestamp) -> Result<NewEvent, serde_json::Error> {
    let content = CompactionUndone { marker_seq: marker.seq, clip_seqs: marker.clip_seqs.clone() };
    NewEvent::of(&content, now)
}
