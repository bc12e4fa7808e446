//! Reads single messages by their location, and the messages adjacent to them.

use jiff::Timestamp;
use journal::{DamageHandling, EventQuery, Store};
use protocol::{Category, Event, EventId, Message, Seq, ThreadId};

use super::passage::readable_text;
use super::{RECALL, RecallError, RecalledMessage, Speaker};

/// A message reduced to its author and its text.
pub(crate) struct Utterance {
    /// The id of the message's event. Copies of the message in forks have the same id.
    pub(crate) event_id: EventId,
    /// The message's seq in its thread.
    pub(crate) seq: Seq,
    pub(crate) speaker: Speaker,
    /// Time at which the message was journaled.
    pub(crate) at: Timestamp,
    /// The readable text, with secrets redacted; never empty.
    pub(crate) text: String,
}

impl Utterance {
    /// Returns the author and text of a message. Returns `None` for an event that is no message, for a message without
    /// readable text, and for the result of a recall: that only repeats older messages under a newer date, and could
    /// displace them.
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

    /// Converts the utterance to a recalled message that is not marked as a match.
    pub(super) fn into_recalled_message(self, thread_id: ThreadId) -> RecalledMessage {
        let Self { seq, speaker, at, text, .. } = self;
        RecalledMessage { thread_id, seq, speaker, at, is_match: false, text }
    }
}

/// Reads the message `seq` of a thread. Returns `None` in the cases of [`Utterance::from_event`], and for a superseded
/// message.
///
/// # Errors
/// [`RecallError::is_message_damaged`] if its stored form is damaged.
pub(crate) async fn read_utterance(
    store: &dyn Store,
    thread_id: ThreadId,
    seq: Seq,
) -> Result<Option<Utterance>, RecallError> {
    let query = EventQuery { before: Some(seq + 1), ..EventQuery::after(seq - 1, 1) };
    Ok(store.events(thread_id, query).await?.pop().as_ref().and_then(Utterance::from_event))
}

/// Reads the messages directly before and after the message `seq`. The message after it must be before the seq `end`.
///
/// An adjacent message that is damaged or has no readable text is `None`; the message beyond it is not read instead.
pub(crate) async fn read_adjacent(
    store: &dyn Store,
    thread_id: ThreadId,
    seq: Seq,
    end: Option<Seq>,
) -> Result<[Option<Utterance>; 2], RecallError> {
    let before = EventQuery { after: None, before: Some(seq), ..EventQuery::after(0, 1) };
    let after = EventQuery { before: end, ..EventQuery::after(seq, 1) };
    let mut adjacent = [None, None];
    for (query, slot) in [before, after].into_iter().zip(&mut adjacent) {
        let damage = DamageHandling::Mark;
        let query = EventQuery { categories: vec![Category::Message], damage, ..query };
        *slot = store.events(thread_id, query).await?.pop().as_ref().and_then(Utterance::from_event);
    }
    Ok(adjacent)
}

/// Returns whether a program wrote the message in the user's role, as recorded by an imported session.
pub(super) fn is_injected(event: &Event) -> bool {
    event.parsed_metadata().injected
}
