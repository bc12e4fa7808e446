//! The history view: what people see of a thread. It contains every message in order, regardless of compactions, a
//! marker for each compaction, and audit entries. `page` selects the entries of a page and adds further data.

use jiff::Timestamp;
use protocol::event::body::{ImportedBoundary, ImportedSummary};
use protocol::{
    ArchiveReason, Compaction, CompactionFailed, CompactionTrigger, CompactionUndone, ContentBlock, Event,
    EventType, Message, RunFeedback, RunId, Seq, SummaryId, ThreadId, TurnsArchived,
};
use serde_json::Value;

use super::audit::AuditEntry;
use super::media::replace_media_bytes;
use super::{ViewEventKind, is_from_subagent, message_id};
use crate::is_damaged;

/// The event types that appear in the history.
pub(crate) const HISTORY_EVENTS: [EventType; 23] = [
    EventType::HumanMessage,
    EventType::AiMessage,
    EventType::ToolMessage,
    EventType::ImportedBoundary,
    EventType::ImportedSummary,
    EventType::ThreadRenamed,
    EventType::ThreadRewound,
    EventType::RunFailed,
    EventType::ToolCallDecided,
    EventType::Compacted,
    EventType::CompactionUndone,
    EventType::CompactionFailed,
    EventType::TurnsArchived,
    EventType::PinsChanged,
    EventType::HandoffRequested,
    EventType::HandoffRefined,
    EventType::HandoffEdited,
    EventType::HandoffAccepted,
    EventType::HandoffMerged,
    EventType::HandoffDeclined,
    EventType::HandoffPreviewed,
    EventType::HandoffFailed,
    EventType::HandoffExpired,
];

/// The event types that appear as markers: compactions, their undoing, and messages that memory archived.
pub(crate) const BOUNDARY_EVENTS: [EventType; 3] =
    [EventType::Compacted, EventType::CompactionUndone, EventType::TurnsArchived];

/// An entry of a thread's history.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct HistoryEntry {
    /// The id of the message, or an id derived from the event's position. It is the same in every response.
    pub id: String,
    /// The seq of the event.
    pub seq: Seq,
    /// The run that appended the event, if any.
    pub run_id: Option<RunId>,
    /// The time of the event.
    pub created_at: Timestamp,
    /// The content of the entry.
    #[serde(flatten)]
    pub item: HistoryItem,
    /// `true` if a rewind superseded the event. Such entries are returned only on request.
    #[serde(rename = "superseded", skip_serializing_if = "std::ops::Not::not")]
    pub is_superseded: bool,
    /// The tool call that a result answers, unless the call is on the same page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<ToolCallHeader>,
    /// Duration in milliseconds of the tool call or of the model's answer, if known. Markers have a duration of their
    /// own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// A person's feedback on the run. Present only on the last message of the run's model, and only if feedback is
    /// requested. `Some(None)` means that the person has given none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feedback: Option<Option<RunFeedback>>,
}

impl HistoryEntry {
    /// Returns the message, if the entry is one.
    pub const fn message(&self) -> Option<&Message> {
        if let HistoryItem::Message(message) = &self.item { Some(message) } else { None }
    }
}

/// The content of a history entry.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[serde(untagged)]
pub enum HistoryItem {
    /// A message. Its own id has become the id of the entry.
    Message(Message),
    /// A point at which the original agent of an imported session had compacted, or its summary there.
    Boundary(ImportedBoundaryEntry),
    /// A compaction.
    Marker(Box<SummaryMarker>),
    /// The undoing of a compaction by a person.
    Undone(CompactionUndoneEntry),
    /// A failed compaction.
    Failed(CompactionFailedEntry),
    /// Old messages left the context, because a memory summary covers them.
    Archived(Box<ArchiveMarker>),
    /// Something that happened to the thread besides its messages.
    Audit(AuditEntry),
    /// An event whose stored form is damaged.
    Damaged(DamagedEntry),
}

/// An event whose stored form is damaged, so that its content is not shown.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "type", rename = "event_damaged")]
pub struct DamagedEntry {
    /// One sentence that says so.
    pub text: String,
}

