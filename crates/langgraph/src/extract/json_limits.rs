//! Limits of JSON bodies. A parsed body takes up to a hundred times as much memory as its text, so the values of a body are
//! counted before it is parsed, and only messages and files may be large.

use serde_json::{Map, Value};

use crate::error::ApiError;

/// Maximum number of values of a body: objects, arrays, texts, numbers, Booleans and nulls. Parsed, each takes up to 600 bytes
/// together with its key and its copies.
pub const JSON_VALUES_MAX: usize = 100_000;
/// Maximum size of the channels of an input or an update other than [`LARGE_CHANNELS`], in bytes of JSON.
pub(crate) const OTHER_CHANNELS_BYTES_MAX: usize = 4 << 20;
/// The channels that may be as large as a body.
const LARGE_CHANNELS: [&str; 2] = ["messages", "files"];

/// Checks the number of values of a body. Reads each byte once and allocates nothing; malformed JSON is not detected.
///
/// # Errors
/// 413 if the body has more than [`JSON_VALUES_MAX`] values.
pub(super) fn check_value_count(bytes: &[u8]) -> Result<(), ApiError> {
    // Every value but the first follows a comma or begins an object or an array.
    let mut values = 1_usize;
    let mut rest = bytes;
    while let Some((first, others)) = rest.split_first() {
        rest = match first {
            b'"' => skip_string(others),
            b',' | b'[' | b'{' => {
                values += 1;
                others
            }
            _ => others,
        };
        if values > JSON_VALUES_MAX {
            let detail = format!("the request body has more than {JSON_VALUES_MAX} JSON values");
            return Err(ApiError::too_large(detail).with_hint("send the messages in several requests"));
        }
    }
    Ok(())
}

/// Returns the bytes after a string of which the opening quote is already read.
fn skip_string(mut bytes: &[u8]) -> &[u8] {
    while let Some(end) = memchr::memchr2(b'"', b'\\', bytes) {
        if bytes[end] == b'"' {
            return &bytes[end + 1..];
        }
        bytes = bytes.get(end + 2..).unwrap_or_default();
    }
    &[]
}

/// Checks the size of an input or of an update of a thread's state, without its messages and files.
///
/// # Errors
/// 413 if the other channels together are larger than [`OTHER_CHANNELS_BYTES_MAX`].
pub(crate) fn check_channels_size(channels: &Map<String, Value>) -> Result<(), ApiError> {
    let others = channels.iter().filter(|(name, _)| !LARGE_CHANNELS.contains(&name.as_str()));
    let mut left = OTHER_CHANNELS_BYTES_MAX;
    for (name, value) in others {
        let size = text_bytes(value) + name.len();
        let Some(rest) = left.checked_sub(size) else {
            let detail = format!(
                "`{name}`: the channels other than `messages` and `files` have more than {} MiB",
                OTHER_CHANNELS_BYTES_MAX >> 20
            );
            return Err(ApiError::too_large(detail));
        };
        left = rest;
    }
    Ok(())
}

/// Returns the approximate size of a value as JSON text, in bytes. The depth of a parsed value is limited.
fn text_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
        Value::String(text) => text.len() + 2,
        Value::Array(values) => 2 + values.iter().map(|value| text_bytes(value) + 1).sum::<usize>(),
        Value::Object(fields) => {
            2 + fields.iter().map(|(name, value)| name.len() + 4 + text_bytes(value)).sum::<usize>()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns whether a body is refused.
    fn is_refused(body: &str) -> bool {
        check_value_count(body.as_bytes()).is_err()
    }

    #[test]
    fn i6_a_body_with_more_values_than_allowed_is_refused_before_it_is_parsed() {
        let arrays = |count: usize| format!("{{\"input\":[{}]}}", vec!["[]"; count].join(","));
        // The object, the array and its elements; a comma comes before each element but the first.
        assert!(!is_refused(&arrays(JSON_VALUES_MAX / 2 - 2)) && is_refused(&arrays(JSON_VALUES_MAX / 2)));
        let numbers = |count: usize| format!("[{}]", vec!["1"; count].join(","));
        assert!(!is_refused(&numbers(JSON_VALUES_MAX - 2)) && is_refused(&numbers(JSON_VALUES_MAX + 2)));
        assert!(is_refused(&"[".repeat(JSON_VALUES_MAX + 1)), "malformed JSON is refused too");
    }

    #[test]
    fn texts_may_contain_any_number_of_commas_and_brackets() {
        for text in [",[{".repeat(JSON_VALUES_MAX), "\\\",[".repeat(JSON_VALUES_MAX), "\\\\".repeat(10)] {
            assert!(!is_refused(&json!({"text": text, "after": 1}).to_string()));
        }
        assert!(!is_refused("\"unfinished \\"));
    }

    #[test]
    fn only_messages_and_files_may_be_large() {
        let text = "x".repeat(OTHER_CHANNELS_BYTES_MAX);
        let check = |channels: Value| check_channels_size(channels.as_object().unwrap());
        assert!(check(json!({"messages": text, "files": {"a.txt": text}, "todos": [1, null]})).is_ok());
        let error = check(json!({"notes": [text]})).unwrap_err();
        assert_eq!((error.status().as_u16(), error.detail().contains("`notes`")), (413, true));
        let half = "x".repeat(OTHER_CHANNELS_BYTES_MAX / 2 + 1);
        assert!(check(json!({"a": half})).is_ok() && check(json!({"a": half, "b": half})).is_err());
    }
}
