//! How an entry becomes an event of the journal: one entry, one event. It decides no ids and stores nothing.

use jiff::Timestamp;
use protocol::message::{AiMessage, Block, HumanMessage, Message, ToolMessage};
use protocol::{EventType, NewEvent};
use serde::Serialize;
use serde_json::Value;

use crate::detect::Format;
use crate::entry::{Author, Body, Entry, Media, Role, Track};

/// Where an imported event came from; the metadata of the event.
#[derive(Serialize)]
struct Provenance<'a> {
    source: Native<'a>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    side: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    injected: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    repaired: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    original: Option<&'a str>,
}

#[derive(Serialize)]
struct Native<'a> {
    format: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    native_id: Option<&'a str>,
}

#[derive(Serialize)]
struct SummaryContent {
    text: String,
}

#[derive(Serialize)]
struct BoundaryContent {
    label: String,
    details: Value,
}

#[derive(Serialize)]
struct NoteContent {
    role: Role,
    text: String,
}

impl Serialize for Role {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

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
        let provenance = Provenance {
            source: Native { format: format.as_str(), native_id: self.native_id.as_deref() },
            side: self.track == Track::Side,
            injected: matches!(self.body, Body::Text { by: Author::Harness, .. }),
            repaired: self.repaired.as_ref().map(|repaired| repaired.how.as_str()),
            original: self.repaired.as_ref().and_then(|repaired| repaired.original.as_deref()),
        };
        let event = match self.body {
            Body::Summary { text } => NewEvent::new(EventType::ImportedSummary, &SummaryContent { text }, at),
            Body::Boundary { label, details } => {
                NewEvent::new(EventType::ImportedBoundary, &BoundaryContent { label, details }, at)
            }
            Body::Note { role, text } => {
                NewEvent::new(EventType::ImportedNote, &NoteContent { role, text }, at)
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
        event?.with_metadata(&provenance)
    }
}

/// Returns the message for a text by `by`.
fn text_message(by: Author, text: String, media: Vec<Media>) -> Message {
    match by {
        Author::Person | Author::Harness => {
            Message::Human(HumanMessage { id: None, content: blocks(text, media) })
        }
        Author::Assistant => ai(blocks(text, media)),
    }
}

/// Returns an AI message with `content`.
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
