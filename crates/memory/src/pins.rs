//! Pins: texts that every model request of a thread contains word for word, over compactions and handoffs. This module
//! reads and changes the pins of a thread; [`hook`] adds them to requests.
//!
//! The newest `pins_changed` event of a thread holds all of its pins. It is found by an index of its own, so that reading
//! the pins costs the same however long the thread is. Pins are events like others: a rewind to an earlier point restores
//! the pins of that point, and a fork has the pins of its source.

mod error;
pub(crate) mod hook;

use jiff::Timestamp;
use journal::{EventQuery, Store, SupersededVisibility, Transaction, Write};
use protocol::{
    ContentBlock, EventType, HandoffId, Message, MessageRole, NewEvent, Pin, PinChange, PinnedText,
    PinsChanged, Seq, ThreadId,
};
use secrets::redact_and_count;
use unicode_segmentation::UnicodeSegmentation;

pub use error::PinError;

/// Maximum length of a pinned text in grapheme clusters.
pub const PIN_CHARS_MAX: usize = 4_000;
/// Maximum number of pins that are added to a thread.
pub const PINS_MAX: usize = 20;
/// Maximum length of all pinned texts of a thread together in grapheme clusters: about 4,000 tokens of every request.
pub const PINS_CHARS_MAX: usize = 16_000;
/// Maximum number of attempts to change the pins of a thread while others change them too.
const ATTEMPTS_MAX: usize = 5;

/// A text to pin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PinRequest {
    /// A text of the user.
    Text(String),
    /// The message of the thread at this seq, quoted word for word.
    Message(Seq),
}

impl PinRequest {
    /// Returns the request that a text stands for: `#` and a number name a message, everything else is the text to pin. All
    /// front ends read a text of the user so.
    pub fn from_text(text: &str) -> Self {
        let message =
            text.trim().strip_prefix('#').filter(|number| number.bytes().all(|c| c.is_ascii_digit()));
        match message.and_then(|number| number.parse().ok()) {
            Some(seq) => Self::Message(seq),
            None => Self::Text(text.to_owned()),
        }
    }
}

/// The result of pinning a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinReceipt {
    /// The pin.
    pub pin: Pin,
    /// True if the text was pinned already; nothing was changed then.
    pub was_already_pinned: bool,
    /// Number of secrets that were redacted from the text.
    pub redacted_secrets: u64,
    /// All pins of the thread.
    pub pins: Vec<Pin>,
}

/// The result of removing a pin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnpinReceipt {
    /// The removed pin.
    pub pin: Pin,
    /// The other pins of the thread.
    pub pins: Vec<Pin>,
}

/// The pins of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadPins {
    /// The pins, in the order of their numbers.
    pub pins: Vec<Pin>,
    /// The number of the next pin.
    next_number: u64,
    /// The seq of the event that holds the pins; `None` if there is none.
    last_change: Option<Seq>,
}

/// A text before it gets a number.
struct PinDraft {
    text: String,
    author: MessageRole,
    message_seq: Option<Seq>,
    redacted_secrets: u64,
}

impl Default for ThreadPins {
    fn default() -> Self {
        Self { pins: Vec::new(), next_number: 1, last_change: None }
    }
}

impl ThreadPins {
    /// Returns the pins of a thread. Reads one or two events by an index. A thread that does not exist has no pins.
    ///
    /// # Errors
    /// Fails if the journal does.
    pub async fn read(store: &dyn Store, thread_id: ThreadId) -> journal::Result<Self> {
        let newest = |superseded| EventQuery {
            types: vec![EventType::PinsChanged],
            superseded,
            limit: 1,
            ..EventQuery::default()
        };
        // The search for a visible event visits one range between two rewinds after another. A thread without pins, as
        // most are, needs no such search.
        if store.events(thread_id, newest(SupersededVisibility::Shown)).await?.is_empty() {
            return Ok(Self::default());
        }
        let events = store.events(thread_id, newest(SupersededVisibility::Hidden)).await?;
        let Some(event) = events.last() else { return Ok(Self::default()) };
        let PinsChanged { pins, next_number, .. } =
            event.body().map_err(|error| journal::Error::Malformed(error.to_string()))?;
        Ok(Self { pins, next_number, last_change: Some(event.seq) })
    }

