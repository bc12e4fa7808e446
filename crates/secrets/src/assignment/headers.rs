//! Authorization headers and cookies, in a request, in code, on a command line, and in a sentence.

use std::ops::Range;

use super::{AssignmentKind, AssignmentReading, VALUE_BYTES_MIN, count_blanks, unquoted_range};
use crate::scan::WINDOW_BYTES;
use crate::scan::command_line::is_argument_of;
use crate::shape::{
    is_attribute_path, is_code_open, is_placeholder, is_reference, looks_random, looks_scrambled,
};

/// The schemes of authorization headers whose credentials are one value.
const SCHEMES: [&str; 12] = [
    "basic",
    "bearer",
    "token",
    "apikey",
    "api-key",
    "key",
    "bot",
    "geniekey",
    "digest",
    "apitoken",
    "oauth",
    "negotiate",
];
/// The minimum length of the credentials of a header that names no scheme, in bytes.
const SCHEMELESS_BYTES_MIN: usize = 20;
/// The maximum number of quotes and backslashes between the name of a header and its value.
const SIGNS_MAX: usize = 12;
/// The operators between the name of a header and its value.
const HEADER_OPERATORS: [char; 3] = [':', '=', ','];

/// Reads the credentials behind the name of their scheme.
pub fn read_credentials(text: &str, word: Range<usize>) -> Option<AssignmentReading> {
    let is_inside = text[..word.start].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    let start = word.end + count_blanks(&text.as_bytes()[word.end..]);
    let value = unquoted_range(text, start);
    let secret = text.get(value.clone())?;
    let is_secret = !is_inside && is_literal(text, &value) && looks_like_token(secret);
    let end = value.end.max(word.end);
    let secrets = is_secret.then_some((AssignmentKind::Credentials, value)).into_iter().collect();
    Some(AssignmentReading { secrets, end, window_end: start + WINDOW_BYTES })
}

/// Reads an authorization header, with or without a scheme. `word` is its name.
pub fn read_authorization(text: &str, word: Range<usize>) -> Option<AssignmentReading> {
    if text[..word.start].ends_with(|c: char| c.is_ascii_alphanumeric()) {
        return None;
    }
    let mut start = value_start(text, word.end, &HEADER_OPERATORS)?;
    let scheme = unquoted_range(text, start);
    let name = text.get(scheme.clone())?;
    let has_scheme = SCHEMES.iter().any(|scheme| name.eq_ignore_ascii_case(scheme));
    let is_basic = name.eq_ignore_ascii_case("basic");
    if has_scheme {
        let after = scheme.end + usize::from(text[scheme.end..].starts_with(':'));
        start = after + count_blanks(&text.as_bytes()[after..]);
        if start == after {
            return None;
        }
        let parameters = ["token=\"", "token='", "token=\\\"", "token="];
        let parameter = parameters.iter().find(|name| text[start..].starts_with(**name));
        start += parameter.map_or(0, |name| name.len());
    }
    let value = unquoted_range(text, start);
    let secret = text.get(value.clone())?;
    let is_known = match has_scheme {
        true => is_basic && is_user_and_password(secret) || looks_like_token(secret),
        false => {
            secret.len() >= SCHEMELESS_BYTES_MIN && looks_like_token(secret) && !secret.contains(['/', ':'])
        }
    };
    let is_secret = is_known && is_literal(text, &value);
    let end = value.end.max(word.end);
    let secrets = is_secret.then_some((AssignmentKind::Credentials, value)).into_iter().collect();
    Some(AssignmentReading { secrets, end, window_end: start + WINDOW_BYTES })
}

/// Reads the cookies of a header, or of an option of `curl`.
pub fn read_cookies(text: &str, word: Range<usize>) -> Option<AssignmentReading> {
    let is_short_option = text[word.clone()].starts_with('-');
    if is_short_option && !is_argument_of(text, word.start, &["curl"]) {
        return None;
    }
    let start = match is_short_option || text[..word.start].ends_with("--") {
        true => option_start(text, word.end),
        false => value_start(text, word.end, &HEADER_OPERATORS)
            .or_else(|| text[word.end..].starts_with(' ').then_some(word.end + 1))?,
    };
    let window_end = text.floor_char_boundary(start + WINDOW_BYTES);
    let header = text[start..window_end].split(['\n', '"', '\'', '`', '<', '>']).next()?;
    let header = header.split(r"\n").next()?;
    let mut secrets = Vec::new();
    let mut position = start;
    for pair in header.split_inclusive(';') {
        if let Some((name, value)) = pair.split_once('=') {
            let value_start = position + name.len() + 1;
            let value = value.split([' ', '\t', '\r', ',', ';', '\\', ')']).next().unwrap_or_default();
            let value = value.trim_end_matches(['.', ':', '?']);
            // The name of the header may stand before the cookie once more.
            let name = name.trim().rsplit([' ', ':']).next().unwrap_or_default();
            if is_session_cookie(name, value) {
                secrets.push((AssignmentKind::Cookie, value_start..value_start + value.len()));
            }
        }
        position += pair.len();
    }
    Some(AssignmentReading { secrets, end: start + header.len(), window_end: start + WINDOW_BYTES })
}

