//! Reads what Python prints of a list, a dictionary or an object: `[{'type': 'text', 'text': "it's"}]`. It runs nothing, and
//! whatever it does not know makes the whole unreadable.

use serde_json::{Map, Value};

/// How deep lists and dictionaries are followed.
const DEPTH_MAX: usize = 32;

/// Returns the value that `text` is the printed form of; an object such as `TextContent(type='text')` reads as its fields.
pub(crate) fn parse_repr(text: &str) -> Option<Value> {
    let mut reader = PythonReprParser { rest: text.trim(), depth: 0 };
    let value = reader.parse_value()?;
    reader.rest.is_empty().then_some(value)
}

struct PythonReprParser<'a> {
    /// The remaining text, without leading white space.
    rest: &'a str,
    depth: usize,
}

impl PythonReprParser<'_> {
    fn parse_value(&mut self) -> Option<Value> {
        let first = self.rest.chars().next()?;
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

    fn parse_list(&mut self, end: char) -> Option<Value> {
        self.skip_bytes(1);
        let mut items = Vec::new();
        while !self.accept(end) {
            items.push(self.parse_value()?);
            self.accept_separator(end)?;
        }
        Some(Value::Array(items))
    }

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

    /// Reads a constant, or an object by its class and fields.
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

    fn parse_number(&mut self) -> Option<Value> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.');
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let number = self.rest[..end].parse::<serde_json::Number>().ok()?;
        self.skip_bytes(end);
        Some(Value::Number(number))
    }

    fn parse_string(&mut self) -> Option<String> {
        let quote = self.rest.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
        let mut text = String::new();
        let mut chars = self.rest[1..].char_indices();
        loop {
            match chars.next()? {
                (at, c) if c == quote => {
                    self.skip_bytes(1 + at + 1);
                    return Some(text);
                }
                (_, '\\') => text.extend(parse_escape(&mut chars)?),
                (_, c) => text.push(c),
            }
        }
    }

    /// Returns the name that comes next.
    fn parse_name(&mut self) -> Option<&str> {
        let end = self.rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        let (name, _) = self.rest.split_at(end);
        self.rest = self.rest[end..].trim_start();
        (!name.is_empty()).then_some(name)
    }

    /// Takes the comma behind an item, unless the end comes next.
    fn accept_separator(&mut self, end: char) -> Option<()> {
        (self.accept(',') || self.rest.starts_with(end)).then_some(())
    }

    fn accept(&mut self, sign: char) -> bool {
        let is_next = self.rest.starts_with(sign);
        if is_next {
            self.skip_bytes(sign.len_utf8());
        }
        is_next
    }

    fn skip_bytes(&mut self, bytes: usize) {
        self.rest = self.rest[bytes..].trim_start();
    }
}

/// Returns the character that an escape stands for, none for an escaped line end; half a surrogate pair is replaced.
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
    fn what_python_prints_is_read() {
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
    fn anything_else_is_not_read() {
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
