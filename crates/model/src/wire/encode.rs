//! What the formats share in writing a body: it is written once, straight from the conversation it was borrowed from.

use std::borrow::Cow;

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use serde::{Serialize, Serializer};

use crate::transcript::{Conversation, Media, Piece, Said, Speaker};

/// Returns a body as JSON, in room for the whole of it.
pub(super) fn written(body: &impl Serialize, conversation: &Conversation<'_>) -> serde_json::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(conversation.bytes() + FRAME_BYTES);
    serde_json::to_writer(&mut bytes, body)?;
    Ok(bytes)
}

/// Bytes of all but the messages of a body that are expected.
const FRAME_BYTES: usize = 16 << 10;

/// Bytes as base64.
pub(super) struct Base64<'a>(pub(super) &'a [u8]);

impl Serialize for Base64<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&Base64Display::new(self.0, &STANDARD))
    }
}

pub(super) struct DataUrl<'a>(pub(super) Media<'a>);

impl Serialize for DataUrl<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Media { media_type, bytes, .. } = &self.0;
        let encoded = Base64Display::new(bytes, &STANDARD);
        serializer.collect_str(&format_args!("data:{media_type};base64,{encoded}"))
    }
}

/// A value that is written as JSON text inside a string.
pub(super) struct JsonText<T>(pub(super) T);

impl<T: Serialize> Serialize for JsonText<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = serde_json::to_string(&self.0).map_err(serde::ser::Error::custom)?;
        serializer.serialize_str(&text)
    }
}

/// Returns the name under which a document is sent; it has none of its own.
pub(super) fn file_name(media: &Media<'_>) -> String {
    format!("{}.pdf", media.sha256.get(..8).unwrap_or(media.sha256))
}

/// Returns a message's texts, joined by newlines.
pub(super) fn joined_text<'c>(said: Said<'c, '_>) -> Cow<'c, str> {
    let mut texts = said.pieces.iter().filter_map(|piece| match piece {
        Piece::Text(text) => Some(text.as_ref()),
        Piece::Media(_) | Piece::Call { .. } | Piece::Thinking(_) | Piece::Opaque(_) => None,
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

/// Returns a message's media.
pub(super) fn media_of<'c, 'a>(said: Said<'c, 'a>) -> impl Iterator<Item = &'c Media<'a>> + Clone {
    said.pieces.iter().filter_map(|piece| match piece {
        Piece::Media(media) => Some(media),
        Piece::Text(_) | Piece::Call { .. } | Piece::Thinking(_) | Piece::Opaque(_) => None,
    })
}

/// Returns the conversation as the turns of the two sides that some formats know: tools speak on the user's side, before
/// the person does.
pub(super) fn sides<'c, 'a>(
    messages: &'c [Said<'c, 'a>],
) -> impl Iterator<Item = &'c [Said<'c, 'a>]> + Clone {
    messages.chunk_by(|before, after| is_model(before) == is_model(after))
}

/// Returns whether the model speaks.
pub(super) const fn is_model(said: &Said<'_, '_>) -> bool {
    matches!(said.speaker, Speaker::Model)
}
