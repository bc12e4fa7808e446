//! What people are shown of a thread, event by event: every message, complete and in order, whatever was condensed, and
//! a marker where that happened. Which of it is on a page, and what is told beside it, is decided in `page`.

use jiff::Timestamp;
use protocol::event::body::{ImportedBoundary, ImportedSummary};
use protocol::{
    ArchiveReason, Block, Compaction, CompactionFailed, CompactionTrigger, CompactionUndone, Event,
    EventType, Message, RunFeedback, RunId, Seq, SummaryId, ThreadId, TurnsArchived,
};
use serde_json::Value;

use super::media::name_media;
use super::{Part, is_side, message_id};

/// The types of event that people are shown.
pub(crate) const SHOWN: [EventType; 9] = [
    EventType::HumanMessage,
    EventType::AiMessage,
    EventType::ToolMessage,
    EventType::ImportedBoundary,
    EventType::ImportedSummary,
    EventType::Compacted,
    EventType::CompactionUndone,
    EventType::CompactionFailed,
    EventType::TurnsArchived,
];

/// The types of event that say what was condensed, what of that was taken back, and what went to memory.
pub(crate) const MARKERS: [EventType; 3] =
    [EventType::Compacted, EventType::CompactionUndone, EventType::TurnsArchived];

/// One entry of what people are shown of a thread.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct HistoryEntry {
    /// The message's own id, or one derived from its place, the same on every request.
    pub id: String,
    /// Its position.
    pub seq: Seq,
    /// The run it came from, if any.
    pub run_id: Option<RunId>,
    /// When it was said.
    pub created_at: Timestamp,
    /// What it is.
    #[serde(flatten)]
    pub what: HistoryItem,
    /// Whether a rewind took it out of sight: then it is told to who asks for such entries alone.
    #[serde(rename = "superseded", skip_serializing_if = "std::ops::Not::not")]
    pub is_superseded: bool,
    /// The call that a tool's result answers, where it is not on the same page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<CallHeader>,
    /// Milliseconds that the tool worked, or the model took to answer, where they are known. A marker has its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// What a person thinks of the run: only at the last thing its model said, and only where feedback is asked for.
    /// `Some(None)` means that they have not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feedback: Option<Option<RunFeedback>>,
}

impl HistoryEntry {
    /// Returns the message, if the entry is one.
    pub const fn message(&self) -> Option<&Message> {
        if let HistoryItem::Message(message) = &self.what { Some(message) } else { None }
    }
}

/// What a history entry is.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[serde(untagged)]
pub enum HistoryItem {
    /// A message. Its own id is the entry's.
    Message(Message),
    /// A place where an imported session's own agent had compacted, and what it wrote there.
    Boundary(BoundaryEntry),
    /// A place where the conversation was condensed for the model.
    Marker(Box<SummaryMarker>),
    /// A place where a person took a compaction back.
    Undone(UndoneEntry),
    /// A place where the conversation was to be condensed and was not.
    Failed(FailedEntry),
    /// A place where old turns left what the model is sent, for a summary of memory.
    Archived(Box<ArchiveMarker>),
}

/// A place where an imported session's own agent had compacted.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct BoundaryEntry {
    /// `imported_boundary` or `imported_summary`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The label of the boundary, or the text of the summary.
    pub text: String,
}

