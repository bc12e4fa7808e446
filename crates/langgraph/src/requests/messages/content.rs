//! The content of a client's message: texts, images and files, and blocks that nobody here interprets. Bytes become
//! artifacts that the blocks name. How a block was written is noted where ours does not tell it.

use agent::{ARTIFACT_BYTES_MAX, Artifact, CLIENT};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use protocol::Block;
use serde_json::{Map, Value};

use super::form::Form;
use super::{Destination, MessageFault, fault};

/// The most blocks of one message.
const BLOCKS_MAX: usize = 1_000;

/// What a message says.
#[derive(Default)]
pub(super) struct Content {
    pub(super) blocks: Vec<Block>,
    /// Calls that a provider's client left among the content.
    pub(super) calls: Vec<Block>,
    pub(super) artifacts: Vec<Artifact>,
    /// How each block was written, of a content that was a list; `None` is a block that is written as ours are.
    pub(super) forms: Option<Vec<Option<Form>>>,
}

/// Bytes in a block, and what they are.
struct Inline<'a> {
    media_type: &'a str,
    base64: &'a str,
    /// Where they stand.
    at: &'static str,
    /// What stands before them.
    head: &'a str,
}

impl Content {
    /// Reads the content of the message at `at`.
    pub(super) fn read(
        value: Option<&Value>,
        at: &str,
        to: Option<Destination>,
    ) -> Result<Self, MessageFault> {
        let mut content = Self::default();
        let at = format!("{at}.content");
        match value {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => content.say(text),
            Some(Value::Array(blocks)) if blocks.len() > BLOCKS_MAX => {
                return Err(fault(at, format!("{} blocks, the most is {BLOCKS_MAX}", blocks.len())));
            }
            Some(Value::Array(blocks)) => {
                let read = |(index, block)| content.block(block, &format!("{at}[{index}]"), to);
                let forms = blocks.iter().enumerate().map(read).collect::<Result<_, _>>()?;
                content.forms = Some(forms);
            }
            Some(Value::Object(_) | Value::Bool(_) | Value::Number(_)) => {
                return Err(fault(at, "expected a text or a list of blocks"));
            }
        }
        Ok(content)
    }

    fn say(&mut self, text: &str) {
        if !text.is_empty() {
            self.blocks.push(Block::text(text));
        }
    }

    /// Reads a block; returns how it was written.
    fn block(
        &mut self,
        value: &Value,
        at: &str,
        to: Option<Destination>,
    ) -> Result<Option<Form>, MessageFault> {
        let fields = match value {
            Value::String(text) => {
                self.say(text);
                let form = if text.is_empty() { Form::whole(value) } else { Form::around(value, "") };
                return Ok(Some(form));
            }
            Value::Object(fields) => fields,
            _ => return Err(fault(at, "expected a text or an object")),
        };
        let Some(kind) = field(fields, "type") else {
            return Err(fault(at, "a block has a `type`"));
        };
        if kind == "text" {
            let text = field(fields, "text").ok_or_else(|| fault(at, "a block of text has a `text`"))?;
            self.say(text);
            return Ok(match (text.is_empty(), fields.len()) {
                (true, _) => Some(Form::whole(value)),
                (false, 2) => None,
                (false, _) => Some(Form::around(value, "/text")),
            });
        }
        if let Some((call_id, call)) = call(kind, fields) {
            self.calls.push(call);
            let at = ["args", "input"].into_iter().find(|key| fields.contains_key(*key));
            let form = at.map(|at| Form::around(value, &format!("/{at}")).calling(call_id));
            return Ok(Some(form.unwrap_or_else(|| Form::whole(value))));
        }
        let Some(inline) = inline(kind, fields) else {
            self.blocks.push(Block::Opaque { provider: CLIENT.to_owned(), raw: value.clone() });
            return Ok(None);
        };
        let length = decoded_len(inline.base64).ok_or_else(|| fault(at, "its bytes are not base64"))?;
        if length > ARTIFACT_BYTES_MAX {
            let most = ARTIFACT_BYTES_MAX;
            return Err(fault(at, format!("{length} bytes, the most is {most}")));
        }
        if let Some(Destination { thread_id, at: now }) = to {
            let bytes = decode(inline.base64).ok_or_else(|| fault(at, "its bytes are not base64"))?;
            let artifact = Artifact::new(thread_id, inline.media_type, bytes, now);
            self.blocks.push(Block::Media {
                media_type: artifact.media_type.clone(),
                sha256: Some(artifact.sha256.clone()),
                bytes: Some(artifact.bytes.len() as u64),
            });
            self.artifacts.push(artifact);
        }
        Ok(Some(Form::around(value, inline.at).holding(inline.head, inline.base64)))
    }
}

