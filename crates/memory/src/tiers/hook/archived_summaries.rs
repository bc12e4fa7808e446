//! The summaries of a thread's archived messages, kept in memory from one run to the next: a long thread has hundreds of
//! their events, and a new run adds few.

use std::collections::HashSet;
use std::sync::Arc;

use journal::{EventQuery, Store};
use model::{tokens, untrusted_text};
use protocol::{Event, EventId, EventType, Seq, SummaryId, ThreadId, TurnsArchived};

use super::RecentSummaryEntry;
use crate::hook::lru_cache::LruCache;

/// The events that change the summaries of a thread. The second one says that earlier ones were removed: by a restoration, or by the
/// deletion of another thread with which they are shared.
const SUMMARY_EVENTS: [EventType; 2] = [EventType::TurnsArchived, EventType::TurnsRestored];
/// Maximum number of these events of a thread that are considered. Those of compactions count too, although their summaries are not
/// shown.
const ARCHIVED_EVENTS_MAX: usize = 200;
/// Number of these events that are read first. Nearly all threads have fewer, and the journal reads so few without
/// moving to a blocking thread.
const ARCHIVED_EVENTS_FIRST: usize = 32;

/// The summaries of each thread's archived messages.
#[derive(Default)]
pub(super) struct ArchivedSummariesCache(LruCache<ThreadId, Arc<ArchivedSummaries>>);

/// The summaries of a thread's archived messages.
#[derive(Debug)]
pub(super) struct ArchivedSummaries {
    /// The newest event that was read; `None` if there is none.
    newest_event: Option<EventPosition>,
    /// The summaries, newest first.
    summaries: Vec<ArchivedSummary>,
}

/// The position of an event, with its id: a thread that was deleted and created again has other events at the same seqs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct EventPosition {
    /// The seq of the event.
    seq: Seq,
    /// The id of the event.
    event_id: EventId,
}

/// A summary of archived messages.
#[derive(Debug, Clone)]
struct ArchivedSummary {
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
    /// Fails if the journal does.
    pub(super) async fn read(
        &self,
        store: &dyn Store,
        thread_id: ThreadId,
        tokens_max: u64,
    ) -> journal::Result<Arc<ArchivedSummaries>> {
        if let Some(known) = self.0.get(thread_id)
            && let Some(newest) = known.newest_event
        {
            let query = EventQuery::after(newest.seq.saturating_sub(1), ARCHIVED_EVENTS_FIRST);
            let events = store.events(thread_id, of_summaries(query)).await?;
            match events.as_slice() {
                [first] if position(first) == newest => return Ok(known),
                [first, new @ ..] if position(first) == newest && adds_all(new) => {
                    let older = known.summaries.iter().cloned();
                    let newest_first = to_summaries(new, thread_id).chain(older);
                    return Ok(
                        self.keep(thread_id, ArchivedSummaries::new(&events, newest_first, tokens_max))
                    );
                }
                // The newest known event is missing if the thread was rewound, or deleted and created again.
                _ => {}
            }
        }
        let newest = EventQuery { limit: ARCHIVED_EVENTS_FIRST, ..EventQuery::default() };
        let mut events = store.events(thread_id, of_summaries(newest)).await?;
        if events.len() == ARCHIVED_EVENTS_FIRST {
            let before = events.first().map(|first| first.seq);
            let limit = ARCHIVED_EVENTS_MAX - ARCHIVED_EVENTS_FIRST;
            let older = EventQuery { before, limit, ..EventQuery::default() };
            events.splice(0..0, store.events(thread_id, of_summaries(older)).await?);
        }
        let newest_first = to_summaries(&events, thread_id);
        Ok(self.keep(thread_id, ArchivedSummaries::new(&events, newest_first, tokens_max)))
    }

    /// Keeps the summaries of a thread that has any events of them.
    fn keep(&self, thread_id: ThreadId, summaries: ArchivedSummaries) -> Arc<ArchivedSummaries> {
        let summaries = Arc::new(summaries);
        if summaries.newest_event.is_some() {
            self.0.insert(thread_id, Arc::clone(&summaries), summaries.size_in_bytes());
        }
        summaries
    }
}

impl ArchivedSummaries {
    /// Returns the newest of these summaries, without the texts that exceed `tokens_max` tokens. `events` ends with the newest event
    /// that was read.
    fn new(events: &[Event], newest_first: impl Iterator<Item = ArchivedSummary>, tokens_max: u64) -> Self {
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
        let summaries = newest_first.take(ARCHIVED_EVENTS_MAX).map(keep).collect();
        Self { newest_event: events.last().map(position), summaries }
    }

    /// Returns the ids of all summaries.
    pub(super) fn ids(&self) -> HashSet<SummaryId> {
        self.summaries.iter().map(|summary| summary.summary_id).collect()
    }

    /// Returns the entries of messages that left the thread's context without a compaction, newest first.
    pub(super) fn entries(&self) -> Vec<RecentSummaryEntry> {
        self.summaries.iter().filter_map(|summary| summary.entry.clone()).collect()
    }

    /// Returns the approximate size in bytes.
    fn size_in_bytes(&self) -> usize {
        let texts = self.summaries.iter().filter_map(|summary| summary.entry.as_ref());
        let texts: usize = texts.map(|entry| entry.text.len() + entry.place.len()).sum();
        texts + self.summaries.len() * size_of::<ArchivedSummary>()
    }
}

/// Restricts a query to the events that change the summaries.
fn of_summaries(query: EventQuery) -> EventQuery {
    EventQuery { types: SUMMARY_EVENTS.to_vec(), ..query }
}

/// Returns the position of an event.
const fn position(event: &Event) -> EventPosition {
    EventPosition { seq: event.seq, event_id: event.event_id }
}

/// Returns whether these events, which were read with a limit of [`ARCHIVED_EVENTS_FIRST`] together with an earlier one, are complete
/// and only add summaries.
fn adds_all(new: &[Event]) -> bool {
    new.len() + 1 < ARCHIVED_EVENTS_FIRST
        && new.iter().all(|event| event.kind() == Some(EventType::TurnsArchived))
}

/// Returns the summary that an event announces. Its content is empty if the summary was removed.
fn to_archived_turns(event: &Event) -> Option<TurnsArchived> {
    event.body().ok()
}

/// Returns the summaries of these events, newest first.
fn to_summaries(events: &[Event], thread_id: ThreadId) -> impl Iterator<Item = ArchivedSummary> {
    events.iter().rev().filter_map(to_archived_turns).map(move |archived| {
        let entry = archived.reason.is_removed_from_context().then(|| RecentSummaryEntry {
            place: format!("thread=\"{thread_id}\" seqs=\"{}-{}\"", archived.first_seq, archived.last_seq),
            text: untrusted_text::neutralize(archived.summary.trim()),
        });
        ArchivedSummary { summary_id: archived.summary_id, entry }
    })
}
