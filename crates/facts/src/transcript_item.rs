//! Journal events reduced to what a summary needs: the message and its role, and whether the user or model wrote it. This
//! module selects nothing.

use std::borrow::Cow;

use jiff::Timestamp;
use protocol::event::body::ImportedSummary;
use protocol::event::metadata::EventMetadata;
use protocol::{Event, EventType, Message, Seq};

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

/// Elements that agent harnesses insert into a user's message. Names ending in `-` or `_`, and `local-command`, are
/// prefixes.
const HARNESS_ELEMENTS: [&str; 12] = [
    "system-reminder",
    "command-",
    "local-command",
    "task-notification",
    "bash-",
    "ide_",
    "environment_context",
    "user_instructions",
    "instructions",
    "skill",
    "turn_aborted",
    "subagent_notification",
];

/// Beginnings of messages that agent harnesses send in the user's name.
const HARNESS_LINES: [&str; 4] =
    ["[Request interrupted", "Caveat: The messages below", "# AGENTS.md", "Base directory for this skill"];

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
    /// blank. Text that a harness added is removed from imported messages.
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

/// Returns a user's text without the elements that harnesses add, or an empty text if the whole message is a harness's.
/// Each removed element leaves a space, so that the words around it stay separate.
fn strip_harness_text(text: &str) -> Cow<'_, str> {
    if !text.contains('<') && !HARNESS_LINES.iter().any(|line| text.contains(line)) {
        return Cow::Borrowed(text);
    }
    let mut stripped = String::with_capacity(text.len());
    let mut remaining = text;
    while let Some(start) = remaining.find('<') {
        stripped.push_str(&remaining[..start]);
        remaining = &remaining[start..];
        match harness_element_length(remaining) {
            Some(length) => {
                stripped.push(' ');
                remaining = &remaining[length..];
            }
            None => {
                stripped.push('<');
                remaining = &remaining[1..];
            }
        }
    }
    stripped.push_str(remaining);
    if HARNESS_LINES.iter().any(|line| stripped.trim_start().starts_with(line)) {
        return Cow::Borrowed("");
    }
    Cow::Owned(stripped)
}

/// Returns the length in bytes of the harness element that `text` starts with, including its end tag. Returns `None` if
/// the text starts with another element, or the end tag is missing.
fn harness_element_length(text: &str) -> Option<usize> {
    let name_end = text[1..].find(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'))? + 1;
    let name = &text[1..name_end];
    let is_match = |element: &&&str| {
        let is_prefix = element.ends_with(['-', '_']) || **element == "local-command";
        name.eq_ignore_ascii_case(element)
            || is_prefix && name.get(..element.len()).is_some_and(|head| head.eq_ignore_ascii_case(element))
    };
    HARNESS_ELEMENTS.iter().find(is_match)?;
    let close = format!("</{name}>");
    text.find(&close).map(|start| start + close.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l8_harness_text_is_removed_from_a_users_message() {
        for (text, expected) in [
            ("fix it", "fix it"),
            ("fix it <system-reminder>never mind</system-reminder> now", "fix it   now"),
            ("<command-name>/clear</command-name><command-args></command-args>", ""),
            ("<ide_opened_file>a.rs</ide_opened_file>\nfix it", "fix it"),
            ("[Request interrupted by user]", ""),
            ("a < b and <Vec<T>> stays", "a < b and <Vec<T>> stays"),
            ("<system-reminder>never closed", "<system-reminder>never closed"),
        ] {
            assert_eq!(strip_harness_text(text).trim(), expected, "{text:?}");
        }
    }
}
