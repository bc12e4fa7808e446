//! Reading what a search found: who said a message and what was said beside it. Which matches come first is not decided
//! here.

use std::collections::HashSet;

use jiff::Timestamp;
use journal::{EventQuery, FoundKind, Hit, Place, Store};
use protocol::{Category, EventId, Seq, ThreadId};

use super::{Beside, Found, SearchHit};
use crate::recall::gather::{NEIGHBOUR_CHARS_MAX, said};
use crate::recall::order::Match;
use crate::recall::passage::shortened;
use crate::{RecallError, Speaker};

/// Reads matches, each message once.
pub(super) struct Reader<'a> {
    store: &'a dyn Store,
    seen: HashSet<EventId>,
}

/// A match, read as far as its order depends on it.
pub(super) struct Read {
    hit: Hit,
    /// Who said it, if it is a message.
    speaker: Option<Speaker>,
}

impl Read {
    /// Returns what was found.
    pub(super) const fn kind(&self) -> FoundKind {
        match &self.hit.place {
            Place::Message { .. } => FoundKind::Message,
            Place::Summary { .. } => FoundKind::Summary,
            Place::Handoff { .. } => FoundKind::Handoff,
            Place::Item { .. } => FoundKind::Item,
        }
    }

    /// Returns what its order depends on.
    pub(super) const fn matching(&self) -> Match<(Timestamp, Seq)> {
        let seq = match &self.hit.place {
            Place::Message { seq, .. } => *seq,
            Place::Summary { .. } | Place::Handoff { .. } | Place::Item { .. } => 0,
        };
        Match { score: self.hit.score, held: self.hit.held, age: (self.hit.created_at, seq) }
    }
}

impl<'a> Reader<'a> {
    /// Returns a reader that has read nothing.
    pub(super) fn new(store: &'a dyn Store) -> Self {
        Self { store, seen: HashSet::new() }
    }

    /// Reads a match; `None` for a message that only repeats another or what was recalled before.
    pub(super) async fn read(&mut self, hit: Hit) -> Result<Option<Read>, RecallError> {
        let Place::Message { thread_id, seq, .. } = hit.place else {
            return Ok(Some(Read { hit, speaker: None }));
        };
        let query = EventQuery { before: Some(seq + 1), ..EventQuery::after(seq - 1, 1) };
        let Some(event) = self.store.events(thread_id, query).await?.pop() else { return Ok(None) };
        let Some((speaker, _)) = said(&event).filter(|_| self.seen.insert(event.event_id)) else {
            return Ok(None);
        };
        Ok(Some(Read { hit, speaker: Some(speaker) }))
    }

    /// Returns the match as it is shown.
    pub(super) async fn hit(&self, read: &Read) -> Result<SearchHit, RecallError> {
        let found = match read.hit.place.clone() {
            Place::Message { thread_id, seq, .. } => {
                let speaker = read.speaker.clone().unwrap_or(Speaker::Tool(None));
                let before = EventQuery { after: None, before: Some(seq), ..EventQuery::after(0, 1) };
                let before = self.beside(thread_id, before).await?;
                let after = self.beside(thread_id, EventQuery::after(seq, 1)).await?;
                Found::Message { thread_id, seq, speaker, before, after }
            }
            Place::Summary { summary_id, thread_id, first_turn, last_turn } => {
                Found::Summary { summary_id, thread_id, first_turn, last_turn }
            }
            Place::Handoff { handoff_id, parent_thread_id, child_thread_id } => {
                Found::Handoff { handoff_id, parent_thread_id, child_thread_id }
            }
            Place::Item { namespace, key } => Found::Item { namespace, key },
        };
        let Hit { score, created_at, ref snippet, .. } = read.hit;
        Ok(SearchHit { found, at: created_at, snippet: snippet.clone(), score })
    }

    async fn beside(&self, thread_id: ThreadId, query: EventQuery) -> Result<Option<Beside>, RecallError> {
        let query = EventQuery { categories: vec![Category::Message], ..query };
        let Some(event) = self.store.events(thread_id, query).await?.pop() else { return Ok(None) };
        Ok(said(&event).map(|(speaker, text)| Beside {
            seq: event.seq,
            speaker,
            text: shortened(&text, NEIGHBOUR_CHARS_MAX),
        }))
    }
}
