//! Media inside a provider's own block: where it stands, and the name that is listed in its place. Anything else that
//! looks like base64, such as encrypted reasoning, is left alone.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// The longest base64 that is listed as it is.
const BASE64_BYTES_MAX: usize = 1_024;

/// Fields beside the bytes of media that say what they are.
const DECLARATIONS: [&str; 4] = ["media_type", "mimeType", "mime_type", "format"];

/// Puts in place of the bytes of every picture, sound and document their hash and their number.
pub(super) fn name_media(raw: &mut Value) {
    match raw {
        Value::Array(values) => values.iter_mut().for_each(name_media),
        Value::Object(fields) => {
            let encoding = Encoding::of(fields);
            for (key, value) in fields {
                match value.as_str().and_then(|text| encoding.name(key, text)) {
                    Some(name) => *value = name,
                    None => name_media(value),
                }
            }
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Which fields of an object hold bare base64 of media.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    /// `data` or `blob`, beside a field that says what it is.
    Declared,
    /// `result`: a picture that a provider's own tool made.
    Made,
    /// None.
    Urls,
}

impl Encoding {
    fn of(fields: &Map<String, Value>) -> Self {
        if DECLARATIONS.iter().any(|key| fields.contains_key(*key)) {
            return Self::Declared;
        }
        match fields.get("type").and_then(Value::as_str) {
            Some("image_generation_call") => Self::Made,
            Some(_) | None => Self::Urls,
        }
    }

    /// Returns what is listed in place of the field's text; `None` when it is no media, or short.
    fn name(self, key: &str, text: &str) -> Option<Value> {
        if text.len() <= BASE64_BYTES_MAX {
            return None;
        }
        let base64 = match (self, key) {
            (_, "url" | "image_url" | "file_data") => text.strip_prefix("data:")?.split_once(";base64,")?.1,
            (Self::Declared, "data" | "blob") | (Self::Made, "result") => text,
            (Self::Declared | Self::Made | Self::Urls, _) => return None,
        };
        let bytes = STANDARD.decode(base64).ok()?;
        let sha256 = protocol::sha256_hex(&bytes);
        Some(json!({"base64_sha256": sha256, "base64_bytes": bytes.len()}))
    }
}
