//! Views: functions that compute from events what a model or a person sees. A view is never stored, so views cannot
//! damage each other.

mod audit;
pub mod branches;
pub mod context;
pub(crate) mod history;
mod media;
pub(crate) mod page;

use protocol::{Event, EventType, Seq, ThreadId};

pub use audit::AuditEntry;
pub use context::context;
pub use history::{
    ArchiveMarker, CompactionFailedEntry, CompactionUndoneEntry, DamagedEntry, HistoryEntry, HistoryItem,
    ImportedBoundaryEntry, SummaryMarker, ToolCallHeader, history, page_entry,
};

/// The meaning of an event for the views.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ViewEventKind {
    /// A message.
    Message,
    /// A point at which the original agent of an imported session had compacted.
    ImportedBoundary,
    /// The summary that the original agent wrote there.
    ImportedSummary,
    /// A compaction.
    Compaction,
    /// The undoing of a compaction.
    CompactionUndone,
    /// A failed compaction, which changed nothing.
    CompactionFailed,
    /// A tool result that is sent to the model in shortened form.
    Clip,
    /// Old messages left the context, because a memory summary covers them.
    TurnsArchived,
    /// Such messages returned to the context.
    TurnsRestored,
    /// An event about the thread that the history shows between the messages.
    Audit,
    /// An event outside the conversation, which changes no view.
    Side,
}

impl ViewEventKind {
    /// Returns the kind of an event, or [`Self::Side`] for an event type of a later version.
    pub(crate) fn of_event(event: &Event) -> Self {
        event.kind().map_or(Self::Side, Self::of_type)
    }

    /// Returns the kind of an event type. The match is exhaustive, so a new event type must be classified here.
    pub(crate) const fn of_type(event_type: EventType) -> Self {
        match event_type {
            EventType::HumanMessage | EventType::AiMessage | EventType::ToolMessage => Self::Message,
            EventType::ImportedBoundary => Self::ImportedBoundary,
            EventType::ImportedSummary => Self::ImportedSummary,
            EventType::Compacted => Self::Compaction,
            EventType::CompactionUndone => Self::CompactionUndone,
            EventType::CompactionFailed => Self::CompactionFailed,
            EventType::ResultClipped => Self::Clip,
            EventType::TurnsArchived => Self::TurnsArchived,
            EventType::TurnsRestored => Self::TurnsRestored,
            EventType::ThreadRenamed
            | EventType::ThreadRewound
            | EventType::PinsChanged
            | EventType::RunFailed
            | EventType::ToolCallDecided
            | EventType::HandoffRequested
            | EventType::HandoffRefined
            | EventType::HandoffEdited
            | EventType::HandoffAccepted
            | EventType::HandoffMerged
            | EventType::HandoffDeclined
            | EventType::HandoffPreviewed
            | EventType::HandoffFailed
            | EventType::HandoffExpired => Self::Audit,
            EventType::ImportedNote
            | EventType::ThreadCreated
            | EventType::ThreadRehomed
            | EventType::RunStarted
            | EventType::RunStopRequested
            | EventType::RunInterrupted
            | EventType::RunEnded
            | EventType::SubagentEnded
            | EventType::ModelCalled
            | EventType::MemoryRead
            | EventType::HandoffProposed
            | EventType::HandoffReverted
            | EventType::HandoffTruncated
            | EventType::HandoffSeeded
            | EventType::HandoffCleaned
            | EventType::HandoffMirrored => Self::Side,
        }
    }
}

/// Returns whether an event of an imported session belongs to a sub-agent, outside the conversation.
fn is_from_subagent(event: &Event) -> bool {
    event.parsed_metadata().side
}

/// Returns the id of a message that has no id of its own: a UUIDv5 of its thread and seq (contract §11).
pub fn message_id(thread_id: ThreadId, seq: Seq) -> String {
    uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_URL, format!("{thread_id}:{seq}").as_bytes()).to_string()
}

#[cfg(test)]
mod tests;
