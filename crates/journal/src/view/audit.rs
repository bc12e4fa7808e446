//! Audit entries of the history: what happened to a thread besides its messages. Handoffs and their decisions, decisions
//! on tool calls, names, pins, rewinds and failed runs. Each is one sentence, with the content of its event.

use protocol::event::body::{
    DraftRequest, HandoffAccepted, HandoffDeclined, HandoffFailed, HandoffMerged, HandoffRefined,
    HandoffRequested, PinChange, PinsChanged, RunFailed, ThreadRenamed, ThreadRewound, ToolCallDecided,
    ToolCallDecision,
};
use protocol::{Event, EventType, SHORT_ID_CHARS};
use serde_json::{Map, Value};

/// The length to which a pinned text is shortened in a sentence, in characters.
const PIN_TEXT_CHARS: usize = 80;
/// The `by` of a decision that a person made.
const PERSON: &str = "person";

/// Something that happened to a thread besides its messages.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct AuditEntry {
    /// The type of the event.
    #[serde(rename = "type", serialize_with = "serialize_event_type")]
    pub event_type: EventType,
    /// One sentence that says what happened and what decided it.
    pub text: String,
    /// The content of the event.
    pub details: Map<String, Value>,
}

impl AuditEntry {
    /// Returns the entry of an event; `None` if the event has another type or cannot be parsed, or for a tool call that
    /// a rule allowed, because its call and its result are entries already.
    pub(crate) fn from_event(event: &Event) -> Option<Self> {
        let event_type = event.kind()?;
        let text = event_text(event, event_type)?;
        let details = serde_json::from_str(event.content.get()).ok()?;
        Some(Self { event_type, text, details })
    }
}

/// Serializes the stored name of an event type.
fn serialize_event_type<S: serde::Serializer>(
    event_type: &EventType,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(event_type.as_str())
}

/// Returns the sentence about an event.
fn event_text(event: &Event, event_type: EventType) -> Option<String> {
    let note = |text: &str| if text.trim().is_empty() { String::new() } else { format!(": {text}") };
    Some(match event_type {
        EventType::HandoffRequested => {
            let HandoffRequested { goal, initiated_by, .. } = event.body().ok()?;
            let by = if initiated_by == "agent" { "the agent" } else { "a person" };
            format!("Handoff requested by {by}{}", note(&goal.unwrap_or_default()))
        }
        EventType::HandoffRefined => {
            let HandoffRefined { request, .. } = event.body().ok()?;
            match request {
                DraftRequest::Feedback { feedback } => format!("Handoff draft refined{}", note(&feedback)),
                DraftRequest::NewerMessages { newer_messages } => {
                    let plural = if newer_messages == 1 { "" } else { "s" };
                    format!("Handoff drafted again with {newer_messages} newer message{plural}")
                }
                DraftRequest::Model { model } => {
                    let by = model.map(|model| match model.as_str() {
                        protocol::OFFLINE_SUMMARY_MODEL => " without a model".to_owned(),
                        model => format!(" by {model}"),
                    });
                    format!("Handoff drafted again{}", by.unwrap_or_default())
                }
            }
        }
        EventType::HandoffEdited => "Handoff summary edited by a person".to_owned(),
        EventType::HandoffAccepted => {
            let HandoffAccepted { child_thread_id, title, .. } = event.body().ok()?;
            let id = child_thread_id.to_string();
            let title = title.map(|title| format!(" “{title}”")).unwrap_or_default();
            format!("Handoff accepted: the work continues in thread {}{title}", &id[..SHORT_ID_CHARS])
        }
        EventType::HandoffMerged => {
            let HandoffMerged { parent_thread_id, title, .. } = event.body().ok()?;
            let id = parent_thread_id.to_string();
            format!("Handoff of thread {} merged into this thread: “{title}”", &id[..SHORT_ID_CHARS])
        }
        EventType::HandoffDeclined => {
            let HandoffDeclined { message, .. } = event.body().ok()?;
            format!("Handoff declined{}", note(&message.unwrap_or_default()))
        }
        EventType::HandoffPreviewed => "Handoff previewed: nothing was handed off".to_owned(),
        EventType::HandoffFailed => {
            let HandoffFailed { reason, .. } = event.body().ok()?;
            format!("Handoff failed{}", note(&reason))
        }
        EventType::HandoffExpired => "Handoff expired without a decision".to_owned(),
        EventType::ToolCallDecided => decision_text(&event.body().ok()?)?,
        EventType::ThreadRenamed => {
            let ThreadRenamed { name, previous } = event.body().ok()?;
            let from = previous.map(|previous| format!(" from “{previous}”")).unwrap_or_default();
            format!("Thread renamed{from} to “{name}”")
        }
        EventType::ThreadRewound => {
            let ThreadRewound { keep_seq, superseded, .. } = event.body().ok()?;
            let messages = if superseded == 1 { "message" } else { "messages" };
            format!("Thread rewound to #{keep_seq}: {superseded} {messages} hidden")
        }
        EventType::PinsChanged => pins_text(&event.body().ok()?)?,
        EventType::RunFailed => {
            let RunFailed { failure, .. } = event.body().ok()?;
            format!("Run failed{}", note(&failure.message))
        }
        _ => return None,
    })
}

/// Returns the sentence about a change of the pins; `None` for a change that only a later version knows.
fn pins_text(changed: &PinsChanged) -> Option<String> {
    let quote = |text: &str| {
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        match line.char_indices().nth(PIN_TEXT_CHARS) {
            Some((end, _)) => format!("“{}…”", &line[..end]),
            None => format!("“{line}”"),
        }
    };
    Some(match &changed.change {
        PinChange::Added { number } => {
            let pin = changed.pins.iter().find(|pin| pin.number == *number)?;
            let message = pin.message_seq.map(|seq| format!("message #{seq}, ")).unwrap_or_default();
            format!("Pin {number} added: {message}{}", quote(&pin.text))
        }
        PinChange::Removed { pin } => format!("Pin {} removed: {}", pin.number, quote(&pin.text)),
        PinChange::HandedOver { .. } => {
            let plural = if changed.pins.len() == 1 { "" } else { "s" };
            format!("The thread has {} pin{plural} after the handoff", changed.pins.len())
        }
        PinChange::Other => return None,
    })
}

/// Returns the sentence about a decision on a tool call; `None` if a rule allowed the call.
fn decision_text(decided: &ToolCallDecided) -> Option<String> {
    let ToolCallDecided { tool, decision, by, rule, .. } = decided;
    let author = match rule {
        Some(rule) => format!("{by} `{rule}`"),
        None if by == PERSON => "a person".to_owned(),
        None => by.clone(),
    };
    let verb = match decision {
        ToolCallDecision::Approve if by != PERSON => return None,
        ToolCallDecision::Approve => "approved",
        ToolCallDecision::Edit => "approved with changed arguments",
        ToolCallDecision::Deny | ToolCallDecision::Reject => "refused",
        ToolCallDecision::Respond => "answered",
        ToolCallDecision::Other(name) => name,
    };
    Some(format!("Call of `{tool}` {verb} by {author}"))
}
