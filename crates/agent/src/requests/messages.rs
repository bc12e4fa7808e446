//! The messages that are put into a thread with a run or a change, and the comparison of two messages. How a client writes
//! them is not known here.

use std::borrow::Cow;

use journal::Artifact;
use protocol::{Block, Message};
use serde_json::{Map, Value};

/// The provider of blocks that came from a client and that nobody else interprets. They come back as they were sent.
pub const CLIENT: &str = "client";

/// The type of the block that keeps what a client's message had beside its content.
const FIELDS: &str = "message_fields";

/// The field that keeps how the blocks of the content were written.
pub const CONTENT_FORMS: &str = "content";

/// One message of a client.
#[derive(Debug, Clone, PartialEq)]
pub struct InputMessage {
    /// The client's id, if it gave one; a message that is put has it too.
    pub id: Option<String>,
    /// What it does.
    pub change: Change,
    /// The bytes of images and files in it; its blocks name them.
    pub artifacts: Vec<Artifact>,
}

/// What a client's message does with the messages of a thread.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Takes the place of the one with its id, or comes last.
    Put(Message),
    /// Removes the one with its id.
    Remove,
    /// Removes all.
    RemoveAll,
}

/// Returns the block that keeps what a client's message had beside its content.
pub fn fields_block(mut fields: Map<String, Value>) -> Block {
    fields.insert("type".to_owned(), FIELDS.into());
    Block::Opaque { provider: CLIENT.to_owned(), raw: Value::Object(fields) }
}

/// Returns what a client's message had beside its content, with [`CONTENT_FORMS`].
pub fn client_fields(message: &Message) -> Option<&Map<String, Value>> {
    message.content().iter().rev().find_map(fields_of)
}

/// Returns the fields that the block keeps, if it is one that keeps a message's fields.
pub fn fields_of(block: &Block) -> Option<&Map<String, Value>> {
    match block {
        Block::Opaque { provider, raw: Value::Object(raw) }
            if provider == CLIENT && raw.get("type").and_then(Value::as_str) == Some(FIELDS) =>
        {
            Some(raw)
        }
        Block::Opaque { .. }
        | Block::Text { .. }
        | Block::Thinking { .. }
        | Block::ToolCall { .. }
        | Block::Media { .. } => None,
    }
}

/// Returns whether the messages say the same; how they were written counts only where both tell it.
pub(crate) fn say_the_same(one: &Message, other: &Message) -> bool {
    let is_kind = std::mem::discriminant(one) == std::mem::discriminant(other);
    let is_told =
        |message: &Message| client_fields(message).is_some_and(|fields| fields.contains_key(CONTENT_FORMS));
    is_kind
        && match is_told(one) && is_told(other) {
            true => one.content() == other.content(),
            false => said_alone(one).eq(said_alone(other)),
        }
}

/// Returns the content without how it was written.
fn said_alone(message: &Message) -> impl Iterator<Item = Cow<'_, Block>> {
    message.content().iter().filter_map(|block| match fields_of(block) {
        None => Some(Cow::Borrowed(block)),
        Some(fields) => {
            let mut fields = fields.clone();
            fields.shift_remove(CONTENT_FORMS);
            let is_kept = fields.keys().any(|key| key != "type");
            is_kept.then(|| Cow::Owned(fields_block(fields)))
        }
    })
}
