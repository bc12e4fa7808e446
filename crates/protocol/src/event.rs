//! Events: the immutable rows of the journal. This file says what one looks like, not who may write it.

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

/// A position in a thread's journal: starts at 1, strictly increasing, never reused.
pub type Seq = u64;

/// JSON text kept exactly as it was written, so that reading and writing an event changes no byte.
pub type RawJson = Box<RawValue>;

/// An event about to be appended; the journal gives it its `seq`.
#[derive(Debug, Clone)]
pub struct NewEvent {
    /// The event's own id.
    pub event_id: EventId,
    /// The type of the event.
    pub event_type: EventType,
    /// The run it happened in, if any.
    pub run_id: Option<RunId>,
    /// Appending the same `(thread, run, event_key)` again returns the first row's seq and stores nothing.
    pub event_key: Option<String>,
    /// The fact; its shape belongs to the event type.
    pub content: RawJson,
    /// Where it came from and other notes about the fact; `null` when there are none.
    pub metadata: Option<RawJson>,
    /// When it happened.
    pub created_at: Timestamp,
}

/// One stored event.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Event {
    /// The thread it belongs to.
    pub thread_id: ThreadId,
    /// Its position in that thread.
    pub seq: Seq,
    /// The event's own id.
    pub event_id: EventId,
    /// The run it happened in, if any.
    pub run_id: Option<RunId>,
    /// The stored name of its type; `EventType::from_name` gives the known ones.
    pub event_type: String,
    /// The stored name of its category.
    pub category: String,
    /// The fact.
    pub content: RawJson,
    /// Notes about the fact.
    pub metadata: Option<RawJson>,
    /// When it happened.
    pub created_at: Timestamp,
}

impl NewEvent {
    /// Returns the event that stores `body`, without run, key or metadata.
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

    /// Returns the content as the body of its type; `None` when the event is of another type or cannot be read.
    pub fn body<T: EventBody>(&self) -> Option<T> {
        (self.event_type == T::TYPE).then(|| serde_json::from_str(self.content.get()).ok()).flatten()
    }

    /// Returns an event without run, key or metadata.
    ///
    /// # Errors
    /// When `content` cannot be written as JSON (a map with keys that are not text).
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

    /// Returns the event that stores `message`.
    pub fn from_message(message: &Message, created_at: Timestamp) -> Result<Self, serde_json::Error> {
        match message {
            Message::Human(message) => Self::from_body(message, created_at),
            Message::Ai(message) => Self::from_body(message, created_at),
            Message::Tool(message) => Self::from_body(message, created_at),
        }
    }

    /// Sets the run.
    #[must_use]
    pub fn with_run(mut self, run_id: RunId) -> Self {
        self.run_id = Some(run_id);
        self
    }

    /// Sets the key that makes a repeated append store one row.
    #[must_use]
    pub fn with_key(mut self, event_key: impl Into<String>) -> Self {
        self.event_key = Some(event_key.into());
        self
    }

    /// Notes how long it took what the event tells of: a model to answer, a tool to do its work.
    ///
    /// # Errors
    /// Never in practice: a number is always JSON.
    pub fn with_duration(self, time: Duration) -> Result<Self, serde_json::Error> {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.with_metadata(&EventMetadata { duration_ms: Some(millis), ..EventMetadata::default() })
    }

    /// Sets the metadata.
    ///
    /// # Errors
    /// When `metadata` cannot be written as JSON.
    pub fn with_metadata(mut self, metadata: &impl Serialize) -> Result<Self, serde_json::Error> {
        self.metadata = Some(serde_json::value::to_raw_value(metadata)?);
        Ok(self)
    }
}

impl Event {
    /// Returns `new` as it is stored at `seq` of the thread.
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

    /// Returns the known type; `None` for one written by a later version.
    pub fn kind(&self) -> Option<EventType> {
        EventType::from_name(&self.event_type)
    }

    /// Returns the content as the body of its type.
    ///
    /// # Errors
    /// When the event is of another type, or its content cannot be read.
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

    /// Returns the handoff that the event is about; `None` when it is about none, or cannot be read.
    pub fn handoff_id(&self) -> Option<HandoffId> {
        #[derive(Deserialize)]
        struct HandoffIdField {
            handoff_id: Option<HandoffId>,
        }
        serde_json::from_str(self.content.get()).ok().and_then(|HandoffIdField { handoff_id }| handoff_id)
    }

    /// Returns the message this event stores; `None` when it stores something else or cannot be read.
    pub fn message(&self) -> Option<Message> {
        let json = self.content.get();
        // The type is known: as a `Message` its fields would be kept until theirs is read.
        match self.kind()? {
            EventType::HumanMessage => serde_json::from_str(json).ok().map(Message::Human),
            EventType::AiMessage => serde_json::from_str(json).ok().map(Message::Ai),
            EventType::ToolMessage => serde_json::from_str(json).ok().map(Message::Tool),
            _ => None,
        }
    }

    /// Returns the content as a JSON value; `null` when it cannot be read.
    pub fn content_value(&self) -> Value {
        serde_json::from_str(self.content.get()).unwrap_or(Value::Null)
    }

    /// Returns the metadata; nothing is noted where it cannot be read.
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
