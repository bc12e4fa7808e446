//! Views: what the events add up to. A view is computed, never stored, and two views cannot damage each other.

use protocol::{Block, Event, EventType, Message};
use serde_json::Value;

/// Returns what a model is sent of a thread: the conversation, without side branches and hidden notes.
///
/// An imported session whose own agent had compacted begins at its last boundary, with the summary that agent
/// wrote as a message of the conversation; everything before it stays in the journal. The result need not be
/// legal for a provider yet; the `model` room makes it so.
pub fn context(events: &[Event]) -> Vec<Message> {
    let start = events.iter().rposition(|event| event.kind() == Some(EventType::ImportedBoundary)).unwrap_or(0);
    events[start..].iter().filter(|event| !is_side(event)).filter_map(contextual).collect()
}

/// Returns whether the event happened beside the conversation, in a sub-agent.
pub fn is_side(event: &Event) -> bool {
    event.metadata.as_ref().is_some_and(|raw| {
        raw.get().contains("\"side\"") && event.metadata_value().get("side").and_then(Value::as_bool) == Some(true)
    })
}

fn contextual(event: &Event) -> Option<Message> {
    match event.kind()? {
        EventType::HumanMessage | EventType::AiMessage | EventType::ToolMessage => event.message(),
        EventType::ImportedSummary => {
            let content = event.content_value();
            let text = content.get("text").and_then(Value::as_str)?;
            Some(Message::Human(protocol::HumanMessage {
                id: None,
                content: vec![Block::text(format!(
                    "<earlier_conversation_summary>\n{}\n</earlier_conversation_summary>",
                    text.replace("</earlier_conversation_summary>", "")
                ))],
            }))
        }
        _ => None,
    }
}
