//! Repair of JSON with single invalid characters: bytes that are not UTF-8, unpaired surrogate escapes, and the numbers
//! `NaN` and `Infinity`. Structural damage such as missing brackets is not repaired.

/// A repaired copy of a record.
pub(crate) struct RepairedJson {
    /// The repaired bytes. They are valid UTF-8.
    pub(crate) bytes: Vec<u8>,
    /// The repairs, as text for a problem report.
    pub(crate) reason: String,
}

/// The replacement for an unpaired surrogate escape. It has the same length, so the repair works in place.
const SURROGATE_REPLACEMENT: &[u8] = b"\\ufffd";

/// Numbers that Python's `json` module writes by default and JSON does not allow.
const NON_JSON_NUMBERS: [&[u8]; 3] = [b"-Infinity", b"Infinity", b"NaN"];

/// Returns a repaired copy of `bytes`, or `None` if they contain no repairable character. Linear in the length.
pub(crate) fn repair_json(bytes: &[u8]) -> Option<RepairedJson> {
    let (mut text, mut reasons) = match std::str::from_utf8(bytes) {
        Ok(_) => (bytes.to_vec(), Vec::new()),
        Err(_) => {
            let lossy = String::from_utf8_lossy(bytes).into_owned().into_bytes();
            (lossy, vec!["replaced bytes that are not UTF-8 by U+FFFD".to_owned()])
        }
    };
    let (surrogates, numbers) = replace_in_place(&mut text);
    if surrogates > 0 {
        reasons.push(format!("replaced {surrogates} half surrogate pair(s) by U+FFFD"));
    }
    if numbers > 0 {
        reasons.push(format!("read {numbers} NaN or infinite number(s) as zero"));
    }
    if reasons.is_empty() {
        return None;
    }
    Some(RepairedJson { bytes: text, reason: reasons.join("; ") })
}

/// Replaces unpaired surrogates and non-JSON numbers in place without a change of length. Returns the number of
/// replaced surrogates and the number of replaced numbers.
fn replace_in_place(text: &mut [u8]) -> (usize, usize) {
    let (mut surrogates, mut numbers) = (0, 0);
    let mut in_string = false;
    let mut index = 0;
    while index < text.len() {
        index += match text[index] {
            b'"' => {
                in_string = !in_string;
                1
            }
            b'\\' if in_string => match classify_surrogate(&text[index..]) {
                Some(SurrogateEscape::Pair) => 12,
                Some(SurrogateEscape::Half) => {
                    text[index..index + SURROGATE_REPLACEMENT.len()].copy_from_slice(SURROGATE_REPLACEMENT);
                    surrogates += 1;
                    6
                }
                None => 2,
            },
            b'-' | b'I' | b'N' if !in_string => {
                match NON_JSON_NUMBERS.iter().find(|name| text[index..].starts_with(name)) {
                    // The replacement is `0` and spaces, because `null` is longer than `NaN`.
                    Some(name) => {
                        text[index..index + name.len()].fill(b' ');
                        text[index] = b'0';
                        numbers += 1;
                        name.len()
                    }
                    None => 1,
                }
            }
            _ => 1,
        };
    }
    (surrogates, numbers)
}

/// The kind of a surrogate escape.
enum SurrogateEscape {
    /// A high surrogate followed by a low surrogate: a valid pair of 12 bytes.
    Pair,
    /// An unpaired surrogate.
    Half,
}

/// Returns the kind of the escape at the start of `text`, or `None` if it is no surrogate escape.
fn classify_surrogate(text: &[u8]) -> Option<SurrogateEscape> {
    let high = 0xd800..0xdc00;
    let low = 0xdc00..0xe000;
    let first = unicode_escape(text)?;
    if high.contains(&first) {
        let second = text.get(6..).and_then(unicode_escape);
        return Some(match second {
            Some(second) if low.contains(&second) => SurrogateEscape::Pair,
            _ => SurrogateEscape::Half,
        });
    }
    low.contains(&first).then_some(SurrogateEscape::Half)
}

/// Returns the UTF-16 code unit of a `\uXXXX` escape at the start of `text`.
fn unicode_escape(text: &[u8]) -> Option<u32> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a6_only_invalid_characters_are_replaced() {
        for (text, expected) in [
            (r#"{"a":"\ud83d\ude00"}"#, None),
            (r#"{"a":"\\ud800"}"#, None),
            (r#"{"a":"NaN -Infinity"}"#, None),
            (r#"{"a":-1}"#, None),
            (r#"{"a":"\ud83d"}"#, Some(r#"{"a":"\ufffd"}"#)),
            (r#"{"a":"\ude00\ud83d\ude00"}"#, Some(r#"{"a":"\ufffd\ud83d\ude00"}"#)),
            (r#"{"a":"\ud83d\ud83d\ude00"}"#, Some(r#"{"a":"\ufffd\ud83d\ude00"}"#)),
            (r#"{"a":NaN,"b":-Infinity}"#, Some(r#"{"a":0  ,"b":0        }"#)),
            (r#"{"a":"\ud8"#, None),
        ] {
            let actual =
                repair_json(text.as_bytes()).map(|repaired| String::from_utf8(repaired.bytes).unwrap());
            assert_eq!(actual.as_deref(), expected, "{text}");
        }
    }
}