impl DamagedEntry {
    /// Returns the entry of a damaged event.
    pub(crate) fn new(seq: Seq) -> Self {
        Self { text: format!("Event {seq} is damaged in the database and cannot be shown") }
    }
}

/// A point at which the original agent of an imported session had compacted.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct ImportedBoundaryEntry {
    /// `imported_boundary` or `imported_summary`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The label of the boundary, or the text of the summary.
    pub text: String,
}

/// The marker of a compaction. The compacted messages are still in the history.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[serde(tag = "type", rename = "summary_marker")]
pub struct SummaryMarker {
    /// Number of compacted messages.
    pub replaced_count: u64,
    /// Number of messages that were kept verbatim.
    pub kept_count: u64,
    /// The seq of the first compacted event.
    pub first_seq: Seq,
    /// The seq of the last compacted event.
    pub last_seq: Seq,
    /// Tokens of the next request before the compaction.
    pub tokens_before: u64,
    /// Tokens of the next request after the compaction.
    pub tokens_after: u64,
    /// The trigger of the compaction.
    pub trigger: CompactionTrigger,
    /// `provider/name` of the model that wrote the summary, or `extractive` for an offline summary.
    pub model: String,
    /// The summary.
    pub summary: String,
    /// The seq of the previous marker, whose summary was updated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_seq: Option<Seq>,
    /// The topic on which a person asked the summary to focus.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub focus: Option<String>,
    /// Duration of the compaction in milliseconds.
    pub duration_ms: u64,
}

impl From<Compaction> for SummaryMarker {
    fn from(compaction: Compaction) -> Self {
        Self {
            replaced_count: compaction.replaced_count,
            kept_count: compaction.kept_count,
            first_seq: compaction.first_seq,
            last_seq: compaction.last_seq,
            tokens_before: compaction.tokens_before,
            tokens_after: compaction.tokens_after,
            trigger: compaction.trigger,
            model: compaction.model,
            summary: compaction.summary,
            previous_seq: compaction.previous_seq,
            focus: compaction.focus,
            duration_ms: compaction.duration_ms,
        }
    }
}

/// The undoing of a compaction by a person.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "type", rename = "summary_undone")]
pub struct CompactionUndoneEntry {
    /// The seq of the undone marker.
    pub marker_seq: Seq,
}

/// A failed compaction, which changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "type", rename = "compaction_failed")]
pub struct CompactionFailedEntry {
    /// The trigger of the compaction.
    pub trigger: CompactionTrigger,
    /// The reason for the failure, as text.
    pub reason: String,
}

/// The marker of messages that left the context, because a memory summary covers them. They are still in the history.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "type", rename = "turns_archived")]
pub struct ArchiveMarker {
    /// Number of messages of the thread that the summary covers.
    pub turn_count: u64,
    /// The seq of the first event that left the context.
    pub first_seq: Seq,
    /// The seq of the last event that left the context.
    pub last_seq: Seq,
    /// The reason for archiving the messages.
    pub reason: ArchiveReason,
    /// The summary.
    pub summary: String,
    /// `provider/name` of the model that wrote the summary, or `extractive` for an offline summary.
    pub model: String,
    /// The id of the summary in `medium_term_memory`.
    pub summary_id: SummaryId,
}

impl From<TurnsArchived> for ArchiveMarker {
    fn from(archived: TurnsArchived) -> Self {
        Self {
            turn_count: archived.turn_count,
            first_seq: archived.first_seq,
            last_seq: archived.last_seq,
            reason: archived.reason,
            summary: archived.summary,
            model: archived.model,
            summary_id: archived.summary_id,
        }
    }
}

/// A tool call, shown together with its result.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct ToolCallHeader {
    /// The seq of the message that made the call.
    pub seq: Seq,
    /// The id of the call.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments of the call.
    pub args: Value,
}

/// Returns the history of these events: every message, complete and in order, regardless of compactions.
pub fn history(events: &[Event]) -> Vec<HistoryEntry> {
    events.iter().filter_map(full_entry).collect()
}

