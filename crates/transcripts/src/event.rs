//! How an entry becomes an event of the journal: one entry, one event. It decides no ids and stores nothing.

use jiff::Timestamp;
use protocol::NewEvent;
use protocol::event::body::{ImportedBoundary, ImportedNote, ImportedSummary};
use protocol::event::metadata::{EventMetadata, EventSource};
use protocol::message::{AiMessage, Block, HumanMessage, Message, ToolMessage};

use crate::detect::Format;
use crate::entry::{Author, Body, Entry, Media, Track};

impl Entry {
    /// Returns the event that stores this entry of a file in `format`.
    ///
    /// `created_at` is the entry's own time, else `fallback`. Metadata is
    /// `{"source":{"format","native_id"},"side":true,"injected":true,"repaired":"json_blocks","original":"[…]"}`, all but
    /// the first only when they hold.
    ///
    /// # Errors
    /// When the content cannot be written as JSON, which no entry read from a file causes.
    pub fn into_event(self, format: Format, fallback: Timestamp) -> Result<NewEvent, serde_json::Error> {
        let at = self.at.unwrap_or(fallback);
        let metadata = EventMetadata {
            source: Some(EventSource { format: format.as_str().to_owned(), native_id: self.native_id }),
            side: self.track == Track::Side,
            injected: matches!(self.body, Body::Text { by: Author::Harness, .. }),
            repaired: self.repaired.as_ref().map(|repaired| repaired.how.as_str().to_owned()),
            original: self.repaired.and_then(|repaired| repaired.original),
            ..EventMetadata::default()
        };
        let event = match self.body {
            Body::Summary { text } => NewEvent::of(&ImportedSummary { text }, at),
            Body::Boundary { label, details } => NewEvent::of(&ImportedBoundary { label, details }, at),
            Body::Note { role, text } => {
                NewEvent::of(&ImportedNote { role: role.as_str().to_owned(), text }, at)
            }
            Body::Text { by, text, media } => NewEvent::message(&text_message(by, text, media), at),
            Body::Thinking { text } => {
                NewEvent::message(&ai(vec![Block::Thinking { text, provider: None, raw: None }]), at)
            }
            Body::ToolCall { call_id, tool, args } => {
                let id = call_id.unwrap_or_default();
                NewEvent::message(&ai(vec![Block::ToolCall { id, name: tool, args }]), at)
            }
            Body::ToolResult { call_id, tool, text, media, status } => NewEvent::message(
                &Message::Tool(ToolMessage {
                    id: None,
                    call_id: call_id.unwrap_or_default(),
                    name: tool,
                    content: blocks(text, media),
                    status,
                }),
                at,
            ),
        };
        event?.with_metadata(&metadata)
    }
}

fn text_message(by: Author, text: String, media: Vec<Media>) -> Message {
    match by {
        Author::Person | Author::Harness => {
            Message::Human(HumanMessage { id: None, content: blocks(text, media) })
        }
        Author::Assistant => ai(blocks(text, media)),
    }
}

fn ai(content: Vec<Block>) -> Message {
    Message::Ai(AiMessage { content, ..AiMessage::default() })
}

/// Returns the text block followed by the references to images.
fn blocks(text: String, media: Vec<Media>) -> Vec<Block> {
    let media = media.into_iter().map(|item| Block::Media {
        media_type: item.media_type,
        sha256: item.sha256,
        bytes: item.bytes,
    });
    std::iter::once(Block::Text { text }).chain(media).collect()
}
