//! Views: what the events add up to. A view is computed, never stored, and two views cannot damage each other.

use jiff::Timestamp;
use protocol::{Event, EventType, Message, RunId, Seq, ThreadId};
use serde_json::Value;

/// Returns what a model is sent of a thread: the conversation, without side branches and hidden notes.
///
/// An imported session whose own agent had compacted begins at its last boundary, with the summary that agent
/// wrote as a message of the conversation; everything before it stays in the journal. The result need not be
/// legal for a provider yet; the `model` room makes it so.
pub fn context(events: &[Event]) -> Vec<Message> {
    let start = events.iter().rposition(begins_context).unwrap_or(0);
    events[start..].iter().filter(|event| !is_side(event)).filter_map(contextual).collect()
}

/// Returns whether nothing before this event belongs to the context: an imported session's own agent compacted here.
pub fn begins_context(event: &Event) -> bool {
    event.kind() == Some(EventType::ImportedBoundary) && !is_side(event)
}

/// Returns whether the event happened beside the conversation, in a sub-agent.
fn is_side(event: &Event) -> bool {
    event.metadata.as_ref().is_some_and(|raw| {
        raw.get().contains("\"side\"")
            && event.metadata_value().get("side").and_then(Value::as_bool) == Some(true)
    })
}

fn contextual(event: &Event) -> Option<Message> {
    match event.kind()? {
        EventType::HumanMessage | EventType::AiMessage | EventType::ToolMessage => event.message(),
        EventType::ImportedSummary => {
            let content = event.content_value();
            let text = content.get("text").and_then(Value::as_str)?;
            // Without a single `<` the text can neither close its element nor open another.
            let text = text.replace('<', "&lt;");
            Some(Message::human(format!(
                "<earlier_conversation_summary>\n{text}\n</earlier_conversation_summary>"
            )))
        }
        _ => None,
    }
}

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
}

/// What a history entry is.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[serde(untagged)]
pub enum HistoryItem {
    /// A message.
    Message(Message),
    /// A place where an imported session's own agent had compacted, and what it wrote there.
    Boundary(BoundaryEntry),
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

/// Returns what people are shown of these events: every message, complete and in order, whatever was compacted.
pub fn history(events: &[Event]) -> Vec<HistoryEntry> {
    events.iter().filter(|event| !is_side(event)).filter_map(historical).collect()
}

fn historical(event: &Event) -> Option<HistoryEntry> {
    let text =
        |key: &str| event.content_value().get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let what = match event.kind()? {
        EventType::HumanMessage | EventType::AiMessage | EventType::ToolMessage => {
            HistoryItem::Message(event.message()?)
        }
        EventType::ImportedBoundary => {
            HistoryItem::Boundary(BoundaryEntry { kind: "imported_boundary", text: text("label") })
        }
        EventType::ImportedSummary => {
            HistoryItem::Boundary(BoundaryEntry { kind: "imported_summary", text: text("text") })
        }
        _ => return None,
    };
    let own = match &what {
        HistoryItem::Message(Message::Human(message)) => message.id.clone(),
        HistoryItem::Message(Message::Ai(message)) => message.id.clone(),
        HistoryItem::Message(Message::Tool(message)) => message.id.clone(),
        HistoryItem::Boundary(_) => None,
    };
    Some(HistoryEntry {
        id: own.unwrap_or_else(|| message_id(event.thread_id, event.seq)),
        seq: event.seq,
        run_id: event.run_id,
        created_at: event.created_at,
        what,
    })
}

/// Returns the id of a message that has none of its own: a UUIDv5 of its place (contract §11).
pub fn message_id(thread_id: ThreadId, seq: Seq) -> String {
    uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_URL, format!("{thread_id}:{seq}").as_bytes()).to_string()
}

#[cfg(test)]
mod tests;
