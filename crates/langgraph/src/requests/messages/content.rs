//! Parses the content of a client's message: text, images and files, and blocks that Segue does not interpret.
//!
//! Inline bytes become artifacts to which the stored blocks refer by SHA-256. The form in which the client wrote a
//! block is stored in addition, unless it is the same as that of the stored block. Clients can therefore be shown
//! their own form.

use agent::{ARTIFACT_BYTES_MAX, Artifact, CLIENT_PROVIDER};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use protocol::ContentBlock;
use serde_json::{Map, Value};

use super::block_form::BlockForm;
use super::{MessageDestination, MessageError, message_error};

/// Maximum number of content blocks in one message.
const BLOCKS_MAX: usize = 1_000;

/// The parsed content of a message.
#[derive(Default)]
pub(super) struct ClientContent {
    /// The blocks to store, in the order of the client, without tool calls.
    pub(super) blocks: Vec<ContentBlock>,
    /// The tool calls in the content, as Anthropic's API has them. They are ignored if the message has `tool_calls`.
    pub(super) tool_calls: Vec<ContentBlock>,
    /// The bytes of the images and files.
    pub(super) artifacts: Vec<Artifact>,
    /// The form of each block of the client, in order; `None` for a block that is written like the stored one. Absent
    /// if the content was not a list.
    pub(super) forms: Option<Vec<Option<BlockForm>>>,
}

/// Bytes in a client's block.
struct InlineBytes<'a> {
    media_type: &'a str,
    base64: &'a str,
    /// The JSON pointer of the text that contains the bytes.
    pointer: &'static str,
    /// The text before the base64 data, such as `data:image/png;base64,`.
    prefix: &'a str,
}

impl ClientContent {
    /// Parses the content of a message. `message_path` is the path of the message, for errors.
    ///
    /// # Errors
    /// The first malformed block, or a list with more than [`BLOCKS_MAX`] blocks.
    pub(super) fn read(
        value: Option<&Value>,
        message_path: &str,
        to: Option<MessageDestination>,
    ) -> Result<Self, MessageError> {
        let mut content = Self::default();
        let path = format!("{message_path}.content");
        match value {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => content.push_text(text),
            Some(Value::Array(blocks)) if blocks.len() > BLOCKS_MAX => {
                let reason = format!("{} blocks exceed the maximum of {BLOCKS_MAX}", blocks.len());
                return Err(message_error(path, reason));
            }
            Some(Value::Array(blocks)) => {
                let read = |(index, block)| content.read_block(block, &format!("{path}[{index}]"), to);
                let forms = blocks.iter().enumerate().map(read).collect::<Result<_, _>>()?;
                content.forms = Some(forms);
            }
            Some(Value::Object(_) | Value::Bool(_) | Value::Number(_)) => {
                return Err(message_error(path, "expected a string or a list of blocks"));
            }
        }
        Ok(content)
    }

    /// Appends a text block, unless the text is empty.
    fn push_text(&mut self, text: &str) {
        if !text.is_empty() {
            self.blocks.push(ContentBlock::text(text));
        }
    }

