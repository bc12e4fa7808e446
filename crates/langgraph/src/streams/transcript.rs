//! The thread state of a stream: the messages so far as JSON, and the other channels. The messages are read from the
//! journal by the follower of the run, and updated here with the messages of frames.

use std::sync::Arc;

use agent::StateMessage;
use protocol::{EventType, Seq, ThreadId};
use serde::ser::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::wire;

/// The messages of a thread, updated with each stored message.
#[derive(Debug)]
pub(crate) struct StreamTranscript {
    thread_id: ThreadId,
    /// The messages as JSON, in order. The JSON is shared with the cache of each message.
    messages: Vec<Arc<RawValue>>,
    /// The `seq` of the newest of the messages.
    last_seq: Seq,
    /// True if all messages are present. Otherwise they must be read from the journal before a state can be sent.
    is_complete: bool,
}

impl StreamTranscript {
    /// Returns a transcript whose messages were not read yet.
    pub(crate) const fn new(thread_id: ThreadId) -> Self {
        Self { thread_id, messages: Vec::new(), last_seq: 0, is_complete: false }
    }

    /// Replaces the messages by all messages of a state.
    pub(crate) fn set(&mut self, messages: &[Arc<StateMessage>]) {
        self.messages = messages.iter().map(|message| raw_message(self.thread_id, message)).collect();
        self.last_seq = messages.iter().map(|message| message.seq).max().unwrap_or(0);
        self.is_complete = true;
    }

    /// Appends a message that was stored since. It is ignored if the transcript is incomplete, or has the message
    /// already.
    pub(crate) fn push(&mut self, message: &StateMessage) {
        if self.is_complete && message.seq > self.last_seq {
            self.last_seq = message.seq;
            self.messages.push(raw_message(self.thread_id, message));
        }
    }

    /// Marks the messages as incomplete, after frames were lost or the thread was changed by more than a new message.
    pub(crate) fn mark_stale(&mut self) {
        self.is_complete = false;
    }

    /// Returns whether all messages are present.
    pub(crate) const fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Returns the state with these messages and the given channels.
    pub(crate) fn values<'a>(&'a self, channels: &'a Map<String, Value>) -> StreamedState<'a> {
        StreamedState { messages: &self.messages, channels, interrupts: &[] }
    }
}

/// The complete state of a thread, which serializes as the values of the API.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamedState<'a> {
    messages: &'a [Arc<RawValue>],
    channels: &'a Map<String, Value>,
    interrupts: &'a [wire::Interrupt],
}

impl<'a> StreamedState<'a> {
    /// Adds the pending interrupts as `__interrupt__`. They are sent with the state and are not a channel of it.
    pub(crate) const fn with_interrupts(mut self, interrupts: &'a [wire::Interrupt]) -> Self {
        self.interrupts = interrupts;
        self
    }
}

impl Serialize for StreamedState<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        wire::state::serialize_values(
            serializer,
            Some(&RawMessages(self.messages)),
            self.channels,
            self.interrupts,
        )
    }
}

/// Returns the JSON of a message, from the cache of the message if it was rendered before.
pub(crate) fn raw_message(thread_id: ThreadId, message: &StateMessage) -> Arc<RawValue> {
    Arc::clone(wire::message::render_message(thread_id, message))
}

/// A list of messages that are JSON already. They are copied, not parsed and serialized again.
pub(crate) struct RawMessages<'a>(pub(crate) &'a [Arc<RawValue>]);

impl Serialize for RawMessages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|raw| &**raw))
    }
}

/// Returns whether an event of that type changes the messages of a state in another way than by appending a message.
/// The messages that represent a handoff are derived from several events, and a rewind removes messages.
pub(crate) const fn changes_transcript(kind: EventType) -> bool {
    matches!(
        kind,
        EventType::ThreadRewound
            | EventType::HandoffProposed
            | EventType::HandoffRefined
            | EventType::HandoffEdited
            | EventType::HandoffReverted
            | EventType::HandoffAccepted
            | EventType::HandoffDeclined
            | EventType::HandoffPreviewed
            | EventType::HandoffFailed
            | EventType::HandoffExpired
    )
}
