//! The content of a client's message: texts, images and files, and blocks that nobody here interprets. Bytes become
//! artifacts that the blocks name. How a block was written is noted where ours does not tell it.

use agent::{ARTIFACT_BYTES_MAX, Artifact, CLIENT_PROVIDER};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use protocol::ContentBlock;
use serde_json::{Map, Value};

use super::block_form::BlockForm;
use super::{MessageDestination, MessageError, message_error};

/// The most blocks of one message.
const BLOCKS_MAX: usize = 1_000;

/// The content of a message.
#[derive(Default)]
pub(super) struct ClientContent {
    pub(super) blocks: Vec<ContentBlock>,
    /// Calls that a provider's client left among the content.
    pub(super) tool_calls: Vec<ContentBlock>,
    pub(super) artifacts: Vec<Artifact>,
    /// How each block was written, of a content that was a list; `None` is a block that is written as ours are.
    pub(super) forms: Option<Vec<Option<BlockForm>>>,
}

/// Bytes in a block, and what they are.
struct InlineBytes<'a> {
    media_type: &'a str,
    base64: &'a str,
    /// Where they stand.
    pointer: &'static str,
    /// The text before the bytes.
    prefix: &'a str,
}

impl ClientContent {
    /// Reads the content of the message at `at`.
    pub(super) fn read(
        value: Option<&Value>,
        at: &str,
        to: Option<MessageDestination>,
    ) -> Result<Self, MessageError> {
        let mut content = Self::default();
        let at = format!("{at}.content");
        match value {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => content.push_text(text),
            Some(Value::Array(blocks)) if blocks.len() > BLOCKS_MAX => {
                return Err(message_error(at, format!("{} blocks, the most is {BLOCKS_MAX}", blocks.len())));
            }
            Some(Value::Array(blocks)) => {
                let read = |(index, block)| content.read_block(block, &format!("{at}[{index}]"), to);
                let forms = blocks.iter().enumerate().map(read).collect::<Result<_, _>>()?;
                content.forms = Some(forms);
            }
            Some(Value::Object(_) | Value::Bool(_) | Value::Number(_)) => {
                return Err(message_error(at, "expected a text or a list of blocks"));
            }
        }
        Ok(content)
    }

    fn push_text(&mut self, text: &str) {
        if !text.is_empty() {
            self.blocks.push(ContentBlock::text(text));
        }
    }

    /// Reads a block; returns how it was written.
    fn read_block(
        &mut self,
        value: &Value,
        at: &str,
        to: Option<MessageDestination>,
    ) -> Result<Option<BlockForm>, MessageError> {
        let fields = match value {
            Value::String(text) => {
                self.push_text(text);
                let form = if text.is_empty() {
                    BlockForm::verbatim(value)
                } else {
                    BlockForm::with_hole(value, "")
                };
                return Ok(Some(form));
            }
            Value::Object(fields) => fields,
            _ => return Err(message_error(at, "expected a text or an object")),
        };
        let Some(kind) = text_field(fields, "type") else {
            return Err(message_error(at, "a block has a `type`"));
        };
        if kind == "text" {
            let text = text_field(fields, "text")
                .ok_or_else(|| message_error(at, "a block of text has a `text`"))?;
            self.push_text(text);
            return Ok(match (text.is_empty(), fields.len()) {
                (true, _) => Some(BlockForm::verbatim(value)),
                (false, 2) => None,
                (false, _) => Some(BlockForm::with_hole(value, "/text")),
            });
        }
        if let Some((call_id, call)) = read_tool_call(kind, fields) {
            self.tool_calls.push(call);
            let at = ["args", "input"].into_iter().find(|key| fields.contains_key(*key));
            let form = at.map(|at| BlockForm::with_hole(value, &format!("/{at}")).with_call(call_id));
            return Ok(Some(form.unwrap_or_else(|| BlockForm::verbatim(value))));
        }
        let Some(inline) = find_inline_bytes(kind, fields) else {
            self.blocks
                .push(ContentBlock::Opaque { provider: CLIENT_PROVIDER.to_owned(), raw: value.clone() });
            return Ok(None);
        };
        let length =
            decoded_len(inline.base64).ok_or_else(|| message_error(at, "its bytes are not base64"))?;
        if length > ARTIFACT_BYTES_MAX {
            let most = ARTIFACT_BYTES_MAX;
            return Err(message_error(at, format!("{length} bytes, the most is {most}")));
        }
        if let Some(MessageDestination { thread_id, received_at: now }) = to {
            let bytes = decode(inline.base64).ok_or_else(|| message_error(at, "its bytes are not base64"))?;
            let artifact = Artifact::new(thread_id, inline.media_type, bytes, now);
            self.blocks.push(ContentBlock::Media {
                media_type: artifact.media_type.clone(),
                sha256: Some(artifact.sha256.clone()),
                bytes: Some(artifact.bytes.len() as u64),
            });
            self.artifacts.push(artifact);
        }
        Ok(Some(BlockForm::with_hole(value, inline.pointer).with_base64(inline.prefix, inline.base64)))
    }
}

