//! A message of a snapshot, with the id and the seq that identify it in every request.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use journal::view::branches::transcript_message;
use journal::view::message_id;
use parking_lot::Mutex;
use protocol::{Event, Message, RunId, Seq};
use serde_json::value::RawValue;

/// A message of a thread's snapshot.
pub struct StateMessage {
    /// Its own id, or else one that is derived from its seq. It is the same in every request.
    pub id: String,
    /// Its seq in the thread's journal, by which clients sort.
    pub seq: Seq,
    /// The run that it belongs to; `None` for messages outside of runs.
    pub run_id: Option<RunId>,
    /// The message.
    pub message: Message,
    /// The time of its event.
    pub created_at: Timestamp,
    /// True if it represents something other than a message: the question of a handoff, or its outcome.
    pub(crate) is_projected: bool,
    /// The bytes of the files in it, until the message has been encoded.
    media: Mutex<MediaByName>,
    /// The encoded form, once a front end has encoded the message.
    encoded: OnceLock<Arc<RawValue>>,
}

/// The bytes of files, by their SHA-256.
pub(super) type MediaByName = BTreeMap<String, Arc<Vec<u8>>>;

impl StateMessage {
    /// Returns the message that the event adds to a snapshot; `None` if it adds none. The message has no
    /// bytes of files.
    pub fn from_event(event: &Event) -> Option<Self> {
        let message = transcript_message(event)?;
        let id = own_message_id(&message).map(str::to_owned);
        let id = id.unwrap_or_else(|| message_id(event.thread_id, event.seq));
        Some(Self::new(id, event.seq, event.run_id, message, event.created_at))
    }

    /// Returns a message that represents an event of another kind in a snapshot.
    pub(super) fn projected_from(event: &Event, message: Message) -> Self {
        let id = own_message_id(&message).map(str::to_owned);
        let id = id.unwrap_or_else(|| message_id(event.thread_id, event.seq));
        let new = Self::new(id, event.seq, event.run_id, message, event.created_at);
        Self { is_projected: true, ..new }
    }

    /// Creates a message without bytes of files.
    pub(super) fn new(
        id: String,
        seq: Seq,
        run_id: Option<RunId>,
        message: Message,
        created_at: Timestamp,
    ) -> Self {
        let (media, encoded) = (Mutex::default(), OnceLock::new());
        Self { id, seq, run_id, message, created_at, is_projected: false, media, encoded }
    }

    /// Sets the bytes of the files in it.
    pub(super) fn with_media(self, media: MediaByName) -> Self {
        Self { media: Mutex::new(media), ..self }
    }

    /// Returns a file of the message as base64, for encoding the message. `None` if the bytes were not loaded
    /// because the files are too large, and after the message has been encoded.
    pub fn base64_of(&self, sha256: &str) -> Option<String> {
        Some(STANDARD.encode(&*self.bytes_of(sha256)?))
    }

    /// Returns the bytes of a file of the message; `None` in the same cases as [`Self::base64_of`].
    pub fn bytes_of(&self, sha256: &str) -> Option<Arc<Vec<u8>>> {
        self.media.lock().get(sha256).cloned()
    }

    /// Returns the encoded form of the message. The first call encodes it with `write` and releases the bytes
    /// of its files; later calls return the same value. All front ends must therefore use the same encoding.
    pub fn encoded_with(&self, write: impl FnOnce(&Self) -> Arc<RawValue>) -> &Arc<RawValue> {
        self.encoded.get_or_init(|| {
            let written = write(self);
            self.media.lock().clear();
            written
        })
    }
}

impl PartialEq for StateMessage {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
            && self.seq == other.seq
            && self.run_id == other.run_id
            && self.message == other.message
            && self.created_at == other.created_at
    }
}

impl fmt::Debug for StateMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateMessage")
            .field("id", &self.id)
            .field("seq", &self.seq)
            .field("run_id", &self.run_id)
            .field("message", &self.message)
            .finish_non_exhaustive()
    }
}

/// Returns the id that is part of the message; `None` if it has none.
pub(crate) fn own_message_id(message: &Message) -> Option<&str> {
    match message {
        Message::Human(message) => message.id.as_deref(),
        Message::Ai(message) => message.id.as_deref(),
        Message::Tool(message) => message.id.as_deref(),
    }
}

/// Returns the message with its id set.
pub(crate) fn with_message_id(mut message: Message, id: &str) -> Message {
    let own = match &mut message {
        Message::Human(message) => &mut message.id,
        Message::Ai(message) => &mut message.id,
        Message::Tool(message) => &mut message.id,
    };
    *own = Some(id.to_owned());
    message
}