    /// Returns the content of the event that hands `texts` over to the thread, as pins of its own with new numbers; `None`
    /// if all of them are pinned there already. The limits do not apply, because an accepted handoff loses nothing.
    pub fn hand_over(
        &self,
        handoff_id: HandoffId,
        texts: &[PinnedText],
        now: Timestamp,
    ) -> Option<PinsChanged> {
        let mut next = self.clone();
        for PinnedText { text, author, .. } in texts {
            if next.with_text(text).is_none() {
                let number = next.next_number;
                let (text, author) = (text.clone(), *author);
                next.push(Pin { number, text, author, message_seq: None, pinned_at: now });
            }
        }
        let change = PinChange::HandedOver { handoff_id };
        (next.pins.len() > self.pins.len()).then(|| next.into_change(change))
    }

    /// Returns the writes that append a change of these pins to their thread. The transaction fails with
    /// [`journal::Error::Conflict`] if the pins have been changed since they were read.
    ///
    /// # Errors
    /// Fails if the change has no JSON form.
    pub fn change_writes(
        &self,
        thread_id: ThreadId,
        change: &PinsChanged,
        now: Timestamp,
    ) -> serde_json::Result<Vec<Write>> {
        let event = NewEvent::from_body(change, now)?;
        Ok(vec![
            Write::ExpectPins { thread_id, last_change: self.last_change },
            Write::Append { thread_id, events: vec![event] },
        ])
    }

    /// Returns the pin with this text.
    fn with_text(&self, text: &str) -> Option<&Pin> {
        self.pins.iter().find(|pin| pin.text == text)
    }

    /// Returns the pin that a draft repeats, if there is one.
    fn repeated_by(&self, draft: &PinDraft) -> Option<&Pin> {
        let quotes_same = |pin: &&Pin| draft.message_seq.is_some() && pin.message_seq == draft.message_seq;
        self.pins.iter().find(quotes_same).or_else(|| self.with_text(&draft.text))
    }

    /// Adds a pin that has the next number.
    fn push(&mut self, pin: Pin) {
        self.next_number = pin.number + 1;
        self.pins.push(pin);
    }

    /// Returns the content of the event of a change that leads to these pins.
    fn into_change(self, change: PinChange) -> PinsChanged {
        PinsChanged { change, pins: self.pins, next_number: self.next_number }
    }

    /// Fails if the pins have no room for another text.
    fn check_room(&self, text: &str) -> Result<(), PinError> {
        let chars = text.graphemes(true).count();
        if chars > PIN_CHARS_MAX {
            return Err(PinError::TooLong { chars });
        }
        if self.pins.len() >= PINS_MAX {
            return Err(PinError::TooMany { pins: self.pins.len() });
        }
        let used: usize = self.pins.iter().map(|pin| pin.text.graphemes(true).count()).sum();
        match used + chars > PINS_CHARS_MAX {
            true => Err(PinError::NoRoom { used, chars }),
            false => Ok(()),
        }
    }
}

/// Pins a text in a thread. Secrets in it are redacted. A text or message that is pinned already is not pinned again.
///
/// # Errors
/// Fails if the text is blank or too long, if there are too many pins, or if the message does not exist, is the result of
/// a tool or has no text. The pins are unchanged then.
pub async fn pin(
    store: &dyn Store,
    thread_id: ThreadId,
    request: &PinRequest,
    now: Timestamp,
) -> Result<PinReceipt, PinError> {
    let draft = draft_pin(store, thread_id, request).await?;
    for _ in 0..ATTEMPTS_MAX {
        let current = ThreadPins::read(store, thread_id).await?;
        let redacted_secrets = draft.redacted_secrets;
        if let Some(pin) = current.repeated_by(&draft).cloned() {
            return Ok(PinReceipt { pin, was_already_pinned: true, redacted_secrets, pins: current.pins });
        }
        current.check_room(&draft.text)?;
        let pin = Pin {
            number: current.next_number,
            text: draft.text.clone(),
            author: draft.author,
            message_seq: draft.message_seq,
            pinned_at: now,
        };
        let mut next = current.clone();
        next.push(pin.clone());
        let changed = next.into_change(PinChange::Added { number: pin.number });
        if commit_change(store, current.change_writes(thread_id, &changed, now)?).await? {
            let pins = changed.pins;
            return Ok(PinReceipt { pin, was_already_pinned: false, redacted_secrets, pins });
        }
    }
    Err(PinError::Contended)
}

