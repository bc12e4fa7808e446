//! Journal events as the summariser sees them: who said what, and whether anybody meant it. Nothing is judged here.

use std::borrow::Cow;

use jiff::Timestamp;
use protocol::event::body::ImportedSummary;
use protocol::event::metadata::EventMetadata;
use protocol::{Event, EventType, Message, Seq};

/// One event, read for summarising.
#[derive(Debug, Clone)]
pub struct TranscriptItem {
    /// Its position in the thread.
    pub seq: Seq,
    /// When it happened.
    pub at: Timestamp,
    /// The kind of event.
    pub kind: TranscriptItemKind,
    /// True for what happened inside a sub-agent.
    pub is_subagent: bool,
    /// True for text that reached the model in the person's name but that nobody typed.
    pub is_injected: bool,
    /// True for what another agent's session file had: its harness may have put text of its own into a person's message.
    pub is_imported: bool,
}

/// The role of an event in a summary.
#[derive(Debug, Clone)]
pub enum TranscriptItemKind {
    /// Something a person, a model or a tool said.
    Message(Message),
    /// Text that nobody said.
    Note,
    /// A place where the context was condensed.
    Boundary,
    /// The summary that was written at a boundary.
    ImportedSummary(String),
    /// The summary the thread was handed over with.
    InheritedSummary {
        /// All of it, as it was accepted.
        text: String,
        /// The items that name nothing but what the thread before had. A person may accept others, which proves nothing.
        grounded: String,
    },
    /// A message that cannot be read.
    Unreadable,
    /// Everything else: lifecycle, traces, and events of a later version.
    Other,
}

/// Elements that agent harnesses put inside a person's message; names ending in `-` or `_` are prefixes.
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

/// Lines that agent harnesses write in the person's name.
const HARNESS_LINES: [&str; 4] =
    ["[Request interrupted", "Caveat: The messages below", "# AGENTS.md", "Base directory for this skill"];

impl TranscriptItem {
    /// Returns the event as an item; a message that cannot be read becomes [`TranscriptItemKind::Unreadable`].
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

    /// Returns the text that a person wrote, or `None` when there is none. Text that a harness added is removed from
    /// imported messages.
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

    /// Returns whether this is a message of the main conversation that somebody meant.
    pub fn is_conversation_message(&self) -> bool {
        !self.is_subagent && !self.is_injected && matches!(self.kind, TranscriptItemKind::Message(_))
    }

    /// Returns whether this is a message, of whomever.
    pub fn is_message(&self) -> bool {
        matches!(self.kind, TranscriptItemKind::Message(_) | TranscriptItemKind::Unreadable)
    }
}

fn summary_text(event: &Event) -> String {
    event.body().map(|ImportedSummary { text }| text).unwrap_or_default()
}

/// Removes the elements and lines that harnesses add to a person's text.
fn strip_harness_text(text: &str) -> Cow<'_, str> {
    if !text.contains('<') && !HARNESS_LINES.iter().any(|line| text.contains(line)) {
        return Cow::Borrowed(text);
    }
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        kept.push_str(&rest[..start]);
        rest = &rest[start..];
        match harness_element_length(rest) {
            Some(length) => {
                kept.push(' ');
                rest = &rest[length..];
            }
            None => {
                kept.push('<');
                rest = &rest[1..];
            }
        }
    }
    kept.push_str(rest);
    if HARNESS_LINES.iter().any(|line| kept.trim_start().starts_with(line)) {
        return Cow::Borrowed("");
    }
    Cow::Owned(kept)
}

/// Returns the length of the harness element that `text` starts with, its end tag included; none when it never ends.
fn harness_element_length(text: &str) -> Option<usize> {
    let name_end = text[1..].find(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'))? + 1;
    let name = &text[1..name_end];
    let known = |element: &&&str| {
        let is_prefix = element.ends_with(['-', '_']) || **element == "local-command";
        name.eq_ignore_ascii_case(element)
            || is_prefix && name.get(..element.len()).is_some_and(|head| head.eq_ignore_ascii_case(element))
    };
    HARNESS_ELEMENTS.iter().find(known)?;
    let close = format!("</{name}>");
    text.find(&close).map(|at| at + close.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l8_harness_text_inside_a_persons_message_is_not_what_they_said() {
        for (text, said) in [
            ("fix it", "fix it"),
            ("fix it <system-reminder>never mind</system-reminder> now", "fix it   now"),
            ("<command-name>/clear</command-name><command-args></command-args>", ""),
            ("<ide_opened_file>a.rs</ide_opened_file>\nfix it", "fix it"),
            ("[Request interrupted by user]", ""),
            ("a < b and <Vec<T>> stays", "a < b and <Vec<T>> stays"),
            ("<system-reminder>never closed", "<system-reminder>never closed"),
        ] {
            assert_eq!(strip_harness_text(text).trim(), said, "{text:?}");
        }
    }
}
