//! Event bodies: one type for the content of each event type. Every version that was ever stored reads as the type of today, and
//! unknown fields are ignored. What an event means for a view is decided by its readers.

mod compaction;
mod handoffs;
mod messages;
mod runs;
mod threads;
mod tools;
mod traces;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::event::catalog::EventType;
use crate::event::{RawJson, Seq};
use crate::ids::ThreadId;

pub use compaction::{
    ClippedResult, Compaction, CompactionFailed, CompactionUndone, TurnsArchived, TurnsRestored,
};
pub use handoffs::{
    DraftRequest, HandoffAccepted, HandoffCleaned, HandoffDeclined, HandoffExpired, HandoffFailed,
    HandoffMirrored, HandoffPreviewed, HandoffProposed, HandoffRefined, HandoffRequested, HandoffReverted,
    HandoffSeeded, HandoffTruncated,
};
pub use messages::{AiMessage, HumanMessage, ImportedBoundary, ImportedNote, ImportedSummary, ToolMessage};
pub use runs::{RunEnded, RunFailed, RunInterrupted, RunStartKind, RunStarted, RunStopRequested};
pub use threads::{ThreadCreated, ThreadRehomed, ThreadRenamed, ThreadRewound};
pub use tools::{SubagentEnded, ToolCallDecided, ToolCallDecision};
pub use traces::{DraftTrace, MemoryRead, MemorySource, ModelCallPurpose, ModelCalled};

/// The content of events of one type.
pub trait EventBody: Serialize + DeserializeOwned {
    /// The type of the events that hold it.
    const TYPE: EventType;

    /// Returns the JSON that is stored.
    ///
    /// # Errors
    /// When it cannot be written as JSON, such as a path that is not Unicode.
    fn to_stored_json(&self) -> serde_json::Result<RawJson> {
        serde_json::value::to_raw_value(self)
    }
}

/// An event's content cannot be read as the body that was asked for.
#[derive(Debug, thiserror::Error)]
#[error("read event {seq} of thread {thread_id}, a `{event_type}`, as `{}`", expected.as_str())]
pub struct EventBodyError {
    /// The thread of the event.
    pub thread_id: ThreadId,
    /// Its position there.
    pub seq: Seq,
    /// The stored name of its type.
    pub event_type: String,
    /// The type whose body was asked for.
    pub expected: EventType,
    /// The JSON error; `None` when the event is of another type.
    #[source]
    pub source: Option<serde_json::Error>,
}

/// Names the event type of each body.
macro_rules! bodies {
    ($($body:ident,)*) => {
        $(impl EventBody for $body {
            const TYPE: EventType = EventType::$body;
        })*
    };
}

bodies! {
    ImportedNote,
    ImportedBoundary,
    ImportedSummary,
    ThreadCreated,
    ThreadRenamed,
    ThreadRehomed,
    ThreadRewound,
    RunStarted,
    RunStopRequested,
    RunInterrupted,
    RunEnded,
    RunFailed,
    ToolCallDecided,
    SubagentEnded,
    ModelCalled,
    MemoryRead,
    CompactionUndone,
    CompactionFailed,
    TurnsArchived,
    TurnsRestored,
    HandoffRequested,
    HandoffProposed,
    HandoffRefined,
    HandoffReverted,
    HandoffTruncated,
    HandoffAccepted,
    HandoffDeclined,
    HandoffPreviewed,
    HandoffFailed,
    HandoffExpired,
    HandoffSeeded,
    HandoffCleaned,
    HandoffMirrored,
}

impl EventBody for Compaction {
    const TYPE: EventType = EventType::Compacted;
}

impl EventBody for ClippedResult {
    const TYPE: EventType = EventType::ResultClipped;
}
