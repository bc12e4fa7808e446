//! Journal events as the summariser sees them: who said what, and whether anybody meant it. Nothing is judged here.

use std::borrow::Cow;

use jiff::Timestamp;
use protocol::event::body::ImportedSummary;
use protocol::event::metadata::EventMetadata;
use protocol::{Event, EventType, Message, Seq};

/// One event, read for summarising.
#[derive(Debug, Clone)]
pub struct Item {
    /// Its position in the thread.
    pub seq: Seq,
    /// When it happened.
    pub at: Timestamp,
    /// What it is.
    pub what: What,
    /// True for what happened inside a sub-agent.
    pub side: bool,
    /// True for text that reached the model in the person's name but that nobody typed.
    pub injected: bool,
    /// True for what another agent's session file had: its harness may have put text of its own into a person's message.
    pub imported: bool,
}

/// What an event is to a summary.
#[derive(Debug, Clone)]
pub enum What {
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
        proven: String,
    },
    /// A message that cannot be read.
    Unread,
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

impl Item {
    /// Returns the event as an item; a message that cannot be read becomes [`What::Unread`].
    pub fn from_event(event: &Event) -> Self {
        let EventMetadata { source, side, injected, .. } = event.parsed_metadata();
        let what = match event.kind() {
            Some(EventType::HumanMessage | EventType::AiMessage | EventType::ToolMessage) => {
                event.message().map_or(What::Unread, What::Message)
            }
            Some(EventType::ImportedNote) => What::Note,
            Some(EventType::ImportedBoundary) => What::Boundary,
            Some(EventType::ImportedSummary) => What::ImportedSummary(summary_text(event)),
            _ => What::Other,
        };
        let side = side || event.category == "subagent";
        Self { seq: event.seq, at: event.created_at, what, side, injected, imported: source.is_some() }
    }

    /// Returns what a person wrote, of an imported message without what a harness wrapped around it; `None` when nobody
    /// wrote anything.
    pub fn user_text(&self) -> Option<String> {
        match &self.what {
            What::Message(message @ Message::Human(_)) if !self.side && !self.injected => {
                let text = message.text();
                let text = if self.imported { without_harness(&text) } else { Cow::Borrowed(text.as_str()) };
                let text = text.trim();
                (!text.is_empty()).then(|| text.to_owned())
            }
            What::Message(_)
            | What::Note
            | What::Boundary
            | What::ImportedSummary(_)
            | What::InheritedSummary { .. }
            | What::Unread
            | What::Other => None,
        }
    }

    /// Returns whether this is a message of the main conversation that somebody meant.
    pub fn is_meant(&self) -> bool {
        !self.side && !self.injected && matches!(self.what, What::Message(_))
    }

    /// Returns whether this is a message, of whomever.
    pub fn is_message(&self) -> bool {
        matches!(self.what, What::Message(_) | What::Unread)
    }
}

fn summary_text(event: &Event) -> String {
    event.body().map(|ImportedSummary { text }| text).unwrap_or_default()
}

/// Removes the elements and lines that harnesses add to a person's text.
fn without_harness(text: &str) -> Cow<'_, str> {
    if !text.contains('<') && !HARNESS_LINES.iter().any(|line| text.contains(line)) {
        return Cow::Borrowed(text);
    }
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        kept.push_str(&rest[..start]);
        rest = &rest[start..];
        match harness_element(rest) {
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
fn harness_element(text: &str) -> Option<usize> {
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
            assert_eq!(without_harness(text).trim(), said, "{text:?}");
        }
    }
}
