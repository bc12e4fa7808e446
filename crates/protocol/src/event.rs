//! Events: the immutable rows of the journal. This module defines their shape; the `journal` crate appends and reads
//! them.

pub mod body;
pub mod catalog;
pub mod metadata;
pub(crate) mod names;
pub mod surrogate;

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::ids::{EventId, HandoffId, RunId, ThreadId};
use crate::message::Message;
use body::{EventBody, EventBodyError};
use catalog::EventType;
use metadata::EventMetadata;

/// The sequence number of an event in its thread: starts at 1, is strictly increasing and is never reused.
pub type Seq = u64;

/// JSON text preserved byte for byte, so that reading and rewriting an event does not change it.
pub type RawJson = Box<RawValue>;

/// An event to append. The journal assigns its `seq`.
#[derive(Debug, Clone)]
pub struct NewEvent {
    /// The event's globally unique id.
    pub event_id: EventId,
    /// The type of the event.
    pub event_type: EventType,
    /// The run that caused the event, if any.
    pub run_id: Option<RunId>,
    /// An idempotency key: a second append with the same `(thread, run, event_key)` stores nothing and returns the
    /// seq of the first row.
    pub event_key: Option<String>,
    /// The content, whose shape depends on the event type (see [`body`]).
    pub content: RawJson,
    /// The event's origin and other notes (see [`EventMetadata`]); `None` if there are none.
    pub metadata: Option<RawJson>,
    /// Time of the event.
    pub created_at: Timestamp,
}

/// A stored event.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Event {
    /// The thread of the event.
    pub thread_id: ThreadId,
    /// The event's sequence number in that thread.
    pub seq: Seq,
    /// The event's globally unique id.
    pub event_id: EventId,
    /// The run that caused the event, if any.
    pub run_id: Option<RunId>,
    /// The stored name of the event type. [`EventType::from_name`] returns the type if this version knows it.
    pub event_type: String,
    /// The stored name of the event's category.
    pub category: String,
    /// The content, whose shape depends on the event type (see [`body`]).
    pub content: RawJson,
    /// The event's origin and other notes; `None` if there are none.
    pub metadata: Option<RawJson>,
    /// Time of the event.
    pub created_at: Timestamp,
}

impl NewEvent {
    /// Returns the event that stores `body`, without run, key or metadata.
    ///
    /// # Errors
    /// Returns an error if `body` has no JSON form, such as a path that is not Unicode.
    pub fn from_body<T: EventBody>(body: &T, created_at: Timestamp) -> Result<Self, serde_json::Error> {
        Ok(Self {
            event_id: EventId::generate(),
            event_type: T::TYPE,
            run_id: None,
            event_key: None,
            content: body.to_stored_json()?,
            metadata: None,
            created_at,
        })
    }

    /// Returns the event as it is stored in a thread with the seq `seq`.
    pub fn into_stored(self, thread_id: ThreadId, seq: Seq) -> Event {
        Event {
            thread_id,
            seq,
            event_id: self.event_id,
            run_id: self.run_id,
            event_type: self.event_type.as_str().to_owned(),
            category: self.event_type.category().as_str().to_owned(),
            content: self.content,
            metadata: self.metadata,
            created_at: self.created_at,
        }
    }

    /// Parses the content as the body `T`; `None` if the event has another type or its content cannot be parsed.
    pub fn body<T: EventBody>(&self) -> Option<T> {
        (self.event_type == T::TYPE).then(|| serde_json::from_str(self.content.get()).ok()).flatten()
    }

    /// Returns an event with this content, without run, key or metadata. Prefer [`NewEvent::from_body`], which cannot
    /// combine a type with the content of another.
    ///
    /// # Errors
    /// Returns an error if `content` has no JSON form (a map with keys that are not strings).
    pub fn new(
        event_type: EventType,
        content: &impl Serialize,
        created_at: Timestamp,
    ) -> Result<Self, serde_json::Error> {
        Ok(Self {
            event_id: EventId::generate(),
            event_type,
            run_id: None,
            event_key: None,
            content: serde_json::value::to_raw_value(content)?,
            metadata: None,
            created_at,
        })
    }

    /// Returns the event that stores `message`, without run, key or metadata.
    ///
    /// # Errors
    /// Never in practice: every message has a JSON form.
    pub fn from_message(message: &Message, created_at: Timestamp) -> Result<Self, serde_json::Error> {
        match message {
            Message::Human(message) => Self::from_body(message, created_at),
            Message::Ai(message) => Self::from_body(message, created_at),
            Message::Tool(message) => Self::from_body(message, created_at),
        }
    }

