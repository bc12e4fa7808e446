//! Assignments, sentences and headers that announce a secret: `DB_PASSWORD=…`, `api key: …`, `password is …`,
//! `Authorization: Bearer …`, `Cookie: session=…`. This file reads the syntax of assignments and sentences, and
//! [`headers`] that of headers; [`context`](crate::context) judges the name and [`value`](crate::value) the value.

pub mod headers;
mod sentence;

use std::ops::Range;

use self::sentence::{is_quoted_sentence_value, is_sentence_value, read_note, read_phrase};

use crate::context::{NameClass, classify_name};
use crate::rule_set::RuleTarget;
use crate::scan::WINDOW_BYTES;
use crate::shape::{is_value_byte, looks_scrambled};
use crate::value::{AssignedValue, is_secret_value};

/// Words by which assignments, authorization headers and cookies are recognized.
pub const ASSIGNMENT_WORDS: &[(&str, RuleTarget)] = &[
    ("pass", RuleTarget::Name),
    ("pwd", RuleTarget::Name),
    ("pw", RuleTarget::Name),
    ("kennwort", RuleTarget::Name),
    ("contraseña", RuleTarget::Name),
    ("CONTRASEÑA", RuleTarget::Name),
    ("contrasena", RuleTarget::Name),
    ("пароль", RuleTarget::Name),
    ("Пароль", RuleTarget::Name),
    ("密码", RuleTarget::Name),
    ("密碼", RuleTarget::Name),
    ("パスワード", RuleTarget::Name),
    ("secret", RuleTarget::Name),
    ("token", RuleTarget::Name),
    ("key", RuleTarget::Name),
    ("credential", RuleTarget::Name),
    ("creds", RuleTarget::Name),
    ("auth", RuleTarget::Name),
    ("bearer ", RuleTarget::Scheme),
    ("basic ", RuleTarget::Scheme),
    ("authorization", RuleTarget::Header),
    ("cookie", RuleTarget::Cookie),
    ("-b ", RuleTarget::Cookie),
];

/// The maximum number of bytes of a name before and behind its word.
const NAME_BYTES_MAX: usize = 64;
/// The maximum number of bytes of blanks and colors between a name, its operator and its value.
const BLANKS_MAX: usize = 40;
/// The maximum number of bytes between a name and its value in a pair of fields.
const PAIR_BYTES_MAX: usize = 80;
/// The maximum length of a password with spaces and its quote, in bytes.
const SPACED_PASSWORD_BYTES_MAX: usize = 64;
/// The minimum length of a value, in bytes.
const VALUE_BYTES_MIN: usize = 6;

/// The kind of an assigned secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AssignmentKind {
    /// A password.
    Password,
    /// A token, an API key or another value that its name calls secret.
    Secret,
    /// A random value whose name ends with `key`.
    Key,
    /// Credentials of an authorization header.
    Credentials,
    /// The value of a cookie.
    Cookie,
}

impl AssignmentKind {
    /// Returns the name of the kind.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Password => "password",
            Self::Secret => "assigned-secret",
            Self::Key => "assigned-key",
            Self::Credentials => "auth-scheme",
            Self::Cookie => "cookie",
        }
    }

    /// Returns a sentence that says why a value of this kind is a secret.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Password => "Found a value after the name of a password",
            Self::Secret => "Found a value after the name of a token, an API key or a secret",
            Self::Key => "Found a random value after a name that ends with key",
            Self::Credentials => "Found the credentials of an authorization header",
            Self::Cookie => "Found a session cookie",
        }
    }
}

/// How a value is connected with its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `=`, `=>` or `:=`.
    Equals,
    /// A colon.
    Colon,
    /// A verb, as in `password is`.
    Verb,
    /// A space behind an option such as `--password`.
    Option,
    /// The end of a tag.
    Tag,
    /// A comma between quoted texts.
    Comma,
    /// The line between two cells of a table in Markdown.
    Cell,
}

/// The quotes around a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quoting {
    /// No quotes.
    None,
    /// Quotes of any kind.
    Quoted,
}

/// The secrets at a word, and the text that was read.
#[derive(Debug)]
pub struct AssignmentReading {
    /// The kind and range of each secret.
    pub secrets: Vec<(AssignmentKind, Range<usize>)>,
    /// The end of the text that was read.
    pub end: usize,
    /// The end of the window. A value that reaches it continues behind it.
    pub window_end: usize,
}

