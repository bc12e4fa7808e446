//! Reading what a search found: who said a message and what was said beside it. Which matches come first is not decided
//! here.

use std::borrow::Cow;

use facts::redact;
use jiff::Timestamp;
use journal::{FoundKind, Hit, Place, Store};
use protocol::Seq;

use super::{Beside, Found, SearchHit};
use crate::recall::gather::NEIGHBOUR_CHARS_MAX;
use crate::recall::messages::{self, Said};
use crate::recall::order::Match;
use crate::recall::passage::shortened;
use crate::{RecallError, Speaker};

/// A match, read as far as its order depends on it.
pub(crate) struct Read {
    hit: Hit,
    /// Who said it, if it is a message.
    speaker: Option<Speaker>,
}

impl Read {
    /// Reads a match; `None` for a message that only repeats what was recalled before.
    pub(super) async fn of(store: &dyn Store, hit: Hit) -> Result<Option<Self>, RecallError> {
        let speaker = match hit.place {
            Place::Message { thread_id, seq, .. } => {
                let Some(said) = messages::at(store, thread_id, seq).await? else { return Ok(None) };
                Some(said.speaker)
            }
            Place::Summary { .. } | Place::Handoff { .. } | Place::Item { .. } => None,
        };
        Ok(Some(Self { hit, speaker }))
    }

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

    /// Returns the match as it is shown.
    pub(super) async fn shown(&self, store: &dyn Store) -> Result<SearchHit, RecallError> {
        let found = match self.hit.place.clone() {
            Place::Message { thread_id, seq, .. } => {
                let speaker = self.speaker.clone().unwrap_or(Speaker::Tool(None));
                let [before, after] = messages::beside(store, thread_id, seq, None).await?;
                let (before, after) = (before.map(beside), after.map(beside));
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
        let Hit { score, created_at: at, ref snippet, .. } = self.hit;
        Ok(SearchHit { found, at, snippet: snippet.clone(), score })
    }

    /// Returns where it was found.
    pub(crate) const fn place(&self) -> &Place {
        &self.hit.place
    }

    /// Returns when it was said or stored.
    pub(crate) const fn at(&self) -> Timestamp {
        self.hit.created_at
    }

    /// Returns the whole text of a summary or a handoff, without secrets: half a one would not be recognised.
    pub(crate) fn text(&self) -> Cow<'_, str> {
        redact(&self.hit.text)
    }
}

fn beside(said: Said) -> Beside {
    Beside { seq: said.seq, speaker: said.speaker, text: shortened(&said.text, NEIGHBOUR_CHARS_MAX) }
}
