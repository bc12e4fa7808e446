//! Views: what the events add up to. A view is computed, never stored, and two views cannot damage each other.

pub mod branches;
pub mod context;
pub(crate) mod history;
mod media;
pub(crate) mod page;

use protocol::{Event, EventType, Seq, ThreadId};

pub use context::context;
pub use history::{
    ArchiveMarker, BoundaryEntry, CallHeader, FailedEntry, HistoryEntry, HistoryItem, SummaryMarker,
    UndoneEntry, history, listed,
};

/// What an event is to the views.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Message,
    /// A place where an imported session's own agent had compacted.
    Boundary,
    /// What that agent wrote there.
    ImportedSummary,
    /// A place where the conversation was condensed.
    Marker,
    /// A place where that was taken back.
    Undone,
    /// A place where it was tried and nothing came of it.
    Failed,
    /// A result that is sent as its ends.
    Clip,
    /// A place where a summary of memory took the place of old turns.
    Archive,
    /// A place where such turns came back.
    Restored,
    /// What happened beside the conversation, which changes no view.
    Beside,
}

impl Part {
    /// Returns what events of the type are; [`Self::Beside`] for a type of a later version.
    pub(crate) fn of(event: &Event) -> Self {
        event.kind().map_or(Self::Beside, Self::of_type)
    }

    /// Every type is named, so that whoever adds one decides what it is to the views.
    pub(crate) const fn of_type(event_type: EventType) -> Self {
        match event_type {
            EventType::HumanMessage | EventType::AiMessage | EventType::ToolMessage => Self::Message,
            EventType::ImportedBoundary => Self::Boundary,
            EventType::ImportedSummary => Self::ImportedSummary,
            EventType::Compacted => Self::Marker,
            EventType::CompactionUndone => Self::Undone,
            EventType::CompactionFailed => Self::Failed,
            EventType::ResultClipped => Self::Clip,
            EventType::TurnsArchived => Self::Archive,
            EventType::TurnsRestored => Self::Restored,
            EventType::ImportedNote
            | EventType::ThreadCreated
            | EventType::ThreadRenamed
            | EventType::ThreadRehomed
            | EventType::ThreadRewound
            | EventType::RunStarted
            | EventType::RunStopRequested
            | EventType::RunInterrupted
            | EventType::RunEnded
            | EventType::RunFailed
            | EventType::ToolCallDecided
            | EventType::SubagentEnded
            | EventType::ModelCalled
            | EventType::MemoryRead
            | EventType::HandoffRequested
            | EventType::HandoffProposed
            | EventType::HandoffRefined
            | EventType::HandoffReverted
            | EventType::HandoffTruncated
            | EventType::HandoffAccepted
            | EventType::HandoffDeclined
            | EventType::HandoffPreviewed
            | EventType::HandoffFailed
            | EventType::HandoffExpired
            | EventType::HandoffSeeded
            | EventType::HandoffCleaned
            | EventType::HandoffMirrored => Self::Beside,
        }
    }
}

/// Returns whether the event happened beside the conversation, in a sub-agent.
fn is_side(event: &Event) -> bool {
    event.parsed_metadata().side
}

/// Returns the id of a message that has none of its own: a UUIDv5 of its place (contract §11).
pub fn message_id(thread_id: ThreadId, seq: Seq) -> String {
    uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_URL, format!("{thread_id}:{seq}").as_bytes()).to_string()
}

#[cfg(test)]
mod tests;