fn field<'a>(fields: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    fields.get(key).and_then(Value::as_str)
}

/// Returns the call that a block is, if it is one, and its id.
fn call<'a>(kind: &str, fields: &'a Map<String, Value>) -> Option<(&'a str, Block)> {
    if !matches!(kind, "tool_use" | "tool_call") {
        return None;
    }
    let args = fields.get("args").or_else(|| fields.get("input"));
    let args = args.cloned().unwrap_or_else(|| Value::Object(Map::new()));
    let id = field(fields, "id")?;
    Some((id, Block::ToolCall { id: id.to_owned(), name: field(fields, "name")?.to_owned(), args }))
}

/// Returns the bytes that a block of some provider's shape holds; `None` when it only refers to some.
fn inline<'a>(kind: &str, fields: &'a Map<String, Value>) -> Option<Inline<'a>> {
    let media_type = || {
        let named = ["mime_type", "mimeType", "media_type"].into_iter().find_map(|key| field(fields, key));
        named.unwrap_or_else(|| usual_type(kind))
    };
    let bare = |at, base64, media_type| Inline { media_type, base64, at, head: "" };
    match kind {
        "image_url" => {
            let url = fields.get("image_url")?;
            match url.as_str() {
                Some(url) => data_url("/image_url", url),
                None => data_url("/image_url/url", url.get("url")?.as_str()?),
            }
        }
        "image" | "audio" | "video" | "file" | "document" => {
            if let Some(base64) = field(fields, "base64") {
                return Some(bare("/base64", base64, media_type()));
            }
            if let Some(base64) = field(fields, "data") {
                let is_text = field(fields, "source_type") == Some("text");
                let inline =
                    || data_url("/data", base64).unwrap_or_else(|| bare("/data", base64, media_type()));
                return (!is_text).then(inline);
            }
            if let Some(source) = fields.get("source").and_then(Value::as_object) {
                let base64 = field(source, "data").filter(|_| field(source, "type") == Some("base64"))?;
                let media_type = field(source, "media_type").unwrap_or_else(media_type);
                return Some(bare("/source/data", base64, media_type));
            }
            let file = fields.get("file").and_then(Value::as_object);
            match file.and_then(|file| field(file, "file_data")) {
                Some(url) => data_url("/file/file_data", url),
                None => data_url("/url", field(fields, "url")?),
            }
        }
        _ => None,
    }
}

fn usual_type(kind: &str) -> &'static str {
    match kind {
        "image" => "image/png",
        "audio" => "audio/wav",
        "video" => "video/mp4",
        _ => "application/octet-stream",
    }
}

/// Returns what `data:image/png;base64,…` holds, which stands at `at`.
fn data_url<'a>(at: &'static str, url: &'a str) -> Option<Inline<'a>> {
    let (head, base64) = url.split_at(url.find(',')? + 1);
    let media_type = head.strip_prefix("data:")?.strip_suffix(";base64,")?;
    let media_type = media_type.split(';').next().filter(|named| !named.is_empty());
    Some(Inline { media_type: media_type.unwrap_or("application/octet-stream"), base64, at, head })
}

fn unpadded(base64: &str) -> &str {
    base64.trim().trim_end_matches('=')
}

/// Returns how many bytes are written there, if it is base64; they are not decoded for that.
fn decoded_len(base64: &str) -> Option<usize> {
    let base64 = unpadded(base64);
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
    let base64 = unpadded(base64);
    STANDARD_NO_PAD.decode(base64).or_else(|_| URL_SAFE_NO_PAD.decode(base64)).ok()
}