/// Reads an assignment whose name contains `word`. Returns `None` if there is none.
pub fn read_assignment(text: &str, word: Range<usize>) -> Option<AssignmentReading> {
    let bytes = text.as_bytes();
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let tail = bytes[word.end..].iter().take(NAME_BYTES_MAX).take_while(|byte| is_name(byte)).count();
    let name_end = word.end + tail;
    // Only the last word of a name is directly before the operator, so each name is read once.
    let (operator, after_operator) = read_operator(text, name_end)?;
    let head = bytes[..word.start].iter().rev().take(NAME_BYTES_MAX);
    let head = head.take_while(|byte| is_name(byte) || **byte == b'.').count();
    let name_start = behind_color(text, word.start - head, word.start);
    let before = &text[..name_start];
    let operator = match operator {
        Operator::Tag if !before.ends_with('<') => return None,
        Operator::Cell if !is_in_table_row(before) => return None,
        Operator::Cell => Operator::Colon,
        operator => operator,
    };
    let name = &text[name_start..name_end];
    let value_start = match operator == Operator::Colon {
        true => next_line_value(text, after_operator).unwrap_or(after_operator),
        false => after_operator,
    };
    let value = read_value(text, value_start)?;
    if !is_value_of_name(name, before, operator, value.quoting, &text[value.range.clone()]) {
        return None;
    }
    let class = classify_name(name, before)?;
    // JSON may escape the slash.
    let judged = text[value.range.clone()].replace("\\/", "/");
    let mut reading = AssignmentReading {
        secrets: Vec::new(),
        end: value.range.end,
        window_end: after_operator + WINDOW_BYTES,
    };
    let assigned = AssignedValue {
        name,
        value: judged.trim_end_matches('\\'),
        class,
        operator,
        quoting: value.quoting,
        next: bytes.get(value.range.end).copied().unwrap_or(b'\n'),
        rest: &text[value.range.end..],
        before,
    };
    let is_secret = value.range.len() >= VALUE_BYTES_MIN && is_secret_value(&assigned);
    if !is_secret && assigned.value.contains(' ') {
        return None;
    }
    if is_secret {
        let kind = match class {
            NameClass::Password => AssignmentKind::Password,
            NameClass::Secret => AssignmentKind::Secret,
            NameClass::Key | NameClass::EnvironmentKey => AssignmentKind::Key,
        };
        reading.secrets.push((kind, value.range));
    } else if value.range.len() <= NAME_BYTES_MAX {
        // A short value can be a name itself: `key="ApiKey" value="…"`.
        reading.end = value.range.start;
    }
    Some(reading)
}

/// Returns whether the operator between a name and a value makes it the value of the name.
fn is_value_of_name(name: &str, before: &str, operator: Operator, quoting: Quoting, value: &str) -> bool {
    // `--- PASS: TestLogin` is a line of a test runner, and `pass = count > 3` a condition.
    if name.eq_ignore_ascii_case("pass") && quoting == Quoting::None {
        return operator == Operator::Verb && before.ends_with("my ")
            || operator == Operator::Equals && name == "PASS"
            || operator == Operator::Colon && name != "PASS" && names_user(before);
    }
    operator != Operator::Option
        || is_option_value(name, before, value)
        || quoting == Quoting::Quoted && is_quoted_sentence_value(name, value)
}

/// Returns whether a value that only a space separates from its name belongs to it: an option, the argument of a command that
/// sets a variable, or a password in a sentence.
fn is_option_value(name: &str, before: &str, value: &str) -> bool {
    const SETTERS: [&str; 2] = ["setx ", "configure set "];
    // `aws configure set aws_secret_access_key …` has no hyphens.
    let is_variable = name.contains('_')
        && (SETTERS.iter().any(|command| before.ends_with(command))
            || value.len() >= 20 && looks_scrambled(value));
    name.starts_with('-') || is_variable || is_sentence_value(name, value)
}

/// Returns whether the line that `before` ends in names a user, as in `user: admin pass: …`.
fn names_user(before: &str) -> bool {
    const USER_FIELDS: [&str; 8] =
        ["user:", "user=", "username:", "username=", "login:", "login=", "email:", "account:"];
    let start = before.floor_char_boundary(before.len().saturating_sub(PAIR_BYTES_MAX));
    let line = before[start..].rsplit('\n').next().unwrap_or_default().to_ascii_lowercase();
    USER_FIELDS.iter().any(|field| line.contains(field))
}

/// A value in a text.
struct ValueRange {
    range: Range<usize>,
    quoting: Quoting,
}

