//! Undoing a compaction: one more event reverts the newest compaction of a context, and the messages it had replaced
//! are part of the context again.

use futures::future::BoxFuture;
use jiff::Timestamp;
use journal::view::context::ContextOutline;
use journal::{EventQuery, Store};
use protocol::{Compaction, CompactionUndone, EventType, NewEvent, Seq, ThreadId};

/// The number of events read in a page.
const PAGE_ROWS: usize = 50;

/// The compaction that a thread's context begins with.
#[derive(Debug, Clone, PartialEq)]
pub struct NewestCompaction {
    /// The seq of its `middleware:summarize` event.
    pub seq: Seq,
    /// The content of that event.
    pub compaction: Compaction,
    /// The seqs of the `result_clipped` events of the same compaction, newest first.
    pub clip_seqs: Vec<Seq>,
}

/// Returns the compaction that the thread's context begins with; `None` when the context is not compacted.
/// `beginning` is the outline of that context.
///
/// # Errors
///
/// When the journal cannot be read.
pub fn find_newest_compaction<'a>(
    store: &'a dyn Store,
    thread_id: ThreadId,
    beginning: &'a ContextOutline,
) -> BoxFuture<'a, journal::Result<Option<NewestCompaction>>> {
    journal::box_future(async move {
        let Some((seq, compaction)) = beginning.compaction() else { return Ok(None) };
        let compaction = compaction.clone();
        // The clip events of a compaction come right before it, in the same transaction. Clips of earlier compactions
        // are kept.
        let mut clip_seqs = Vec::new();
        let mut before = seq;
        loop {
            // The query has no type filter: with one, the store would search the whole thread for events of that type.
            let query = EventQuery { before: Some(before), limit: PAGE_ROWS, ..EventQuery::default() };
            let page = store.events(thread_id, query).await?;
            let nearest = page.iter().rev().zip((0..before).rev());
            let clips = nearest.take_while(|(event, seq)| {
                event.kind() == Some(EventType::ResultClipped) && event.seq == *seq
            });
            let count_before = clip_seqs.len();
            clip_seqs.extend(clips.map(|(event, _)| event.seq));
            match clip_seqs.last() {
                Some(last) if clip_seqs.len() - count_before == PAGE_ROWS => before = *last,
                Some(_) | None => break,
            }
        }
        Ok(Some(NewestCompaction { seq, compaction, clip_seqs }))
    })
}

/// Returns the event that reverts `newest`.
///
/// # Errors
///
/// When the event cannot be serialized.
pub fn undo_event(newest: &NewestCompaction, now: Timestamp) -> Result<NewEvent, serde_json::Error> {
    let content = CompactionUndone { marker_seq: newest.seq, clip_seqs: newest.clip_seqs.clone() };
    NewEvent::from_body(&content, now)
}