/// Returns the history entry of an event with media data replaced by hashes, as it appears on a page. `None` if the
/// event is not part of the history.
pub fn page_entry(event: &Event) -> Option<HistoryEntry> {
    let mut entry = full_entry(event)?;
    if let HistoryItem::Message(message) = &mut entry.item {
        let content = match message {
            Message::Human(message) => &mut message.content,
            Message::Ai(message) => &mut message.content,
            Message::Tool(message) => &mut message.content,
        };
        for block in content {
            if let ContentBlock::Opaque { raw, .. } = block {
                replace_media_bytes(raw);
            }
        }
    }
    Some(entry)
}

/// Returns the history entry of an event, or `None` if the event is not part of the history or cannot be parsed.
fn full_entry(event: &Event) -> Option<HistoryEntry> {
    if is_from_subagent(event) {
        return None;
    }
    let (id, item) = match is_damaged(event) {
        true => {
            let id = format!("event-damaged-{}", event.seq);
            (id, HistoryItem::Damaged(DamagedEntry::new(event.seq)))
        }
        false => history_item(event)?,
    };
    let duration_ms =
        matches!(item, HistoryItem::Message(_)).then(|| event.parsed_metadata().duration_ms).flatten();
    Some(HistoryEntry {
        id,
        seq: event.seq,
        run_id: event.run_id,
        created_at: event.created_at,
        item,
        is_superseded: false,
        call: None,
        duration_ms,
        feedback: None,
    })
}

/// Returns the id and the content of an event's entry.
fn history_item(event: &Event) -> Option<(String, HistoryItem)> {
    let boundary = |kind: &'static str, text: String| {
        (message_id(event.thread_id, event.seq), HistoryItem::Boundary(ImportedBoundaryEntry { kind, text }))
    };
    Some(match ViewEventKind::of_event(event) {
        ViewEventKind::Message => split_message_id(event.message()?, event.thread_id, event.seq),
        ViewEventKind::ImportedBoundary => {
            boundary("imported_boundary", event.body::<ImportedBoundary>().ok()?.label)
        }
        ViewEventKind::ImportedSummary => {
            boundary("imported_summary", event.body::<ImportedSummary>().ok()?.text)
        }
        ViewEventKind::Compaction => {
            let compaction: Compaction = event.body().ok()?;
            (format!("summary-marker-{}", event.seq), HistoryItem::Marker(Box::new(compaction.into())))
        }
        ViewEventKind::CompactionUndone => {
            let CompactionUndone { marker_seq, .. } = event.body().ok()?;
            let undone = CompactionUndoneEntry { marker_seq };
            (format!("summary-undone-{}", event.seq), HistoryItem::Undone(undone))
        }
        ViewEventKind::CompactionFailed => {
            let CompactionFailed { trigger, reason, .. } = event.body().ok()?;
            let failed = CompactionFailedEntry { trigger, reason };
            (format!("compaction-failed-{}", event.seq), HistoryItem::Failed(failed))
        }
        ViewEventKind::TurnsArchived => {
            let archived: TurnsArchived = event.body().ok()?;
            // Messages that a compaction has removed from the context are shown by the marker of the compaction.
            let marker = Some(archived).filter(|archived| archived.reason.is_removed_from_context())?;
            (format!("archive-marker-{}", event.seq), HistoryItem::Archived(Box::new(marker.into())))
        }
        ViewEventKind::Audit => {
            (format!("audit-{}", event.seq), HistoryItem::Audit(AuditEntry::from_event(event)?))
        }
        ViewEventKind::Clip | ViewEventKind::TurnsRestored | ViewEventKind::Side => return None,
    })
}

/// Returns the message without its id, and the id or a derived one.
fn split_message_id(mut message: Message, thread_id: ThreadId, seq: Seq) -> (String, HistoryItem) {
    let own_id = match &mut message {
        Message::Human(message) => message.id.take(),
        Message::Ai(message) => message.id.take(),
        Message::Tool(message) => message.id.take(),
    };
    (own_id.unwrap_or_else(|| message_id(thread_id, seq)), HistoryItem::Message(message))
}
