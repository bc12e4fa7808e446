//! The content of a message in the forms that model providers use: a text, or a list of typed blocks. The block type is
//! the union of the fields of all session formats. The reader of each format interprets the roles.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::entry::MediaReference;
use crate::json::loose;

/// The content of a message or of a tool result.
#[derive(Debug, Default)]
pub(crate) enum ForeignContent {
    /// No content: the field is missing, `null` or a boolean.
    #[default]
    Absent,
    /// One text. Numbers are read as text.
    Text(String),
    /// A list of blocks.
    Blocks(Vec<ForeignContentPart>),
    /// A single object instead of a text or list.
    Object(Map<String, Value>),
}

/// One item of a content list.
#[derive(Debug)]
pub(crate) enum ForeignContentPart {
    /// A plain string.
    Text(String),
    /// An object.
    Block(Box<ForeignContentBlock>),
    /// A value of any other type. It is ignored.
    Other,
}

/// A typed block: the union of the fields that the formats use.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ForeignContentBlock {
    /// The block type, such as `text`, `tool_use` or `image`.
    #[serde(rename = "type", deserialize_with = "loose::text")]
    pub(crate) kind: Option<String>,
    /// The text of a text block.
    #[serde(deserialize_with = "loose::text")]
    pub(crate) text: Option<String>,
    /// The readable text of a reasoning block.
    #[serde(deserialize_with = "loose::text")]
    pub(crate) thinking: Option<String>,
    /// The id of a tool call.
    #[serde(deserialize_with = "loose::text")]
    pub(crate) id: Option<String>,
    /// The tool name of a tool call.
    #[serde(deserialize_with = "loose::text")]
    pub(crate) name: Option<String>,
    /// The arguments of a tool call in Anthropic's form.
    pub(crate) input: Option<Value>,
    /// The arguments of a tool call in the session format of the coding agent pi.
    pub(crate) arguments: Option<Value>,
    /// The id of the call that a tool result answers.
    #[serde(deserialize_with = "loose::text")]
    pub(crate) tool_use_id: Option<String>,
    /// The tool that a `tool_reference` block names.
    #[serde(deserialize_with = "loose::text")]
    pub(crate) tool_name: Option<String>,
    /// The output in a tool result.
    pub(crate) content: ForeignContent,
    /// True if a tool result reports a failure.
    #[serde(deserialize_with = "loose::flag")]
    pub(crate) is_error: bool,
    /// The image in Anthropic's form: an object with `media_type` and base64 `data`.
    source: Option<Value>,
    /// The image in OpenAI's form: a URL, or an object with `url`. A `data:` URL contains the image.
    image_url: Option<Value>,
    /// The base64 data of an image in MCP's form.
    #[serde(deserialize_with = "loose::text")]
    data: Option<String>,
    /// The media type of [`data`](Self::data).
    #[serde(rename = "mimeType", deserialize_with = "loose::text")]
    mime_type: Option<String>,
}

/// The content of a message as one text, with references to its images.
#[derive(Debug, Default)]
pub(crate) struct FlattenedContent {
    /// The text of all blocks, one block per line.
    pub(crate) text: String,
    /// The images, in order.
    pub(crate) media: Vec<MediaReference>,
}

impl ForeignContent {
    /// Returns whether the content is absent, an empty text, an empty list or an empty object.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Absent => true,
            Self::Text(text) => text.is_empty(),
            Self::Blocks(parts) => parts.is_empty(),
            Self::Object(fields) => fields.is_empty(),
        }
    }

    /// Returns the text of all blocks, one block per line, and references to the images.
    pub(crate) fn flatten(self) -> FlattenedContent {
        match self {
            Self::Absent => FlattenedContent::default(),
            Self::Text(text) => FlattenedContent { text, ..FlattenedContent::default() },
            Self::Object(fields) => {
                FlattenedContent { text: object_text(fields), ..FlattenedContent::default() }
            }
            Self::Blocks(parts) => {
                let mut flat = FlattenedContent::default();
                let mut first = true;
                for part in parts {
                    if let Some(text) = part_text(part, &mut flat.media) {
                        if !std::mem::take(&mut first) {
                            flat.text.push('\n');
                        }
                        flat.text.push_str(&text);
                    }
                }
                flat
            }
        }
    }
}