/// A place where messages were condensed for the model; they are in history all the same.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[serde(tag = "type", rename = "summary_marker")]
pub struct SummaryMarker {
    /// How many messages were condensed.
    pub replaced_count: u64,
    /// How many were kept as they are.
    pub kept_count: u64,
    /// The first event that was condensed.
    pub first_seq: Seq,
    /// The last one.
    pub last_seq: Seq,
    /// Tokens of the next request before.
    pub tokens_before: u64,
    /// Tokens of the next request after.
    pub tokens_after: u64,
    /// Why it happened.
    pub trigger: CompactionTrigger,
    /// `provider/name` of the model that wrote the summary, or `extractive`.
    pub model: String,
    /// The summary.
    pub summary: String,
    /// The marker whose summary was brought up to date.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_seq: Option<Seq>,
    /// What the person wanted kept above all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub focus: Option<String>,
    /// Milliseconds it took.
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

/// A place where a person took a compaction back.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "type", rename = "summary_undone")]
pub struct UndoneEntry {
    /// The marker.
    pub marker_seq: Seq,
}

/// A place where the conversation was to be condensed and was not: nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "type", rename = "compaction_failed")]
pub struct FailedEntry {
    /// Why it was to happen.
    pub trigger: CompactionTrigger,
    /// Why it did not, in words.
    pub reason: String,
}

/// A place where old turns left what the model is sent, for a summary of memory; they are in history all the same.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "type", rename = "turns_archived")]
pub struct ArchiveMarker {
    /// How many turns of the thread the summary stands for.
    pub turn_count: u64,
    /// The first event that left with them.
    pub first_seq: Seq,
    /// The last one.
    pub last_seq: Seq,
    /// Why.
    pub reason: ArchiveReason,
    /// The summary.
    pub summary: String,
    /// `provider/name` of the model that wrote the summary, or `extractive`.
    pub model: String,
    /// The row of `medium_term_memory`.
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

/// A tool call as far as its result must be told with it.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct CallHeader {
    /// The message that made the call.
    pub seq: Seq,
    /// The call's id.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments.
    pub args: Value,
}

/// Returns what people are shown of these events: every message, whole and in order, whatever was compacted.
pub fn history(events: &[Event]) -> Vec<HistoryEntry> {
    events.iter().filter_map(entry).collect()
}

/// Returns what is on a page of the event: what people are shown of it, without the bytes of media.
pub fn listed(event: &Event) -> Option<HistoryEntry> {
    let mut entry = entry(event)?;
    if let HistoryItem::Message(message) = &mut entry.what {
        let content = match message {
            Message::Human(message) => &mut message.content,
            Message::Ai(message) => &mut message.content,
            Message::Tool(message) => &mut message.content,
        };
        for block in content {
            if let Block::Opaque { raw, .. } = block {
                name_media(raw);
            }
        }
    }
    Some(entry)
}

/// Returns what people are shown of the event; `None` when it is not shown, or cannot be read.
fn entry(event: &Event) -> Option<HistoryEntry> {
    if is_side(event) {
        return None;
    }
    let (id, what) = item(event)?;
    let duration_ms =
        matches!(what, HistoryItem::Message(_)).then(|| event.parsed_metadata().duration_ms).flatten();
    Some(HistoryEntry {
        id,
        seq: event.seq,
        run_id: event.run_id,
        created_at: event.created_at,
        what,
        is_superseded: false,
        call: None,
        duration_ms,
        feedback: None,
    })
}

fn item(event: &Event) -> Option<(String, HistoryItem)> {
    let boundary = |kind: &'static str, text: String| {
        (message_id(event.thread_id, event.seq), HistoryItem::Boundary(BoundaryEntry { kind, text }))
    };
    Some(match Part::of(event) {
        Part::Message => identified(event.message()?, event.thread_id, event.seq),
        Part::Boundary => boundary("imported_boundary", event.body::<ImportedBoundary>().ok()?.label),
        Part::ImportedSummary => boundary("imported_summary", event.body::<ImportedSummary>().ok()?.text),
        Part::Marker => {
            let compaction: Compaction = event.body().ok()?;
            (format!("summary-marker-{}", event.seq), HistoryItem::Marker(Box::new(compaction.into())))
        }
        Part::Undone => {
            let CompactionUndone { marker_seq, .. } = event.body().ok()?;
            let undone = UndoneEntry { marker_seq };
            (format!("summary-undone-{}", event.seq), HistoryItem::Undone(undone))
        }
        Part::Failed => {
            let CompactionFailed { trigger, reason, .. } = event.body().ok()?;
            let failed = FailedEntry { trigger, reason };
            (format!("compaction-failed-{}", event.seq), HistoryItem::Failed(failed))
        }
        Part::Archive => {
            let archived: TurnsArchived = event.body().ok()?;
            // What a compaction had condensed is told by its own marker.
            let marker = Some(archived).filter(|archived| archived.reason.leaves_context())?;
            (format!("archive-marker-{}", event.seq), HistoryItem::Archived(Box::new(marker.into())))
        }
        Part::Clip | Part::Restored | Part::Beside => return None,
    })
}

/// Returns the message with its id beside it instead of in it.
fn identified(mut message: Message, thread_id: ThreadId, seq: Seq) -> (String, HistoryItem) {
    let own = match &mut message {
        Message::Human(message) => message.id.take(),
        Message::Ai(message) => message.id.take(),
        Message::Tool(message) => message.id.take(),
    };
    (own.unwrap_or_else(|| message_id(thread_id, seq)), HistoryItem::Message(message))
}
