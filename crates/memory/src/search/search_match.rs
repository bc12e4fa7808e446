//! Loads the messages behind index hits, with their adjacent messages. Ranking happens elsewhere.

use std::borrow::Cow;

use jiff::Timestamp;
use journal::{HitLocation, IndexHit, IndexHitKind, Store};
use protocol::Seq;
use secrets::redact;

use super::{AdjacentMessage, MatchBasis, SearchHit, SearchHitSource};
use crate::recall::collect::ADJACENT_CHARS_MAX;
use crate::recall::messages::{self, Utterance};
use crate::recall::passage::truncate_chars;
use crate::recall::ranking::RankedMatch;
use crate::{RecallError, Speaker};

/// An index hit, of which only the parts that its rank needs have been read. Its adjacent messages are read only if
/// the hit is returned.
pub(crate) struct SearchMatch {
    hit: IndexHit,
    /// The author, if the match is a message.
    speaker: Option<Speaker>,
}

impl SearchMatch {
    /// Reads a match. Returns `None` for a message that is the answer of a recall, or that has no readable text.
    pub(super) async fn read(store: &dyn Store, hit: IndexHit) -> Result<Option<Self>, RecallError> {
        let speaker = match hit.location {
            HitLocation::Message { thread_id, seq, .. } => {
                match messages::read_utterance(store, thread_id, seq).await {
                    // The text of the hit says that the message is damaged. Its author is unknown.
                    Err(error) if error.is_message_damaged() => None,
                    utterance => match utterance? {
                        Some(utterance) => Some(utterance.speaker),
                        None => return Ok(None),
                    },
                }
            }
            HitLocation::Summary { .. } | HitLocation::Handoff { .. } | HitLocation::Item { .. } => None,
        };
        Ok(Some(Self { hit, speaker }))
    }

    /// Returns the kind of the match.
    pub(super) const fn kind(&self) -> IndexHitKind {
        match &self.hit.location {
            HitLocation::Message { .. } => IndexHitKind::Message,
            HitLocation::Summary { .. } => IndexHitKind::Summary,
            HitLocation::Handoff { .. } => IndexHitKind::Handoff,
            HitLocation::Item { .. } => IndexHitKind::Item,
        }
    }

    /// Returns the features that the rank depends on. Recency is the time and, for messages of the same time, the seq.
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

    /// Converts the match to a hit. Reads the messages adjacent to a message.
    ///
    /// # Errors
    /// When the journal fails.
    pub(super) async fn to_search_hit(&self, store: &dyn Store) -> Result<SearchHit, RecallError> {
        let source = match self.hit.location.clone() {
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
        let IndexHit { score, created_at: at, ref snippet, matched_words, .. } = self.hit;
        let matched_by = if matched_words == 0 { MatchBasis::Meaning } else { MatchBasis::Words };
        Ok(SearchHit { source, at, snippet: snippet.clone(), score, matched_by })
    }

    /// Returns the location of the match.
    pub(crate) const fn location(&self) -> &HitLocation {
        &self.hit.location
    }

    /// Returns the time at which the match was written or stored.
    pub(crate) const fn created_at(&self) -> Timestamp {
        self.hit.created_at
    }

    /// Returns the whole text of a summary or a handoff with its secrets redacted. The text is redacted before it is
    /// cut, because a part of a secret would not be recognised.
    pub(crate) fn redacted_text(&self) -> Cow<'_, str> {
        redact(&self.hit.text)
    }
}

fn adjacent_message(utterance: Utterance) -> AdjacentMessage {
    AdjacentMessage {
        seq: utterance.seq,
        speaker: utterance.speaker,
        text: truncate_chars(&utterance.text, ADJACENT_CHARS_MAX),
    }
}
