//! Makes JSON readable that is right but for single characters: bytes that are not UTF-8, escapes of half a surrogate
//! pair, and the numbers `NaN` and `Infinity`. It mends no structure.

/// A repaired copy and what was done to it.
pub(crate) struct RepairedJson {
    pub(crate) bytes: Vec<u8>,
    pub(crate) reason: String,
}

/// The replacement for half a surrogate pair, as an escape of the same length.
const SURROGATE_REPLACEMENT: &[u8] = b"\\ufffd";

/// Numbers that JSON does not have but Python writes.
const NON_JSON_NUMBERS: [&[u8]; 3] = [b"-Infinity", b"Infinity", b"NaN"];

/// Returns a repaired copy of `bytes`; `None` when there is nothing of this kind to repair.
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

/// Replaces in place, keeping every length; returns how many surrogates and how many numbers.
fn replace_in_place(text: &mut [u8]) -> (usize, usize) {
    let (mut surrogates, mut numbers) = (0, 0);
    let mut in_string = false;
    let mut at = 0;
    while at < text.len() {
        at += match text[at] {
            b'"' => {
                in_string = !in_string;
                1
            }
            b'\\' if in_string => match classify_surrogate(&text[at..]) {
                Some(SurrogateEscape::Pair) => 12,
                Some(SurrogateEscape::Half) => {
                    text[at..at + SURROGATE_REPLACEMENT.len()].copy_from_slice(SURROGATE_REPLACEMENT);
                    surrogates += 1;
                    6
                }
                None => 2,
            },
            b'-' | b'I' | b'N' if !in_string => {
                match NON_JSON_NUMBERS.iter().find(|name| text[at..].starts_with(name)) {
                    // `null` would not fit in the place of `NaN`.
                    Some(name) => {
                        text[at..at + name.len()].fill(b' ');
                        text[at] = b'0';
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

/// A surrogate escape, classified.
enum SurrogateEscape {
    /// A high one followed by a low one.
    Pair,
    /// One without its other half.
    Half,
}

/// Returns what the escape at the start of `text` is; `None` when it is no surrogate.
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

/// Returns the code unit of a `\uXXXX` escape at the start of `text`.
fn unicode_escape(text: &[u8]) -> Option<u32> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a6_only_what_is_broken_is_replaced() {
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
            let found =
                repair_json(text.as_bytes()).map(|repaired| String::from_utf8(repaired.bytes).unwrap());
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }
}
