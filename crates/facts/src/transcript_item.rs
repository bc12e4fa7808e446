//! Journal events reduced to what a summary needs: the message and its role, and whether the user or model wrote it. This
//! module selects nothing.

use std::borrow::Cow;

use jiff::Timestamp;
use protocol::event::body::ImportedSummary;
use protocol::event::metadata::EventMetadata;
use protocol::{Event, EventType, Message, Seq};

use crate::text::wrappers::strip_harness_text;

/// One event of a thread, parsed for summarizing.
#[derive(Debug, Clone)]
pub struct TranscriptItem {
    /// `seq` of the event in its thread.
    pub seq: Seq,
    /// Time of the event.
    pub at: Timestamp,
    /// The kind of event, with its content.
    pub kind: TranscriptItemKind,
    /// True for an event inside a sub-agent.
    pub is_subagent: bool,
    /// True for text that was sent to the model in the user's name but that no user typed.
    pub is_injected: bool,
    /// True for an event from another agent's session file. That agent's harness may have inserted text into the user's
    /// messages.
    pub is_imported: bool,
}

/// The kind of a transcript event, by its use in a summary.
#[derive(Debug, Clone)]
pub enum TranscriptItemKind {
    /// A message of a user, a model or a tool.
    Message(Message),
    /// A note of the harness in an imported session, which is part of no message.
    Note,
    /// A compaction boundary of an imported session.
    Boundary,
    /// The summary that an imported session has after a boundary.
    ImportedSummary(String),
    /// The handoff summary that the thread began with.
    InheritedSummary {
        /// The whole summary as it was accepted.
        text: String,
        /// The grounded items: those that name nothing that is absent from the parent thread. The reviewer may have
        /// accepted other items, but that does not prove them.
        grounded: String,
    },
    /// A message event that cannot be parsed.
    Unreadable,
    /// Any other event: lifecycle, traces, and event types of a later version.
    Other,
}

impl TranscriptItem {
    /// Parses a journal event into an item. A message that cannot be parsed becomes [`TranscriptItemKind::Unreadable`].
    pub fn from_event(event: &Event) -> Self {
        let EventMetadata { source, side, injected: is_injected, .. } = event.parsed_metadata();
        let kind = match event.kind() {
            Some(EventType::HumanMessage | EventType::AiMessage | EventType::ToolMessage) => {
                event.message().map_or(TranscriptItemKind::Unreadable, TranscriptItemKind::Message)
            }
            Some(EventType::ImportedNote) => TranscriptItemKind::Note,
            Some(EventType::ImportedBoundary) => TranscriptItemKind::Boundary,
            Some(EventType::ImportedSummary) => TranscriptItemKind::ImportedSummary(summary_text(event)),
            _ => TranscriptItemKind::Other,
        };
        let is_subagent = side || event.category == "subagent";
        Self {
            seq: event.seq,
            at: event.created_at,
            kind,
            is_subagent,
            is_injected,
            is_imported: source.is_some(),
        }
    }

    /// Returns the text that the user wrote, or `None` if the item is not a user message of the main conversation or is
    /// blank. Text that a harness added is removed from imported messages, and output of an environment in the user's name
    /// is no text of the user.
    pub fn user_text(&self) -> Option<String> {
        match &self.kind {
            TranscriptItemKind::Message(message @ Message::Human(_))
                if !self.is_subagent && !self.is_injected =>
            {
                let text = message.text();
                let text =
                    if self.is_imported { strip_harness_text(&text) } else { Cow::Borrowed(text.as_str()) };
                let text = text.trim();
                (!text.is_empty()).then(|| text.to_owned())
            }
            TranscriptItemKind::Message(_)
            | TranscriptItemKind::Note
            | TranscriptItemKind::Boundary
            | TranscriptItemKind::ImportedSummary(_)
            | TranscriptItemKind::InheritedSummary { .. }
            | TranscriptItemKind::Unreadable
            | TranscriptItemKind::Other => None,
        }
    }

    /// Returns whether this is a message of the main conversation that was not injected.
    pub fn is_conversation_message(&self) -> bool {
        !self.is_subagent && !self.is_injected && matches!(self.kind, TranscriptItemKind::Message(_))
    }

    /// Returns whether this is a message of any role, including sub-agents' and unreadable ones.
    pub fn is_message(&self) -> bool {
        matches!(self.kind, TranscriptItemKind::Message(_) | TranscriptItemKind::Unreadable)
    }
}

/// Returns the text of an imported summary event, or an empty string if it cannot be parsed.
fn summary_text(event: &Event) -> String {
    event.body().map(|ImportedSummary { text }| text).unwrap_or_default()
}
