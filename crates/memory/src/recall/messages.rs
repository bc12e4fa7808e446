//! Reads single messages by their location, and the messages adjacent to them.

use jiff::Timestamp;
use journal::{EventQuery, Store};
use protocol::{Category, Event, EventId, Message, Seq, ThreadId};

use super::passage::readable_text;
use super::{RECALL, RecallError, RecalledMessage, Speaker};

/// A message reduced to its author and its text.
pub(crate) struct Utterance {
    /// The event, which copies of it have too.
    pub(crate) event_id: EventId,
    pub(crate) seq: Seq,
    pub(crate) speaker: Speaker,
    pub(crate) at: Timestamp,
    /// The words, without secrets.
    pub(crate) text: String,
}

impl Utterance {
    /// Returns what a message says; `None` for one without words, and for the answer of a recall: its passages are
    /// elsewhere, and newer than they are only by looking so.
    pub(crate) fn from_event(event: &Event) -> Option<Self> {
        let message = event.message()?;
        let speaker = match &message {
            Message::Human(_) if is_injected(event) => Speaker::Harness,
            Message::Human(_) => Speaker::User,
            Message::Ai(_) => Speaker::Assistant,
            Message::Tool(result) if result.name.as_deref() == Some(RECALL) => return None,
            Message::Tool(result) => Speaker::Tool(result.name.clone()),
        };
        let text = readable_text(&message);
        let Event { event_id, seq, created_at: at, .. } = *event;
        (!text.is_empty()).then_some(Self { event_id, seq, speaker, at, text })
    }

    /// Returns it as a passage that does not match by itself.
    pub(super) fn into_recalled_message(self, thread_id: ThreadId) -> RecalledMessage {
        let Self { seq, speaker, at, text, .. } = self;
        RecalledMessage { thread_id, seq, speaker, at, is_match: false, text }
    }
}

/// Returns what was said at a place.
pub(crate) async fn read_utterance(
    store: &dyn Store,
    thread_id: ThreadId,
    seq: Seq,
) -> Result<Option<Utterance>, RecallError> {
    let query = EventQuery { before: Some(seq + 1), ..EventQuery::after(seq - 1, 1) };
    Ok(store.events(thread_id, query).await?.pop().as_ref().and_then(Utterance::from_event))
}

/// Returns what was said right before and right after a place, the latter before the seq `end`.
pub(crate) async fn read_adjacent(
    store: &dyn Store,
    thread_id: ThreadId,
    seq: Seq,
    end: Option<Seq>,
) -> Result<[Option<Utterance>; 2], RecallError> {
    let before = EventQuery { after: None, before: Some(seq), ..EventQuery::after(0, 1) };
    let after = EventQuery { before: end, ..EventQuery::after(seq, 1) };
    let mut said = [None, None];
    for (query, slot) in [before, after].into_iter().zip(&mut said) {
        let query = EventQuery { categories: vec![Category::Message], ..query };
        *slot = store.events(thread_id, query).await?.pop().as_ref().and_then(Utterance::from_event);
    }
    Ok(said)
}

/// Returns whether a program put the message in, and not the person.
pub(super) fn is_injected(event: &Event) -> bool {
    event.parsed_metadata().injected
}