    /// Parses a block and appends its parts. Returns the form of the block; `None` if it is that of the stored block.
    fn read_block(
        &mut self,
        value: &Value,
        path: &str,
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
            _ => return Err(message_error(path, "expected a string or an object")),
        };
        let Some(kind) = text_field(fields, "type") else {
            return Err(message_error(path, "`type` is required"));
        };
        if kind == "text" {
            let text = text_field(fields, "text")
                .ok_or_else(|| message_error(path, "`text` is required in a text block"))?;
            self.push_text(text);
            // A block with two fields has `type` and `text` alone, like the stored one.
            return Ok(match (text.is_empty(), fields.len()) {
                (true, _) => Some(BlockForm::verbatim(value)),
                (false, 2) => None,
                (false, _) => Some(BlockForm::with_hole(value, "/text")),
            });
        }
        if let Some((call_id, call)) = read_tool_call(kind, fields) {
            self.tool_calls.push(call);
            let args_key = ["args", "input"].into_iter().find(|key| fields.contains_key(*key));
            let form = args_key.map(|key| BlockForm::with_hole(value, &format!("/{key}")).with_call(call_id));
            return Ok(Some(form.unwrap_or_else(|| BlockForm::verbatim(value))));
        }
        let Some(inline) = find_inline_bytes(kind, fields) else {
            self.blocks
                .push(ContentBlock::Opaque { provider: CLIENT_PROVIDER.to_owned(), raw: value.clone() });
            return Ok(None);
        };
        let length =
            decoded_len(inline.base64).ok_or_else(|| message_error(path, "the data is not valid base64"))?;
        if length > ARTIFACT_BYTES_MAX {
            let reason = format!("{length} bytes exceed the maximum of {ARTIFACT_BYTES_MAX}");
            return Err(message_error(path, reason));
        }
        if let Some(MessageDestination { thread_id, received_at }) = to {
            let bytes =
                decode(inline.base64).ok_or_else(|| message_error(path, "the data is not valid base64"))?;
            let artifact = Artifact::new(thread_id, inline.media_type, bytes, received_at);
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

/// Returns the field if it is a string.
fn text_field<'a>(fields: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    fields.get(key).and_then(Value::as_str)
}

/// Returns the tool call in a block and its id; `None` if the block is of another type, or has no id or no name.
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

/// Returns the bytes in a block of type `kind`; `None` if it has none, for example because it refers to a URL.
///
/// Recognized are the shapes of OpenAI (`image_url`, `file.file_data`), Anthropic (`source`) and LangChain (`base64`,
/// `data`, `url`).
fn find_inline_bytes<'a>(kind: &str, fields: &'a Map<String, Value>) -> Option<InlineBytes<'a>> {
    let media_type = || {
        let declared =
            ["mime_type", "mimeType", "media_type"].into_iter().find_map(|key| text_field(fields, key));
        declared.unwrap_or_else(|| default_media_type(kind))
    };
    let bare = |pointer, base64, media_type| InlineBytes { media_type, base64, pointer, prefix: "" };
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

/// Returns the media type of a block that declares none.
fn default_media_type(kind: &str) -> &'static str {
    match kind {
        "image" => "image/png",
        "audio" => "audio/wav",
        "video" => "video/mp4",
        _ => "application/octet-stream",
    }
}

/// Returns the bytes in a URL such as `data:image/png;base64,…`; `None` for another URL. `pointer` is the JSON
/// pointer of the URL. Parameters of the media type are dropped.
fn parse_data_url<'a>(pointer: &'static str, url: &'a str) -> Option<InlineBytes<'a>> {
    let (prefix, base64) = url.split_at(url.find(',')? + 1);
    let media_type = prefix.strip_prefix("data:")?.strip_suffix(";base64,")?;
    let media_type = media_type.split(';').next().filter(|media_type| !media_type.is_empty());
    Some(InlineBytes {
        media_type: media_type.unwrap_or("application/octet-stream"),
        base64,
        pointer,
        prefix,
    })
}

/// Returns the base64 data without surrounding whitespace and padding.
fn strip_padding(base64: &str) -> &str {
    base64.trim().trim_end_matches('=')
}

/// Returns the number of bytes that the base64 data encodes; `None` if it is invalid. Only the last group of
/// characters is decoded, so that data over the limit is refused without a copy of it.
fn decoded_len(base64: &str) -> Option<usize> {
    let base64 = strip_padding(base64);
    let is_alphabet =
        |symbols: [u8; 2]| base64.bytes().all(|byte| byte.is_ascii_alphanumeric() || symbols.contains(&byte));
    if !is_alphabet(*b"+/") && !is_alphabet(*b"-_") {
        return None;
    }
    // The last group may be incomplete. Decoding it checks that its unused bits are zero (RFC 4648, section 3.5).
    let complete = base64.len() / 4 * 4;
    let last_group = decode(&base64[complete..])?;
    Some(complete / 4 * 3 + last_group.len())
}

/// Decodes base64 data in the standard or the URL-safe alphabet, with or without padding.
fn decode(base64: &str) -> Option<Vec<u8>> {
    let base64 = strip_padding(base64);
    STANDARD_NO_PAD.decode(base64).or_else(|_| URL_SAFE_NO_PAD.decode(base64)).ok()
}
