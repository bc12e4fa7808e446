//! The state as it is streamed: the messages so far and the channels beside them. Reading them from the journal is the
//! work of whoever follows the run.

use std::sync::Arc;

use agent::StateMessage;
use protocol::{EventType, Seq, ThreadId};
use serde::ser::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::wire;

/// The messages of a thread as they stand.
#[derive(Debug)]
pub(crate) struct StreamTranscript {
    thread_id: ThreadId,
    messages: Vec<Arc<RawValue>>,
    /// The newest message among them.
    last_seq: Seq,
    /// True if all messages are present.
    is_complete: bool,
}

impl StreamTranscript {
    pub(crate) const fn new(thread_id: ThreadId) -> Self {
        Self { thread_id, messages: Vec::new(), last_seq: 0, is_complete: false }
    }

    /// Takes the messages of a point of the thread.
    pub(crate) fn set(&mut self, messages: &[Arc<StateMessage>]) {
        self.messages = messages.iter().map(|message| raw_message(self.thread_id, message)).collect();
        self.last_seq = messages.iter().map(|message| message.seq).max().unwrap_or(0);
        self.is_complete = true;
    }

    /// Adds a message that was stored since.
    pub(crate) fn push(&mut self, message: &StateMessage) {
        if self.is_complete && message.seq > self.last_seq {
            self.last_seq = message.seq;
            self.messages.push(raw_message(self.thread_id, message));
        }
    }

    /// Says that something happened that changes more than adding a message.
    pub(crate) fn mark_stale(&mut self) {
        self.is_complete = false;
    }

    pub(crate) const fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Returns the whole state, as a client sees it.
    pub(crate) fn values<'a>(&'a self, channels: &'a Map<String, Value>) -> StreamedState<'a> {
        StreamedState { messages: &self.messages, channels, interrupts: &[] }
    }
}

/// The whole state, as it is written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamedState<'a> {
    messages: &'a [Arc<RawValue>],
    channels: &'a Map<String, Value>,
    interrupts: &'a [wire::Interrupt],
}

impl<'a> StreamedState<'a> {
    /// Adds what waits for an answer, if anything does; it is told with the state and is no part of it.
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

/// Returns the message as clients read it.
pub(crate) fn raw_message(thread_id: ThreadId, message: &StateMessage) -> Arc<RawValue> {
    Arc::clone(wire::message::render_message(thread_id, message))
}

/// Messages that are JSON already.
pub(crate) struct RawMessages<'a>(pub(crate) &'a [Arc<RawValue>]);

impl Serialize for RawMessages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|raw| &**raw))
    }
}

/// Returns whether an event changes the messages of a state in another way than by being one: what is told of handoffs
/// follows from several events, and a thread that went back has fewer.
pub(crate) const fn changes_transcript(kind: EventType) -> bool {
    matches!(
        kind,
        EventType::ThreadRewound
            | EventType::HandoffProposed
            | EventType::HandoffRefined
            | EventType::HandoffReverted
            | EventType::HandoffAccepted
            | EventType::HandoffDeclined
            | EventType::HandoffPreviewed
            | EventType::HandoffFailed
            | EventType::HandoffExpired
    )
}
