//! JSON as the program prints it: characters that could control a terminal, or reorder or hide text, are escaped. Every
//! reader of JSON gets the same values.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};

use super::sanitize::is_unsafe;

/// Writes a value as JSON without line breaks.
///
/// # Errors
/// Fails if the value cannot be serialized or `writer` cannot be written.
pub fn write_json(writer: impl Write, value: &impl Serialize) -> serde_json::Result<()> {
    value.serialize(&mut Serializer::with_formatter(writer, SafeFormatter(CompactFormatter)))
}

/// Escapes the characters of strings that serde_json writes as they are, although they are unsafe on a terminal.
struct SafeFormatter(CompactFormatter);

impl Formatter for SafeFormatter {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut remaining = fragment;
        // The control characters of ASCII are escaped by serde_json.
        while !remaining.is_ascii()
            && let Some(start) = remaining.find(is_unsafe)
            && let Some(character) = remaining[start..].chars().next()
        {
            self.0.write_string_fragment(writer, &remaining[..start])?;
            for unit in character.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
            remaining = &remaining[start + character.len_utf8()..];
        }
        self.0.write_string_fragment(writer, remaining)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(value: &impl Serialize) -> String {
        let mut text = Vec::new();
        write_json(&mut text, value).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn characters_that_control_a_terminal_are_escaped_and_read_back_unchanged() {
        let text = "a\u{1b}[2J\u{9b}31m \u{202e}b\u{2066}c\u{e0041} ä 漢 😀\n\u{85}\u{2028}";
        let json = written(&serde_json::json!({ text: [text, 1, null] }));
        assert!(!json.chars().any(is_unsafe), "{json:?}");
        assert!(json.contains(r"\u009b31m \u202eb\u2066c\udb40\udc41 ä 漢 😀\n\u0085\u2028"), "{json}");
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value[text], serde_json::json!([text, 1, null]));
    }
}