/// Returns the offset of a value that stands alone on the line after a colon, indented. A name there, which a colon or `=`
/// ends, is not a value.
fn next_line_value(text: &str, start: usize) -> Option<usize> {
    let window = &text[start..text.floor_char_boundary(start + WINDOW_BYTES)];
    let rest = window.trim_start_matches([' ', '\t', '\r']).strip_prefix('\n')?;
    let value = rest.trim_start_matches([' ', '\t']);
    let line = value.split('\n').next().unwrap_or_default().trim_end();
    let is_alone = !line.is_empty() && !line.contains([' ', '\t']) && !line.ends_with([':', '{', '[', '(']);
    let is_name = line.contains(": ") || line.contains('=') && !line.ends_with('=');
    (value.len() < rest.len() && is_alone && !is_name).then(|| start + window.len() - value.len())
}

/// Returns whether the line that `before` ends in is a row of a table in Markdown so far.
fn is_in_table_row(before: &str) -> bool {
    let start = before.floor_char_boundary(before.len().saturating_sub(PAIR_BYTES_MAX));
    let line = before[start..].rsplit('\n').next().unwrap_or_default();
    line.trim_start().starts_with('|')
}

/// Returns the start of a name without the end of a color of a terminal, `ESC [ 31 m`, before it.
fn behind_color(text: &str, start: usize, word_start: usize) -> usize {
    let is_color = text[..start].ends_with("\x1b[");
    let letter = text[start..word_start].find(|c: char| c.is_ascii_alphabetic());
    match letter.filter(|_| is_color) {
        Some(letter) => start + letter + 1,
        None => start,
    }
}

/// Reads the operator after a name. Returns it with the offset after it.
fn read_operator(text: &str, name_end: usize) -> Option<(Operator, usize)> {
    let bytes = text.as_bytes();
    let mut position = name_end;
    let mut is_quoted = false;
    // The end of a quoted name, as in JSON, in JSON within JSON, and in `env["NAME"]`.
    while let Some(b'\\' | b'"' | b'\'' | b'`' | b']' | b'*') = bytes.get(position) {
        is_quoted |= matches!(bytes[position], b'"' | b'\'');
        position += 1;
        if position > name_end + 4 {
            return None;
        }
    }
    if let Some(value_start) = read_pair(text, name_end) {
        return Some((Operator::Colon, value_start));
    }
    let blanks = count_blanks(&bytes[position..]);
    position += blanks;
    let rest = bytes.get(position..)?;
    if let Some(rest) = text[position..].strip_prefix(['：', '＝']) {
        return Some((Operator::Colon, text.len() - rest.len()));
    }
    match rest {
        [b':', b':', ..] => None,
        [b':', b'=', ..] | [b'=', b'>' | b'=', ..] | [b'?', b'=', ..] => {
            Some((Operator::Equals, position + 2))
        }
        [b'=', ..] => Some((Operator::Equals, position + 1)),
        [b':', ..] => Some(read_typed(text, position + 1)),
        [b',', ..] if is_quoted => Some((Operator::Comma, position + 1)),
        [b'>', ..] if blanks == 0 => Some((Operator::Tag, position + 1)),
        [b'|', ..] if blanks > 0 && !is_quoted => Some((Operator::Cell, position + 1)),
        [b'(', ..] if blanks > 0 && !is_quoted => read_note(text, position),
        [_, ..] if blanks > 0 && !is_quoted => read_phrase(text, position),
        _ => None,
    }
}

/// Reads the name of the second field of a pair such as `{"name": "DB_PASSWORD", "value": "…"}`, `name:` and `value:` on two
/// lines, or two attributes of a tag. Returns the offset of the value.
fn read_pair(text: &str, start: usize) -> Option<usize> {
    let end = text.floor_char_boundary(start + PAIR_BYTES_MAX);
    let window = &text[start..end];
    let is_between = |c: char| c.is_ascii_whitespace() || matches!(c, ',' | '"' | '\'' | '\\');
    let rest = window.trim_start_matches(is_between);
    // A blank alone does not end the first field.
    let is_ended = window[..window.len() - rest.len()].contains([',', '\n', '"', '\'']);
    let rest = rest.strip_prefix("value").filter(|_| is_ended)?.trim_start_matches(['"', '\'', '\\', ' ']);
    let rest = rest.strip_prefix([':', '='])?;
    Some(end - rest.len())
}

