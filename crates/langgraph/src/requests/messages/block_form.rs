//! How a client wrote a block of a message's content, as far as the block that is kept of it does not say: the other
//! fields, and where its text, its bytes or its arguments stood. These are kept once, in the block.

use agent::{CONTENT_FORMS, StateMessage, client_fields, client_fields_of_block};
use base64::Engine;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use protocol::ContentBlock;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A block as a client wrote it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct BlockForm {
    /// The block, with `null` where something was taken out.
    raw: Value,
    /// Where that was; nothing was taken out of a block that is whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    /// The call whose arguments stood there; otherwise what the next block holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    call_id: Option<String>,
    /// The text before the bytes, such as `data:image/png;base64,`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    head: String,
    /// How bytes were written.
    #[serde(default, skip_serializing_if = "Base64::is_usual")]
    base64: Base64,
}

/// How bytes are written as text.
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
    fn of(text: &str) -> Self {
        let is_url = text.bytes().any(|byte| matches!(byte, b'-' | b'_'));
        match (is_url, text.len().is_multiple_of(4)) {
            (false, true) => Self::Padded,
            (false, false) => Self::Bare,
            (true, true) => Self::UrlPadded,
            (true, false) => Self::UrlBare,
        }
    }

    fn is_usual(&self) -> bool {
        *self == Self::default()
    }

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
    /// Returns the form of a block that is kept with everything in it.
    pub(super) fn verbatim(block: &Value) -> Self {
        Self { raw: block.clone(), ..Self::default() }
    }

    /// Returns the form of a block whose text stood at `at`, a JSON pointer.
    pub(super) fn with_hole(block: &Value, at: &str) -> Self {
        let mut path = at.split('/').skip(1);
        Self { raw: cut_at_path(block, &mut path), at: Some(at.to_owned()), ..Self::default() }
    }

    /// Says that bytes stood there, written as `base64` behind `head`.
    pub(super) fn with_base64(self, head: &str, base64: &str) -> Self {
        Self { head: head.to_owned(), base64: Base64::of(base64.trim()), ..self }
    }

    /// Says that the arguments of a call stood there.
    pub(super) fn with_call(self, call_id: &str) -> Self {
        Self { call_id: Some(call_id.to_owned()), ..self }
    }

    fn fill(mut self, content: Value) -> Value {
        match self.at.as_deref().and_then(|at| self.raw.pointer_mut(at)) {
            Some(hole) => {
                *hole = content;
                self.raw
            }
            None => self.raw,
        }
    }

    fn fill_bytes(self, bytes: &[u8]) -> Value {
        let mut text = self.head.clone();
        self.base64.engine().encode_string(bytes, &mut text);
        self.fill(text.into())
    }
}

/// Returns the value with `null` at the end of the path.
fn cut_at_path<'a>(value: &Value, path: &mut impl Iterator<Item = &'a str>) -> Value {
    let (Some(key), Value::Object(fields)) = (path.next(), value) else { return Value::Null };
    let kept = fields.iter().map(|(name, value)| {
        let value = if name == key { cut_at_path(value, path) } else { value.clone() };
        (name.clone(), value)
    });
    Value::Object(kept.collect())
}

/// Returns the content of a client's message as the client sent it, if that was a list of blocks. `block` writes one that
/// has no form of its own, or whose bytes are not there.
pub(crate) fn client_content_blocks(
    state_message: &StateMessage,
    block: impl Fn(&ContentBlock) -> Option<Value>,
) -> Option<Vec<Value>> {
    let message = &state_message.message;
    let bytes = |sha256: &str| state_message.bytes_of(sha256);
    let forms = Vec::<Option<BlockForm>>::deserialize(client_fields(message)?.get(CONTENT_FORMS)?).ok()?;
    let mut blocks = message.content().iter().filter(|block| is_content_block(block));
    let written = forms.into_iter().filter_map(|form| match form {
        None => block(blocks.next()?),
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
                    None => block(media),
                },
                other => block(other),
            },
        },
    });
    Some(written.collect())
}

/// Returns whether the block is one of those that a message's content is made of.
fn is_content_block(block: &ContentBlock) -> bool {
    match block {
        ContentBlock::Text { .. } | ContentBlock::Media { .. } => true,
        ContentBlock::Opaque { .. } => client_fields_of_block(block).is_none(),
        ContentBlock::Thinking { .. } | ContentBlock::ToolCall { .. } => false,
    }
}
