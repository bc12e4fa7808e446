//! The form in which a client wrote a content block, so that the block can be returned exactly as it was sent.
//!
//! A form is the client's block with a hole in place of its text, its bytes or its arguments. Those are stored only
//! once, in the message's own block; [`client_content_blocks`] fills them back in.

use agent::{CONTENT_FORMS, StateMessage, client_fields, client_fields_of_block};
use base64::Engine;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use protocol::ContentBlock;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The form of one block. It is stored with the message, so its serialized names must not change.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct BlockForm {
    /// The client's block, with `null` in the hole.
    raw: Value,
    /// The JSON pointer of the hole; `""` is the block itself, and `None` a block without a hole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    /// The id of the tool call whose arguments belong in the hole; `None` for the text or bytes of the next stored
    /// block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    call_id: Option<String>,
    /// The text before the base64 data, such as `data:image/png;base64,`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    head: String,
    /// The variant of base64 in which the bytes were written.
    #[serde(default, skip_serializing_if = "Base64::is_usual")]
    base64: Base64,
}

/// A variant of base64: the alphabet, and whether the data is padded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Base64 {
    #[default]
    Padded,
    Bare,
    UrlPadded,
    UrlBare,
}

impl Base64 {
    /// Returns the variant of the data. Data that fits several variants gets the default one.
    fn of(text: &str) -> Self {
        let is_url = text.bytes().any(|byte| matches!(byte, b'-' | b'_'));
        match (is_url, text.len().is_multiple_of(4)) {
            (false, true) => Self::Padded,
            (false, false) => Self::Bare,
            (true, true) => Self::UrlPadded,
            (true, false) => Self::UrlBare,
        }
    }

    /// Returns whether this is the default variant, which is not serialized.
    fn is_usual(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the encoder of the variant.
    const fn engine(self) -> &'static GeneralPurpose {
        match self {
            Self::Padded => &STANDARD,
            Self::Bare => &STANDARD_NO_PAD,
            Self::UrlPadded => &URL_SAFE,
            Self::UrlBare => &URL_SAFE_NO_PAD,
        }
    }
}

impl BlockForm {
    /// Returns the form of a block without a hole: all of it is stored in the form.
    pub(super) fn verbatim(block: &Value) -> Self {
        Self { raw: block.clone(), ..Self::default() }
    }

    /// Returns the form of a block with a hole at `pointer`, a JSON pointer.
    pub(super) fn with_hole(block: &Value, pointer: &str) -> Self {
        let mut path = pointer.split('/').skip(1);
        Self { raw: cut_at_path(block, &mut path), at: Some(pointer.to_owned()), ..Self::default() }
    }

    /// Returns the form for a hole that contained bytes: `prefix`, followed by `base64`.
    pub(super) fn with_base64(self, prefix: &str, base64: &str) -> Self {
        Self { head: prefix.to_owned(), base64: Base64::of(base64.trim()), ..self }
    }

    /// Returns the form for a hole that contained the arguments of a tool call.
    pub(super) fn with_call(self, call_id: &str) -> Self {
        Self { call_id: Some(call_id.to_owned()), ..self }
    }

    /// Returns the client's block with `content` in the hole.
    fn fill(mut self, content: Value) -> Value {
        match self.at.as_deref().and_then(|pointer| self.raw.pointer_mut(pointer)) {
            Some(hole) => {
                *hole = content;
                self.raw
            }
            None => self.raw,
        }
    }

    /// Returns the client's block with the bytes in the hole, encoded as the client had encoded them.
    fn fill_bytes(self, bytes: &[u8]) -> Value {
        let mut text = self.head.clone();
        self.base64.engine().encode_string(bytes, &mut text);
        self.fill(text.into())
    }
}

/// Returns a copy of the value with `null` at the end of the path. The removed part is not copied, because it may be
/// large.
fn cut_at_path<'a>(value: &Value, path: &mut impl Iterator<Item = &'a str>) -> Value {
    let (Some(key), Value::Object(fields)) = (path.next(), value) else { return Value::Null };
    let fields = fields.iter().map(|(name, value)| {
        let value = if name == key { cut_at_path(value, path) } else { value.clone() };
        (name.clone(), value)
    });
    Value::Object(fields.collect())
}

/// Returns the content of a client's message as the client sent it; `None` if it was not a list of blocks.
///
/// `render_block` renders a stored block that has no form, or whose bytes are not loaded. The blocks of the message
/// must be in the order in which the forms were stored, because each form takes the next stored block.
pub(crate) fn client_content_blocks(
    state_message: &StateMessage,
    render_block: impl Fn(&ContentBlock) -> Option<Value>,
) -> Option<Vec<Value>> {
    let message = &state_message.message;
    let bytes = |sha256: &str| state_message.bytes_of(sha256);
    let forms = Vec::<Option<BlockForm>>::deserialize(client_fields(message)?.get(CONTENT_FORMS)?).ok()?;
    let mut blocks = message.content().iter().filter(|block| is_content_block(block));
    let rendered = forms.into_iter().filter_map(|form| match form {
        None => render_block(blocks.next()?),
        Some(form) if form.at.is_none() => Some(form.raw),
        Some(form) => match &form.call_id {
            Some(call_id) => {
                let (.., args) = message.tool_calls().find(|(id, ..)| id == call_id)?;
                Some(form.fill(args.clone()))
            }
            None => match blocks.next()? {
                ContentBlock::Text { text } => Some(form.fill(text.as_str().into())),
                media @ ContentBlock::Media { sha256, .. } => match sha256.as_deref().and_then(&bytes) {
                    Some(bytes) => Some(form.fill_bytes(&bytes)),
                    None => render_block(media),
                },
                other => render_block(other),
            },
        },
    });
    Some(rendered.collect())
}

/// Returns whether the block belongs to the content on the wire. Tool calls, reasoning and the block with the
/// client's other fields have fields of their own there.
fn is_content_block(block: &ContentBlock) -> bool {
    match block {
        ContentBlock::Text { .. } | ContentBlock::Media { .. } => true,
        ContentBlock::Opaque { .. } => client_fields_of_block(block).is_none(),
        ContentBlock::Thinking { .. } | ContentBlock::ToolCall { .. } => false,
    }
}
