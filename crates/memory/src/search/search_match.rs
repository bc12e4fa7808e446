//! Loads the messages behind search matches, with their adjacent messages. Ranking happens elsewhere.

use std::borrow::Cow;

use facts::redact;
use jiff::Timestamp;
use journal::{HitLocation, IndexHit, IndexHitKind, Store};
use protocol::Seq;

use super::{AdjacentMessage, SearchHit, SearchHitSource};
use crate::recall::collect::ADJACENT_CHARS_MAX;
use crate::recall::messages::{self, Utterance};
use crate::recall::passage::truncate_chars;
use crate::recall::ranking::RankedMatch;
use crate::{RecallError, Speaker};

/// A match, read as far as its order depends on it.
pub(crate) struct SearchMatch {
    hit: IndexHit,
    /// The author, if the match is a message.
    speaker: Option<Speaker>,
}

impl SearchMatch {
    /// Reads a match; `None` for a message that only repeats what was recalled before.
    pub(super) async fn read(store: &dyn Store, hit: IndexHit) -> Result<Option<Self>, RecallError> {
        let speaker = match hit.location {
            HitLocation::Message { thread_id, seq, .. } => {
                let Some(said) = messages::read_utterance(store, thread_id, seq).await? else {
                    return Ok(None);
                };
                Some(said.speaker)
            }
            HitLocation::Summary { .. } | HitLocation::Handoff { .. } | HitLocation::Item { .. } => None,
        };
        Ok(Some(Self { hit, speaker }))
    }

    pub(super) const fn kind(&self) -> IndexHitKind {
        match &self.hit.location {
            HitLocation::Message { .. } => IndexHitKind::Message,
            HitLocation::Summary { .. } => IndexHitKind::Summary,
            HitLocation::Handoff { .. } => IndexHitKind::Handoff,
            HitLocation::Item { .. } => IndexHitKind::Item,
        }
    }

    /// Returns what its order depends on.
    pub(super) const fn ranked_match(&self) -> RankedMatch<(Timestamp, Seq)> {
        let seq = match &self.hit.location {
            HitLocation::Message { seq, .. } => *seq,
            HitLocation::Summary { .. } | HitLocation::Handoff { .. } | HitLocation::Item { .. } => 0,
        };
        RankedMatch {
            score: self.hit.score,
            matched_words: self.hit.matched_words,
            recency: (self.hit.created_at, seq),
        }
    }

    /// Returns the match as it is shown.
    pub(super) async fn to_search_hit(&self, store: &dyn Store) -> Result<SearchHit, RecallError> {
        let found = match self.hit.location.clone() {
            HitLocation::Message { thread_id, seq, .. } => {
                let speaker = self.speaker.clone().unwrap_or(Speaker::Tool(None));
                let [before, after] = messages::read_adjacent(store, thread_id, seq, None).await?;
                let (before, after) = (before.map(adjacent_message), after.map(adjacent_message));
                SearchHitSource::Message { thread_id, seq, speaker, before, after }
            }
            HitLocation::Summary { summary_id, thread_id, first_turn, last_turn } => {
                SearchHitSource::Summary { summary_id, thread_id, first_turn, last_turn }
            }
            HitLocation::Handoff { handoff_id, parent_thread_id, child_thread_id } => {
                SearchHitSource::Handoff { handoff_id, parent_thread_id, child_thread_id }
            }
            HitLocation::Item { namespace, key } => SearchHitSource::Item { namespace, key },
        };
        let IndexHit { score, created_at: at, ref snippet, .. } = self.hit;
        Ok(SearchHit { source: found, at, snippet: snippet.clone(), score })
    }

    /// Returns where it was found.
    pub(crate) const fn location(&self) -> &HitLocation {
        &self.hit.location
    }

    /// Returns when it was said or stored.
    pub(crate) const fn created_at(&self) -> Timestamp {
        self.hit.created_at
    }

    /// Returns the whole text of a summary or a handoff, without secrets: half a one would not be recognised.
    pub(crate) fn redacted_text(&self) -> Cow<'_, str> {
        redact(&self.hit.text)
    }
}

fn adjacent_message(said: Utterance) -> AdjacentMessage {
    AdjacentMessage {
        seq: said.seq,
        speaker: said.speaker,
        text: truncate_chars(&said.text, ADJACENT_CHARS_MAX),
    }
}
