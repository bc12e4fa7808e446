//! Event bodies: one type for the content of each event type. Every content that an earlier version stored parses as
//! the current type, and unknown fields are ignored. Readers of the journal decide the effect of an event on their
//! view.

mod compaction;
mod handoffs;
mod messages;
mod pins;
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
    DraftRequest, HandoffAccepted, HandoffCleaned, HandoffDeclined, HandoffEdited, HandoffExpired,
    HandoffFailed, HandoffMerged, HandoffMirrored, HandoffPreviewed, HandoffProposed, HandoffRefined,
    HandoffRequested, HandoffReverted, HandoffSeeded, HandoffTruncated,
};
pub use messages::{AiMessage, HumanMessage, ImportedBoundary, ImportedNote, ImportedSummary, ToolMessage};
pub use pins::{PinChange, PinsChanged};
pub use runs::{RunEnded, RunFailed, RunInterrupted, RunStartKind, RunStarted, RunStopRequested};
pub use threads::{ThreadCreated, ThreadRehomed, ThreadRenamed, ThreadRewound};
pub use tools::{SubagentEnded, ToolCallDecided, ToolCallDecision};
pub use traces::{DraftTrace, MemoryRead, MemorySource, ModelCallPurpose, ModelCalled, SummarizedPart};

/// The content of one event type.
pub trait EventBody: Serialize + DeserializeOwned {
    /// The event type that has this content.
    const TYPE: EventType;

    /// Returns the stored JSON.
    ///
    /// # Errors
    /// Returns an error if the body has no JSON form, such as a path that is not Unicode.
    fn to_stored_json(&self) -> serde_json::Result<RawJson> {
        serde_json::value::to_raw_value(self)
    }
}

/// An error that says that an event's content cannot be parsed as the requested body.
#[derive(Debug, thiserror::Error)]
#[error("read event {seq} of thread {thread_id}, a `{event_type}`, as `{}`", expected.as_str())]
pub struct EventBodyError {
    /// The thread of the event.
    pub thread_id: ThreadId,
    /// The event's sequence number in that thread.
    pub seq: Seq,
    /// The stored name of the event type.
    pub event_type: String,
    /// The event type whose body was requested.
    pub expected: EventType,
    /// The JSON error; `None` if the event has another type than `expected`.
    #[source]
    pub source: Option<serde_json::Error>,
}

/// Implements [`EventBody`] for bodies that have the same name as their event type.
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
    PinsChanged,
    HandoffRequested,
    HandoffProposed,
    HandoffRefined,
    HandoffEdited,
    HandoffReverted,
    HandoffTruncated,
    HandoffAccepted,
    HandoffMerged,
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
