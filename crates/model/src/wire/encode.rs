//! Serialization helpers that the formats share. Each body is serialized once, directly from the conversation
//! that it borrows from.

use std::borrow::Cow;

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use serde::{Serialize, Serializer};

use crate::transcript::{Conversation, ConversationMessage, MediaBytes, MessagePiece, Speaker};

/// Serializes a body as JSON, into a buffer with enough capacity for the whole body.
pub(super) fn serialize_body(
    body: &impl Serialize,
    conversation: &Conversation<'_>,
) -> serde_json::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(conversation.bytes() + OVERHEAD_BYTES);
    serde_json::to_writer(&mut bytes, body)?;
    Ok(bytes)
}

/// The estimated size in bytes of everything in a body except its messages.
const OVERHEAD_BYTES: usize = 16 << 10;

/// Bytes that are serialized as base64.
pub(super) struct Base64Bytes<'a>(pub(super) &'a [u8]);

impl Serialize for Base64Bytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&Base64Display::new(self.0, &STANDARD))
    }
}

/// Media that are serialized as a `data:` URL.
pub(super) struct DataUrl<'a>(pub(super) MediaBytes<'a>);

impl Serialize for DataUrl<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let MediaBytes { media_type, bytes, .. } = &self.0;
        let encoded = Base64Display::new(bytes, &STANDARD);
        serializer.collect_str(&format_args!("data:{media_type};base64,{encoded}"))
    }
}

/// A value that is serialized as JSON text inside a string.
pub(super) struct JsonText<T>(pub(super) T);

impl<T: Serialize> Serialize for JsonText<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = serde_json::to_string(&self.0).map_err(serde::ser::Error::custom)?;
        serializer.serialize_str(&text)
    }
}

/// Returns the file name for a document. Documents have none of their own, so it is made from their hash.
pub(super) fn file_name(media: &MediaBytes<'_>) -> String {
    format!("{}.pdf", media.sha256.get(..8).unwrap_or(media.sha256))
}

/// Returns the texts of a message, joined by newlines.
pub(super) fn joined_text<'c>(message: ConversationMessage<'c, '_>) -> Cow<'c, str> {
    let mut texts = message.pieces.iter().filter_map(|piece| match piece {
        MessagePiece::Text(text) => Some(text.as_ref()),
        MessagePiece::Media(_)
        | MessagePiece::Call { .. }
        | MessagePiece::Thinking(_)
        | MessagePiece::Opaque(_) => None,
    });
    let first = texts.next().unwrap_or_default();
    let mut joined = Cow::Borrowed(first);
    for text in texts {
        let joined = joined.to_mut();
        joined.push('\n');
        joined.push_str(text);
    }
    joined
}

/// Returns the media of a message.
pub(super) fn media_pieces<'c, 'a>(
    message: ConversationMessage<'c, 'a>,
) -> impl Iterator<Item = &'c MediaBytes<'a>> + Clone {
    message.pieces.iter().filter_map(|piece| match piece {
        MessagePiece::Media(media) => Some(media),
        MessagePiece::Text(_)
        | MessagePiece::Call { .. }
        | MessagePiece::Thinking(_)
        | MessagePiece::Opaque(_) => None,
    })
}

/// Returns the conversation grouped by side, for formats with two roles. Tool results belong to the user's side
/// and come before the person's message.
pub(super) fn group_by_side<'c, 'a>(
    messages: &'c [ConversationMessage<'c, 'a>],
) -> impl Iterator<Item = &'c [ConversationMessage<'c, 'a>]> + Clone {
    messages.chunk_by(|left, right| is_model(left) == is_model(right))
}

/// Returns whether the message is the model's.
pub(super) const fn is_model(message: &ConversationMessage<'_, '_>) -> bool {
    matches!(message.speaker, Speaker::Model)
}
