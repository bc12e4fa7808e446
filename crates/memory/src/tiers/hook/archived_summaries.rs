//! The summaries of a thread's archived messages, kept in memory from one run to the next: a long thread has hundreds of
//! their events, and a new run adds few.

use std::collections::HashSet;
use std::sync::Arc;

use journal::{EventQuery, Store};
use model::{tokens, untrusted_text};
use protocol::{Event, EventType, Seq, SummaryId, ThreadId, TurnsArchived};

use super::RecentSummaryEntry;
use crate::hook::lru_cache::LruCache;

/// Maximum number of `turns_archived` events of a thread that are considered. Those of compactions count too,
/// although they are not shown.
const ARCHIVED_EVENTS_MAX: usize = 200;
/// Number of these events that are read first. Nearly all threads have fewer, and the journal reads so few without
/// moving to a blocking thread.
const ARCHIVED_EVENTS_FIRST: usize = 32;

/// The summaries of each thread's archived messages.
#[derive(Default)]
pub(super) struct ArchivedSummariesCache(LruCache<ThreadId, Arc<ArchivedSummaries>>);

/// The summaries of a thread's archived messages, newest first.
#[derive(Debug, Default)]
pub(super) struct ArchivedSummaries(Vec<ArchivedSummary>);

/// A summary of archived messages.
#[derive(Debug, Clone)]
struct ArchivedSummary {
    /// The seq of its event.
    seq: Seq,
    /// The summary.
    summary_id: SummaryId,
    /// The entry of the section; `None` if the summary is in the thread's context or exceeds the tokens that are kept.
    entry: Option<RecentSummaryEntry>,
}

impl ArchivedSummariesCache {
    /// Returns the newest summaries of a thread, at most [`ARCHIVED_EVENTS_MAX`]. Only the texts of about `tokens_max`
    /// tokens are kept. After the first call for a thread, only its new events are read.
    ///
    /// # Errors
    /// When the journal fails.
    pub(super) async fn read(
        &self,
        store: &dyn Store,
        thread_id: ThreadId,
        tokens_max: u64,
    ) -> journal::Result<Arc<ArchivedSummaries>> {
        if let Some(known) = self.0.get(thread_id)
            && let Some(newest) = known.0.first()
        {
            let query = EventQuery::after(newest.seq.saturating_sub(1), ARCHIVED_EVENTS_FIRST);
            let events = store.events(thread_id, of_archived_turns(query)).await?;
            // The newest known event is missing if the thread was rewound, or deleted and created again.
            if known.is_continued_by(&events) {
                let [_, new @ ..] = events.as_slice() else { return Ok(known) };
                if new.is_empty() {
                    return Ok(known);
                }
                let older = known.0.iter().cloned();
                let summaries =
                    ArchivedSummaries::from_newest(to_summaries(new, thread_id).chain(older), tokens_max);
                return Ok(self.keep(thread_id, summaries));
            }
        }
        let mut events = store
            .events(
                thread_id,
                of_archived_turns(EventQuery { limit: ARCHIVED_EVENTS_FIRST, ..EventQuery::default() }),
            )
            .await?;
        if events.len() == ARCHIVED_EVENTS_FIRST {
            let before = events.first().map(|first| first.seq);
            let limit = ARCHIVED_EVENTS_MAX - ARCHIVED_EVENTS_FIRST;
            let older = EventQuery { before, limit, ..EventQuery::default() };
            events.splice(0..0, store.events(thread_id, of_archived_turns(older)).await?);
        }
        let summaries = ArchivedSummaries::from_newest(to_summaries(&events, thread_id), tokens_max);
        Ok(self.keep(thread_id, summaries))
    }

    /// Keeps the summaries of a thread that has any.
    fn keep(&self, thread_id: ThreadId, summaries: ArchivedSummaries) -> Arc<ArchivedSummaries> {
        let summaries = Arc::new(summaries);
        if !summaries.0.is_empty() {
            self.0.insert(thread_id, Arc::clone(&summaries), summaries.size_in_bytes());
        }
        summaries
    }
}

impl ArchivedSummaries {
    /// Returns the newest of these summaries, without the texts that exceed `tokens_max` tokens.
    fn from_newest(newest_first: impl Iterator<Item = ArchivedSummary>, tokens_max: u64) -> Self {
        let mut left = Some(tokens_max);
        let keep = |mut summary: ArchivedSummary| {
            if let Some(entry) = &summary.entry {
                left = left.and_then(|left| left.checked_sub(tokens::estimate_tokens(&entry.text)));
                if left.is_none() {
                    summary.entry = None;
                }
            }
            summary
        };
        Self(newest_first.take(ARCHIVED_EVENTS_MAX).map(keep).collect())
    }

    /// Returns whether these events, in ascending order, begin with that of the newest summary and are all that follow it.
    fn is_continued_by(&self, events: &[Event]) -> bool {
        let first = events.first().and_then(to_archived_turns);
        let newest = self.0.first().map(|newest| (newest.seq, newest.summary_id));
        first.map(|(seq, archived)| (seq, archived.summary_id)) == newest
            && events.len() < ARCHIVED_EVENTS_FIRST
    }

    /// Returns the ids of all summaries.
    pub(super) fn ids(&self) -> HashSet<SummaryId> {
        self.0.iter().map(|summary| summary.summary_id).collect()
    }

    /// Returns the entries of messages that left the thread's context without a compaction, newest first.
    pub(super) fn entries(&self) -> Vec<RecentSummaryEntry> {
        self.0.iter().filter_map(|summary| summary.entry.clone()).collect()
    }

    /// Returns the approximate size in bytes.
    fn size_in_bytes(&self) -> usize {
        let texts = self.0.iter().filter_map(|summary| summary.entry.as_ref());
        let texts: usize = texts.map(|entry| entry.text.len() + entry.place.len()).sum();
        texts + self.0.len() * size_of::<ArchivedSummary>()
    }
}

/// Restricts a query to the events of archived messages.
fn of_archived_turns(query: EventQuery) -> EventQuery {
    EventQuery { types: vec![EventType::TurnsArchived], ..query }
}

/// Returns the seq and the body of an event of archived messages.
fn to_archived_turns(event: &Event) -> Option<(Seq, TurnsArchived)> {
    Some((event.seq, event.body().ok()?))
}

/// Returns the summaries of these events, newest first.
fn to_summaries(events: &[Event], thread_id: ThreadId) -> impl Iterator<Item = ArchivedSummary> {
    events.iter().rev().filter_map(to_archived_turns).map(move |(seq, archived)| {
        let entry = archived.reason.is_removed_from_context().then(|| RecentSummaryEntry {
            place: format!("thread=\"{thread_id}\" seqs=\"{}-{}\"", archived.first_seq, archived.last_seq),
            text: untrusted_text::neutralize(archived.summary.trim()),
        });
        ArchivedSummary { seq, summary_id: archived.summary_id, entry }
    })
}