impl ForeignContentBlock {
    /// Returns the reference to the image in this block, or `None` if it is not an image block. Moves the image's fields
    /// out of the block.
    pub(crate) fn media(&mut self) -> Option<MediaReference> {
        if !matches!(self.kind.as_deref(), Some("image" | "input_image" | "image_url")) {
            return None;
        }
        if let Some(data) = self.data.take() {
            return Some(base64_media(self.mime_type.take().unwrap_or_default(), &data));
        }
        if let Some(Value::Object(mut source)) = self.source.take() {
            let media_type = source.remove("media_type").and_then(into_text).unwrap_or_default();
            return Some(match source.remove("data").and_then(into_text) {
                Some(data) => base64_media(media_type, &data),
                None => MediaReference { media_type, sha256: None, bytes: None },
            });
        }
        let url = match self.image_url.take() {
            Some(Value::Object(mut image)) => image.remove("url").and_then(into_text),
            Some(url) => into_text(url),
            None => None,
        };
        Some(url_media(url.as_deref().unwrap_or_default()))
    }
}

/// Returns the arguments of a tool call as an object.
///
/// A string is parsed as JSON; if that fails, the result is `{"_raw": string}`. Any other value that is not an object
/// becomes `{"_": value}`, and missing arguments become `{}`.
pub(crate) fn parse_arguments(value: Option<Value>) -> Value {
    match value {
        None | Some(Value::Null) => Value::Object(Map::new()),
        Some(Value::Object(fields)) => Value::Object(fields),
        Some(Value::String(text)) => match serde_json::from_str(&text) {
            Ok(Value::Object(fields)) => Value::Object(fields),
            Ok(other) => single_field_object("_", other),
            Err(_) => single_field_object("_raw", Value::String(text)),
        },
        Some(other) => single_field_object("_", other),
    }
}

/// Returns an object with the field `name` only.
pub(crate) fn single_field_object(name: &str, value: Value) -> Value {
    Value::Object(Map::from_iter([(name.to_owned(), value)]))
}

/// Returns the text of a JSON string; `None` for any other value.
pub(crate) fn into_text(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Returns the text of an object in a place where a text is expected: its first non-empty field `text`, `content` or `output`, else
/// the whole object as JSON.
fn object_text(mut fields: Map<String, Value>) -> String {
    for name in ["text", "content", "output"] {
        if fields.get(name).is_some_and(|value| value.as_str().is_some_and(|text| !text.is_empty())) {
            return fields.remove(name).and_then(into_text).unwrap_or_default();
        }
        if fields.get(name).is_some_and(|value| value.as_array().is_some_and(|items| !items.is_empty())) {
            let nested =
                fields.remove(name).and_then(|value| serde_json::from_value::<ForeignContent>(value).ok());
            return nested.unwrap_or_default().flatten().text;
        }
    }
    Value::Object(fields).to_string()
}

/// Returns the text of one part, if it has any, and adds its image to `media`.
fn part_text(part: ForeignContentPart, media: &mut Vec<MediaReference>) -> Option<String> {
    let mut block = match part {
        ForeignContentPart::Text(text) => return Some(text),
        ForeignContentPart::Other => return None,
        ForeignContentPart::Block(block) => block,
    };
    match block.kind.as_deref() {
        Some("text" | "input_text" | "output_text" | "inputText") => Some(block.text.unwrap_or_default()),
        Some("tool_reference") => Some(format!("[tool {}]", block.tool_name.unwrap_or_default())),
        Some("image" | "input_image") => {
            media.extend(block.media());
            Some("[image]".to_owned())
        }
        _ => {
            media.extend(block.media());
            block.text
        }
    }
}

/// Returns the reference to an image with the URL `url`. Digest and size are known only for a base64 `data:` URL.
fn url_media(url: &str) -> MediaReference {
    let inline = url.strip_prefix("data:").and_then(|data_url| data_url.split_once(";base64,"));
    match inline {
        Some((media_type, data)) => base64_media(media_type.to_owned(), data),
        None => MediaReference { media_type: String::new(), sha256: None, bytes: None },
    }
}

/// Returns the reference to base64-encoded bytes, with or without padding. Bytes that cannot be decoded have no digest.
fn base64_media(media_type: String, data: &str) -> MediaReference {
    let data = data.trim();
    match STANDARD.decode(data).or_else(|_| STANDARD_NO_PAD.decode(data)) {
        Ok(bytes) => MediaReference {
            media_type,
            sha256: Some(protocol::sha256_hex(&bytes)),
            bytes: Some(bytes.len() as u64),
        },
        Err(_) => MediaReference { media_type, sha256: None, bytes: None },
    }
}

impl<'de> Deserialize<'de> for ForeignContent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ForeignContentVisitor)
    }
}

