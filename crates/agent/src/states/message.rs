//! A message of a state: what was said, with the id and the place it has wherever it is shown.

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

/// A message of a thread's state.
pub struct StateMessage {
    /// Its id: its own, or one derived from its place, the same on every request.
    pub id: String,
    /// Its place in the thread's journal; clients sort by it.
    pub seq: Seq,
    /// The run it came from, if any.
    pub run_id: Option<RunId>,
    /// What was said.
    pub message: Message,
    /// When.
    pub created_at: Timestamp,
    /// Whether it stands for something that nobody said: the question about a handoff, and what came of it.
    pub(crate) is_projected: bool,
    /// The bytes of files in it, until they are written.
    media: Mutex<Media>,
    written: OnceLock<Arc<RawValue>>,
}

/// The bytes of files, by name.
pub(super) type Media = BTreeMap<String, Arc<Vec<u8>>>;

impl StateMessage {
    /// Returns the message that the event adds to the thread's state; `None` when it adds none.
    pub fn of(event: &Event) -> Option<Self> {
        let message = transcript_message(event)?;
        let id = own_id(&message).map(str::to_owned);
        let id = id.unwrap_or_else(|| message_id(event.thread_id, event.seq));
        Some(Self::new(id, event.seq, event.run_id, message, event.created_at))
    }

    /// Returns the message that stands for the event in a state.
    pub(super) fn projected(event: &Event, message: Message) -> Self {
        let id = own_id(&message).map(str::to_owned);
        let id = id.unwrap_or_else(|| message_id(event.thread_id, event.seq));
        let new = Self::new(id, event.seq, event.run_id, message, event.created_at);
        Self { is_projected: true, ..new }
    }

    pub(super) fn new(
        id: String,
        seq: Seq,
        run_id: Option<RunId>,
        message: Message,
        created_at: Timestamp,
    ) -> Self {
        let (media, written) = (Mutex::default(), OnceLock::new());
        Self { id, seq, run_id, message, created_at, is_projected: false, media, written }
    }

    /// Gives it the bytes of the files in it that there are.
    pub(super) fn with_media(self, media: Media) -> Self {
        Self { media: Mutex::new(media), ..self }
    }

    /// Returns a file in it as base64, for whoever writes the message; `None` where the files are too large to be told with
    /// their messages.
    pub fn base64_of(&self, sha256: &str) -> Option<String> {
        Some(STANDARD.encode(&*self.bytes_of(sha256)?))
    }

    /// Returns the bytes of a file in it; `None` as for [`Self::base64_of`].
    pub fn bytes_of(&self, sha256: &str) -> Option<Arc<Vec<u8>>> {
        self.media.lock().get(sha256).cloned()
    }

    /// Returns the message as a front end writes it: what `write` returns the first time, for as long as the message is
    /// kept. There is one way to write it.
    pub fn written(&self, write: impl FnOnce(&Self) -> Arc<RawValue>) -> &Arc<RawValue> {
        self.written.get_or_init(|| {
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

/// Returns the id that the message itself carries.
pub(crate) fn own_id(message: &Message) -> Option<&str> {
    match message {
        Message::Human(message) => message.id.as_deref(),
        Message::Ai(message) => message.id.as_deref(),
        Message::Tool(message) => message.id.as_deref(),
    }
}

/// Returns the message with that id in it.
pub(crate) fn with_id(mut message: Message, id: &str) -> Message {
    let own = match &mut message {
        Message::Human(message) => &mut message.id,
        Message::Ai(message) => &mut message.id,
        Message::Tool(message) => &mut message.id,
    };
    *own = Some(id.to_owned());
    message
}