/// Returns the start of the value of a header whose name ends at `name_end`: behind one of `operators`, and behind quotes,
/// which may be escaped. Behind `=` and `,`, which stand in code, the value has quotes.
fn value_start(text: &str, name_end: usize, operators: &[char]) -> Option<usize> {
    let bytes = text.as_bytes();
    let before = name_end + count_signs(&bytes[name_end..]);
    let operator_start = before + count_blanks(&bytes[before..]);
    let operator = text[operator_start..].chars().next().filter(|c| operators.contains(c))?;
    let after = operator_start + operator.len_utf8();
    let start = after + count_blanks(&bytes[after..]);
    let signs = count_signs(&bytes[start..]);
    (operator == ':' || signs > 0).then_some(start + signs)
}

/// Returns the start of the value of an option that ends at `end`, behind a space or `=` and a quote.
fn option_start(text: &str, end: usize) -> usize {
    let bytes = text.as_bytes();
    let after = end + usize::from(bytes.get(end) == Some(&b'='));
    let start = after + count_blanks(&bytes[after..]);
    start + count_signs(&bytes[start..])
}

/// Returns the number of quotes, brackets and backslashes with which `bytes` begin.
fn count_signs(bytes: &[u8]) -> usize {
    let is_sign = |byte: &u8| matches!(byte, b'"' | b'\'' | b'`' | b'\\' | b']' | b'[');
    // The backslash of an escaped space, as in `Cookie:\ sid=…`, is one too.
    let signs = bytes.iter().take(SIGNS_MAX).take_while(|byte| is_sign(byte)).count();
    signs + usize::from(signs > 0 && bytes[signs - 1] == b'\\' && bytes.get(signs) == Some(&b' '))
}

/// Returns whether a value is no placeholder, no reference and no call.
fn is_literal(text: &str, value: &Range<usize>) -> bool {
    let secret = &text[value.clone()];
    secret.len() >= VALUE_BYTES_MIN
        && !is_placeholder(secret)
        && !is_reference(secret)
        && !is_code_open(text.as_bytes().get(value.end).copied())
}

/// Returns whether a value looks like a token.
fn looks_like_token(value: &str) -> bool {
    looks_random(value) || looks_scrambled(value)
}

/// Returns whether a value is the Base64 of a user and a password.
fn is_user_and_password(value: &str) -> bool {
    let bytes = decode_base64(value).unwrap_or_default();
    let pair = std::str::from_utf8(&bytes).ok().and_then(|text| text.split_once(':'));
    pair.is_some_and(|(user, password)| {
        !password.is_empty() && !user.contains(char::is_control) && !password.contains(char::is_control)
    })
}

/// Returns the bytes of a Base64 text, or `None` if it is none.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    if digits.is_empty() || digits.len() % 4 == 1 || text.len() - digits.len() > 2 {
        return None;
    }
    let (mut bytes, mut bits, mut length) = (Vec::new(), 0_u32, 0);
    for digit in digits.bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = (bits << 6 | u32::from(value)) & 0xffff;
        length += 6;
        if length >= 8 {
            length -= 8;
            bytes.push(u8::try_from(bits >> length & 0xff).ok()?);
        }
    }
    Some(bytes)
}

/// Returns whether a cookie identifies a session. Settings, such as a theme, do not.
fn is_session_cookie(name: &str, value: &str) -> bool {
    const SESSION_NAME_PARTS: [&str; 9] =
        ["sess", "sid", "auth", "token", "jwt", "login", "remember", "csrf", "xsrf"];
    let name = name.to_ascii_lowercase();
    let is_id = name.rsplit(['-', '_', '.']).next() == Some("id");
    let is_named = is_id || SESSION_NAME_PARTS.iter().any(|part| name.contains(part));
    let is_code = value.contains(['(', '{', '[']) || value.contains('.') && is_attribute_path(value);
    value.len() >= VALUE_BYTES_MIN
        && !name.contains(' ')
        && !is_code
        && !is_placeholder(value)
        && !is_reference(value)
        && (is_named && (value.bytes().any(|byte| byte.is_ascii_digit()) || looks_scrambled(value))
            || value.len() >= 20 && looks_random(value))
}