/// Reads what follows a colon: `: Type =` is an assignment with a type.
fn read_typed(text: &str, start: usize) -> (Operator, usize) {
    let window = &text.as_bytes()[start..text.len().min(start + BLANKS_MAX)];
    let is_type = |byte: &u8| byte.is_ascii_alphabetic() || b" &_<>[]'?|.".contains(byte);
    let length = window.iter().take_while(|byte| is_type(byte)).count();
    let has_type = window[..length].iter().any(u8::is_ascii_alphabetic);
    match window.get(length) {
        // The end of Base64 is no operator.
        Some(b'=')
            if has_type
                && (window[length - 1] == b' '
                    || !matches!(window.get(length + 1), Some(b'=' | b'\n') | None)) =>
        {
            (Operator::Equals, start + length + 1)
        }
        _ => (Operator::Colon, start),
    }
}

/// Reads the value after an operator, with or without quotes.
fn read_value(text: &str, start: usize) -> Option<ValueRange> {
    let bytes = text.as_bytes();
    let mut position = start + count_blanks(&bytes[start..]);
    // The name was bold in Markdown.
    if bytes[position..].starts_with(b"** ") {
        position += 2 + count_blanks(&bytes[position + 2..]);
    }
    let is_prefix = matches!(bytes.get(position), Some(b'b' | b'r' | b'f' | b'u' | b'@' | b'$'));
    if is_prefix && matches!(bytes.get(position + 1), Some(b'"' | b'\'')) {
        position += 1;
    }
    let escapes = bytes[position..].iter().take(3).take_while(|byte| **byte == b'\\').count();
    let quote = match bytes.get(position + escapes) {
        Some(quote @ (b'"' | b'\'' | b'`')) => *quote,
        Some(_) if escapes == 0 => {
            return Some(ValueRange { range: unquoted_range(text, position), quoting: Quoting::None });
        }
        _ => return None,
    };
    let value_start = position + escapes + 1;
    let window_end = bytes.len().min(value_start + WINDOW_BYTES);
    let window = &bytes[value_start..window_end];
    let length = quoted_length(window, quote)?;
    let length =
        length - window[..length].iter().rev().take(escapes).take_while(|byte| **byte == b'\\').count();
    let end = text.floor_char_boundary(value_start + length);
    Some(ValueRange { range: value_start..end, quoting: Quoting::Quoted })
}

/// Returns the length of the value in quotes with which `window` begins. A value with spaces is a password only if it is short
/// and on one line; other texts with spaces are sentences, and `None`.
fn quoted_length(window: &[u8], quote: u8) -> Option<usize> {
    let is_end = |byte: &u8| *byte == quote || byte.is_ascii_whitespace();
    let length = window.iter().position(is_end).unwrap_or(window.len());
    match window.get(length) {
        Some(b' ') => {
            let line = &window[..window.len().min(SPACED_PASSWORD_BYTES_MAX)];
            let is_end = |byte: &u8| *byte == quote || byte.is_ascii_whitespace() && *byte != b' ';
            line.iter().position(is_end).filter(|end| line[*end] == quote)
        }
        Some(byte) if byte.is_ascii_whitespace() => None,
        Some(_) | None => Some(length),
    }
}

/// Returns the range of a value without quotes that begins at `start`.
fn unquoted_range(text: &str, start: usize) -> Range<usize> {
    let bytes = text.as_bytes();
    let window = &bytes[start.min(bytes.len())..bytes.len().min(start + WINDOW_BYTES)];
    let mut length = window.iter().position(|byte| !is_value_byte(*byte)).unwrap_or(window.len());
    // The parameters of an address.
    if let Some(next) = window[..length].iter().position(|byte| *byte == b'&') {
        let is_parameter = window[next..length].contains(&b'=');
        length = if is_parameter { next } else { length };
    }
    let is_cut = length >= WINDOW_BYTES;
    if !is_cut {
        length -= window[..length].iter().rev().take_while(|byte| b".:?".contains(byte)).count();
    }
    start..text.floor_char_boundary(start + length)
}

/// Returns the number of bytes of the blanks with which `bytes` begin, and of the colors of a terminal (`ESC [ 31 m`) among
/// them, up to about [`BLANKS_MAX`].
fn count_blanks(bytes: &[u8]) -> usize {
    let mut position = 0;
    while position < BLANKS_MAX {
        match bytes.get(position..) {
            Some([b' ' | b'\t', ..]) => position += 1,
            // A space that does not break, in UTF-8.
            Some([0xC2, 0xA0, ..]) => position += 2,
            Some([0x1B, b'[', parameters @ ..]) => {
                let length =
                    parameters.iter().take(16).take_while(|byte| b"0123456789;".contains(byte)).count();
                match parameters.get(length) {
                    Some(last) if last.is_ascii_alphabetic() => position += 3 + length,
                    Some(_) | None => break,
                }
            }
            Some(_) | None => break,
        }
    }
    position
}