/// Reads any JSON value as a [`ForeignContent`], so that an unexpected type never makes its record unreadable.
struct ForeignContentVisitor;

impl<'de> Visitor<'de> for ForeignContentVisitor {
    type Value = ForeignContent;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text, a list of blocks or an object")
    }

    fn visit_str<E>(self, text: &str) -> Result<ForeignContent, E> {
        Ok(ForeignContent::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<ForeignContent, E> {
        Ok(ForeignContent::Text(text))
    }

    fn visit_unit<E>(self) -> Result<ForeignContent, E> {
        Ok(ForeignContent::Absent)
    }

    fn visit_bool<E>(self, _: bool) -> Result<ForeignContent, E> {
        Ok(ForeignContent::Absent)
    }

    fn visit_i64<E>(self, number: i64) -> Result<ForeignContent, E> {
        Ok(ForeignContent::Text(number.to_string()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<ForeignContent, E> {
        Ok(ForeignContent::Text(number.to_string()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<ForeignContent, E> {
        Ok(ForeignContent::Text(number.to_string()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<ForeignContent, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(items)).map(ForeignContent::Blocks)
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<ForeignContent, A::Error> {
        Map::deserialize(MapAccessDeserializer::new(members)).map(ForeignContent::Object)
    }
}

impl<'de> Deserialize<'de> for ForeignContentPart {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ForeignContentPartVisitor)
    }
}

/// Reads any JSON value as a [`ForeignContentPart`], so that an unexpected type never makes its record unreadable.
struct ForeignContentPartVisitor;

impl<'de> Visitor<'de> for ForeignContentPartVisitor {
    type Value = ForeignContentPart;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text or a block")
    }

    fn visit_str<E>(self, text: &str) -> Result<ForeignContentPart, E> {
        Ok(ForeignContentPart::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<ForeignContentPart, E> {
        Ok(ForeignContentPart::Text(text))
    }

    fn visit_unit<E>(self) -> Result<ForeignContentPart, E> {
        Ok(ForeignContentPart::Other)
    }

    fn visit_bool<E>(self, _: bool) -> Result<ForeignContentPart, E> {
        Ok(ForeignContentPart::Other)
    }

    fn visit_i64<E>(self, _: i64) -> Result<ForeignContentPart, E> {
        Ok(ForeignContentPart::Other)
    }

    fn visit_u64<E>(self, _: u64) -> Result<ForeignContentPart, E> {
        Ok(ForeignContentPart::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<ForeignContentPart, E> {
        Ok(ForeignContentPart::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<ForeignContentPart, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(ForeignContentPart::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<ForeignContentPart, A::Error> {
        ForeignContentBlock::deserialize(MapAccessDeserializer::new(members))
            .map(|block| ForeignContentPart::Block(Box::new(block)))
    }
}
