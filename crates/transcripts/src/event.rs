//! Conversion of an entry to an event of the journal: one event for each entry. It assigns no ids and stores nothing.

use jiff::Timestamp;
use protocol::NewEvent;
use protocol::event::body::{ImportedBoundary, ImportedNote, ImportedSummary};
use protocol::event::metadata::{EventMetadata, EventSource};
use protocol::message::{AiMessage, ContentBlock, HumanMessage, Message, ToolMessage};

use crate::detect::SessionFormat;
use crate::entry::{Author, EntryBody, EntryTrack, MediaReference, TranscriptEntry};

impl TranscriptEntry {
    /// Returns the event that stores this entry of a file in `format`.
    ///
    /// The time of the event is the entry's own time, else `fallback`. The metadata of the event is
    /// `{"source":{"format","native_id"},"side":true,"injected":true,"repaired":"json_blocks","original":"[…]"}`. Only
    /// `source` is always present; `side` marks a sub-agent, `injected` marks text of the harness, and the last two
    /// describe a repair.
    ///
    /// # Errors
    /// If the content cannot be serialized as JSON. Entries that were read from a file never cause this.
    pub fn into_event(
        self,
        format: SessionFormat,
        fallback: Timestamp,
    ) -> Result<NewEvent, serde_json::Error> {
        let created_at = self.created_at.unwrap_or(fallback);
        let metadata = EventMetadata {
            source: Some(EventSource { format: format.as_str().to_owned(), native_id: self.native_id }),
            side: self.track == EntryTrack::Side,
            injected: matches!(self.body, EntryBody::Text { author: Author::Harness, .. }),
            repaired: self.repair.as_ref().map(|repair| repair.kind.as_str().to_owned()),
            original: self.repair.and_then(|repair| repair.original),
            ..EventMetadata::default()
        };
        let event = match self.body {
            EntryBody::Summary { text } => NewEvent::from_body(&ImportedSummary { text }, created_at),
            EntryBody::Boundary { label, details } => {
                NewEvent::from_body(&ImportedBoundary { label, details }, created_at)
            }
            EntryBody::Note { role, text } => {
                NewEvent::from_body(&ImportedNote { role: role.as_str().to_owned(), text }, created_at)
            }
            EntryBody::Text { author, text, media } => {
                NewEvent::from_message(&text_message(author, text, media), created_at)
            }
            EntryBody::Thinking { text } => NewEvent::from_message(
                &ai_message(vec![ContentBlock::Thinking { text, provider: None, raw: None }]),
                created_at,
            ),
            EntryBody::ToolCall { call_id, tool, args } => {
                let id = call_id.unwrap_or_default();
                NewEvent::from_message(
                    &ai_message(vec![ContentBlock::ToolCall { id, name: tool, args }]),
                    created_at,
                )
            }
            EntryBody::ToolResult { call_id, tool, text, media, status } => NewEvent::from_message(
                &Message::Tool(ToolMessage {
                    id: None,
                    call_id: call_id.unwrap_or_default(),
                    name: tool,
                    content: text_and_media_blocks(text, media),
                    status,
                }),
                created_at,
            ),
        };
        event?.with_metadata(&metadata)
    }
}

/// Returns the message for a text. Text that the harness injected is a human message too, because it has that role in
/// the file; the event's metadata marks it.
fn text_message(author: Author, text: String, media: Vec<MediaReference>) -> Message {
    match author {
        Author::Person | Author::Harness => {
            Message::Human(HumanMessage { id: None, content: text_and_media_blocks(text, media) })
        }
        Author::Assistant => ai_message(text_and_media_blocks(text, media)),
    }
}

/// Returns a message of the assistant without id, usage and model.
fn ai_message(content: Vec<ContentBlock>) -> Message {
    Message::Ai(AiMessage { content, ..AiMessage::default() })
}

/// Returns a text block followed by one block for each image reference.
fn text_and_media_blocks(text: String, media: Vec<MediaReference>) -> Vec<ContentBlock> {
    let media = media.into_iter().map(|item| ContentBlock::Media {
        media_type: item.media_type,
        sha256: item.sha256,
        bytes: item.bytes,
    });
    std::iter::once(ContentBlock::Text { text }).chain(media).collect()
}
