//! How an entry becomes an event of the journal: one entry, one event. It decides no ids and stores nothing.

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
    /// `created_at` is the entry's own time, else `fallback`. Metadata is
    /// `{"source":{"format","native_id"},"side":true,"injected":true,"repaired":"json_blocks","original":"[…]"}`, all but
    /// the first only when they hold.
    ///
    /// # Errors
    /// When the content cannot be written as JSON, which no entry read from a file causes.
    pub fn into_event(
        self,
        format: SessionFormat,
        fallback: Timestamp,
    ) -> Result<NewEvent, serde_json::Error> {
        let at = self.created_at.unwrap_or(fallback);
        let metadata = EventMetadata {
            source: Some(EventSource { format: format.as_str().to_owned(), native_id: self.native_id }),
            side: self.track == EntryTrack::Side,
            injected: matches!(self.body, EntryBody::Text { author: Author::Harness, .. }),
            repaired: self.repair.as_ref().map(|repaired| repaired.kind.as_str().to_owned()),
            original: self.repair.and_then(|repaired| repaired.original),
            ..EventMetadata::default()
        };
        let event = match self.body {
            EntryBody::Summary { text } => NewEvent::from_body(&ImportedSummary { text }, at),
            EntryBody::Boundary { label, details } => {
                NewEvent::from_body(&ImportedBoundary { label, details }, at)
            }
            EntryBody::Note { role, text } => {
                NewEvent::from_body(&ImportedNote { role: role.as_str().to_owned(), text }, at)
            }
            EntryBody::Text { author: by, text, media } => {
                NewEvent::from_message(&text_message(by, text, media), at)
            }
            EntryBody::Thinking { text } => NewEvent::from_message(
                &ai_message(vec![ContentBlock::Thinking { text, provider: None, raw: None }]),
                at,
            ),
            EntryBody::ToolCall { call_id, tool, args } => {
                let id = call_id.unwrap_or_default();
                NewEvent::from_message(&ai_message(vec![ContentBlock::ToolCall { id, name: tool, args }]), at)
            }
            EntryBody::ToolResult { call_id, tool, text, media, status } => NewEvent::from_message(
                &Message::Tool(ToolMessage {
                    id: None,
                    call_id: call_id.unwrap_or_default(),
                    name: tool,
                    content: text_and_media_blocks(text, media),
                    status,
                }),
                at,
            ),
        };
        event?.with_metadata(&metadata)
    }
}

fn text_message(by: Author, text: String, media: Vec<MediaReference>) -> Message {
    match by {
        Author::Person | Author::Harness => {
            Message::Human(HumanMessage { id: None, content: text_and_media_blocks(text, media) })
        }
        Author::Assistant => ai_message(text_and_media_blocks(text, media)),
    }
}

fn ai_message(content: Vec<ContentBlock>) -> Message {
    Message::Ai(AiMessage { content, ..AiMessage::default() })
}

/// Returns the text block followed by the references to images.
fn text_and_media_blocks(text: String, media: Vec<MediaReference>) -> Vec<ContentBlock> {
    let media = media.into_iter().map(|item| ContentBlock::Media {
        media_type: item.media_type,
        sha256: item.sha256,
        bytes: item.bytes,
    });
    std::iter::once(ContentBlock::Text { text }).chain(media).collect()
}