fn text_field<'a>(fields: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    fields.get(key).and_then(Value::as_str)
}

/// Returns the call that a block is, if it is one, and its id.
fn read_tool_call<'a>(kind: &str, fields: &'a Map<String, Value>) -> Option<(&'a str, ContentBlock)> {
    if !matches!(kind, "tool_use" | "tool_call") {
        return None;
    }
    let args = fields.get("args").or_else(|| fields.get("input"));
    let args = args.cloned().unwrap_or_else(|| Value::Object(Map::new()));
    let id = text_field(fields, "id")?;
    Some((
        id,
        ContentBlock::ToolCall { id: id.to_owned(), name: text_field(fields, "name")?.to_owned(), args },
    ))
}

/// Returns the bytes that a block of some provider's shape holds; `None` when it only refers to some.
fn find_inline_bytes<'a>(kind: &str, fields: &'a Map<String, Value>) -> Option<InlineBytes<'a>> {
    let media_type = || {
        let named =
            ["mime_type", "mimeType", "media_type"].into_iter().find_map(|key| text_field(fields, key));
        named.unwrap_or_else(|| default_media_type(kind))
    };
    let bare = |at, base64, media_type| InlineBytes { media_type, base64, pointer: at, prefix: "" };
    match kind {
        "image_url" => {
            let url = fields.get("image_url")?;
            match url.as_str() {
                Some(url) => parse_data_url("/image_url", url),
                None => parse_data_url("/image_url/url", url.get("url")?.as_str()?),
            }
        }
        "image" | "audio" | "video" | "file" | "document" => {
            if let Some(base64) = text_field(fields, "base64") {
                return Some(bare("/base64", base64, media_type()));
            }
            if let Some(base64) = text_field(fields, "data") {
                let is_text = text_field(fields, "source_type") == Some("text");
                let inline =
                    || parse_data_url("/data", base64).unwrap_or_else(|| bare("/data", base64, media_type()));
                return (!is_text).then(inline);
            }
            if let Some(source) = fields.get("source").and_then(Value::as_object) {
                let base64 =
                    text_field(source, "data").filter(|_| text_field(source, "type") == Some("base64"))?;
                let media_type = text_field(source, "media_type").unwrap_or_else(media_type);
                return Some(bare("/source/data", base64, media_type));
            }
            let file = fields.get("file").and_then(Value::as_object);
            match file.and_then(|file| text_field(file, "file_data")) {
                Some(url) => parse_data_url("/file/file_data", url),
                None => parse_data_url("/url", text_field(fields, "url")?),
            }
        }
        _ => None,
    }
}

fn default_media_type(kind: &str) -> &'static str {
    match kind {
        "image" => "image/png",
        "audio" => "audio/wav",
        "video" => "video/mp4",
        _ => "application/octet-stream",
    }
}

/// Returns what `data:image/png;base64,…` holds, which stands at `at`.
fn parse_data_url<'a>(at: &'static str, url: &'a str) -> Option<InlineBytes<'a>> {
    let (head, base64) = url.split_at(url.find(',')? + 1);
    let media_type = head.strip_prefix("data:")?.strip_suffix(";base64,")?;
    let media_type = media_type.split(';').next().filter(|named| !named.is_empty());
    Some(InlineBytes {
        media_type: media_type.unwrap_or("application/octet-stream"),
        base64,
        pointer: at,
        prefix: head,
    })
}

fn strip_padding(base64: &str) -> &str {
    base64.trim().trim_end_matches('=')
}

/// Returns how many bytes are written there, if it is base64; they are not decoded for that.
fn decoded_len(base64: &str) -> Option<usize> {
    let base64 = strip_padding(base64);
    let is_of =
        |more: [u8; 2]| base64.bytes().all(|byte| byte.is_ascii_alphanumeric() || more.contains(&byte));
    if !is_of(*b"+/") && !is_of(*b"-_") {
        return None;
    }
    // The bits that the last letters have too many must not be set.
    let whole = base64.len() / 4 * 4;
    let rest = decode(&base64[whole..])?;
    Some(whole / 4 * 3 + rest.len())
}

fn decode(base64: &str) -> Option<Vec<u8>> {
    let base64 = strip_padding(base64);
    STANDARD_NO_PAD.decode(base64).or_else(|_| URL_SAFE_NO_PAD.decode(base64)).ok()
}
