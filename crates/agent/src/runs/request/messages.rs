//! Messages that a run or a state change puts into a thread, and the comparison of two messages. The wire
//! formats of clients are parsed elsewhere.

use std::borrow::Cow;

use journal::Artifact;
use protocol::{ContentBlock, Message};
use serde_json::{Map, Value};

/// The provider name of content blocks that a client sent and that only clients interpret. They are returned
/// unchanged.
pub const CLIENT_PROVIDER: &str = "client";

/// The type of the block that holds the fields of a client's message other than its content.
const CLIENT_FIELDS_TYPE: &str = "message_fields";

/// The field of that block with the form in which the client wrote each content block.
pub const CONTENT_FORMS: &str = "content";

/// A message of a client, with its effect on the thread.
#[derive(Debug, Clone, PartialEq)]
pub struct InputMessage {
    /// The client's id of the message; `None` if it gave none. A message that is put into the thread keeps
    /// it.
    pub id: Option<String>,
    /// The effect of the message.
    pub change: MessageChange,
    /// The bytes of the images and files to which its blocks refer.
    pub artifacts: Vec<Artifact>,
}

/// The effect of a client's message on the messages of a thread.
#[derive(Debug, Clone, PartialEq)]
pub enum MessageChange {
    /// Replaces the message with the same id, or is appended.
    Put(Message),
    /// Removes the message with the same id.
    Remove,
    /// Removes all messages.
    RemoveAll,
}

/// Returns the block that holds the fields of a client's message other than its content.
pub fn client_fields_block(mut fields: Map<String, Value>) -> ContentBlock {
    fields.insert("type".to_owned(), CLIENT_FIELDS_TYPE.into());
    ContentBlock::Opaque { provider: CLIENT_PROVIDER.to_owned(), raw: Value::Object(fields) }
}

/// Returns the fields of a client's message other than its content, including [`CONTENT_FORMS`]; `None` if
/// the message has no such block.
pub fn client_fields(message: &Message) -> Option<&Map<String, Value>> {
    message.content().iter().rev().find_map(client_fields_of_block)
}

/// Returns the fields in the block; `None` if the block is of another kind.
pub fn client_fields_of_block(block: &ContentBlock) -> Option<&Map<String, Value>> {
    match block {
        ContentBlock::Opaque { provider, raw: Value::Object(raw) }
            if provider == CLIENT_PROVIDER
                && raw.get("type").and_then(Value::as_str) == Some(CLIENT_FIELDS_TYPE) =>
        {
            Some(raw)
        }
        ContentBlock::Opaque { .. }
        | ContentBlock::Text { .. }
        | ContentBlock::Thinking { .. }
        | ContentBlock::ToolCall { .. }
        | ContentBlock::Media { .. } => None,
    }
}

/// Returns whether two messages have the same role and content. The form in which a client wrote the content
/// counts only if both messages recorded it.
pub(crate) fn is_same_message(left: &Message, right: &Message) -> bool {
    let is_kind = std::mem::discriminant(left) == std::mem::discriminant(right);
    let has_forms =
        |message: &Message| client_fields(message).is_some_and(|fields| fields.contains_key(CONTENT_FORMS));
    is_kind
        && match has_forms(left) && has_forms(right) {
            true => left.content() == right.content(),
            false => plain_content(left).eq(plain_content(right)),
        }
}

/// Returns the content without the recorded form.
fn plain_content(message: &Message) -> impl Iterator<Item = Cow<'_, ContentBlock>> {
    message.content().iter().filter_map(|block| match client_fields_of_block(block) {
        None => Some(Cow::Borrowed(block)),
        Some(fields) => {
            let mut fields = fields.clone();
            fields.shift_remove(CONTENT_FORMS);
            let has_fields = fields.keys().any(|key| key != "type");
            has_fields.then(|| Cow::Owned(client_fields_block(fields)))
        }
    })
}
