//! A parser for the `repr` of Python lists, tuples, dictionaries and data objects, such as
//! `[{'type': 'text', 'text': "it's"}]`. It evaluates no code. Any unknown syntax makes the whole text unparsable.

use serde_json::{Map, Value};

/// Maximum nesting depth. A deeper text is not parsed, because the parser is recursive.
const DEPTH_MAX: usize = 32;

/// Parses the `repr` of a Python value as JSON.
///
/// Tuples become arrays. An object such as `TextContent(type='text')` becomes a JSON object of its fields. Returns
/// `None` for any other text. Linear in the length of `text`.
pub(crate) fn parse_repr(text: &str) -> Option<Value> {
    let mut parser = PythonReprParser { remaining: text.trim(), depth: 0 };
    let value = parser.parse_value()?;
    parser.remaining.is_empty().then_some(value)
}

/// A recursive-descent parser. Each method returns `None` at the first syntax error.
struct PythonReprParser<'a> {
    /// The remaining text, without leading white space.
    remaining: &'a str,
    /// The current nesting depth.
    depth: usize,
}

impl PythonReprParser<'_> {
    /// Parses a value of any type.
    fn parse_value(&mut self) -> Option<Value> {
        let first = self.remaining.chars().next()?;
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        let value = match first {
            '[' => self.parse_list(']')?,
            '(' => self.parse_list(')')?,
            '{' => self.parse_dictionary()?,
            '\'' | '"' => Value::String(self.parse_string()?),
            '-' | '0'..='9' => self.parse_number()?,
            _ => self.parse_named()?,
        };
        self.depth -= 1;
        Some(value)
    }

    /// Parses a list or tuple up to its closing bracket `end`. A trailing comma is allowed.
    fn parse_list(&mut self, end: char) -> Option<Value> {
        self.skip_bytes(1);
        let mut items = Vec::new();
        while !self.accept(end) {
            items.push(self.parse_value()?);
            self.accept_separator(end)?;
        }
        Some(Value::Array(items))
    }

    /// Parses a dictionary. Its keys must be strings.
    fn parse_dictionary(&mut self) -> Option<Value> {
        self.skip_bytes(1);
        let mut fields = Map::new();
        while !self.accept('}') {
            let key = self.parse_string()?;
            if !self.accept(':') {
                return None;
            }
            fields.insert(key, self.parse_value()?);
            self.accept_separator('}')?;
        }
        Some(Value::Object(fields))
    }

    /// Parses `None`, `True`, `False`, or an object that is written as a class name with named arguments.
    fn parse_named(&mut self) -> Option<Value> {
        let name = self.parse_name()?;
        match name {
            "None" => return Some(Value::Null),
            "True" => return Some(Value::Bool(true)),
            "False" => return Some(Value::Bool(false)),
            _ => {}
        }
        if !self.accept('(') {
            return None;
        }
        let mut fields = Map::new();
        while !self.accept(')') {
            let field = self.parse_name()?.to_owned();
            if !self.accept('=') {
                return None;
            }
            fields.insert(field, self.parse_value()?);
            self.accept_separator(')')?;
        }
        Some(Value::Object(fields))
    }

    /// Parses a number in the syntax that JSON and Python share.
    fn parse_number(&mut self) -> Option<Value> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.');
        let end = self.remaining.find(|c| !is_part(c)).unwrap_or(self.remaining.len());
        let number = self.remaining[..end].parse::<serde_json::Number>().ok()?;
        self.skip_bytes(end);
        Some(Value::Number(number))
    }

    /// Parses a string in single or double quotes.
    fn parse_string(&mut self) -> Option<String> {
        let quote = self.remaining.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
        let mut text = String::new();
        let mut chars = self.remaining[1..].char_indices();
        loop {
            match chars.next()? {
                (index, c) if c == quote => {
                    self.skip_bytes(1 + index + 1);
                    return Some(text);
                }
                (_, '\\') => text.extend(parse_escape(&mut chars)?),
                (_, c) => text.push(c),
            }
        }
    }

    /// Parses an identifier.
    fn parse_name(&mut self) -> Option<&str> {
        let end =
            self.remaining.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(self.remaining.len());
        let (name, _) = self.remaining.split_at(end);
        self.remaining = self.remaining[end..].trim_start();
        (!name.is_empty()).then_some(name)
    }

    /// Skips the comma after an item. Fails if neither a comma nor the closing bracket `end` follows.
    fn accept_separator(&mut self, end: char) -> Option<()> {
        (self.accept(',') || self.remaining.starts_with(end)).then_some(())
    }

    /// Skips `expected` if it is the next character, and returns whether it was.
    fn accept(&mut self, expected: char) -> bool {
        let is_next = self.remaining.starts_with(expected);
        if is_next {
            self.skip_bytes(expected.len_utf8());
        }
        is_next
    }

    /// Skips `bytes` bytes and the white space after them.
    fn skip_bytes(&mut self, bytes: usize) {
        self.remaining = self.remaining[bytes..].trim_start();
    }
}

/// Parses the escape after a backslash. The inner option is `None` for an escaped line end, which adds no character.
/// Unpaired surrogates become U+FFFD.
fn parse_escape(chars: &mut std::str::CharIndices<'_>) -> Option<Option<char>> {
    let (_, kind) = chars.next()?;
    let digits = match kind {
        'n' => return Some(Some('\n')),
        't' => return Some(Some('\t')),
        'r' => return Some(Some('\r')),
        '\n' => return Some(None),
        '\\' | '\'' | '"' => return Some(Some(kind)),
        'x' => 2,
        'u' => 4,
        'U' => 8,
        _ => return None,
    };
    let mut code = 0;
    for _ in 0..digits {
        code = code * 16 + chars.next()?.1.to_digit(16)?;
    }
    Some(Some(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_repr_of_python_values_is_parsed() {
        for (text, expected) in [
            ("[]", json!([])),
            ("[1, -2.5, 1e3, None, True, False]", json!([1, -2.5, 1000.0, null, true, false])),
            (r#"{'a': "it's", "b": 'say "hi"'}"#, json!({"a": "it's", "b": "say \"hi\""})),
            (r"['a\n\t\\\'\x41\u00e9\U0001f980\ud800']", json!(["a\n\t\\'Aé🦀\u{fffd}"])),
            ("('a', ('b',), )", json!(["a", ["b"]])),
            (
                "[TextContent(type='text', text='é', annotations=None, meta=Meta())]",
                json!([{"type": "text", "text": "é", "annotations": null, "meta": {}}]),
            ),
        ] {
            assert_eq!(parse_repr(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn any_other_text_is_not_parsed() {
        for text in [
            "",
            "[",
            "[1",
            "[1 2]",
            "{'a'}",
            "{'a': }",
            "{1: 2}",
            "open('x')",
            "a",
            "[x]",
            "'a",
            r"'\q'",
            r"'\x4'",
            "[1] x",
            "1_000",
            "f(1)",
            "nan",
            "[1,,2]",
        ] {
            assert_eq!(parse_repr(text), None, "{text}");
        }
        assert_eq!(parse_repr(&"[".repeat(100_000)), None);
        assert_eq!(parse_repr(&format!("{}1{}", "[".repeat(40), "]".repeat(40))), None);
    }
}