/// Removes a pin from a thread. The message that it quotes is unchanged.
///
/// # Errors
/// Fails if the thread has no pin with this number.
pub async fn unpin(
    store: &dyn Store,
    thread_id: ThreadId,
    number: u64,
    now: Timestamp,
) -> Result<UnpinReceipt, PinError> {
    for _ in 0..ATTEMPTS_MAX {
        let current = ThreadPins::read(store, thread_id).await?;
        let mut next = current.clone();
        let Some(index) = next.pins.iter().position(|pin| pin.number == number) else {
            return Err(PinError::Unknown { number, pins: next.pins.iter().map(|pin| pin.number).collect() });
        };
        let pin = next.pins.remove(index);
        let changed = next.into_change(PinChange::Removed { pin: pin.clone() });
        if commit_change(store, current.change_writes(thread_id, &changed, now)?).await? {
            return Ok(UnpinReceipt { pin, pins: changed.pins });
        }
    }
    Err(PinError::Contended)
}

/// Commits a change. Returns false if another change was committed first.
async fn commit_change(store: &dyn Store, writes: Vec<Write>) -> journal::Result<bool> {
    match store.commit(Transaction { fence: None, writes }).await {
        Ok(_) => Ok(true),
        Err(journal::Error::Conflict { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the redacted text of a request with its author.
async fn draft_pin(
    store: &dyn Store,
    thread_id: ThreadId,
    request: &PinRequest,
) -> Result<PinDraft, PinError> {
    let (text, author, message_seq) = match request {
        PinRequest::Text(text) if text.trim().is_empty() => return Err(PinError::Blank),
        PinRequest::Text(text) => (text.clone(), MessageRole::User, None),
        PinRequest::Message(seq) => {
            let (text, author) = read_message_text(store, thread_id, *seq).await?;
            (text, author, Some(*seq))
        }
    };
    let (text, redacted_secrets) = redact_and_count(text.trim());
    Ok(PinDraft { text: text.into_owned(), author, message_seq, redacted_secrets })
}

/// Returns the text and the author of the message at a seq.
async fn read_message_text(
    store: &dyn Store,
    thread_id: ThreadId,
    seq: Seq,
) -> Result<(String, MessageRole), PinError> {
    let unknown = PinError::NoMessage { seq };
    let Some(before) = seq.checked_sub(1) else { return Err(unknown) };
    let query = EventQuery { before: seq.checked_add(1), ..EventQuery::after(before, 1) };
    let event = store.events(thread_id, query).await?.into_iter().next();
    let Some(message) = event.and_then(|event| event.message()) else { return Err(unknown) };
    let author = match &message {
        Message::Human(_) => MessageRole::User,
        Message::Ai(_) => MessageRole::Assistant,
        Message::Tool(_) => return Err(PinError::ToolMessage { seq }),
    };
    let texts = message.content().iter().filter_map(|block| match block {
        ContentBlock::Text { text } => Some(text.as_str()),
        ContentBlock::Thinking { .. }
        | ContentBlock::ToolCall { .. }
        | ContentBlock::Media { .. }
        | ContentBlock::Opaque { .. } => None,
    });
    let text = texts.collect::<Vec<_>>().join("\n\n");
    match text.trim().is_empty() {
        true => Err(PinError::NoText { seq }),
        false => Ok((text, author)),
    }
}
