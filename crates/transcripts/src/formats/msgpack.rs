//! Conversion of LangGraph's MessagePack to JSON values. LangGraph writes an object of a Python class as an extension
//! type whose payload is a MessagePack array. Such an object becomes `{"__class__": name, "value": argument}`.

use rmpv::Value as Packed;
use serde_json::{Map, Number, Value};

/// Maximum nesting depth of values and extension types. A deeper value becomes `null`.
const DEPTH_MAX: usize = 64;

/// Returns the value in `bytes` as JSON.
///
/// # Errors
/// If `bytes` do not begin with a valid MessagePack value, or if its arrays and maps nest deeper than 64 levels.
pub(crate) fn read(bytes: &[u8]) -> Result<Value, rmpv::decode::Error> {
    read_nested(bytes, DEPTH_MAX)
}

/// Returns the value in `bytes`, of which at most `depth` levels are converted.
fn read_nested(bytes: &[u8], depth: usize) -> Result<Value, rmpv::decode::Error> {
    let mut remaining = bytes;
    let packed = rmpv::decode::read_value_with_max_depth(&mut remaining, DEPTH_MAX)?;
    Ok(to_json(packed, depth))
}

/// Converts a packed value to JSON. A value without a JSON counterpart, such as a NaN, becomes `null`.
fn to_json(packed: Packed, depth: usize) -> Value {
    let Some(depth) = depth.checked_sub(1) else { return Value::Null };
    match packed {
        Packed::Nil => Value::Null,
        Packed::Boolean(flag) => Value::Bool(flag),
        Packed::Integer(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Value::from(number),
            (None, Some(number)) => Value::from(number),
            (None, None) => Value::Null,
        },
        Packed::F32(number) => Number::from_f64(f64::from(number)).map_or(Value::Null, Value::Number),
        Packed::F64(number) => Number::from_f64(number).map_or(Value::Null, Value::Number),
        Packed::String(text) => Value::String(lossy_text(&text)),
        // Bytes are images or Python pickles. Neither is text of the conversation.
        Packed::Binary(_) => Value::Null,
        Packed::Array(items) => items.into_iter().map(|item| to_json(item, depth)).collect(),
        Packed::Map(members) => Value::Object(
            members
                .into_iter()
                .map(|(name, value)| (member_name(name, depth), to_json(value, depth)))
                .collect::<Map<_, _>>(),
        ),
        Packed::Ext(_, payload) => class_object(&payload, depth),
    }
}

/// Returns the JSON form of a Python object. Its payload is a packed array of module, class, argument and constructor.
fn class_object(payload: &[u8], depth: usize) -> Value {
    match read_nested(payload, depth) {
        Ok(Value::Array(mut parts)) if parts.len() >= 2 => {
            let value = if parts.len() > 2 { parts.swap_remove(2) } else { Value::Null };
            let class = parts.swap_remove(1);
            Value::Object(Map::from_iter([("__class__".to_owned(), class), ("value".to_owned(), value)]))
        }
        Ok(other) => other,
        Err(_) => Value::Null,
    }
}

/// Returns the name of a map member. A key that is no string is written as JSON.
fn member_name(name: Packed, depth: usize) -> String {
    match to_json(name, depth) {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// Returns a string; bytes that are not UTF-8 become U+FFFD.
fn lossy_text(text: &rmpv::Utf8String) -> String {
    text.as_str().map_or_else(|| String::from_utf8_lossy(text.as_bytes()).into_owned(), str::to_owned)
}