    /// Sets the run that caused the event.
    #[must_use]
    pub fn with_run(mut self, run_id: RunId) -> Self {
        self.run_id = Some(run_id);
        self
    }

    /// Sets the idempotency key, with which a repeated append stores one row only.
    #[must_use]
    pub fn with_key(mut self, event_key: impl Into<String>) -> Self {
        self.event_key = Some(event_key.into());
        self
    }

    /// Sets the metadata to the duration of the recorded action: a model's response or a tool's execution. It
    /// replaces earlier metadata.
    ///
    /// # Errors
    /// Never in practice: a number always has a JSON form.
    pub fn with_duration(self, time: Duration) -> Result<Self, serde_json::Error> {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.with_metadata(&EventMetadata { duration_ms: Some(millis), ..EventMetadata::default() })
    }

    /// Sets the metadata, usually an [`EventMetadata`]. It replaces earlier metadata.
    ///
    /// # Errors
    /// Returns an error if `metadata` has no JSON form.
    pub fn with_metadata(mut self, metadata: &impl Serialize) -> Result<Self, serde_json::Error> {
        self.metadata = Some(serde_json::value::to_raw_value(metadata)?);
        Ok(self)
    }
}

impl Event {
    /// Returns the stored form of `new` at `seq` of the thread.
    pub fn from_new(new: NewEvent, thread_id: ThreadId, seq: Seq) -> Self {
        Self {
            thread_id,
            seq,
            event_id: new.event_id,
            run_id: new.run_id,
            event_type: new.event_type.as_str().to_owned(),
            category: new.event_type.category().as_str().to_owned(),
            content: new.content,
            metadata: new.metadata,
            created_at: new.created_at,
        }
    }

    /// Returns the event type; `None` for a type that only a later version knows.
    pub fn kind(&self) -> Option<EventType> {
        EventType::from_name(&self.event_type)
    }

    /// Parses the content as the body `T`.
    ///
    /// # Errors
    /// Returns an error if the event has another type, or its content cannot be parsed.
    pub fn body<T: EventBody>(&self) -> Result<T, EventBodyError> {
        let unreadable = |source| EventBodyError {
            thread_id: self.thread_id,
            seq: self.seq,
            event_type: self.event_type.clone(),
            expected: T::TYPE,
            source,
        };
        if self.event_type != T::TYPE.as_str() {
            return Err(unreadable(None));
        }
        serde_json::from_str(self.content.get()).map_err(|source| unreadable(Some(source)))
    }

    /// Returns the content's `handoff_id`; `None` if it has none or cannot be parsed.
    pub fn handoff_id(&self) -> Option<HandoffId> {
        #[derive(Deserialize)]
        struct HandoffIdField {
            handoff_id: Option<HandoffId>,
        }
        serde_json::from_str(self.content.get()).ok().and_then(|HandoffIdField { handoff_id }| handoff_id)
    }

    /// Returns the message that the event stores; `None` if it stores none or cannot be parsed.
    pub fn message(&self) -> Option<Message> {
        let json = self.content.get();
        // Parsing the body of the known type is cheaper than parsing a `Message`: a tagged enum buffers all fields
        // until serde has read the tag.
        match self.kind()? {
            EventType::HumanMessage => serde_json::from_str(json).ok().map(Message::Human),
            EventType::AiMessage => serde_json::from_str(json).ok().map(Message::Ai),
            EventType::ToolMessage => serde_json::from_str(json).ok().map(Message::Tool),
            _ => None,
        }
    }

    /// Returns the content as a JSON value; `null` if it cannot be parsed.
    pub fn content_value(&self) -> Value {
        serde_json::from_str(self.content.get()).unwrap_or(Value::Null)
    }

    /// Returns the metadata; the default if it is absent or cannot be parsed.
    pub fn parsed_metadata(&self) -> EventMetadata {
        EventMetadata::parse(self.metadata.as_ref())
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        let raw = |json: &Option<RawJson>| json.as_ref().map(|json| json.get().to_owned());
        self.thread_id == other.thread_id
            && self.seq == other.seq
            && self.event_id == other.event_id
            && self.run_id == other.run_id
            && self.event_type == other.event_type
            && self.category == other.category
            && self.content.get() == other.content.get()
            && raw(&self.metadata) == raw(&other.metadata)
            && self.created_at == other.created_at
    }
}
