//! A conversation in the form in which it is sent. It borrows from the original messages, so that texts are
//! copied only once, into the request body. Making it legal and checking it are done elsewhere.

use std::borrow::Cow;

use protocol::ToolStatus;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::media::encoded_len;

/// A conversation in the form in which it is sent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Conversation<'a> {
    /// The speaker of each message, and the end of its pieces in `pieces`.
    message_ends: Vec<(Speaker<'a>, usize)>,
    /// The pieces of all messages, in order. Pieces after the last end belong to the message under construction.
    pieces: Vec<MessagePiece<'a>>,
}

/// A message of a conversation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConversationMessage<'c, 'a> {
    /// The speaker of the message.
    pub speaker: &'c Speaker<'a>,
    /// The content of the message, in order.
    pub pieces: &'c [MessagePiece<'a>],
}

/// The speaker of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum Speaker<'a> {
    /// A person.
    Human,
    /// The model.
    Model,
    /// A tool that the model called.
    Tool {
        /// The id of the call, as it is sent.
        call_id: Cow<'a, str>,
        /// The name of the tool, as it is sent.
        name: Cow<'a, str>,
        /// Success or failure of the call.
        status: ToolStatus,
    },
}

/// One piece of a message's content.
#[derive(Debug, Clone, PartialEq)]
pub enum MessagePiece<'a> {
    /// A text.
    Text(Cow<'a, str>),
    /// An image or a document, with its bytes.
    Media(MediaBytes<'a>),
    /// A tool call.
    Call {
        /// The id of the call, as it is sent.
        id: Cow<'a, str>,
        /// The name of the tool, as it is sent.
        name: Cow<'a, str>,
        /// The arguments of the call.
        args: CallArguments<'a>,
    },
    /// Reasoning, in the form in which its provider sent it.
    Thinking(ProviderBlock<'a>),
    /// A block that only its provider can interpret.
    Opaque(ProviderBlock<'a>),
}

/// A block that is sent back unchanged to the provider it came from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProviderBlock<'a> {
    /// The name of the provider.
    pub provider: &'a str,
    /// The block in the provider's format.
    pub raw: &'a Value,
}

/// An image or a document, with its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediaBytes<'a> {
    /// The media type, for example `image/png`.
    pub media_type: &'a str,
    /// The lowercase hex SHA-256 of the bytes.
    pub sha256: &'a str,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// The arguments of a tool call. They are always sent as an object, because providers accept nothing else.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CallArguments<'a> {
    /// An object, sent unchanged.
    Object(&'a Value),
    /// No arguments; an empty object is sent.
    Empty,
    /// A value that is not an object. It is sent inside an object, so that the model can see its mistake.
    Invalid(&'a Value),
}

/// The estimated bytes of a message or a piece in addition to its text.
const PIECE_BYTES: usize = 48;

/// The estimated bytes of a piece whose exact length would be costly to compute.
const STRUCTURED_PIECE_BYTES: usize = 160;

/// The field that holds arguments which are not an object.
const INVALID_ARGUMENTS: &str = "invalid_arguments";

impl Serialize for CallArguments<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Object(args) => args.serialize(serializer),
            Self::Empty => serializer.collect_map(std::iter::empty::<(&str, &str)>()),
            Self::Invalid(args) => serializer.collect_map([(INVALID_ARGUMENTS, args)]),
        }
    }
}

impl<'a> Conversation<'a> {
    /// Returns an empty conversation with capacity for this many messages.
    pub(super) fn with_capacity(messages: usize) -> Self {
        Self {
            message_ends: Vec::with_capacity(messages),
            pieces: Vec::with_capacity(messages + messages / 2),
        }
    }

    /// Returns an iterator over the messages.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = ConversationMessage<'_, 'a>> + DoubleEndedIterator {
        (0..self.message_ends.len()).map(|index| self.message(index))
    }

    /// Returns the number of messages.
    pub fn len(&self) -> usize {
        self.message_ends.len()
    }

    /// Returns whether the conversation has no message.
    pub fn is_empty(&self) -> bool {
        self.message_ends.is_empty()
    }

    /// Returns the estimated size of the serialized messages in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let piece_bytes = |piece: &MessagePiece<'_>| match piece {
            MessagePiece::Text(text) => text.len(),
            MessagePiece::Media(media) => encoded_len(media.bytes.len()),
            MessagePiece::Call { .. } | MessagePiece::Thinking(_) | MessagePiece::Opaque(_) => {
                STRUCTURED_PIECE_BYTES
            }
        };
        let pieces: usize = self.pieces.iter().map(|piece| piece_bytes(piece) + PIECE_BYTES).sum();
        pieces + self.message_ends.len() * PIECE_BYTES
    }

    /// Returns the message at `index`.
    ///
    /// # Panics
    /// Panics when `index` is not below [`Self::len`].
    pub(crate) fn message(&self, index: usize) -> ConversationMessage<'_, 'a> {
        let start = index.checked_sub(1).map_or(0, |previous| self.message_ends[previous].1);
        let (speaker, end) = &self.message_ends[index];
        ConversationMessage { speaker, pieces: &self.pieces[start..*end] }
    }

    /// Returns the speaker of the last message.
    pub(super) fn last_speaker(&self) -> Option<&Speaker<'a>> {
        self.message_ends.last().map(|(speaker, _)| speaker)
    }

    /// Returns the pieces of the message under construction.
    pub(super) fn pending_pieces(&mut self) -> &mut [MessagePiece<'a>] {
        let start = self.pending_start();
        &mut self.pieces[start..]
    }

    /// Adds a piece to the message under construction.
    pub(super) fn push_piece(&mut self, piece: MessagePiece<'a>) {
        self.pieces.push(piece);
    }

    /// Removes the last piece of the message under construction.
    pub(super) fn pop_piece(&mut self) {
        if self.pieces.len() > self.pending_start() {
            self.pieces.pop();
        }
    }

    /// Removes all pieces of the message under construction.
    pub(super) fn discard_pending(&mut self) {
        self.pieces.truncate(self.pending_start());
    }

    /// Completes the message under construction.
    pub(super) fn finish_message(&mut self, speaker: Speaker<'a>) {
        self.message_ends.push((speaker, self.pieces.len()));
    }

    /// Appends the pieces of the message under construction to the last message.
    pub(super) fn extend_last_message(&mut self) {
        let end = self.pieces.len();
        if let Some((_, last_end)) = self.message_ends.last_mut() {
            *last_end = end;
        }
    }

    /// Inserts a message of a person before all others.
    pub(super) fn prepend_human(&mut self, text: &'a str) {
        self.pieces.insert(0, MessagePiece::Text(Cow::Borrowed(text)));
        for (_, end) in &mut self.message_ends {
            *end += 1;
        }
        self.message_ends.insert(0, (Speaker::Human, 1));
    }

    /// Returns the index of the first piece of the message under construction.
    fn pending_start(&self) -> usize {
        self.message_ends.last().map_or(0, |(_, end)| *end)
    }
}

#[cfg(test)]
impl<'a> Conversation<'a> {
    /// Returns a conversation with exactly these messages, legal or not.
    pub(super) fn from_messages(messages: Vec<(Speaker<'a>, Vec<MessagePiece<'a>>)>) -> Self {
        let mut conversation = Self::default();
        for (speaker, pieces) in messages {
            conversation.pieces.extend(pieces);
            conversation.finish_message(speaker);
        }
        conversation
    }
}
