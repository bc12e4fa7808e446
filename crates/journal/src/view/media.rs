//! Media inside a provider's own content block: detection, and replacement by a hash. Other base64 data, such as
//! encrypted reasoning, is left unchanged.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// Maximum length in bytes of base64 data that is shown as it is.
const BASE64_BYTES_MAX: usize = 1_024;

/// Fields whose presence shows that an object contains media.
const MEDIA_TYPE_FIELDS: [&str; 4] = ["media_type", "mimeType", "mime_type", "format"];

/// Replaces the base64 data of every image, sound and document by its hash and size.
pub(super) fn replace_media_bytes(raw: &mut Value) {
    match raw {
        Value::Array(values) => values.iter_mut().for_each(replace_media_bytes),
        Value::Object(fields) => {
            let encoding = MediaEncoding::from_fields(fields);
            for (key, value) in fields {
                match value.as_str().and_then(|text| encoding.placeholder(key, text)) {
                    Some(placeholder) => *value = placeholder,
                    None => replace_media_bytes(value),
                }
            }
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The fields of an object that hold base64 data of media.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MediaEncoding {
    /// `data` or `blob`, in an object with a media type field.
    Declared,
    /// `result`: an image that a provider's own tool generated.
    Generated,
    /// None, apart from data URLs.
    DataUrls,
}

impl MediaEncoding {
    /// Determines the fields of an object that hold media.
    fn from_fields(fields: &Map<String, Value>) -> Self {
        if MEDIA_TYPE_FIELDS.iter().any(|key| fields.contains_key(*key)) {
            return Self::Declared;
        }
        match fields.get("type").and_then(Value::as_str) {
            Some("image_generation_call") => Self::Generated,
            Some(_) | None => Self::DataUrls,
        }
    }

    /// Returns the replacement for the text of a field, or `None` if the field holds no media or is short.
    fn placeholder(self, key: &str, text: &str) -> Option<Value> {
        if text.len() <= BASE64_BYTES_MAX {
            return None;
        }
        let base64 = match (self, key) {
            (_, "url" | "image_url" | "file_data") => text.strip_prefix("data:")?.split_once(";base64,")?.1,
            (Self::Declared, "data" | "blob") | (Self::Generated, "result") => text,
            (Self::Declared | Self::Generated | Self::DataUrls, _) => return None,
        };
        let bytes = STANDARD.decode(base64).ok()?;
        let sha256 = protocol::sha256_hex(&bytes);
        Some(json!({"base64_sha256": sha256, "base64_bytes": bytes.len()}))
    }
}
