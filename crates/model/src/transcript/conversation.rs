//! A conversation as it is sent: borrowed from the messages it was made of, so that texts are copied once, onto the
//! wire. Making it legal and checking it are done elsewhere.

use std::borrow::Cow;

use protocol::ToolStatus;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::media::encoded_len;

/// A conversation as it is sent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Conversation<'a> {
    /// Who speaks, and where in `pieces` what they say ends.
    entries: Vec<(Speaker<'a>, usize)>,
    pieces: Vec<Piece<'a>>,
}

/// One message of a conversation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Said<'c, 'a> {
    /// Who speaks.
    pub speaker: &'c Speaker<'a>,
    /// What they say, in order.
    pub pieces: &'c [Piece<'a>],
}

/// Who speaks.
#[derive(Debug, Clone, PartialEq)]
pub enum Speaker<'a> {
    /// A person.
    Human,
    /// The model.
    Model,
    /// A tool that the model called.
    Tool {
        /// The call's id, as it is sent.
        call_id: Cow<'a, str>,
        /// The tool's name, as it is sent.
        name: Cow<'a, str>,
        /// Whether it succeeded.
        status: ToolStatus,
    },
}

/// A piece of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece<'a> {
    /// Text.
    Text(Cow<'a, str>),
    /// An image or a document whose bytes are sent.
    Media(Media<'a>),
    /// A call of a tool.
    Call {
        /// The id, as it is sent.
        id: Cow<'a, str>,
        /// The tool's name, as it is sent.
        name: Cow<'a, str>,
        /// The arguments.
        args: Args<'a>,
    },
    /// Reasoning, as its provider gave it.
    Thinking(Own<'a>),
    /// A block that only its provider understands.
    Opaque(Own<'a>),
}

/// A block that is replayed unchanged to the provider it came from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Own<'a> {
    /// Whose block it is.
    pub provider: &'a str,
    /// The block.
    pub raw: &'a Value,
}

/// An image or a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Media<'a> {
    /// The media type.
    pub media_type: &'a str,
    /// Lowercase hex SHA-256 of the bytes.
    pub sha256: &'a str,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// The arguments of a call; they are sent as an object, whatever the model wrote.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Args<'a> {
    /// An object, sent as it is.
    Object(&'a Value),
    /// There were none.
    Empty,
    /// Something else, shown to the model inside an object so that it can see its mistake.
    Invalid(&'a Value),
}

/// Bytes that a message and each of its pieces take beside their text, about.
const PIECE_BYTES: usize = 48;

/// Bytes that are expected of a piece whose length would have to be counted.
const STRUCTURED_PIECE_BYTES: usize = 160;

/// The field under which arguments that are no object are shown.
const INVALID_ARGUMENTS: &str = "invalid_arguments";

impl Serialize for Args<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Object(args) => args.serialize(serializer),
            Self::Empty => serializer.collect_map(std::iter::empty::<(&str, &str)>()),
            Self::Invalid(args) => serializer.collect_map([(INVALID_ARGUMENTS, args)]),
        }
    }
}

impl<'a> Conversation<'a> {
    /// Returns an empty conversation with room for so many messages.
    pub(super) fn with_capacity(messages: usize) -> Self {
        Self { entries: Vec::with_capacity(messages), pieces: Vec::with_capacity(messages + messages / 2) }
    }

    /// Returns the messages in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Said<'_, 'a>> + DoubleEndedIterator {
        (0..self.entries.len()).map(|index| self.said(index))
    }

    /// Returns how many messages there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether nobody speaks.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns about how many bytes the messages take when they are written.
    pub(crate) fn bytes(&self) -> usize {
        let bytes_of = |piece: &Piece<'_>| match piece {
            Piece::Text(text) => text.len(),
            Piece::Media(media) => encoded_len(media.bytes.len()),
            Piece::Call { .. } | Piece::Thinking(_) | Piece::Opaque(_) => STRUCTURED_PIECE_BYTES,
        };
        let pieces: usize = self.pieces.iter().map(|piece| bytes_of(piece) + PIECE_BYTES).sum();
        pieces + self.entries.len() * PIECE_BYTES
    }

    /// Returns the message at `index`, which must be below [`Self::len`].
    pub(crate) fn said(&self, index: usize) -> Said<'_, 'a> {
        let begin = index.checked_sub(1).map_or(0, |before| self.entries[before].1);
        let (speaker, end) = &self.entries[index];
        Said { speaker, pieces: &self.pieces[begin..*end] }
    }

    pub(super) fn last_speaker(&self) -> Option<&Speaker<'a>> {
        self.entries.last().map(|(speaker, _)| speaker)
    }

    /// Returns the pieces that were added since the last message.
    pub(super) fn unsaid(&mut self) -> &mut [Piece<'a>] {
        let begin = self.said_until();
        &mut self.pieces[begin..]
    }

    /// Adds a piece to the message that is being put together.
    pub(super) fn add(&mut self, piece: Piece<'a>) {
        self.pieces.push(piece);
    }

    /// Takes the last piece of the message that is being put together away.
    pub(super) fn take_back(&mut self) {
        if self.pieces.len() > self.said_until() {
            self.pieces.pop();
        }
    }

    /// Takes all pieces of the message that is being put together away.
    pub(super) fn take_all_back(&mut self) {
        self.pieces.truncate(self.said_until());
    }

    /// Makes the added pieces a message.
    pub(super) fn say(&mut self, speaker: Speaker<'a>) {
        self.entries.push((speaker, self.pieces.len()));
    }

    /// Makes the added pieces the end of the last message.
    pub(super) fn say_on(&mut self) {
        let end = self.pieces.len();
        if let Some((_, last_end)) = self.entries.last_mut() {
            *last_end = end;
        }
    }

    /// Puts a person's words before everything else.
    pub(super) fn begin_with(&mut self, text: &'a str) {
        self.pieces.insert(0, Piece::Text(Cow::Borrowed(text)));
        for (_, end) in &mut self.entries {
            *end += 1;
        }
        self.entries.insert(0, (Speaker::Human, 1));
    }

    fn said_until(&self) -> usize {
        self.entries.last().map_or(0, |(_, end)| *end)
    }
}

#[cfg(test)]
impl<'a> Conversation<'a> {
    /// Returns a conversation that says exactly this, legal or not.
    pub(super) fn of(messages: Vec<(Speaker<'a>, Vec<Piece<'a>>)>) -> Self {
        let mut conversation = Self::default();
        for (speaker, pieces) in messages {
            conversation.pieces.extend(pieces);
            conversation.say(speaker);
        }
        conversation
    }
}
